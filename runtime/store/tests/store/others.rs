//! What runs do to each other: it is kept with the entries that say so or not at all, and what became of it is in an inbox.

use stepwell_core::ids::{Digest, RunId};
use stepwell_store::{
    Append, Errand, Links, NewEvent, NewRun, Reply, RunChange, RunFilter, RunKey, Status, Store, StoreError, Successor,
};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, length, new_run, numbered, start, with_module};

for_each_store!(
    WHEN_AWAITED,
    an_event_from_run_to_run_is_kept_with_the_entry_that_sends_it,
    of_a_lost_commit_nothing_is_sent,
    a_child_is_started_with_the_entry_of_its_parent,
    a_parent_is_told_of_its_childs_end_by_the_same_commit,
    children_are_asked_to_cancel_with_their_parents_end,
    a_run_goes_on_in_another_that_has_its_place,
);

fn send(op: u32, to: &str) -> Errand {
    Errand::Send { op, to: RunId::new(to), name: "paid".into(), payload: "1".into() }
}

fn child(op: u32, name: &str, awaited: bool, stays: bool) -> Errand {
    Errand::Start { op, run: Box::new(new_run(name)), awaited, stays, again: false }
}

fn keep(store: &dyn Store, run: RunKey, seq: u64, errands: Vec<Errand>) {
    store.flush(store.append(Append { errands, ..numbered(run, seq) })).unwrap();
}

fn end(store: &dyn Store, run: RunKey, seq: u64, status: Status, outcome: &str) {
    let change = RunChange { outcome: Some(outcome.into()), ..RunChange::to(status, 2_000) };
    store.flush(store.append(numbered(run, seq).with_change(change))).unwrap();
}

/// An inbox: the operation replied to, the name, the payload.
fn inbox(store: &dyn Store, run: RunKey) -> Vec<(Option<u32>, String, String)> {
    let events = store.read().inbox(run, 0).unwrap();
    for (number, event) in (1..).zip(&events) {
        assert_eq!(event.number, number);
    }
    events.into_iter().map(|event| (event.reply_to, event.name, event.payload)).collect()
}

fn reply(op: u32, reply: Reply, payload: &str) -> (Option<u32>, String, String) {
    (Some(op), reply.as_str().into(), payload.into())
}

fn key_of(store: &dyn Store, name: &str) -> RunKey {
    store.read().run(&RunId::new(name)).unwrap().unwrap().key
}

fn links(store: &dyn Store, name: &str) -> Links {
    store.read().run(&RunId::new(name)).unwrap().unwrap().links
}

fn an_event_from_run_to_run_is_kept_with_the_entry_that_sends_it(subject: Subject) {
    let store = &*subject.store;
    let (from, to, over) = (start(store, "run_1"), start(store, "run_2"), start(store, "run_3"));
    end(store, over, 1, Status::Cancelled, "{}");
    keep(store, from, 1, vec![send(0, "run_2"), send(1, "run_3"), send(2, "run_4"), send(3, "run_1")]);
    let event = (None, "paid".to_owned(), "1".to_owned());
    assert_eq!(inbox(store, to), std::slice::from_ref(&event));
    assert_eq!(inbox(store, over), []);
    let replies = [
        reply(0, Reply::Done, "null"),
        reply(1, Reply::Finished, "\"cancelled\""),
        reply(2, Reply::NoSuchRun, "\"run_4\""),
        event,
        reply(3, Reply::Done, "null"),
    ];
    assert_eq!(inbox(store, from), replies);
    // What has come to a run is not seen by it, whatever it is.
    let (unfinished, _) = store.read().unfinished().unwrap();
    assert!(unfinished.iter().all(|run| run.unseen));
}

fn of_a_lost_commit_nothing_is_sent(subject: Subject) {
    let store = with_module(&subject);
    let (from, to) = (start(store, "run_1"), start(store, "run_2"));
    let errands = vec![send(0, "run_2"), child(1, "run_3", false, false), Errand::Cancel { op: 1 }];
    subject.failures.fail_next_commit(StoreError::DiskFull("no room".into()));
    let batch = Append { errands, ..numbered(from, 1) };
    store.flush(store.append(batch.clone())).unwrap_err();
    assert_eq!((inbox(store, from), inbox(store, to)), (vec![], vec![]));
    assert_eq!(store.read().run(&RunId::new("run_3")).unwrap(), None);
    store.recover(from);
    store.flush(store.append(batch)).unwrap();
    assert_eq!(inbox(store, to).len(), 1);
    assert_eq!(inbox(store, from).len(), 2);
    assert_eq!(links(store, "run_3").parent, Some((RunId::new("run_1"), 1)));
    // A batch that is refused does nothing either.
    store.flush(store.append(Append { errands: vec![send(2, "run_2")], ..numbered(from, 1) })).unwrap_err();
    assert_eq!(inbox(store, to).len(), 1);
}

