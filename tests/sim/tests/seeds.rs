//! Seeds. `STEPWELL_SEED=n` runs one alone; `STEPWELL_SEEDS=n` that many; `STEPWELL_FIRST_SEED=n` from there.

#![allow(clippy::unwrap_used)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_sim::{Stats, run_seed};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

#[test]
fn every_seed_holds() {
    if let Some(seed) = number("STEPWELL_SEED") {
        match run_seed(seed) {
            Ok(stats) => println!("seed {seed} holds: {stats:?}"),
            Err(failure) => panic!("{failure}"),
        }
        return;
    }
    let first = number("STEPWELL_FIRST_SEED").unwrap_or(0);
    let last = first + number("STEPWELL_SEEDS").unwrap_or(10_000);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let total = Mutex::new((Stats::default(), 0u64));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= last || failures.lock().unwrap().len() >= 20 {
                        return;
                    }
                    match run_seed(seed) {
                        Ok(stats) => add(&mut total.lock().unwrap(), stats),
                        Err(failure) => failures.lock().unwrap().push(failure),
                    }
                }
            });
        }
    });
    let (sum, blocked) = *total.lock().unwrap();
    println!("seeds {first} to {}: {sum:?}, {blocked} of the runs blocked", last - 1);
    let mut failures = failures.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    let lines: Vec<String> = failures.iter().map(|f| format!("seed {}: {}", f.seed, f.invariant)).collect();
    if let Some(failure) = failures.iter().min_by_key(|failure| failure.detail.len()) {
        panic!("{}\n\nthe shortest of them:\n{failure}", lines.join("\n"));
    }
    // Seeds in which nothing goes wrong would show nothing.
    assert!(
        last - first < 1_000
            || sum.crashes > 0
                && sum.sends > 0
                && sum.parks > 0
                && sum.rebuilds > 0
                && sum.asks > 0
                && sum.resolved > 0
                && sum.retried > 0
                && sum.reran > 0
                && sum.restored > 0
                && blocked > 0
    );
}

fn add((sum, blocked): &mut (Stats, u64), stats: Stats) {
    sum.entries += stats.entries;
    sum.crashes += stats.crashes;
    sum.sends += stats.sends;
    sum.parks += stats.parks;
    sum.asks += stats.asks;
    sum.resolved += stats.resolved;
    sum.retried += stats.retried;
    sum.rebuilds += stats.rebuilds;
    sum.reran += stats.reran;
    sum.restored += stats.restored;
    *blocked += u64::from(stats.blocked);
}
