//! A turn of the guest: where it is taken, with what beside it, and what comes of it. What that means for the run the machine decides.

use std::time::{Duration, Instant};

use stepwell_core::run::Input;
use stepwell_host::{TurnDeadline, TurnEnd};

use super::{Driver, until};
use crate::clock::real_now_ms;
use crate::long::{come_back, go_over};

/// A turn that is under way when its attempt is closed may end by itself within this: an interrupt costs the whole instance.
const GRACE_MS: u64 = 50;
/// After so many slices without a wait a run is a busy one.
const BUSY_SLICES: u32 = 4;
/// A turn that leaves more than this to be carried out keeps its thread for long.
const MUCH_OUTPUT: usize = 1_000;
/// So does one whose result is longer, in bytes.
const MUCH_BYTES: usize = 64 << 10;
/// What a body has to come to its end when it is told that its attempt was closed.
const EXPIRED_GRACE_MS: u64 = 1_000;

impl Driver {
    /// Whether it has been at work for so long, beside others who wait, that it goes on where it does not keep them waiting.
    pub(super) fn is_busy(&self) -> bool {
        self.slices >= BUSY_SLICES && self.writing.store().is_waited_for()
    }

    /// Whether its next turn is likely to keep others waiting for long.
    fn is_heavy(&self) -> bool {
        (self.slices >= BUSY_SLICES || self.lengths.are_long()) && self.writing.store().is_waited_for()
    }

    /// One turn of the guest, with timers and messages beside it, and what comes of it.
    pub(super) async fn turn(&mut self) {
        if self.is_heavy() {
            go_over().await;
        }
        let deadline = self.turn_deadline();
        let event = self.event.take();
        let Some(mut invocation) = self.invocation.take() else { return };
        let interrupt = invocation.interrupt_handle();
        // The attempt whose turn this is was closed, by a cancel for instance: its body need not run on.
        let mut voided =
            self.shared.lock().machine.turn_is_void().then(|| real_now_ms().saturating_add(EXPIRED_GRACE_MS));
        let began = Instant::now();
        let end = {
            let mut turn = std::pin::pin!(invocation.turn(event, deadline));
            loop {
                let due = self.due();
                tokio::select! {
                    biased;
                    end = &mut turn => break end,
                    // The turn is not over within a slice of its thread: what led to it need not wait for its end.
                    () = std::future::ready(()), if !self.writing.is_empty() => {
                        self.writing.hand_over(real_now_ms());
                    }
                    message = self.messages.recv() => {
                        if let Some(message) = message {
                            self.take(message);
                        }
                    }
                    () = until(due) => self.time(),
                    () = until(voided) => interrupt.interrupt(),
                    () = until(self.stop_at) => {}
                }
                if self.end.is_some() || self.stop_is_due() || self.shared.lock().machine.is_terminating() {
                    return;
                }
                if voided.is_none() && self.shared.lock().machine.turn_is_void() {
                    voided = Some(real_now_ms().saturating_add(GRACE_MS));
                }
            }
        };
        self.lengths.add(began.elapsed());
        // The instance stays only where it can be told something. What it leaves behind may be much memory.
        let quiet = matches!(end, TurnEnd::Quiet).then_some(invocation);
        // Much that is to be written is made ready where nobody waits for that.
        let much = self.shared.lock().machine.output_count() > MUCH_OUTPUT || is_large(&end);
        if !much && !self.is_busy() {
            come_back().await;
        }
        let input = match end {
            TurnEnd::Quiet => Input::Quiet,
            TurnEnd::Idle => Input::Idle,
            TurnEnd::Returned(result) => Input::Returned(result),
            TurnEnd::Trapped(trap) => Input::Trapped(trap.to_error()),
        };
        // Whatever a quiet instance holds, replay brings back.
        if matches!(input, Input::Quiet) && self.points().drops_here() && self.can_be_dropped() {
            return;
        }
        self.invocation = quiet;
        self.handle(input);
        if !self.is_busy() {
            come_back().await;
        }
    }

    fn turn_deadline(&self) -> TurnDeadline {
        let shared = self.shared.lock();
        let limit = shared.machine.turn_limit();
        let settings = self.engine.settings();
        let budget = if limit.of_body { settings.body_turn } else { settings.workflow_turn };
        let now_ms = shared.clock.now_ms();
        let at = limit.deadline_ms.filter(|at| *at != u64::MAX).map(|at| at.saturating_add(GRACE_MS));
        let at = at.and_then(|at| Instant::now().checked_add(Duration::from_millis(at.saturating_sub(now_ms))));
        TurnDeadline { budget, at }
    }
}

/// Whether a turn's end has a large value to be written.
fn is_large(end: &TurnEnd) -> bool {
    matches!(end, TurnEnd::Returned(Ok(result)) if result.len() > MUCH_BYTES)
}