fn a_child_is_started_with_the_entry_of_its_parent(subject: Subject) {
    let store = with_module(&subject);
    let parent = start(store, "run_1");
    let keyed = |op, name: &str| {
        let run = NewRun { run_key: Some("k".into()), ..new_run(name) };
        Errand::Start { op, run: Box::new(run), awaited: false, stays: true, again: false }
    };
    let gone = NewRun { digest: Digest::of(b"gone"), ..new_run("run_6") };
    let gone = Errand::Start { op: 4, run: Box::new(gone), awaited: true, stays: false, again: false };
    let refused = Errand::Refuse { op: 5, error: "{\"code\":\"x\"}".into() };
    let errands = vec![
        child(0, "run_2", true, false),
        child(1, "run_3", false, false),
        keyed(2, "run_4"),
        keyed(3, "run_5"),
        gone,
        refused,
    ];
    keep(store, parent, 1, errands);
    let replies = [
        reply(1, Reply::Done, "\"run_3\""),
        reply(2, Reply::Done, "\"run_4\""),
        reply(3, Reply::KeyTaken, "\"run_4\""),
        reply(4, Reply::NoSuchModule, &format!("\"{}\"", Digest::of(b"gone"))),
        reply(5, Reply::Refused, "{\"code\":\"x\"}"),
    ];
    assert_eq!(inbox(store, parent), replies);
    let children = RunFilter { parent: Some(RunId::new("run_1")), ..RunFilter::default() };
    let names: Vec<_> = store.read().runs(&children).unwrap().runs.into_iter().map(|row| row.run.to_string()).collect();
    assert_eq!(names, ["run_4", "run_3", "run_2"]);
    let row = store.read().run(&RunId::new("run_2")).unwrap().unwrap();
    assert_eq!((row.status, length(store, row.key)), (Status::Queued, 1));
    assert_eq!(row.links, Links { parent: Some((RunId::new("run_1"), 0)), ..Links::default() });
}

fn a_parent_is_told_of_its_childs_end_by_the_same_commit(subject: Subject) {
    let store = with_module(&subject);
    let parent = start(store, "run_1");
    let names = ["run_2", "run_3", "run_4", "run_5"];
    let errands = (0..).zip(names).map(|(op, name)| child(op, name, true, false)).collect();
    keep(store, parent, 1, errands);
    keep(store, parent, 2, vec![child(4, "run_6", false, false)]);
    let ends = [
        ("run_2", Status::Succeeded, "7", Reply::Succeeded),
        ("run_3", Status::Failed, "{\"a\":1}", Reply::Failed),
        ("run_4", Status::Cancelled, "{\"a\":2}", Reply::Cancelled),
        ("run_5", Status::Terminated, "{\"a\":3}", Reply::Terminated),
    ];
    let mut told = vec![reply(4, Reply::Done, "\"run_6\"")];
    for (op, (name, status, outcome, how)) in (0..).zip(ends) {
        // Lost with the child's end, and kept with it.
        subject.failures.fail_next_commit(StoreError::Io("unplugged".into()));
        let change = RunChange { outcome: Some(outcome.into()), ..RunChange::to(status, 2_000) };
        let batch = numbered(key_of(store, name), 1).with_change(change);
        store.flush(store.append(batch.clone())).unwrap_err();
        assert_eq!(inbox(store, parent), told);
        store.recover(key_of(store, name));
        store.flush(store.append(batch)).unwrap();
        told.push(reply(op, how, outcome));
        assert_eq!(inbox(store, parent), told);
    }
    // A parent that has failed may be taken up again, and hears of it then.
    keep(store, parent, 3, vec![child(5, "run_7", true, true)]);
    end(store, parent, 4, Status::Failed, "{}");
    end(store, key_of(store, "run_7"), 1, Status::Succeeded, "7");
    told.push(reply(5, Reply::Succeeded, "7"));
    assert_eq!(inbox(store, parent), told);
    // Nobody waits for the end of a detached child.
    end(store, key_of(store, "run_6"), 1, Status::Succeeded, "7");
    assert_eq!(inbox(store, parent), told);
}

