//! How a request that got no answer is told: the evidence, and an error that says where and why.
//!
//! No text here holds a header's value, so none can hold a secret.

use stepwell_core::contract::{Evidence, Response};
use stepwell_core::error::{Code, Error};

use super::destination::Target;

/// What came of a request: how far it got, and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What the wire can tell. When in doubt it is `Sent`.
    pub evidence: Evidence,
    /// The answer, or why there is none. An error may stand beside `Answered`: the status is known, the answer cannot be given.
    pub answer: Result<Response, Error>,
}

impl Outcome {
    pub(super) fn failed(evidence: Evidence, error: Error) -> Self {
        Self { evidence, answer: Err(error) }
    }
}

/// Why a request under way was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    TornDown,
    TimedOut { after_ms: u64 },
}

pub(super) fn stopped(stop: Stop, method: &str, target: &Target, evidence: Evidence) -> Outcome {
    let progress = if evidence == Evidence::NotSent { "nothing of it had left" } else { "it had left" };
    let error = match stop {
        Stop::TimedOut { after_ms } => Error::new(
            Code::RequestTimeout,
            format!("{method} {target}: no complete answer within {after_ms} ms; {progress}"),
        ),
        Stop::TornDown => Error::new(
            if evidence == Evidence::NotSent { Code::ConnectFailed } else { Code::RequestFailed },
            format!("{method} {target}: torn down with its attempt; {progress}"),
        ),
    };
    Outcome::failed(evidence, error)
}

pub(super) fn connect_failed(method: &str, target: &Target, why: &str) -> Outcome {
    let message = format!("{method} {target}: {why}; nothing was sent");
    Outcome::failed(Evidence::NotSent, Error::new(Code::ConnectFailed, message))
}

/// An error and what is behind it, in one line. Links that only repeat the one before them are left out.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
