//! Mutation tests of the rules by which runs begin and schedules fire: under each planted fault a table of theirs must fail.
//!
//! Run with `cargo test -p stepwell-core --features planted-faults --test it planted`.

#![cfg(feature = "planted-faults")]

use std::panic::catch_unwind;

use stepwell_core::policy::fault::{Fault, plant};

use crate::{admission, schedule};

const TABLES: [fn(); 4] = [
    admission::each_limit_holds_by_itself_and_the_first_is_named,
    schedule::on_time_it_fires_and_what_was_missed_is_made_up_for_up_to_the_limit,
    schedule::where_nothing_is_made_up_for_a_time_may_be_a_minute_late,
    schedule::with_an_open_run_it_passes_over_waits_or_fires_as_it_is_told,
];

/// A fault is planted in its thread alone.
fn survives(fault: Fault) -> bool {
    plant(Some(fault));
    let all_hold = TABLES.iter().all(|table| catch_unwind(table).is_ok());
    plant(None);
    all_hold
}

#[test]
fn every_planted_fault_of_a_policy_is_caught() {
    assert!(TABLES.iter().all(|table| catch_unwind(table).is_ok()), "without a fault all of them hold");
    let survivors: Vec<_> = Fault::ALL.iter().filter(|fault| survives(**fault)).collect();
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
