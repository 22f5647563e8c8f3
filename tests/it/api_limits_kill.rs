//! SIGKILL of the server with many runs at a limit and behind it: never are more under way, and all of them end.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use stepwell_tests::{Project, Reply, Request, Server};

use crate::api_limits::MODULE;

const RUNS: usize = 60;
const LIMIT: usize = 4;
const PER_KEY: usize = 2;

/// How often the server dies: `KILLS` says otherwise.
fn kills() -> usize {
    std::env::var("KILLS").map_or(4, |text| text.parse().expect("KILLS is a number"))
}

/// Those that are under way at each moment, by what the world has seen: from a run's first request to its last.
fn most_at_once(requests: &[Request]) -> (usize, usize) {
    let (mut inside, mut over) = (BTreeSet::new(), BTreeSet::new());
    let (mut most, mut most_of_key) = (0, 0);
    for request in requests {
        let (what, name) = request.path[1..].split_once('/').expect("a path has two parts");
        match what {
            // Whoever is over has been seen to the end; a request may be repeated after a kill.
            "in" if !over.contains(name) => drop(inside.insert(name)),
            "in" => {}
            _ => {
                inside.remove(name);
                over.insert(name);
            }
        }
        most = most.max(inside.len());
        for key in ["k0", "k1", "k2"] {
            most_of_key = most_of_key.max(inside.iter().filter(|name| name.starts_with(key)).count());
        }
    }
    (most, most_of_key)
}

/// Holds the first answers until as many runs are under way as may be: however quick they are, the limit is reached.
#[derive(Default)]
struct Full(Mutex<BTreeSet<String>>, Condvar);

impl Full {
    fn wait(&self, request: &Request) {
        let Some(name) = request.path.strip_prefix("/in/") else { return };
        let mut inside = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inside.insert(name.to_owned());
        self.1.notify_all();
        // A limit that is never reached shows at the end.
        drop(self.1.wait_timeout_while(inside, Duration::from_secs(20), |inside| inside.len() < LIMIT));
    }
}

#[test]
fn never_are_more_under_way_than_may_be_whenever_the_server_dies() {
    let project = Project::new();
    let full = Full::default();
    let server = Server::start(move |request| {
        full.wait(request);
        Reply::Answer(200, String::new())
    });
    let mut api = project.serve_with(&MODULE);
    let limits = json!({ "concurrency": { "runs": LIMIT, "perKey": PER_KEY } });
    drop(api.put("/v1/workflows/passes/limits", &limits).expect(200));
    let starts: Vec<_> = (0..RUNS)
        .map(|n| {
            let key = format!("k{}", n % 3);
            let input = json!({ "url": server.url(), "name": format!("{key}-{n}") });
            json!({ "workflow": "passes", "concurrencyKey": key, "priority": (n % 5), "input": input })
        })
        .collect();
    let outcomes = api.post("/v1/runs:batch", &json!({ "runs": starts })).expect(200).body;
    let runs: Vec<String> = outcomes["outcomes"]
        .as_array()
        .expect("a list of outcomes")
        .iter()
        .map(|outcome| outcome["run"]["id"].as_str().expect("a run").to_owned())
        .collect();
    let step = 2 * RUNS / (kills() + 2);
    for kill in 1..=kills() {
        // In the midst of it, while some are at the limit and others wait.
        server.wait_for(kill * step);
        api.kill();
        api = project.serve(&[]);
    }
    for run in &runs {
        assert_eq!(api.ended(run)["status"], "succeeded");
    }
    let requests = server.requests();
    let (most, most_of_key) = most_at_once(&requests);
    assert!(most <= LIMIT && most_of_key <= PER_KEY, "{most} were under way at a time, {most_of_key} with a key");
    assert_eq!(most, LIMIT, "the limit was never reached: it was no limit");
    let stands = api.get("/v1/workflows/passes/limits").expect(200).body;
    assert_eq!((&stands["underWay"], &stands["queued"]), (&json!(0), &json!(0)), "no place has leaked");
}
