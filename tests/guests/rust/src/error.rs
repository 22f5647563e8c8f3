//! Errors of the guest's own.

use crate::contract::{Error, Retryability};

/// An error that is retried by the step's policy.
pub(crate) fn new(code: &str, message: &str) -> Error {
    Error {
        code: code.to_owned(),
        name: None,
        message: message.to_owned(),
        details: None,
        causes: Vec::new(),
        retryability: Retryability::Retry,
        outcome_unknown: false,
    }
}

/// The same error, after which no attempt is made.
pub(crate) fn never_retried(error: Error) -> Error {
    Error { retryability: Retryability::Never, ..error }
}

/// The same error, after which the next attempt is made once so many ms have passed.
pub(crate) fn retried_after(error: Error, ms: u64) -> Error {
    Error { retryability: Retryability::AfterMs(ms), ..error }
}
