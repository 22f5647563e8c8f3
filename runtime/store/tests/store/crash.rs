//! The store on disk under `kill -9`: what was said to be durable is there.
//!
//! The test runs its own binary as the victim: it appends as fast as it can, says on its standard output what is durable, and
//! is killed at some point of that. How far it came does not matter.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use stepwell_store::{RunFilter, RunKey, Store};
use tempfile::tempdir;

use crate::subject::{numbered, open, start};

const DIRECTORY: &str = "STEPWELL_STORE_CRASH_DIRECTORY";
const WRITERS: u64 = 4;

#[test]
fn what_was_durable_survives_a_kill() {
    let directory = tempdir().unwrap();
    // The second round recovers from the first one's end, and so on.
    for lines in [1, 40, 400, 3] {
        let reported = run_and_kill(directory.path(), lines);
        assert!(reported.len() >= lines);
        check(directory.path(), &reported);
    }
}

/// Every line says a run and the last durable sequence number of it.
fn run_and_kill(directory: &Path, after_lines: usize) -> Vec<(RunKey, u64)> {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim", "--ignored", "--nocapture"])
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut reported = Vec::new();
    let mut read = |limit: usize| {
        while reported.len() < limit
            && let Some(Ok(line)) = lines.next()
        {
            reported.extend(parse(&line));
        }
    };
    read(after_lines);
    victim.kill().unwrap();
    // What it had said before it died counts too.
    read(usize::MAX);
    victim.wait().unwrap();
    reported
}

/// Other lines are the test harness's. One that was cut short by the kill has no full stop.
fn parse(line: &str) -> Option<(RunKey, u64)> {
    let (run, seq) = line.strip_prefix("durable ")?.strip_suffix('.')?.split_once(' ')?;
    Some((run.parse().unwrap(), seq.parse().unwrap()))
}

fn check(directory: &Path, reported: &[(RunKey, u64)]) {
    let store = open(directory);
    for &(run, seq) in reported {
        let journal = store.read().journal(run).unwrap();
        assert!(journal.len() as u64 > seq, "entry {seq} of run {run} was durable, the journal has {}", journal.len());
    }
    let all = RunFilter { limit: 1_000, ..RunFilter::default() };
    for run in store.read().runs(&all).unwrap().runs {
        let journal = store.read().journal(run.key).unwrap();
        assert!(journal.iter().skip(1).all(|(seq, entry)| entry == &seq.to_le_bytes()));
    }
}

#[test]
#[ignore = "run and killed by `what_was_durable_survives_a_kill`"]
fn victim() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let store = open(Path::new(&directory));
    let begun = store.read().runs(&RunFilter { limit: 1_000, ..RunFilter::default() }).unwrap().runs.len();
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let store = &store;
            scope.spawn(move || write_for_ever(store, &format!("run_{begun}_{writer}"), writer + 1));
        }
    });
}

/// Ends by the kill, or because nobody listens any more.
fn write_for_ever(store: &dyn Store, name: &str, entries_between_waits: u64) {
    let run = start(store, name);
    for seq in 1.. {
        let ticket = store.append(numbered(run, seq));
        if seq % entries_between_waits == 0 {
            store.flush(ticket).unwrap();
            if writeln!(std::io::stdout(), "durable {run} {seq}.").is_err() {
                return;
            }
        }
    }
}
