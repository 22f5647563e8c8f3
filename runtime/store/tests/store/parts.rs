//! Long entries, which are written in parts: they read as they were given, whatever became of earlier ones.

use rusqlite::Connection;
use stepwell_store::{Action, Append, RunChange, RunKey, SqliteStore, Status, Store, StoreError, Submission};
use tempfile::tempdir;

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, length, numbered, open, start};

for_each_store!(
    WHEN_AWAITED,
    a_long_entry_reads_as_it_was_given_among_short_ones,
    an_entry_whose_commit_failed_is_nothing_and_another_takes_its_place,
    an_entry_that_is_there_is_never_written_over,
    what_follows_a_long_entry_is_durable_after_it,
);

/// Any bytes at all, and none like the next.
fn long(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8) ^ seed).collect()
}

fn entries(store: &dyn Store, run: RunKey) -> Vec<Vec<u8>> {
    store.read().journal(run).unwrap().into_iter().map(|(_, entry)| entry).collect()
}

fn full() -> StoreError {
    StoreError::DiskFull("said by the test".into())
}

fn a_long_entry_reads_as_it_was_given_among_short_ones(subject: Subject) {
    let store = &*subject.store;
    let (run, other) = (start(store, "run_1"), start(store, "run_2"));
    let given = [long(1, 10), long(2, 2 << 20), long(3, 300_000), vec![], long(4, 1 << 20), long(5, 131_072)];
    store.append(Append::entries(other, 1, vec![long(6, 500_000)]));
    store.flush(store.append(Append::entries(run, 1, given.to_vec()))).unwrap();
    assert!(entries(store, run)[1..] == given, "the journal is what it was given");
    assert!(entries(store, other)[1] == long(6, 500_000));
    for from in 0..7 {
        let found = store.read().entries(run, from, 3).unwrap();
        let expected: Vec<_> = (1..).zip(given.clone()).filter(|(seq, _)| *seq >= from).collect();
        let found: Vec<_> = found.into_iter().filter(|(seq, _)| *seq > 0).collect();
        assert!(expected.starts_with(&found) && found.len() >= expected.len().min(2), "from {from}");
    }
}

fn an_entry_whose_commit_failed_is_nothing_and_another_takes_its_place(subject: Subject) {
    let store = &*subject.store;
    let run = start(store, "run_1");
    for (seq, next) in (1..).zip([long(7, 300_000), long(8, 700_000), long(9, 10), long(10, 1 << 20), vec![]]) {
        subject.failures.fail_next_commit(full());
        let lost = store.append(Append::entries(run, seq, vec![long(seq as u8, 600_000)]));
        let stopped = StoreError::Stopped { run, cause: Box::new(full()) };
        assert_eq!(store.flush(lost), Err(full()));
        assert_eq!((length(store, run), store.flush(store.append(numbered(run, seq)))), (seq, Err(stopped)));
        store.recover(run);
        store.flush(store.append(Append::entries(run, seq, vec![next.clone()]))).unwrap();
        assert!(entries(store, run)[seq as usize] == next);
    }
}

fn an_entry_that_is_there_is_never_written_over(subject: Subject) {
    let store = &*subject.store;
    let run = start(store, "run_1");
    store.flush(store.append(Append::entries(run, 1, vec![long(1, 900_000), long(2, 5)]))).unwrap();
    for seq in [0, 1, 2] {
        let error = store.flush(store.append(Append::entries(run, seq, vec![long(3, 900_000)]))).unwrap_err();
        assert!(matches!(error, StoreError::Conflict { expected: 3, got, .. } if got == seq), "{error}");
        store.recover(run);
    }
    assert!(entries(store, run)[1..] == [long(1, 900_000), long(2, 5)]);
    let nobody = store.flush(store.append(Append::entries(run + 1, 0, vec![long(3, 900_000)])));
    assert_eq!(nobody, Err(StoreError::NoSuchRun(run + 1)));
}

fn what_follows_a_long_entry_is_durable_after_it(subject: Subject) {
    let store = &*subject.store;
    let (run, other) = (start(store, "run_1"), start(store, "run_2"));
    store.append(Append::entries(run, 1, vec![long(1, 900_000)]));
    // That somebody waits for another run's has no part of it seen.
    store.flush(store.append(numbered(other, 1))).unwrap();
    assert!(matches!(length(store, run), 1 | 2));
    store.flush(store.append(numbered(run, 2).with_change(RunChange::to(Status::Succeeded, 9)))).unwrap();
    assert!(entries(store, run)[1..] == [long(1, 900_000), 2u64.to_le_bytes().to_vec()]);
}

fn count(database: &Connection, sql: &str) -> u32 {
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

fn with_a_long_entry(store: &SqliteStore, name: &str) -> RunKey {
    let run = start(store, name);
    let batch = Append::entries(run, 1, vec![long(1, 900_000)]).with_change(RunChange::to(Status::Succeeded, 9));
    store.flush(store.append(batch)).unwrap();
    run
}

#[test]
fn a_part_that_is_missing_is_named_and_no_entry_is_made_of_the_others() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let run = with_a_long_entry(&store, "run_1");
    let database = Connection::open(directory.path().join("stepwell.db")).unwrap();
    assert_eq!(count(&database, "SELECT length(entry) FROM journal WHERE seq = 1"), 0);
    database.execute("DELETE FROM parts WHERE number = 3", []).unwrap();
    let read = [store.read().journal(run), store.read().entries(run, 1, 1)];
    for read in read {
        let error = read.unwrap_err();
        let StoreError::Corrupt(what) = &error else { panic!("{error}") };
        assert!(what.contains("parts of entry 1"), "{what}");
    }
}

#[test]
fn what_is_left_of_an_entry_that_never_came_is_no_part_of_the_one_in_its_place() {
    let directory = tempdir().unwrap();
    let run = start(&open(directory.path()), "run_1");
    let database = Connection::open(directory.path().join("stepwell.db")).unwrap();
    for seq in 1..4 {
        for number in 0..20 {
            database.execute("INSERT INTO parts VALUES (?1, ?2, ?3, ?4)", (run, seq, number, long(9, 98_304))).unwrap();
        }
    }
    let store = open(directory.path());
    let given = [long(1, 900_000), long(2, 10), long(3, 200_000)];
    store.flush(store.append(Append::entries(run, 1, given.to_vec()))).unwrap();
    assert!(entries(&store, run)[1..] == given);
}

#[test]
fn parts_go_with_their_run() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let (run, _) = (with_a_long_entry(&store, "run_1"), with_a_long_entry(&store, "run_2"));
    let database = Connection::open(directory.path().join("stepwell.db")).unwrap();
    let all = count(&database, "SELECT count(*) FROM parts");
    assert!(all > 10, "{all}");
    let submit = |action| store.submit(Submission { actions: vec![action], answer: None }).wait().unwrap();
    assert!(submit(Action::ForgetRun { run, ended: (Status::Succeeded, 9) }).forgotten[0]);
    while submit(Action::ForgetRows { most: 3 }).more[0] {}
    assert_eq!(count(&database, "SELECT count(*) FROM parts"), all / 2);
    assert_eq!(count(&database, "SELECT count(*) FROM parts WHERE run = 1"), 0);
}
