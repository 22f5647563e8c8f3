//! Components of every published version of the guest contract, as they were made then: they are taken, run, killed and replayed.
//!
//! `tests/contracts/README.md` says what they are. None of them is built here.

use std::path::PathBuf;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

/// Each version, and the SHA-256 of its component.
const PUBLISHED: [(&str, &str); 1] = [("0.1.0", "6bc0ef353b379017faad40f30e40ce860f675264eef5db0054f4faa5cc31b836")];

fn directory(version: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("contracts").join(version)
}

/// The component of a version.
pub(crate) fn component(version: &str) -> Vec<u8> {
    std::fs::read(directory(version).join("guest.wasm")).expect("it is checked in")
}

/// Does this with each version's module.
fn each(test: impl Fn(&Module)) {
    for (version, _) in PUBLISHED {
        eprintln!("version {version}");
        test(&Module::of(&directory(version).join("guest.wasm")));
    }
}

/// A contract without its comments.
fn said(wit: &str) -> Vec<&str> {
    wit.lines().map(|line| line.split("//").next().unwrap_or_default().trim()).filter(|line| !line.is_empty()).collect()
}

fn version_of(wit: &str) -> &str {
    let package = said(wit).into_iter().find_map(|line| line.strip_prefix("package stepwell:workflow@"));
    package.and_then(|rest| rest.strip_suffix(';')).expect("the contract has a version")
}

#[test]
fn what_is_published_is_never_changed() {
    for (version, digest) in PUBLISHED {
        let found: String = Sha256::digest(component(version)).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(found, digest, "the component of {version} stands for what people have");
        let wit = std::fs::read_to_string(directory(version).join("workflow.wit")).expect("it is checked in");
        assert_eq!(version_of(&wit), version);
    }
    let today = include_str!("../../guest-sdk/wit/workflow.wit");
    let version = version_of(today);
    assert!(PUBLISHED.iter().any(|(published, _)| *published == version), "version {version} has no component here");
    let published = std::fs::read_to_string(directory(version).join("workflow.wit")).expect("it is checked in");
    assert_eq!(said(today), said(&published), "a change needs a new version");
}

fn entries(api: &Api, run: &str) -> Vec<Value> {
    let page = api.get(&format!("/v1/runs/{run}/journal?limit=1000")).expect(200).body;
    page["entries"].as_array().expect("a list of entries").iter().map(|entry| entry["entry"].clone()).collect()
}

fn count(entries: &[Value], kind: &str) -> usize {
    entries.iter().filter(|entry| entry.get(kind).is_some() || **entry == kind).count()
}

#[test]
fn every_command_is_served_and_replayed_after_a_kill() {
    each(|module| {
        let project = Project::new();
        let other = Server::start(|_| Reply::Answer(200, "done".to_owned()));
        let server = project.serve_with(module);
        let run = start(&server, "all", &json!({ "input": other.url() }));
        let waiting = until_waiting_for_go(&server, &run);
        assert_eq!(waiting["statusText"], "a line");
        let before = entries(&server, &run);
        server.kill();
        let server = project.serve(&[]);
        drop(server.post(&format!("/v1/runs/{run}/events/go"), &json!({ "from": "outside" })).expect(202));
        let ended = server.ended(&run);
        assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!(1)), "{ended:#?}");
        let after = entries(&server, &run);
        assert_eq!(after[..before.len()], before, "what was recorded stays");
        // Everything that it begins is begun once: what was there when the server died was replayed.
        for (kind, times) in
            [("step_begun", 2), ("sleep_begun", 1), ("wait_begun", 3), ("child_begun", 1), ("send_begun", 1)]
        {
            assert_eq!(count(&after, kind), times, "{kind}: {after:#?}");
        }
        assert!(count(&after, "resumed") > count(&before, "resumed"), "{after:#?}");
        let posted = other.requests();
        assert_eq!(
            posted.iter().map(|request| (&request.method[..], request.key())).collect::<Vec<_>>(),
            [("POST", Some(&format!("{run}:POST:e1")[..]))]
        );
        let children = server.get("/v1/runs?tag=colour=red").expect(200).body;
        assert_eq!(
            (&children["runs"][0]["workflow"], &children["runs"][0]["status"]),
            (&json!("child"), &json!("succeeded"))
        );
    });
}

/// It waits for other things before.
fn until_waiting_for_go(api: &Api, run: &str) -> Value {
    loop {
        let waiting = until_waiting(api, run);
        if waiting["detail"] == "event \"go\"" {
            return waiting;
        }
    }
}

#[test]
fn both_ways_to_take_an_event_and_a_fresh_run_are_served() {
    each(|module| {
        let project = Project::new();
        let server = project.serve_with(module);
        for workflow in ["child", "turns", "again"] {
            let run = start(&server, workflow, &json!({ "input": null }));
            let ended = server.ended(&run);
            assert_eq!(
                (&ended["status"], &ended["result"]),
                (&json!("succeeded"), &json!(1)),
                "{workflow}: {ended:#?}"
            );
        }
    });
}

#[test]
fn a_sleeping_run_goes_on_after_a_kill() {
    each(|module| {
        let project = Project::new();
        let mut doomed = project.run_with(module, "main", &Value::Null, &[], &[]);
        doomed.until(|event| event["entry"].get("sleep_begun").map(drop));
        doomed.kill();
        let run = project.only_run();
        // Each run is replayed once more when it has ended.
        let ended = project.spawn(&["run", "--resume", &run, "--json", "--skip-sleeps"]).wait().expect_code(0);
        assert_eq!(*ended.result(), json!(1));
        let journal = project.journal(&run);
        assert_eq!(journal.iter().filter(|row| row["entry"].get("step_begun").is_some()).count(), 2, "{journal:#?}");
    });
}
