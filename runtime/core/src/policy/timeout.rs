//! How long an attempt may take.

use crate::limits::{DEFAULT_STEP_TIMEOUT_MS, MAX_STEP_TIMEOUT_MS};

/// A time-out outside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidTimeout {
    /// The option's name.
    pub field: &'static str,
    /// What was given, in ms.
    pub value: u64,
    /// The most that it may be, in ms.
    pub max: u64,
}

impl std::fmt::Display for InvalidTimeout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is {}, but must be 1 to {} ms", self.field, self.value, self.max)
    }
}

impl std::error::Error for InvalidTimeout {}

/// The time-out of a step's attempts, in ms: its own, else its workflow's, else the host's.
///
/// # Errors
/// 0, or more than 24 hours.
pub fn step_timeout_ms(own: Option<u64>, workflow: Option<u64>) -> Result<u64, InvalidTimeout> {
    let value = own.or(workflow).unwrap_or(DEFAULT_STEP_TIMEOUT_MS);
    checked("timeoutMs", value, MAX_STEP_TIMEOUT_MS)
}

/// `value`, if it is 1 to `max`.
///
/// # Errors
/// When it is not.
pub fn checked(field: &'static str, value: u64, max: u64) -> Result<u64, InvalidTimeout> {
    if (1..=max).contains(&value) { Ok(value) } else { Err(InvalidTimeout { field, value, max }) }
}
