//! Failed runs that are taken up again, and their children: nothing of a child that has a result is done twice.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    let source = r#"
import { workflow } from "stepwell";

const steps = { destinations: ["127.0.0.1:*"] };
const post = (url: string, path: string) => async ({ http }: any) => (await http.post(`${url}/${path}`, { json: 5 }).ensureOk()).text();
const once = { retry: { maxAttempts: 1 } };

/** Reserves, which works, and charges, which may not. */
export const pays = workflow("pays", async ({ input, step }: any) => {
  await step.run("reserve", post(input.url, "reserve"), { effect: "keyed" });
  return step.run("charge", post(input.url, "charge"), once);
}, steps);

export const order = workflow("order", async ({ input, start }: any) => [await start("pays", input, { runKey: "pays" })], steps);

export const waits = workflow("waits", async ({ waitForEvent }: any) => waitForEvent("go"));

/** A step of its own beside a child. */
export const beside = workflow("beside", async ({ input, start, step }: any) =>
  Promise.all([start("waits", 1), step.run("charge", post(input.url, "charge"), once)]), steps);
"#;
    Module::build("family.ts", source)
});

fn shown(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body
}

/// The earliest first.
fn children(api: &Api, parent: &str) -> Vec<String> {
    let list = api.get(&format!("/v1/runs?parent={parent}")).expect(200).body;
    let runs = list["runs"].as_array().expect("a list of runs").iter().rev();
    runs.map(|run| run["id"].as_str().expect("an id").to_owned()).collect()
}

fn retry(api: &Api, run: &str, asked: &Value) -> stepwell_tests::Answer {
    api.post(&format!("/v1/runs/{run}/retry"), asked)
}

fn ends(api: &Api, run: &str, status: &str) -> Value {
    let ended = api.ended(run);
    assert_eq!(ended["status"], status, "{ended:#?}");
    ended
}

/// Charges fail until the bank is open.
static OPEN: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

fn shop(open: &'static AtomicBool) -> Server {
    Server::start(move |request| match request.path.as_str() {
        "/charge" if !open.load(Ordering::Relaxed) => Reply::Answer(402, "no money".to_owned()),
        _ => Reply::Answer(201, "done".to_owned()),
    })
}

#[test]
fn a_child_that_is_taken_up_first_keeps_what_it_did() {
    let project = Project::new();
    let server = shop(&OPEN[0]);
    let api = project.serve_with(&MODULE);
    let order = start(&api, "order", &json!({ "input": { "url": server.url() } }));
    ends(&api, &order, "failed");
    let pays = children(&api, &order);
    assert_eq!(pays.len(), 1);
    OPEN[0].store(true, Ordering::Relaxed);
    drop(retry(&api, &pays[0], &json!({})).expect(202));
    ends(&api, &pays[0], "succeeded");
    // Its parent has heard of the failure, and of nothing since.
    assert_eq!(shown(&api, &order)["status"], "failed");
    let problem = retry(&api, &order, &json!({})).problem(409, "retry_needs_confirm");
    assert_eq!(problem.body["others"], json!([{ "run": pays[0], "child": "pays" }]));
    api.kill();
    let api = project.serve(&[]);
    drop(retry(&api, &order, &json!({ "confirm": true })).expect(202));
    assert_eq!(ends(&api, &order, "succeeded")["result"], json!(["done"]));
    assert_eq!(children(&api, &order), pays, "no other was started");
    let reserved = server.requests().iter().filter(|request| request.path == "/reserve").count();
    assert_eq!(reserved, 1);
}

#[test]
fn a_child_that_failed_is_begun_again_as_another_with_its_run_key() {
    let project = Project::new();
    let server = shop(&OPEN[1]);
    let api = project.serve_with(&MODULE);
    let order = start(&api, "order", &json!({ "input": { "url": server.url() } }));
    ends(&api, &order, "failed");
    OPEN[1].store(true, Ordering::Relaxed);
    let accepted = retry(&api, &order, &json!({ "confirm": true })).expect(202).body;
    let pays = children(&api, &order);
    assert_eq!(accepted["others"][0]["run"], json!(pays[0]));
    assert_eq!(ends(&api, &order, "succeeded")["result"], json!(["done"]));
    let pays = children(&api, &order);
    assert_eq!(pays.len(), 2);
    assert_eq!(shown(&api, &pays[0])["status"], "failed");
    assert_eq!(shown(&api, &pays[1])["runKey"], "pays");
    // Nothing of the second is told under a key of the first.
    let keys: Vec<_> = server.requests().iter().filter_map(|request| request.key().map(str::to_owned)).collect();
    assert!(keys.iter().any(|key| key.starts_with(&pays[0])) && keys.iter().any(|key| key.starts_with(&pays[1])));
}

#[test]
fn a_child_that_went_down_with_its_parent_is_begun_again() {
    let project = Project::new();
    let server = shop(&OPEN[2]);
    let api = project.serve_with(&MODULE);
    let beside = start(&api, "beside", &json!({ "input": { "url": server.url() } }));
    ends(&api, &beside, "failed");
    let first = children(&api, &beside)[0].clone();
    ends(&api, &first, "cancelled");
    OPEN[2].store(true, Ordering::Relaxed);
    drop(retry(&api, &beside, &json!({})).problem(409, "retry_needs_confirm"));
    drop(retry(&api, &beside, &json!({ "confirm": true })).expect(202));
    let second = loop {
        match &children(&api, &beside)[..] {
            [_, second] => break second.clone(),
            _ => std::thread::yield_now(),
        }
    };
    until_waiting(&api, &second);
    drop(api.post(&format!("/v1/runs/{second}/events/go"), &json!(7)).expect(202));
    assert_eq!(ends(&api, &beside, "succeeded")["result"], json!([7, "done"]));
    assert_eq!(children(&api, &beside).len(), 2);
}
