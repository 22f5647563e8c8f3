//! Bodies of requests over HTTP: what is wrong with one is said, with the member that it is in, and nothing of it is kept. What is
//! just within its bounds is taken.

use serde_json::{Value, json};
use stepwell_tests::Project;

use crate::api_keys::MODULE;
use crate::api_requests::{nothing_is_kept, says};

#[test]
fn a_body_that_is_wrong_is_refused_with_the_place_and_nothing_of_it_is_kept() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let keyed = server.keyed("k");
    let wrong = include_str!("api_bodies/wrong.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut looked_at = 0;
    for line in wrong {
        let [target, body, what] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let body = if body == "nothing" { "" } else { body };
        let host = format!("host: {}", server.address());
        let length = format!("content-length: {}", body.len());
        let head = [&host[..], "idempotency-key: k", "content-type: application/json", "connection: close", &length];
        let request = format!("{target} HTTP/1.1\r\n{}\r\n\r\n{body}", head.join("\r\n"));
        let answer = server.raw(request.as_bytes()).expect("there is an answer");
        assert_eq!(answer.status, 400, "{line}: {answer:#?}");
        says(&answer.problem(400, "invalid_request"), what);
        looked_at += 1;
    }
    assert!(looked_at > 80, "{looked_at}");
    for bytes in [&b"{\"input\":\"\xff\"}"[..], b"\xff\xfe{\0}\0", b"{\"input\":\"\xed\xa0\x80\"}"] {
        let answer = keyed.post_as("/v1/workflows/echo/runs", "application/json", bytes);
        says(&answer.problem(400, "invalid_request"), "utf-8");
    }
    let marked = keyed.post_as("/v1/workflows/echo/runs", "application/json", "\u{feff}{}".as_bytes());
    says(&marked.problem(400, "invalid_request"), "line 1 column 1");
    let run = ["/v1/workflows/echo/runs", "/v1/runs:batch", "/v1/runs/x/cancel", "/v1/runs/x/events/e", "/v1/tokens"];
    for path in run {
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "json", ""] {
            drop(keyed.post_as(path, kind, b"{}").problem(415, "unsupported_media_type"));
        }
        let gzip = keyed.with("content-encoding", "gzip").post(path, &json!({}));
        says(&gzip.problem(415, "unsupported_media_type"), "gzip");
        let second = keyed.with("content-encoding", "identity").with("content-encoding", "br").post(path, &json!({}));
        drop(second.problem(415, "unsupported_media_type"));
    }
    nothing_is_kept(&server);
    // The key of all of these is unused.
    let kind = "application/json; charset=utf-8";
    let plain = keyed.with("content-encoding", "identity").post_as("/v1/workflows/echo/runs", kind, b"{}");
    assert_eq!(plain.expect(201).header("idempotent-replayed"), None);
}

#[test]
fn numbers_and_texts_at_the_ends_of_what_is_taken() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let echoed = |text: &str| {
        let body = format!("{{\"input\":{text}}}");
        let run = server.post_as("/v1/workflows/other/runs", "application/json", body.as_bytes()).expect(201).run();
        server.ended(&run)["result"].clone()
    };
    // As JavaScript reads them; the journal has them as they were written.
    assert_eq!(echoed("9007199254740993"), json!(9_007_199_254_740_992_u64));
    assert_eq!(echoed("-0"), json!(0));
    assert_eq!(echoed("\"\\u0000\\ud83d\\udd11\""), json!("\u{0}\u{1f511}"));
    assert_eq!(echoed("\"\\ud800\""), json!("\u{fffd}"));
    assert_eq!(echoed("{\"a\":1,\"a\":2}"), json!({ "a": 2 }));
    let most = json!({ "principal": "ana", "scopes": ["admin"] });
    for (delay, taken) in [(315_576_000_000_u64, true), (315_576_000_001, false), (u64::MAX, false)] {
        let answer = server.post("/v1/workflows/other/runs", &json!({ "delayMs": delay }));
        assert_eq!(answer.status == 201, taken, "{answer:#?}");
        let answer = server.post("/v1/workflows/waiting/runs", &json!({ "runTimeoutMs": delay }));
        assert_eq!(answer.status == 201, taken, "{answer:#?}");
    }
    for (priority, taken) in [(-100, true), (100, true), (-101, false), (101, false)] {
        let answer = server.post("/v1/workflows/other/runs", &json!({ "priority": priority }));
        assert_eq!(answer.status == 201, taken, "{answer:#?}");
    }
    for query in [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=1e2",
        "limit=+1",
        "limit=",
        "limit=1&limit=1",
        "cursor=x",
        "cursor=-1",
        "sinceMs=9223372036854775808",
        "open=yes",
        "status=none",
        "tag=a",
        "tag=",
        "workflow=a&workflow=b",
    ] {
        let name = query.split('=').next().unwrap_or_default();
        says(&server.get(&format!("/v1/runs?{query}")).problem(400, "invalid_request"), name);
    }
    drop(server.get("/v1/runs?limit=1000&tag=a=b&tag=c=d&sinceMs=9223372036854775807").expect(200));
    drop(server.post("/v1/tokens", &most).expect(201));
}

