//! Clients' requests: all of one is kept or nothing, its answer with it.

use stepwell_core::ids::{Digest, RunId};
use stepwell_core::policy::idempotency::ANSWER_KEPT_MS;
use stepwell_store::{
    Action, Answer, Append, NewEvent, NewModule, NewRerun, NewRun, RerunOf, RunChange, RunFilter, RunKey, Status,
    Store, StoreError, Submission, Token,
};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, length, new_run, numbered, start};

for_each_store!(
    WHEN_AWAITED,
    runs_and_their_answer_are_kept_together,
    of_a_refused_submission_nothing_is_kept,
    a_failed_commit_keeps_neither_runs_nor_answer,
    an_answered_key_starts_nothing,
    an_event_is_the_one_that_came_with_its_key,
    a_module_stays_while_it_is_needed,
    a_workflow_is_activated_once_by_an_upload,
    tokens_end,
    the_last_token_of_a_scope_is_spared,
    runs_are_found_by_what_they_were_started_with,
    counts_follow_the_runs,
    a_delayed_run_has_its_timer,
    a_run_names_the_one_that_it_is_in_the_place_of,
    a_rerun_is_of_the_run_as_it_was_looked_at,
    what_a_run_has_not_seen_is_told,
    what_is_asked_of_a_run_and_its_answer_are_kept_together,
    runs_with_unknown_steps_are_found,
);

fn module(name: &[u8]) -> NewModule {
    NewModule { digest: Digest::of(name), bytes: name.to_vec(), description: "{}".into(), added_at_ms: 1 }
}

fn answer(key: &str, at_ms: u64, kept: bool) -> Answer {
    Answer {
        key: key.into(),
        principal: "ana".into(),
        fingerprint: "f".into(),
        at_ms,
        kept,
        status: 201,
        body: "{}".into(),
    }
}

/// A store that has the module of [`new_run`].
fn with_module(subject: &Subject) -> &dyn Store {
    subject.store.put_module(module(b"module")).wait().unwrap();
    &*subject.store
}

fn submit(store: &dyn Store, actions: Vec<Action>, answer: Option<Answer>) -> Result<Vec<RunKey>, StoreError> {
    store.submit(Submission { actions, answer }).wait().map(|kept| kept.runs)
}

fn keyed(name: &str, run_key: &str) -> Action {
    Action::Start(NewRun { run_key: Some(run_key.into()), ..new_run(name) })
}

fn all_runs(store: &dyn Store) -> usize {
    store.read().runs(&RunFilter::default()).unwrap().runs.len()
}

fn end(store: &dyn Store, run: RunKey, status: Status) {
    store.flush(store.append(Append::entries(run, 1, Vec::new()).with_change(RunChange::to(status, 9)))).unwrap();
}

fn runs_and_their_answer_are_kept_together(subject: Subject) {
    let store = with_module(&subject);
    let commits = store.commits();
    let starts = vec![keyed("run_1", "a"), keyed("run_2", "b")];
    let runs = submit(store, starts, Some(answer("k", 5, true))).unwrap();
    assert_eq!((runs.len(), store.commits()), (2, commits + 1));
    assert_eq!(store.read().answer("k").unwrap(), Some(answer("k", 5, true)));
    assert_eq!(store.read().answer("other").unwrap(), None);
    assert_eq!(store.read().run_by_run_key("b").unwrap().unwrap().key, runs[1]);
    assert_eq!(store.read().journal(runs[0]).unwrap().len(), 1);
}

