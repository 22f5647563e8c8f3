//! SIGKILL of the server while much is asked of runs: each key has asked one thing of its run.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use stepwell_tests::{Api, Project, Serving};

use crate::api_keys::MODULE;
use crate::api_runs::start;

const CLIENTS: usize = 20;

/// How often the server dies: `KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("KILLS").map_or(4, |text| text.parse().expect("KILLS is a number"))
}

/// Pauses the run and resumes it, again and again, until the server dies. Each pause has a key of its own, which is its reason too.
/// The keys, in order; the last one has no answer, or its resumption has none.
fn pauses(api: &Api, run: &str, answered: &AtomicUsize) -> Vec<String> {
    let mut keys = Vec::new();
    for n in 0.. {
        let key = format!("{run}-{n}");
        keys.push(key.clone());
        let body = json!({ "reason": key });
        let Ok(paused) = api.keyed(&key).try_post(&format!("/v1/runs/{run}/pause"), &body) else { break };
        drop(paused.expect(202));
        answered.fetch_add(1, Ordering::Relaxed);
        let Ok(resumed) = api.try_post(&format!("/v1/runs/{run}/resume"), &json!({})) else { break };
        drop(resumed.expect(202));
    }
    keys
}

/// How often the journal says that the run was paused for each reason.
fn reasons(api: &Api, run: &str) -> BTreeMap<String, usize> {
    let (mut reasons, mut from) = (BTreeMap::new(), 0);
    loop {
        let page = api.get(&format!("/v1/runs/{run}/journal?from={from}")).expect(200).body;
        for entry in page["entries"].as_array().expect("a list of entries") {
            if let Some(reason) = entry["entry"]["paused"]["reason"].as_str() {
                *reasons.entry(reason.to_owned()).or_default() += 1;
            }
        }
        let Some(next) = page["next"].as_u64() else { return reasons };
        from = next;
    }
}

/// What is asked of a run and its answer under a key are one commit: after a kill, a repetition is answered as the first one was if
/// what it asked is on record, and is asked for the first time if it is not.
#[test]
fn what_is_asked_under_a_key_is_done_once_and_answered_alike_whenever_the_server_dies() {
    let project = Project::new();
    let mut server: Serving = project.serve_with(&MODULE);
    let (mut unanswered, mut on_record) = (0, 0);
    for _ in 0..kills() {
        let runs: Vec<String> = (0..CLIENTS).map(|_| start(&server, "waiting", &json!({}))).collect();
        let (api, answered) = ((*server).clone(), AtomicUsize::new(0));
        let asked: Vec<Vec<String>> = std::thread::scope(|scope| {
            let clients: Vec<_> = runs.iter().map(|run| scope.spawn(|| pauses(&api, run, &answered))).collect();
            // In the midst of it: all of them have a question under way.
            while answered.load(Ordering::Relaxed) < 5 * CLIENTS {
                std::thread::yield_now();
            }
            server.kill();
            clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
        });
        server = project.serve(&[]);
        for (run, keys) in runs.iter().zip(asked) {
            let before = reasons(&server, run);
            for key in &keys {
                let body = json!({ "reason": key });
                let again = server.keyed(key).post(&format!("/v1/runs/{run}/pause"), &body).expect(202);
                let replayed = again.header("idempotent-replayed") == Some("true");
                assert_eq!(replayed, before.contains_key(key), "{key}: {again:#?}");
                unanswered += usize::from(keys.last() == Some(key));
                on_record += usize::from(keys.last() == Some(key) && replayed);
                // So that a pause that was not asked for yet is one.
                if replayed {
                    assert_eq!(again.body, json!({ "run": run, "accepted": "pause" }), "{key}");
                }
            }
            let after = reasons(&server, run);
            assert!(after.values().all(|times| *times == 1), "{after:#?}");
        }
    }
    assert!(unanswered >= CLIENTS && on_record > 0, "{unanswered} questions were cut off, {on_record} on record");
}

/// A server with one place is given many runs, some of which are cancelled before their turn, and dies. What was answered holds, and all
/// others come to their end.
#[test]
fn runs_that_wait_for_the_only_place_are_not_lost_whenever_the_server_dies() {
    const RUNS: usize = 100;
    const CANCELLED: usize = 10;
    let one = ["--max-live", "1"];
    let project = Project::new();
    MODULE.put_into(&project.data_dir());
    let mut server = project.serve(&one);
    server.upload(&MODULE);
    let mut cancelled = 0;
    for _ in 0..kills() {
        let batch: Vec<_> = (0..RUNS).map(|n| json!({ "workflow": "echo", "input": n })).collect();
        let started = server.post("/v1/runs:batch", &json!({ "runs": batch })).expect(200).body;
        let id = |n: usize| started["outcomes"][n]["run"]["id"].as_str().expect("a run's id is text").to_owned();
        let runs: Vec<String> = (0..RUNS).map(id).collect();
        let cancel = |run: &String| server.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
        // The last ones, most of which have not begun.
        let asked: Vec<bool> = runs[RUNS - CANCELLED..].iter().rev().map(|run| cancel(run).status == 202).collect();
        server.kill();
        server = project.serve(&one);
        for (n, run) in runs.iter().enumerate() {
            let was_cancelled = n >= RUNS - CANCELLED && asked[RUNS - 1 - n];
            let end = server.ended(run)["status"].clone();
            assert_eq!(end, if was_cancelled { "cancelled" } else { "succeeded" }, "{n}");
            cancelled += usize::from(was_cancelled);
        }
    }
    assert!(cancelled > 0, "some were cancelled before they had ended");
}
