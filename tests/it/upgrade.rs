//! A database of an earlier version, with a run in it that waits, is opened and the run goes on.

use std::fmt::Write as _;

use rusqlite::Connection;
use serde_json::Value;
use stepwell_core::ids::Digest;
use stepwell_tests::Project;

use crate::contracts::component;

/// The tables of the first version as that version left them, killed while the run slept: its rows, with `DIGEST` for the module's.
const FIRST: &str = include_str!("upgrade/version-1.sql");

fn database(project: &Project, sql: &str) {
    // Its workflow `main`: a step, ten minutes of sleep, another step, and their result.
    let module = component("0.1.0");
    let digest = Digest::of(&module);
    let directory = project.data_dir();
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let database = Connection::open(directory.join("stepwell.db")).expect("a database can be made");
    database.execute_batch(&sql.replace("DIGEST", digest.as_str())).expect("the rows are in order");
    let size = i64::try_from(module.len()).expect("it is small");
    let row = (digest.as_str(), 0, size, "{}", &module);
    database.execute("INSERT INTO modules VALUES (?1, ?2, ?3, ?4, ?5)", row).expect("the module can be kept");
}

/// More runs as the first version left them, by their rows alone: id, status and detail.
const OTHERS: [(&str, i64, Option<&str>); 4] = [
    ("run_failed", 11, None),
    ("run_cancelled", 12, Some("the outcome of step charge is unknown")),
    ("run_blocked", 3, Some("the outcome of step charge is unknown")),
    ("run_succeeded", 10, None),
];

#[test]
fn what_is_unknown_of_runs_of_the_first_version_is_still_said_and_nothing_else() {
    let project = Project::new();
    database(&project, FIRST);
    let open = Connection::open(project.data_dir().join("stepwell.db")).expect("it is a database");
    for (run, status, detail) in OTHERS {
        let sql = "INSERT INTO runs (run, workflow, digest, status, created_at_ms, changed_at_ms, detail) VALUES (?1, 'main', '', ?2, 0, 0, ?3)";
        open.execute(sql, (run, status, detail)).expect("the row is in order");
    }
    drop(open);
    let server = project.serve(&[]);
    for (run, _, detail) in OTHERS {
        let shown = server.get(&format!("/v1/runs/{run}")).expect(200).body;
        assert_eq!(shown["unknownSteps"].as_u64(), detail.map(|_| 1), "{shown:#?}");
    }
}

#[test]
fn a_run_of_the_first_version_goes_on() {
    let project = Project::new();
    database(&project, FIRST);
    // Whoever only reads leaves the database as it is, and says what to do.
    let unread = project.stepwell(&["runs", "list"]).expect_code(6);
    assert!(unread.stderr.contains("schema version 1"), "{}", unread.stderr);
    let server = project.serve(&[]);
    let runs = server.get("/v1/runs").expect(200).body;
    assert_eq!(runs["counts"].as_object().map(|counts| counts.values().filter_map(Value::as_u64).sum()), Some(1u64));
    let run = runs["runs"][0]["id"].as_str().expect("a run has an id").to_owned();
    let ended = server.ended(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&"succeeded".into(), &1.into()), "{ended:#?}");
    let mut shown = String::new();
    for entry in project.journal(&run) {
        let _ = writeln!(shown, "{entry}");
    }
    assert_eq!(shown.matches("step_begun").count(), 2, "{shown}");
    assert_eq!(shown.matches("timer_fired").count(), 1, "{shown}");
}

#[test]
fn a_copy_of_the_first_version_is_restored_and_its_run_goes_on() {
    let project = Project::new();
    database(&project, FIRST);
    let copy = project.path().join("copy.db").display().to_string();
    let copied = project.stepwell(&["backup", &copy, "--json"]).expect_code(0).events;
    assert_eq!(copied[0]["runs"], 1);
    let restored = project.stepwell(&["restore", &copy, "--replace", "--json"]).expect_code(0).events;
    assert_eq!(restored[0]["openRuns"], 1);
    let server = project.serve(&[]);
    let run = server.get("/v1/runs").expect(200).body["runs"][0].clone();
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    assert_eq!(run["status"], "paused", "{run:#}");
    drop(server.post(&format!("/v1/runs/{id}/resume"), &serde_json::json!({})).expect(202));
    let ended = server.ended(&id);
    assert_eq!((&ended["status"], &ended["result"]), (&"succeeded".into(), &1.into()), "{ended:#?}");
}