fn of_a_refused_submission_nothing_is_kept(subject: Subject) {
    let store = with_module(&subject);
    start(store, "run_0");
    let missing = Action::Start(NewRun { digest: Digest::of(b"missing"), ..new_run("run_3") });
    submit(store, vec![keyed("run_1", "a")], None).unwrap();
    let refusals = [
        (keyed("run_2", "a"), StoreError::RunKeyTaken(RunId::new("run_1"))),
        (Action::Start(new_run("run_0")), StoreError::RunExists(RunId::new("run_0"))),
        (missing, StoreError::NoSuchModule(Digest::of(b"missing"))),
        (Action::ExpireToken { id: "t".into(), at_ms: 1 }, StoreError::NoSuchToken("t".into())),
    ];
    for (refused, error) in refusals {
        // What comes before it in the same submission is not kept either; another one in the same transaction is.
        let both =
            Submission { actions: vec![Action::Start(new_run("run_9")), refused], answer: Some(answer("k", 5, true)) };
        let (first, other) = (store.submit(both), store.submit(Submission::default()));
        assert_eq!(first.wait(), Err(error));
        assert!(other.wait().is_ok());
        assert_eq!((all_runs(store), store.read().answer("k").unwrap()), (2, None));
    }
}

fn a_failed_commit_keeps_neither_runs_nor_answer(subject: Subject) {
    let store = with_module(&subject);
    subject.failures.fail_next_commit(StoreError::DiskFull("no room".into()));
    let start = || vec![keyed("run_1", "a")];
    let failed = submit(store, start(), Some(answer("k", 5, true)));
    assert_eq!(failed, Err(StoreError::DiskFull("no room".into())));
    assert_eq!((all_runs(store), store.read().answer("k").unwrap()), (0, None));
    assert_eq!(store.read().counts(None).unwrap(), []);
    submit(store, start(), Some(answer("k", 6, true))).unwrap();
    assert_eq!(all_runs(store), 1);
}

fn an_answered_key_starts_nothing(subject: Subject) {
    let store = with_module(&subject);
    let start = |name: &str| vec![Action::Start(new_run(name))];
    submit(store, start("run_1"), Some(answer("k", 5, false))).unwrap();
    let again = |name: &str, at_ms| submit(store, start(name), Some(answer("k", at_ms, true)));
    assert_eq!(again("run_2", 5 + ANSWER_KEPT_MS - 1), Err(StoreError::AlreadyAnswered));
    assert!(again("run_2", 5 + ANSWER_KEPT_MS).is_ok(), "after a day the key is free");
    assert_eq!(again("run_3", 5 + 9 * ANSWER_KEPT_MS), Err(StoreError::AlreadyAnswered), "runs hold theirs");
    assert_eq!(all_runs(store), 2);
    submit(store, Vec::new(), Some(answer("old", 7, false))).unwrap();
    submit(store, vec![Action::ForgetAnswers { before_ms: 8, most: 10 }], None).unwrap();
    assert_eq!(store.read().answer("old").unwrap(), None);
    assert!(store.read().answer("k").unwrap().is_some());
}

fn an_event_is_the_one_that_came_with_its_key(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let event = |payload: &str, name: &str| {
        let (payload, dedup) = (payload.into(), Some("k".into()));
        Action::Event(NewEvent { run: key, name: name.into(), payload, dedup })
    };
    let send = |action| store.submit(Submission { actions: vec![action], answer: None }).wait();
    assert!(!send(event("1", "paid")).unwrap().events[0].repeated);
    assert!(send(event("1", "paid")).unwrap().events[0].repeated);
    assert_eq!(send(event("2", "paid")), Err(StoreError::EventDiffers));
    assert_eq!(send(event("1", "shipped")), Err(StoreError::EventDiffers));
    end(store, key, Status::Succeeded);
    assert!(send(event("1", "paid")).unwrap().events[0].repeated, "the first one came in time");
    let inbox = store.read().inbox(key, 0).unwrap();
    assert_eq!((inbox.len(), &inbox[0].name[..]), (1, "paid"));
}

