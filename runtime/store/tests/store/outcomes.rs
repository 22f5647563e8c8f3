//! A run's outcome: as it was told, however long it is, and written once.

use rusqlite::Connection;
use stepwell_core::ids::RunId;
use stepwell_store::{Append, Errand, NewRun, Reply, RunChange, RunKey, Status, Store, StoreError};
use tempfile::tempdir;

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, new_run, numbered, open, start, with_module};

for_each_store!(
    WHEN_AWAITED,
    what_an_entry_has_in_it_is_told_of_as_it_was_given,
    a_child_that_has_succeeded_with_much_is_told_of_again,
);

const LONG: usize = 50_000;

fn long(letter: &str) -> String {
    format!("\"{}\"", letter.repeat(LONG))
}

/// So long that its entry is written in parts.
fn longer(letter: &str) -> String {
    format!("\"{}\"", letter.repeat(18 * LONG))
}

/// Ends a run with an entry that has the outcome in it, as far as it is told.
fn end(store: &dyn Store, run: RunKey, seq: u64, status: Status, outcome: &str, told: &str) {
    let change = RunChange { outcome: Some(outcome.into()), ..RunChange::to(status, 2_000) };
    let entries = vec![b"before".to_vec(), format!("1{{\"ended\":{told}}}").into_bytes()];
    store.flush(store.append(Append::entries(run, seq, entries).with_change(change))).unwrap();
}

fn outcome(store: &dyn Store, run: RunKey) -> Option<String> {
    store.read().run_by_number(run).unwrap().unwrap().outcome
}

fn what_an_entry_has_in_it_is_told_of_as_it_was_given(subject: Subject) {
    let store = with_module(&subject);
    let cases = [
        (long("é"), long("é")),
        (long("a"), long("b")),
        (long("a"), "1".into()),
        ("1".into(), "1".into()),
        (longer("é"), longer("é")),
        (longer("a"), longer("b")),
        (longer("a"), "1".into()),
    ];
    for (number, (given, told)) in cases.iter().enumerate() {
        let run = start(store, &format!("run_{number}"));
        end(store, run, 1, Status::Failed, given, told);
        assert_eq!(outcome(store, run).as_ref(), Some(given), "{number}");
        // A run that is taken up again has none, and then another.
        let again = numbered(run, 3).with_change(RunChange::to(Status::Queued, 3_000));
        store.flush(store.append(Append { reopens: true, ..again })).unwrap();
        assert_eq!(outcome(store, run), None);
        let last = if number % 2 == 0 { long("c") } else { longer("é") };
        end(store, run, 4, Status::Succeeded, &last, &last);
        assert_eq!(outcome(store, run).as_ref(), Some(&last));
        assert_eq!(store.read().run(&RunId::new(format!("run_{number}"))).unwrap().unwrap().outcome, Some(last));
    }
}

fn a_child_that_has_succeeded_with_much_is_told_of_again(subject: Subject) {
    let store = with_module(&subject);
    let begun = |name: &str, again| Errand::Start {
        op: 0,
        run: Box::new(NewRun { run_key: Some("k".into()), ..new_run(name) }),
        awaited: true,
        stays: true,
        again,
    };
    let parent = start(store, "run_1");
    store.flush(store.append(Append { errands: vec![begun("run_2", false)], ..numbered(parent, 1) })).unwrap();
    let child = store.read().run(&RunId::new("run_2")).unwrap().unwrap().key;
    end(store, child, 1, Status::Succeeded, &longer("é"), &longer("é"));
    let failed = numbered(parent, 2).with_change(RunChange::to(Status::Failed, 3_000));
    store.flush(store.append(failed)).unwrap();
    let again = numbered(parent, 3).with_change(RunChange::to(Status::Queued, 4_000));
    let again = Append { reopens: true, errands: vec![begun("run_3", true)], ..again };
    store.flush(store.append(again)).unwrap();
    let told: Vec<_> =
        store.read().inbox(parent, 0).unwrap().into_iter().map(|event| (event.name, event.payload)).collect();
    let reply = (Reply::Succeeded.as_str().to_owned(), longer("é"));
    assert_eq!(told, [reply.clone(), reply]);
}

#[test]
fn it_is_on_disk_once_and_missed_where_its_entry_is_gone() {
    let directory = tempdir().unwrap();
    let store = open(directory.path());
    let run = start(&store, "run_1");
    end(&store, run, 1, Status::Succeeded, &long("é"), &long("é"));
    let database = Connection::open(directory.path().join("stepwell.db")).unwrap();
    let length = |sql: &str| database.query_row(sql, [], |row| row.get::<_, u32>(0)).unwrap() as usize;
    assert!(length("SELECT length(outcome) FROM runs") < 50);
    assert!(length("SELECT length(entry) FROM journal WHERE seq = 2") > LONG);
    assert_eq!(outcome(&store, run), Some(long("é")));
    database.execute("DELETE FROM journal WHERE seq = 2", []).unwrap();
    let error = store.read().run_by_number(run).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(what) if what.contains("outcome")), "{error}");
    let run = start(&store, "run_2");
    end(&store, run, 1, Status::Succeeded, &longer("é"), &longer("é"));
    assert!(length("SELECT max(length(outcome)) FROM runs") < 50);
    assert_eq!(outcome(&store, run), Some(longer("é")));
    database.execute("DELETE FROM parts WHERE number = 2", []).unwrap();
    let error = store.read().run_by_number(run).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt(what) if what.contains("outcome")), "{error}");
}
