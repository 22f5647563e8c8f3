//! Answers of every form, given to the guest as they came.

use stepwell_core::contract::{Evidence, Response};
use stepwell_core::error::Code;
use stepwell_core::limits;
use stepwell_host::http::{HttpClient, HttpSettings, Teardown};

use crate::server::Server;
use crate::{client, request, settings};

async fn answer(method: &str, bytes: impl Into<Vec<u8>>) -> Response {
    let server = Server::once(bytes).await;
    let outcome = client().send(request(method, server.url("/")), Teardown::never()).await;
    let response = outcome.answer.unwrap();
    assert_eq!(outcome.evidence, Evidence::Answered(response.status));
    assert!(!response.recorded);
    response
}

#[tokio::test]
async fn bodies_of_every_framing_arrive_whole() {
    for (method, bytes, body) in [
        ("POST", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", ""),
        ("POST", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello"),
        (
            "POST",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nt: railer\r\n\r\n",
            "hello",
        ),
        ("POST", "HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end"),
        ("POST", "HTTP/1.0 200 OK\r\n\r\nhello", "hello"),
        ("POST", "HTTP/1.1 204 No Content\r\n\r\n", ""),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", ""),
        (
            "POST",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            "ok",
        ),
    ] {
        assert_eq!(answer(method, bytes).await.body, body.as_bytes(), "{bytes}");
    }
}

#[tokio::test]
async fn eight_mebibytes_arrive() {
    let body = vec![7u8; 8 << 20];
    let mut bytes = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(&body);
    assert!(answer("GET", bytes).await.body == body);
}

#[tokio::test]
async fn every_status_is_an_answer() {
    for status in [201, 304, 400, 408, 409, 425, 429, 500, 502, 503, 504, 599] {
        let response = answer("POST", format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(response.status, status);
    }
}

#[tokio::test]
async fn headers_keep_their_order_and_bytes() {
    let mut bytes =
        b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nX: caf\xc3\xa9\r\nSet-Cookie: b=2\r\nY: caf\xe9\r\n".to_vec();
    bytes.extend_from_slice(b"content-length: 0\r\n\r\n");
    let headers = answer("GET", bytes).await.headers;
    let all = |name: &str| headers.iter().filter(|(n, _)| n == name).map(|(_, v)| v.as_str()).collect::<Vec<_>>();
    assert_eq!(all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!((all("x"), all("y")), (vec!["café"], vec!["café"]));
}

#[tokio::test]
async fn an_answer_that_is_too_large_has_a_known_status_and_no_body() {
    let client = HttpClient::new(HttpSettings { max_response_bytes: 1000, ..settings() });
    for (framing, chunk) in [("content-length: 1001\r\n", ""), ("transfer-encoding: chunked\r\n", "3e9\r\n")] {
        let server = Server::once(format!("HTTP/1.1 201 Created\r\n{framing}\r\n{chunk}{}", "x".repeat(1001))).await;
        let outcome = client.send(request("POST", server.url("/")), Teardown::never()).await;
        assert_eq!(outcome.evidence, Evidence::Answered(201));
        assert!(outcome.answer.unwrap_err().is(Code::ResponseTooLarge));
    }
    let server =
        Server::once(format!("HTTP/1.1 201 Created\r\ncontent-length: 1000\r\n\r\n{}", "x".repeat(1000))).await;
    let outcome = client.send(request("POST", server.url("/")), Teardown::never()).await;
    assert_eq!(outcome.answer.unwrap().body.len(), 1000);
}

#[tokio::test]
async fn the_default_limit_is_reached() {
    let most = limits::MAX_RESPONSE_BYTES;
    for (length, fits) in [(most, true), (most + 1, false)] {
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        bytes.resize(bytes.len() + length, b'x');
        let server = Server::once(bytes).await;
        let outcome = client().send(request("GET", server.url("/")), Teardown::never()).await;
        assert_eq!(outcome.answer.is_ok(), fits);
    }
}
