//! A redirect is an answer: the host follows none, whatever the method.

use stepwell_core::contract::Evidence;
use stepwell_host::http::Teardown;

use crate::server::Server;
use crate::{client, request};

#[tokio::test]
async fn no_redirect_is_followed() {
    for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"] {
        for status in [300, 301, 302, 303, 304, 307, 308] {
            let answer = format!("HTTP/1.1 {status} x\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n");
            let server = Server::answering(move |_| answer.clone().into_bytes()).await;
            let outcome = client().send(request(method, server.url("/")), Teardown::never()).await;
            let response = outcome.answer.unwrap();
            assert_eq!((outcome.evidence, response.status), (Evidence::Answered(status), status), "{method} {status}");
            assert!(response.headers.contains(&("location".into(), "/elsewhere".into())), "{method} {status}");
            assert_eq!(server.requests().len(), 1, "{method} {status}");
        }
    }
}
