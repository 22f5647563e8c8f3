//! What is known of an effect from the evidence on the wire.
//!
//! Whether a failure is worth retrying and what is known of its effect are two questions with two tables; both are here.

use serde::{Deserialize, Serialize};

use crate::contract::Evidence;
use crate::error::{Code, Error};

/// Whether the other side has done what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It has not.
    NotDone,
    /// It has.
    Done,
    /// It may have.
    Unknown,
}

/// Whether RFC 9110, section 9.2.1, calls the method safe: a request that changes nothing.
#[must_use]
pub fn is_safe_method(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "OPTIONS" | "TRACE")
}

/// Whether the host puts an `Idempotency-Key` on requests with this method unless told otherwise.
#[must_use]
pub fn carries_key_by_default(method: &str) -> bool {
    matches!(method, "POST" | "PATCH")
}

/// What one send of an unsafe request has shown. `renew_on` holds statuses on which the other side is known to do nothing.
#[must_use]
pub fn outcome_of(evidence: &Evidence, renew_on: &[u16]) -> Outcome {
    match *evidence {
        Evidence::NotSent => Outcome::NotDone,
        Evidence::Sent => Outcome::Unknown,
        Evidence::Answered(status) => match status {
            _ if status >= 400 && renew_on.contains(&status) => Outcome::NotDone,
            307 | 308 | 429 | 503 => Outcome::NotDone,
            200..=399 => Outcome::Done,
            408 | 409 | 425 => Outcome::Unknown,
            400..=499 => Outcome::NotDone,
            _ => Outcome::Unknown,
        },
    }
}

/// What is known after a further send under the same key: only a done ends an unknown, and nothing ends a done.
#[must_use]
pub fn merged(before: Outcome, sent: Outcome) -> Outcome {
    match (before, sent) {
        (Outcome::Done, _) | (_, Outcome::Done) => Outcome::Done,
        (Outcome::Unknown, _) | (_, Outcome::Unknown) => Outcome::Unknown,
        (before, Outcome::NotDone) => before,
    }
}

/// Why a request was not sent that something sent before it stands in the way of. The step becomes unknown by it.
#[must_use]
pub fn not_sent(why: &str) -> Error {
    let text = format!("the request was not sent: {why}. Find out what happened, then resolve the step");
    let mut error = Error::new(Code::OutcomeUnknown, text).never_retried();
    error.outcome_unknown = true;
    error
}

/// [`not_sent`], for a key that the other side may have forgotten.
#[must_use]
pub fn dead_key() -> Error {
    not_sent("the key under which this request may have happened is older than its `keyTtlMs`")
}

/// Whether a status is worth another attempt. 409 and 425 are where something under the key may have happened: the other side
/// may still be at it.
#[must_use]
pub fn is_retried_status(status: u16, key_outcome_unknown: bool) -> bool {
    match status {
        408 | 429 | 500 | 502 | 503 | 504 => true,
        409 | 425 => key_outcome_unknown,
        _ => false,
    }
}