#[test]
fn a_run_has_32_tags_at_most_however_it_is_made() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let tags = |n: usize| json!((0..n).map(|n| (format!("t{n}"), json!("v"))).collect::<serde_json::Map<_, _>>());
    let start = |tags: &Value| server.post("/v1/workflows/echo/runs", &json!({ "tags": tags }));
    let batch = |tags: &Value| {
        let runs = json!([{ "workflow": "echo", "tags": tags }]);
        let answer = server.post("/v1/runs:batch", &json!({ "runs": runs })).expect(200);
        answer.body["outcomes"][0]["status"].as_u64()
    };
    let ended = start(&tags(0)).expect(201).run();
    assert_eq!(server.ended(&ended)["status"], "succeeded");
    let rerun = |tags: &Value| {
        server.post(&format!("/v1/runs/{ended}/rerun"), &json!({ "fromStep": "echo", "confirm": true, "tags": tags }))
    };
    let put =
        |tags: &Value| server.put("/v1/schedules/s", &json!({ "workflow": "echo", "cron": "0 0 1 1 *", "tags": tags }));
    let count = || server.get("/v1/runs").expect(200).body["runs"].as_array().map(Vec::len);
    for refused in [tags(33), tags(10_000), json!({ "n": "v".repeat(201) }), json!({ "n".repeat(201): "v" })] {
        for answer in [start(&refused), rerun(&refused), put(&refused)] {
            says(&answer.problem(400, "invalid_request"), "at most 32");
        }
        assert_eq!(batch(&refused), Some(400));
    }
    assert_eq!(count(), Some(1), "what was refused has started nothing");
    drop(server.get("/v1/schedules/s").problem(404, "not_found"));
    let (most, longest) = (tags(32), json!({ "é".repeat(100): "v".repeat(200) }));
    for taken in [&most, &longest] {
        for answer in [start(taken), rerun(taken)] {
            let run = answer.expect(201).run();
            assert_eq!(server.get(&format!("/v1/runs/{run}")).expect(200).body["tags"], *taken);
        }
        assert_eq!(batch(taken), Some(201));
        assert_eq!(put(taken).status / 100, 2);
    }
    // The list that names all of them finds those that have all of them.
    let query: Vec<String> = (0..32).map(|n| format!("tag=t{n}%3Dv")).collect();
    let found = server.get(&format!("/v1/runs?{}", query.join("&"))).expect(200);
    assert_eq!(found.body["runs"].as_array().map(Vec::len), Some(3), "{found:#?}");
}

#[test]
fn a_body_that_is_too_large_is_refused_and_its_key_is_unused() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let keyed = server.keyed("k");
    let batch = |bytes: usize| {
        // White space around it is part of a body.
        let mut body = br#"{"runs":[{"workflow":"echo"}]}"#.to_vec();
        body.resize(bytes, b' ');
        keyed.post_as("/v1/runs:batch", "application/json", &body)
    };
    says(&batch((16 << 20) + 1).problem(413, "body_too_large"), "16777216");
    // Also one that does not say how long it is.
    let head = format!("POST /v1/runs:batch HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", server.address());
    let head = format!("{head}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n");
    let chunk = [b"1000000\r\n".to_vec(), vec![b' '; 16 << 20], b"\r\n1\r\n{\r\n0\r\n\r\n".to_vec()].concat();
    let answer = server.raw(&[head.into_bytes(), chunk].concat()).expect("there is an answer");
    drop(answer.problem(413, "body_too_large"));
    nothing_is_kept(&server);
    assert_eq!(batch(16 << 20).expect(200).header("idempotent-replayed"), None);
    let wasm = [b"\0asm\x0d\0\x01\0".to_vec(), vec![0; 64 << 20]].concat();
    says(&keyed.post_as("/v1/modules", "application/wasm", &wasm).problem(413, "body_too_large"), "67108864");
}
