//! Failed runs that are retried in a restored database: after the copy they may have been retried too, and nobody knows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use serde_json::json;
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::start;
use crate::restore::{back_up, charges, resolve, restore, seen, unknown, until_status};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    let source = r#"
import { workflow } from "stepwell";

/** One charge, which the bank takes or refuses. */
export const charge = workflow("charge", async ({ input, step }: any) =>
  step.run("charge", async ({ http, attempt }: any) =>
    (await http.post(`${input.url}/${input.order}`, { json: { attempt } }).ensureOk()).text(), { effect: input.effect }),
  { destinations: ["127.0.0.1:*"] });
"#;
    Module::build("charge.ts", source)
});

/// A bank that refuses every charge until it takes them.
struct Bank {
    server: Server,
    takes: Arc<AtomicBool>,
}

impl Bank {
    fn start() -> Self {
        let takes = Arc::new(AtomicBool::new(false));
        let asked = takes.clone();
        let server = Server::start(move |_| match asked.load(Ordering::SeqCst) {
            true => Reply::Answer(201, "charged".to_owned()),
            false => Reply::Answer(400, "no".to_owned()),
        });
        Self { server, takes }
    }

    fn takes(&self, takes: bool) {
        self.takes.store(takes, Ordering::SeqCst);
    }

    /// A run that ends so.
    fn run(&self, api: &Api, order: &str, effect: &str, ends: &str) -> String {
        let input = json!({ "url": self.server.url(), "order": order, "effect": effect });
        let run = start(api, "charge", &json!({ "input": input }));
        assert_eq!(api.ended(&run)["status"], ends);
        run
    }
}

fn retry(api: &Api, run: &str) -> serde_json::Value {
    api.post(&format!("/v1/runs/{run}/retry"), &json!({})).expect(202).body
}

#[test]
fn a_run_that_was_retried_after_the_copy_sends_nothing_until_somebody_has_spoken() {
    let (project, bank) = (Project::new(), Bank::start());
    let server = project.serve_with(&MODULE);
    let orders = ["lost-keyed", "lost-once", "kept-keyed", "kept-once"];
    let effect = |order: &str| if order.ends_with("keyed") { "keyed" } else { "once" };
    let runs: Vec<String> = orders.iter().map(|order| bank.run(&server, order, effect(order), "failed")).collect();
    let file = back_up(&project, "copy.db");
    // All of this is lost: two are retried and succeed.
    let of_the_lost_time = bank.run(&server, "after", "once", "failed");
    bank.takes(true);
    for run in &runs[..2] {
        assert_eq!(retry(&server, run)["again"], json!(["charge"]));
        assert_eq!(server.ended(run)["status"], "succeeded");
    }
    server.kill();
    let made = charges(&bank.server);

    let (epoch, restored) = restore(&project, &file, &[]);
    assert_eq!(restored["openRuns"], 0, "{restored}");
    let server = project.serve(&[]);
    for run in &runs {
        assert_eq!(seen(&server, run)["status"], "failed");
        let answer = retry(&server, run);
        assert_eq!((&answer["step"], &answer["again"]), (&json!("charge"), &json!([])), "{answer}");
    }
    for run in &runs {
        let shown = until_status(&server, run, "blocked");
        assert!(shown["detail"].as_str().is_some_and(|detail| detail.contains("charge")), "{shown:#}");
    }
    assert!(server.stop().code == Some(0));
    assert_eq!(charges(&bank.server), made, "nothing is sent");
    let unknown = unknown(&project);
    assert!(runs.iter().all(|run| unknown.get(run) == Some(&("charge".to_owned(), true))), "{unknown:#?}");

    for run in &runs[..2] {
        resolve(&project, run, "charge", &["--succeeded", "\"charged\""]);
    }
    for run in &runs[2..] {
        resolve(&project, run, "charge", &["--retry"]);
    }
    for run in &runs {
        assert_eq!(project.resume(run).wait().expect_code(0).result(), "charged");
    }
    let charged = charges(&bank.server);
    for (order, run) in orders.iter().zip(&runs) {
        let path = format!("/{order}");
        assert_eq!(charged[&path].len(), 2, "{charged:#?}");
        // What was refused before the copy, and what a person has had tried again: under a key of the new epoch.
        let second =
            if order.starts_with("kept") { format!("{run}:charge:r{epoch}:e2") } else { made[&path][1].clone() };
        assert_eq!(charged[&path], [format!("{run}:charge:e1"), second]);
    }
    let last = bank.server.requests().pop().expect("it was charged");
    assert_eq!(String::from_utf8_lossy(&last.body), r#"{"attempt":100001}"#);

    let server = project.serve(&[]);
    // The lost time's runs are nobody's any more.
    let input = json!({ "url": bank.server.url(), "order": "after", "effect": "once" });
    let refused = server
        .post("/v1/workflows/charge/runs", &json!({ "input": input, "retryOf": of_the_lost_time }))
        .problem(404, "not_found");
    assert!(refused.body["detail"].as_str().is_some_and(|text| text.contains(&of_the_lost_time)), "{refused:?}");
    drop(server.post(&format!("/v1/runs/{of_the_lost_time}/retry"), &json!({})).problem(404, "not_found"));
    // Of a run that starts now nothing is in doubt.
    bank.takes(false);
    let new = bank.run(&server, "new", "once", "failed");
    bank.takes(true);
    assert_eq!(retry(&server, &new)["again"], json!(["charge"]));
    assert_eq!(server.ended(&new)["status"], "succeeded");
    assert_eq!(charges(&bank.server)["/new"], [format!("{new}:charge:e1"), format!("{new}:charge:e2")]);
}

#[test]
fn a_failed_run_that_nothing_followed_is_retried_at_once_in_the_new_epoch() {
    let (project, other, bank) = (Project::new(), Project::new(), Bank::start());
    let server = project.serve_with(&MODULE);
    let run = bank.run(&server, "moved", "once", "failed");
    assert!(server.stop().code == Some(0));
    let file = back_up(&project, "copy.db");
    // It is moved, and moved again.
    let mut epochs = [&other, &project].map(|to| restore(to, &file, &["--nothing-followed"]).0);
    let file = back_up(&project, "second.db");
    epochs[0] = restore(&other, &file, &["--nothing-followed"]).0;
    bank.takes(true);
    let server = other.serve(&[]);
    assert_eq!(retry(&server, &run)["again"], json!(["charge"]));
    assert_eq!(server.ended(&run)["status"], "succeeded");
    assert_eq!(
        charges(&bank.server)["/moved"],
        [format!("{run}:charge:e1"), format!("{run}:charge:r{}:e2", epochs[0])]
    );
    let journal = server.get(&format!("/v1/runs/{run}/journal")).expect(200).body;
    let entries = journal["entries"].as_array().expect("a list of entries");
    let told: Vec<_> = entries.iter().filter_map(|entry| entry["entry"].get("restored")).collect();
    assert_eq!(
        told.iter().map(|entry| entry["epoch"].clone()).collect::<Vec<_>>(),
        [&epochs[1], &epochs[0]].map(|e| json!(e))
    );
    let last = bank.server.requests().pop().expect("it was charged");
    assert_eq!(String::from_utf8_lossy(&last.body), r#"{"attempt":200001}"#);
}
