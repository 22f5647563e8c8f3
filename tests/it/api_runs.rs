//! Runs over HTTP: seen, followed, sent events, cancelled; across the end of the server, however it comes.

use serde_json::{Value, json};
use stepwell_tests::{Api, Project};

use crate::api_keys::MODULE;

pub(crate) fn start(api: &Api, workflow: &str, body: &Value) -> String {
    api.post(&format!("/v1/workflows/{workflow}/runs"), body).expect(201).run()
}

/// The events of a followed run: their names, ids and data.
pub(crate) fn events(lines: impl Iterator<Item = String>) -> impl Iterator<Item = (String, Option<u64>, Value)> {
    let mut lines = lines;
    std::iter::from_fn(move || {
        let (mut name, mut id, mut data) = (String::new(), None, Value::Null);
        for line in lines.by_ref() {
            match line.split_once(": ") {
                Some(("event", text)) => name = text.to_owned(),
                Some(("id", text)) => id = text.parse().ok(),
                Some(("data", text)) => data = serde_json::from_str(text).expect("data is JSON"),
                _ if line.is_empty() && !name.is_empty() => return Some((name, id, data)),
                _ => {}
            }
        }
        None
    })
}

/// Follows the run until it waits, and shows it.
pub(crate) fn until_waiting(api: &Api, run: &str) -> Value {
    let mut events = events(api.lines(&format!("/v1/runs/{run}/events")));
    let waiting = events.find(|(name, _, data)| name == "run" && data["status"] == "waiting");
    waiting.expect("the run comes to wait").2
}

#[test]
fn a_run_is_seen_from_its_start_to_its_end() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({ "runKey": "k", "tags": { "colour": "red", "size": "big" } }));
    let waiting = until_waiting(&server, &run);
    assert_eq!(waiting, server.get(&format!("/v1/runs/{run}")).expect(200).body);
    assert_eq!((&waiting["runKey"], &waiting["statusText"]), (&json!("k"), &json!("asking")));
    assert_eq!(
        (&waiting["detail"], &waiting["tags"]),
        (&json!("event \"answer\""), &json!({ "colour": "red", "size": "big" }))
    );
    let not_yet = server.get(&format!("/v1/runs/{run}/result")).expect(202);
    assert_eq!(not_yet.body["status"], "waiting");

    drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!({ "yes": true })).expect(202));
    let ended = server.ended(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!([{ "yes": true }])));
    drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!(1)).problem(409, "run_finished"));

    let journal = server.get(&format!("/v1/runs/{run}/journal")).expect(200).body["entries"].clone();
    let all = journal.as_array().expect("a list of entries");
    assert!(all[0]["entry"]["started"].is_object() && all[all.len() - 1]["entry"]["ended"].is_object(), "{all:#?}");
    let part = server.get(&format!("/v1/runs/{run}/journal?from=1&limit=2")).expect(200).body;
    assert_eq!((&part["entries"], &part["next"]), (&json!(all[1..3]), &json!(3)));

    // Followed from the beginning, or from where the connection was lost: every entry once, in order, then the end.
    let path = format!("/v1/runs/{run}/events");
    let followed: Vec<_> = events(server.lines(&path)).collect();
    let entries: Vec<_> = followed.iter().filter(|(name, ..)| name == "entry").map(|(.., data)| data.clone()).collect();
    assert_eq!(json!(entries), journal);
    assert_eq!(followed.last().map(|(name, _, data)| (name.as_str(), data)), Some(("end", &ended)));
    let rest: Vec<_> = events(server.with("last-event-id", "2").lines(&path)).map(|(_, id, _)| id).collect();
    let expected: Vec<_> = (3..all.len() as u64).map(Some).chain([None]).collect();
    assert_eq!(rest, expected);
    drop(server.with("last-event-id", "x").get(&path).problem(400, "invalid_request"));
}

#[test]
fn runs_are_listed_in_pages_by_what_they_are() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let runs: Vec<String> = (0..5)
        .map(|n| start(&server, "echo", &json!({ "input": n, "tags": { "even": (n % 2 == 0).to_string() } })))
        .collect();
    let waiting = start(&server, "waiting", &json!({ "runKey": "w" }));
    drop(runs.iter().map(|run| server.ended(run)).collect::<Vec<_>>());
    drop(until_waiting(&server, &waiting));
    let listed = |query: &str| -> Vec<String> {
        let answer = server.get(&format!("/v1/runs?{query}")).expect(200);
        let runs = answer.body["runs"].as_array().expect("a list of runs").iter();
        runs.map(|run| run["id"].as_str().expect("a run has an id").to_owned()).collect()
    };
    let of = |numbers: &[usize]| -> Vec<String> { numbers.iter().map(|n| runs[*n].clone()).collect() };
    assert_eq!(listed("workflow=echo"), of(&[4, 3, 2, 1, 0]));
    assert_eq!(listed("tag=even%3Dtrue"), of(&[4, 2, 0]));
    assert_eq!(listed("status=waiting"), std::slice::from_ref(&waiting));
    assert_eq!(listed("runKey=w"), [waiting]);
    assert_eq!(listed("untilMs=1"), [] as [String; 0]);
    assert_eq!(listed("sinceMs=1&limit=1000").len(), 6);
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = server.get(&format!("/v1/runs?workflow=echo&limit=2{cursor}")).expect(200).body;
        assert_eq!(page["counts"]["succeeded"], 5);
        paged.extend(
            page["runs"].as_array().expect("a list").iter().map(|run| run["id"].as_str().unwrap_or("").to_owned()),
        );
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(paged, of(&[4, 3, 2, 1, 0]));
    for query in
        ["status=done", "limit=0", "limit=1001", "tag=x", "colour=red", "cursor=x", "status=failed&status=failed"]
    {
        drop(server.get(&format!("/v1/runs?{query}")).problem(400, "invalid_request"));
    }
    drop(server.get("/v1/runs/run_none").problem(404, "not_found"));
}

