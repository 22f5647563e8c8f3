//! How long a module's turns took lately. Most modules' are over in some microseconds; where they were long, the next is begun on the
//! threads for long turns at once (`long.rs`), or each of them would keep others waiting for its first milliseconds.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// Turns are long that take longer than this on average, in microseconds. Those of TypeScript workflows take a tenth of it, but for the first
/// of each run, which makes the instance.
const LONG_US: u32 = 1_000;
/// No turn counts for more: a single one says little of the next.
const MOST_US: u32 = 8_000;
/// So many turns back hardly count any more.
const LATELY: u32 = 8;

/// Of one module, whoever runs it.
#[derive(Debug, Default)]
pub(crate) struct TurnLengths {
    /// In microseconds; recent turns count more.
    average: AtomicU32,
}

impl TurnLengths {
    /// A turn took so long.
    pub(crate) fn add(&self, took: Duration) {
        // Of turns that end at the same time one may be left out.
        self.average.store(average(self.average.load(Relaxed), took), Relaxed);
    }

    /// Whether the next is likely to be long.
    pub(crate) fn are_long(&self) -> bool {
        self.average.load(Relaxed) > LONG_US
    }
}

/// The average with one more turn.
fn average(before: u32, took: Duration) -> u32 {
    let took = u32::try_from(took.as_micros()).unwrap_or(MOST_US).min(MOST_US);
    (before * (LATELY - 1) + took) / LATELY
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After turns of so many microseconds, again and again, whether they are long.
    fn after(turns: &[u64]) -> bool {
        let lengths = TurnLengths::default();
        turns.iter().cycle().take(100 * turns.len()).for_each(|us| lengths.add(Duration::from_micros(*us)));
        lengths.are_long()
    }

    #[test]
    fn they_are_long_where_the_last_were_on_average() {
        assert!(!after(&[50]));
        // The first of a run is longer: its instance is made within it.
        assert!(!after(&[1_500, 100, 100]));
        assert!(after(&[1_100]));
        assert!(after(&[20, 4_000, 20]));
        // The machine has kept one of them from its core.
        assert!(!after(&[&[50; 40][..], &[3_000]].concat()));
    }

    #[test]
    fn a_single_one_says_nothing_of_the_next_however_long_it_was() {
        let lengths = TurnLengths::default();
        lengths.add(Duration::from_secs(3_600));
        assert!(!lengths.are_long());
        lengths.add(Duration::from_secs(3_600));
        assert!(lengths.are_long());
        (0..8).for_each(|_| lengths.add(Duration::from_micros(50)));
        assert!(!lengths.are_long());
    }
}
