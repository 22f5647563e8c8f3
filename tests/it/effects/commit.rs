//! Output commit: what led to a request is on disk before its first byte leaves.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use stepwell_tests::{Project, Reply, Request, Server};

use super::MODULE;
use crate::journals::entries;

#[test]
fn who_gets_a_request_finds_it_in_the_durable_journal() {
    let project = Arc::new(Project::new());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (looking, noting) = (project.clone(), seen.clone());
    let server = Server::start(move |request| {
        let journal = looking.journal(&looking.only_run());
        let looked = look(request, &journal);
        noting.lock().expect("nobody panics with it").push(looked.clone());
        match looked {
            Ok(()) => Reply::Answer(200, request.path.clone()),
            Err(why) => Reply::Answer(500, why),
        }
    });
    let end = project.run(&MODULE, "commits", &json!({ "url": server.url() })).wait().expect_code(0);
    assert_eq!(*end.result(), json!(["/first", "/second", "/third"]));
    assert_eq!(*seen.lock().expect("nobody panics with it"), vec![Ok(()); 6]);
}

/// Whether the journal has what led to the request: for an unsafe one itself, for a safe one the attempt that sends it.
fn look(request: &Request, journal: &[Value]) -> Result<(), String> {
    let lacks =
        |what: &str| Err(format!("{} {}: the journal has no {what}: {journal:#?}", request.method, request.path));
    let name = &request.path[1..];
    let Some(begun) = entries(journal, "step_begun").into_iter().find(|begun| begun["step"]["name"] == name) else {
        return lacks("step");
    };
    let of_step = |entry: &&Value| entry["op"] == begun["op"];
    if entries(journal, "attempt_started").into_iter().filter(of_step).count() != 1 {
        return lacks("attempt");
    }
    if request.method == "GET" {
        return Ok(());
    }
    let dispatched: Vec<_> = entries(journal, "dispatched").into_iter().filter(of_step).collect();
    match dispatched[..] {
        [one] if one["key"].as_str() == request.key() => Ok(()),
        _ => lacks("dispatch under its key"),
    }
}
