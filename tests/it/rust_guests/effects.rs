//! Requests of their steps, under each class.

use serde_json::{Value, json};
use stepwell_tests::{Finished, Project, Reply, Server};

use super::MODULE;
use crate::journals::entries;

fn run(project: &Project, class: &str, server: &Server) -> Finished {
    project.run(&MODULE, "posts", &json!({ "url": server.url(), "effect": class })).wait()
}

/// The keys that came, each shortened by the run's id.
fn keys(project: &Project, server: &Server) -> Vec<String> {
    let run = project.only_run();
    let requests = server.requests();
    let shorten = |key: Option<&str>| key?.strip_prefix(&run)?.strip_prefix(':').map(str::to_owned);
    requests.iter().map(|request| shorten(request.key()).unwrap_or_else(|| panic!("{request:#?}"))).collect()
}

/// A server that answers the first request so, and the others with a success.
fn first(reply: Reply) -> Server {
    Server::start(move |request| match request.number {
        1 => reply.clone(),
        number => Reply::Answer(201, format!("charge {number}")),
    })
}

fn blocked(end: &Finished) -> Vec<&Value> {
    end.of_kind("blocked").map(|event| &event["steps"]).collect()
}

#[test]
fn a_request_that_was_refused_is_made_again_under_a_new_key() {
    for class in ["repeatable", "keyed", "once"] {
        let project = Project::new();
        let server = first(Reply::Answer(503, String::new()));
        let end = run(&project, class, &server).expect_code(0);
        assert_eq!(*end.result(), json!({ "attempt": 2, "recorded": false, "text": "charge 2" }), "{class}");
        assert_eq!(keys(&project, &server), ["charge:e1", "charge:e2"], "{class}");
        assert_eq!(server.requests()[0].body, server.requests()[1].body);
    }
}

#[test]
fn a_request_whose_answer_was_lost_keeps_its_key_or_is_not_made_again() {
    for reply in [Reply::Drop, Reply::Answer(500, String::new())] {
        for class in ["repeatable", "keyed"] {
            let project = Project::new();
            let server = first(reply.clone());
            let end = run(&project, class, &server).expect_code(0);
            assert_eq!(*end.result(), json!({ "attempt": 2, "recorded": false, "text": "charge 2" }), "{class}");
            assert_eq!(keys(&project, &server), ["charge:e1", "charge:e1"], "{class} {reply:?}");
        }
        let project = Project::new();
        let server = first(reply.clone());
        let end = run(&project, "once", &server).expect_code(4);
        assert_eq!(blocked(&end), [&json!(["charge"])], "{reply:?}");
        assert_eq!(keys(&project, &server), ["charge:e1"], "{reply:?}");
    }
}

#[test]
fn a_status_that_will_not_change_is_one_attempt() {
    for class in ["repeatable", "keyed", "once"] {
        let project = Project::new();
        let server = first(Reply::Answer(422, String::new()));
        let end = run(&project, class, &server).expect_code(1);
        assert_eq!(end.error()["code"], "workflows.http_status", "{class}");
        assert_eq!(keys(&project, &server), ["charge:e1"], "{class}");
    }
}

#[test]
fn a_kill_while_a_request_is_under_way() {
    for (class, code) in [("repeatable", 0), ("keyed", 0), ("once", 4)] {
        let project = Project::new();
        let server = first(Reply::Hang);
        let mut doomed = project.run(&MODULE, "posts", &json!({ "url": server.url(), "effect": class }));
        server.wait_for(1);
        doomed.kill();
        let end = project.resume(&project.only_run()).wait().expect_code(code);
        let again = if code == 0 { vec!["charge:e1", "charge:e1"] } else { vec!["charge:e1"] };
        assert_eq!(keys(&project, &server), again, "{class}");
        if code == 4 {
            assert_eq!(blocked(&end), [&json!(["charge"])]);
        }
    }
}

#[test]
fn a_kill_after_the_answer_was_recorded() {
    for (class, recorded) in [("repeatable", false), ("keyed", true), ("once", true)] {
        let project = Project::new();
        let server = Server::start(|request| Reply::Answer(201, format!("charge {}", request.number)));
        let mut doomed = project.run(&MODULE, "lingers", &json!({ "url": server.url(), "effect": class }));
        doomed.until(|event| event["entry"].get("settled").map(drop));
        doomed.kill();
        let run = project.only_run();
        let end = project.resume(&run).wait().expect_code(0);
        let text = if recorded { "charge 1" } else { "charge 2" };
        assert_eq!(*end.result(), json!({ "attempt": 2, "recorded": recorded, "text": text }), "{class}");
        let sent = if recorded { 1 } else { 2 };
        assert_eq!(server.requests().len(), sent, "{class}");
        assert_eq!(entries(&project.journal(&run), "dispatched").len(), sent, "{class}");
    }
}
