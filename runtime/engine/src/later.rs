//! Runs that something of the machine's stopped, a full disk for one: they are taken up anew after a while, a longer one each time,
//! for as long as it takes. None of that counts as a recovery of theirs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stepwell_store::RunKey;

/// The first wait, in ms. Each is twice the one before, up to [`DOUBLINGS`] times.
const FIRST_MS: u64 = 2_000;
/// Up to some four minutes.
const DOUBLINGS: u32 = 7;

/// How often each was tried in vain.
#[derive(Default)]
pub(crate) struct Later(Mutex<HashMap<RunKey, u32>>);

impl Later {
    /// The run was stopped: in how many ms it is tried again. Not all of them at once.
    pub(crate) fn stopped(&self, run: RunKey) -> u64 {
        let mut times = self.times();
        let times = times.entry(run).or_default();
        let wait_ms = FIRST_MS << (*times).min(DOUBLINGS);
        *times = times.saturating_add(1);
        wait_ms + run.unsigned_abs() % (wait_ms / 4)
    }

    /// Whether the run is being tried again.
    pub(crate) fn tries(&self, run: RunKey) -> bool {
        self.times().contains_key(&run)
    }

    /// The run has gone on.
    pub(crate) fn gone_on(&self, run: RunKey) {
        self.times().remove(&run);
    }

    fn times(&self) -> MutexGuard<'_, HashMap<RunKey, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_longer_than_the_one_before_up_to_a_limit() {
        let later = Later::default();
        let waits: Vec<u64> = (0..10).map(|_| later.stopped(8_001)).collect();
        assert!(waits.windows(2).all(|pair| pair[0] <= pair[1]), "{waits:?}");
        assert!((FIRST_MS..2 * FIRST_MS).contains(&waits[0]) && waits[9] < 400_000, "{waits:?}");
        assert!(later.tries(8_001) && !later.tries(1));
        later.gone_on(8_001);
        assert!(!later.tries(8_001) && later.stopped(8_001) == waits[0]);
    }
}