#[test]
fn a_cancel_that_was_answered_is_carried_out_whatever_happens_to_the_server() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let sleeping = start(&server, "clean", &json!({}));
    let delayed = start(&server, "clean", &json!({ "delayMs": 86_400_000 }));
    drop(until_waiting(&server, &sleeping));
    for run in [&sleeping, &delayed] {
        let answer = server.post(&format!("/v1/runs/{run}/cancel"), &json!({ "reason": "not wanted" })).expect(202);
        assert_eq!(answer.body, json!({ "run": run, "accepted": "cancel" }));
    }
    // At once after the answer.
    server.kill();
    let server = project.serve(&[]);
    for run in [&sleeping, &delayed] {
        let ended = server.ended(run);
        assert_eq!((&ended["status"], &ended["error"]["message"]), (&json!("cancelled"), &json!("not wanted")));
        assert_eq!(ended["error"]["details"]["by"], "local");
        drop(server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).problem(409, "run_finished"));
    }
    let journal = server.get(&format!("/v1/runs/{sleeping}/journal")).expect(200).body.to_string();
    assert!(journal.contains("clean up"), "it has cleaned up: {journal}");
}

#[test]
fn a_repeated_event_is_delivered_once_and_in_order_across_kills() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({ "input": { "times": 4 } }));
    drop(until_waiting(&server, &run));
    let path = format!("/v1/runs/{run}/events/answer");
    for n in 0..4 {
        for _ in 0..3 {
            drop(server.keyed(&format!("e{n}")).post(&path, &json!(n)).expect(202));
        }
        drop(server.keyed(&format!("e{n}")).post(&path, &json!("else")).problem(422, "idempotency_key_reuse"));
        if n < 3 {
            server.kill();
            server = project.serve(&[]);
            drop(server.keyed(&format!("e{n}")).post(&path, &json!(n)).expect(202));
        }
    }
    assert_eq!(server.ended(&run)["result"], json!([0, 1, 2, 3]));
}

#[test]
fn a_stop_loses_nothing_and_ends_waits_at_once() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({}));
    drop(until_waiting(&server, &run));
    let api = (*server).clone();
    let waited = std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            // The first event says that it is being followed; the stream ends with the server.
            let mut lines = api.lines(&format!("/v1/runs/{run}/events"));
            let first = lines.next();
            (first, lines.count())
        });
        let result = scope.spawn(|| api.get(&format!("/v1/runs/{run}/result?wait=60s")));
        // Once it counts as a request under way the server knows of it.
        drop(server.get("/readyz").expect(200));
        drop(server.stop().expect_code(0));
        assert!(waiter.join().is_ok());
        result.join()
    });
    // Whether it was there in time or not: an answer, or a connection that was refused, and never a wait.
    drop(waited);
    let server = project.serve(&[]);
    drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!("here")).expect(202));
    assert_eq!(server.ended(&run)["result"], json!(["here"]));
}

#[test]
fn a_delayed_run_rests_until_its_time_also_across_a_restart() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let far = start(&server, "echo", &json!({ "delayMs": 86_400_000 }));
    let near = start(&server, "echo", &json!({ "delayMs": 1_500, "input": "near" }));
    // An event does not make it begin.
    drop(server.post(&format!("/v1/runs/{far}/events/answer"), &json!(1)).expect(202));
    server.kill();
    let server = project.serve(&[]);
    let ended = server.ended(&near);
    assert_eq!(ended["result"], "near");
    let took = ended["changedAtMs"].as_u64().zip(ended["createdAtMs"].as_u64()).map(|(end, start)| end - start);
    assert!(took.is_some_and(|ms| ms >= 1_500), "{ended:#?}");
    let far = server.get(&format!("/v1/runs/{far}")).expect(200).body;
    assert_eq!((&far["status"], &far["detail"]), (&json!("queued"), &json!("its delay")));
    let rests = far["untilMs"].as_u64().zip(far["createdAtMs"].as_u64()).map(|(until, start)| until - start);
    assert_eq!(rests, Some(86_400_000));
}