fn a_module_stays_while_it_is_needed(subject: Subject) {
    let store = with_module(&subject);
    let digest = || Digest::of(b"module");
    let remove = || submit(store, vec![Action::RemoveModule(digest())], None);
    let key = start(store, "run_1");
    let other = start(store, "run_2");
    let needed = |who: &str| matches!(remove(), Err(StoreError::ModuleNeeded(text)) if text.contains(who));
    assert!(needed("2 runs are open"));
    end(store, other, Status::Succeeded);
    end(store, key, Status::Failed);
    assert!(needed("one run is open"), "a failed run can be taken up");
    let again = Append::entries(key, 1, Vec::new()).with_change(RunChange::to(Status::Cancelled, 10));
    store.recover(key);
    store.flush(store.append(Append { reopens: true, ..again })).unwrap();
    let activate = |workflow: &str, name: &[u8]| Action::Activate {
        workflow: workflow.into(),
        digest: Digest::of(name),
        at_ms: 3,
        only_if_none: false,
    };
    submit(store, vec![activate("checkout", b"module")], None).unwrap();
    assert!(needed("checkout"));
    let missing = submit(store, vec![activate("checkout", b"missing")], None);
    assert_eq!(missing, Err(StoreError::NoSuchModule(Digest::of(b"missing"))));
    submit(store, vec![Action::AddModule(module(b"newer")), activate("checkout", b"newer")], None).unwrap();
    remove().unwrap();
    assert_eq!(store.read().module_row(&digest()).unwrap(), None);
    assert_eq!(remove(), Err(StoreError::NoSuchModule(digest())));
    assert_eq!(submit(store, vec![keyed("run_3", "a")], None), Err(StoreError::NoSuchModule(digest())));
}

fn a_workflow_is_activated_once_by_an_upload(subject: Subject) {
    let store = &*subject.store;
    let upload = |name: &[u8]| {
        let digest = Digest::of(name);
        let activate = Action::Activate { workflow: "w".into(), digest, at_ms: 3, only_if_none: true };
        submit(store, vec![Action::AddModule(module(name)), activate], None)
    };
    upload(b"first").unwrap();
    assert_eq!(upload(b"second"), Err(StoreError::Outdated));
    let active = store.read().active_of("w").unwrap().unwrap();
    assert_eq!((active.digest, active.activated_at_ms), (Digest::of(b"first"), 3));
    assert_eq!(store.read().active().unwrap().len(), 1);
    assert_eq!(store.read().modules(None, 9).unwrap().len(), 1);
    assert_eq!(store.read().active_of("v").unwrap(), None);
}

fn tokens_end(subject: Subject) {
    let store = &*subject.store;
    let token = |id: &str, created_at_ms| Token {
        id: id.into(),
        principal: "ana".into(),
        scopes: "read run".into(),
        hash: vec![1, 2],
        created_at_ms,
        expires_at_ms: None,
    };
    submit(store, vec![Action::AddToken(token("b", 1)), Action::AddToken(token("a", 2))], None).unwrap();
    submit(store, vec![Action::AddToken(token("c", 1))], None).unwrap();
    let page = |after: Option<(u64, &str)>| store.read().tokens(after, 2).unwrap();
    assert_eq!(page(None), [token("b", 1), token("c", 1)]);
    assert_eq!(page(Some((1, "b"))), [token("c", 1), token("a", 2)]);
    assert_eq!(page(Some((2, "a"))), []);
    submit(store, vec![Action::ExpireToken { id: "a".into(), at_ms: 7 }], None).unwrap();
    assert_eq!(store.read().token("a").unwrap().unwrap().expires_at_ms, Some(7));
    assert_eq!(store.read().token("b").unwrap(), Some(token("b", 1)));
    assert_eq!(store.read().token("none").unwrap(), None);
    // An end that is set comes no later for it.
    submit(store, vec![Action::ExpireToken { id: "a".into(), at_ms: 9 }], None).unwrap();
    assert_eq!(store.read().token("a").unwrap().unwrap().expires_at_ms, Some(7));
    submit(store, vec![Action::ExpireToken { id: "a".into(), at_ms: 5 }], None).unwrap();
    assert_eq!(store.read().token("a").unwrap().unwrap().expires_at_ms, Some(5));
    // A name is taken once, and what has ended is not there for a submission that needs it; nothing of such a one is kept.
    let refused = |actions| submit(store, actions, None).unwrap_err();
    assert_eq!(refused(vec![Action::AddToken(token("b", 3))]), StoreError::TokenExists("b".into()));
    for (id, at_ms) in [("a", 5), ("a", 6), ("none", 0)] {
        let actions = vec![Action::AddToken(token("d", 4)), Action::NeedToken { id: id.into(), at_ms }];
        assert_eq!(refused(actions), StoreError::NoSuchToken(id.into()));
    }
    submit(store, vec![Action::NeedToken { id: "a".into(), at_ms: 4 }], None).unwrap();
    assert_eq!(store.read().tokens(None, 9).unwrap().len(), 3);
}

