//! Runs that have something to do while all places among the live ones are taken: they are asked and answered like any other, come in
//! their order, and none is lost by a stop.

use serde_json::json;
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::json::Json;
use stepwell_core::run::{Granted, Refusal, Retry, RunStatus};
use stepwell_engine::{AskError, Engine, RunEvent, RunRef, StartRun};
use stepwell_tests::{Project, Server};
use tokio::sync::mpsc::UnboundedReceiver;

use super::{HANGS, MODULE, Question, count, engine, server, status, try_engine};

/// An engine with one place, that need not compile the module first.
pub(super) fn one_place(project: &Project) -> Engine {
    MODULE.put_into(&project.data_dir());
    engine(&project.data_dir(), |settings| settings.max_live = 1)
}

pub(super) async fn start(engine: &Engine, server: &Server, state: &str) -> RunRef {
    let digest = engine.add_module(std::fs::read(MODULE.wasm()).unwrap()).await.unwrap().digest;
    let input = Json::parse(&json!({ "url": server.url(), "state": state, "ms": 200 }).to_string()).unwrap();
    engine.start(StartRun::new(digest, None, input)).await.unwrap()
}

/// A run that has the only place, and keeps it: its request is not answered.
pub(super) async fn holder(engine: &Engine, server: &Server) -> RunRef {
    let run = start(engine, server, "executing").await;
    engine.go(&run);
    tokio::task::block_in_place(|| server.wait_for(1));
    assert_eq!((engine.live_instances(), engine.ready_runs()), (1, 0));
    run
}

/// Until so many runs have a task, and so many wait for a place.
pub(super) async fn until(engine: &Engine, live: usize, ready: usize) {
    let come = async {
        while (engine.live_runs(), engine.ready_runs()) != (live, ready) {
            tokio::task::yield_now().await;
        }
    };
    let come = tokio::time::timeout(HANGS, come).await;
    assert!(come.is_ok(), "{live} live and {ready} ready: {} and {}", engine.live_runs(), engine.ready_runs());
}

async fn until_waiting(events: &mut UnboundedReceiver<RunEvent>) {
    let event = events.recv().await.expect("the engine is there");
    assert!(matches!(event, RunEvent::Waiting { .. }), "{event:?}");
}

pub(super) async fn until_last(events: &mut UnboundedReceiver<RunEvent>) -> RunEvent {
    loop {
        let event = tokio::time::timeout(HANGS, events.recv()).await.expect("it hangs").expect("the engine is there");
        if event.is_last() {
            return event;
        }
    }
}

