//! Every example, dying at every point.

#![cfg(feature = "sweep")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use stepwell_sweep::case::Side;
use stepwell_sweep::subject::of_examples;
use stepwell_sweep::sweep::{Way, sweep};
use stepwell_sweep::table::Table;

#[test]
fn every_example_bears_a_death_at_every_point() {
    let seed = std::env::var("SEED").map_or(1, |text| text.parse().unwrap());
    let only = std::env::var("EXAMPLE").ok();
    let mut table = Table::default();
    for subject in of_examples().unwrap() {
        if only.as_ref().is_some_and(|only| *only != subject.name) {
            continue;
        }
        let begun = std::time::Instant::now();
        let part = sweep(&subject, Side::Shop, Way::whole(seed)).unwrap();
        println!("{}: {} deaths in {:.1?}", subject.name, part.died(), begun.elapsed());
        table.add(part);
    }
    println!("{table}");
    assert!(table.failures.is_empty(), "{} cases did not hold", table.failures.len());
    assert!(table.died() > 100);
}
