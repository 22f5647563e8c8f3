//! Steps that must not happen twice, and a host that dies beside them.

use serde_json::json;
use stepwell_tests::{Project, Reply, Server};

use super::{MODULE, eager, keys};

#[test]
fn a_post_that_was_under_way_when_the_host_died_is_nobodys_to_repeat() {
    let project = Project::new();
    let server = Server::start(|_| Reply::Hang);
    let mut doomed = project.run(&MODULE, "post", &json!({ "url": server.url(), "options": eager("once") }));
    server.wait_for(1);
    doomed.kill();
    let run = project.only_run();
    // However often somebody goes on with it.
    for _ in 0..2 {
        let end = project.resume(&run).wait().expect_code(4);
        assert_eq!(end.of_kind("blocked").map(|event| &event["steps"]).collect::<Vec<_>>(), [&json!(["charge"])]);
        assert!(end.stderr.contains("charge") && end.stderr.contains(&run), "{end:#?}");
        let shown = project.show(&run);
        assert_eq!(shown["status"], "blocked", "{shown:#}");
        assert!(shown["detail"].as_str().is_some_and(|detail| detail.contains("charge")), "{shown:#}");
        let blocked = project.runs(&["--status", "blocked"]);
        assert_eq!(blocked.iter().map(|row| &row["run"]).collect::<Vec<_>>(), [&json!(run)]);
        assert_eq!(keys(&project, &server), ["charge:e1"]);
    }
}

#[test]
fn a_post_whose_answer_was_lost_blocks_the_run_at_once() {
    for reply in [Reply::Drop, Reply::Answer(500, String::new()), Reply::Answer(504, String::new())] {
        let project = Project::new();
        let seen = format!("{reply:?}");
        let server = Server::start(move |_| reply.clone());
        let end = super::run(&project, "post", &server, eager("once")).expect_code(4);
        assert_eq!(end.of_kind("blocked").count(), 1, "{seen}: {end:#?}");
        assert_eq!(keys(&project, &server), ["charge:e1"], "{seen}");
    }
}

#[test]
fn an_answer_that_was_recorded_ends_the_step_after_the_host_died() {
    for class in ["keyed", "once"] {
        let project = Project::new();
        let server = Server::start(|request| Reply::Answer(201, format!("charge {}", request.number)));
        let mut doomed = project.run(&MODULE, "lingers", &json!({ "url": server.url(), "options": eager(class) }));
        doomed.until(|event| event["entry"].get("settled").map(drop));
        doomed.kill();
        let end = project.resume(&project.only_run()).wait().expect_code(0);
        assert_eq!(*end.result(), json!({ "attempt": 2, "recorded": true, "text": "charge 1" }), "{class}");
        assert_eq!(keys(&project, &server), ["charge:e1"], "{class}");
    }
}
