//! SIGKILL of the server under concurrent starts: each key has started exactly one run, and all runs end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use stepwell_tests::{Api, Project, Serving};

use crate::api_keys::MODULE;

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