fn children_are_asked_to_cancel_with_their_parents_end(subject: Subject) {
    let store = with_module(&subject);
    let parent = start(store, "run_1");
    let errands = vec![
        child(0, "run_2", true, false),
        child(1, "run_3", true, true),
        child(2, "run_4", false, false),
        child(3, "run_5", true, false),
        child(4, "run_6", true, false),
    ];
    keep(store, parent, 1, errands);
    end(store, key_of(store, "run_5"), 1, Status::Succeeded, "1");
    keep(store, parent, 2, vec![Errand::Cancel { op: 4 }, Errand::Cancel { op: 1 }]);
    let asked = || ["run_2", "run_3", "run_4", "run_5", "run_6"].map(|name| links(store, name).cancel);
    assert_eq!(asked(), [false, false, false, false, true]);
    end(store, parent, 3, Status::Terminated, "{}");
    assert_eq!(asked(), [true, false, true, false, true]);
    let (unfinished, _) = store.read().unfinished().unwrap();
    let asked: Vec<_> = unfinished.iter().filter(|run| run.cancel).map(|run| run.key).collect();
    assert_eq!(asked, ["run_2", "run_4", "run_6"].map(|name| key_of(store, name)));
    // A parent that has ended is told nothing more.
    let before = inbox(store, parent);
    end(store, key_of(store, "run_2"), 1, Status::Cancelled, "{}");
    assert_eq!(inbox(store, parent), before);
}

fn a_run_goes_on_in_another_that_has_its_place(subject: Subject) {
    let store = with_module(&subject);
    let parent = start(store, "run_0");
    let first = NewRun { run_key: Some("k".into()), ..new_run("run_1") };
    keep(
        store,
        parent,
        1,
        vec![Errand::Start { op: 0, run: Box::new(first), awaited: true, stays: false, again: false }],
    );
    let key = key_of(store, "run_1");
    let event = |run, name: &str, dedup: Option<&str>| {
        store.send_event(NewEvent { run, name: name.into(), payload: "1".into(), dedup: dedup.map(Into::into) }).wait()
    };
    for name in ["used", "kept", "used again", "unseen"] {
        event(key, name, Some(&format!("{name} key"))).unwrap();
    }
    event(key, "unseen too", None).unwrap();
    let next = |name: &str| NewRun { run_key: Some("k".into()), tags: vec![("a".into(), "b".into())], ..new_run(name) };
    let goes_on = |run, seq, name: &str, events, seen| {
        let batch = numbered(run, seq).with_change(RunChange::to(Status::Succeeded, 2_000));
        Append { successor: Some(Box::new(Successor { run: next(name), events, seen })), ..batch }
    };
    // All of it with the end, or nothing.
    subject.failures.fail_next_commit(StoreError::Io("unplugged".into()));
    store.flush(store.append(goes_on(key, 1, "run_2", vec![2], 3))).unwrap_err();
    assert_eq!(store.read().run(&RunId::new("run_2")).unwrap(), None);
    assert_eq!(store.read().run_by_run_key("k").unwrap().map(|row| row.key), Some(key));
    store.recover(key);
    store.flush(store.append(goes_on(key, 1, "run_2", vec![2], 3))).unwrap();

    let second = key_of(store, "run_2");
    assert_eq!(store.read().run_by_run_key("k").unwrap().map(|row| row.key), Some(second));
    let names = |run| inbox(store, run).into_iter().map(|(_, name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(second), ["kept", "unseen", "unseen too"]);
    assert_eq!(names(parent), [""; 0], "its end is not the last");
    // What is sent to the first is for the one that goes on; what came before stays the first of its key.
    assert!(event(key, "kept", Some("used key")).unwrap().repeated);
    assert!(event(key, "kept", Some("kept key")).unwrap().repeated);
    assert!(!event(key, "late", Some("late key")).unwrap().repeated);
    assert!(event(key, "late", Some("late key")).unwrap().repeated);
    keep(store, parent, 2, vec![send(1, "run_1")]);
    assert_eq!(names(second), ["kept", "unseen", "unseen too", "late", "paid"]);
    // A request to cancel goes with it, and a third is told by its first.
    keep(store, parent, 3, vec![Errand::Cancel { op: 0 }]);
    assert!(links(store, "run_2").cancel);
    store.flush(store.append(goes_on(second, 1, "run_3", vec![], 5))).unwrap();
    let third = Links {
        parent: Some((RunId::new("run_0"), 0)),
        cancel: true,
        continued_from: Some(RunId::new("run_2")),
        continued_as: None,
        first: Some(RunId::new("run_1")),
        last: None,
    };
    assert_eq!(links(store, "run_3"), third);
    assert_eq!(links(store, "run_1").continued_as, Some(RunId::new("run_2")));
    for earlier in ["run_1", "run_2"] {
        assert_eq!(links(store, earlier).last, Some(RunId::new("run_3")));
    }
    assert!(!event(key, "later", None).unwrap().repeated);
    assert_eq!(names(key_of(store, "run_3")).last().map(String::as_str), Some("later"));
    let row = store.read().run(&RunId::new("run_3")).unwrap().unwrap();
    assert_eq!((row.run_key.as_deref(), &row.tags[..]), (Some("k"), &[("a".to_owned(), "b".to_owned())][..]));
    // The end of the last is the child's.
    end(store, row.key, 1, Status::Succeeded, "9");
    assert_eq!(inbox(store, parent).last(), Some(&reply(0, Reply::Succeeded, "9")));
}
