//! When things become durable, and who may wait for it and how.

use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use stepwell_store::ledger::{Ledger, Rows};
use stepwell_store::{Gather, Grouped, RunKey, SqliteLedger, SqliteOptions, Store, StoreError};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, in_memory, length, new_run, numbered, on_disk, start};

for_each_store!(
    Gather::default(),
    what_nobody_waits_for_becomes_durable_by_itself,
    many_threads_share_the_commits,
    steps_without_a_waiter_cost_few_commits,
    dropping_the_store_commits_what_is_queued,
);

/// Bounded only so that a failure is a message and not a test that hangs.
fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} did not come");
        thread::yield_now();
    }
}

fn what_nobody_waits_for_becomes_durable_by_itself(subject: Subject) {
    let store = &*subject.store;
    let run = start(store, "run_1");
    store.append(numbered(run, 1));
    until("the entry", || length(store, run) == 2);
}

#[test]
fn a_full_queue_is_committed_without_a_waiter() {
    let gather = Gather { linger: None, max_records: 10 };
    for subject in [in_memory(gather), on_disk(gather)] {
        let store = &*subject.store;
        let run = start(store, "run_1");
        for seq in 1..10 {
            store.append(numbered(run, seq));
        }
        assert_eq!(length(store, run), 1);
        store.append(numbered(run, 10));
        until("the entries", || length(store, run) == 11);
    }
}

fn many_threads_share_the_commits(subject: Subject) {
    let store = &*subject.store;
    const ENTRIES: u64 = 200;
    let write = |name: String| {
        let run = start(store, &name);
        for seq in 1..=ENTRIES {
            let ticket = store.append(numbered(run, seq));
            if seq % 3 == 0 {
                store.flush(ticket).unwrap();
                assert!(length(store, run) > seq);
            }
        }
        store.flush(store.append(numbered(run, ENTRIES + 1))).unwrap();
        run
    };
    let runs: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || write(format!("run_{n}")))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for run in runs {
        let journal = store.read().journal(run).unwrap();
        assert_eq!(journal.len() as u64, ENTRIES + 2);
        assert!(journal.iter().skip(1).all(|(seq, entry)| entry == &seq.to_le_bytes()));
    }
}

fn steps_without_a_waiter_cost_few_commits(subject: Subject) {
    let store = &*subject.store;
    let run = start(store, "run_1");
    let (commits, begun) = (store.commits(), Instant::now());
    let last = (1..=10_000).map(|seq| store.append(numbered(run, seq))).last().unwrap();
    store.flush(last).unwrap();
    // One for each time that has passed or each thousand records, and the last one's.
    let allowed = begun.elapsed().as_millis() as u64 / 5 + 10 + 3;
    let made = store.commits() - commits;
    assert!(made <= allowed, "{made} commits, {allowed} allowed");
}

fn dropping_the_store_commits_what_is_queued(subject: Subject) {
    let run = start(&*subject.store, "run_1");
    let ticket = subject.store.append(numbered(run, 1));
    let (durable, started) = (subject.store.durable(ticket), subject.store.start_run(new_run("run_2")));
    drop(subject.store);
    assert_eq!(durable.wait(), Ok(()));
    assert!(started.wait().is_ok());
}

#[test]
fn awaiting_works_within_a_runtime_and_so_does_blocking() {
    for subject in [in_memory(WHEN_AWAITED), on_disk(WHEN_AWAITED)] {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let store: Arc<dyn Store> = subject.store.into();
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let store = store.clone();
                runtime.spawn(async move {
                    let stepwell_store::Started::New(run) = store.start_run(new_run(&format!("run_{n}"))).await? else {
                        panic!("the store was empty")
                    };
                    for seq in 1..=20 {
                        store.durable(store.append(numbered(run, seq))).await?;
                    }
                    // More often than a task's budget allows without a pause.
                    for seq in 21..=300 {
                        store.flush(store.append(numbered(run, seq)))?;
                    }
                    Ok::<_, StoreError>(run)
                })
            })
            .collect();
        for task in tasks {
            let run = runtime.block_on(task).unwrap().unwrap();
            assert_eq!(length(&*store, run), 301);
        }
    }
}

/// Appends to these runs, each in a task of its own, on one thread, as on a machine with one core.
fn append_at_once(store: &Arc<dyn Store>, runs: &[RunKey]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let append = |&run: &RunKey| {
        let store = store.clone();
        runtime.spawn(async move { store.durable(store.append(numbered(run, 1))).await })
    };
    let tasks: Vec<_> = runs.iter().map(append).collect();
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    });
}

/// The first that waits does not keep the others from the same commit.
#[test]
fn tasks_that_are_ready_share_a_commit() {
    for subject in [in_memory(WHEN_AWAITED), on_disk(WHEN_AWAITED)] {
        let store: Arc<dyn Store> = subject.store.into();
        let runs: Vec<_> = (0..20).map(|n| start(&*store, &format!("run_{n}"))).collect();
        let commits = store.commits();
        append_at_once(&store, &runs);
        assert_eq!(store.commits(), commits + 1);
    }
}

/// Knows which threads have written.
struct Attributed {
    ledger: SqliteLedger,
    threads: Arc<Mutex<Vec<ThreadId>>>,
}

impl Ledger for Attributed {
    type Reads = <SqliteLedger as Ledger>::Reads;

    fn transaction(
        &mut self,
        work: &mut dyn FnMut(&mut dyn Rows) -> stepwell_store::Result<()>,
    ) -> stepwell_store::Result<()> {
        self.threads.lock().unwrap().push(thread::current().id());
        self.ledger.transaction(work)
    }
}

/// So that what the others do meanwhile does not wait for the disk as well.
#[test]
fn who_waits_alone_commits_and_where_several_wait_the_writer_does() {
    let directory = tempfile::tempdir().unwrap();
    let (ledger, reads) = SqliteLedger::open(directory.path(), SqliteOptions::default()).unwrap();
    let threads = Arc::default();
    let ledger = Attributed { ledger, threads: Arc::clone(&threads) };
    let store: Arc<dyn Store> = Arc::new(Grouped::over(ledger, reads, WHEN_AWAITED).unwrap());
    let runs: Vec<_> = (0..3).map(|n| start(&*store, &format!("run_{n}"))).collect();
    let own = thread::current().id();
    for (runs, by_itself) in [(&runs[..1], true), (&runs[1..], false)] {
        threads.lock().unwrap().clear();
        append_at_once(&store, runs);
        let threads = threads.lock().unwrap();
        assert!(threads.len() == 1 && (threads[0] == own) == by_itself, "{threads:?}, this is {own:?}");
    }
}
