//! What only the store on disk has: a directory, a lock, a schema, a disk that fills up, rows that others have written.

use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use stepwell_store::{
    Action, Append, NewEvent, Reads, RunChange, RunFilter, RunKey, SqliteOptions, SqliteStore, Status, Store,
    StoreError, Submission, read_only,
};
use tempfile::tempdir;

use crate::subject::{WHEN_AWAITED, length, new_run, numbered, open, start};

fn refused(directory: &Path) -> StoreError {
    SqliteStore::open(directory, SqliteOptions::default()).err().unwrap()
}

/// The database as any other program may open it.
fn database(directory: &Path) -> Connection {
    Connection::open(directory.join("stepwell.db")).unwrap()
}

#[test]
fn everything_is_there_after_opening_again() {
    let directory = tempdir().unwrap();
    let nested = directory.path().join("data/of/stepwell");
    let (run, before) = {
        let store = open(&nested);
        let run = start(&store, "run_1");
        let change = RunChange { wake_at_ms: Some(70), ..RunChange::to(Status::Waiting, 5) };
        store.append(numbered(run, 1).with_change(change));
        let event = NewEvent { run, name: "paid".into(), payload: "1".into(), dedup: Some("k".into()) };
        store.send_event(event).wait().unwrap();
        (run, store.read().run_by_number(run).unwrap())
    };
    assert!(!nested.join("stepwell.db-wal").exists(), "a closed store is one file");
    let store = open(&nested);
    assert_eq!(store.read().run_by_number(run).unwrap(), before);
    assert_eq!((length(&store, run), store.read().inbox(run, 0).unwrap().len()), (2, 1));
    assert_eq!(store.read().due_timers(70, 10).unwrap(), [(70, run)]);
    // The timer of before is moved, and the journal goes on.
    store.flush(store.append(numbered(run, 2).with_change(RunChange::to(Status::Running, 80)))).unwrap();
    assert_eq!(store.read().next_wake().unwrap(), None);
    assert!(start(&store, "run_2") > run);
}

#[test]
fn a_database_that_has_lost_acknowledged_rows_is_refused() {
    let directory = tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let run = start(&open(directory.path()), "run_1");
    std::fs::copy(file("stepwell.db"), file("older")).unwrap();
    let store = open(directory.path());
    store.flush(store.append(numbered(run, 1))).unwrap();
    drop(store);
    std::fs::rename(file("stepwell.db"), file("newest")).unwrap();
    std::fs::copy(file("older"), file("stepwell.db")).unwrap();
    // The run and its first entry; the second one is missing.
    let behind = StoreError::Behind { found: 2, acknowledged: 3, mark: file("stepwell.mark") };
    assert_eq!(refused(directory.path()), behind);
    assert_eq!(refused(directory.path()), behind, "being asked twice changes nothing");
    std::fs::rename(file("newest"), file("stepwell.db")).unwrap();
    assert_eq!(length(&open(directory.path()), run), 2);

    // Whoever deletes the mark takes the older one on. A mark that is no mark says nothing either.
    std::fs::copy(file("older"), file("stepwell.db")).unwrap();
    std::fs::write(file("stepwell.mark"), "00000000000000000003 1\n").unwrap();
    assert_eq!(length(&open(directory.path()), run), 1);
}

#[test]
fn a_database_is_there_as_a_whole_or_not_at_all() {
    let directory = tempdir().unwrap();
    let missing = Some(StoreError::Missing(directory.path().to_owned()));
    assert_eq!(read_only(directory.path()).err(), missing);
    // What a process leaves that dies while it makes one: no reader is shown that, and the next process begins anew.
    for leftover in ["stepwell.db", "stepwell.db.new-journal"] {
        std::fs::write(directory.path().join(leftover), "").unwrap();
    }
    for leftover in ["stepwell.db.new", "stepwell.db.new-wal"] {
        std::fs::write(directory.path().join(leftover), "half a database").unwrap();
    }
    assert_eq!(read_only(directory.path()).err(), missing);
    let store = open(directory.path());
    let run = start(&store, "run_1");
    let names =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.contains("new")).collect::<Vec<_>>(), [""; 0]);
    // One who only reads may come at any time, also once the writer is gone.
    for store in [Some(store), None] {
        assert_eq!(read_only(directory.path()).unwrap().journal(run).unwrap().len(), 1);
        drop(store);
    }
}

