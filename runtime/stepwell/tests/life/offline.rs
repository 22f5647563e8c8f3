//! The process that drove the run was killed; people ask, and the run goes on in another process with what they were answered.

use serde_json::json;
use stepwell_core::ids::RunId;
use stepwell_core::run::Granted;
use stepwell_engine::{Engine, RunRef};
use stepwell_tests::Project;

use super::{MODULE, Question, count, server, status, try_engine};

/// A run in that state whose process was killed.
fn killed(project: &Project, url: &str, state: &str) -> RunRef {
    let mut doomed = project.run(&MODULE, "stay", &json!({ "url": url, "state": state }));
    match state {
        "executing" => doomed.until(|event| event["entry"].get("dispatched").map(drop)),
        _ => doomed.until(|event| (event["event"] == "waiting").then_some(())),
    }
    doomed.kill();
    // The only run of its directory.
    RunRef { id: RunId::new(project.only_run()), key: 1 }
}

/// An engine that answers and drives nothing. The one before it is closed once the last of its tasks has seen that it is gone.
async fn asked_only(project: &Project) -> Engine {
    let lock = project.data_dir().join("stepwell.lock");
    loop {
        if let Ok(engine) = try_engine(&project.data_dir(), |settings| settings.drives = false) {
            return engine;
        }
        assert!(lock.exists(), "the directory is there, and cannot be opened");
        tokio::task::yield_now().await;
    }
}

/// Waits until nobody holds the directory.
async fn free(project: &Project) {
    let file = std::fs::File::open(project.data_dir().join("stepwell.lock")).unwrap();
    while file.try_lock().is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_holds_in_the_next_process() {
    for state in ["executing", "sleeping", "backing-off", "waiting"] {
        for question in Question::ALL {
            let (project, server) = (Project::new(), server());
            let run = killed(&project, &server.url(), state);
            {
                let engine = asked_only(&project).await;
                let expected = if question == Question::Resume { Granted::Already } else { Granted::Now };
                assert_eq!(question.ask(&engine, &run).await, Ok(expected), "{state}, {question:?}");
                engine.stop().await;
            }
            let sent = server.requests().len();
            let engine = asked_only(&project).await;
            let (now, detail) = status(&engine, &run).unwrap();
            let again = question.ask(&engine, &run).await;
            // What was live when its process was killed is taken up by the next one in any case.
            let open = if state == "executing" { "running" } else { "queued" };
            match question {
                Question::Cancel => {
                    assert_eq!((&now[..], again), (open, Ok(Granted::Already)), "{state}: {detail}");
                }
                Question::Pause => {
                    assert_eq!((&now[..], again), ("paused", Ok(Granted::Already)), "{state}: {detail}");
                }
                Question::Terminate => {
                    assert_eq!(now, "terminated", "{state}: {detail}");
                    assert!(again.is_err(), "{state}: {again:?}");
                }
                Question::Resume => assert_eq!(now, open, "{state}: {detail}"),
            }
            engine.stop().await;
            drop(engine);
            if question == Question::Cancel && state != "executing" {
                free(&project).await;
                let end = project.resume(run.id.as_str()).wait().expect_code(1);
                assert_eq!(end.of_kind("ended").next().unwrap()["status"], "cancelled", "{state}");
                assert_eq!(count(&server, "/undo"), 1, "{state}: it has cleaned up");
            } else {
                assert_eq!(server.requests().len(), sent, "{state}, {question:?}: no effect by an answer");
            }
        }
    }
}
