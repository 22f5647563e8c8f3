//! Requests over HTTP that are not what they should be, whatever their body: each is refused with what is wrong, and nothing of it is kept.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use stepwell_tests::{Answer, Api, Project};

use crate::api_keys::MODULE;

/// A request line and headers as they are given, and no other.
fn sent(api: &Api, line: &str, headers: &[&str]) -> Answer {
    let mut request = format!("{line}\r\nconnection: close\r\n");
    headers.iter().for_each(|header| request += &format!("{header}\r\n"));
    api.raw(format!("{request}\r\n").as_bytes()).expect("there is an answer")
}

pub(crate) fn says(answer: &Answer, what: &str) {
    let detail = answer.body["detail"].as_str().unwrap_or_default();
    assert!(detail.contains(what), "{what:?} is not in {answer:#?}");
}

/// Nothing has been made by what was refused.
pub(crate) fn nothing_is_kept(api: &Api) {
    for (path, list) in
        [("/v1/runs", "runs"), ("/v1/schedules", "schedules"), ("/v1/tokens", "tokens"), ("/v1/steps", "steps")]
    {
        assert_eq!(api.get(path).expect(200).body[list], json!([]), "{path}");
    }
    let limits = api.get("/v1/workflows/echo/limits").expect(200).body;
    assert_eq!((&limits["concurrency"], &limits["rate"], &limits["changes"]), (&Value::Null, &Value::Null, &json!([])));
    let active = api.get("/v1/workflows").expect(200).body["workflows"].clone();
    assert_eq!(active.as_array().map(Vec::len), Some(5), "{active}");
}

/// The operations that the server says it has, with the path's parameters filled in.
fn operations(api: &Api) -> Vec<(String, String, Value)> {
    let description = api.get("/v1/openapi.json").expect(200).body;
    let paths = description["paths"].as_object().expect("it has paths").clone();
    let all = paths.into_iter().flat_map(|(path, item)| {
        let operations = item.as_object().expect("a path has operations").clone();
        operations.into_iter().map(move |(method, operation)| (path.clone(), method.to_uppercase(), operation))
    });
    all.collect()
}

/// A path with a name in the place of each parameter.
fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn a_request_is_to_one_host() {
    let project = Project::new();
    let server = project.serve(&[]);
    let host = format!("host: {}", server.address());
    for path in ["/healthz", "/v1/runs", "/nowhere"] {
        let get = format!("GET {path} HTTP/1.1");
        says(&sent(&server, &get, &[]).problem(400, "invalid_request"), "Host");
        says(&sent(&server, &get, &[&host, &host]).problem(400, "invalid_request"), "Host");
        for none in ["host: a b", "host: user@localhost", "host: localhost/x", "host: \u{e9}"] {
            says(&sent(&server, &get, &[none]).problem(400, "invalid_request"), "Host");
        }
        // Older clients need not name one.
        let older = sent(&server, &format!("GET {path} HTTP/1.0"), &[]);
        assert_eq!(older.status, sent(&server, &get, &[&host]).status);
        drop(sent(&server, &format!("GET {path} HTTP/1.0"), &[&host, &host]).problem(400, "invalid_request"));
    }
}

#[test]
fn a_header_that_says_one_thing_is_given_once() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let host = format!("host: {}", server.address());
    let start = "POST /v1/workflows/echo/runs HTTP/1.1";
    for (line, name, value) in [
        ("GET /v1/runs HTTP/1.1", "authorization", "Bearer stepwell_a_b"),
        ("GET /v1/runs HTTP/1.1", "origin", &format!("http://{}", server.address())),
        ("GET /v1/runs/x/events HTTP/1.1", "last-event-id", "1"),
        (start, "content-type", "application/json"),
    ] {
        let header = format!("{name}: {value}");
        let answer = sent(&server, line, &[&host, &header, &header, "content-length: 0"]);
        says(&answer.problem(400, "invalid_request"), name);
    }
    let key = "idempotency-key: k";
    drop(sent(&server, start, &[&host, key, key, "content-length: 0"]).problem(400, "invalid_idempotency_key"));
    // A page of another site stays one however its name is written.
    let origin = [&host[..], "origin: http://\u{e9}.example"];
    drop(sent(&server, "GET /v1/runs HTTP/1.1", &origin).problem(403, "cross_origin"));
    // How long a body is is said once; what says it twice is not even read.
    for headers in [
        ["content-length: 2", "content-length: 3"],
        ["content-length: 2", "transfer-encoding: chunked, identity"],
        ["content-length: -1", "x: y"],
        ["content-length: 2x", "x: y"],
    ] {
        let answer = sent(&server, start, &[&host, "content-type: application/json", headers[0], headers[1], "", "{}"]);
        assert_eq!(answer.status, 400, "{headers:?}: {answer:#?}");
    }
    nothing_is_kept(&server);
}

