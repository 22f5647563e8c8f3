//! A place among the live ones falls free: it is for whoever waits for it then, whatever brought that run there, and for whoever comes
//! next if nobody does.

use serde_json::json;
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{Entry, Record, RunOutcome};
use stepwell_core::json::Json;
use stepwell_core::limits::MAX_RECOVERIES;
use stepwell_core::policy::admission::{Limits, Rate};
use stepwell_core::run::{Finding, Granted, Refusal, Retry};
use stepwell_engine::store::{Action, Append, LimitsRow, RunFilter, Submission, Turn};
use stepwell_engine::{AskError, Engine, RunEvent, RunRef, StartRun};
use stepwell_tests::Project;

use super::no_place::{holder, one_place, start, until, until_last};
use super::{HANGS, MODULE, Question, server, status};

async fn ends(engine: &Engine, run: &RunRef) -> String {
    let mut changes = engine.changes(run.key).await;
    loop {
        let row = engine.run(&run.id).unwrap().unwrap();
        if row.status.is_finished() {
            return row.status.to_string();
        }
        let changed = tokio::time::timeout(HANGS, changes.changed()).await;
        changed.unwrap_or_else(|_| panic!("it hangs: {row:?}")).expect("the engine is there");
    }
}

async fn give_up(engine: &Engine, holder: &RunRef) {
    assert_eq!(Question::Terminate.ask(engine, holder).await, Ok(Granted::Now));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_that_nobody_waits_for_any_more_is_there_for_who_comes_next() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    for _ in 0..20 {
        let requests = server.requests().len();
        let holder = start(&engine, &server, "executing").await;
        engine.go(&holder);
        tokio::task::block_in_place(|| server.wait_for(requests + 1));
        let waits = start(&engine, &server, "sleeping").await;
        engine.go(&waits);
        assert_eq!(engine.ready_runs(), 1);
        // The last one that waits goes as the place falls free.
        let (cancelled, ()) = tokio::join!(Question::Cancel.ask(&engine, &waits), give_up(&engine, &holder));
        assert_eq!(cancelled, Ok(Granted::Now));
        let next = start(&engine, &server, "sleeping").await;
        let mut rests = engine.watch_rests(next.key);
        engine.go(&next);
        let end = until_last(&mut rests).await;
        assert!(matches!(end, RunEvent::Ended(RunOutcome::Succeeded(_))), "{end:?}");
        assert_eq!(ends(&engine, &waits).await, "cancelled");
    }
    until(&engine, 0, 0).await;
    assert_eq!(engine.live_instances(), 0);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_person_lets_go_on_without_a_place_goes_on_once_there_is_one() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let blocked = start(&engine, &server, "blocked").await;
    let mut rests = engine.watch_rests(blocked.key);
    engine.go(&blocked);
    assert!(matches!(until_last(&mut rests).await, RunEvent::Blocked(_)));

    let first = start(&engine, &server, "executing").await;
    engine.go(&first);
    let found = Finding::Failed(Error::new(Code::RequestFailed, "it was refused"));
    let resolved = engine.resolve(&blocked, "doubtful", found, "seen on the statement", "ana").await.unwrap();
    assert_eq!(resolved.granted, Granted::Now);
    until(&engine, 1, 1).await;
    assert_eq!(status(&engine, &blocked).unwrap().0, "queued", "a process that comes next takes it up");
    give_up(&engine, &first).await;
    assert_eq!(ends(&engine, &blocked).await, "failed");

    let second = start(&engine, &server, "executing").await;
    engine.go(&second);
    let retry = Retry { from_step: Some("doubtful".to_owned()), confirm: true, ..Retry::default() };
    let retried = engine.retry(&blocked, "ana", retry, "the bank says so").await.unwrap();
    assert_eq!(retried.granted, Granted::Now);
    until(&engine, 1, 1).await;
    assert_eq!(status(&engine, &blocked).unwrap().0, "queued", "a process that comes next takes it up");
    let mut rests = engine.watch_rests(blocked.key);
    give_up(&engine, &second).await;
    let rest = until_last(&mut rests).await;
    assert!(matches!(rest, RunEvent::Blocked(_)), "its answer is lost once more: {rest:?}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_at_its_limit_of_recoveries_that_a_person_resumes_without_a_place_is_tried_once_more() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let run = start(&engine, &server, "waiting").await;
    let mut rests = engine.watch_rests(run.key);
    engine.go(&run);
    assert!(matches!(rests.recv().await, Some(RunEvent::Waiting { .. })));
    until(&engine, 0, 0).await;
    // As if it had taken so many processes down with it.
    let entries = engine.store().read().journal(run.key).unwrap();
    let (seq, last) = entries.last().unwrap();
    let resumed = codec::encode(&Entry { at_ms: codec::decode(*seq, last).unwrap().at_ms, record: Record::Resumed });
    let append = Append::entries(run.key, seq + 1, vec![resumed; MAX_RECOVERIES as usize]);
    engine.store().durable(engine.store().append(append)).await.unwrap();
    engine.send_event(run.key, "go", &Json::parse("7").unwrap(), None).await.unwrap();
    let rest = until_last(&mut rests).await;
    assert!(matches!(&rest, RunEvent::Paused(error) if error.is(Code::RecoveryLimit)), "{rest:?}");

    let holder = start(&engine, &server, "executing").await;
    engine.go(&holder);
    assert_eq!(Question::Resume.ask(&engine, &run).await, Ok(Granted::Now));
    until(&engine, 1, 1).await;
    give_up(&engine, &holder).await;
    assert_eq!(ends(&engine, &run).await, "succeeded");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_waits_for_a_place_is_cancelled_when_its_parent_is_gone() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let first = holder(&engine, &server).await;
    let parent = start(&engine, &server, "parent").await;
    engine.go(&parent);
    let second = start(&engine, &server, "executing").await;
    engine.go(&second);
    // The parent has the place next, and leaves it to the second.
    give_up(&engine, &first).await;
    tokio::task::block_in_place(|| server.wait_for(2));
    engine.send_event(parent.key, "go", &Json::parse("7").unwrap(), None).await.unwrap();
    // Both, the parent to see what has come for it.
    until(&engine, 1, 2).await;
    let filter = RunFilter { parent: Some(parent.id.clone()), limit: 1, ..RunFilter::default() };
    let row = engine.store().read().runs(&filter).unwrap().runs.remove(0);
    let child = RunRef { id: row.run, key: row.key };
    assert_eq!(status(&engine, &child).unwrap().0, "queued");
    give_up(&engine, &parent).await;
    assert_eq!(ends(&engine, &child).await, "cancelled");
    until(&engine, 1, 0).await;
    engine.stop().await;
}

/// Runs of a workflow with limits, the first of which is cancelled while it waits for a place.
struct Case {
    limits: Limits,
    keys: [Option<&'static str>; 3],
    /// Of them wait for a place, and not for their turn, before the first is cancelled; and after that.
    ready: [usize; 2],
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_whose_turn_has_come_wait_for_a_place_and_leave_their_turn_to_the_next_if_they_are_cancelled() {
    let none = Limits::default();
    let rate = Rate { runs: 1, per_ms: 100, per_key: false };
    for case in [
        // One of them is the one that has the place.
        Case { limits: Limits { runs: Some(2), ..none }, keys: [None; 3], ready: [1, 1] },
        Case { limits: Limits { per_key: Some(1), ..none }, keys: [Some("a"), Some("a"), Some("b")], ready: [2, 2] },
        Case { limits: Limits { rate: Some(rate), ..none }, keys: [None; 3], ready: [3, 2] },
    ] {
        let (project, server) = (Project::new(), server());
        let engine = one_place(&project);
        engine.recover().unwrap();
        let info = engine.add_module(std::fs::read(MODULE.wasm()).unwrap()).await.unwrap();
        let limits = case.limits;
        let row = LimitsRow { workflow: info.workflows[0].clone(), limits, set_at_ms: 1, set_by: "ana".to_owned() };
        let actions = vec![Action::SetLimits(row)];
        engine.store().submit(Submission { actions, answer: None }).await.unwrap();
        let holder = holder(&engine, &server).await;
        let mut runs = Vec::new();
        for (key, priority) in case.keys.into_iter().zip([0, 1, 2]) {
            let input = json!({ "url": server.url(), "state": "sleeping", "ms": 1 });
            let mut run = StartRun::new(info.digest.clone(), None, Json::parse(&input.to_string()).unwrap());
            (run.concurrency_key, run.priority) = (key.map(str::to_owned), priority);
            let run = engine.start(run).await.unwrap();
            engine.go(&run);
            runs.push(run);
        }
        until(&engine, 1, case.ready[0]).await;
        for run in &runs {
            // They have a task for this, and go back to where they stood.
            let refused = engine.retry(run, "ana", Retry::default(), "").await;
            assert_eq!(refused, Err(AskError::Refused(Refusal::NotFailed)), "{limits:?}");
        }
        until(&engine, 1, case.ready[0]).await;
        assert_eq!(Question::Cancel.ask(&engine, &runs[0]).await, Ok(Granted::Now), "{limits:?}");
        until(&engine, 1, case.ready[1]).await;
        let turns = runs.iter().map(|run| engine.store().read().turn(run.key).unwrap());
        let holds = turns.filter(|turn| *turn == Some(Turn::Holds)).count();
        assert_eq!(holds, case.ready[1], "{limits:?}");
        give_up(&engine, &holder).await;
        for run in &runs[1..] {
            assert_eq!(ends(&engine, run).await, "succeeded", "{limits:?}");
        }
        if limits.runs.is_some() {
            // The one of the higher priority came to its turn first.
            let ended = |run: &RunRef| engine.run(&run.id).unwrap().unwrap().changed_at_ms;
            assert!(ended(&runs[2]) <= ended(&runs[1]));
        }
        engine.stop().await;
    }
}
