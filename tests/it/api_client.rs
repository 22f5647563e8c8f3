//! The commands that are clients of a server: what they do when it does not answer, and their exit codes.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use stepwell_tests::{Project, Reply, Server};

use crate::api_keys::MODULE;

fn run(status: &str) -> String {
    json!({
        "id": "run_1", "workflow": "w", "digest": "d", "status": status, "tags": {}, "createdAtMs": 1, "changedAtMs": 1,
    })
    .to_string()
}

fn problem(status: u16, code: &str) -> Reply {
    Reply::Answer(status, json!({ "status": status, "code": code, "detail": "so it is" }).to_string())
}

/// Answers each request with the next of these, and then with the last.
fn answering(replies: Vec<Reply>) -> Server {
    let next = AtomicUsize::new(0);
    Server::start(move |_| replies[next.fetch_add(1, Ordering::Relaxed).min(replies.len() - 1)].clone())
}

#[test]
fn a_wait_that_is_over_before_the_run_has_a_code_of_its_own() {
    let project = Project::new();
    for (status, code) in [("running", 7), ("waiting", 7), ("queued", 7), ("blocked", 4), ("paused", 4)] {
        let server = answering(vec![Reply::Answer(201, run(status))]);
        let ended = project.stepwell(&["start", "w", "--wait", "1s", "--url", &server.url()]);
        assert!(ended.stderr.contains(status), "{ended:#?}");
        drop(ended.expect_code(code));
        // Who does not wait has what it asked for.
        drop(project.stepwell(&["start", "w", "--url", &server.url()]).expect_code(0));
    }
    let server = project.serve_with(&MODULE);
    let url = format!("http://{}", server.address());
    let waits = project.stepwell(&["start", "waiting", "--wait", "100ms", "--url", &url]).expect_code(7);
    assert!(waits.stderr.contains("stepwell runs watch run_"), "{waits:#?}");
}

#[test]
fn a_start_that_is_not_answered_says_how_it_is_repeated_safely() {
    let project = Project::new();
    let key_in =
        |text: &str| text.split("--key ").nth(1).map(|rest| rest.split_whitespace().next().unwrap_or("").to_owned());
    for reply in [Reply::Drop, Reply::Hang, problem(500, "internal"), problem(504, "answer_timeout")] {
        let server = answering(vec![reply]);
        let url = server.url();
        let args = ["start", "w", "--input", "1", "--url", &url];
        let ended = project.spawn_with(&args, &[("STEPWELL_TIMEOUT_MS", "300")]).wait().expect_code(6);
        let requests = server.requests();
        assert!(requests.len() > 1, "it was tried again: {ended:#?}");
        let keys: Vec<_> = requests.iter().map(|request| request.key().unwrap_or_default().to_owned()).collect();
        assert!(keys.iter().all(|key| Some(key) == key_in(&ended.stderr).as_ref()), "{keys:?} {ended:#?}");
    }
    // One that was refused was not carried out, and one that never arrived neither.
    let server = answering(vec![problem(422, "workflow_not_active")]);
    let refused = project.stepwell(&["start", "w", "--url", &server.url()]).expect_code(2);
    assert_eq!(key_in(&refused.stderr), None, "{refused:#?}");
    let nobody = Server::refusing(|_| Reply::Drop);
    let unreached = project.stepwell(&["start", "w", "--url", &nobody.url()]).expect_code(6);
    assert_eq!(key_in(&unreached.stderr), None, "{unreached:#?}");
}

#[test]
fn a_failure_that_passes_is_waited_out() {
    let project = Project::new();
    let server = answering(vec![
        problem(500, "internal"),
        problem(504, "answer_timeout"),
        problem(503, "storage_failed"),
        problem(409, "idempotency_in_progress"),
        Reply::Answer(201, run("queued")),
    ]);
    let started = project.stepwell(&["start", "w", "--url", &server.url()]).expect_code(0);
    assert_eq!(started.stdout.trim(), "run_1");
    // What has no key is not repeated, since it could be done twice.
    let server = answering(vec![problem(500, "internal")]);
    drop(project.stepwell(&["token", "create", "ana", "--scope", "read", "--url", &server.url()]).expect_code(6));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_was_taken_away_by_an_attempt_without_an_answer_is_gone() {
    let project = Project::new();
    let server = answering(vec![Reply::Drop, problem(404, "not_found")]);
    drop(project.stepwell(&["modules", "delete", "d", "--url", &server.url()]).expect_code(0));
    // Nobody had asked before, so there was none.
    let server = answering(vec![problem(404, "not_found")]);
    drop(project.stepwell(&["modules", "delete", "d", "--url", &server.url()]).expect_code(2));
}

#[test]
fn a_stream_that_brings_nothing_is_given_up() {
    let project = Project::new();
    let event = "event: problem\ndata: {\"status\":500,\"code\":\"internal\",\"detail\":\"unreadable\"}\n\n";
    let stream = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{event}");
    let server = answering(vec![Reply::Raw(stream.into_bytes())]);
    let given_up = project.stepwell(&["runs", "watch", "run_1", "--url", &server.url()]).expect_code(6);
    assert!(given_up.stderr.contains("unreadable"), "{given_up:#?}");
}
