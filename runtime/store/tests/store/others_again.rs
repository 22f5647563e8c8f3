//! Runs that are taken up again or taken away, and the others that they have to do with.

use stepwell_core::ids::RunId;
use stepwell_store::{
    Action, Append, Errand, Links, NewRun, Reply, RunChange, RunKey, Status, Store, Submission, Successor,
};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, new_run, numbered, start, with_module};

for_each_store!(
    WHEN_AWAITED,
    a_parent_is_told_once_of_a_childs_end_however_often_it_ends,
    a_child_that_has_succeeded_or_goes_on_is_not_begun_again,
    one_that_is_begun_again_has_the_run_key_of_the_earlier,
    a_child_is_kept_while_its_parent_may_ask_for_it,
    of_runs_that_went_on_for_one_another_the_first_goes_with_the_last,
);

const ENDED_MS: u64 = 2_000;

fn begun(run: NewRun, again: bool) -> Errand {
    Errand::Start { op: 0, run: Box::new(run), awaited: true, stays: false, again }
}

fn keyed(name: &str) -> NewRun {
    NewRun { run_key: Some("k".into()), ..new_run(name) }
}

fn keep(store: &dyn Store, run: RunKey, seq: u64, errands: Vec<Errand>) {
    store.flush(store.append(Append { errands, ..numbered(run, seq) })).unwrap();
}

fn end(store: &dyn Store, run: RunKey, seq: u64, status: Status, outcome: &str) {
    let change = RunChange { outcome: Some(outcome.into()), ..RunChange::to(status, ENDED_MS) };
    store.flush(store.append(numbered(run, seq).with_change(change))).unwrap();
}

fn taken_up(store: &dyn Store, run: RunKey, seq: u64, errands: Vec<Errand>) {
    let again = numbered(run, seq).with_change(RunChange::to(Status::Queued, 3_000));
    store.flush(store.append(Append { reopens: true, errands, ..again })).unwrap();
}

fn replies(store: &dyn Store, run: RunKey) -> Vec<(String, String)> {
    store.read().inbox(run, 0).unwrap().into_iter().map(|event| (event.name, event.payload)).collect()
}

fn said(reply: Reply, payload: &str) -> (String, String) {
    (reply.as_str().into(), payload.into())
}

fn found(store: &dyn Store, name: &str) -> Option<RunKey> {
    store.read().run(&RunId::new(name)).unwrap().map(|row| row.key)
}

fn links(store: &dyn Store, name: &str) -> Links {
    store.read().run(&RunId::new(name)).unwrap().unwrap().links
}

/// A parent that has failed since its child has.
fn failed(store: &dyn Store) -> (RunKey, RunKey) {
    let parent = start(store, "run_1");
    keep(store, parent, 1, vec![begun(keyed("run_2"), false)]);
    let child = found(store, "run_2").unwrap();
    end(store, child, 1, Status::Failed, "{\"code\":\"a\"}");
    end(store, parent, 2, Status::Failed, "{\"code\":\"a\"}");
    (parent, child)
}

fn a_parent_is_told_once_of_a_childs_end_however_often_it_ends(subject: Subject) {
    let store = with_module(&subject);
    let (parent, child) = failed(store);
    let once = [said(Reply::Failed, "{\"code\":\"a\"}")];
    assert_eq!(replies(store, parent), once);
    taken_up(store, child, 2, vec![]);
    end(store, child, 3, Status::Succeeded, "7");
    assert_eq!(replies(store, parent), once);
}

fn a_child_that_has_succeeded_or_goes_on_is_not_begun_again(subject: Subject) {
    let store = with_module(&subject);
    let (parent, child) = failed(store);
    let first = said(Reply::Failed, "{\"code\":\"a\"}");
    // A person has taken it up, and then its parent: that one waits for it.
    taken_up(store, child, 2, vec![]);
    taken_up(store, parent, 3, vec![begun(keyed("run_3"), true)]);
    assert_eq!((replies(store, parent), found(store, "run_3")), (vec![first.clone()], None));
    end(store, child, 3, Status::Failed, "{\"code\":\"b\"}");
    let second = said(Reply::Failed, "{\"code\":\"b\"}");
    assert_eq!(replies(store, parent), [first.clone(), second.clone()]);
    end(store, parent, 4, Status::Failed, "{\"code\":\"b\"}");
    // It has succeeded meanwhile.
    taken_up(store, child, 4, vec![]);
    end(store, child, 5, Status::Succeeded, "7");
    taken_up(store, parent, 5, vec![begun(keyed("run_4"), true)]);
    assert_eq!(
        (replies(store, parent), found(store, "run_4")),
        (vec![first, second, said(Reply::Succeeded, "7")], None)
    );
}

