//! What people ask of a run over HTTP: paused, resumed, terminated; answered once it is on record, across the end of the server.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_keys::MODULE;
use crate::api_runs::{start, until_waiting};

static CHARGES: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "charges.ts",
        r#"
import { workflow } from "stepwell";

export const charge = workflow("charge", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => (await http.post(`${input.url}/charges`, { json: 5 }).ensureOk()).text()),
  { destinations: ["127.0.0.1:*"] });
"#,
    )
});

fn ask(api: &Api, run: &str, what: &str) -> Value {
    api.post(&format!("/v1/runs/{run}/{what}"), &json!({ "reason": "to look at it" })).expect(202).body
}

fn seen(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body
}

#[test]
fn a_paused_run_stays_so_until_it_is_resumed_and_keeps_what_comes() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({}));
    drop(until_waiting(&server, &run));
    assert_eq!(ask(&server, &run, "pause"), json!({ "run": run, "accepted": "pause" }));
    server.kill();
    let server = project.serve(&[]);
    let paused = seen(&server, &run);
    assert_eq!((&paused["status"], &paused["detail"]), (&json!("paused"), &json!("paused by local: to look at it")));
    assert_eq!(ask(&server, &run, "pause")["when"], "already");
    drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!("kept")).expect(202));
    assert_eq!(seen(&server, &run)["status"], "paused");
    assert_eq!(ask(&server, &run, "resume"), json!({ "run": run, "accepted": "resume" }));
    server.kill();
    let server = project.serve(&[]);
    assert_eq!(server.ended(&run)["result"], json!(["kept"]));
    drop(server.post(&format!("/v1/runs/{run}/pause"), &json!({})).problem(409, "run_finished"));
    drop(server.post("/v1/runs/run_none/pause", &json!({})).problem(404, "not_found"));
}

#[test]
fn a_terminated_run_runs_no_more_code_and_its_key_is_answered_again() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "clean", &json!({}));
    drop(until_waiting(&server, &run));
    let path = format!("/v1/runs/{run}/terminate");
    let answer = server.keyed("end").post(&path, &json!({ "reason": "out of hand" })).expect(202).body;
    assert_eq!(answer, json!({ "run": run, "accepted": "terminate" }));
    server.kill();
    let server = project.serve(&[]);
    let ended = server.ended(&run);
    assert_eq!((&ended["status"], &ended["error"]["message"]), (&json!("terminated"), &json!("out of hand")));
    assert_eq!(server.keyed("end").post(&path, &json!({ "reason": "out of hand" })).expect(202).body, answer);
    drop(server.keyed("end").post(&path, &json!({})).problem(422, "idempotency_key_reuse"));
    let journal = server.get(&format!("/v1/runs/{run}/journal")).expect(200).body.to_string();
    assert!(!journal.contains("clean up"), "code of it has run: {journal}");
}

#[test]
fn a_delayed_run_that_was_paused_begins_when_it_was_to_begin() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "echo", &json!({ "delayMs": 86_400_000 }));
    let until = seen(&server, &run)["untilMs"].clone();
    assert_eq!(ask(&server, &run, "resume")["when"], "already");
    drop(ask(&server, &run, "pause"));
    server.kill();
    let server = project.serve(&[]);
    assert_eq!(seen(&server, &run)["status"], "paused");
    drop(ask(&server, &run, "resume"));
    let rests = seen(&server, &run);
    assert_eq!((&rests["status"], &rests["untilMs"]), (&json!("queued"), &until));
    drop(ask(&server, &run, "cancel"));
    assert_eq!(server.ended(&run)["status"], "cancelled");
}

#[test]
fn a_run_that_was_paused_and_resumed_while_its_request_was_under_way_goes_on_after_a_kill() {
    for then in [None, Some("cancel")] {
        let come = AtomicUsize::new(0);
        let shop = Server::start(move |_| match come.fetch_add(1, Ordering::SeqCst) {
            0 => Reply::Hang,
            _ => Reply::Answer(200, "charged".into()),
        });
        let project = Project::new();
        let server = project.serve_with(&CHARGES);
        let run = start(&server, "charge", &json!({ "input": { "url": shop.url() } }));
        shop.wait_for(1);
        drop(ask(&server, &run, "pause"));
        assert_eq!(seen(&server, &run)["status"], "paused");
        drop(ask(&server, &run, "resume"));
        assert_eq!(seen(&server, &run)["status"], "running");
        if let Some(then) = then {
            drop(ask(&server, &run, then));
        }
        server.kill();
        let server = project.serve(&[]);
        let ended = server.ended(&run);
        match then {
            None => assert_eq!(ended["result"], "charged", "{ended:#?}"),
            Some(_) => assert_eq!(ended["status"], "cancelled", "{ended:#?}"),
        }
    }
}
