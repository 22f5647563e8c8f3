//! Mutation tests of the queue: under each planted fault a test of the suite must fail, with each implementation.
//!
//! Run with `cargo test -p stepwell-store --features planted-faults --test store planted`.

#![cfg(feature = "planted-faults")]

use std::panic::{AssertUnwindSafe, catch_unwind};

use stepwell_store::fault::{Fault, plant};

use crate::admission;
use crate::subject::{Subject, WHEN_AWAITED, in_memory, on_disk};

fn all_hold(subject: fn() -> Subject) -> bool {
    admission::ALL.iter().all(|test| catch_unwind(AssertUnwindSafe(|| test(subject()))).is_ok())
}

/// A fault is planted in its thread alone, and so are commits that somebody waits for.
fn survives(fault: Fault, subject: fn() -> Subject) -> bool {
    plant(Some(fault));
    let survives = all_hold(subject);
    plant(None);
    survives
}

#[test]
fn every_planted_fault_of_the_queue_is_caught() {
    let in_memory: fn() -> Subject = || in_memory(WHEN_AWAITED);
    let on_disk: fn() -> Subject = || on_disk(WHEN_AWAITED);
    for (implementation, subject) in [("in memory", in_memory), ("on disk", on_disk)] {
        assert!(all_hold(subject), "{implementation}: without a fault all of them hold");
        let survivors: Vec<_> = Fault::OF_THE_QUEUE.iter().filter(|fault| survives(**fault, subject)).collect();
        assert!(survivors.is_empty(), "{implementation}: not caught: {survivors:?}");
    }
}
