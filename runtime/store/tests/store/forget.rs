//! Runs that are taken away: which, in which parts, and what stays of the numbers that they had.

use stepwell_core::policy::idempotency::ANSWER_KEPT_MS;
use stepwell_store::{
    Action, Answer, Gather, LogRow, NewEvent, NewRun, RunChange, RunFilter, RunKey, SqliteStore, Started, Status,
    Store, StoreError, Submission,
};
use tempfile::tempdir;

use crate::subject::{Subject, for_each_store, length, new_run, numbered, open, start};

for_each_store!(
    Gather::default(),
    a_run_goes_at_once_with_all_that_is_its,
    what_goes_on_and_what_is_unknown_stays,
    a_run_that_is_gone_has_let_go_of_its_names,
    a_key_is_held_by_the_last_run_that_it_started,
    answers_go_so_many_at_a_time,
);

fn end(store: &dyn Store, run: RunKey, seq: u64, unknown: Option<u32>) {
    let mut batch = numbered(run, seq).with_change(RunChange::to(Status::Succeeded, 9));
    batch.unknown = unknown;
    store.flush(store.append(batch)).unwrap();
}

fn forget(store: &dyn Store, run: RunKey, ended: (Status, u64)) -> bool {
    let actions = vec![Action::ForgetRun { run, ended }];
    store.submit(Submission { actions, answer: None }).wait().unwrap().forgotten[0]
}

/// Takes away what runs have left, so many rows at a time. In how many parts.
fn sweep(store: &dyn Store, most: u32) -> usize {
    let part = || {
        let actions = vec![Action::ForgetRows { most }];
        store.submit(Submission { actions, answer: None }).wait().unwrap().more[0]
    };
    1 + std::iter::from_fn(|| part().then_some(())).count()
}

const ENDED: (Status, u64) = (Status::Succeeded, 9);

fn a_run_goes_at_once_with_all_that_is_its(subject: Subject) {
    let store = &*subject.store;
    let (run, last) = (start(store, "run_1"), start(store, "run_2"));
    for seq in 1..9 {
        store.append(numbered(run, seq));
    }
    end(store, run, 9, None);
    assert_eq!(store.read().ended(Status::Succeeded, 0, 10).unwrap().len(), 1);
    assert!(forget(store, run, ENDED));
    assert_eq!(store.read().run_by_number(run).unwrap(), None, "nobody finds half of it");
    sweep(store, 4);
    assert_eq!(length(store, run), 0);
    assert!(!forget(store, run, ENDED), "there is none");
    let left = store.read().counts(None).unwrap();
    assert_eq!(left, [("checkout".to_owned(), Status::Queued, 1)]);
    assert_eq!(store.read().runs(&RunFilter::default()).unwrap().runs[0].key, last);
    let late = store.flush(store.append(numbered(run, 10)));
    assert!(matches!(late, Err(StoreError::NoSuchRun(_))), "{late:?}");
}

fn what_goes_on_and_what_is_unknown_stays(subject: Subject) {
    let store = &*subject.store;
    let runs: Vec<RunKey> = (0..4).map(|n| start(store, &format!("run_{n}"))).collect();
    end(store, runs[1], 1, Some(1));
    end(store, runs[2], 1, None);
    end(store, runs[3], 1, None);
    assert!(!forget(store, runs[0], ENDED), "it has not ended");
    assert!(!forget(store, runs[1], ENDED), "something is unknown");
    assert!(!forget(store, runs[2], (Status::Failed, 9)), "it has ended otherwise");
    assert!(!forget(store, runs[2], (Status::Succeeded, 8)), "and at another time");
    assert!(!forget(store, runs[3], ENDED), "it is the newest");
    assert!(forget(store, runs[2], ENDED));
    let unknown: Vec<_> = store.read().ended(Status::Succeeded, 0, 10).unwrap().iter().map(|r| r.has_unknown).collect();
    assert_eq!(unknown, [true, false]);
}

fn a_run_that_is_gone_has_let_go_of_its_names(subject: Subject) {
    let store = &*subject.store;
    let tags = vec![("colour".to_owned(), "red".to_owned())];
    let named = NewRun { run_key: Some("k".into()), tags: tags.clone(), ..new_run("run_1") };
    let Started::New(run) = store.start_run(named.clone()).wait().unwrap() else { panic!("it is new") };
    start(store, "run_2");
    end(store, run, 1, None);
    assert!(forget(store, run, ENDED));
    let tagged = RunFilter { tags, ..RunFilter::default() };
    assert!(store.read().runs(&tagged).unwrap().runs.is_empty());
    let again = store.start_run(named).wait().unwrap();
    assert!(matches!(again, Started::New(key) if key > run), "{again:?}");
    assert_eq!(store.read().runs(&tagged).unwrap().runs.len(), 1);
    // What is still to go is the first one's alone.
    sweep(store, 1);
    let Started::Existing { key, .. } =
        store.start_run(NewRun { run_key: Some("k".into()), ..new_run("run_9") }).wait().unwrap()
    else {
        panic!("it has the run key")
    };
    assert_eq!((length(store, run), length(store, key)), (0, 1));
}

