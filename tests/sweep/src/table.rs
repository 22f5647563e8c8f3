//! What a sweep found: for each kind of point how often a run died there, and how often it was none the worse for it.

use std::collections::BTreeMap;
use std::fmt;

/// Of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that died there.
    pub died: u32,
    /// Of them, those after which everything held.
    pub held: u32,
    /// Cases that never came to the point: what happens side by side took another order.
    pub missed: u32,
}

/// A case that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which, so that it can be run again.
    pub case: String,
    /// What did not hold.
    pub why: String,
}

/// A whole sweep.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// By kind.
    pub kinds: BTreeMap<String, Tally>,
    /// What did not hold.
    pub failures: Vec<Failure>,
}

impl Table {
    /// Takes another one in.
    pub fn add(&mut self, other: Self) {
        for (kind, tally) in other.kinds {
            let sum = self.kinds.entry(kind).or_default();
            sum.died += tally.died;
            sum.held += tally.held;
            sum.missed += tally.missed;
        }
        self.failures.extend(other.failures);
    }

    /// All cases that died.
    #[must_use]
    pub fn died(&self) -> u32 {
        self.kinds.values().map(|tally| tally.died).sum()
    }

    /// Of them, those after which everything held.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.kinds.values().map(|tally| tally.held).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<52} {:>6} {:>6} {:>7}", "the process dies", "cases", "held", "missed")?;
        for (kind, tally) in &self.kinds {
            writeln!(f, "{kind:<52} {:>6} {:>6} {:>7}", tally.died, tally.held, tally.missed)?;
        }
        let (held, missed) = self.kinds.values().fold((0, 0), |(h, m), t| (h + t.held, m + t.missed));
        writeln!(f, "{:<52} {:>6} {held:>6} {missed:>7}", "all", self.died())?;
        for failure in &self.failures {
            writeln!(f, "\n{}\n  {}", failure.case, failure.why)?;
        }
        Ok(())
    }
}
