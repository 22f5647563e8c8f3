//! The rules of tokens within a submission: they are checked in its transaction, so that no other submission comes in between.

use crate::apply::Refusal;
use crate::error::StoreError;
use crate::ledger::Rows;
use crate::submission::{Action, Token};

/// Refuses where the token has ended at this time, or is not there.
pub(crate) fn check_held(rows: &mut dyn Rows, id: &str, at_ms: u64) -> Result<(), Refusal> {
    match rows.token(id)? {
        Some(token) if token.expires_at_ms.is_none_or(|end_ms| end_ms > at_ms) => Ok(()),
        _ => Err(Refusal::Rule(StoreError::NoSuchToken(id.to_owned()))),
    }
}

/// Refuses where these actions would take the last lasting token with the scope away, or begin without one.
pub(crate) fn check_spared(rows: &mut dyn Rows, actions: &[Action], scope: &str) -> Result<(), Refusal> {
    let lasting = |token: &Token| token.expires_at_ms.is_none() && token.scopes.split(' ').any(|other| other == scope);
    let now = rows.tokens()?;
    let ends =
        |id: &str| actions.iter().any(|action| matches!(action, Action::ExpireToken { id: other, .. } if other == id));
    let new = actions.iter().filter_map(|action| match action {
        Action::AddToken(token) => Some(token),
        _ => None,
    });
    let spared = now.iter().filter(|token| !ends(&token.id)).chain(new).any(&lasting);
    if spared || !now.is_empty() && !now.iter().any(lasting) {
        return Ok(());
    }
    Err(Refusal::Rule(StoreError::LastToken(scope.to_owned())))
}
