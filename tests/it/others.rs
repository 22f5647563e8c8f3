//! Runs that have to do with other runs: what one does to another happens once, whenever the server dies.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project};

use crate::api_runs::{start, until_waiting};

pub(crate) static MODULE: LazyLock<Module> =
    LazyLock::new(|| Module::build("others.ts", include_str!("others/others.ts")));

fn status(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body["status"].clone()
}

#[test]
fn an_event_from_run_to_run_comes_and_one_that_cannot_is_told() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let over = start(&server, "taker", &json!({ "input": { "name": "x", "times": 0 } }));
    let over_ended = server.ended(&over);
    assert_eq!(over_ended["result"], json!([]));
    let waits = start(&server, "taker", &json!({ "input": { "name": "x", "times": 2 } }));
    until_waiting(&server, &waits);
    // One that has not begun keeps it until it does.
    let later = start(&server, "taker", &json!({ "input": { "name": "x", "times": 2 }, "delayMs": 86_400_000 }));
    let to = json!([waits, later, over, "run_nobody"]);
    let sender = start(&server, "sender", &json!({ "input": { "to": to, "name": "x", "times": 2 } }));
    let once = ["sent", "sent", "workflows.run_ended", "workflows.run_not_found"];
    assert_eq!(server.ended(&sender)["result"], json!([once, once].concat()));
    assert_eq!(server.ended(&waits)["result"], json!([0, 1]));
    assert_eq!(status(&server, &later), "queued");
}

/// The sender dies anywhere between its first event and its end: each event comes once, in order.
#[test]
fn events_from_run_to_run_come_once_whenever_the_server_dies() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    let times = 200;
    let taker = start(&server, "taker", &json!({ "input": { "name": "x", "times": times } }));
    let input = json!({ "to": [taker], "name": "x", "times": times });
    let sender = start(&server, "sender", &json!({ "input": input }));
    let taken = |api: &Api, run: &str| {
        let page = api.get(&format!("/v1/runs/{run}/journal?limit=1000")).expect(200).body;
        let arrived = |entry: &&Value| entry["entry"]["event_arrived"].is_object();
        page["entries"].as_array().expect("a list of entries").iter().filter(arrived).count()
    };
    for kill in 1..=4 {
        while taken(&server, &taker) < kill * times / 6 && status(&server, &sender) != "succeeded" {
            std::thread::yield_now();
        }
        server.kill();
        server = project.serve(&[]);
    }
    assert_eq!(server.ended(&sender)["result"], json!(vec!["sent"; times]));
    assert_eq!(server.ended(&taker)["result"], json!((0..times).collect::<Vec<_>>()));
    assert_eq!(taken(&server, &taker), times);
}
