//! `/v1/tokens`: who may use the server, and for what. A token's secret is shown once; what is kept cannot be turned back into it.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stepwell_core::limits;
use stepwell_engine::store::{Action, StoreError, Submission, Token};
use utoipa::ToSchema;

use super::app::{App, now_ms};
use super::auth::{Scope, holds, new_secret, scopes_of, scopes_text, token_text};
use super::keyed::{Keyed, Reply, once};
use super::problem::{ApiCode, Problem, ProblemBody};
use super::request::{Caller, Name, OK, Post, Query};

/// A token to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Whose it is. A principal may have several; its idempotency keys are the principal's, whichever token it uses.
    #[schema(min_length = 1, max_length = 200)]
    principal: String,
    /// What it is good for.
    #[schema(min_items = 1)]
    scopes: Vec<Scope>,
    /// When it ends, in ms since the Unix epoch.
    expires_at_ms: Option<u64>,
}

/// A token.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // Describes what `view` writes.
pub(crate) struct TokenView {
    /// Its name.
    id: String,
    /// Whose it is.
    principal: String,
    /// What it is good for.
    scopes: Vec<Scope>,
    /// When it was made, in ms since the Unix epoch.
    created_at_ms: u64,
    /// When it ends or ended, in ms since the Unix epoch.
    expires_at_ms: Option<u64>,
    /// The token itself: only in the answer to its making, and not when that is repeated.
    token: Option<String>,
}

/// Tokens in a list.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `list` writes.
pub(crate) struct Tokens {
    /// The earliest first.
    tokens: Vec<TokenView>,
    /// Gives the next page, where there is one.
    #[schema(required = false)]
    cursor: Option<String>,
}

fn view(token: &Token) -> Value {
    let mut view = json!({
        "id": token.id, "principal": token.principal, "scopes": scopes_of(&token.scopes), "createdAtMs": token.created_at_ms,
    });
    if let Some(at_ms) = token.expires_at_ms {
        view["expiresAtMs"] = at_ms.into();
    }
    view
}

/// A token of a principal, with its text. Refused where the name or the scopes are none.
pub(crate) fn made(principal: &str, scopes: &[Scope], expires_at_ms: Option<u64>) -> Result<(Token, String), Problem> {
    if let Some(at_ms) = expires_at_ms.filter(|at_ms| !(now_ms()..=i64::MAX as u64).contains(at_ms)) {
        let text = format!("expiresAtMs is {at_ms}; a time to come is taken, in ms since the Unix epoch");
        return Err(Problem::new(ApiCode::InvalidRequest, text));
    }
    let id = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
    made_as(id, principal, scopes, expires_at_ms)
}

/// The same, with this name.
fn made_as(
    id: String,
    principal: &str,
    scopes: &[Scope],
    expires_at_ms: Option<u64>,
) -> Result<(Token, String), Problem> {
    let invalid = |text: String| Problem::new(ApiCode::InvalidRequest, text);
    let max = limits::MAX_NAME_BYTES;
    if principal.trim().is_empty() || principal.len() > max || principal.chars().any(char::is_control) {
        return Err(invalid(format!(
            "a principal's name has 1 to {max} bytes, no control characters, not only blanks"
        )));
    }
    let mut scopes = scopes.to_vec();
    scopes.sort_unstable();
    scopes.dedup();
    if scopes.is_empty() {
        return Err(invalid("a token needs at least one scope".to_owned()));
    }
    let (secret, hash) = new_secret();
    let text = token_text(&id, &secret);
    let (principal, scopes) = (principal.to_owned(), scopes_text(&scopes));
    Ok((Token { id, principal, scopes, hash, created_at_ms: now_ms(), expires_at_ms }, text))
}

/// Without a lasting token that can make others nobody could administer the server.
fn spare_admin() -> Action {
    Action::SpareScope(Scope::Admin.as_str().to_owned())
}

/// Make a token.
#[utoipa::path(
    post, path = "/v1/tokens", tag = "tokens", request_body = NewToken, params(super::openapi::KeyHeader),
    responses(
        (status = 201, description = "The token; its text is shown this once", body = TokenView),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "The first one must be able to make others"),
    )
)]
pub(crate) async fn create(State(app): State<App>, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Admin)?;
    let new: NewToken = post.object()?;
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let (token, text) = made(&new.principal, &new.scopes, new.expires_at_ms)?;
        let kept = keep(&shared, vec![spare_admin(), Action::AddToken(token.clone())], &token, text, keyed).await;
        kept.map_err(|error| match error {
            StoreError::LastToken(_) => {
                let text =
                    "the first token closes the server to everybody without one: it needs the scope admin, and no end";
                Problem::new(ApiCode::LastAdmin, text)
            }
            other => other.into(),
        })
    })
    .await
}

async fn keep(
    app: &App,
    actions: Vec<Action>,
    token: &Token,
    text: String,
    keyed: Option<Keyed>,
) -> Result<Reply, StoreError> {
    let mut body = view(token);
    let answer = keyed.map(|keyed| keyed.answer(StatusCode::CREATED, &body, false));
    app.engine.store().submit(Submission { actions, answer }).await?;
    // After the answer was made: a repetition does not show it again.
    body["token"] = text.into();
    Ok(Reply::new(StatusCode::CREATED, body))
}

