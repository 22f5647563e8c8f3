//! Mutation tests: each planted fault breaks a rule of the run's state machine, and the simulator must notice.
//!
//! Run with `cargo test -p stepwell-sim --features planted-faults --test mutations`. Without the feature there is nothing to plant.
//! `STEPWELL_FAULT=name` plants one alone.

#![cfg(feature = "planted-faults")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use stepwell_core::fault::{Fault, plant};
use stepwell_sim::run_seed;

/// Seeds that a fault may survive.
const PATIENCE: u64 = 60_000;

#[test]
fn every_planted_fault_is_caught() {
    let only = std::env::var("STEPWELL_FAULT").ok();
    let planted: Vec<Fault> = Fault::ALL
        .iter()
        .copied()
        .filter(|fault| only.as_ref().is_none_or(|only| format!("{fault:?}") == *only))
        .collect();
    assert!(!planted.is_empty(), "there is no fault {only:?}");
    let survivors: Vec<Fault> = std::thread::scope(|scope| {
        let (even, odd): (Vec<_>, Vec<_>) = planted.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let halves = [even, odd].map(|half| {
            scope.spawn(move || {
                half.into_iter().map(|(_, fault)| fault).filter(|fault| survives(*fault)).collect::<Vec<_>>()
            })
        });
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    });
    assert!(survivors.is_empty(), "not caught within {PATIENCE} seeds: {survivors:?}");
}

/// A fault is planted in its thread alone.
fn survives(fault: Fault) -> bool {
    plant(Some(fault));
    let caught = (0..PATIENCE).find_map(|seed| run_seed(seed).err());
    plant(None);
    match caught {
        Some(failure) => {
            println!("{fault:?}: caught by seed {}: {}", failure.seed, failure.invariant);
            false
        }
        None => true,
    }
}
