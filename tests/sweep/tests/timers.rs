//! Ten thousand runs that overslept while no process was there: each fires once, and questions are answered meanwhile.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod sleeper;

use std::collections::BTreeSet;
use std::path::Path;

use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{Entry, Record, RunOutcome, Started};
use stepwell_core::json::Json;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::run::Machine;
use stepwell_engine::store::{Append, NewRun, RunChange, RunFilter, SqliteOptions, SqliteStore, Status, Store as _};
use stepwell_engine::{Engine, Reach, Settings};
use stepwell_store::{NewModule, Reads as _, Started as Begun};
use stepwell_sweep::life::{client, entries};

use sleeper::sleeper;

const RUNS: usize = 10_000;
/// Long ago, in ms since the Unix epoch.
const BEGAN_MS: u64 = 1_700_000_000_000;

/// Writes the runs down as an engine leaves them that was ended while they slept.
fn sleeping_runs(dir: &Path) {
    let store = SqliteStore::open(dir, SqliteOptions::default()).unwrap();
    let bytes = sleeper();
    let digest = Digest::of(&bytes);
    let module = NewModule { digest: digest.clone(), bytes, description: "{}".into(), added_at_ms: BEGAN_MS };
    store.put_module(module).wait().unwrap();
    let started: Vec<_> = (0..RUNS)
        .map(|n| {
            let run = RunId::new(format!("run_{n}"));
            let first = Machine::first_entry(
                BEGAN_MS,
                Started {
                    run: run.clone(),
                    workflow: "sleeper".into(),
                    digest: digest.clone(),
                    input: Json::null(),
                    retry: RetryPolicy::default(),
                    step_timeout_ms: None,
                    deadline_ms: None,
                    parent: None,
                    continues: None,
                },
            );
            let asleep = Record::SleepBegun { op: 0, ms: 1_000, due_ms: BEGAN_MS + 1_000 };
            let asleep = codec::encode(&Entry { at_ms: BEGAN_MS, record: asleep });
            store.start_run(NewRun {
                run,
                workflow: "sleeper".into(),
                digest: digest.clone(),
                run_key: None,
                created_at_ms: BEGAN_MS,
                first: vec![first, asleep],
                inbox: Vec::new(),
                tags: Vec::new(),
                begins_at_ms: None,
                retry_of: None,
                rerun: None,
                queue: stepwell_store::QueueAs::default(),
            })
        })
        .collect();
    let mut last = None;
    for begun in started {
        let Begun::New(key) = begun.wait().unwrap() else { panic!("the run is there") };
        let waits = RunChange { wake_at_ms: Some(BEGAN_MS + 1_000), ..RunChange::to(Status::Waiting, BEGAN_MS) };
        last = Some(store.append(Append::entries(key, 2, Vec::new()).with_change(waits)));
    }
    store.flush(last.unwrap()).unwrap();
    assert_eq!(store.read().due_timers(u64::MAX, u32::MAX).unwrap().len(), RUNS);
}

#[test]
fn ten_thousand_overdue_timers_fire_once_each_while_reads_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    sleeping_runs(dir.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let answered_meanwhile = runtime.block_on(async {
        let engine = Engine::open(Settings::new(dir.path()), client(), Reach::default()).unwrap();
        let begun = std::time::Instant::now();
        engine.recover().unwrap();
        let mut counts = BTreeSet::new();
        loop {
            // What a status page asks, over and over, on a thread beside those that wake the runs.
            let asking = engine.clone();
            let left = tokio::task::spawn_blocking(move || {
                let reads = asking.store().read();
                assert!(reads.run(&RunId::new("run_77")).unwrap().is_some());
                let page = reads.runs(&RunFilter { limit: 20, ..RunFilter::default() }).unwrap();
                assert_eq!(page.runs.len(), 20);
                reads.unfinished().unwrap().0.len()
            });
            let left = left.await.unwrap();
            counts.insert(left);
            if left == 0 {
                break;
            }
        }
        println!("{RUNS} timers in {:.1?}; read in {} states on the way", begun.elapsed(), counts.len());
        engine.stop().await;
        counts.into_iter().filter(|left| (1..RUNS).contains(left)).count()
    });
    drop(runtime);
    // Reads that only come through before and after would be seen by there being no state in between.
    assert!(answered_meanwhile >= 5, "{answered_meanwhile} states were seen while the timers fired");
    let reads = stepwell_store::read_only(dir.path()).unwrap();
    for key in 1..=RUNS as i64 {
        let journal: Vec<Vec<u8>> = reads.journal(key).unwrap().into_iter().map(|(_, bytes)| bytes).collect();
        let count = |which: fn(&Record) -> bool| entries(&journal).unwrap().iter().filter(|e| which(&e.record)).count();
        assert_eq!(count(|record| matches!(record, Record::TimerFired { .. })), 1, "run {key}");
        assert_eq!(count(|record| matches!(record, Record::Delivered { .. })), 1, "run {key}");
        let ended = |record: &Record| matches!(record, Record::Ended { outcome: RunOutcome::Succeeded(_), .. });
        assert_eq!(count(ended), 1, "run {key}");
        assert_eq!(count(|record| matches!(record, Record::Resumed)), 1, "run {key} was taken up once");
    }
    assert!(reads.next_wake().unwrap().is_none());
}
