//! Answers in gzip, for who takes it; what is followed comes as it happens.

use std::io::Read as _;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use stepwell_tests::Project;

use crate::api_keys::MODULE;
use crate::api_runs::{events, start};

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
}

#[test]
fn a_large_answer_is_compressed_for_who_takes_it_and_a_small_one_for_nobody() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "echo", &json!({ "input": "x".repeat(100_000) }));
    let plain = server.ended(&run);
    let path = format!("/v1/runs/{run}");
    let taking = server.with("accept-encoding", "gzip");
    let (headers, bytes) = taking.get_bytes(&path);
    assert_eq!(header(&headers, "content-encoding"), Some("gzip"), "{headers:#?}");
    assert!(header(&headers, "vary").is_some_and(|vary| vary.eq_ignore_ascii_case("accept-encoding")), "{headers:#?}");
    assert!(bytes.len() < 10_000, "{} bytes", bytes.len());
    let mut text = String::new();
    GzDecoder::new(&*bytes).read_to_string(&mut text).expect("it is gzip");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("it is JSON"), plain);
    for api in [server.with("accept-encoding", "identity"), server.with("x-unused", "1")] {
        let (headers, bytes) = api.get_bytes(&path);
        assert_eq!(header(&headers, "content-encoding"), None, "{headers:#?}");
        assert_eq!(serde_json::from_slice::<Value>(&bytes).expect("it is JSON"), plain);
    }
    let (headers, _) = taking.get_bytes("/v1/workflows");
    assert_eq!(header(&headers, "content-encoding"), None, "a small answer: {headers:#?}");
}

#[test]
fn what_is_followed_is_never_compressed() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    // Longer than what is compressed elsewhere.
    let run = start(&server, "waiting", &json!({ "input": { "times": 1, "filler": "x".repeat(10_000) } }));
    let path = format!("/v1/runs/{run}/events");
    let mut followed = events(server.with("accept-encoding", "gzip").lines(&path));
    let waiting = followed.find(|(name, _, data)| name == "run" && data["status"] == "waiting");
    assert!(waiting.is_some(), "the events come while the run goes on, and can be read");
    drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!(1)).expect(202));
    let (headers, bytes) = server.with("accept-encoding", "gzip").get_bytes(&path);
    assert_eq!(header(&headers, "content-encoding"), None, "{headers:#?}");
    assert!(String::from_utf8_lossy(&bytes).contains("event: end"), "it comes as it is, to its end");
}
