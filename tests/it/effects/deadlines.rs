//! Servers that are slow, silent or odd, and a step's time-out.

use serde_json::json;
use stepwell_tests::{Project, Reply, Server};

use super::{MODULE, run};
use crate::journals::failures;

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n";

#[test]
fn a_late_result_changes_nothing_and_its_request_was_torn_down_before_the_next_attempt() {
    for method in ["GET", "POST"] {
        let project = Project::new();
        let server = Server::start(|request| match request.number {
            1 => Reply::Hang,
            _ => Reply::Answer(200, "in time".to_owned()),
        });
        let options = json!({ "timeoutMs": 200, "retry": { "initialMs": 10 } });
        let input = json!({ "url": server.url(), "method": method, "options": options });
        let end = project.run(&MODULE, "late", &input).wait().expect_code(0);
        assert_eq!(*end.result(), "in time", "{method}");
        let requests = server.requests();
        let hanging: Vec<_> = requests.iter().map(|request| request.hanging).collect();
        assert_eq!(hanging, [0, 0], "{method}: the first was still open when the second came");
        let journal = project.journal(&project.only_run());
        assert_eq!(failures(&journal), ["workflows.step_timeout"], "{method}: {journal:#?}");
        assert_eq!(end.entries("attempt_ended").count(), 2, "{method}: {end:#?}");
    }
}

#[test]
fn the_time_out_holds_against_a_server_that_never_ends() {
    for reply in [Reply::Hang, Reply::Trickle(Vec::new(), HEAD.into()), Reply::Trickle(HEAD.into(), vec![b'x'; 1000])] {
        let project = Project::new();
        let seen = format!("{reply:?}");
        let server = Server::start(move |_| reply.clone());
        let options = json!({ "timeoutMs": 300, "retry": { "maxAttempts": 2, "initialMs": 10 } });
        let end = run(&project, "get", &server, options).expect_code(1);
        assert_eq!(end.error()["code"], "workflows.step_timeout", "{seen}: {end:#?}");
        assert_eq!(server.requests().len(), 2, "{seen}");
    }
}

#[test]
fn a_request_names_its_host_and_any_well_formed_answer_is_one() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n3\r\nefg\r\n0\r\n\r\n";
    let to_the_end = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nuntil the end";
    for (raw, status, text) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", 200, ""),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, ""),
        (chunked, 200, "abcdefg"),
        (to_the_end, 200, "until the end"),
    ] {
        let project = Project::new();
        let server = Server::start(move |_| Reply::Raw(raw.into()));
        let end = run(&project, "get", &server, json!({})).expect_code(0);
        assert_eq!(*end.result(), json!({ "status": status, "text": text }), "{raw:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), 1, "{raw:?}");
        let host = server.url().replace("http://", "");
        assert_eq!((requests[0].header("host"), &requests[0].path[..]), (Some(&host[..]), "/thing?q=1"), "{raw:?}");
    }
}

/// An answer with a body of so many bytes, as a whole or in chunks of 64 KiB.
fn large(bytes: usize, in_chunks: bool) -> Vec<u8> {
    let body = [vec![b'x'; bytes - 3], b"end".to_vec()].concat();
    if !in_chunks {
        return [format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n").into_bytes(), body].concat();
    }
    let mut raw = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for chunk in body.chunks(64 << 10) {
        raw.extend(format!("{:x}\r\n", chunk.len()).bytes());
        raw.extend(chunk);
        raw.extend(b"\r\n");
    }
    raw.extend(b"0\r\n\r\n");
    raw
}

#[test]
fn an_answer_of_many_megabytes_arrives_whole_and_one_beyond_16_is_a_typed_error() {
    for in_chunks in [false, true] {
        for bytes in [8 << 20, (16 << 20) + 1] {
            let project = Project::new();
            let server = Server::start(move |_| Reply::Raw(large(bytes, in_chunks)));
            let end = run(&project, "measures", &server, json!({ "retry": { "maxAttempts": 1 } }));
            if bytes == 8 << 20 {
                assert_eq!(*end.expect_code(0).result(), json!([bytes, "end"]), "{in_chunks}");
            } else {
                assert_eq!(end.expect_code(1).error()["code"], "workflows.response_too_large", "{in_chunks}");
            }
        }
    }
}

#[test]
fn an_answer_that_is_cut_short_or_none_is_a_typed_error() {
    for raw in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nab",
        "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        "HTTP/1.1 200 OK\r\nx: a\0b\r\ncontent-length: 0\r\n\r\n",
        "SSH-2.0-OpenSSH_9\r\n",
        "",
    ] {
        let project = Project::new();
        let server = Server::start(move |_| Reply::Raw(raw.into()));
        let end = run(&project, "get", &server, json!({ "retry": { "maxAttempts": 1 } })).expect_code(1);
        let code = end.error()["code"].as_str().unwrap_or_default();
        assert!(code.starts_with("workflows.") && code != "workflows.step_failed", "{raw:?}: {end:#?}");
    }
}