/// Another engine on the same data directory, once the first has let go of it.
async fn next(project: &Project, first: Engine) -> Engine {
    drop(first);
    loop {
        match try_engine(&project.data_dir(), |settings| settings.max_live = 1) {
            Ok(engine) => return engine,
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_question_to_a_run_that_has_no_place_is_answered_at_once() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let _holder = holder(&engine, &server).await;
    for (question, granted, stands) in [
        (Question::Cancel, Granted::Now, "cancelled"),
        (Question::Terminate, Granted::Now, "terminated"),
        (Question::Pause, Granted::Now, "paused"),
        (Question::Resume, Granted::Already, "queued"),
    ] {
        let run = start(&engine, &server, "sleeping").await;
        engine.go(&run);
        assert_eq!((engine.live_runs(), engine.ready_runs()), (1, 1), "{question:?}: it waits, and has no task");
        assert_eq!(question.ask(&engine, &run).await, Ok(granted), "{question:?}");
        assert_eq!(status(&engine, &run).unwrap().0, stands, "{question:?}");
        let again = question.ask(&engine, &run).await;
        match question {
            Question::Cancel => assert_eq!(again, Err(AskError::Refused(Refusal::Ended(RunStatus::Cancelled)))),
            Question::Terminate => assert_eq!(again, Err(AskError::Refused(Refusal::Ended(RunStatus::Terminated)))),
            Question::Pause | Question::Resume => assert_eq!(again, Ok(Granted::Already)),
        }
        // What is paused or over waits for no place any more; what goes on does again, and has no task.
        until(&engine, 1, usize::from(question == Question::Resume)).await;
    }
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_paused_and_resumed_without_a_place_begins_when_there_is_one() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let holder = holder(&engine, &server).await;
    let run = start(&engine, &server, "sleeping").await;
    engine.go(&run);
    for question in [Question::Pause, Question::Resume] {
        assert_eq!(question.ask(&engine, &run).await, Ok(Granted::Now), "{question:?}");
    }
    assert_eq!(status(&engine, &run).unwrap().0, "queued");
    let mut rests = engine.watch_rests(run.key);
    assert_eq!(Question::Terminate.ask(&engine, &holder).await, Ok(Granted::Now));
    let end = until_last(&mut rests).await;
    assert!(matches!(end, RunEvent::Ended(RunOutcome::Succeeded(_))), "{end:?}");
    assert_eq!(count(&server, "/after"), 1);
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_and_a_timer_of_parked_runs_wait_for_a_place_and_are_not_lost() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let (waiter, sleeper) = (start(&engine, &server, "waiting").await, start(&engine, &server, "sleeping").await);
    let (mut of_waiter, mut of_sleeper) = (engine.watch_rests(waiter.key), engine.watch_rests(sleeper.key));
    for (run, events) in [(&waiter, &mut of_waiter), (&sleeper, &mut of_sleeper)] {
        engine.go(run);
        until_waiting(events).await;
    }
    let holder = start(&engine, &server, "executing").await;
    engine.go(&holder);
    let event = Json::parse("7").unwrap();
    engine.send_event(waiter.key, "go", &event, None).await.unwrap();
    // The one's event, and the other's time.
    until(&engine, 1, 2).await;
    // Their rows say what they waited for: a process that takes them up now finds them.
    assert_eq!(status(&engine, &waiter).unwrap().0, "waiting");
    assert_eq!(Question::Terminate.ask(&engine, &holder).await, Ok(Granted::Now));
    let end = until_last(&mut of_waiter).await;
    assert!(matches!(&end, RunEvent::Ended(RunOutcome::Succeeded(value)) if value.same_value(&event)), "{end:?}");
    let end = until_last(&mut of_sleeper).await;
    assert!(matches!(end, RunEvent::Ended(RunOutcome::Succeeded(_))), "{end:?}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_begin_in_the_order_in_which_they_came_and_one_that_is_asked_keeps_its_turn() {
    let (project, server) = (Project::new(), server());
    let engine = one_place(&project);
    let holder = holder(&engine, &server).await;
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(start(&engine, &server, "blocked").await);
    }
    // Not in the order of their numbers.
    runs.reverse();
    let rests: Vec<_> = runs.iter().map(|run| engine.watch_rests(run.key)).collect();
    runs.iter().for_each(|run| engine.go(run));
    assert_eq!((engine.live_runs(), engine.ready_runs()), (1, 20));
    assert_eq!(Question::Resume.ask(&engine, &runs[3]).await, Ok(Granted::Already));
    let refused = engine.retry(&runs[5], "ana", Retry::default(), "").await;
    assert_eq!(refused, Err(AskError::Refused(Refusal::NotFailed)));
    until(&engine, 1, 20).await;
    assert_eq!(Question::Terminate.ask(&engine, &holder).await, Ok(Granted::Now));
    for mut rest in rests {
        assert!(matches!(until_last(&mut rest).await, RunEvent::Blocked(_)));
    }
    // With one place, each begins when the one before it has left.
    let begun = runs.iter().map(|run| {
        let (seq, bytes) = engine.store().read().entries(run.key, 1, 1).unwrap().into_iter().next().unwrap();
        codec::decode(seq, &bytes).unwrap().at_ms
    });
    let begun: Vec<u64> = begun.collect();
    assert!(begun.is_sorted(), "{begun:?}");
    engine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_leaves_those_that_have_no_place_to_the_next_process() {
    const RUNS: usize = 30;
    let (project, server) = (Project::new(), server());
    let first = one_place(&project);
    let holder = holder(&first, &server).await;
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        runs.push(start(&first, &server, "blocked").await);
    }
    let rests: Vec<_> = runs.iter().map(|run| first.watch_rests(run.key)).collect();
    runs.iter().for_each(|run| first.go(run));
    // The place becomes free while the stop comes.
    let (ended, ()) = tokio::join!(Question::Terminate.ask(&first, &holder), first.stop());
    assert!(matches!(ended, Ok(Granted::Now) | Err(AskError::Store(_))), "{ended:?}");
    assert_eq!((first.live_runs(), first.ready_runs()), (0, 0));
    for mut rest in rests {
        let last = until_last(&mut rest).await;
        assert!(matches!(last, RunEvent::Parked | RunEvent::Blocked(_)), "{last:?}");
    }
    let second = next(&project, first).await;
    second.recover().unwrap();
    // It may have ended already.
    let _ = Question::Terminate.ask(&second, &holder).await;
    for run in &runs {
        let mut changes = second.changes(run.key).await;
        while status(&second, run).unwrap().0 != "blocked" {
            changes.changed().await.expect("the engine is there");
        }
    }
    assert_eq!(count(&server, "/doubtful"), RUNS, "each has begun once");
    second.stop().await;
}
