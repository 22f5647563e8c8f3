//! How fast the server answers with very many runs in its database. A measurement, not a test:
//!
//! ```text
//! cargo build --release && STEPWELL_BIN=target/release/stepwell cargo run --release -p stepwell-tests --example million
//! … --example million -- 1000000 100000     # so many that have ended, so many that sleep
//! … --example million -- 1000000 100000 DIR # the same, with the data directory made in DIR and kept; one that is there is used as it is
//! ```
//!
//! Two runs are made by the server, one that has ended and one that sleeps; the others are copies of their rows, each with a name of
//! its own. What comes first is a restart: until the server takes requests, and until it has ended a run that was started then. Every tenth has the tag `colour=red`, every thousandth `rare=yes`; a hundredth of those that have ended has failed.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use serde_json::json;
use stepwell_tests::{Api, Module, Project};

/// Requests that a line is made of.
const REQUESTS: usize = 500;
const SOURCE: &str = r#"
import { workflow } from "stepwell";
export const echo = workflow("echo", async ({ input, step }: any) => step.run("echo", () => input));
export const sleeps = workflow("sleeps", async ({ sleep }: any) => sleep("3650 days"));
"#;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, instead: u32| words.get(at).map_or(instead, |word| word.parse().expect("a number"));
    let (ended, sleeping) = (number(0, 1_000_000), number(1, 100_000));
    let project = Project::new();
    if let Some(directory) = words.get(2) {
        std::fs::create_dir_all(directory).expect("the directory can be made");
        std::os::unix::fs::symlink(directory, project.data_dir()).expect("a link can be made");
    }
    let file = project.data_dir().join("stepwell.db");
    if !file.exists() {
        let began = Instant::now();
        fill(&project, ended, sleeping);
        println!("made in {:.1?}", began.elapsed());
    }
    let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
    println!("{ended} ended, {sleeping} sleeping: {} MiB", bytes >> 20);

    let began = Instant::now();
    let server = project.serve(&["--rate-limit", "0"]);
    println!("taking requests after {:.1?}", began.elapsed());
    let answer = server.post("/v1/workflows/echo/runs?wait=60s", &json!({ "input": 1 })).expect(201);
    println!("first run over after  {:.1?} ({})", began.elapsed(), answer.body["status"]);
    println!("{:<58} {:>9} {:>9} {:>9}", "request", "p50 ms", "p99 ms", "max ms");
    let middle = middle_of(&server, ended);
    for path in [
        "/healthz".to_owned(),
        "/readyz".to_owned(),
        "/metrics".to_owned(),
        "/v1/runs?limit=1".to_owned(),
        "/v1/runs".to_owned(),
        "/v1/runs?status=succeeded".to_owned(),
        "/v1/runs?status=failed&workflow=echo".to_owned(),
        "/v1/runs?status=waiting".to_owned(),
        "/v1/runs?status=blocked".to_owned(),
        "/v1/runs?workflow=sleeps".to_owned(),
        "/v1/runs?workflow=none".to_owned(),
        "/v1/runs?runKey=none".to_owned(),
        "/v1/runs?tag=colour=red".to_owned(),
        "/v1/runs?tag=rare=yes".to_owned(),
        "/v1/runs?tag=none=yes".to_owned(),
        "/v1/runs?tag=colour=red&tag=rare=yes".to_owned(),
        "/v1/runs?tag=rare=yes&status=blocked".to_owned(),
        "/v1/runs?tag=colour=red&status=blocked".to_owned(),
        "/v1/runs?tag=none=yes&tag=colour=red".to_owned(),
        "/v1/runs?workflow=sleeps&status=failed".to_owned(),
        format!("/v1/runs?sinceMs={middle}"),
        format!("/v1/runs?sinceMs={middle}&untilMs={}", middle + 60_000),
        format!("/v1/runs?sinceMs={middle}&untilMs={}&status=failed", middle + 60_000),
        "/v1/steps".to_owned(),
        format!("/v1/runs?untilMs={middle}"),
        "/v1/runs?sinceMs=9000000000000".to_owned(),
        "/v1/runs?untilMs=1".to_owned(),
    ] {
        line(&path, || drop(server.get(&path).expect(200)));
    }
    line("POST /v1/workflows/echo/runs", || start(&server));
    println!("resident: {} MiB", resident_kib(&project) >> 10);
    assert!(server.stop().code == Some(0));

    // Nobody is to wait long for those that are taken away.
    let server = project.serve(&["--rate-limit", "0", "--retain", "0s"]);
    let (began, before) = (Instant::now(), succeeded(&server));
    println!("while runs that have ended are taken away:");
    line("/healthz", || drop(server.get("/healthz").expect(200)));
    line("POST /v1/workflows/echo/runs", || start(&server));
    let gone = before.saturating_sub(succeeded(&server));
    println!("{gone} runs fewer after {:.1?}; resident: {} MiB", began.elapsed(), resident_kib(&project) >> 10);
    assert!(server.stop().code == Some(0));
}

fn start(server: &Api) {
    drop(server.post("/v1/workflows/echo/runs", &json!({ "input": 1 })).expect(201));
}

fn succeeded(server: &Api) -> u64 {
    server.get("/v1/runs?limit=1").expect(200).body["counts"]["succeeded"].as_u64().unwrap_or(0)
}

