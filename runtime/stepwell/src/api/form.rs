//! What every request has to be, whatever it asks for: to one host, with no header twice that says one thing, with a path and a query that
//! can be decoded, and with no parameter that there is not. What the parameters say is looked at by whoever reads them.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use utoipa::openapi::path::{Operation, ParameterIn};
use utoipa::openapi::{OpenApi, RefOr};

use super::problem::{ApiCode, Problem};

/// Headers that are read, and say one thing. `Idempotency-Key` has a code of its own.
const ONCE: [HeaderName; 5] = [
    header::HOST,
    header::AUTHORIZATION,
    header::ORIGIN,
    header::CONTENT_TYPE,
    HeaderName::from_static("last-event-id"),
];

/// The names of the query's parameters, of each method of each path that is described.
#[derive(Clone)]
pub(super) struct Parameters(Arc<HashMap<String, Methods>>);

/// The same of one path.
type Methods = Vec<(Method, Vec<String>)>;

impl Parameters {
    pub(super) fn described(api: &OpenApi) -> Self {
        let paths = api.paths.paths.iter().map(|(path, item)| {
            let operations = [
                (Method::GET, &item.get),
                // Answered as GET is, without the body.
                (Method::HEAD, &item.get),
                (Method::POST, &item.post),
                (Method::PUT, &item.put),
                (Method::DELETE, &item.delete),
            ];
            let named =
                operations.into_iter().filter_map(|(method, operation)| Some((method, names(operation.as_ref()?))));
            (path.clone(), named.collect())
        });
        Self(Arc::new(paths.collect()))
    }

    /// Refuses a parameter that the path does not have: one that is misspelt must not be passed over.
    fn check(&self, path: &str, method: &Method, query: &str) -> Result<(), Problem> {
        // Whoever watches a server may ask as it likes.
        let described = self.0.get(path).filter(|_| path.starts_with("/v1/"));
        let Some((_, known)) = described.and_then(|all| all.iter().find(|(of, _)| of == method)) else { return Ok(()) };
        let mut given = url::form_urlencoded::parse(query.as_bytes());
        let Some((name, _)) = given.find(|(name, _)| !known.iter().any(|known| known == name)) else { return Ok(()) };
        let there_is = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(invalid(format!("there is no parameter {name:?} here; there is {there_is}")))
    }
}

fn names(operation: &Operation) -> Vec<String> {
    let named = operation.parameters.iter().flatten().filter_map(|one| match one {
        RefOr::T(one) if matches!(one.parameter_in, ParameterIn::Query) => Some(one.name.clone()),
        _ => None,
    });
    named.collect()
}

/// Refuses what is none of that, before anybody looks at what is asked.
pub(super) async fn check(State(known): State<Parameters>, request: Request, next: Next) -> Response {
    match checked(&known, &request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn checked(known: &Parameters, request: &Request) -> Result<(), Problem> {
    host(request.version(), request.headers())?;
    if let Some(name) = ONCE.iter().find(|name| request.headers().get_all(*name).iter().count() > 1) {
        return Err(invalid(format!("the header {name} is given more than once")));
    }
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    for (what, text) in [("path", path), ("query", query)] {
        decodable(text).map_err(|why| invalid(format!("the {what} {why}")))?;
    }
    match request.extensions().get::<MatchedPath>() {
        Some(route) => known.check(route.as_str(), request.method(), query),
        None => Ok(()),
    }
}

/// HTTP/1.1 names the host that it means, once. Who speaks an older one need not.
fn host(version: Version, headers: &HeaderMap) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::HTTP_11 => {
            Err(invalid("the request has no Host header; HTTP/1.1 needs one".to_owned()))
        }
        (Some(_), Some(_)) => Err(invalid("the request has more than one Host header".to_owned())),
        // The name may be empty.
        (Some(host), None) if !host.is_empty() => match Authority::try_from(host.as_bytes()) {
            Ok(authority) if !authority.as_str().contains('@') => Ok(()),
            _ => Err(invalid(format!("the Host header {host:?} is no name of a host"))),
        },
        _ => Ok(()),
    }
}

/// Why a part of the target cannot be decoded, if it cannot.
fn decodable(text: &str) -> Result<(), &'static str> {
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        rest = &rest[at + 1..];
        if !rest.get(..2).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)) {
            return Err("has a % that is followed by no two hexadecimal digits; a % itself is written %25");
        }
    }
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(drop).map_err(|_| "is no UTF-8 once it is decoded")
}

fn invalid(text: String) -> Problem {
    Problem::new(ApiCode::InvalidRequest, text)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn hosts(all: &[&'static str]) -> HeaderMap {
        all.iter().map(|host| (header::HOST, HeaderValue::from_static(host))).collect()
    }

    #[test]
    fn one_host_is_named_and_none_by_an_older_client() {
        for one in ["localhost", "localhost:7070", "127.0.0.1:1", "[::1]:7070", ""] {
            assert!(host(Version::HTTP_11, &hosts(&[one])).is_ok(), "{one}");
        }
        for all in [&["a", "a"][..], &["a b"], &["a/b"], &["user@a"], &["a:b:c"]] {
            assert!(host(Version::HTTP_11, &hosts(all)).is_err(), "{all:?}");
            assert!(host(Version::HTTP_10, &hosts(all)).is_err(), "{all:?}");
        }
        assert!(host(Version::HTTP_11, &HeaderMap::new()).is_err());
        assert!(host(Version::HTTP_10, &HeaderMap::new()).is_ok());
    }

    #[test]
    fn what_cannot_be_decoded_is_told_from_what_can() {
        for text in ["", "/v1/runs", "/%C3%A9", "/%25", "a=%00&b=%2F", "/%e2%82%ac"] {
            assert_eq!(decodable(text), Ok(()), "{text}");
        }
        for text in ["%", "/a%", "/%2", "/%zz", "/%+1", "/%FF", "/%C3", "a=%ED%A0%80", "/%C0%AF"] {
            assert!(decodable(text).is_err(), "{text}");
        }
    }
}
