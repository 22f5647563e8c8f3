//! Requests of step bodies, seen from the other side: keys, repetitions, what is known of an outcome.

mod attribution;
mod commit;
mod deadlines;
mod once;
mod outcomes;
mod secrets;

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Finished, Module, Project, Server};

use crate::journals::entries;

static MODULE: LazyLock<Module> = LazyLock::new(|| Module::build("effects.ts", include_str!("effects/effects.ts")));

/// Every class, and what a test is to expect of all of them.
const CLASSES: [&str; 3] = ["repeatable", "keyed", "once"];

/// Options of a step that is attempted again at once, and as often as it takes.
fn eager(effect: &str) -> Value {
    json!({ "effect": effect, "retry": { "maxAttempts": 100, "initialMs": 10, "multiplier": 1 } })
}

/// Runs a workflow of the module to its end against a server, with a step of this class.
fn run(project: &Project, workflow: &str, server: &Server, options: Value) -> Finished {
    project.run(&MODULE, workflow, &json!({ "url": server.url(), "options": options })).wait()
}

/// The keys of all unsafe requests that came, each shortened by the run's id. They are those that the journal says were sent.
fn keys(project: &Project, server: &Server) -> Vec<String> {
    let run = project.only_run();
    let requests = server.requests();
    let came: Vec<_> =
        requests.iter().filter(|request| request.method == "POST").map(|request| request.key()).collect();
    let journal = project.journal(&run);
    let not_sent: usize =
        entries(&journal, "settled").iter().filter(|settled| settled["evidence"] == "not_sent").count();
    assert_eq!(entries(&journal, "dispatched").len(), came.len() + not_sent, "{journal:#?} {requests:#?}");
    let shorten = |key: Option<&str>| {
        let key = key.unwrap_or_else(|| panic!("a POST without a key: {requests:#?}"));
        let rest = key.strip_prefix(&run).and_then(|rest| rest.strip_prefix(':'));
        rest.unwrap_or_else(|| panic!("a key of another run: {key}")).to_owned()
    };
    came.into_iter().map(shorten).collect()
}
