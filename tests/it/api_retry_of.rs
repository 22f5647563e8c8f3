//! Runs that are started in the place of others: what they name, what they are shown with, and that their keys are their own.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    let source = r#"
import { workflow } from "stepwell";

export const charge = workflow("charge", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => (await http.post(`${input.url}/charge`, { json: 5 }).ensureOk()).text(),
    { retry: { maxAttempts: 1 } }), { destinations: ["127.0.0.1:*"] });

export const waits = workflow("waits", async ({ waitForEvent }: any) => waitForEvent("answer"));
"#;
    Module::build("retry_of.ts", source)
});

fn starts(workflow: &str) -> String {
    format!("/v1/workflows/{workflow}/runs")
}

/// What the list says of each run: its name, and the one that it is in the place of.
fn listed(api: &Api) -> Vec<(Value, Value)> {
    let page = api.get("/v1/runs").expect(200).body;
    let runs = page["runs"].as_array().expect("a list of runs");
    runs.iter().map(|run| (run["id"].clone(), run["retryOf"].clone())).collect()
}

#[test]
fn a_run_in_the_place_of_a_failed_one_names_it_across_the_end_of_the_server_and_has_keys_of_its_own() {
    let project = Project::new();
    let api = project.serve_with(&MODULE);
    let server = Server::start(|request| match request.number {
        1 => Reply::Drop,
        _ => Reply::Answer(201, "charged".to_owned()),
    });
    let input = json!({ "url": server.url() });
    let first = start(&api, "charge", &json!({ "input": input }));
    assert_eq!(api.ended(&first)["status"], "failed");
    let body = json!({ "input": input, "retryOf": first });
    let answer = api.keyed("k").post(&starts("charge"), &body).expect(201);
    let second = answer.run();
    assert_eq!(answer.body["retryOf"], json!(first));
    assert_eq!(api.ended(&second)["result"], "charged");
    api.kill();
    let api = project.serve(&[]);
    assert_eq!(api.get(&format!("/v1/runs/{second}")).expect(200).body["retryOf"], json!(first));
    assert_eq!(api.get(&format!("/v1/runs/{first}")).expect(200).body["retryOf"], Value::Null);
    assert_eq!(listed(&api), [(json!(second), json!(first)), (json!(first), Value::Null)]);
    assert_eq!(api.keyed("k").post(&starts("charge"), &body).expect(201).run(), second, "it is started once");
    let keys: Vec<_> = server.requests().iter().map(|request| request.key().unwrap_or_default().to_owned()).collect();
    assert_eq!(keys, [format!("{first}:charge:e1"), format!("{second}:charge:e1")]);
    // What ended by a person's word may be started again too, by the client.
    let waits = start(&api, "waits", &json!({}));
    drop(until_waiting(&api, &waits));
    drop(api.post(&format!("/v1/runs/{waits}/terminate"), &json!({})).expect(202));
    assert_eq!(api.ended(&waits)["status"], "terminated");
    let url = format!("http://{}", api.address());
    let said =
        project.stepwell(&["start", "waits", "--retry-of", &waits, "--json", "--url", &url]).expect_code(0).events;
    assert_eq!(said[0]["retryOf"], json!(waits));
    let shown =
        project.stepwell(&["runs", "show", said[0]["id"].as_str().unwrap_or_default(), "--json"]).expect_code(0).events;
    assert_eq!(shown[0]["retryOf"], json!(waits));
}

#[test]
fn nothing_is_started_in_the_place_of_what_goes_on_or_did_what_it_was_to_do() {
    let project = Project::new();
    let api = project.serve_with(&MODULE);
    let server = Server::start(|_| Reply::Answer(201, "charged".to_owned()));
    let input = json!({ "url": server.url() });
    let of = |workflow: &str, run: &str| api.post(&starts(workflow), &json!({ "input": input, "retryOf": run }));
    let done = start(&api, "charge", &json!({ "input": input }));
    assert_eq!(api.ended(&done)["status"], "succeeded");
    drop(of("charge", &done).problem(409, "run_not_failed"));
    let waits = start(&api, "waits", &json!({}));
    drop(until_waiting(&api, &waits));
    drop(of("waits", &waits).problem(409, "run_not_failed"));
    drop(of("charge", &waits).problem(400, "invalid_request"));
    drop(of("charge", "run_none").problem(404, "not_found"));
    assert_eq!(listed(&api).len(), 2);
    assert_eq!(server.requests().len(), 1);
}
