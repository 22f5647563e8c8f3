//! What every implementation keeps and answers.

use stepwell_core::ids::{Digest, RunId};
use stepwell_store::{
    Append, Delivered, INBOX_PAGE_BYTES, InboxEvent, LogRow, NewEvent, NewModule, NewRun, RunChange, RunFilter, RunKey,
    Started, Status, StoreError,
};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, length, new_run, numbered, start};

for_each_store!(
    WHEN_AWAITED,
    a_started_run_is_there_with_its_entries_and_events,
    a_run_key_is_given_once,
    a_run_id_is_taken_once,
    nothing_is_read_before_it_is_durable,
    one_wait_commits_everything_queued,
    entries_come_back_in_order,
    entries_that_do_not_follow_stop_the_run,
    a_finished_run_takes_nothing_more,
    only_a_failed_run_is_taken_up_again,
    a_change_replaces_what_it_names,
    log_lines_are_kept_once,
    timers_follow_the_runs,
    runs_are_listed_in_pages,
    unfinished_runs_are_those_that_go_on,
    events_are_numbered_and_deduplicated,
    modules_are_kept_once,
    any_bytes_and_any_text_come_back,
    dropping_an_answer_takes_nothing_back,
);

fn a_started_run_is_there_with_its_entries_and_events(subject: Subject) {
    let store = &*subject.store;
    let run = NewRun {
        run_key: Some("order-7".into()),
        first: vec![b"a".to_vec(), b"b".to_vec()],
        inbox: vec![("paid".into(), "1".into()), ("paid".into(), "2".into())],
        ..new_run("run_1")
    };
    let Started::New(key) = store.start_run(run).wait().unwrap() else { panic!("the store was empty") };
    let row = store.read().run(&RunId::new("run_1")).unwrap().unwrap();
    assert_eq!((row.key, row.status, row.workflow.as_str()), (key, Status::Queued, "checkout"));
    assert_eq!((row.run_key.as_deref(), row.created_at_ms), (Some("order-7"), 1_000));
    assert_eq!(store.read().run_by_number(key).unwrap(), Some(row));
    assert_eq!(store.read().journal(key).unwrap(), [(0, b"a".to_vec()), (1, b"b".to_vec())]);
    let payloads: Vec<_> = store.read().inbox(key, 0).unwrap().into_iter().map(|event| event.payload).collect();
    assert_eq!(payloads, ["1", "2"]);
    assert_eq!(store.read().run(&RunId::new("run_2")).unwrap(), None);
}

fn a_run_key_is_given_once(subject: Subject) {
    let store = &*subject.store;
    let keyed = |name: &str| NewRun { run_key: Some("order-7".into()), ..new_run(name) };
    // Both in one transaction, and once more in a later one.
    let (first, second) = (store.start_run(keyed("run_1")), store.start_run(keyed("run_2")));
    let Started::New(key) = first.wait().unwrap() else { panic!("the key was free") };
    let existing = Started::Existing { run: RunId::new("run_1"), key };
    assert_eq!(second.wait().unwrap(), existing);
    assert_eq!(store.start_run(keyed("run_3")).wait().unwrap(), existing);
    assert_eq!(store.read().runs(&RunFilter::default()).unwrap().runs.len(), 1);
}

fn a_run_id_is_taken_once(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let again = store.start_run(new_run("run_1")).wait();
    assert_eq!(again, Err(StoreError::RunExists(RunId::new("run_1"))));
    assert_eq!(length(store, key), 1);
}

fn nothing_is_read_before_it_is_durable(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let commits = store.commits();
    let ticket = store.append(numbered(key, 1).with_change(RunChange::to(Status::Running, 2_000)));
    assert_eq!((length(store, key), store.commits()), (1, commits));
    assert_eq!(store.read().run_by_number(key).unwrap().unwrap().status, Status::Queued);
    store.flush(ticket).unwrap();
    assert_eq!((length(store, key), store.commits()), (2, commits + 1));
    assert_eq!(store.read().run_by_number(key).unwrap().unwrap().status, Status::Running);
}

