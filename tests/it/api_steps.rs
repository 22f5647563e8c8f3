//! Steps of unknown outcome over HTTP and by the client: listed in pages, resolved once, across the end of the server.

use serde_json::{Value, json};
use stepwell_tests::{Api, Project, Reply, Server, Serving};

use crate::api_runs::{events, start};
use crate::steps::MODULE;

/// A server of charges that drops the first request of each run, and a served project.
fn served() -> (Project, Serving, Server) {
    let project = Project::new();
    let serving = project.serve_with(&MODULE);
    let other = Server::start(|request| {
        // A run's name is in its key.
        match request.key() {
            Some(key) if SEEN.with_run(key) => Reply::Answer(201, "charged".to_owned()),
            _ => Reply::Drop,
        }
    });
    (project, serving, other)
}

/// Runs whose first request has come.
struct Seen(std::sync::Mutex<std::collections::BTreeSet<String>>);

static SEEN: Seen = Seen(std::sync::Mutex::new(std::collections::BTreeSet::new()));

impl Seen {
    /// Whether an earlier request of the key's run has come.
    fn with_run(&self, key: &str) -> bool {
        let run = key.split(':').next().unwrap_or_default().to_owned();
        !self.0.lock().expect("nobody panicked").insert(run)
    }
}

/// Starts a run of one `once` step whose POST is dropped, and waits until it is blocked.
fn blocked(api: &Api, server: &Server) -> String {
    let options = json!({ "effect": "once", "retry": { "maxAttempts": 3, "initialMs": 10 } });
    let run = start(api, "post", &json!({ "input": { "url": server.url(), "options": options } }));
    let mut followed = events(api.lines(&format!("/v1/runs/{run}/events")));
    followed.find(|(name, _, data)| name == "run" && data["status"] == "blocked").expect("it comes to be blocked");
    run
}

fn list(api: &Api, query: &str) -> Value {
    api.get(&format!("/v1/steps?{query}")).expect(200).body
}

/// The runs of a page, in its order.
fn runs(page: &Value) -> Vec<&str> {
    let steps = page["steps"].as_array().expect("a list of steps");
    steps.iter().map(|step| step["run"].as_str().expect("a step has its run")).collect()
}

fn path(run: &str, step: &str) -> String {
    format!("/v1/runs/{run}/steps/{step}/resolve")
}

#[test]
fn unknown_steps_are_listed_with_what_was_sent_for_them() {
    let (_project, api, server) = served();
    let all: Vec<String> = (0..3).map(|_| blocked(&api, &server)).collect();
    let page = list(&api, "status=unknown");
    assert_eq!(runs(&page), [&all[2], &all[1], &all[0]]);
    let step = &page["steps"][2];
    assert_eq!(
        (&step["step"], &step["runStatus"], &step["workflow"], &step["attempts"]),
        (&json!("charge"), &json!("blocked"), &json!("post"), &json!(1))
    );
    let effect = &step["effects"][0];
    assert_eq!((&effect["method"], &effect["effect"]), (&json!("POST"), &json!(1)));
    assert_eq!(effect["url"], json!(format!("{}/charges", server.url())));
    assert_eq!(effect["key"], json!(format!("{}:charge:e1", all[0])));
    assert_eq!(page["cursor"], Value::Null);
    assert_eq!(api.get(&format!("/v1/runs/{}", all[0])).expect(200).body["unknownSteps"], json!(1));

    // Page by page: each once, and the last page says that it is the last.
    let (mut seen, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let page = list(&api, &query);
        seen.extend(runs(&page).into_iter().map(str::to_owned));
        let Some(cursor) = page["cursor"].as_str() else { break };
        query = format!("limit=1&cursor={cursor}");
    }
    assert_eq!(seen, [&all[2][..], &all[1], &all[0]]);

    assert_eq!(runs(&list(&api, &format!("run={}", all[1]))), [&all[1]]);
    assert_eq!(runs(&list(&api, "workflow=post&limit=2")), [&all[2], &all[1]]);
    assert!(runs(&list(&api, "workflow=two")).is_empty());
    // What may have happened stays listed when its run is ended; it is nobody's to resolve any more.
    drop(api.post(&format!("/v1/runs/{}/terminate", all[2]), &json!({})).expect(202));
    assert_eq!(api.ended(&all[2])["status"], "terminated");
    assert_eq!(runs(&list(&api, "")), [&all[2], &all[1], &all[0]]);
    assert_eq!(runs(&list(&api, "open=true")), [&all[1], &all[0]]);
    for query in ["status=failed", "open=yes", "cursor=x", "cursor=1-", "limit=0", "state=unknown"] {
        drop(api.get(&format!("/v1/steps?{query}")).problem(400, "invalid_request"));
    }
    drop(api.get("/v1/steps?run=run_none").problem(404, "not_found"));
}

