//! The HTTP client against real servers on loopback: what it sends, what it says of what it sent, what it refuses to send.

#![allow(clippy::unwrap_used)]

mod answers;
mod destinations;
mod evidence;
mod pooled;
mod redirects;
mod requests;
mod secrets;
mod server;
mod tls;

use stepwell_core::contract::{EffectKey, Request};
use stepwell_host::http::{AddressPolicy, Destinations, HttpClient, HttpSettings, Outbound};

/// Settings under which loopback is open.
fn settings() -> HttpSettings {
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    HttpSettings { addresses, ..HttpSettings::default() }
}

fn client() -> HttpClient {
    HttpClient::new(settings())
}

/// A request to anywhere.
fn request(method: &str, url: impl Into<String>) -> Outbound {
    let request = Request {
        method: method.into(),
        url: url.into(),
        headers: Vec::new(),
        body: None,
        timeout_ms: None,
        key: EffectKey::None,
        label: None,
        renew_on: Vec::new(),
    };
    Outbound { request, key_header: None, destinations: Destinations::Any, secrets: None }
}

fn with_header(mut outbound: Outbound, name: &str, value: &str) -> Outbound {
    outbound.request.headers.push((name.into(), value.into()));
    outbound
}

fn with_body(mut outbound: Outbound, body: impl Into<Vec<u8>>) -> Outbound {
    outbound.request.body = Some(body.into());
    outbound
}

fn with_timeout(mut outbound: Outbound, ms: u64) -> Outbound {
    outbound.request.timeout_ms = Some(ms);
    outbound
}
