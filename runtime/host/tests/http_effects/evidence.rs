//! How far a request got, for each way in which it can end badly.

use std::sync::Arc;

use stepwell_core::contract::Evidence;
use stepwell_core::error::{Code, Error};
use stepwell_host::http::{Outbound, Outcome, Teardown};
use tokio::io::AsyncWriteExt;
use tokio::sync::{Notify, mpsc};

use crate::server::{Ended, Server, ok, read_to_end};
use crate::{client, request, with_body, with_timeout};

async fn post(server: &Server) -> Outcome {
    client().send(with_body(request("POST", server.url("/charge")), "{}"), Teardown::never()).await
}

fn error(outcome: Outcome, evidence: Evidence, code: Code) -> Error {
    assert_eq!(outcome.evidence, evidence, "{:?}", outcome.answer);
    let error = outcome.answer.unwrap_err();
    assert!(error.is(code), "{error}");
    error
}

#[tokio::test]
async fn a_refused_connection_sent_nothing() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let outcome = client().send(request("POST", format!("http://127.0.0.1:{port}/")), Teardown::never()).await;
    let error = error(outcome, Evidence::NotSent, Code::ConnectFailed);
    assert!(error.message.contains(&format!("127.0.0.1:{port}")) && error.message.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_name_without_address_sent_nothing() {
    let outcome = client().send(request("POST", "http://nowhere.invalid/"), Teardown::never()).await;
    error(outcome, Evidence::NotSent, Code::ConnectFailed);
}

#[tokio::test]
async fn a_server_that_hangs_up_on_the_request_leaves_it_sent() {
    let server = Server::once("").await;
    error(post(&server).await, Evidence::Sent, Code::RequestFailed);
    assert_eq!(server.requests().len(), 1, "it is not repeated");
}

#[tokio::test]
async fn an_answer_that_is_none_leaves_it_sent() {
    let many: String = (0..500).map(|n| format!("x-{n}: 1\r\n")).collect();
    let long = format!("x: {}\r\n", "y".repeat(1 << 20));
    for answer in [
        "HTTP/1.1 20".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-le".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnone\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n12".to_owned(),
        "HTTP/1.1 200 OK\r\nbad header: 1\r\n\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n".to_owned(),
        "HTTP/1.1 2000 OK\r\n\r\n".to_owned(),
        "SSH-2.0-OpenSSH_9.6\r\n".to_owned(),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_owned(),
        format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
        format!("HTTP/1.1 200 OK\r\n{long}\r\n"),
    ] {
        let server = Server::once(answer.clone()).await;
        let outcome = post(&server).await;
        assert_eq!(outcome.evidence, Evidence::Sent, "{:.60}", answer);
        assert!(outcome.answer.unwrap_err().is(Code::RequestFailed), "{answer:.60}");
        assert_eq!(server.requests().len(), 1, "{answer:.60}");
    }
}

#[tokio::test]
async fn silence_ends_with_the_time_out_and_closes_the_socket() {
    let (closed, mut was_closed) = mpsc::unbounded_channel();
    let server = Server::each(move |record, mut stream| {
        let closed = closed.clone();
        async move {
            record.read(&mut stream).await;
            closed.send(read_to_end(&mut stream).await).unwrap();
        }
    })
    .await;
    let outcome = client().send(with_timeout(request("POST", server.url("/")), 400), Teardown::never()).await;
    error(outcome, Evidence::Sent, Code::RequestTimeout);
    assert_eq!(was_closed.recv().await.unwrap(), Ended { bytes: 0, reset: true });
}

#[tokio::test]
async fn a_trickle_does_not_hold_off_the_time_out() {
    let server = Server::each(|record, mut stream| async move {
        record.read(&mut stream).await;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
        while stream.write_all(b".").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    let outcome = client().send(with_timeout(request("POST", server.url("/")), 400), Teardown::never()).await;
    error(outcome, Evidence::Sent, Code::RequestTimeout);
}

#[tokio::test]
async fn a_time_out_before_the_request_left_sent_nothing() {
    // It accepts, and never begins TLS.
    let server = Server::each(|_, mut stream| async move { _ = read_to_end(&mut stream).await }).await;
    let url = format!("https://{}/", server.address);
    let outcome = client().send(with_timeout(request("POST", url), 50), Teardown::never()).await;
    error(outcome, Evidence::NotSent, Code::RequestTimeout);
}

/// A server that begins to read only when it is told, and tells how the connection ended.
struct Late {
    server: Server,
    arrived: Arc<Notify>,
    read: Arc<Notify>,
    ended: mpsc::UnboundedReceiver<Ended>,
}

impl Late {
    /// It answers at once with this.
    async fn answering(answer: &'static str) -> Self {
        let (tell, ended) = mpsc::unbounded_channel();
        let (arrived, read) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (at_server, go_on) = (arrived.clone(), read.clone());
        let server = Server::each(move |_, mut stream| {
            let (tell, arrived, go_on) = (tell.clone(), at_server.clone(), go_on.clone());
            async move {
                stream.readable().await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                arrived.notify_one();
                go_on.notified().await;
                tell.send(read_to_end(&mut stream).await).unwrap();
            }
        })
        .await;
        Self { server, arrived, read, ended }
    }

    /// A request that does not fit into the sockets' buffers.
    fn request(&self) -> Outbound {
        with_body(request("POST", self.server.url("/")), vec![b'x'; BODY])
    }

    /// Reads what there is: not all of it, and then the reset.
    async fn was_cut_off(mut self) {
        self.read.notify_one();
        let ended = self.ended.recv().await.unwrap();
        assert!(ended.reset && ended.bytes < BODY, "{ended:?}");
    }
}

const BODY: usize = 16 << 20;

#[tokio::test]
async fn teardown_cuts_the_socket_off() {
    let late = Late::answering("").await;
    let (handle, teardown) = Teardown::new();
    let outbound = late.request();
    let sending = tokio::spawn(async move { client().send(outbound, teardown).await });
    late.arrived.notified().await;
    handle.fire();
    error(sending.await.unwrap(), Evidence::Sent, Code::RequestFailed);
    late.was_cut_off().await;
}

#[tokio::test]
async fn dropping_the_future_cuts_the_socket_off() {
    let late = Late::answering("").await;
    // The client lives on: what ends the request is not its end.
    let client = client();
    tokio::select! {
        outcome = client.send(late.request(), Teardown::never()) => panic!("{outcome:?}"),
        () = late.arrived.notified() => {}
    }
    late.was_cut_off().await;
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_read_ends_the_request() {
    let late = Late::answering("HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await;
    let client = client();
    let outcome = client.send(late.request(), Teardown::never()).await;
    assert_eq!((outcome.evidence, outcome.answer.unwrap().status), (Evidence::Answered(413), 413));
    late.was_cut_off().await;
}

#[tokio::test]
async fn a_teardown_that_came_first_sends_nothing() {
    let server = Server::answering(|_| ok("")).await;
    let (handle, teardown) = Teardown::new();
    handle.fire();
    let outcome = client().send(request("POST", server.url("/")), teardown).await;
    error(outcome, Evidence::NotSent, Code::ConnectFailed);
    assert!(server.requests().is_empty());
}
