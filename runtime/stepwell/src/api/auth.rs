//! Who asks, and what for they may: bearer tokens with scopes. Without any token the server is open to this machine alone.
//!
//! A token is `stepwell_<id>_<secret>`. The store has a digest of the secret, and the two are compared in constant time.

use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use stepwell_engine::store::{Reads, Token};
use subtle::ConstantTimeEq as _;
use utoipa::ToSchema;

use super::app::{App, now_ms};
use super::problem::{ApiCode, Problem};

/// What a token is good for. None includes another, but for `admin`, which is good for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Scope {
    /// Look at everything but tokens.
    Read,
    /// Start runs, send them events, cancel, terminate, pause, resume and retry them, resolve their steps.
    Run,
    /// Upload modules, activate and remove them.
    Deploy,
    /// Everything, tokens included.
    Admin,
}

impl Scope {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Run => "run",
            Self::Deploy => "deploy",
            Self::Admin => "admin",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Read, Self::Run, Self::Deploy, Self::Admin].into_iter().find(|scope| scope.as_str() == text)
    }
}

/// Scopes as the store has them.
pub(crate) fn scopes_text(scopes: &[Scope]) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(" ")
}

/// What [`scopes_text`] has written.
pub(crate) fn scopes_of(text: &str) -> Vec<Scope> {
    text.split(' ').filter_map(Scope::parse).collect()
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) struct Principal {
    pub(crate) name: String,
    scopes: Vec<Scope>,
    /// The token that it has shown; none while there are no tokens.
    token: Option<String>,
}

impl Principal {
    /// Refuses what the principal's token is not good for.
    pub(crate) fn may(&self, scope: Scope) -> Result<(), Problem> {
        if self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin) {
            return Ok(());
        }
        let has = scopes_text(&self.scopes);
        let text = format!("this needs the scope {:?}; the token has {has:?}", scope.as_str());
        Err(Problem::new(ApiCode::Forbidden, text))
    }
}

/// Whoever is on this machine, while there are no tokens.
const LOCAL: &str = "local";

/// The secret part of a token, made anew: its text, and the digest that is kept.
pub(crate) fn new_secret() -> (String, Vec<u8>) {
    let secret = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
    let hash = digest(&secret);
    (secret, hash)
}

/// A token as its owner writes it.
pub(crate) fn token_text(id: &str, secret: &str) -> String {
    format!("stepwell_{id}_{secret}")
}

fn digest(secret: &str) -> Vec<u8> {
    Sha256::digest(secret.as_bytes()).to_vec()
}

/// Whether a token holds now.
pub(crate) fn holds(token: &Token, now_ms: u64) -> bool {
    token.expires_at_ms.is_none_or(|at_ms| at_ms > now_ms)
}

/// Lets a request in, with its principal, or answers why not.
pub(crate) async fn admit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    match principal(&app, request.headers()) {
        Ok(principal) => {
            request.extensions_mut().insert(principal);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

fn principal(app: &App, headers: &HeaderMap) -> Result<Principal, Problem> {
    same_origin(headers)?;
    let Some(text) = headers.get(header::AUTHORIZATION) else {
        if !app.settings.needs_tokens && !app.has_tokens()? {
            local_host(headers)?;
            return Ok(Principal { name: LOCAL.to_owned(), scopes: vec![Scope::Admin], token: None });
        }
        return Err(unauthorized("send a token: `Authorization: Bearer stepwell_...`"));
    };
    let token = bearer(app.reads(), text)?.ok_or_else(|| unauthorized("the token is not known, or has ended"))?;
    app.limiter.take(&token.id, Instant::now()).map_err(|wait| {
        let seconds = wait.as_secs_f64().ceil().max(1.0);
        let problem = Problem::new(ApiCode::RateLimited, "the token makes more requests than it may");
        problem.with_header(header::RETRY_AFTER, HeaderValue::from(seconds as u64))
    })?;
    Ok(Principal { scopes: scopes_of(&token.scopes), name: token.principal, token: Some(token.id) })
}

/// Refuses a principal that was let in once and would not be any more: its token has ended, or there are tokens now.
pub(crate) fn still_admitted(app: &App, principal: &Principal) -> Result<(), Problem> {
    let admitted = match &principal.token {
        None => !app.has_tokens()?,
        Some(id) => app.reads().token(id)?.is_some_and(|token| holds(&token, now_ms())),
    };
    if admitted { Ok(()) } else { Err(unauthorized("the token has ended; send one that holds")) }
}

/// The token of an `Authorization` header, if it is one and holds.
fn bearer(reads: &dyn Reads, header: &HeaderValue) -> Result<Option<Token>, Problem> {
    let Some((id, secret)) = header.to_str().ok().and_then(parts) else { return Ok(None) };
    let known = reads.token(id)?;
    // A digest is computed and compared also where there is no such token, so that the time says nothing of it.
    let hash = known.as_ref().map_or_else(|| vec![0; 32], |token| token.hash.clone());
    let same = bool::from(digest(secret).ct_eq(&hash));
    Ok(known.filter(|token| same && holds(token, now_ms())))
}

/// Name and secret of the token in `Bearer stepwell_<id>_<secret>`.
fn parts(header: &str) -> Option<(&str, &str)> {
    let (scheme, text) = header.split_once(' ')?;
    let parts = text.trim().strip_prefix("stepwell_")?.split_once('_')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(parts)
}

fn unauthorized(detail: &str) -> Problem {
    Problem::new(ApiCode::Unauthorized, detail)
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"stepwell\""))
}

