//! The machine's target under planted faults: each of these breaks a rule, and the target must notice.
//!
//! Run with `cargo test -p stepwell-fuzz --no-default-features --features planted-faults --test planted`. The simulator, whose programs
//! make sense, must notice every fault; bytes come to these.

#![cfg(feature = "planted-faults")]
#![allow(clippy::print_stdout)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use stepwell_core::fault::{Fault, plant};

/// Inputs that a fault may survive.
const PATIENCE: u64 = 20_000;

const NOTICED: &[Fault] = &[
    Fault::RenewUnknownKey,
    Fault::ResendOnce,
    Fault::SendBeforeRecord,
    Fault::EarlyTimer,
    Fault::EarlyAttempt,
    Fault::RerunCompleted,
    Fault::ReplayOutOfOrder,
    Fault::ExtraAttempt,
    Fault::RetryNonRetriable,
    Fault::RetryAbandoned,
    Fault::ShareAfterTrap,
    Fault::ClampRetryAfter,
    Fault::NewestWaitFirst,
    Fault::CancelTooEarly,
    Fault::EndTooEarly,
];

#[test]
fn planted_faults_are_noticed() {
    // Thousands of panics are meant here, and each would be printed.
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<_> = NOTICED.iter().filter(|fault| !noticed(**fault)).collect();
    let _ = std::panic::take_hook();
    assert!(missed.is_empty(), "not noticed within {PATIENCE} inputs: {missed:?}");
}

/// A fault is planted in its thread alone.
fn noticed(fault: Fault) -> bool {
    plant(Some(fault));
    let first = (0..PATIENCE).find(|seed| {
        let mut rng = SmallRng::seed_from_u64(*seed);
        let input: Vec<u8> = (0..rng.random_range(0..3_000)).map(|_| rng.random()).collect();
        catch_unwind(AssertUnwindSafe(|| stepwell_fuzz::machine::machine(&input))).is_err()
    });
    plant(None);
    println!("{fault:?}: noticed by input {first:?}");
    first.is_some()
}