fn one_wait_commits_everything_queued(subject: Subject) {
    let store = &*subject.store;
    let runs: Vec<RunKey> = (0..50).map(|n| start(store, &format!("run_{n}"))).collect();
    let commits = store.commits();
    let tickets: Vec<_> = runs.iter().map(|&run| store.append(numbered(run, 1))).collect();
    store.flush(tickets[0]).unwrap();
    for ticket in tickets {
        store.flush(ticket).unwrap();
    }
    assert_eq!(store.commits(), commits + 1);
    assert!(runs.iter().all(|&run| length(store, run) == 2));
}

fn entries_come_back_in_order(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let batches = (0..20u64).map(|n| Append::entries(key, 1 + n * 3, (0..3).map(|i| vec![n as u8, i]).collect()));
    let last = batches.map(|batch| store.append(batch)).last().unwrap();
    store.flush(last).unwrap();
    let journal = store.read().journal(key).unwrap();
    assert_eq!(journal.len(), 61);
    for (n, (seq, entry)) in journal.iter().enumerate().skip(1) {
        assert_eq!((*seq, entry.as_slice()), (n as u64, &[((n - 1) / 3) as u8, ((n - 1) % 3) as u8][..]));
    }
    assert_eq!(store.read().journal(key + 1).unwrap(), []);
}

fn entries_that_do_not_follow_stop_the_run(subject: Subject) {
    let store = &*subject.store;
    for (name, wrong_seq) in [("gap", 2), ("overlap", 0)] {
        let (key, other) = (start(store, name), start(store, &format!("{name}_other")));
        let conflict = StoreError::Conflict { run: key, expected: 1, got: wrong_seq };
        let wrong = store.append(numbered(key, wrong_seq));
        let right = store.append(numbered(key, 1));
        let undisturbed = store.append(numbered(other, 1));
        assert_eq!(store.flush(wrong), Err(conflict.clone()));
        assert_eq!(store.flush(right), Err(StoreError::Stopped { run: key, cause: Box::new(conflict) }));
        assert_eq!(store.flush(undisturbed), Ok(()));
        assert_eq!(length(store, key), 1);

        store.recover(key);
        store.flush(store.append(numbered(key, 1))).unwrap();
        assert_eq!(length(store, key), 2);
        assert!(store.flush(right).is_err(), "what was lost stays lost");
    }
    let nobody = store.append(numbered(999, 0));
    assert_eq!(store.flush(nobody), Err(StoreError::NoSuchRun(999)));
}

fn a_finished_run_takes_nothing_more(subject: Subject) {
    let store = &*subject.store;
    for status in [Status::Succeeded, Status::Failed, Status::Cancelled, Status::Terminated] {
        let key = start(store, status.as_str());
        let end = RunChange { outcome: Some("{}".into()), ..RunChange::to(status, 3_000) };
        let ended = store.append(numbered(key, 1).with_change(end.clone()));
        let finished = StoreError::Finished { run: key, status };
        // One in the transaction of the end, one after it.
        let at_once = store.append(numbered(key, 2));
        assert_eq!(store.flush(ended), Ok(()));
        assert_eq!(store.flush(at_once), Err(finished.clone()));
        store.recover(key);
        let second_end = Append::entries(key, 2, Vec::new()).with_change(RunChange::to(Status::Terminated, 4_000));
        assert_eq!(store.flush(store.append(second_end)), Err(finished.clone()));
        let event = NewEvent { run: key, name: "paid".into(), payload: "1".into(), dedup: None };
        assert_eq!(store.send_event(event).wait(), Err(finished));
        let row = store.read().run_by_number(key).unwrap().unwrap();
        assert_eq!((row.status, row.outcome.as_deref(), row.changed_at_ms), (status, Some("{}"), 3_000));
        assert_eq!(length(store, key), 2);
    }
}