fn answer(key: &str, at_ms: u64, kept: bool) -> Answer {
    Answer {
        key: key.into(),
        principal: "me".into(),
        fingerprint: "f".into(),
        at_ms,
        kept,
        status: 201,
        body: "{}".into(),
    }
}

fn a_key_is_held_by_the_last_run_that_it_started(subject: Subject) {
    let store = &*subject.store;
    store
        .put_module(stepwell_store::NewModule {
            digest: new_run("").digest,
            bytes: Vec::new(),
            description: "{}".into(),
            added_at_ms: 1,
        })
        .wait()
        .unwrap();
    let start_two = |at_ms| {
        let actions = ["a", "b"].map(|name| Action::Start(new_run(&format!("run_{name}_{at_ms}")))).to_vec();
        store.submit(Submission { actions, answer: Some(answer("k", at_ms, true)) }).wait()
    };
    let runs = start_two(5).unwrap().runs;
    start(store, "run_9");
    runs.iter().for_each(|run| end(store, *run, 1, None));
    let old = 5 + ANSWER_KEPT_MS;
    assert!(forget(store, runs[0], ENDED));
    assert_eq!(start_two(old), Err(StoreError::AlreadyAnswered));
    assert!(forget(store, runs[1], ENDED));
    assert_eq!(start_two(old - 1), Err(StoreError::AlreadyAnswered), "it is still given again");
    assert_eq!(start_two(old).unwrap().runs.len(), 2);
}

fn answers_go_so_many_at_a_time(subject: Subject) {
    let store = &*subject.store;
    for n in 0..5 {
        let answer = Some(answer(&format!("k{n}"), n, false));
        store.submit(Submission { actions: Vec::new(), answer }).wait().unwrap();
    }
    let left = || (0..5).filter(|n| store.read().answer(&format!("k{n}")).unwrap().is_some()).count();
    let forget = || {
        let actions = vec![Action::ForgetAnswers { before_ms: 4, most: 3 }];
        store.submit(Submission { actions, answer: None }).wait().unwrap().more[0]
    };
    assert_eq!((forget(), left()), (true, 2));
    assert_eq!((forget(), left()), (false, 1));
}

/// The numbers of the last rows.
fn last_rows(directory: &std::path::Path) -> Vec<i64> {
    let database = rusqlite::Connection::open(directory.join("stepwell.db")).unwrap();
    ["runs", "journal", "inbox"]
        .map(|table| {
            let sql = format!("SELECT ifnull(max(rowid), 0) FROM {table}");
            database.query_row(&sql, [], |row| row.get(0)).unwrap()
        })
        .into()
}

/// An event, a line of the log, two entries and the end.
fn fill(store: &SqliteStore, run: RunKey) {
    let event = NewEvent { run, name: "paid".into(), payload: "1".into(), dedup: None };
    store.send_event(event).wait().unwrap();
    let mut batch = numbered(run, 1);
    batch.logs = vec![LogRow { turn: 1, index: 0, at_ms: 1, level: 2, step: None, text: "hello".into(), fields: None }];
    store.append(batch);
    end(store, run, 2, None);
}

#[test]
fn no_number_is_given_twice_and_the_database_opens_again() {
    let directory = tempdir().unwrap();
    let before = {
        let store = open(directory.path());
        let runs = ["run_1", "run_2"].map(|name| start(&store, name));
        // The newest of all has hardly a row, and none is the last of its table.
        start(&store, "run_3");
        runs.iter().for_each(|run| fill(&store, *run));
        let before = last_rows(directory.path());
        for run in runs {
            assert!(forget(&store, run, ENDED));
        }
        drop(store);
        // Another process finds what was left to go.
        let store = open(directory.path());
        assert!(sweep(&store, 2) > 4);
        assert_eq!(store.read().runs(&RunFilter::default()).unwrap().runs.len(), 1);
        before
    };
    assert_eq!(last_rows(directory.path()), before);
    // The mark knows of as many rows as before, and so does the database.
    let store = open(directory.path());
    let next = start(&store, "run_4");
    fill(&store, next);
    assert!(last_rows(directory.path()).iter().zip(&before).all(|(after, before)| after > before));
    assert_eq!(length(&store, next), 3);
    start(&store, "run_5");
    assert!(forget(&store, next, ENDED));
    assert_eq!(sweep(&store, 100), 1);
    let database = rusqlite::Connection::open(directory.path().join("stepwell.db")).unwrap();
    let rows =
        |table: &str| database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
    let counts: [i64; 5] = ["runs", "journal", "inbox", "logs", "tags"].map(rows);
    // Two runs with an entry each, and the last row of the inbox.
    assert_eq!(counts, [2, 2, 1, 0, 0]);
}