/// A browser names the page that a request comes from. Pages of other sites have no business here.
fn same_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(origin) = headers.get(header::ORIGIN) else { return Ok(()) };
    let origin = origin.to_str().unwrap_or("?");
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    if authority.is_some_and(|authority| authority.eq_ignore_ascii_case(host)) {
        return Ok(());
    }
    Err(Problem::new(ApiCode::CrossOrigin, format!("a page of {origin:?} may not use this server")))
}

/// A foreign name that was pointed at this machine would let a page of that name in.
fn local_host(headers: &HeaderMap) -> Result<(), Problem> {
    let Some(host) = headers.get(header::HOST) else { return Ok(()) };
    let host = host.to_str().unwrap_or("?");
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    let loopback = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    if loopback || name.eq_ignore_ascii_case("localhost") {
        return Ok(());
    }
    Err(Problem::new(ApiCode::CrossOrigin, format!("without tokens this server answers to localhost, not to {host:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn other_sites_pages_are_kept_out() {
        let host = (header::HOST, "127.0.0.1:7070");
        for origin in ["http://127.0.0.1:7070", "https://127.0.0.1:7070"] {
            assert!(same_origin(&headers(&[host.clone(), (header::ORIGIN, origin)])).is_ok(), "{origin}");
        }
        for origin in ["http://evil.example", "http://127.0.0.1:8080", "null", "http://127.0.0.1"] {
            assert!(same_origin(&headers(&[host.clone(), (header::ORIGIN, origin)])).is_err(), "{origin}");
        }
        let mut unread = headers(std::slice::from_ref(&host));
        unread.insert(header::ORIGIN, HeaderValue::from_bytes("http://é".as_bytes()).expect("a header may have it"));
        assert!(same_origin(&unread).is_err());
        assert!(same_origin(&headers(&[host])).is_ok());
    }

    #[test]
    fn without_tokens_only_this_machine_is_named() {
        for host in ["localhost", "localhost:7070", "127.0.0.1:7070", "127.8.8.8", "[::1]:7070", "LOCALHOST:1"] {
            assert!(local_host(&headers(&[(header::HOST, host)])).is_ok(), "{host}");
        }
        for host in ["stepwell.example", "10.0.0.1:7070", "localhost.evil.example", "[::2]:1"] {
            assert!(local_host(&headers(&[(header::HOST, host)])).is_err(), "{host}");
        }
    }

    #[test]
    fn admin_is_good_for_everything_and_nothing_else_is() {
        let with = |scopes: &[Scope]| Principal { name: "ana".into(), scopes: scopes.to_vec(), token: None };
        assert!(with(&[Scope::Admin]).may(Scope::Read).is_ok());
        assert!(with(&[Scope::Run]).may(Scope::Run).is_ok());
        assert!(with(&[Scope::Read, Scope::Run, Scope::Deploy]).may(Scope::Admin).is_err());
        assert!(with(&[Scope::Run]).may(Scope::Read).is_err());
        assert_eq!(scopes_of(&scopes_text(&[Scope::Read, Scope::Admin])), [Scope::Read, Scope::Admin]);
    }
}