fn line(name: &str, mut request: impl FnMut()) {
    let mut took: Vec<Duration> = Vec::with_capacity(REQUESTS);
    let began = Instant::now();
    // What is slow is not asked so often.
    while took.len() < REQUESTS && (took.len() < 20 || began.elapsed() < Duration::from_secs(10)) {
        let began = Instant::now();
        request();
        took.push(began.elapsed());
    }
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{name:<58} {:>9.2} {:>9.2} {:>9.2}", at(0.5), at(0.99), at(1.0));
}

/// A time before which about half of those that have ended were started.
fn middle_of(server: &Api, ended: u32) -> u64 {
    let newest = server.get("/v1/runs?limit=2").expect(200).body["runs"][1]["createdAtMs"].as_u64().unwrap_or(0);
    newest - 1_000 * u64::from(ended) / 2
}

fn resident_kib(project: &Project) -> u64 {
    let pid = std::fs::read_to_string(project.pid_file()).unwrap_or_default();
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// The two that the others are copies of were started before them: else the clock would have been set back by days.
const BEFORE_ALL: &str = "
    UPDATE runs SET created_at_ms = (SELECT min(created_at_ms) FROM runs) - 1000 WHERE id <= 2;
    DELETE FROM minutes;
    INSERT INTO minutes (minute, first, last)
        SELECT minute, min(least) OVER (ORDER BY minute DESC ROWS UNBOUNDED PRECEDING),
               max(greatest) OVER (ORDER BY minute ROWS UNBOUNDED PRECEDING)
        FROM (SELECT created_at_ms / 60000 AS minute, min(id) AS least, max(id) AS greatest FROM runs GROUP BY 1);
";

/// Makes the database.
fn fill(project: &Project, ended: u32, sleeping: u32) {
    let module = Module::build("million.ts", SOURCE);
    let server = project.serve_with(&module);
    let start = |workflow: &str| {
        server.post(&format!("/v1/workflows/{workflow}/runs"), &json!({ "input": 1 })).expect(201).run()
    };
    let (echo, sleeps) = (start("echo"), start("sleeps"));
    drop(server.ended(&echo));
    while server.get(&format!("/v1/runs/{sleeps}")).expect(200).body["status"] != json!("waiting") {
        std::thread::yield_now();
    }
    assert!(server.stop().code == Some(0));
    let mut database = Connection::open(project.data_dir().join("stepwell.db")).expect("it is a database");
    database.execute_batch("PRAGMA synchronous = OFF; PRAGMA cache_size = -400000").expect("settings can be set");
    copies(&mut database, &echo, ended, 0, 1_000);
    copies(&mut database, &sleeps, sleeping, 1 << 40, 1);
    database.execute_batch(BEFORE_ALL).expect("the first two can be the earliest");
    database.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").expect("the log can be emptied");
}

/// Copies of a run and all that belongs to it. Each was started so many ms after the one before, the last one now.
fn copies(database: &mut Connection, of: &str, count: u32, named_from: i64, apart_ms: u32) {
    let (template, status): (i64, i64) = database
        .query_row("SELECT id, status FROM runs WHERE run = ?1", [of], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("the run is there");
    let next: i64 = database.query_row("SELECT max(id) + 1 FROM runs", [], |row| row.get(0)).expect("there are runs");
    let names = "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)";
    for from in (0..count).step_by(50_000) {
        let until = count.min(from + 50_000);
        let transaction = database.transaction().expect("a transaction can begin");
        let values = params![from, until, next, template, named_from, count, apart_ms];
        let sql = format!(
            "{names} INSERT INTO runs (id, run, workflow, digest, status, wake_at_ms, created_at_ms, changed_at_ms, inbox_seen, tags, detail, outcome)
             SELECT ?3 + i, printf('run_%032x', ?5 + i), workflow, digest, iif(status = 10 AND i % 100 = 0, 11, status), wake_at_ms,
                 created_at_ms - ?7 * (?6 - i), changed_at_ms - ?7 * (?6 - i), inbox_seen,
                 CASE WHEN i % 1000 = 0 THEN '{{\"colour\":\"red\",\"rare\":\"yes\"}}' WHEN i % 10 = 0 THEN '{{\"colour\":\"red\"}}' END, detail, outcome
             FROM n CROSS JOIN runs WHERE runs.id = ?4 ORDER BY i"
        );
        transaction.execute(&sql, values).expect("runs can be added");
        for (tag, value, every) in [("colour", "red", 10), ("rare", "yes", 1_000)] {
            let sql =
                format!("{names} INSERT INTO tags SELECT '{tag}', '{value}', ?3 + i FROM n WHERE i % {every} = 0");
            transaction.execute(&sql, params![from, until, next]).expect("tags can be added");
        }
        let sql = format!(
            "{names} INSERT INTO journal (run, seq, entry)
             SELECT ?3 + i, seq, CAST(replace(CAST(entry AS TEXT), ?6, printf('run_%032x', ?5 + i)) AS BLOB)
             FROM n CROSS JOIN journal WHERE journal.run = ?4 ORDER BY i, seq"
        );
        transaction.execute(&sql, params![from, until, next, template, named_from, of]).expect("entries can be added");
        if status < 10 {
            let sql = format!(
                "{names} INSERT INTO timers SELECT wake_at_ms, ?3 + i FROM n CROSS JOIN runs WHERE runs.id = ?4"
            );
            transaction.execute(&sql, params![from, until, next, template]).expect("timers can be added");
        }
        transaction.commit().expect("it can be committed");
    }
}
