//! SIGKILL of the server under concurrent requests: each key has started exactly one run, or asked one thing of a run, and all runs end.

use std::collections::BTreeMap;
use std::sync::Mutex;
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

/// Starts runs until the server dies, with keys from `next`. The run that each answered key has started goes into `started`.
fn client(api: &Api, next: &AtomicUsize, open: &Mutex<Vec<usize>>, started: &Mutex<BTreeMap<usize, String>>) {
    loop {
        let retried = open.lock().expect("nobody panicked").pop();
        let n = retried.unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
        let body = json!({ "input": n, "tags": { "n": n.to_string() } });
        match api.keyed(&format!("key-{n}")).try_post("/v1/workflows/echo/runs", &body) {
            Ok(answer) => {
                let run = answer.expect(201).run();
                let before = started.lock().expect("nobody panicked").insert(n, run.clone());
                assert!(before.is_none_or(|before| before == run), "key {n} was answered with two runs");
            }
            Err(_) => {
                open.lock().expect("nobody panicked").push(n);
                return;
            }
        }
    }
}

#[test]
fn each_key_starts_one_run_and_all_end() {
    let project = Project::new();
    let mut server: Serving = project.serve_with(&MODULE);
    let (next, open, started) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    for _ in 0..kills() {
        let enough = next.load(Ordering::Relaxed) + 2 * CLIENTS;
        let api = (*server).clone();
        std::thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| client(&api, &next, &open, &started));
            }
            // In the midst of it: some are answered, some are not.
            while started.lock().expect("nobody panicked").len() < enough {
                std::thread::yield_now();
            }
            server.kill();
        });
        server = project.serve(&[]);
    }
    // Whoever was not answered asks again; so does, once more, everybody.
    let keys = next.load(Ordering::Relaxed);
    for n in 0..keys {
        let body = json!({ "input": n, "tags": { "n": n.to_string() } });
        let run = server.keyed(&format!("key-{n}")).post("/v1/workflows/echo/runs", &body).expect(201).run();
        let mut started = started.lock().expect("nobody panicked");
        assert_eq!(*started.entry(n).or_insert_with(|| run.clone()), run, "key {n} was answered with two runs");
    }
    for (n, run) in started.into_inner().expect("nobody panicked") {
        let ended = server.ended(&run);
        assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!(n)));
        let tagged = server.get(&format!("/v1/runs?tag=n={n}")).expect(200);
        assert_eq!(tagged.body["runs"].as_array().map(Vec::len), Some(1), "key {n} has started one run");
    }
    let counts = server.get("/v1/runs?limit=1").expect(200).body["counts"].clone();
    assert_eq!(counts["succeeded"].as_u64(), Some(keys as u64), "{counts}");
    let others = counts.as_object().expect("there are counts").iter().filter(|(status, _)| *status != "succeeded");
    assert!(others.into_iter().all(|(_, n)| n.as_u64() == Some(0)), "{counts}");
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
