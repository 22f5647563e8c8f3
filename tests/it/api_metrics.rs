//! `/metrics`: what has happened, in numbers, over HTTP.

use serde_json::json;
use std::sync::LazyLock;
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "measured.ts",
        r#"
import { workflow } from "stepwell";

export const flaky = workflow("flaky", async ({ step }: any) =>
  step.run("flaky", ({ attempt }: any) => {
    if (attempt < 3) throw new Error("not yet");
    return attempt;
  }, { retry: { maxAttempts: 3, initialMs: 1 } }));

export const fails = workflow("fails", async ({ step }: any) =>
  step.run("fails", () => { throw new Error("never"); }, { retry: { maxAttempts: 1 } }));

export const waits = workflow("waits", async ({ waitForEvent }: any) => waitForEvent("answer"));

export const pays = workflow("pays", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => (await http.post(input, { json: {} }).ensureOk()).text(),
    { effect: "once", retry: { maxAttempts: 1 } }), { destinations: ["127.0.0.1:*"] });
"#,
    )
});

/// The value of a sample.
fn sample(api: &Api, name: &str) -> f64 {
    let answer = api.get("/metrics").expect(200);
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = answer.body.as_str().expect("it is text").to_owned();
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    found.unwrap_or_else(|| panic!("no {name} in\n{text}"))
}

#[test]
fn what_happens_is_counted() {
    let project = Project::new();
    let bank = Server::start(|_| Reply::Drop);
    let server = project.serve_with(&MODULE);
    for (workflow, status) in [("flaky", "succeeded"), ("fails", "failed")] {
        let run = start(&server, workflow, &json!({}));
        assert_eq!(server.ended(&run)["status"], status);
    }
    let waits = start(&server, "waits", &json!({}));
    drop(until_waiting(&server, &waits));
    let pays = start(&server, "pays", &json!({ "input": bank.url() }));
    while server.get(&format!("/v1/runs/{pays}")).expect(200).body["status"] != "blocked" {
        std::thread::yield_now();
    }
    for (name, value) in [
        (r#"stepwell_runs{workflow="flaky",status="succeeded"}"#, 1.0),
        (r#"stepwell_runs{workflow="waits",status="waiting"}"#, 1.0),
        (r#"stepwell_runs{workflow="pays",status="blocked"}"#, 1.0),
        (r#"stepwell_runs_ended_total{status="succeeded"}"#, 1.0),
        (r#"stepwell_runs_ended_total{status="failed"}"#, 1.0),
        ("stepwell_steps_total", 3.0),
        (r#"stepwell_attempts_total{outcome="succeeded"}"#, 1.0),
        (r#"stepwell_attempts_total{outcome="retried"}"#, 2.0),
        (r#"stepwell_attempts_total{outcome="failed"}"#, 1.0),
        (r#"stepwell_attempts_total{outcome="unknown"}"#, 1.0),
        ("stepwell_requests_total", 1.0),
    ] {
        assert_eq!(sample(&server, name), value, "{name}");
    }
    for name in ["stepwell_store_queue_seconds", "stepwell_store_commit_seconds", "stepwell_run_queue_seconds"] {
        let count = sample(&server, &format!("{name}_count"));
        assert!(count >= 4.0 && count >= sample(&server, &format!("{name}_bucket{{le=\"0.001\"}}")), "{name}: {count}");
    }
    // A run is seen to wait a moment before it has given its instance up.
    while sample(&server, "stepwell_live_instances") != 0.0 {
        std::thread::yield_now();
    }
    server.kill();
    let server = project.serve(&[]);
    drop(server.post(&format!("/v1/runs/{waits}/events/answer"), &json!(1)).expect(202));
    assert_eq!(server.ended(&waits)["status"], "succeeded");
    assert_eq!(sample(&server, "stepwell_recoveries_total"), 1.0);
}
