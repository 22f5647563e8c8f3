//! What a restored run does to others: runs that it starts, or that go on for it, may have been there after the copy was made, under the
//! same names.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::json;
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};
use crate::restore::{back_up, charges, restore, seen, unknown, until_status};

static MODULE: LazyLock<Module> = LazyLock::new(|| Module::build("family.ts", include_str!("restore/family.ts")));

fn go(api: &Api, run: &str) {
    drop(api.post(&format!("/v1/runs/{run}/events/go"), &json!(null)).expect(202));
}

/// The run that charges for this one, once it is there.
fn who_charges(api: &Api, workflow: &str, run: &str) -> String {
    loop {
        let found = if workflow == "boss" {
            let list = api.get(&format!("/v1/runs?parent={run}")).expect(200).body;
            list["runs"][0]["id"].clone()
        } else {
            seen(api, run)["continuedAs"].clone()
        };
        if let Some(id) = found.as_str() {
            return id.to_owned();
        }
        std::thread::yield_now();
    }
}

#[test]
fn what_a_run_in_doubt_starts_is_in_doubt() {
    let project = Project::new();
    let bank = Server::start(|request| Reply::Answer(201, format!("charged {}", request.path)));
    let server = project.serve_with(&MODULE);
    let mut runs = BTreeMap::new();
    for (workflow, effect) in [("boss", "once"), ("boss", "keyed"), ("heir", "once"), ("heir", "keyed")] {
        let order = format!("{workflow}-{effect}");
        let input = json!({ "url": bank.url(), "order": order, "effect": effect, "left": 1 });
        let run = start(&server, workflow, &json!({ "input": input }));
        drop(until_waiting(&server, &run));
        runs.insert(run, workflow);
    }
    let calm = start(&server, "boss", &json!({ "input": { "url": bank.url(), "order": "calm", "effect": "once" } }));
    drop(until_waiting(&server, &calm));
    let file = back_up(&project, "copy.db");
    // All of this is lost.
    let mut first = BTreeMap::new();
    for (run, workflow) in &runs {
        go(&server, run);
        let other = who_charges(&server, workflow, run);
        assert_eq!(server.ended(&other)["status"], "succeeded");
        first.insert(run, other);
    }
    server.kill();
    let made = charges(&bank);
    assert_eq!(made.len(), 4);

    let (epoch, _) = restore(&project, &file, &[]);
    let args = ["steps", "nothing-followed", &calm, "--evidence", "it was told nothing"];
    drop(project.stepwell(&args).expect_code(0));
    let server = project.serve(&[]);
    let mut others = BTreeMap::new();
    for (run, workflow) in &runs {
        drop(server.post(&format!("/v1/runs/{run}/resume"), &json!({})).expect(202));
        go(&server, run);
        let other = who_charges(&server, workflow, run);
        drop(until_status(&server, &other, "blocked"));
        others.insert(run, other);
    }
    assert_eq!(charges(&bank), made, "nothing was sent again");
    let expected = others.values().map(|other| (other.clone(), ("charge".to_owned(), true))).collect();
    assert_eq!(unknown(&project), expected);
    // A person looks, and lets one be charged again, under a key that nobody has seen.
    for (run, other) in &others {
        let finding = if runs[*run] == "boss" {
            json!({ "outcome": "succeeded", "result": "charged", "evidence": "on the statement" })
        } else {
            json!({ "outcome": "retry", "evidence": "not on the statement" })
        };
        let answer = server.post(&format!("/v1/runs/{other}/steps/charge/resolve"), &finding);
        assert!(answer.status < 300, "{answer:#?}");
        assert_eq!(server.ended(other)["status"], "succeeded");
        assert_eq!(server.ended(run)["status"], "succeeded");
    }
    // Of this one it is known that nothing had followed.
    drop(server.post(&format!("/v1/runs/{calm}/resume"), &json!({})).expect(202));
    go(&server, &calm);
    assert_eq!(server.ended(&calm)["status"], "succeeded");

    let all = charges(&bank);
    for effect in ["once", "keyed"] {
        let path = format!("/heir-{effect}");
        let (run, _) = runs
            .iter()
            .find(|(run, _)| all[&path].iter().any(|key| key.starts_with(first[run].as_str())))
            .expect("it was charged");
        assert_eq!(all[&path], [made[&path][0].clone(), format!("{}:charge:r{epoch}:e1", others[run])]);
        let path = format!("/boss-{effect}");
        assert_eq!(all[&path], made[&path]);
    }
    assert_eq!(all["/calm"].len(), 1);
}