#[test]
fn a_path_and_a_query_can_be_decoded() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    for (path, what) in [
        ("/v1/runs/%FF", "path"),
        ("/v1/runs/%C3", "path"),
        ("/v1/runs/%ED%A0%80", "path"),
        ("/v1/runs/%", "path"),
        ("/v1/runs/%2", "path"),
        ("/v1/runs/%zz", "path"),
        ("/v1/runs?workflow=%FF", "query"),
        ("/v1/runs?workflow=100%", "query"),
        ("/v1/runs?%C0%AF=x", "query"),
        ("/nowhere/%FF", "path"),
    ] {
        says(&server.get(path).problem(400, "invalid_request"), what);
    }
    for path in ["/v1/runs/%00", "/v1/runs/a%2Fb", "/v1/runs/%2E%2E", "/v1/runs/%0A", "/v1/runs/%F0%9F%94%91"] {
        drop(server.get(path).problem(404, "not_found"));
    }
    // What is no path of the API is none, whatever it looks like.
    for path in ["/v1/runs/", "/v1/runs/../tokens", "/v1//runs", "//v1/runs", "/v1/RUNS", "/v1", "/"] {
        says(&server.get(path).problem(404, "not_found"), "openapi.json");
    }
    let long = "x".repeat(60_000);
    drop(server.get(&format!("/v1/runs/{long}")).problem(404, "not_found"));
    let longer = server.get(&format!("/v1/runs/{long}{long}")).status;
    assert!([414, 431].contains(&longer), "{longer}");
}

#[test]
fn a_parameter_that_there_is_not_is_refused_by_every_operation() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let mut looked_at = 0;
    for (path, method, operation) in operations(&server) {
        if !path.starts_with("/v1") {
            continue;
        }
        let all = operation["parameters"].as_array().cloned().unwrap_or_default();
        let known: Vec<&str> =
            all.iter().filter(|one| one["in"] == "query").filter_map(|one| one["name"].as_str()).collect();
        for name in ["nonsense", "Limit", "limit ", ""] {
            let query = format!("{}?{}=1", filled(&path), name.replace(' ', "%20"));
            let answer = server.send(&method, &query, &json!({})).problem(400, "invalid_request");
            says(&answer, &format!("{name:?}"));
            known.iter().for_each(|known| says(&answer, known));
            looked_at += 1;
        }
        // Those that there are are taken, once each but for what may be repeated.
        for name in known {
            let twice = server.send(&method, &format!("{}?{name}=1&{name}=1", filled(&path)), &json!({}));
            let repeated =
                all.iter().any(|one| one["name"] == name && one["schema"]["type"].to_string().contains("array"));
            assert_ne!(twice.status, 200, "{method} {path}: {twice:#?}");
            if !repeated && twice.status == 400 {
                let detail = twice.body["detail"].as_str().unwrap_or_default();
                assert!(!detail.contains("there is no parameter"), "{method} {path} {name}: {detail}");
            }
        }
    }
    assert!(looked_at > 100, "{looked_at}");
    nothing_is_kept(&server);
}

#[test]
fn a_method_that_a_path_has_not_is_answered_with_those_that_it_has() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let operations = operations(&server);
    let paths: BTreeSet<&str> = operations.iter().map(|(path, _, _)| path.as_str()).collect();
    for path in paths {
        let mut has: BTreeSet<&str> =
            operations.iter().filter(|(of, _, _)| of == path).map(|(_, method, _)| method.as_str()).collect();
        if has.contains("GET") {
            has.insert("HEAD");
        }
        for method in ["OPTIONS", "PATCH", "TRACE", "MADEUP", "get", "GET", "POST", "PUT", "DELETE"] {
            if has.contains(method) {
                continue;
            }
            let answer = sent(
                &server,
                &format!("{method} {} HTTP/1.1", filled(path)),
                &[&format!("host: {}", server.address()), "content-length: 0"],
            );
            assert_eq!(answer.status, 405, "{method} {path}: {answer:#?}");
            let allowed: BTreeSet<&str> =
                answer.header("allow").unwrap_or_default().split(',').map(str::trim).collect();
            assert_eq!(allowed, has, "{method} {path}");
            says(&answer.problem(405, "method_not_allowed"), method);
        }
        if has.contains("HEAD") && !path.ends_with("/events") {
            let host = format!("host: {}", server.address());
            let get = sent(&server, &format!("GET {} HTTP/1.1", filled(path)), &[&host]);
            let mut stream = std::net::TcpStream::connect(server.address()).expect("the server takes connections");
            let head = format!("HEAD {} HTTP/1.1\r\n{host}\r\nconnection: close\r\n\r\n", filled(path));
            let mut answer = String::new();
            std::io::Write::write_all(&mut stream, head.as_bytes()).expect("the request is taken");
            std::io::Read::read_to_string(&mut stream, &mut answer).expect("there is an answer");
            assert!(answer.starts_with(&format!("HTTP/1.1 {}", get.status)), "{path}: {answer}");
            assert!(answer.ends_with("\r\n\r\n"), "{path}: {answer}");
        }
    }
    nothing_is_kept(&server);
}

#[test]
fn what_is_no_request_for_a_path_is_answered_and_the_server_goes_on() {
    let project = Project::new();
    let server = project.serve(&[]);
    let host = format!("host: {}", server.address());
    for (line, statuses) in [
        ("OPTIONS * HTTP/1.1", &[400, 404, 405][..]),
        ("CONNECT localhost:1 HTTP/1.1", &[400, 404, 405]),
        ("GET http://localhost/v1/runs HTTP/1.1", &[200]),
        ("GET localhost HTTP/1.1", &[400, 404]),
        ("GET /v1/runs HTTP/3.7", &[400, 505]),
        ("GET  /v1/runs HTTP/1.1", &[400]),
        ("GET /v1/runs\u{e9} HTTP/1.1", &[400, 404]),
        ("GET /v1/ru\0ns HTTP/1.1", &[400]),
        ("GET /v1/runs", &[400]),
    ] {
        let answer = sent(&server, line, &[&host]);
        assert!(statuses.contains(&answer.status), "{line:?}: {answer:#?}");
        drop(server.get("/healthz").expect(200));
    }
}
