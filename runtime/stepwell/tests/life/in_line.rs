//! Questions to a run that waits for a place: each is answered at once, none of its code runs, and a kill changes nothing of that.

use serde_json::json;
use stepwell_core::json::Json;
use stepwell_core::policy::admission::Limits;
use stepwell_core::run::{Finding, Granted, Refusal, Retry};
use stepwell_engine::store::{Action, LimitsRow, Submission, Turn};
use stepwell_engine::{AskError, Engine, RunRef, StartRun};
use stepwell_tests::{Project, Server};

use super::{MODULE, Question, count, engine, server, status, try_engine};

async fn limit(engine: &Engine, workflow: &str, runs: Option<u32>) {
    let limits = Limits { runs, ..Limits::default() };
    let row = LimitsRow { workflow: workflow.to_owned(), limits, set_at_ms: 1, set_by: "ana".to_owned() };
    let submission = Submission { actions: vec![Action::SetLimits(row)], answer: None };
    engine.store().submit(submission).await.unwrap();
}

/// A run of a workflow of which none may begin.
async fn in_line(engine: &Engine, server: &Server) -> RunRef {
    let info = engine.add_module(std::fs::read(MODULE.wasm()).unwrap()).await.unwrap();
    limit(engine, &info.workflows[0], Some(0)).await;
    let input = Json::parse(&json!({ "url": server.url(), "state": "sleeping" }).to_string()).unwrap();
    let run = engine.start(StartRun::new(info.digest, None, input)).await.unwrap();
    engine.go(&run);
    run
}

fn turn(engine: &Engine, run: &RunRef) -> Option<Turn> {
    engine.store().read().turn(run.key).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_question_is_answered_at_once_and_holds_after_a_restart() {
    for (question, granted, stands, place) in [
        (Question::Cancel, Granted::Now, "cancelled", Turn::Over),
        (Question::Terminate, Granted::Now, "terminated", Turn::Over),
        (Question::Pause, Granted::Now, "paused", Turn::Rests),
        (Question::Resume, Granted::Already, "queued", Turn::Waits),
    ] {
        let (project, server) = (Project::new(), server());
        let first = engine(&project.data_dir(), |_| {});
        first.recover().unwrap();
        let run = in_line(&first, &server).await;
        assert_eq!(turn(&first, &run), Some(Turn::Waits), "{question:?}");
        let unknown = first.resolve(&run, "charge", Finding::Retry, "", "ana").await;
        assert!(matches!(unknown, Err(AskError::Refused(_))), "{question:?}: {unknown:?}");
        let failed = first.retry(&run, "ana", Retry::default(), "").await;
        assert!(failed == Err(AskError::Refused(Refusal::NotFailed)), "{question:?}: {failed:?}");
        assert_eq!(question.ask(&first, &run).await, Ok(granted), "{question:?}");
        assert_eq!(status(&first, &run).unwrap().0, stands, "{question:?}");
        first.stop().await;
        drop(first);
        // A task that was just woken may hold the first for a moment.
        let second = loop {
            match try_engine(&project.data_dir(), |_| {}) {
                Ok(engine) => break engine,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        second.recover().unwrap();
        assert_eq!(status(&second, &run).unwrap().0, stands, "{question:?}");
        assert_eq!(turn(&second, &run), Some(place), "{question:?}");
        second.stop().await;
        assert!(server.requests().is_empty(), "{question:?}: none of its code has run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_paused_in_line_begins_once_it_is_resumed_and_has_a_place() {
    let (project, server) = (Project::new(), server());
    let engine = engine(&project.data_dir(), |_| {});
    engine.recover().unwrap();
    let run = in_line(&engine, &server).await;
    assert_eq!(Question::Pause.ask(&engine, &run).await, Ok(Granted::Now));
    let workflow = engine.run(&run.id).unwrap().unwrap().workflow;
    limit(&engine, &workflow, None).await;
    assert_eq!((status(&engine, &run).unwrap().0.as_str(), turn(&engine, &run)), ("paused", Some(Turn::Rests)));
    let mut changes = engine.changes(run.key).await;
    assert_eq!(Question::Resume.ask(&engine, &run).await, Ok(Granted::Now));
    while status(&engine, &run).unwrap().0 != "waiting" {
        changes.changed().await.expect("the engine is there");
    }
    assert_eq!((turn(&engine, &run), count(&server, "/charge")), (Some(Turn::Holds), 0));
    engine.stop().await;
}
