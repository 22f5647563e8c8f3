//! HTTPS, with both versions of HTTP.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stepwell_core::contract::Evidence;
use stepwell_core::error::Code;
use stepwell_host::http::{HttpClient, HttpSettings, Teardown, TlsRoots};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::server::{Server, ok};
use crate::{request, settings, with_body};

/// What a server speaks, and whose certificate it shows.
fn acceptor(name: &str, protocols: &[&str]) -> (TlsAcceptor, CertificateDer<'static>) {
    let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    (TlsAcceptor::from(Arc::new(config)), certificate)
}

fn client(root: CertificateDer<'static>) -> HttpClient {
    HttpClient::new(HttpSettings { roots: TlsRoots::Only(vec![root]), ..settings() })
}

/// Answers over HTTP/1.1 with these bytes and ends the connection, with TLS's own farewell or without.
async fn http1_server(acceptor: TlsAcceptor, answer: Vec<u8>, farewell: bool) -> Server {
    Server::each(move |record, stream| {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            record.read(&mut stream).await;
            stream.write_all(&answer).await.unwrap();
            stream.flush().await.unwrap();
            if farewell {
                stream.shutdown().await.unwrap();
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_request_goes_over_tls() {
    let (acceptor, root) = acceptor("127.0.0.1", &["http/1.1"]);
    let server = http1_server(acceptor, ok("safe"), true).await;
    let outbound = with_body(request("POST", format!("https://{}/x", server.address)), "{}");
    let outcome = client(root).send(outbound, Teardown::never()).await;
    assert_eq!(outcome.answer.unwrap().body, b"safe");
    let seen = &server.requests()[0];
    assert_eq!((seen.body.as_slice(), seen.header("host")), (&b"{}"[..], Some(server.address.to_string().as_str())));
}

#[tokio::test]
async fn a_failure_of_tls_sent_nothing() {
    let (_, stranger) = acceptor("127.0.0.1", &[]);
    let (other_name, root_of_other) = acceptor("other.example", &["h2", "http/1.1"]);
    let (good, root) = acceptor("127.0.0.1", &["http/1.1"]);
    let (no_protocol, root_of_no_protocol) = acceptor("127.0.0.1", &["spdy/1"]);
    let plain = Server::each(|_, mut stream| async move { stream.write_all(&ok("plain")).await.unwrap() }).await;
    for (server, root) in [
        (http1_server(good, ok(""), true).await, stranger),
        (http1_server(other_name, ok(""), true).await, root_of_other),
        (http1_server(no_protocol, ok(""), true).await, root_of_no_protocol),
        (Server::each(|_, stream| async move { drop(stream) }).await, root.clone()),
        (plain, root),
    ] {
        let outbound = request("POST", format!("https://{}/", server.address));
        let outcome = client(root).send(outbound, Teardown::never()).await;
        let error = outcome.answer.unwrap_err();
        assert_eq!(outcome.evidence, Evidence::NotSent, "{error}");
        assert!(server.requests().is_empty());
        assert!(error.is(Code::ConnectFailed), "{error}");
    }
}

#[tokio::test]
async fn an_answer_without_length_is_whole_only_with_tls_s_farewell() {
    let (acceptor, root) = acceptor("127.0.0.1", &["http/1.1"]);
    let answer = b"HTTP/1.1 200 OK\r\n\r\nperhaps cut".to_vec();
    for (farewell, evidence) in [(true, Evidence::Answered(200)), (false, Evidence::Sent)] {
        let server = http1_server(acceptor.clone(), answer.clone(), farewell).await;
        let outbound = request("POST", format!("https://{}/", server.address));
        assert_eq!(client(root.clone()).send(outbound, Teardown::never()).await.evidence, evidence);
    }
}

/// An HTTP/2 server. `/echo` answers with what it was sent, `/silence` never; each request's version and path are told.
async fn http2_server(acceptor: TlsAcceptor, told: mpsc::UnboundedSender<String>) -> Server {
    Server::each(move |_, stream| {
        let (acceptor, told) = (acceptor.clone(), told.clone());
        async move {
            let stream = TokioIo::new(acceptor.accept(stream).await.unwrap());
            let serve = service_fn(|request: http::Request<hyper::body::Incoming>| {
                told.send(format!("{:?} {}", request.version(), request.uri())).unwrap();
                async move {
                    if request.uri().path() == "/silence" {
                        std::future::pending::<()>().await;
                    }
                    let body = request.into_body().collect().await?.to_bytes();
                    Ok::<_, hyper::Error>(http::Response::new(Full::<Bytes>::new(body)))
                }
            });
            let _ =
                hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(stream, serve).await;
            told.send("closed".into()).unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn http2_is_spoken_where_the_server_does() {
    let (acceptor, root) = acceptor("127.0.0.1", &["h2"]);
    let (told, mut was_told) = mpsc::unbounded_channel();
    let server = http2_server(acceptor, told).await;
    let client = client(root);
    let url = format!("https://{}/echo?x", server.address);
    for body in [vec![], b"{}".to_vec(), vec![9; 1 << 20]] {
        let outcome = client.send(with_body(request("POST", url.clone()), body.clone()), Teardown::never()).await;
        assert_eq!(outcome.evidence, Evidence::Answered(200), "{:?}", outcome.answer);
        assert!(outcome.answer.unwrap().body == body);
        assert_eq!(was_told.recv().await.unwrap(), format!("HTTP/2.0 {url}"));
        while client.idle_connections() == 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn teardown_closes_an_http2_connection() {
    let (acceptor, root) = acceptor("127.0.0.1", &["h2"]);
    let (told, mut was_told) = mpsc::unbounded_channel();
    let server = http2_server(acceptor, told).await;
    let (handle, teardown) = Teardown::new();
    let outbound = with_body(request("POST", format!("https://{}/silence", server.address)), "{}");
    let sending = tokio::spawn(async move { client(root).send(outbound, teardown).await });
    assert!(was_told.recv().await.unwrap().starts_with("HTTP/2.0"));
    handle.fire();
    let outcome = sending.await.unwrap();
    assert_eq!(outcome.evidence, Evidence::Sent);
    assert!(outcome.answer.unwrap_err().is(Code::RequestFailed));
    assert_eq!(was_told.recv().await.unwrap(), "closed");
}

#[tokio::test]
async fn an_http2_connection_that_breaks_off_leaves_the_request_sent() {
    let (acceptor, root) = acceptor("127.0.0.1", &["h2"]);
    let server = Server::each(move |_, stream| {
        let acceptor = acceptor.clone();
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            // An empty SETTINGS frame, then nothing that answers.
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            let mut received = Vec::new();
            while !received.windows(4).any(|w| w == b"once") {
                tokio::io::AsyncReadExt::read_buf(&mut stream, &mut received).await.unwrap();
            }
        }
    })
    .await;
    let outbound = with_body(request("POST", format!("https://{}/", server.address)), "once");
    let outcome = client(root).send(outbound, Teardown::never()).await;
    assert_eq!(outcome.evidence, Evidence::Sent, "{:?}", outcome.answer);
    assert_eq!(server.connections(), 1);
}
