//! Questions to live and parked runs, in the process that drives them.

use serde_json::json;
use stepwell_core::journal::entry::{Entry, Record};
use stepwell_core::json::Json;
use stepwell_core::run::{Finding, Granted, Refusal, RunStatus};
use stepwell_engine::store::RunFilter;
use stepwell_engine::{AskError, Engine, RunEvent, RunRef, StartRun};
use stepwell_tests::{Project, Server};

use super::{MODULE, Question, STATES, count, engine, server, status};

async fn start(engine: &Engine, server: &Server, state: &str) -> RunRef {
    let digest = engine.add_module(std::fs::read(MODULE.wasm()).unwrap()).await.unwrap().digest;
    let input = Json::parse(&json!({ "url": server.url(), "state": state }).to_string()).unwrap();
    let start = StartRun::new(digest, None, input);
    engine.start(start).await.unwrap()
}

/// By this entry, or right after it, the run is in that state: its request is under way, and for `ending` its function has returned.
fn leaves(state: &str, entry: &Entry) -> bool {
    match state {
        "executing" => matches!(entry.record, Record::Dispatched(_)),
        "ending" => matches!(entry.record, Record::Delivered { .. }),
        _ => false,
    }
}

/// Starts a run and waits until it is in that state.
async fn reach(engine: &Engine, server: &Server, state: &str) -> RunRef {
    let run = start(engine, server, state).await;
    let mut events = engine.watch(run.key);
    let charges = count(server, "/charge");
    engine.go(&run);
    loop {
        match events.recv().await.expect("the run goes on") {
            RunEvent::Waiting { .. } if !matches!(state, "executing" | "between" | "ending") => break,
            RunEvent::Blocked(_) => break,
            RunEvent::Entry { seq, .. } if state == "between" && seq > 20 => break,
            RunEvent::Entry { entry, .. } if leaves(state, &entry) => {
                tokio::task::block_in_place(|| server.wait_for(charges + 1));
                break;
            }
            RunEvent::Ended(outcome) => panic!("{state}: {outcome:?}"),
            _ => {}
        }
    }
    run
}

