//! Which step an effect belongs to, whatever its body shares with others and whatever it is called.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use stepwell_tests::{Project, Reply, Server};

use super::{keys, run};
use crate::journals::entries;

#[test]
fn effects_belong_to_the_step_whose_body_sent_them_whatever_promises_it_shares() {
    let project = Project::new();
    let server = Server::start(|request| Reply::Answer(200, request.path.clone()));
    // Ended with 0, so that its replay was the same.
    let end = run(&project, "shares", &server, json!({})).expect_code(0);
    assert_eq!(*end.result(), json!(["/left", "/right", "/waiting"]));
    let requests = server.requests();
    assert_eq!(requests.iter().filter(|request| request.path == "/token").count(), 1, "{requests:#?}");
    for request in requests.iter().filter(|request| ["/left", "/right"].contains(&&request.path[..])) {
        assert_eq!(request.header("x-token"), Some("/token"), "{request:#?}");
    }
    let sent: BTreeSet<String> = keys(&project, &server).into_iter().collect();
    assert_eq!(sent, BTreeSet::from(["left:e1", "right:e1", "waiting:e1"].map(str::to_owned)));
    let journal = project.journal(&project.only_run());
    let steps: BTreeMap<u64, &Value> =
        entries(&journal, "step_begun").iter().map(|begun| (op(begun), &begun["step"]["name"])).collect();
    for dispatched in entries(&journal, "dispatched") {
        let url = dispatched["url"].as_str().unwrap_or_default();
        let name = steps[&op(dispatched)].as_str().unwrap_or_default();
        assert!(url.ends_with(&format!("/{name}")), "the journal has {url} as {name}'s");
    }
}

fn op(entry: &Value) -> u64 {
    entry["op"].as_u64().expect("an entry of a step names its operation")
}

#[test]
fn a_step_that_is_named_like_an_occurrence_has_keys_of_its_own() {
    let project = Project::new();
    let server = Server::start(|_| Reply::Answer(200, String::new()));
    let end = run(&project, "names", &server, json!({})).expect_code(0);
    let run = project.only_run();
    let expected: Vec<Value> =
        ["a", "a#2", "a%232"].iter().map(|id| json!([format!("{run}:{id}:1"), format!("{run}:{id}")])).collect();
    assert_eq!(*end.result(), json!(expected));
    let sent: BTreeSet<String> = keys(&project, &server).into_iter().collect();
    assert_eq!(sent, BTreeSet::from(["a:e1", "a#2:e1", "a%232:e1"].map(str::to_owned)));
}