#[test]
fn a_write_ahead_log_without_its_database_is_not_overwritten() {
    let directory = tempdir().unwrap();
    let log = directory.path().join("stepwell.db-wal");
    std::fs::write(&log, "the last commits").unwrap();
    let error = refused(directory.path());
    assert!(matches!(&error, StoreError::Corrupt(what) if what.contains("without its database")), "{error}");
    assert_eq!(std::fs::read(&log).unwrap(), b"the last commits");
}

#[test]
fn a_second_process_is_refused_and_told_of_the_first() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let error = refused(directory.path());
    let pid = std::process::id();
    assert_eq!(error, StoreError::InUse { directory: directory.path().to_owned(), pid: Some(pid) });
    assert!(error.to_string().contains(&format!("(pid {pid})")), "{error}");
    // An answer that somebody still holds does not keep the directory.
    let held = store.start_run(new_run("run_1"));
    drop(store);
    open(directory.path());
    drop(held);
}

#[test]
fn the_settings_that_were_measured_are_in_force() {
    let directory = tempdir().unwrap();
    let _store = open(directory.path());
    let database = database(directory.path());
    let pragma = |name| database.pragma_query_value(None, name, |row| row.get::<_, rusqlite::types::Value>(0)).unwrap();
    assert_eq!(pragma("page_size"), 8192.into());
    assert_eq!(pragma("journal_mode"), "wal".to_owned().into());
    assert_eq!(pragma("user_version"), 11.into());
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let directory = tempdir().unwrap();
    drop(open(directory.path()));
    database(directory.path()).pragma_update(None, "user_version", 99).unwrap();
    let error = refused(directory.path());
    assert_eq!(error, StoreError::NewerSchema { found: 99, known: 11 });
    assert!(error.to_string().contains("version 99"), "{error}");
    let version: u32 = database(directory.path()).pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 99);
    // The refusal has let go of the lock.
    database(directory.path()).pragma_update(None, "user_version", 11).unwrap();
    open(directory.path());
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let directory = tempdir().unwrap();
    std::fs::write(directory.path().join("stepwell.db"), "these are notes, no database\n".repeat(1_000)).unwrap();
    assert!(matches!(refused(directory.path()), StoreError::Corrupt(_)));
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = refused(&file.join("data"));
    assert!(error.is_of_the_disk() && error.to_string().contains("file/data"), "{error}");
}

#[test]
fn a_full_disk_is_said_and_nothing_of_it_stays() {
    let directory = tempdir().unwrap();
    let small = SqliteOptions { max_size_bytes: Some(1 << 20), gather: WHEN_AWAITED, ..SqliteOptions::default() };
    let store = SqliteStore::open(directory.path(), small).unwrap();
    let (large, other) = (start(&store, "large"), start(&store, "other"));
    let too_much = store.append(Append::entries(large, 1, vec![vec![1; 400 << 10]; 3]));
    assert!(matches!(store.flush(too_much), Err(StoreError::DiskFull(_))));
    let next = store.flush(store.append(numbered(large, 1)));
    assert!(matches!(next, Err(StoreError::Stopped { cause, .. }) if matches!(*cause, StoreError::DiskFull(_))));
    let parts: u32 = database(directory.path()).query_row("SELECT count(*) FROM parts", [], |row| row.get(0)).unwrap();
    assert_eq!(parts, 0, "those that found room are gone");
    store.flush(store.append(numbered(other, 1))).unwrap();
    assert_eq!((length(&store, large), length(&store, other)), (1, 2));
    // What little is left is used up: whoever tries is told, before somebody needs it.
    let trial = || store.submit(Submission { actions: vec![Action::TryWriting], answer: None }).wait();
    assert!(trial().is_ok());
    let little =
        || store.send_event(NewEvent { run: other, name: "e".into(), payload: "1".repeat(30_000), dedup: None });
    while little().wait().is_ok() {}
    assert!(matches!(trial(), Err(StoreError::DiskFull(_))));
    drop(store);

    // With room again, all of it works.
    let store = open(directory.path());
    store.flush(store.append(Append::entries(large, 1, vec![vec![1; 400 << 10]; 3]))).unwrap();
    assert_eq!((length(&store, large), length(&store, other)), (4, 2));
}

