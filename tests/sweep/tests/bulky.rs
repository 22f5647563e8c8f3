//! A run whose turns are committed in pieces, dying at every point: before, between and after any two of them.

#![cfg(feature = "sweep")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use stepwell_sweep::case::Side;
use stepwell_sweep::subject::{ADDRESS, Subject};
use stepwell_sweep::sweep::{Way, sweep};

#[test]
fn what_is_written_in_pieces_bears_a_death_between_any_two() {
    let input = format!("{{\"shop\":\"{ADDRESS}\"}}");
    let subject = Subject::of_source("bulky", include_str!("../src/bulky.ts"), &input).unwrap();
    let table = sweep(&subject, Side::Shop, Way::whole(1)).unwrap();
    println!("{table}");
    assert!(table.failures.is_empty(), "{} cases did not hold", table.failures.len());
    assert!(table.died() > 40);
}