fn the_last_token_of_a_scope_is_spared(subject: Subject) {
    let store = &*subject.store;
    assert!(!store.read().has_tokens().unwrap());
    let token = |id: &str, scopes: &str, expires_at_ms| {
        Action::AddToken(Token {
            id: id.into(),
            principal: "ana".into(),
            scopes: scopes.into(),
            hash: vec![1],
            created_at_ms: 1,
            expires_at_ms,
        })
    };
    let spare = || Action::SpareScope("admin".into());
    let expire = |id: &str| Action::ExpireToken { id: id.into(), at_ms: 5 };
    let last = Err(StoreError::LastToken("admin".into()));
    let kept = |actions| submit(store, actions, None).map(|_| ());
    // The first of all has to have it, without an end.
    assert_eq!(kept(vec![spare(), token("r", "read", None)]), last);
    assert_eq!(kept(vec![spare(), token("e", "admin", Some(9))]), last);
    assert_eq!(kept(vec![spare(), token("a", "read admin", None)]), Ok(()));
    assert!(store.read().has_tokens().unwrap());
    assert_eq!(kept(vec![spare(), token("r", "read", None)]), Ok(()));
    assert_eq!(kept(vec![spare(), token("e", "admin", Some(9))]), Ok(()));
    // Then one has to stay, by whichever way the others go.
    assert_eq!(kept(vec![spare(), expire("a")]), last);
    assert_eq!(kept(vec![spare(), expire("r")]), Ok(()));
    assert_eq!(kept(vec![spare(), token("b", "admin", None), expire("a")]), Ok(()));
    assert_eq!(kept(vec![spare(), expire("b")]), last);
    // Where there is none left, all the same, nobody is kept from making one.
    assert_eq!(kept(vec![expire("b")]), Ok(()));
    assert_eq!(kept(vec![spare(), token("s", "read", None)]), Ok(()));
}

fn runs_are_found_by_what_they_were_started_with(subject: Subject) {
    let store = with_module(&subject);
    let tag = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let run = |name: &str, at_ms, tags: &[(String, String)]| {
        Action::Start(NewRun {
            created_at_ms: at_ms,
            run_key: Some(name.into()),
            tags: tags.to_vec(),
            ..new_run(&format!("run_{name}"))
        })
    };
    let (red, big) = (tag("colour", "red"), tag("size", "big"));
    let runs = vec![
        run("a", 10, &[big.clone(), red.clone()]),
        run("b", 20, &[red.clone(), tag("size", "small")]),
        run("c", 30, &[]),
    ];
    let keys = submit(store, runs, None).unwrap();
    let found = |filter: RunFilter| -> Vec<RunKey> {
        store.read().runs(&filter).unwrap().runs.into_iter().map(|run| run.key).collect()
    };
    let all = RunFilter::default;
    assert_eq!(found(RunFilter { tags: vec![red.clone()], ..all() }), [keys[1], keys[0]]);
    assert_eq!(found(RunFilter { tags: vec![red.clone(), big.clone()], ..all() }), [keys[0]]);
    assert_eq!(found(RunFilter { tags: vec![tag("colour", "big")], ..all() }), [0; 0]);
    assert_eq!(found(RunFilter { run_key: Some("b".into()), ..all() }), [keys[1]]);
    assert_eq!(found(RunFilter { since_ms: Some(20), ..all() }), [keys[2], keys[1]]);
    assert_eq!(found(RunFilter { until_ms: Some(20), ..all() }), [keys[0]]);
    assert_eq!(store.read().run_by_number(keys[0]).unwrap().unwrap().tags, [red, big]);
}

