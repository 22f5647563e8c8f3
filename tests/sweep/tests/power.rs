//! A loss of power at any moment: what was waited for is there, or the database says that it is not.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::process::Command;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use stepwell_store::{SqliteOptions, SqliteStore, Store as _, StoreError};
use stepwell_sweep::power::{Did, Disk, Left, read, shim};
use tempfile::{TempDir, tempdir};

/// What a life of the victim is told: entries of each writer, their size, and more.
type Life<'a> = (u64, usize, &'a [&'a str]);

/// Runs the victim once for each life, and gives all that it did to the disk.
fn recorded(lives: &[Life<'_>], forgets_syncs: bool) -> Vec<Did> {
    let scratch = tempdir().unwrap();
    // The directory's own path may hold links, and names are compared as they are given.
    let dir = scratch.path().canonicalize().unwrap().join("data");
    let log = scratch.path().join("log");
    for (number, (entries, size, more)) in lives.iter().enumerate() {
        let mut victim = Command::new(env!("CARGO_BIN_EXE_power-victim"));
        victim.arg(&dir).args([number.to_string(), entries.to_string(), size.to_string()]).args(*more);
        victim.env("LD_PRELOAD", shim().unwrap()).env("DISK_DIR", &dir).env("DISK_LOG", &log);
        if forgets_syncs {
            victim.env("DISK_FORGETS_SYNCS", "1");
        }
        let status = victim.status().unwrap();
        assert!(status.success(), "{status}");
    }
    read(&log).unwrap()
}

/// A run and the last of its entries that somebody was told of.
type Told = Vec<(i64, u64)>;

/// What became of the database after a loss of power.
#[derive(Debug, PartialEq, Eq)]
enum Fared {
    /// All that was told is there.
    Whole,
    /// It has lost something and says so.
    Refused,
    /// It has lost something and goes on.
    Silent(String),
}

fn fared(disk: &Disk, left: Left, random: &mut SmallRng, told: &Told) -> Fared {
    let dir: TempDir = tempdir().unwrap();
    disk.lose_power(left, random, dir.path()).unwrap();
    let store = match SqliteStore::open(dir.path(), SqliteOptions::default()) {
        Ok(store) => store,
        Err(StoreError::Behind { .. }) => return Fared::Refused,
        Err(error) => return Fared::Silent(format!("it cannot be opened: {error}")),
    };
    for (run, seq) in told {
        let journal = store.read().journal(*run);
        let journal = match journal {
            Ok(journal) => journal,
            Err(error) => return Fared::Silent(format!("the journal of run {run} cannot be read: {error}")),
        };
        if journal.len() as u64 <= *seq {
            return Fared::Silent(format!("entry {seq} of run {run} is gone, the journal has {}", journal.len()));
        }
        let right =
            |(seq, entry): &(u64, Vec<u8>)| entry.chunks(8).all(|eight| eight == &seq.to_le_bytes()[..eight.len()]);
        assert!(journal.iter().all(right), "an entry of run {run} is not what was written");
    }
    Fared::Whole
}

/// Plays the log, and loses power at so many moments of it: at random ones, and at once after somebody was told something.
fn lose_power(log: &[Did], moments: usize, ways: &[Left], seed: u64) -> Vec<(usize, Left, Fared)> {
    let mut random = SmallRng::seed_from_u64(seed);
    let notes = |did: &Did| matches!(did, Did::Wrote(path, ..) if Path::new(path).ends_with("notes"));
    let after_notes: Vec<usize> = (0..log.len()).filter(|at| notes(&log[*at])).collect();
    let mut at: Vec<usize> = (0..moments)
        .map(|n| match n % 2 {
            0 => random.random_range(0..log.len()),
            _ => after_notes[random.random_range(0..after_notes.len())],
        })
        .collect();
    at.push(log.len() - 1);
    at.sort_unstable();
    at.dedup();
    let (mut disk, mut told, mut seen) = (Disk::new(), Told::new(), Vec::new());
    let mut next = at.into_iter().peekable();
    for (number, did) in log.iter().enumerate() {
        disk.play(did).unwrap();
        if let Did::Wrote(_, _, data) = did
            && notes(did)
        {
            let line = String::from_utf8_lossy(data).into_owned();
            let (run, seq) = line.trim().split_once(' ').unwrap();
            let (run, seq) = (run.parse().unwrap(), seq.parse().unwrap());
            told.retain(|(of, _)| *of != run);
            told.push((run, seq));
        }
        if next.next_if_eq(&number).is_some() {
            for &left in ways {
                seen.push((number, left, fared(&disk, left, &mut random, &told)));
            }
        }
    }
    seen
}

const WAYS: [Left; 5] = [Left::Nothing, Left::Names, Left::Some, Left::Some, Left::All];

fn seed() -> u64 {
    std::env::var("SEED").map_or(7, |text| text.parse().unwrap())
}

#[test]
fn what_was_waited_for_survives_a_loss_of_power_at_any_moment() {
    // Closed in order, not closed, and large enough for the write-ahead log to be emptied under way.
    let lives: [Life<'_>; 4] = [(40, 200, &[]), (60, 300, &["--dies"]), (30, 100, &["--dies"]), (40, 200, &[])];
    let log = recorded(&lives, false);
    let seen = lose_power(&log, 120, &WAYS, seed());
    let large = recorded(&[(250, 60_000, &["--dies"]), (10, 100, &[])], false);
    let seen_large = lose_power(&large, 16, &[Left::Nothing, Left::Some], seed());
    for (number, left, fared) in seen.iter().chain(&seen_large) {
        assert_eq!(*fared, Fared::Whole, "after operation {number}, {left:?}");
    }
    println!(
        "{} losses of power, {} operations of the disk: nothing lost",
        seen.len() + seen_large.len(),
        log.len() + large.len()
    );
    assert!(seen.len() + seen_large.len() > 300);
}

/// The check can fail: a commit that does not wait for the disk is caught by it.
#[test]
fn a_missing_sync_is_caught() {
    for (what, more, forgets) in [("synchronous=NORMAL", &["--normal"][..], false), ("no sync at all", &[], true)] {
        let log = recorded(&[(40, 200, more), (40, 200, &[more, &["--dies"]].concat())], forgets);
        let seen = lose_power(&log, 60, &WAYS, seed());
        let lost = seen.iter().filter(|(_, _, fared)| *fared != Fared::Whole).count();
        println!("{what}: {lost} of {} losses of power lose what was waited for", seen.len());
        assert!(lost > 0, "{what} is not noticed");
    }
}

/// Where the mark outlived what it speaks of, the database does not go on as if nothing had been.
#[test]
fn a_database_that_lost_what_was_acknowledged_refuses_to_start() {
    for (what, more, forgets) in [("synchronous=NORMAL", &["--normal"][..], false), ("no sync at all", &[], true)] {
        let log = recorded(&[(40, 200, &[more, &["--dies"]].concat())], forgets);
        let seen = lose_power(&log, 60, &[Left::Only(".mark")], seed());
        let count = |which: fn(&Fared) -> bool| seen.iter().filter(|(_, _, fared)| which(fared)).count();
        let (refused, silent) = (count(|f| *f == Fared::Refused), count(|f| matches!(f, Fared::Silent(_))));
        println!("{what}: of {} losses of power {refused} are refused, {silent} pass in silence", seen.len());
        assert!(refused > 0, "{what}");
        for (number, _, fared) in &seen {
            assert!(!matches!(fared, Fared::Silent(_)), "{what}, operation {number}: {fared:?}");
        }
    }
}

/// What no kill and no loss of power does, but people do.
#[test]
fn an_older_copy_and_a_log_taken_away_are_refused() {
    let write = |dir: &Path, life: &str, more: &[&str]| {
        let mut victim = Command::new(env!("CARGO_BIN_EXE_power-victim"));
        assert!(victim.arg(dir).args([life, "20", "100"]).args(more).status().unwrap().success());
    };
    let refused =
        |dir: &Path| matches!(SqliteStore::open(dir, SqliteOptions::default()), Err(StoreError::Behind { .. }));
    let scratch = tempdir().unwrap();
    let (dir, db) = (scratch.path().join("data"), scratch.path().join("data/stepwell.db"));
    write(&dir, "0", &[]);
    std::fs::copy(&db, scratch.path().join("older")).unwrap();
    write(&dir, "1", &["--dies"]);
    let wal = scratch.path().join("data/stepwell.db-wal");
    let kept = std::fs::read(&wal).unwrap();
    std::fs::remove_file(&wal).unwrap();
    assert!(refused(&dir), "its write-ahead log was taken away");
    std::fs::write(&wal, kept).unwrap();
    assert!(!refused(&dir), "it is back");
    std::fs::copy(scratch.path().join("older"), &db).unwrap();
    assert!(refused(&dir), "an older copy");
    // A person takes it on.
    std::fs::remove_file(dir.join("stepwell.mark")).unwrap();
    assert!(!refused(&dir));
}