/// List tokens, without their texts.
#[utoipa::path(
    get, path = "/v1/tokens", tag = "tokens", params(super::openapi::Page),
    responses((status = 200, description = "A page", body = Tokens))
)]
pub(crate) async fn list(State(app): State<App>, Caller(caller): Caller, query: Query) -> Result<Reply, Problem> {
    caller.may(Scope::Admin)?;
    let limit = query.page_limit()?;
    let after = match query.one("cursor")? {
        None => None,
        Some(text) => Some(place(text).ok_or_else(|| {
            Problem::new(
                ApiCode::InvalidRequest,
                format!("cursor is {text:?}; the cursor of an earlier answer is taken"),
            )
        })?),
    };
    let tokens = app.reads().tokens(after, limit)?;
    let mut body = json!({ "tokens": tokens.iter().map(view).collect::<Vec<_>>() });
    if let Some(last) = tokens.last().filter(|_| tokens.len() == limit as usize) {
        body["cursor"] = format!("{}-{}", last.created_at_ms, last.id).into();
    }
    Ok(Reply::new(OK, body))
}

/// What a cursor says: when the last token of the page was made, and its name.
fn place(cursor: &str) -> Option<(u64, &str)> {
    let (at_ms, id) = cursor.split_once('-')?;
    Some((at_ms.parse().ok().filter(|at_ms| *at_ms <= i64::MAX as u64)?, id))
}

fn find(app: &App, id: &str) -> Result<Token, Problem> {
    app.reads().token(id)?.ok_or_else(|| Problem::new(ApiCode::NotFound, format!("there is no token {id:?}")))
}

/// How long the old token holds beside the new one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Rotate {
    /// In ms, at most a day; 5 minutes where it is left out, so that a lost answer locks nobody out. 0 where the old token is in wrong
    /// hands.
    #[schema(minimum = 0, maximum = 86400000u64)]
    #[serde(default = "overlap_ms")]
    overlap_ms: u64,
}

impl Default for Rotate {
    fn default() -> Self {
        Self { overlap_ms: overlap_ms() }
    }
}

/// How long the old token holds beside the new one where nobody says otherwise.
fn overlap_ms() -> u64 {
    ROTATION_OVERLAP_MS
}

/// The same, for the command line.
pub(crate) const ROTATION_OVERLAP_MS: u64 = 300_000;

/// Make a token in the place of another, with its principal, scopes and end.
#[utoipa::path(
    post, path = "/v1/tokens/{id}/rotate", tag = "tokens", request_body(content = Option<Rotate>),
    params(("id" = String, Path, description = "The token's name"), super::openapi::KeyHeader),
    responses(
        (status = 201, description = "The new token; its text is shown this once", body = TokenView),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn rotate(State(app): State<App>, name: Name, post: Post) -> Result<Reply, Problem> {
    post.principal.may(Scope::Admin)?;
    let rotate: Rotate = post.object_or_default()?;
    if rotate.overlap_ms > 86_400_000 {
        let text = format!("overlapMs is {}; at most 86400000 (a day) is taken", rotate.overlap_ms);
        return Err(Problem::new(ApiCode::InvalidRequest, text));
    }
    let shared = app.clone();
    once(&app, post.keyed.clone(), move |keyed| async move {
        let old = find(&shared, &name.0)?;
        if !holds(&old, now_ms()) {
            return Err(ended(&old.id));
        }
        // The name can be taken once: of two who rotate the token at the same time one is told of the other's, and an end that a
        // rotation has set is never handed on.
        let name = successor(&old.id);
        let (token, text) = made_as(name, &old.principal, &scopes_of(&old.scopes), old.expires_at_ms)?;
        let now_ms = now_ms();
        let actions = vec![
            Action::NeedToken { id: old.id.clone(), at_ms: now_ms },
            Action::AddToken(token.clone()),
            Action::ExpireToken { id: old.id.clone(), at_ms: now_ms + rotate.overlap_ms },
        ];
        let kept = keep(&shared, actions, &token, text, keyed).await;
        kept.or_else(|error| match error {
            StoreError::TokenExists(_) => Err(replaced(&shared, &old.id)?),
            StoreError::NoSuchToken(id) => Err(ended(&id)),
            other => Err(other.into()),
        })
    })
    .await
}

fn ended(id: &str) -> Problem {
    Problem::new(ApiCode::NotFound, format!("token {id:?} has ended"))
}

/// The name of the token that comes of rotating this one: its own, and the how manieth of its line it is.
fn successor(id: &str) -> String {
    let (first, n) = id.split_once('-').unwrap_or((id, "1"));
    format!("{first}-{}", n.parse::<u64>().unwrap_or(1) + 1)
}

fn replaced(app: &App, id: &str) -> Result<Problem, Problem> {
    let mut last = successor(id);
    while app.reads().token(&successor(&last))?.is_some() {
        last = successor(&last);
    }
    let text = format!("token {id:?} was rotated already, and replaced by {last:?}: rotate that one");
    Ok(Problem::new(ApiCode::TokenReplaced, text).with("by", last))
}

/// Let a token end at once.
#[utoipa::path(
    delete, path = "/v1/tokens/{id}", tag = "tokens", params(("id" = String, Path, description = "The token's name")),
    responses(
        (status = 204, description = "It has ended"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "Nobody could make another"),
    )
)]
pub(crate) async fn revoke(State(app): State<App>, Caller(caller): Caller, name: Name) -> Result<StatusCode, Problem> {
    caller.may(Scope::Admin)?;
    let token = find(&app, &name.0)?;
    let actions = vec![spare_admin(), Action::ExpireToken { id: token.id.clone(), at_ms: now_ms() }];
    match app.engine.store().submit(Submission { actions, answer: None }).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(StoreError::LastToken(_)) => {
            let text = "this is the last token that can make others; make another with the scope admin first";
            Err(Problem::new(ApiCode::LastAdmin, text))
        }
        Err(StoreError::NoSuchToken(id)) => Err(Problem::new(ApiCode::NotFound, format!("there is no token {id:?}"))),
        Err(error) => Err(error.into()),
    }
}
