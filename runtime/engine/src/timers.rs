//! Wakes runs whose time has come. One task for all of them; each costs a place in a sorted set.

use std::time::Duration;

use crate::clock::real_now_ms;
use crate::engine::Engine;
use crate::points::Moment;

/// Runs woken in one go before others have their turn.
const AT_ONCE: usize = 256;
/// The longest rest: a clock that is set forward is noticed within it.
const LONGEST_REST: Duration = Duration::from_secs(60);

/// Starts the task. It ends with the engine.
pub(crate) fn start(engine: &Engine) {
    let weak = engine.downgrade();
    let changed = engine.timers_changed().clone();
    tokio::spawn(async move {
        loop {
            let Some(engine) = weak.upgrade() else { return };
            let now_ms = real_now_ms();
            let mut due = Vec::new();
            let next = {
                let mut timers = engine.timers();
                while let Some(&(at_ms, run)) = timers.first().filter(|_| due.len() < AT_ONCE) {
                    if at_ms > now_ms {
                        break;
                    }
                    timers.remove(&(at_ms, run));
                    due.push(run);
                }
                timers.first().map(|(at_ms, _)| *at_ms)
            };
            for run in due {
                engine.settings().points.pass(Moment::Waking).await;
                engine.wake(run);
            }
            // Not held while this rests: whoever drops the engine closes the database with it.
            drop(engine);
            let rest = next.map_or(LONGEST_REST, |at_ms| Duration::from_millis(at_ms.saturating_sub(now_ms)));
            if rest.is_zero() {
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                () = tokio::time::sleep(rest.min(LONGEST_REST)) => {}
                () = changed.notified() => {}
            }
        }
    });
}
