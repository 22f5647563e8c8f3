//! Whether a run may begin: how many runs of a workflow are under way at a time, and how many begin in a time. A function over what is
//! recorded; who is looked at next is the store's to find.
//!
//! A run has its place from its beginning to its end, whatever it does meanwhile. The rate is that of a sliding window, and exact: in
//! no window of `per_ms`, wherever it begins, do more than `runs` begin.

use super::fault::{Fault, planted};

/// The limits of a workflow. Without any, runs begin as they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Runs of the workflow that are under way at a time. With 0 none begins.
    pub runs: Option<u32>,
    /// Runs with the same concurrency key that are under way at a time. One without a key is not held to it.
    pub per_key: Option<u32>,
    /// Runs that begin in a time.
    pub rate: Option<Rate>,
}

/// How many runs begin in a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// So many.
    pub runs: u32,
    /// In any window of so many ms.
    pub per_ms: u64,
    /// For each concurrency key, not for the workflow. A run without a key is not held to it then.
    pub per_key: bool,
}

/// The greatest number of runs that a limit can be.
pub const MAX_RUNS: u32 = 1_000_000;
/// The greatest number of runs of a rate: the beginnings of one window are kept.
pub const MAX_RATE_RUNS: u32 = 100_000;
/// The longest window of a rate, in ms: 31 days.
pub const MAX_RATE_MS: u64 = 31 * 86_400_000;
/// The highest priority. The lowest is as far below 0, which is that of a run that names none.
pub const MAX_PRIORITY: i32 = 100;

/// A limit or priority outside its range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfRange {
    /// The field.
    pub field: &'static str,
    /// What was given.
    pub value: i64,
    /// The least.
    pub min: i64,
    /// The most.
    pub max: i64,
}

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is {}, but must be {} to {}", self.field, self.value, self.min, self.max)
    }
}

impl std::error::Error for OutOfRange {}

impl Limits {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The limits, where all of them are in their ranges.
    ///
    /// # Errors
    /// The first that is not.
    pub fn checked(self) -> Result<Self, OutOfRange> {
        let Self { runs, per_key, rate } = self;
        let in_range = |field, value: Option<i64>, min, max| match value {
            Some(value) if !(min..=max).contains(&value) => Err(OutOfRange { field, value, min, max }),
            _ => Ok(()),
        };
        in_range("concurrency.runs", runs.map(i64::from), 0, i64::from(MAX_RUNS))?;
        in_range("concurrency.perKey", per_key.map(i64::from), 1, i64::from(MAX_RUNS))?;
        in_range("rate.runs", rate.map(|rate| i64::from(rate.runs)), 1, i64::from(MAX_RATE_RUNS))?;
        let per_ms = rate.map(|rate| i64::try_from(rate.per_ms).unwrap_or(i64::MAX));
        in_range("rate.perMs", per_ms, 1, MAX_RATE_MS as i64)?;
        Ok(self)
    }
}

/// The priority, where it is one.
///
/// # Errors
/// When it is not.
pub fn checked_priority(priority: i32) -> Result<i32, OutOfRange> {
    if (-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority) {
        return Ok(priority);
    }
    let (value, max) = (i64::from(priority), i64::from(MAX_PRIORITY));
    Err(OutOfRange { field: "priority", value, min: -max, max })
}

/// What is recorded of a workflow and a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Runs of the workflow that have begun and not ended.
    pub under_way: u64,
    /// Those of them with the key. It need not be more exact than the limit per key.
    pub of_key: u32,
    /// When that run began after which so many others have begun that it is the last but `rate.runs - 1`, in ms since the Unix epoch: of
    /// the workflow, or with a rate per key of the key. `None` where there were not so many.
    pub begun_ms: Option<u64>,
}

/// What a run waits for that may not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// So many runs of its workflow are under way.
    Runs(u32),
    /// So many runs with its key are.
    PerKey(u32),
    /// So many runs of its workflow have begun lately.
    Rate {
        /// The time from which on it may begin, in ms since the Unix epoch.
        until_ms: u64,
    },
    /// So many runs with its key have.
    KeyRate {
        /// The time from which on it may begin, in ms since the Unix epoch.
        until_ms: u64,
    },
}

impl Wait {
    /// Whether others of the workflow that wait wait for the same, whatever their keys.
    #[must_use]
    pub fn is_for_all(self) -> bool {
        matches!(self, Self::Runs(_) | Self::Rate { .. })
    }

    /// The time at which it is over by itself, in ms since the Unix epoch.
    #[must_use]
    pub fn until_ms(self) -> Option<u64> {
        match self {
            Self::Rate { until_ms } | Self::KeyRate { until_ms } => Some(until_ms),
            Self::Runs(_) | Self::PerKey(_) => None,
        }
    }
}

/// Whether a run may begin now, with or without a key: `None` where it may, else what it waits for.
#[must_use]
pub fn waits_for(limits: &Limits, keyed: bool, standing: Standing, now_ms: u64) -> Option<Wait> {
    let keyed_too = keyed || planted(Fault::KeylessIsAKey);
    let under_way = standing.under_way.saturating_sub(planted(Fault::OneRunTooMany).into());
    let of_key = standing.of_key.saturating_sub(planted(Fault::OneOfAKeyTooMany).into());
    if let Some(runs) = limits.runs.filter(|runs| under_way >= u64::from(*runs)) {
        return Some(Wait::Runs(runs));
    }
    if let Some(runs) = limits.per_key.filter(|runs| keyed_too && of_key >= *runs) {
        return Some(Wait::PerKey(runs));
    }
    let rate = limits.rate.filter(|rate| keyed || !rate.per_key)?;
    let until_ms = standing.begun_ms?.saturating_add(rate.per_ms);
    if now_ms.saturating_add(planted(Fault::WindowTooShort).into()) >= until_ms {
        return None;
    }
    Some(if rate.per_key { Wait::KeyRate { until_ms } } else { Wait::Rate { until_ms } })
}
