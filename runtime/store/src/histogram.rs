//! How long things take: counts by bucket, cheap enough to be kept for every commit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The buckets' upper bounds, in microseconds. What takes longer than the last is counted all the same.
pub const BOUNDS_US: [u64; 16] = [
    50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 5_000_000,
    30_000_000,
];

/// Counts of durations, from any thread.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// What a histogram has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// By bucket, those of lower ones not included; the last one has no bound.
    pub buckets: [u64; BOUNDS_US.len() + 1],
    /// All durations together, in microseconds.
    pub sum_us: u64,
}

impl Histogram {
    /// Counts one.
    pub fn add(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let at = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// What has been counted so far.
    #[must_use]
    pub fn counted(&self) -> Counted {
        let buckets = std::array::from_fn(|at| self.buckets[at].load(Ordering::Relaxed));
        Counted { buckets, sum_us: self.sum_us.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_counted_in_the_first_bucket_that_holds_it() {
        let histogram = Histogram::default();
        for us in [0, 50, 51, 30_000_000, 30_000_001] {
            histogram.add(Duration::from_micros(us));
        }
        let counted = histogram.counted();
        assert_eq!((counted.buckets[0], counted.buckets[1]), (2, 1));
        assert_eq!(counted.buckets[15..], [1, 1]);
        assert_eq!((counted.buckets.iter().sum::<u64>(), counted.sum_us), (5, 60_000_102));
    }
}
