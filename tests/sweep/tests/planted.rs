//! Mutation tests: each planted fault breaks a rule of the machine, the engine or the store, and the sweep must notice.

#![cfg(feature = "sweep")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;

use stepwell_sweep::case::Side;
use stepwell_sweep::plant::Planted;
use stepwell_sweep::stories::{self, Modules, STORIES};
use stepwell_sweep::subject::{ADDRESS, Subject};
use stepwell_sweep::sweep::{Way, sweep};
use stepwell_sweep::table::Failure;

fn mixed() -> Subject {
    let input = format!("{{\"shop\":\"{ADDRESS}\"}}");
    let mut subject = Subject::of_source("mixed", include_str!("../src/mixed.ts"), &input).unwrap();
    subject.faults = vec!["POST /labels#1=status:503".to_owned()];
    subject
}

/// In which order its two writes are answered is left to chance, so that only the rules are held against it.
fn way() -> Way {
    Way { compared: false, ..Way::whole(1) }
}

#[test]
fn every_planted_fault_is_caught() {
    let mixed = mixed();
    assert_caught(Planted::all(), |way| sweep(&mixed, Side::Shop, way).unwrap().failures);
}

/// The same for entries that are written in parts, by a run that has such.
#[test]
fn every_planted_fault_of_long_entries_is_caught() {
    let input = format!("{{\"shop\":\"{ADDRESS}\"}}");
    let bulky = Subject::of_source("bulky", include_str!("../src/bulky.ts"), &input).unwrap();
    assert_caught(Planted::of_parts(), |way| sweep(&bulky, Side::Shop, way).unwrap().failures);
}

/// The same for runs that wait for a place, by the stories of them.
#[test]
fn every_planted_fault_of_the_queue_is_caught() {
    let modules = Modules::build().unwrap();
    let in_line: Vec<_> = STORIES.iter().filter(|story| story.name.starts_with("waiting for")).collect();
    assert_caught(Planted::of_the_queue(), |way| {
        let mut tables = in_line.iter().map(|story| stories::sweep(story, &modules, way).unwrap());
        tables.find_map(|table| (!table.failures.is_empty()).then_some(table.failures)).unwrap_or_default()
    });
}

/// Each of these, planted alone, lets a case fail.
fn assert_caught(faults: Vec<Planted>, failures: impl Fn(Way) -> Vec<Failure>) {
    let only = std::env::var("FAULT").ok();
    let mut survivors = Vec::new();
    for planted in faults {
        if only.as_ref().is_some_and(|only| !format!("{planted:?}").contains(only.as_str())) {
            continue;
        }
        let way = Way { planted: Some(planted), stop_early: true, patience: Duration::from_secs(4), ..way() };
        match failures(way).first() {
            Some(failure) => {
                let why: String = failure.why.lines().next().unwrap_or("").chars().take(160).collect();
                println!("{planted:?}: caught: {}: {why}", failure.case);
            }
            None => survivors.push(planted),
        }
    }
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}

/// What catches the faults holds without them.
#[test]
fn without_a_fault_the_same_holds() {
    let table = sweep(&mixed(), Side::Shop, way()).unwrap();
    println!("{table}");
    assert!(table.failures.is_empty(), "{} cases did not hold", table.failures.len());
}