fn counts_follow_the_runs(subject: Subject) {
    let store = &*subject.store;
    let (a, b) = (start(store, "run_1"), start(store, "run_2"));
    store.start_run(NewRun { workflow: "refund".into(), ..new_run("run_3") }).wait().unwrap();
    let counts = |workflow| store.read().counts(workflow).unwrap();
    let one = |workflow: &str, status, n| (workflow.to_owned(), status, n);
    assert_eq!(counts(None), [one("checkout", Status::Queued, 2), one("refund", Status::Queued, 1)]);
    let change = |run, status| {
        store.flush(store.append(Append::entries(run, 1, Vec::new()).with_change(RunChange::to(status, 9)))).unwrap();
    };
    change(a, Status::Running);
    change(a, Status::Running);
    change(b, Status::Running);
    change(b, Status::Succeeded);
    let expected = [one("checkout", Status::Running, 1), one("checkout", Status::Succeeded, 1)];
    assert_eq!(counts(Some("checkout")), expected);
    assert_eq!(counts(Some("nothing")), []);
}

fn a_delayed_run_has_its_timer(subject: Subject) {
    let store = with_module(&subject);
    let delayed = NewRun { begins_at_ms: Some(500), ..new_run("run_1") };
    let key = submit(store, vec![Action::Start(delayed)], None).unwrap()[0];
    assert_eq!(store.read().due_timers(500, 9).unwrap(), [(500, key)]);
    assert_eq!(store.read().run_by_number(key).unwrap().unwrap().wake_at_ms, Some(500));
    store
        .flush(store.append(Append::entries(key, 1, Vec::new()).with_change(RunChange::to(Status::Running, 9))))
        .unwrap();
    assert_eq!(store.read().next_wake().unwrap(), None);
}

fn a_run_names_the_one_that_it_is_in_the_place_of(subject: Subject) {
    let store = with_module(&subject);
    let again = NewRun { retry_of: Some(RunId::new("run_1")), ..new_run("run_2") };
    let keys = submit(store, vec![Action::Start(new_run("run_1")), Action::Start(again)], None).unwrap();
    let of = |key: &RunKey| store.read().run_by_number(*key).unwrap().unwrap().retry_of;
    assert_eq!(keys.iter().map(of).collect::<Vec<_>>(), [None, Some(RunId::new("run_1"))]);
    let listed = store.read().runs(&RunFilter::default()).unwrap().runs;
    assert_eq!(listed.iter().map(|row| row.retry_of.is_some()).collect::<Vec<_>>(), [true, false]);
}

fn a_rerun_is_of_the_run_as_it_was_looked_at(subject: Subject) {
    let store = with_module(&subject);
    let first = start(store, "run_1");
    let of = RerunOf { run: RunId::new("run_1"), step: "charge\"#2".into() };
    let rerun = |name: &str, entries| {
        let rerun = Some(NewRerun { of: of.clone(), entries, unknown: 2 });
        let inbox = vec![("paid".to_owned(), "1".to_owned())];
        vec![Action::Start(NewRun { rerun, inbox, first: vec![b"a".to_vec(), b"b".to_vec()], ..new_run(name) })]
    };
    assert_eq!(submit(store, rerun("run_2", 1), None), Err(StoreError::Outdated), "it has not ended");
    let ended = RunChange::to(Status::Failed, 2);
    store.flush(store.append(Append::entries(first, 1, vec![b"end".to_vec()]).with_change(ended))).unwrap();
    assert_eq!(submit(store, rerun("run_2", 1), None), Err(StoreError::Outdated), "it has gone on since");
    let keys = submit(store, rerun("run_2", 2), None).unwrap();
    let row = |key: RunKey| store.read().run_by_number(key).unwrap().unwrap();
    assert_eq!((row(keys[0]).rerun_of, row(keys[0]).unknown), (Some(of.clone()), 2));
    assert_eq!((row(first).rerun_of, length(store, keys[0])), (None, 2));
    let unknown = store.read().runs(&RunFilter { unknown: true, ..RunFilter::default() }).unwrap().runs;
    assert_eq!(unknown.iter().map(|row| row.rerun_of.clone()).collect::<Vec<_>>(), [Some(of.clone())]);
    let event = NewEvent { run: keys[0], name: "paid".into(), payload: "2".into(), dedup: None };
    assert_eq!(store.send_event(event).wait().unwrap().number, 2);
    // It may outlive the other one.
    let gone = Submission { actions: vec![Action::ForgetRun { run: first, ended: (Status::Failed, 2) }], answer: None };
    assert_eq!(store.submit(gone).wait().unwrap().forgotten, [true]);
    assert_eq!(row(keys[0]).rerun_of.as_ref(), Some(&of));
    assert!(submit(store, rerun("run_3", 7), None).is_ok(), "nobody goes on with what is gone");
}

