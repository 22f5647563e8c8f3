//! Redirects: which answers are followed, and what the next request looks like.
//!
//! Only GET and HEAD are followed. For every other method the 3xx is the answer: whether to do it again elsewhere is the
//! workflow's to say.

use http::{Method, StatusCode, header};
use stepwell_core::contract::Response;
use stepwell_core::error::{Code, Error};

use super::outbound::{Hop, parse_url};
use super::secret;

/// Requests after the first.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Where a followed answer leads, before it is known whether that may be reached. `None`: the answer stands.
pub(super) fn location<'a>(hop: &Hop, response: &'a Response) -> Option<&'a str> {
    let followed = matches!(response.status, 301 | 302 | 303 | 307 | 308);
    if !followed || !(hop.method == Method::GET || hop.method == Method::HEAD) {
        return None;
    }
    response.headers.iter().find(|(name, _)| name == header::LOCATION.as_str()).map(|(_, value)| value.as_str())
}

/// The next request. To another scheme, host or port nothing goes that was meant for the first alone.
///
/// # Errors
/// `RequestFailed` where the location is no URL that a request may go to.
pub(super) fn next_hop(hop: &Hop, location: &str) -> Result<Hop, Error> {
    let broken = |why: &str| {
        Error::new(Code::RequestFailed, format!("{} {}: redirected to nowhere: {why}", hop.method, hop.target))
    };
    let mut joined = hop.url.join(location).map_err(|error| broken(&error.to_string()))?;
    if joined.fragment().is_none() {
        joined.set_fragment(hop.url.fragment());
    }
    let (url, target) = parse_url(joined.as_str()).map_err(|error| broken(&error.message))?;
    let mut next = Hop { url, target, ..hop.clone() };
    if next.target != hop.target {
        next.headers.retain(|(name, value)| {
            !secret::asks(value)
                && *name != header::AUTHORIZATION
                && *name != header::COOKIE
                && name.as_str() != "idempotency-key"
        });
        next.key = None;
    }
    Ok(next)
}

/// Whether the body goes along.
pub(super) fn keeps_body(status: u16) -> bool {
    status == StatusCode::TEMPORARY_REDIRECT.as_u16() || status == StatusCode::PERMANENT_REDIRECT.as_u16()
}
