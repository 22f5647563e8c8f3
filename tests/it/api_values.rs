//! Values over HTTP: whatever they are, however deep or large, they are passed on as they were written, and everything about their run
//! stays readable.

use serde_json::{Value, json};
use stepwell_tests::{Answer, Project};

use crate::api_keys::MODULE;
use crate::api_runs::{start, until_waiting};

/// Too deep for a tree here as well: such an answer is a text.
fn text(answer: Answer) -> String {
    match answer.body {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Deeper than a tree of values can be.
fn deep() -> String {
    format!("{}{}", "[".repeat(200), "]".repeat(200))
}

#[test]
fn a_value_nested_deeply_leaves_its_run_readable() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({}));
    drop(until_waiting(&server, &run));
    let path = format!("/v1/runs/{run}");
    drop(server.post_as(&format!("{path}/events/answer"), "application/json", deep().as_bytes()).expect(202));
    let result = text(server.get(&format!("{path}/result?wait=60s")).expect(200));
    assert!(result.contains(&format!("\"result\":[{}]", deep())), "{result}");
    let journal = text(server.get(&format!("{path}/journal")).expect(200));
    assert!(journal.contains(&deep()) && journal.contains("ended"), "{journal}");
    let followed: Vec<String> = server.lines(&format!("{path}/events")).collect();
    assert!(followed.iter().any(|line| line == "event: end"), "{followed:#?}");
    let url = format!("http://{}", server.address());
    let watched = project.stepwell(&["runs", "watch", &run, "--url", &url]).expect_code(0);
    assert_eq!(watched.stdout.trim(), format!("[{}]", deep()));
    let json = project.stepwell(&["runs", "watch", &run, "--json", "--url", &url]).expect_code(0);
    assert!(json.stdout.contains(&format!("\"result\":[{}]", deep())), "{json:#?}");
    // A key replays it as it was.
    let body = format!("{{\"input\":{}}}", deep());
    for query in ["?wait=60s", "", "?wait=60s"] {
        let other = format!("/v1/workflows/other/runs{query}");
        let answer = text(server.keyed("k").post_as(&other, "application/json", body.as_bytes()).expect(201));
        assert_eq!(answer.contains(&format!("\"result\":{}", deep())), !query.is_empty(), "{answer}");
    }
}

#[test]
fn numbers_keep_their_spelling() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let number = "12345678901234567890123";
    let url = format!("http://{}", server.address());
    let started = project.stepwell(&["start", "other", "--input", number, "--wait", "60s", "--url", &url]);
    let started = started.expect_code(0);
    // JavaScript has read it: it is the nearest number there. What is passed on is what it has written.
    let run = server.get("/v1/runs").body["runs"][0]["id"].as_str().expect("a run has an id").to_owned();
    let stored = project.stepwell(&["runs", "show", &run]).expect_code(0).stdout;
    assert!(stored.contains(started.stdout.trim()), "{stored} {started:#?}");
    let raw = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let mut stream = std::net::TcpStream::connect(server.address()).expect("the server takes connections");
        let mut answer = String::new();
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("the request is taken");
        std::io::Read::read_to_string(&mut stream, &mut answer).expect("there is an answer");
        answer
    };
    let journal = raw(&format!("/v1/runs/{run}/journal"));
    assert!(journal.contains(&format!("\"input\":{number}")), "{journal}");
}

#[test]
fn pages_end_at_so_many_bytes_and_lose_nothing() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({ "input": { "times": 6 } }));
    drop(until_waiting(&server, &run));
    let large = "x".repeat(1_900_000);
    for n in 0..6 {
        drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!(format!("{n}{large}"))).expect(202));
    }
    // All six together are no result, but they are in the journal.
    drop(server.ended(&run));
    let (mut all, mut from, mut parts) = (Vec::new(), Some(0), 0);
    while let Some(next) = from {
        let part = server.get(&format!("/v1/runs/{run}/journal?from={next}")).expect(200).body;
        assert!(part.to_string().len() < 5 << 20, "a part has {} bytes", part.to_string().len());
        all.extend(part["entries"].as_array().expect("a list").clone());
        (from, parts) = (part["next"].as_u64(), parts + 1);
    }
    assert!(parts > 2, "there were {parts} parts");
    let numbers: Vec<_> = all.iter().filter_map(|entry| entry["seq"].as_u64()).collect();
    assert_eq!(numbers, (0..all.len() as u64).collect::<Vec<_>>());
    assert!(all[all.len() - 1]["entry"]["ended"].is_object());
    let followed = server.lines(&format!("/v1/runs/{run}/events"));
    assert_eq!(followed.filter(|line| line == "event: entry").count(), all.len());
}

#[test]
fn logs_come_in_pages() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "chatty", &json!({ "input": 250 }));
    drop(server.ended(&run));
    let (mut lines, mut cursor) = (Vec::new(), String::new());
    loop {
        let part = server.get(&format!("/v1/runs/{run}/logs?limit=100{cursor}")).expect(200).body;
        let some = part["lines"].as_array().expect("a list").clone();
        assert!(some.len() <= 100);
        lines.extend(some.iter().map(|line| line["message"].as_str().unwrap_or_default().to_owned()));
        match part["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(lines, (0..250).map(|n| format!("line {n}")).collect::<Vec<_>>());
    drop(server.get(&format!("/v1/runs/{run}/logs?cursor=x")).problem(400, "invalid_request"));
}

#[test]
fn a_batch_tells_of_runs_and_not_of_their_results() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let large = "x".repeat(1 << 20);
    let start = json!({ "workflow": "echo", "input": large, "runKey": "large" });
    let first = server.post("/v1/runs:batch", &json!({ "runs": [start] })).expect(200);
    let run = first.body["outcomes"][0]["run"]["id"].as_str().expect("a run has an id").to_owned();
    assert_eq!(server.ended(&run)["result"], json!(large));
    let same: Vec<Value> = (0..5).map(|_| start.clone()).collect();
    let again = server.post("/v1/runs:batch", &json!({ "runs": same })).expect(200);
    assert_eq!(again.body["outcomes"][4]["run"]["status"], "succeeded");
    assert!(again.body.to_string().len() < 1 << 20, "{}", again.body.to_string().len());
}
