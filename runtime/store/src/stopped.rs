//! Runs that were stopped by a failed write: which of their batches are lost, and why.
//!
//! Batches are known by their place in the queue. A failure loses the batch at its place and all later ones of the run, up to
//! the place where the run was recovered. So nothing needs to be kept of batches that went well.

use std::collections::HashMap;

use crate::error::{Result, StoreError};
use crate::rows::RunKey;

#[derive(Default)]
pub(crate) struct Stopped(HashMap<RunKey, Vec<Loss>>);

/// Places `from..until` are lost; without `until`, all from `from` on.
struct Loss {
    from: u64,
    until: Option<u64>,
    cause: StoreError,
}

impl Loss {
    fn covers(&self, number: u64) -> bool {
        number >= self.from && self.until.is_none_or(|until| number < until)
    }
}

impl Stopped {
    /// Whether the write is lost, and why: its own error for the one that stopped the run, `Stopped` for those behind it.
    pub(crate) fn check(&self, run: RunKey, number: u64) -> Result<()> {
        self.check_all(run, (number, number))
    }

    /// The same for a batch whose parts are at places before its own, from the first of them to its own.
    pub(crate) fn check_all(&self, run: RunKey, (first, number): (u64, u64)) -> Result<()> {
        let losses = self.0.get(&run).map_or(&[][..], Vec::as_slice);
        match losses.iter().find(|loss| loss.covers(number)) {
            None => Ok(()),
            Some(loss) if loss.from >= first => Err(loss.cause.clone()),
            Some(loss) => Err(StoreError::Stopped { run, cause: Box::new(loss.cause.clone()) }),
        }
    }

    /// Stops the run at this batch, unless it has been stopped before it.
    pub(crate) fn stop(&mut self, run: RunKey, number: u64, cause: StoreError) {
        if self.check(run, number).is_ok() {
            self.0.entry(run).or_default().push(Loss { from: number, until: None, cause });
        }
    }

    /// Lets the run's batches pass again from this place in the queue on.
    pub(crate) fn recover(&mut self, run: RunKey, from: u64) {
        for loss in self.0.get_mut(&run).into_iter().flatten() {
            loss.until.get_or_insert(from);
        }
    }

    /// The same for all runs.
    pub(crate) fn recover_all(&mut self, from: u64) {
        for loss in self.0.values_mut().flatten() {
            loss.until.get_or_insert(from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_covers_what_follows_until_the_recovery() {
        let mut stopped = Stopped::default();
        stopped.stop(1, 5, StoreError::Closed);
        stopped.stop(1, 6, StoreError::DiskFull(String::new()));
        assert_eq!(stopped.check(1, 4), Ok(()));
        assert_eq!(stopped.check(1, 5), Err(StoreError::Closed));
        let behind = StoreError::Stopped { run: 1, cause: Box::new(StoreError::Closed) };
        assert_eq!(stopped.check(1, 6), Err(behind));
        assert_eq!(stopped.check(2, 6), Ok(()));
        // The cause is a part's of its own.
        assert_eq!(stopped.check_all(1, (4, 8)), Err(StoreError::Closed));
        assert!(matches!(stopped.check_all(1, (6, 8)), Err(StoreError::Stopped { .. })));

        stopped.recover(1, 8);
        assert!(stopped.check(1, 7).is_err());
        assert_eq!(stopped.check(1, 8), Ok(()));
        stopped.stop(1, 9, StoreError::Closed);
        assert_eq!(stopped.check(1, 8), Ok(()));
        assert!(stopped.check(1, 10).is_err());
    }
}
