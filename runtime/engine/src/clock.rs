//! Real time and chance, as the machine is given them.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Ms since the Unix epoch. Within a process it goes on at its own pace where the system's clock is set back, so that nothing
/// which waits is delayed by that; where that is set forward, or the machine has slept, it follows.
pub(crate) fn real_now_ms() -> u64 {
    static START: LazyLock<(Instant, u64)> = LazyLock::new(|| (Instant::now(), wall_ms()));
    let (started, at_start_ms) = *START;
    let elapsed_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    wall_ms().max(at_start_ms.saturating_add(elapsed_ms))
}

/// The clock on the wall, in ms since the Unix epoch: for what is to happen at a time of day. It follows one that is set back.
pub(crate) fn wall_now_ms() -> u64 {
    wall_ms()
}

fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A number that is uniform over all of `u64`.
pub(crate) fn random() -> u64 {
    // A version 4 id is random but for six bits: two of them make 64 that are.
    let (a, b) = (uuid::Uuid::new_v4().as_u128(), uuid::Uuid::new_v4().as_u128());
    ((a >> 96) as u64) << 32 | (b >> 96) as u64
}

/// When a parked run is to go on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parked {
    /// By its own clock.
    pub(crate) due_ms: u64,
    /// In real time.
    pub(crate) wake_at_ms: u64,
}

/// A run's clock: real time, put forward where the run has already seen a later one. So a clock that was set back, or sleeps that
/// were skipped, do not make what follows wait.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RunClock {
    ahead_ms: u64,
}

impl RunClock {
    /// The clock of a run whose journal ends at this time. `parked`, of a run that waits without an instance: what it waits for, by
    /// its own clock and in real time. So its clock has gone on meanwhile as real time has.
    pub(crate) fn after(recorded_ms: u64, parked: Option<Parked>) -> Self {
        let then_ms = parked.map_or(0, |Parked { due_ms, wake_at_ms }| due_ms.saturating_sub(wake_at_ms));
        Self { ahead_ms: recorded_ms.saturating_sub(real_now_ms()).max(then_ms) }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        real_now_ms().saturating_add(self.ahead_ms)
    }

    /// A time of the run's as a real one.
    pub(crate) fn to_real_ms(self, at_ms: u64) -> u64 {
        at_ms.saturating_sub(self.ahead_ms)
    }

    /// Puts the clock forward to this time of the run's.
    pub(crate) fn skip_to(&mut self, at_ms: u64) {
        self.ahead_ms = self.ahead_ms.saturating_add(at_ms.saturating_sub(self.now_ms()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_goes_on_while_its_run_is_parked() {
        const MONTH_MS: u64 = 30 * 86_400_000;
        let now_ms = real_now_ms();
        // Recorded a month ahead, parked for a second, and woken when that is over.
        let recorded_ms = now_ms + MONTH_MS - 1_000;
        let clock = RunClock::after(recorded_ms, Some(Parked { due_ms: now_ms + MONTH_MS, wake_at_ms: now_ms }));
        assert!(clock.now_ms() >= now_ms + MONTH_MS, "what it waited for is due");
        // One that is not ahead is real time.
        assert!(RunClock::after(now_ms - 5, Some(Parked { due_ms: now_ms + 7, wake_at_ms: now_ms + 7 })).ahead_ms == 0);
    }
}