fn one_that_is_begun_again_has_the_run_key_of_the_earlier(subject: Subject) {
    let store = with_module(&subject);
    let (parent, child) = failed(store);
    let holder = || store.read().run_by_run_key("k").unwrap().map(|row| row.key);
    assert_eq!(holder(), Some(child));
    taken_up(store, parent, 3, vec![begun(keyed("run_3"), true)]);
    let second = found(store, "run_3").unwrap();
    assert_eq!(holder(), Some(second));
    end(store, second, 1, Status::Succeeded, "7");
    assert_eq!(replies(store, parent).last(), Some(&said(Reply::Succeeded, "7")));
    // Another operation's child has no right to it.
    let other = Errand::Start { op: 1, run: Box::new(keyed("run_4")), awaited: true, stays: false, again: true };
    keep(store, parent, 4, vec![other]);
    assert_eq!((holder(), found(store, "run_4")), (Some(second), None));
    // Asked to cancel by its parent's end, and taken up by a person: it goes on.
    keep(store, parent, 5, vec![begun(new_run("run_5"), false)]);
    let third = found(store, "run_5").unwrap();
    end(store, parent, 6, Status::Failed, "{}");
    assert!(links(store, "run_5").cancel);
    end(store, third, 1, Status::Failed, "{}");
    taken_up(store, third, 2, vec![]);
    assert!(!links(store, "run_5").cancel);
}

fn forget(store: &dyn Store, run: RunKey, status: Status) -> bool {
    let actions = vec![Action::ForgetRun { run, ended: (status, ENDED_MS) }];
    store.submit(Submission { actions, answer: None }).wait().unwrap().forgotten[0]
}

fn a_child_is_kept_while_its_parent_may_ask_for_it(subject: Subject) {
    let store = with_module(&subject);
    let (parent, child) = failed(store);
    start(store, "run_9");
    assert!(!forget(store, child, Status::Failed));
    taken_up(store, parent, 3, vec![]);
    assert!(!forget(store, child, Status::Failed));
    end(store, parent, 4, Status::Failed, "{}");
    // Neither is there then to ask, nor to be asked for.
    assert!(forget(store, parent, Status::Failed));
    assert_eq!(links(store, "run_2").parent, None);
    assert!(forget(store, child, Status::Failed));
    let parent = start(store, "run_5");
    keep(store, parent, 1, vec![begun(new_run("run_6"), false)]);
    let child = found(store, "run_6").unwrap();
    start(store, "run_10");
    end(store, child, 1, Status::Succeeded, "1");
    assert!(!forget(store, child, Status::Succeeded));
    end(store, parent, 2, Status::Succeeded, "1");
    assert!(forget(store, child, Status::Succeeded), "its parent has ended for good");
}

fn of_runs_that_went_on_for_one_another_the_first_goes_with_the_last(subject: Subject) {
    let store = with_module(&subject);
    let goes_on = |run, name: &str| {
        let batch = numbered(run, 1).with_change(RunChange::to(Status::Succeeded, ENDED_MS));
        let successor = Successor { run: new_run(name), events: vec![], seen: 0 };
        store.flush(store.append(Append { successor: Some(Box::new(successor)), ..batch })).unwrap();
        found(store, name).unwrap()
    };
    let first = start(store, "run_1");
    let second = goes_on(first, "run_2");
    let third = goes_on(second, "run_3");
    let fourth = goes_on(third, "run_4");
    start(store, "run_9");
    assert!(!forget(store, first, Status::Succeeded));
    // One between them is not missed.
    assert!(forget(store, second, Status::Succeeded));
    assert_eq!(links(store, "run_1").continued_as, Some(RunId::new("run_3")));
    assert_eq!(links(store, "run_3").continued_from, Some(RunId::new("run_1")));
    assert_eq!(links(store, "run_1").last, Some(RunId::new("run_4")));
    end(store, fourth, 1, Status::Failed, "{}");
    assert!(!forget(store, fourth, Status::Failed), "one is left between them");
    assert!(!forget(store, first, Status::Succeeded), "what became of it is asked for by its name");
    assert!(forget(store, third, Status::Succeeded));
    assert!(forget(store, fourth, Status::Failed));
    assert_eq!((found(store, "run_1"), found(store, "run_4")), (None, None));
}
