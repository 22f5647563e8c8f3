//! What every implementation does when a commit fails: nothing that follows a lost write is ever kept.

use stepwell_store::{NewEvent, RunChange, Status, StoreError};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, length, new_run, numbered, start};

for_each_store!(
    WHEN_AWAITED,
    a_failed_commit_fails_everything_in_it,
    a_failed_commit_stops_its_runs_and_no_others,
    nothing_of_a_failed_commit_is_seen,
    a_write_that_cannot_be_kept_spoils_no_other,
);

fn full() -> StoreError {
    StoreError::DiskFull("said by the test".into())
}

fn a_failed_commit_fails_everything_in_it(subject: Subject) {
    let store = &*subject.store;
    let (a, b) = (start(store, "a"), start(store, "b"));
    let (ticket_a, ticket_b) = (store.append(numbered(a, 1)), store.append(numbered(b, 1)));
    let event = NewEvent { run: a, name: "paid".into(), payload: "1".into(), dedup: None };
    let (started, sent) = (store.start_run(new_run("c")), store.send_event(event));
    let commits = store.commits();
    subject.failures.fail_next_commit(full());
    assert_eq!(store.flush(ticket_b), Err(full()));
    assert_eq!(store.flush(ticket_a), Err(full()));
    assert_eq!(started.wait(), Err(full()));
    assert_eq!(sent.wait(), Err(full()));
    assert_eq!(store.commits(), commits);
    // Starts and events stop no run: repeated, they are as good as new.
    assert!(store.start_run(new_run("c")).wait().is_ok());
}

fn a_failed_commit_stops_its_runs_and_no_others(subject: Subject) {
    let store = &*subject.store;
    let (lost, other) = (start(store, "lost"), start(store, "other"));
    subject.failures.fail_next_commit(full());
    let ticket = store.append(numbered(lost, 1));
    assert_eq!(store.flush(ticket), Err(full()));

    // The disk is well again. Entries that follow on the lost one, and entries in its place, are refused all the same.
    for seq in [2, 1] {
        let stopped = StoreError::Stopped { run: lost, cause: Box::new(full()) };
        assert_eq!(store.flush(store.append(numbered(lost, seq))), Err(stopped));
    }
    store.flush(store.append(numbered(other, 1))).unwrap();
    assert_eq!((length(store, lost), length(store, other)), (1, 2));

    let queued_before = store.append(numbered(lost, 1));
    store.recover(lost);
    let after = store.append(numbered(lost, 1));
    assert_eq!(store.flush(after), Ok(()));
    assert!(store.flush(queued_before).is_err());
    assert!(store.flush(ticket).is_err());
    assert_eq!(length(store, lost), 2);
}

fn nothing_of_a_failed_commit_is_seen(subject: Subject) {
    let store = &*subject.store;
    let run = start(store, "a");
    let park = |at: u64| RunChange { wake_at_ms: Some(at), ..RunChange::to(Status::Waiting, at) };
    store.flush(store.append(numbered(run, 1).with_change(park(100)))).unwrap();
    let before = store.read().run_by_number(run).unwrap();

    subject.failures.fail_next_commit(full());
    store.append(numbered(run, 2).with_change(park(200)));
    store.append(numbered(run, 3).with_change(RunChange::to(Status::Succeeded, 300)));
    let keyed = || stepwell_store::NewRun { run_key: Some("k".into()), ..new_run("b") };
    assert_eq!(store.start_run(keyed()).wait(), Err(full()));

    assert_eq!(store.read().run_by_number(run).unwrap(), before);
    assert_eq!(store.read().due_timers(1_000, 10).unwrap(), [(100, run)]);
    assert_eq!(length(store, run), 2);
    assert!(matches!(store.start_run(keyed()).wait(), Ok(stepwell_store::Started::New(_))), "the key is still free");
    store.recover(run);
    store.flush(store.append(numbered(run, 2).with_change(park(200)))).unwrap();
    assert_eq!(store.read().due_timers(1_000, 10).unwrap(), [(200, run)]);
}

fn a_write_that_cannot_be_kept_spoils_no_other(subject: Subject) {
    let store = &*subject.store;
    let (a, b) = (start(store, "a"), start(store, "b"));
    let broken = || StoreError::Internal("said by the test".into());
    // The common transaction fails, then the first one of those for each write.
    subject.failures.fail_next_commit(broken());
    subject.failures.fail_next_commit(broken());
    let (first, second) = (store.append(numbered(a, 1)), store.append(numbered(a, 2)));
    let other = store.append(numbered(b, 1));
    assert_eq!(store.flush(other), Ok(()));
    assert_eq!(store.flush(first), Err(broken()));
    assert_eq!(store.flush(second), Err(StoreError::Stopped { run: a, cause: Box::new(broken()) }));
    assert_eq!((length(store, a), length(store, b)), (1, 2));
}
