//! Connections that are used again, and those that turn out to be dead.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use stepwell_core::contract::Evidence;
use stepwell_core::error::Code;
use stepwell_host::http::{HttpClient, HttpSettings, Teardown};
use tokio::io::AsyncWriteExt;

use crate::server::{Server, ok};
use crate::{client, request, settings, with_body};

/// Until the connection of the answer just given can be used again.
async fn at_rest(client: &HttpClient) {
    while client.idle_connections() == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_one_after_another_share_a_connection() {
    let server = Server::answering(|_| ok("x")).await;
    let client = client();
    for method in ["GET", "POST", "PUT", "GET"] {
        client.send(request(method, server.url("/")), Teardown::never()).await.answer.unwrap();
        at_rest(&client).await;
    }
    assert_eq!((server.connections(), server.requests().len()), (1, 4));
}

#[tokio::test]
async fn requests_at_the_same_time_do_not() {
    let server = Server::answering(|_| ok("x")).await;
    let client = client();
    let sending: Vec<_> = (0..20)
        .map(|n| {
            let (client, outbound) = (client.clone(), request("POST", server.url(&format!("/{n}"))));
            tokio::spawn(async move { client.send(outbound, Teardown::never()).await.answer.unwrap() })
        })
        .collect();
    for each in sending {
        each.await.unwrap();
    }
    assert_eq!(server.requests().len(), 20);
}

/// As many as a busy server's runs have at once, again and again: none of them is thrown away in between.
#[tokio::test]
async fn all_connections_that_were_in_use_at_once_are_used_again() {
    const AT_ONCE: usize = 100;
    let server = Server::answering(|_| ok("x")).await;
    let client = HttpClient::new(HttpSettings { idle_unsafe_ms: 60_000, ..settings() });
    for _ in 0..3 {
        let send = |n: usize| {
            let (client, outbound) = (client.clone(), request("POST", server.url(&format!("/{n}"))));
            tokio::spawn(async move { client.send(outbound, Teardown::never()).await.answer.unwrap() })
        };
        for each in (0..AT_ONCE).map(send).collect::<Vec<_>>() {
            each.await.unwrap();
        }
        while client.idle_connections() < AT_ONCE {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!((server.connections(), server.requests().len()), (AT_ONCE, 3 * AT_ONCE));
}

#[tokio::test]
async fn an_unsafe_request_gets_a_new_connection_when_the_old_one_has_been_idle() {
    let server = Server::answering(|_| ok("x")).await;
    let client = HttpClient::new(HttpSettings { idle_unsafe_ms: 0, ..settings() });
    for (method, connections) in [("GET", 1), ("GET", 1), ("POST", 2)] {
        client.send(request(method, server.url("/")), Teardown::never()).await.answer.unwrap();
        at_rest(&client).await;
        assert_eq!(server.connections(), connections, "{method}");
    }
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_not_used_again() {
    let server =
        Server::answering(|_| b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_vec()).await;
    let client = client();
    for _ in 0..2 {
        client.send(request("POST", server.url("/")), Teardown::never()).await.answer.unwrap();
    }
    assert_eq!((server.connections(), server.requests().len()), (2, 2));
}

fn answer_one(stream: &mut TcpStream) {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut buffer = [0; 4096];
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "the request broke off");
        bytes.extend_from_slice(&buffer[..n]);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
}

/// The server, in a thread of its own, ends the idle connection while the client's runtime is held up, so that neither hyper nor
/// tokio can have noticed when the next request is sent.
#[tokio::test]
async fn a_dead_connection_is_noticed_before_anything_is_written_to_it() {
    for parting in ["", "HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (end, may_end) = mpsc::channel();
        let (ended, has_ended) = mpsc::channel();
        let server = thread::spawn(move || {
            let (mut first, _) = listener.accept().unwrap();
            answer_one(&mut first);
            may_end.recv().unwrap();
            first.write_all(parting.as_bytes()).unwrap();
            first.shutdown(std::net::Shutdown::Write).unwrap();
            ended.send(()).unwrap();
            let (mut second, _) = listener.accept().unwrap();
            answer_one(&mut second);
            // What of the second request came on the first connection.
            let mut stray = Vec::new();
            let _ = first.read_to_end(&mut stray);
            stray
        });
        let client = client();
        client.send(request("POST", url.clone()), Teardown::never()).await.answer.unwrap();
        at_rest(&client).await;
        end.send(()).unwrap();
        has_ended.recv().unwrap();
        let outcome = client.send(request("POST", url), Teardown::never()).await;
        assert_eq!(outcome.evidence, Evidence::Answered(200), "{:?}", outcome.answer);
        assert_eq!(server.join().unwrap(), b"", "nothing was written to the dead connection");
    }
}

#[tokio::test]
async fn a_connection_that_dies_under_a_request_is_not_replaced() {
    let server = Server::each(|record, mut stream| async move {
        record.read(&mut stream).await;
        stream.write_all(&ok("")).await.unwrap();
        record.read(&mut stream).await;
    })
    .await;
    let client = client();
    client.send(request("GET", server.url("/1")), Teardown::never()).await.answer.unwrap();
    at_rest(&client).await;
    let outcome = client.send(with_body(request("POST", server.url("/2")), "{}"), Teardown::never()).await;
    assert_eq!(outcome.evidence, Evidence::Sent);
    assert!(outcome.answer.unwrap_err().is(Code::RequestFailed));
    assert_eq!((server.connections(), server.requests().len()), (1, 2));
}
