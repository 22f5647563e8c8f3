//! Random programs of the simulator's generator, played by a real guest, dying at points that the seed chooses.

#![cfg(feature = "sweep")]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use stepwell_sweep::case::Side;
use stepwell_sweep::script;
use stepwell_sweep::sweep::{Way, sweep};
use stepwell_sweep::table::Table;

/// Programs, and points of each in each way of gathering.
const PROGRAMS: u64 = 14;
const POINTS: usize = 5;

#[test]
fn random_programs_bear_deaths() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    // Each run of the tests takes other programs; what fails is named with its seed.
    let first = number("SEED").unwrap_or_else(|| u64::from(std::process::id()) * 1_000);
    let programs = number("PROGRAMS").unwrap_or(PROGRAMS);
    println!("SEED={first}");
    let player = script::player().unwrap();
    let mut table = Table::default();
    for seed in first..first + programs {
        let subject = script::subject(&player, seed).unwrap();
        // What races against time ends differently each time: such runs are held against the rules, not against each other.
        let way = Way { compared: false, most: Some(POINTS), ..Way::whole(seed) };
        match sweep(&subject, Side::World(seed, script::trouble(seed)), way) {
            Ok(part) => table.add(part),
            Err(error) => panic!("program {seed}, without a death: {error:#}"),
        }
    }
    println!("{table}");
    assert!(table.failures.is_empty(), "{} cases did not hold", table.failures.len());
    assert!(table.died() > 0);
}
