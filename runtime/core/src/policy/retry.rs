//! When a failed attempt is followed by another, and how long after.
//!
//! `base = min(maxMs, initialMs * multiplier^(n-1))` after failure number n; the delay is uniform in `[base*(1-jitter), base]`.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::contract::RetryFields;
use crate::error::Retryability;

/// The longest delay that a policy or a retry-after may name, in ms: 24 hours.
pub const MAX_DELAY_MS: u64 = 86_400_000;
/// The most attempts that a policy may allow.
pub const MAX_ATTEMPTS: u32 = 100;

/// A policy with every field decided and within its range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryPolicy {
    /// Attempts in all, the first included: 1 to 100.
    pub max_attempts: u32,
    /// Delay before the second attempt, in ms.
    pub initial_ms: u64,
    /// Longest delay, in ms: 1 to 86,400,000.
    pub max_ms: u64,
    /// Growth per attempt: 1 to 10.
    pub multiplier: f64,
    /// The share of the delay that is random: 0 to 1.
    pub jitter: f64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 5, initial_ms: 1_000, max_ms: 600_000, multiplier: 2.0, jitter: 0.2 }
    }
}

/// A field outside its range: which one, what was given, what it may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    /// The field, as it is written in a policy.
    pub field: String,
    /// The value that was given.
    pub value: String,
    /// What it may be.
    pub range: String,
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "retry policy: `{}` is {}, but must be {}", self.field, self.value, self.range)
    }
}

impl std::error::Error for InvalidField {}

impl RetryPolicy {
    /// This policy with the fields that are given in place of its own.
    ///
    /// # Errors
    /// The first field outside its range.
    pub fn overridden(self, fields: &RetryFields) -> Result<Self, InvalidField> {
        let policy = Self {
            max_attempts: fields.max_attempts.unwrap_or(self.max_attempts),
            initial_ms: fields.initial_ms.unwrap_or(self.initial_ms),
            max_ms: fields.max_ms.unwrap_or(self.max_ms),
            multiplier: fields.multiplier.unwrap_or(self.multiplier),
            jitter: fields.jitter.unwrap_or(self.jitter),
        };
        let check = |ok: bool, field: &str, value: &dyn fmt::Display, range: &str| {
            if ok {
                return Ok(());
            }
            Err(InvalidField { field: field.to_owned(), value: value.to_string(), range: range.to_owned() })
        };
        check((1..=MAX_ATTEMPTS).contains(&policy.max_attempts), "maxAttempts", &policy.max_attempts, "1 to 100")?;
        check((1..=MAX_DELAY_MS).contains(&policy.max_ms), "maxMs", &policy.max_ms, "1 to 86400000 (24 h)")?;
        // NaN is in no range.
        check((1.0..=10.0).contains(&policy.multiplier), "multiplier", &policy.multiplier, "1 to 10")?;
        check((0.0..=1.0).contains(&policy.jitter), "jitter", &policy.jitter, "0 to 1")?;
        Ok(policy)
    }

    /// The delay after failure number `failure` (from 1) before jitter, in ms, rounded down.
    #[must_use]
    pub fn base_delay_ms(&self, failure: u32) -> u64 {
        let exponent = i32::try_from(failure.saturating_sub(1)).unwrap_or(i32::MAX);
        let grown = self.initial_ms as f64 * self.multiplier.powi(exponent);
        // A float too large for u64, infinity included, saturates in the cast; NaN cannot arise from these ranges but for
        // 0 * infinity, which casts to 0 as it should.
        (grown as u64).min(self.max_ms)
    }

    /// The delay after failure number `failure`, in ms. `random` is uniform over all of `u64`.
    #[must_use]
    pub fn delay_ms(&self, failure: u32, random: u64) -> u64 {
        let base = self.base_delay_ms(failure);
        if base == 0 {
            return 0;
        }
        // The random share is rounded down, so that no delay lies below the interval.
        let share = (base as f64 * self.jitter) as u64;
        let low = base.saturating_sub(share).max(1);
        low + random % (base - low + 1)
    }

    /// What follows failure number `failure`.
    #[must_use]
    pub fn after_failure(&self, failure: u32, retryability: Retryability, random: u64) -> Verdict {
        if failure >= self.max_attempts {
            return Verdict::GiveUp;
        }
        match retryability {
            Retryability::Never => Verdict::GiveUp,
            Retryability::AfterMs(ms) => Verdict::RetryIn(ms.min(MAX_DELAY_MS)),
            Retryability::Retry => Verdict::RetryIn(self.delay_ms(failure, random)),
        }
    }
}

/// What follows a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Another attempt after this many ms.
    RetryIn(u64),
    /// The step has failed.
    GiveUp,
}

/// Reads a policy from JSON, as a person or a definition writes it.
///
/// # Errors
/// An unknown field, a value of the wrong form, or one outside its range: each by name.
pub fn parse_fields(value: &serde_json::Value) -> Result<RetryFields, InvalidField> {
    let invalid = |field: &str, value: &serde_json::Value, range: &str| InvalidField {
        field: field.to_owned(),
        value: value.to_string(),
        range: range.to_owned(),
    };
    let object = value.as_object().ok_or_else(|| invalid("retry", value, "an object"))?;
    let mut fields = RetryFields::default();
    for (name, value) in object {
        let whole = || whole_number(value).ok_or_else(|| invalid(name, value, "a whole number, 0 or more"));
        let number = || value.as_f64().ok_or_else(|| invalid(name, value, "a finite number"));
        match name.as_str() {
            "maxAttempts" => {
                fields.max_attempts = Some(u32::try_from(whole()?).map_err(|_| invalid(name, value, "1 to 100"))?);
            }
            "initialMs" => fields.initial_ms = Some(whole()?),
            "maxMs" => fields.max_ms = Some(whole()?),
            "multiplier" => fields.multiplier = Some(number()?),
            "jitter" => fields.jitter = Some(number()?),
            _ => {
                let known = "one of maxAttempts, initialMs, maxMs, multiplier, jitter";
                return Err(invalid(name, value, &format!("left out: a field is {known}")));
            }
        }
    }
    RetryPolicy::default().overridden(&fields)?;
    Ok(fields)
}

/// The whole number, also where it is written as `1e3` or `5.0`; beyond 2^53 only where it is written in digits.
fn whole_number(value: &serde_json::Value) -> Option<u64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = || value.as_f64().filter(|f| f.fract() == 0.0 && (0.0..=EXACT).contains(f)).map(|f| f as u64);
    value.as_u64().or_else(float)
}