fn only_a_failed_run_is_taken_up_again(subject: Subject) {
    let store = &*subject.store;
    for status in [Status::Failed, Status::Succeeded, Status::Cancelled, Status::Terminated] {
        let key = start(store, status.as_str());
        let end = Append::entries(key, 1, Vec::new()).with_change(RunChange::to(status, 3_000));
        store.flush(store.append(end)).unwrap();
        let again = numbered(key, 1).with_change(RunChange::to(Status::Queued, 4_000));
        let outcome = store.flush(store.append(Append { reopens: true, ..again }));
        if status == Status::Failed {
            outcome.unwrap();
            store.flush(store.append(numbered(key, 2))).unwrap();
            assert_eq!(store.read().run_by_number(key).unwrap().unwrap().status, Status::Queued);
        } else {
            assert_eq!(outcome, Err(StoreError::Finished { run: key, status }));
        }
    }
}

fn a_change_replaces_what_it_names(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let change = |change: RunChange| {
        store.flush(store.append(Append::entries(key, 1, Vec::new()).with_change(change))).unwrap();
        store.read().run_by_number(key).unwrap().unwrap()
    };
    let row = change(RunChange {
        detail: Some("event paid".into()),
        wake_at_ms: Some(9_000),
        digest: Some(Digest::of(b"mended")),
        status_text: Some("packing".into()),
        recoveries: Some(3),
        ..RunChange::to(Status::Waiting, 2_000)
    });
    assert_eq!((row.detail.as_deref(), row.wake_at_ms, row.recoveries), (Some("event paid"), Some(9_000), 3));
    assert_eq!((row.digest, row.status_text.as_deref()), (Digest::of(b"mended"), Some("packing")));

    let row = change(RunChange { outcome: Some("1".into()), ..RunChange::to(Status::Succeeded, 3_000) });
    assert_eq!((row.detail, row.wake_at_ms, row.outcome.as_deref()), (None, None, Some("1")));
    assert_eq!((row.digest, row.status_text.as_deref()), (Digest::of(b"mended"), Some("packing")));
    assert_eq!((row.recoveries, row.created_at_ms, row.changed_at_ms), (3, 1_000, 3_000));
}

fn line(turn: u64, index: u32, text: &str) -> LogRow {
    LogRow { turn, index, at_ms: 5, level: 2, step: Some("pay".into()), text: text.into(), fields: Some("{}".into()) }
}

fn log_lines_are_kept_once(subject: Subject) {
    let store = &*subject.store;
    let (key, other) = (start(store, "run_1"), start(store, "run_2"));
    assert_eq!(store.read().last_log(key).unwrap(), None);
    let log = |run, logs| store.append(Append { logs, ..Append::entries(run, 1, Vec::new()) });
    log(key, vec![line(1, 0, "a"), line(1, 1, "b"), line(10, 0, "d")]);
    log(other, vec![line(1, 0, "of the other")]);
    store.flush(log(key, vec![line(1, 1, "b again"), line(2, 0, "c")])).unwrap();
    let texts = |after, limit| -> Vec<String> {
        store.read().logs(key, after, limit).unwrap().into_iter().map(|row| row.text).collect()
    };
    // In the order of writing, whatever their places.
    assert_eq!(texts(None, 100), ["a", "b", "d", "c"]);
    assert_eq!(texts(Some((1, 0)), 2), ["b", "d"]);
    assert_eq!(store.read().last_log(key).unwrap(), Some((10, 0)));
    assert_eq!(store.read().logs(key, Some((10, 0)), 9).unwrap(), [line(2, 0, "c")]);
    assert_eq!(store.read().logs(key, Some((2, 0)), 9).unwrap(), []);
}