/// How the run has ended, once it has.
async fn last(engine: &Engine, run: &RunRef) -> String {
    let mut changes = engine.changes(run.key).await;
    loop {
        let (status, _) = status(engine, run).unwrap();
        if matches!(&status[..], "succeeded" | "failed" | "cancelled" | "terminated") {
            return status;
        }
        changes.changed().await.expect("the engine is there");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_then_terminate_in_each_state_is_one_end_and_no_effect_after_it() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    for state in STATES {
        let server = server();
        let run = reach(&engine, &server, state).await;
        assert_eq!(Question::Cancel.ask(&engine, &run).await, Ok(Granted::Now), "{state}");
        if state == "blocked" {
            // What it did is unknown, whatever is asked: it cleans up only once somebody has said what became of it.
            assert_eq!(Question::Cancel.ask(&engine, &run).await, Ok(Granted::Already), "{state}");
            assert_eq!(Question::Terminate.ask(&engine, &run).await, Ok(Granted::Now), "{state}");
            assert_eq!(last(&engine, &run).await, "terminated", "{state}");
            assert_eq!(engine.unknown_steps(&run).unwrap().len(), 1);
            assert_eq!(count(&server, "/undo"), 0);
        } else if state == "executing" {
            // Its request was torn down and may have happened.
            assert_eq!(Question::Terminate.ask(&engine, &run).await, Ok(Granted::Now), "{state}");
            assert_eq!(last(&engine, &run).await, "terminated", "{state}");
        } else {
            assert_eq!(last(&engine, &run).await, "cancelled", "{state}");
            assert_eq!(count(&server, "/undo"), 1, "{state}: it has cleaned up");
        }
        let ended = engine.run(&run.id).unwrap().unwrap();
        let sent = server.requests().len();
        for question in Question::ALL {
            let answer = question.ask(&engine, &run).await;
            let is = matches!(answer, Err(AskError::Refused(Refusal::Ended(_))));
            assert!(is, "{state}, {question:?}: {answer:?}");
        }
        assert_eq!(engine.run(&run.id).unwrap().unwrap(), ended, "{state}: nothing has changed");
        assert_eq!(ended.wake_at_ms, None, "{state}: no timer is left");
        assert_eq!(server.requests().len(), sent, "{state}: no later effect");
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_termination_ends_a_run_in_each_state_without_its_code() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    for state in STATES.into_iter().chain(["ending"]) {
        let server = server();
        let run = reach(&engine, &server, state).await;
        assert_eq!(Question::Terminate.ask(&engine, &run).await, Ok(Granted::Now), "{state}");
        assert_eq!(last(&engine, &run).await, "terminated", "{state}");
        assert_eq!(count(&server, "/undo"), 0, "{state}: nothing is cleaned up");
        let unknown = engine.unknown_steps(&run).unwrap();
        let expected = usize::from(matches!(state, "executing" | "blocked" | "ending"));
        assert_eq!(unknown.len(), expected, "{state}: {unknown:?}");
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_then_terminate_of_a_paused_run_ends_it_without_its_code() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    for state in STATES {
        let server = server();
        let run = reach(&engine, &server, state).await;
        assert_eq!(Question::Pause.ask(&engine, &run).await, Ok(Granted::Now), "{state}");
        assert_eq!(Question::Cancel.ask(&engine, &run).await, Ok(Granted::OnResume), "{state}");
        assert_eq!(Question::Terminate.ask(&engine, &run).await, Ok(Granted::Now), "{state}");
        assert_eq!(last(&engine, &run).await, "terminated", "{state}");
        assert_eq!(count(&server, "/undo"), 0, "{state}: nothing is cleaned up");
        let sent = server.requests().len();
        for question in Question::ALL {
            let answer = question.ask(&engine, &run).await;
            let is = matches!(answer, Err(AskError::Refused(Refusal::Ended(RunStatus::Terminated))));
            assert!(is, "{state}, {question:?}: {answer:?}");
        }
        assert_eq!(engine.run(&run.id).unwrap().unwrap().wake_at_ms, None, "{state}: no timer is left");
        assert_eq!(server.requests().len(), sent, "{state}: no later effect");
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_its_child_is_cancelled_with_it_and_ended_without() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    for (question, end, cleaned_up) in [(Question::Cancel, "cancelled", 2), (Question::Terminate, "terminated", 1)] {
        let server = server();
        let run = reach(&engine, &server, "parent").await;
        let filter = RunFilter { parent: Some(run.id.clone()), limit: 2, ..RunFilter::default() };
        let children = engine.store().read().runs(&filter).unwrap().runs;
        let [child] = &children[..] else { panic!("{children:?}") };
        let child = RunRef { id: child.run.clone(), key: child.key };
        assert_eq!(question.ask(&engine, &run).await, Ok(Granted::Now), "{question:?}");
        assert_eq!(last(&engine, &run).await, end, "{question:?}");
        // A child that means to clean up may do so, also after its parent's end.
        assert_eq!(last(&engine, &child).await, "cancelled", "{question:?}");
        assert_eq!(count(&server, "/undo"), cleaned_up, "{question:?}");
        for of in [&run, &child] {
            for again in Question::ALL {
                let answer = again.ask(&engine, of).await;
                assert!(matches!(answer, Err(AskError::Refused(Refusal::Ended(_)))), "{question:?}: {answer:?}");
            }
            assert_eq!(engine.run(&of.id).unwrap().unwrap().wake_at_ms, None, "{question:?}: no timer is left");
        }
        assert_eq!(count(&server, "/undo"), cleaned_up, "{question:?}: no later effect");
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_end_is_decided_is_cancelled_no_more_and_can_be_terminated() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    let server = server();
    let run = reach(&engine, &server, "ending").await;
    for question in [Question::Cancel, Question::Pause] {
        let answer = question.ask(&engine, &run).await;
        assert!(matches!(answer, Err(AskError::Refused(Refusal::Ending))), "{question:?}: {answer:?}");
    }
    assert_eq!(Question::Terminate.ask(&engine, &run).await, Ok(Granted::Now));
    assert_eq!(last(&engine, &run).await, "terminated");
    assert_eq!((count(&server, "/charge"), count(&server, "/undo")), (1, 0));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_not_begun_is_paused_resumed_and_cancelled() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    let server = server();
    let run = start(&engine, &server, "sleeping").await;
    assert_eq!(Question::Pause.ask(&engine, &run).await, Ok(Granted::Now));
    engine.go(&run);
    assert_eq!(Question::Pause.ask(&engine, &run).await, Ok(Granted::Already));
    let (status, detail) = status(&engine, &run).unwrap();
    assert_eq!((&status[..], &detail[..]), ("paused", "paused by ana: the bank is down"));
    assert_eq!(Question::Cancel.ask(&engine, &run).await, Ok(Granted::Now), "nothing of it has run");
    assert_eq!(last(&engine, &run).await, "cancelled");
    let ended = Question::Resume.ask(&engine, &run).await;
    assert_eq!(ended, Err(AskError::Refused(Refusal::Ended(RunStatus::Cancelled))));
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_lets_its_request_settle_and_starts_nothing() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    let server = server();
    let run = reach(&engine, &server, "sleeping").await;
    assert_eq!(Question::Pause.ask(&engine, &run).await, Ok(Granted::Now));
    assert_eq!(engine.run(&run.id).unwrap().unwrap().wake_at_ms, None, "its timer waits");
    engine.send_event(run.key, "go", &Json::null(), None).await.unwrap();
    assert_eq!(status(&engine, &run).unwrap().0, "paused", "an event does not wake it");
    assert_eq!(Question::Cancel.ask(&engine, &run).await, Ok(Granted::OnResume));
    assert_eq!(Question::Cancel.ask(&engine, &run).await, Ok(Granted::Already));
    assert_eq!(count(&server, "/undo"), 0);
    assert_eq!(Question::Resume.ask(&engine, &run).await, Ok(Granted::Now));
    assert_eq!(last(&engine, &run).await, "cancelled");
    assert_eq!(count(&server, "/undo"), 1);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_run_goes_on_with_what_a_person_has_found_out() {
    let project = Project::new();
    let engine = engine(&project.data_dir(), |_| {});
    let server = server();
    let run = reach(&engine, &server, "blocked").await;
    let none = engine.resolve(&run, "nothing", Finding::Retry, "", "ana").await;
    assert_eq!(none, Err(AskError::Refused(Refusal::NoSuchStep("nothing".to_owned()))));
    let found = Finding::Succeeded(Json::parse("\"ch_1\"").unwrap());
    let resolved = engine.resolve(&run, "doubtful", found.clone(), "seen on the statement", "ana").await.unwrap();
    assert_eq!(resolved.granted, Granted::Now);
    assert_eq!(last(&engine, &run).await, "succeeded");
    assert_eq!(count(&server, "/doubtful"), 1);
    let again = engine.resolve(&run, "doubtful", found, "", "bob").await;
    assert!(matches!(again, Err(AskError::Refused(Refusal::Ended(RunStatus::Succeeded)))), "{again:?}");
    engine.stop().await;
}
