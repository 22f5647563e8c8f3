//! What is sent, byte for byte where it matters, and what is refused before it is sent.

use stepwell_core::error::{Code, Retryability};
use stepwell_core::limits;
use stepwell_host::http::{Outbound, Teardown};

use crate::server::{Seen, Server, ok};
use crate::{client, request, with_body, with_header};

async fn seen(outbound: impl FnOnce(&Server) -> Outbound) -> Seen {
    let server = Server::answering(|_| ok("")).await;
    client().send(outbound(&server), Teardown::never()).await.answer.unwrap();
    server.requests().remove(0)
}

#[tokio::test]
async fn a_request_arrives_as_it_was_given() {
    let body: Vec<u8> = (0..=255).collect();
    let mut host = String::new();
    let seen = seen(|server| {
        host = server.address.to_string();
        let mut outbound = with_body(request("POST", server.url("/a%20b/ü?q=1&r#fragment")), body.clone());
        outbound = with_header(with_header(outbound, "X-Two", "1"), "x-two", "2");
        outbound.key_header = Some("run_1:charge:e1".into());
        outbound
    })
    .await;
    assert!(seen.head.starts_with("POST /a%20b/%C3%BC?q=1&r HTTP/1.1\r\n"), "{}", seen.head);
    assert_eq!(seen.header("host"), Some(host.as_str()));
    assert_eq!(seen.header("idempotency-key"), Some("run_1:charge:e1"));
    assert_eq!(seen.header("user-agent"), Some(concat!("stepwell/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(seen.header("accept-encoding"), Some("identity"));
    assert_eq!(seen.header("content-length"), Some("256"));
    assert_eq!(seen.head.matches("x-two: ").count(), 2);
    assert_eq!(seen.body, body);
}

#[tokio::test]
async fn an_empty_body_is_announced_where_one_is_expected() {
    for (method, length) in
        [("POST", Some("0")), ("PUT", Some("0")), ("PATCH", Some("0")), ("GET", None), ("HEAD", None), ("DELETE", None)]
    {
        assert_eq!(seen(|server| request(method, server.url("/"))).await.header("content-length"), length, "{method}");
    }
}

#[tokio::test]
async fn headers_of_ours_may_be_given_where_that_does_no_harm() {
    let seen = seen(|server| {
        let outbound = with_header(request("POST", server.url("/")), "User-Agent", "mine/1");
        with_header(with_header(outbound, "Accept", "text/csv"), "Idempotency-Key", "my own")
    })
    .await;
    assert_eq!((seen.header("user-agent"), seen.header("accept")), (Some("mine/1"), Some("text/csv")));
    assert_eq!(seen.header("idempotency-key"), Some("my own"));
}

#[test]
fn what_is_no_request_is_refused_before_it_is_sent() {
    let client = client();
    let refused = |outbound: Outbound, word: &str| {
        let error = client.check(&outbound).unwrap_err();
        assert!(error.is(Code::InvalidRequest) && error.retryability == Retryability::Never, "{error}");
        assert!(error.message.contains(word), "{error} does not say `{word}`");
    };
    let url = "http://127.0.0.1/";
    for method in ["", "PO ST", "POST\r\n", "CONNECT", "TRACE", "é"] {
        refused(request(method, url), "");
    }
    for (url, word) in [
        ("/charges", "absolute"),
        ("", "absolute"),
        ("127.0.0.1:80", "absolute"),
        ("ftp://127.0.0.1/", "ftp"),
        ("file:///etc/passwd", "file"),
        ("data:text/plain,x", "data"),
        ("http://", "absolute"),
        ("http://user:pass@127.0.0.1/", "password"),
        ("http://127.0.0.1:0/", "port"),
        ("http://127.0.0.1:99999/", "absolute"),
    ] {
        refused(request("GET", url), word);
    }
    let long = format!("{url}{}", "x".repeat(limits::MAX_URL_BYTES - url.len()));
    client.check(&request("GET", long.clone())).unwrap();
    refused(request("GET", long + "x"), "longer");
    for (name, value, word) in [
        ("Host", "evil.example", "host"),
        ("Content-Length", "5", "content-length"),
        ("Transfer-Encoding", "chunked", "transfer-encoding"),
        ("Connection", "close", "connection"),
        ("Upgrade", "websocket", "upgrade"),
        ("Expect", "100-continue", "expect"),
        ("Accept-Encoding", "gzip", "uncompressed"),
        ("", "x", "name"),
        ("a b", "x", "name"),
        ("x:", "x", "name"),
        ("x", "a\r\nEvil: 1", "header x"),
        ("x", "a\0", "header x"),
    ] {
        refused(with_header(request("GET", url), name, value), word);
    }
    let mut keyed = with_header(request("POST", url), "idempotency-key", "mine");
    client.check(&keyed).unwrap();
    keyed.key_header = Some("ours".into());
    refused(keyed, "idempotency-key");
    for key in ["", "a\nb", "é", &"x".repeat(256)] {
        refused(Outbound { key_header: Some(key.to_owned()), ..request("POST", url) }, "key");
    }
    refused(
        (0..101).fold(request("GET", url), |outbound, n| with_header(outbound, &format!("x-{n}"), "1")),
        "101 headers",
    );
    refused(with_header(request("GET", url), "x", &"y".repeat(64 << 10)), "bytes");
    client.check(&with_body(request("POST", url), vec![0; limits::MAX_REQUEST_BYTES])).unwrap();
    refused(with_body(request("POST", url), vec![0; limits::MAX_REQUEST_BYTES + 1]), "body");
}

#[tokio::test]
async fn a_request_that_was_not_checked_is_refused_all_the_same() {
    let server = Server::answering(|_| ok("")).await;
    let outcome = client().send(with_header(request("GET", server.url("/")), "host", "x"), Teardown::never()).await;
    assert_eq!(outcome.evidence, stepwell_core::contract::Evidence::NotSent);
    assert!(outcome.answer.unwrap_err().is(Code::InvalidRequest));
    assert_eq!(server.connections(), 0);
}