fn what_a_run_has_not_seen_is_told(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let unseen = || store.read().unfinished().unwrap().0[0].unseen;
    assert!(!unseen());
    let event = NewEvent { run: key, name: "paid".into(), payload: "{}".into(), dedup: None };
    store.send_event(event).wait().unwrap();
    assert!(unseen());
    let seen = RunChange { inbox_seen: Some(1), wake_at_ms: Some(7), ..RunChange::to(Status::Waiting, 2) };
    store.flush(store.append(Append::entries(key, 1, Vec::new()).with_change(seen))).unwrap();
    let (runs, _) = store.read().unfinished().unwrap();
    assert_eq!((runs[0].unseen, runs[0].wake_at_ms, runs[0].status), (false, Some(7), Status::Waiting));
    // A change that does not say so leaves it.
    store
        .flush(store.append(Append::entries(key, 1, Vec::new()).with_change(RunChange::to(Status::Running, 3))))
        .unwrap();
    assert!(!unseen());
}

fn what_is_asked_of_a_run_and_its_answer_are_kept_together(subject: Subject) {
    let store = &*subject.store;
    let key = start(store, "run_1");
    let asked = |seq, at_ms| Append { answer: Some(answer("k", at_ms, false)), ..numbered(key, seq) };
    subject.failures.fail_next_commit(StoreError::DiskFull("no room".into()));
    assert!(store.flush(store.append(asked(1, 5))).is_err());
    assert_eq!((length(store, key), store.read().answer("k").unwrap()), (1, None));
    store.recover(key);
    store.flush(store.append(asked(1, 6))).unwrap();
    assert_eq!((length(store, key), store.read().answer("k").unwrap()), (2, Some(answer("k", 6, false))));
    // The first answer stays, and no run is stopped on account of a client's key.
    store.flush(store.append(asked(2, 7))).unwrap();
    assert_eq!((length(store, key), store.read().answer("k").unwrap()), (3, Some(answer("k", 6, false))));
    store.flush(store.append(asked(3, 6 + ANSWER_KEPT_MS))).unwrap();
    assert_eq!(store.read().answer("k").unwrap().unwrap().at_ms, 6 + ANSWER_KEPT_MS);
}

fn runs_with_unknown_steps_are_found(subject: Subject) {
    let store = &*subject.store;
    let keys = ["run_1", "run_2", "run_3"].map(|name| start(store, name));
    let say = |run, seq, unknown| {
        store.flush(store.append(Append { unknown: Some(unknown), ..numbered(run, seq) })).unwrap();
    };
    say(keys[0], 1, 2);
    say(keys[2], 1, 1);
    let found = |open| -> Vec<(RunKey, u32)> {
        let filter = RunFilter { unknown: true, open, ..RunFilter::default() };
        store.read().runs(&filter).unwrap().runs.into_iter().map(|run| (run.key, run.unknown)).collect()
    };
    assert_eq!(found(false), [(keys[2], 1), (keys[0], 2)]);
    let end = Append::change(keys[0], RunChange::to(Status::Terminated, 9));
    store.flush(store.append(end)).unwrap();
    assert_eq!((found(false).len(), found(true)), (2, vec![(keys[2], 1)]), "of a run that has ended it stays listed");
    say(keys[2], 2, 0);
    assert_eq!(found(true), []);
}
