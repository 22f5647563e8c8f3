//! Where a run may send: destinations, networks and secrets as people write them, and requests as guests make them.

use std::cell::RefCell;

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{EffectKey, Request};
use stepwell_host::http::{
    AddressPolicy, AllowNet, Destinations, HttpClient, HttpSettings, Outbound, Pattern, SecretFlag,
};
use url::Url;

use crate::entries::text;

/// The input as each of the texts, and as a request.
pub fn reach(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        texts(text);
    }
    thread_local!(static CLIENT: RefCell<HttpClient> = RefCell::new(client()));
    let mut u = Unstructured::new(data);
    while !u.is_empty() {
        let Ok(outbound) = outbound(&mut u) else { return };
        texts(&outbound.request.url);
        if CLIENT.with_borrow(|client| client.check(&outbound)).is_ok() {
            declared(&outbound.request.url);
        }
    }
}

fn client() -> HttpClient {
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    HttpClient::new(HttpSettings { addresses, ..HttpSettings::default() })
}

/// Read, or refused with a word.
fn texts(text: &str) {
    for refused in [
        text.parse::<Pattern>().err().map(|error| error.to_string()),
        text.parse::<AllowNet>().err().map(|error| error.to_string()),
        text.parse::<SecretFlag>().err().map(|error| error.to_string()),
        Destinations::parse(&[text]).err().map(|error| error.to_string()),
    ] {
        assert_ne!(refused.as_deref(), Some(""), "{text:?}");
    }
}

/// Nothing but what the module declares is let through, whatever the spelling.
fn declared(url: &str) {
    let parsed = Url::parse(url).unwrap_or_else(|error| panic!("{url:?} is let through: {error}"));
    let host = parsed.host_str().unwrap_or_default();
    let host = host.strip_suffix('.').unwrap_or(host);
    let below = host.strip_suffix(".example.com").is_some_and(|rest| !rest.is_empty());
    let default =
        [("http", Some(80)), ("https", Some(443))].contains(&(parsed.scheme(), parsed.port_or_known_default()));
    let let_through = host == "pay.example" && default || below && parsed.port() == Some(8443);
    assert!(let_through && ["http", "https"].contains(&parsed.scheme()), "{url:?} is let through");
}

const PIECES: &[&str] = &[
    "https://",
    "http://",
    "file://",
    "//",
    "pay.example",
    "PAY.example",
    "pay.example.",
    "a.example.com",
    "example.com",
    ".example.com",
    "127.0.0.1",
    "[::1]",
    "0x7f.1",
    "@",
    ":",
    ":443",
    ":8443",
    ":80",
    ":99999",
    "/",
    "?",
    "#",
    "%2e",
    "\\",
    "\t",
    " ",
    "\u{ff0e}",
    "xn--",
    "é",
    "user:pass",
];

fn outbound(u: &mut Unstructured<'_>) -> Result<Outbound> {
    let mut url = String::new();
    for _ in 0..u.int_in_range(1..=6)? {
        url += u.choose(PIECES)?;
    }
    if u.ratio(1, 6)? {
        url = format!("{}{}", u.choose(&["https://pay.example/", "https://", ""])?, text(u)?);
    }
    let header = |u: &mut Unstructured<'_>| {
        let name = *u.choose(&["authorization", "Host", "content-length", "x-a", "", "a b", "transfer-encoding"])?;
        let value = *u.choose(&["${secret:pay}", "${secret:", "${secret:none}", "a\r\nb: c", "\u{0}", "é", ""])?;
        Ok((name.to_owned(), value.to_owned()))
    };
    let request = Request {
        method: if u.ratio(1, 8)? {
            text(u)?
        } else {
            (*u.choose(&["GET", "POST", "get", "CONNECT", "TRACE"])?).to_owned()
        },
        url,
        headers: (0..u.int_in_range(0..=2)?).map(|_| header(u)).collect::<Result<_>>()?,
        body: u.arbitrary::<Option<Vec<u8>>>()?,
        timeout_ms: u.arbitrary()?,
        key: EffectKey::None,
        label: None,
        renew_on: Vec::new(),
    };
    let declared =
        Destinations::parse(&["pay.example", "*.example.com:8443"]).unwrap_or_else(|error| panic!("{error}"));
    let key_header = if u.arbitrary()? { Some(text(u)?) } else { None };
    Ok(Outbound { request, key_header, destinations: declared, secrets: None })
}
