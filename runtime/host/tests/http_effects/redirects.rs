//! Which redirects are followed, and what goes along.

use stepwell_core::contract::Evidence;
use stepwell_core::error::Code;
use stepwell_host::http::{Destinations, Outcome, Teardown};

use crate::server::{Seen, Server, ok};
use crate::{client, request, with_body, with_header};

fn redirect(status: u16, to: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} x\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").into_bytes()
}

async fn get(url: String) -> Outcome {
    client().send(request("GET", url), Teardown::never()).await
}

fn is_at(seen: &Seen, path: &str) -> bool {
    seen.head.split(' ').nth(1) == Some(path)
}

#[tokio::test]
async fn safe_requests_follow() {
    for status in [301, 302, 303, 307, 308] {
        let server =
            Server::answering(move |seen| if is_at(seen, "/a/b") { redirect(status, "../c?d") } else { ok("there") })
                .await;
        let outcome = get(server.url("/a/b")).await;
        assert_eq!(outcome.evidence, Evidence::Answered(200));
        assert_eq!(outcome.answer.unwrap().body, b"there");
        assert!(is_at(&server.requests()[1], "/c?d"));
    }
}

#[tokio::test]
async fn for_other_methods_the_redirect_is_the_answer() {
    for (method, status) in
        [("POST", 302), ("POST", 307), ("PUT", 308), ("DELETE", 303), ("PATCH", 301), ("OPTIONS", 302)]
    {
        let server = Server::answering(move |_| redirect(status, "/elsewhere")).await;
        let outcome = client().send(with_body(request(method, server.url("/")), "x"), Teardown::never()).await;
        assert_eq!((outcome.evidence, outcome.answer.unwrap().status), (Evidence::Answered(status), status));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn what_is_no_redirect_is_an_answer() {
    for answer in [redirect(304, "/x"), redirect(300, "/x"), b"HTTP/1.1 302 x\r\ncontent-length: 0\r\n\r\n".to_vec()] {
        let server = Server::answering(move |_| answer.clone()).await;
        assert!((300..400).contains(&get(server.url("/")).await.answer.unwrap().status));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn ten_are_followed_and_no_more() {
    let server = Server::answering(|seen| {
        let left: u32 = seen.head.split(['/', ' ']).nth(2).unwrap().parse().unwrap();
        if left == 0 { ok("end") } else { redirect(302, &format!("/{}", left - 1)) }
    })
    .await;
    assert_eq!(get(server.url("/10")).await.answer.unwrap().body, b"end");
    let outcome = get(server.url("/11")).await;
    assert_eq!(outcome.evidence, Evidence::Answered(302));
    assert!(outcome.answer.unwrap_err().is(Code::RequestFailed));
    assert_eq!(server.requests().len(), 11 + 11);
}

#[tokio::test]
async fn every_hop_has_to_be_allowed() {
    let elsewhere = Server::answering(|_| ok("")).await;
    let (to, port) = (elsewhere.url("/"), elsewhere.address.port());
    for to in [
        to,
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        "http://169.254.169.254/latest".into(),
    ] {
        let location = to.clone();
        let server = Server::answering(move |_| redirect(302, &location)).await;
        let mut outbound = request("GET", server.url("/"));
        let allowed = [server.address.to_string(), "169.254.169.254".into()];
        outbound.destinations = Destinations::parse(&allowed).unwrap();
        let outcome = client().send(outbound, Teardown::never()).await;
        assert_eq!(outcome.evidence, Evidence::Answered(302), "{to}");
        assert!(outcome.answer.unwrap_err().is(Code::DestinationRefused), "{to}");
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn a_location_that_leads_nowhere_is_an_error() {
    for to in ["ftp://a.example/", "http://user:pw@127.0.0.1/", "http://[", "javascript:alert(1)"] {
        let server = Server::answering(move |_| redirect(302, to)).await;
        let outcome = get(server.url("/")).await;
        assert_eq!(outcome.evidence, Evidence::Answered(302), "{to}");
        assert!(outcome.answer.unwrap_err().is(Code::RequestFailed), "{to}");
    }
}

#[tokio::test]
async fn after_a_redirect_that_fails_the_request_has_been_sent() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = Server::answering(move |_| redirect(302, &format!("http://127.0.0.1:{port}/"))).await;
    let outcome = get(server.url("/")).await;
    assert_eq!(outcome.evidence, Evidence::Sent);
    assert!(outcome.answer.unwrap_err().is(Code::ConnectFailed));
}

#[tokio::test]
async fn credentials_stay_with_the_first_authority() {
    let other = Server::answering(|_| ok("")).await;
    let to = other.url("/other");
    let server =
        Server::answering(move |seen| if is_at(seen, "/") { redirect(302, "/same") } else { redirect(302, &to) }).await;
    let headers = [("authorization", "Basic eDp5"), ("cookie", "a=b"), ("x-plain", "1")];
    let outbound = headers.iter().fold(request("GET", server.url("/")), |o, (name, value)| with_header(o, name, value));
    client().send(outbound, Teardown::never()).await.answer.unwrap();
    let same = &server.requests()[1];
    let other = &other.requests()[0];
    for (name, value) in headers {
        assert_eq!(same.header(name), Some(value));
        assert_eq!(other.header(name), (name == "x-plain").then_some(value), "{name}");
    }
}
