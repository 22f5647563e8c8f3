//! `stepwell steps`: what is unknown, and what a person says of it.

use serde_json::{Value, json};
use std::sync::LazyLock;
use stepwell_tests::{Module, Project, Reply, Server};

pub(crate) static MODULE: LazyLock<Module> =
    LazyLock::new(|| Module::build("effects.ts", include_str!("effects/effects.ts")));

/// A blocked run of one `once` step whose POST was dropped at first.
fn blocked() -> (Project, Server, String) {
    let project = Project::new();
    let server = Server::start(|request| match request.number {
        1 => Reply::Drop,
        _ => Reply::Answer(201, "charged".to_owned()),
    });
    let options = json!({ "effect": "once", "retry": { "maxAttempts": 3, "initialMs": 10 } });
    let _ = project.run(&MODULE, "post", &json!({ "url": server.url(), "options": options })).wait().expect_code(4);
    let run = project.only_run();
    (project, server, run)
}

fn resolve(project: &Project, run: &str, finding: &[&str], code: i32) -> Vec<Value> {
    let mut args = vec!["steps", "resolve", run, "charge", "--evidence", "asked the bank", "--by", "ana", "--json"];
    args.extend(finding);
    project.stepwell(&args).expect_code(code).events
}

fn listed(project: &Project, args: &[&str]) -> Vec<Value> {
    let mut all = vec!["steps", "list", "--json"];
    all.extend(args);
    project.stepwell(&all).expect_code(0).events
}

#[test]
fn a_step_that_happened_ends_with_the_result_that_a_person_gives_it() {
    let (project, server, run) = blocked();
    let steps = listed(&project, &[]);
    assert_eq!(steps.len(), 1, "{steps:#?}");
    assert_eq!((&steps[0]["run"], &steps[0]["step"]), (&json!(run), &json!("charge")));
    assert_eq!(steps[0]["effects"][0]["key"], json!(format!("{run}:charge:e1")));
    resolve(&project, &run, &["--succeeded", r#"{"id":"ch_1"}"#], 0);
    assert!(listed(&project, &[]).is_empty());
    // It is not unknown any more.
    resolve(&project, &run, &["--retry"], 2);
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!({ "id": "ch_1" }));
    assert_eq!(server.requests().len(), 1);
    let journal = project.journal(&run);
    let entry = journal.iter().find_map(|entry| entry["entry"].get("resolved")).expect("it is on record");
    assert_eq!((&entry["by"], &entry["evidence"]), (&json!("ana"), &json!("asked the bank")));
}

#[test]
fn a_step_that_is_tried_again_keeps_its_key() {
    let (project, server, run) = blocked();
    let said = resolve(&project, &run, &["--retry"], 0);
    assert_eq!(said[0]["keys"], json!([{ "effect": 1, "key": format!("{run}:charge:e1"), "kept": true }]));
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(end.result()["text"], "charged");
    let keys: Vec<_> = server.requests().iter().map(|request| request.key().map(str::to_owned)).collect();
    assert_eq!(keys, [Some(format!("{run}:charge:e1")), Some(format!("{run}:charge:e1"))]);
}

#[test]
fn a_step_that_did_not_happen_fails() {
    let (project, server, run) = blocked();
    resolve(&project, &run, &["--failed", "the bank knows nothing of it"], 0);
    let end = project.resume(&run).wait().expect_code(1);
    assert!(end.error()["message"].as_str().unwrap().contains("the bank knows nothing of it"), "{end:#?}");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_is_said_of_a_step_is_one_thing_and_says_how_it_was_found_out() {
    let (project, _, run) = blocked();
    for args in [&["--succeeded", "1", "--retry"][..], &[], &["--succeeded", "{"]] {
        resolve(&project, &run, args, 2);
    }
    let bare = project.stepwell(&["steps", "resolve", &run, "charge", "--retry"]).expect_code(2);
    assert!(bare.stderr.contains("--evidence"), "{bare:#?}");
    let blank = project.stepwell(&["steps", "resolve", &run, "charge", "--retry", "--evidence", " "]).expect_code(2);
    assert!(blank.stderr.contains("--evidence"), "{blank:#?}");
    let missing =
        project.stepwell(&["steps", "resolve", "run_0", "charge", "--retry", "--evidence", "x"]).expect_code(2);
    assert!(missing.stderr.contains("run_0"), "{missing:#?}");
    assert_eq!(listed(&project, &["--run", &run]).len(), 1);
}