#[test]
fn another_program_in_the_way_is_said() {
    let directory = tempdir().unwrap();
    let impatient =
        SqliteOptions { busy_timeout: Duration::from_millis(1), gather: WHEN_AWAITED, ..SqliteOptions::default() };
    let store = SqliteStore::open(directory.path(), impatient).unwrap();
    let run = start(&store, "run_1");
    let other = database(directory.path());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(matches!(store.flush(store.append(numbered(run, 1))), Err(StoreError::Busy(_))));
    assert_eq!(length(&store, run), 1, "reading is not hindered");
    other.execute_batch("ROLLBACK").unwrap();
    store.recover(run);
    store.flush(store.append(numbered(run, 1))).unwrap();
}

#[test]
fn unreadable_rows_of_one_run_hinder_no_other() {
    let directory = tempdir().unwrap();
    let runs: Vec<RunKey> = {
        let store = open(directory.path());
        let runs = (0..4).map(|n| start(&store, &format!("run_{n}"))).collect::<Vec<_>>();
        for seq in 1..10 {
            for &run in &runs {
                store.append(numbered(run, seq));
            }
        }
        runs
    };
    let damage = database(directory.path());
    damage.execute("DELETE FROM journal WHERE run = ?1 AND seq = 4", [runs[0]]).unwrap();
    damage.execute("UPDATE runs SET status = 77 WHERE id = ?1", [runs[1]]).unwrap();
    damage.execute("UPDATE runs SET workflow = CAST(x'ff' AS TEXT) WHERE id = ?1", [runs[2]]).unwrap();
    drop(damage);

    let store = open(directory.path());
    let gap = store.read().journal(runs[0]).unwrap_err();
    assert!(matches!(&gap, StoreError::Corrupt(what) if what.contains("entry 4 of run 1")), "{gap}");
    let list = store.read().runs(&RunFilter::default()).unwrap();
    let mut readable: Vec<_> = list.runs.iter().map(|run| run.key).collect();
    let mut unreadable: Vec<_> = list.unreadable.iter().map(|run| run.key).collect();
    readable.sort_unstable();
    unreadable.sort_unstable();
    assert_eq!((readable, unreadable), (vec![runs[0], runs[3]], vec![runs[1], runs[2]]));
    // A name that cannot be read keeps nobody from taking the run up.
    let (unfinished, set_aside) = store.read().unfinished().unwrap();
    let unfinished: Vec<_> = unfinished.iter().map(|run| run.key).collect();
    assert_eq!((unfinished, set_aside.len()), (vec![runs[0], runs[2], runs[3]], 1));
    assert_eq!(set_aside[0].key, runs[1]);
    // Nor does writing to it, in the same transaction.
    let (broken, well) = (store.append(numbered(runs[1], 10)), store.append(numbered(runs[3], 10)));
    assert_eq!(store.flush(well), Ok(()));
    assert!(matches!(store.flush(broken), Err(StoreError::Corrupt(_))));
    assert_eq!(length(&store, runs[3]), 11);
}

#[test]
fn the_write_ahead_log_begins_anew_while_commits_go_on() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let run = start(&store, "run_1");
    let log = || std::fs::metadata(directory.path().join("stepwell.db-wal")).unwrap().len();
    let entry = vec![7; 512 << 10];
    let (mut written, mut seq) = (0, 0);
    // Once more is written than the log has, it was written over.
    while written < 3 * log() {
        seq += 1;
        store.flush(store.append(Append::entries(run, seq, vec![entry.clone()]))).unwrap();
        written += entry.len() as u64;
        assert!(written < 400 << 20, "the log has {} bytes and was never begun anew", log());
    }
    assert_eq!(length(&store, run), seq + 1);
}

#[test]
fn a_reader_of_the_log_holds_no_commit_up() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let run = start(&store, "run_1");
    let reader = database(directory.path());
    reader.execute_batch("BEGIN; SELECT count(*) FROM runs").unwrap();
    // Several times what a checkpoint begins at: none comes to the log's end while somebody reads in it.
    for seq in 1..=64 {
        store.flush(store.append(Append::entries(run, seq, vec![vec![7; 512 << 10]]))).unwrap();
    }
    assert_eq!(length(&store, run), 65);
    let seen: i64 = reader.query_row("SELECT count(*) FROM journal", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 1, "the reader sees what it has begun with");
    reader.execute_batch("COMMIT").unwrap();
}