#[test]
fn a_step_is_resolved_once_and_its_run_goes_on_across_the_end_of_the_server() {
    let (project, api, server) = served();
    let run = blocked(&api, &server);
    let found =
        json!({ "outcome": "succeeded", "result": { "id": "ch_1", "cents": 1.10 }, "evidence": "on the statement" });
    let answer = api.keyed("k").post(&path(&run, "charge"), &found).expect(200);
    assert_eq!(answer.body, json!({ "run": run, "step": "charge", "keys": [] }));
    api.kill();
    let api = project.serve(&[]);
    assert_eq!(api.ended(&run)["result"], json!({ "id": "ch_1", "cents": 1.10 }));
    assert!(runs(&list(&api, "")).is_empty());
    let again = api.keyed("k").post(&path(&run, "charge"), &found).expect(200);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &answer.body));
    let other = json!({ "outcome": "retry", "evidence": "on the statement" });
    drop(api.keyed("k").post(&path(&run, "charge"), &other).problem(422, "idempotency_key_reuse"));
    drop(api.post(&path(&run, "charge"), &found).problem(409, "run_finished"));
    assert_eq!(server.requests().len(), 1);
    let journal = api.get(&format!("/v1/runs/{run}/journal")).expect(200).body;
    let entries = journal["entries"].as_array().expect("a list of entries");
    let resolved: Vec<&Value> = entries.iter().filter_map(|entry| entry["entry"].get("resolved")).collect();
    assert_eq!(resolved.len(), 1, "{resolved:#?}");
    assert_eq!((&resolved[0]["by"], &resolved[0]["evidence"]), (&json!("local"), &json!("on the statement")));
}

#[test]
fn a_step_that_is_tried_again_keeps_its_key_and_a_failed_one_fails() {
    let (_project, api, server) = served();
    let (retried, failed) = (blocked(&api, &server), blocked(&api, &server));
    drop(api.post(&format!("/v1/runs/{retried}/pause"), &json!({})).expect(202));
    let word = json!({ "outcome": "retry", "evidence": "the bank knows nothing of it" });
    let key = format!("{retried}:charge:e1");
    let answer = api.post(&path(&retried, "charge"), &word).expect(200).body;
    let keys = json!([{ "effect": 1, "key": key, "kept": true }]);
    assert_eq!(answer, json!({ "run": retried, "step": "charge", "keys": keys, "when": "once_resumed" }));
    drop(api.post(&path(&retried, "charge"), &word).problem(409, "step_not_unknown"));
    drop(api.post(&format!("/v1/runs/{retried}/resume"), &json!({})).expect(202));
    assert_eq!(api.ended(&retried)["result"]["text"], "charged");
    let sent = server.requests().iter().filter(|request| request.key() == Some(&key)).count();
    assert_eq!(sent, 2);

    drop(api.post(&path(&failed, "charge%232"), &word).problem(404, "not_found"));
    drop(api.post(&path("run_none", "charge"), &word).problem(404, "not_found"));
    for wrong in [
        json!({ "outcome": "retry", "evidence": " " }),
        json!({ "outcome": "retry" }),
        json!({ "outcome": "retry", "evidence": "x", "result": 1 }),
        json!({ "outcome": "failed", "evidence": "x" }),
        json!({ "outcome": "succeeded", "evidence": "x", "error": { "message": "no" } }),
        json!({ "outcome": "perhaps", "evidence": "x" }),
    ] {
        drop(api.post(&path(&failed, "charge"), &wrong).problem(400, "invalid_request"));
    }
    let large = json!({ "outcome": "succeeded", "result": "x".repeat(2 << 20), "evidence": "x" });
    drop(api.post(&path(&failed, "charge"), &large).problem(413, "workflows.result_too_large"));
    let word = json!({ "outcome": "failed", "error": { "message": "declined" }, "evidence": "asked the bank" });
    drop(api.post(&path(&failed, "charge"), &word).expect(200));
    let ended = api.ended(&failed);
    assert_eq!((&ended["status"], &ended["error"]["message"]), (&json!("failed"), &json!("declined")));
}

#[test]
fn the_client_lists_and_resolves_steps_of_a_server() {
    let (project, api, server) = served();
    let run = blocked(&api, &server);
    let url = format!("http://{}", api.address());
    let listed = project.stepwell(&["steps", "list", "--json", "--url", &url]).expect_code(0).events;
    assert_eq!(json!(listed), list(&api, "")["steps"]);
    let shown = project.stepwell(&["steps", "list", "--url", &url]).expect_code(0);
    assert!(shown.stdout.contains(&format!("key {run}:charge:e1")), "{shown:#?}");
    let resolve = |rest: &[&str]| {
        let mut args = vec!["steps", "resolve", &run, "charge", "--evidence", "seen", "--json", "--url", &url];
        args.extend(rest);
        project.stepwell(&args)
    };
    drop(resolve(&["--retry", "--by", "ana"]).expect_code(2));
    let said = resolve(&["--succeeded", "9007199254740993"]).expect_code(0).events;
    assert_eq!(said, [json!({ "run": run, "step": "charge", "keys": [] })]);
    // As it was written, whatever its workflow's language makes of the number.
    assert_eq!(api.ended(&run)["status"], "succeeded");
    let journal = api.get(&format!("/v1/runs/{run}/journal")).expect(200).body.to_string();
    assert!(journal.contains(r#""resolution":{"succeeded":9007199254740993}"#), "{journal}");
    let again = resolve(&["--retry"]).expect_code(2);
    assert!(again.stderr.contains("run_finished"), "{again:#?}");
    assert!(project.stepwell(&["steps", "list", "--json", "--url", &url]).expect_code(0).events.is_empty());
}
