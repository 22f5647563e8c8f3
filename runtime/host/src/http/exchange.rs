//! One request on one connection, and what the wire then tells.
//!
//! The rule: `NotSent` only when the socket is closed and its count of written bytes is what it was before the request;
//! `Answered` only when the answer was read to its end, or its status is known and the rest is refused by us; else `Sent`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::{Body as _, Incoming};
use stepwell_core::contract::{Evidence, Response};
use stepwell_core::error::{Code, Error};

use super::Inner;
use super::connect::ConnectError;
use super::connection::Connection;
use super::failure::{Outcome, Stop, chain, connect_failed, stopped};
use super::outbound::Prepared;

/// Ends a request from outside.
pub(super) type StopSignal<'a> = Pin<&'a mut (dyn Future<Output = Stop> + Send)>;

/// What ended a request, other than a complete answer.
enum Fault {
    Stopped(Stop),
    /// hyper's account: broken off, or no HTTP.
    Wire(hyper::Error),
    TooLarge {
        status: u16,
    },
    /// An answer that no request of ours asks for.
    SwitchedProtocols,
}

/// Sends one request, on a connection at rest if there is a good one.
///
/// A connection at rest that turns out dead before a byte of this request was written is no attempt: the request goes on to
/// another. Once a byte was written nothing is repeated.
pub(super) async fn exchange(
    inner: &Arc<Inner>,
    prepared: &Prepared,
    body: &Bytes,
    mut stop: StopSignal<'_>,
) -> Outcome {
    let headers = match prepared.headers(&inner.secrets) {
        Ok(headers) => headers,
        Err(error) => return Outcome::failed(Evidence::NotSent, error),
    };
    let longest = if prepared.method.is_safe() { inner.idle } else { inner.idle_unsafe };
    while let Some(connection) = inner.pool.take(&prepared.target, longest) {
        connection.look_before_writing();
        match on_connection(inner, connection, prepared, &headers, body, stop.as_mut()).await {
            (Outcome { evidence: Evidence::NotSent, .. }, Ended::ByTheWire) => {}
            (outcome, _) => return outcome,
        }
    }
    let connected = tokio::select! {
        biased;
        why = stop.as_mut() => return stopped(why, prepared.method.as_str(), &prepared.target, Evidence::NotSent),
        connected = inner.connector.connect(&prepared.target) => connected,
    };
    match connected {
        Ok(connection) => on_connection(inner, connection, prepared, &headers, body, stop).await.0,
        Err(ConnectError::Refused(error)) => Outcome::failed(Evidence::NotSent, error),
        Err(ConnectError::Failed(why)) => connect_failed(prepared.method.as_str(), &prepared.target, &why),
    }
}

/// Whose doing the end was.
#[derive(PartialEq, Eq)]
enum Ended {
    ByTheWire,
    Otherwise,
}

async fn on_connection(
    inner: &Arc<Inner>,
    mut connection: Connection,
    prepared: &Prepared,
    headers: &HeaderMap,
    body: &Bytes,
    stop: StopSignal<'_>,
) -> (Outcome, Ended) {
    let request = match prepared.request(headers.clone(), body.clone(), connection.is_http2()) {
        Ok(request) => request,
        Err(error) => return (Outcome::failed(Evidence::NotSent, error), Ended::Otherwise),
    };
    let before = connection.written();
    let answer = tokio::select! {
        biased;
        answer = answer(&mut connection, request, inner.max_response_bytes) => answer,
        why = stop => Err(Fault::Stopped(why)),
    };
    let fault = match answer {
        Ok(response) => {
            let outcome = Outcome { evidence: Evidence::Answered(response.status), answer: Ok(response) };
            if connection.written() - before < body.len() as u64 {
                // Answered before it had been read: what is left of the request must not follow.
                connection.cut().await;
            } else {
                rest(inner, connection, prepared);
            }
            return (outcome, Ended::Otherwise);
        }
        Err(fault) => fault,
    };
    connection.cut().await;
    let evidence = if connection.written() == before { Evidence::NotSent } else { Evidence::Sent };
    let ended = if matches!(fault, Fault::Wire(_)) { Ended::ByTheWire } else { Ended::Otherwise };
    (told(fault, evidence, prepared, inner.max_response_bytes), ended)
}

async fn answer(
    connection: &mut Connection,
    request: http::Request<http_body_util::Full<Bytes>>,
    max_bytes: usize,
) -> Result<Response, Fault> {
    let (head, body) = connection.send(request).await.map_err(Fault::Wire)?.into_parts();
    let status = head.status.as_u16();
    if status < 200 {
        return Err(Fault::SwitchedProtocols);
    }
    let body = read(body, status, max_bytes).await?;
    let headers = head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value.as_bytes()))).collect();
    Ok(Response { status, headers, body, recorded: false })
}

async fn read(mut body: Incoming, status: u16, max_bytes: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    if body.size_hint().lower() > max_bytes as u64 {
        return Err(Fault::TooLarge { status });
    }
    while let Some(frame) = body.frame().await {
        // Trailers are read and dropped: the contract has no place for them.
        let Ok(data) = frame.map_err(Fault::Wire)?.into_data() else { continue };
        if bytes.len() + data.len() > max_bytes {
            return Err(Fault::TooLarge { status });
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes)
}

/// A header's bytes as text: UTF-8, or else byte by byte.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// Lays a connection to rest, once it is ready for another request. One that is not soon ready is closed.
fn rest(inner: &Arc<Inner>, mut connection: Connection, prepared: &Prepared) {
    let (inner, target) = (Arc::downgrade(inner), prepared.target.clone());
    tokio::spawn(async move {
        let ready = tokio::time::timeout(super::REST_WITHIN, connection.rest()).await;
        if let (Ok(Ok(())), Some(inner)) = (ready, inner.upgrade()) {
            inner.pool.put(target, connection);
        }
    });
}

fn told(fault: Fault, evidence: Evidence, prepared: &Prepared, max_bytes: usize) -> Outcome {
    let (method, target) = (prepared.method.as_str(), &prepared.target);
    let failed = |why: &str| Error::new(Code::RequestFailed, format!("{method} {target}: {why}"));
    match fault {
        Fault::Stopped(why) => stopped(why, method, target, evidence),
        Fault::Wire(error) if evidence == Evidence::NotSent => connect_failed(method, target, &chain(&error)),
        Fault::Wire(error) => {
            Outcome::failed(evidence, failed(&format!("it left, and no complete answer came: {}", chain(&error))))
        }
        Fault::SwitchedProtocols => Outcome::failed(evidence, failed("the server switched protocols, unasked")),
        // The status says what the server did with the request, however long it then talks. Asking again would bring no less.
        Fault::TooLarge { status } => {
            let message = format!("{method} {target}: status {status}, with a body of more than {max_bytes} bytes");
            Outcome::failed(Evidence::Answered(status), Error::new(Code::ResponseTooLarge, message).never_retried())
        }
    }
}