fn timers_follow_the_runs(subject: Subject) {
    let store = &*subject.store;
    let (a, b, c) = (start(store, "a"), start(store, "b"), start(store, "c"));
    let park = |run, wake_at_ms| {
        let change = RunChange { wake_at_ms, ..RunChange::to(Status::Waiting, 2_000) };
        store.flush(store.append(Append::entries(run, 1, Vec::new()).with_change(change))).unwrap();
    };
    assert_eq!(store.read().next_wake().unwrap(), None);
    park(a, Some(300));
    park(b, Some(100));
    park(c, Some(u64::MAX));
    let due = |now_ms, limit| store.read().due_timers(now_ms, limit).unwrap();
    assert_eq!(store.read().next_wake().unwrap(), Some(100));
    assert_eq!(due(99, 10), []);
    assert_eq!(due(300, 10), [(100, b), (300, a)]);
    assert_eq!(due(300, 1), [(100, b)]);
    // Moved, left as it is, and taken away by an end that wrongly names a time.
    park(b, Some(400));
    park(a, Some(300));
    assert_eq!(due(1_000, 10), [(300, a), (400, b)]);
    let end = RunChange { wake_at_ms: Some(1), ..RunChange::to(Status::Terminated, 2_000) };
    store.flush(store.append(Append::entries(a, 1, Vec::new()).with_change(end))).unwrap();
    park(b, None);
    assert_eq!(due(1_000, 10), []);
}

fn runs_are_listed_in_pages(subject: Subject) {
    let store = &*subject.store;
    let keys: Vec<RunKey> = (0..5).map(|n| start(store, &format!("run_{n}"))).collect();
    let other = NewRun { workflow: "refund".into(), ..new_run("run_5") };
    store.start_run(other).wait().unwrap();
    let end = RunChange { outcome: Some("1".into()), ..RunChange::to(Status::Succeeded, 2_000) };
    store.flush(store.append(Append::entries(keys[2], 1, Vec::new()).with_change(end))).unwrap();
    let listed = |filter: RunFilter| -> Vec<RunKey> {
        let list = store.read().runs(&filter).unwrap();
        assert_eq!(list.unreadable, []);
        list.runs.into_iter().map(|run| run.key).collect()
    };
    let checkout = RunFilter { workflow: Some("checkout".into()), limit: 2, ..RunFilter::default() };
    assert_eq!(listed(checkout.clone()), [keys[4], keys[3]]);
    assert_eq!(listed(RunFilter { before: Some(keys[3]), ..checkout.clone() }), [keys[2], keys[1]]);
    let queued = RunFilter { before: Some(keys[3]), status: Some(Status::Queued), ..checkout };
    assert_eq!(listed(queued), [keys[1], keys[0]]);
    let succeeded = RunFilter { status: Some(Status::Succeeded), ..RunFilter::default() };
    assert_eq!(listed(succeeded.clone()), [keys[2]]);
    assert_eq!(store.read().runs(&succeeded).unwrap().runs[0].outcome, None, "lists leave it out");
    assert_eq!(listed(RunFilter::default()).len(), 6);
}

fn unfinished_runs_are_those_that_go_on(subject: Subject) {
    let store = &*subject.store;
    let mut expected = Vec::new();
    for status in Status::ALL {
        let key = start(store, status.as_str());
        store.flush(store.append(Append::entries(key, 1, Vec::new()).with_change(RunChange::to(status, 1)))).unwrap();
        if !status.is_finished() {
            expected.push((key, status));
        }
    }
    let (runs, unreadable) = store.read().unfinished().unwrap();
    assert_eq!(unreadable, []);
    let found: Vec<_> = runs.into_iter().map(|run| (run.key, run.status)).collect();
    assert_eq!((found.len(), found), (5, expected));
}

