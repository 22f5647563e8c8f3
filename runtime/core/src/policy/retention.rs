//! How long runs are kept once they have ended. Without a word of the operator's: for ever.

use std::str::FromStr;

use crate::run::RunStatus;

/// For how long runs are kept after their end, in ms, by how they ended. `None`: for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    kept_ms: [Option<u64>; RunStatus::ALL.len()],
}

/// One rule of an operator's: `30d`, for all runs that have ended, or `succeeded=7d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    of: Option<RunStatus>,
    kept_ms: u64,
}

/// Why a text is no rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRule {
    /// The status before `=`.
    Status(String),
    /// The age.
    Age(String),
}

impl std::fmt::Display for NoRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status(text) => {
                write!(f, "{text:?} is no status of a run that has ended: succeeded, failed, cancelled, terminated")
            }
            Self::Age(text) => write!(f, "{text:?} is no age: a whole number with s, m, h or d, e.g. 30d"),
        }
    }
}

impl std::error::Error for NoRule {}

/// What is known of a run that may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stands {
    /// How it ended; `None` where it has not.
    pub ended: Option<RunStatus>,
    /// When that was, in ms since the Unix epoch.
    pub ended_ms: u64,
    /// Something that it did is unknown, and nobody has said what became of it.
    pub has_unknown: bool,
}

impl Retention {
    /// Of an operator's rules. A later one replaces an earlier one for the statuses that it is about.
    #[must_use]
    pub fn of(rules: &[Rule]) -> Self {
        let mut retention = Self::default();
        for rule in rules {
            for (status, kept_ms) in RunStatus::ALL.iter().zip(&mut retention.kept_ms) {
                if rule.of.is_none_or(|of| of == *status) {
                    *kept_ms = Some(rule.kept_ms);
                }
            }
        }
        retention
    }

    /// Whether anything is ever deleted.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.kept_ms.iter().all(Option::is_none)
    }

    /// Runs that ended so are deleted if they did before this, in ms since the Unix epoch. `None`: they are kept.
    #[must_use]
    pub fn ended_before_ms(&self, status: RunStatus, now_ms: u64) -> Option<u64> {
        let at = RunStatus::ALL.iter().position(|of| *of == status)?;
        self.kept_ms[at].map(|kept_ms| now_ms.saturating_sub(kept_ms))
    }

    /// Whether a run may be deleted now. One that goes on, or of which something is unknown, never is.
    #[must_use]
    pub fn lets_go(&self, run: Stands, now_ms: u64) -> bool {
        let before_ms = run.ended.and_then(|status| self.ended_before_ms(status, now_ms));
        !run.has_unknown && before_ms.is_some_and(|before_ms| run.ended_ms < before_ms)
    }
}

impl FromStr for Rule {
    type Err = NoRule;

    fn from_str(text: &str) -> Result<Self, NoRule> {
        let (of, age) = match text.split_once('=') {
            Some((status, age)) => {
                let of = RunStatus::ALL.into_iter().find(|of| of.as_str() == status);
                (Some(of.ok_or_else(|| NoRule::Status(status.to_owned()))?), age)
            }
            None => (None, text),
        };
        Ok(Self { of, kept_ms: age_ms(age).ok_or_else(|| NoRule::Age(age.to_owned()))? })
    }
}

fn age_ms(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit_ms = match unit {
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    // What `parse` takes beside digits is no age.
    if !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(unit_ms)
}
