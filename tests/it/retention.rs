//! `stepwell serve --retain`: what is deleted once it has ended, and what never is.

use std::sync::LazyLock;

use rusqlite::Connection;
use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "kept.ts",
        r#"
import { workflow } from "stepwell";

export const echo = workflow("echo", async ({ input, step, log }: any) => {
  log.info?.("a line");
  for (let n = 0; n < (input?.steps ?? 1); n++) await step.run("echo", () => n);
  return input;
});

export const fails = workflow("fails", async () => { throw new Error("it does"); });

export const waits = workflow("waits", async ({ waitForEvent }: any) => waitForEvent("answer"));

export const pays = workflow("pays", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => (await http.post(input, { json: {} }).ensureOk()).text(),
    { effect: "once", retry: { maxAttempts: 1 } }), { destinations: ["127.0.0.1:*"] });
"#,
    )
});

fn is_there(api: &Api, run: &str) -> bool {
    api.get(&format!("/v1/runs/{run}")).status == 200
}

fn until_gone(api: &Api, run: &str) {
    while is_there(api, run) {
        std::thread::yield_now();
    }
}

/// How many rows each table has: runs, journal, logs, inbox, tags.
fn rows(project: &Project) -> [i64; 5] {
    let database = Connection::open(project.data_dir().join("stepwell.db")).expect("it is a database");
    ["runs", "journal", "logs", "inbox", "tags"].map(|table| {
        database.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("rows are counted")
    })
}

/// Runs of every kind, and one that ends last.
struct Kept {
    succeeded: String,
    failed: String,
    waits: String,
    blocked: String,
    terminated_unknown: String,
    newest: String,
}

fn runs(server: &Api, bank: &Server) -> Kept {
    let body = json!({ "input": { "steps": 700 }, "runKey": "k", "tags": { "a": "b" } });
    let succeeded = server.keyed("start").post("/v1/workflows/echo/runs", &body).expect(201).run();
    assert_eq!(server.ended(&succeeded)["status"], "succeeded");
    let failed = start(server, "fails", &json!({}));
    assert_eq!(server.ended(&failed)["status"], "failed");
    let waits = start(server, "waits", &json!({}));
    drop(until_waiting(server, &waits));
    let unknown = || {
        let run = start(server, "pays", &json!({ "input": bank.url() }));
        while server.get(&format!("/v1/runs/{run}")).expect(200).body["status"] != "blocked" {
            std::thread::yield_now();
        }
        run
    };
    let (blocked, terminated_unknown) = (unknown(), unknown());
    drop(server.post(&format!("/v1/runs/{terminated_unknown}/terminate"), &json!({})).expect(202));
    assert_eq!(server.ended(&terminated_unknown)["status"], "terminated");
    let newest = start(server, "echo", &json!({}));
    drop(server.ended(&newest));
    Kept { succeeded, failed, waits, blocked, terminated_unknown, newest }
}

#[test]
fn what_has_ended_goes_and_what_is_needed_stays() {
    let (project, bank) = (Project::new(), Server::start(|_| Reply::Drop));
    let server = project.serve_with(&MODULE);
    let kept = runs(&server, &bank);
    assert!(server.stop().code == Some(0));
    let before = rows(&project);

    // Off unless it is asked for, and by status.
    let server = project.serve(&["--retain", "cancelled=0s", "--retain", "succeeded=3650d"]);
    let later = start(&server, "echo", &json!({}));
    drop(server.ended(&later));
    assert!([&kept.succeeded, &kept.failed, &kept.newest].iter().all(|run| is_there(&server, run)));
    assert!(server.stop().code == Some(0));
    assert!(rows(&project).iter().zip(before).all(|(after, before)| *after >= before));

    let server = project.serve(&["--retain", "0s"]);
    // The runs go status by status; one that would go last is gone when all others are.
    for run in [&kept.succeeded, &kept.newest, &kept.failed] {
        until_gone(&server, run);
    }
    for run in [&kept.waits, &kept.blocked, &kept.terminated_unknown, &later] {
        assert!(is_there(&server, run), "{run}");
    }
    // The start that was answered is not done again, though its run is gone.
    let again = |key: &str| {
        let body = json!({ "input": { "steps": 700 }, "runKey": "k", "tags": { "a": "b" } });
        server.keyed(key).post("/v1/workflows/echo/runs", &body)
    };
    let answer = again("start").expect(201);
    assert_eq!((answer.run(), answer.header("idempotent-replayed")), (kept.succeeded.clone(), Some("true")));
    let counts = server.get("/v1/runs").expect(200).body["counts"].clone();
    assert_eq!(
        (&counts["succeeded"], &counts["failed"], &counts["terminated"]),
        (&json!(1), &json!(0), &json!(1)),
        "{counts}"
    );
    drop(server.post(&format!("/v1/runs/{}/events/answer", kept.waits), &json!(7)).expect(202));
    assert_eq!(server.ended(&kept.waits)["result"], 7);
    server.kill();

    // What was taken away was acknowledged once: the database is not behind for that. An answer that is old lets its key go.
    let database = Connection::open(project.data_dir().join("stepwell.db")).expect("it is a database");
    let old = database.execute("UPDATE answers SET at_ms = 1 WHERE key = 'start'", []).expect("a row can be changed");
    assert_eq!(old, 1);
    drop(database);
    let server = project.serve(&[]);
    let body = json!({ "input": { "steps": 700 }, "runKey": "k", "tags": { "a": "b" } });
    let answer: Value = server.keyed("start").post("/v1/workflows/echo/runs", &body).expect(201).body;
    assert!(answer["id"] != json!(kept.succeeded), "{answer:#}");
    assert_eq!(server.ended(answer["id"].as_str().unwrap_or_default())["status"], "succeeded");
    assert!(server.stop().code == Some(0));
}

#[test]
fn answers_of_runs_that_are_gone_go_after_a_day() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    for n in 0..3 {
        let run = server.keyed(&format!("key-{n}")).post("/v1/workflows/echo/runs", &json!({})).expect(201).run();
        drop(server.ended(&run));
    }
    assert!(server.stop().code == Some(0));
    let database = Connection::open(project.data_dir().join("stepwell.db")).expect("it is a database");
    let keys = || -> Vec<String> {
        let mut statement = database.prepare("SELECT key FROM answers ORDER BY key").expect("the query is one");
        let keys = statement.query_map([], |row| row.get(0)).expect("it can be asked");
        keys.map(|key| key.expect("a row can be read")).collect()
    };
    database.execute("UPDATE answers SET at_ms = 1 WHERE key <> 'key-1'", []).expect("rows can be changed");
    let server = project.serve(&["--retain", "0s"]);
    // The newest run stays, and so does its key; the second one's answer is young.
    while keys() != ["key-1", "key-2"] {
        std::thread::yield_now();
    }
    assert!(server.stop().code == Some(0));
}

#[test]
fn what_is_no_age_is_refused() {
    let project = Project::new();
    for text in ["forever", "running=1d", "1w", "succeeded"] {
        let refused = project.stepwell(&["serve", "--retain", text]).expect_code(2);
        assert!(refused.stderr.contains("--retain"), "{refused:#?}");
    }
}