fn events_are_numbered_and_deduplicated(subject: Subject) {
    let store = &*subject.store;
    let (key, other) = (start(store, "run_1"), start(store, "run_2"));
    let send = |run, payload: &str, dedup: Option<&str>| {
        let event = NewEvent { run, name: "paid".into(), payload: payload.into(), dedup: dedup.map(Into::into) };
        store.send_event(event)
    };
    let (first, again) = (send(key, "1", Some("k")), send(key, "2", Some("k")));
    assert_eq!(first.wait().unwrap(), Delivered { number: 1, repeated: false });
    assert_eq!(again.wait().unwrap(), Delivered { number: 1, repeated: true });
    assert_eq!(send(key, "3", None).wait().unwrap(), Delivered { number: 2, repeated: false });
    assert_eq!(send(key, "3", None).wait().unwrap(), Delivered { number: 3, repeated: false });
    assert_eq!(send(other, "4", Some("k")).wait().unwrap(), Delivered { number: 1, repeated: false });
    assert_eq!(send(999, "5", None).wait(), Err(StoreError::NoSuchRun(999)));
    let third = InboxEvent { number: 3, name: "paid".into(), payload: "3".into(), reply_to: None };
    assert_eq!(store.read().inbox(key, 2).unwrap(), [third]);
    assert_eq!(store.read().inbox(key, 0).unwrap().len(), 3);

    // However many there are, they are read a page at a time.
    let large = "1".repeat(INBOX_PAGE_BYTES / 4);
    for number in 4..=9 {
        assert_eq!(send(key, &large, None).wait().unwrap(), Delivered { number, repeated: false });
    }
    let page = |after| store.read().inbox(key, after).unwrap().iter().map(|event| event.number).collect::<Vec<_>>();
    assert_eq!((page(3), page(7), page(9)), (vec![4, 5, 6, 7], vec![8, 9], vec![]));

    // A repetition is answered as before when the run has ended.
    store.flush(store.append(numbered(key, 1).with_change(RunChange::to(Status::Succeeded, 2)))).unwrap();
    assert_eq!(send(key, "1", Some("k")).wait().unwrap(), Delivered { number: 1, repeated: true });
}

fn modules_are_kept_once(subject: Subject) {
    let store = &*subject.store;
    let module = |bytes: &[u8], at| NewModule {
        digest: Digest::of(bytes),
        bytes: bytes.to_vec(),
        description: "{}".into(),
        added_at_ms: at,
    };
    assert!(store.put_module(module(b"one", 1)).wait().unwrap());
    assert!(!store.put_module(module(b"one", 2)).wait().unwrap());
    assert!(store.put_module(module(b"three", 3)).wait().unwrap());
    assert_eq!(store.read().module(&Digest::of(b"one")).unwrap(), Some(b"one".to_vec()));
    assert_eq!(store.read().module(&Digest::of(b"two")).unwrap(), None);
    let mut rows: Vec<_> =
        store.read().modules(None, 9).unwrap().into_iter().map(|row| (row.added_at_ms, row.size_bytes)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [(1, 3), (3, 5)]);
    let page = |after: Option<&Digest>| {
        store.read().modules(after, 1).unwrap().into_iter().map(|row| row.digest).collect::<Vec<_>>()
    };
    let mut digests = [Digest::of(b"one"), Digest::of(b"three")];
    digests.sort();
    assert_eq!(page(None), digests[..1]);
    assert_eq!(page(Some(&digests[0])), digests[1..]);
    assert_eq!(page(Some(&digests[1])), []);
}

fn any_bytes_and_any_text_come_back(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let entries = vec![Vec::new(), vec![0, 255, 0], vec![7; 3 << 20]];
    let text = "a\u{0}b é 支払い \u{fffd}'\"";
    let change = RunChange { detail: Some(text.into()), ..RunChange::to(Status::Failed, 1) };
    let batch = Append { logs: vec![line(1, 0, text)], ..Append::entries(key, 1, entries.clone()) };
    store.flush(store.append(batch.with_change(change))).unwrap();
    let journal: Vec<_> = store.read().journal(key).unwrap().into_iter().skip(1).map(|(_, entry)| entry).collect();
    assert!(journal == entries);
    assert_eq!(store.read().run_by_number(key).unwrap().unwrap().detail.as_deref(), Some(text));
    assert_eq!(store.read().logs(key, None, 1).unwrap(), [line(1, 0, text)]);
}

fn dropping_an_answer_takes_nothing_back(subject: Subject) {
    let store = &*subject.store;
    drop(store.start_run(new_run("run_1")));
    let key = start(store, "run_2");
    assert!(store.read().run(&RunId::new("run_1")).unwrap().is_some_and(|row| row.key < key));
}
