//! What is printed of a seed that did not hold: the program, the journal, and what the world saw.

use std::fmt::Write as _;

use stepwell_core::journal::codec;
use stepwell_core::journal::print::{Printer, Times};

use crate::Failure;
use crate::driver::{Driver, START_MS};

/// All of it.
#[must_use]
pub fn failure(driver: &Driver, invariant: String) -> Failure {
    let mut detail = format!("{:#?}\n\n", driver.program);
    let entries: Vec<_> =
        (0..).zip(driver.store.entries()).filter_map(|(seq, bytes)| codec::decode(seq, bytes).ok()).collect();
    let durable = driver.store.durable().len();
    let _ =
        writeln!(detail, "journal ({durable} entries of it durable):\n{}", Printer::print(&entries, Times::Relative));
    let _ = writeln!(detail, "world:");
    for sent in &driver.world.sends {
        let body = sent.what.body.as_deref().map(String::from_utf8_lossy);
        let _ = writeln!(
            detail,
            "{:>+9} process {} operation {} attempt {} {} {} {body:?} key {:?}: came {}, done {}, {:?}",
            sent.at_ms - START_MS,
            sent.epoch,
            sent.attempt.operation,
            sent.attempt.number,
            sent.what.method,
            sent.what.url,
            sent.key,
            sent.arrived,
            sent.done,
            sent.evidence
        );
    }
    Failure { seed: driver.seed, invariant, detail }
}
