//! What people ask of a run, at its task: the machine decides, the disk has it, and then they are answered.

use stepwell_core::run::{Granted, Machine, Refusal};
use stepwell_store::{RunChange, Status, Turn};

use super::Driver;
use crate::ask::{Answer, Ask, AskError, Question, Said};
use crate::clock::{random, real_now_ms};
use crate::commands::Shared;

impl Driver {
    pub(super) fn asked(&mut self, question: &Question, answer: Answer) {
        // What was before is handed over first: what is asked, what follows from it for the row and what is kept for the client are
        // one commit, and no change of the row takes another's place.
        self.carry_out();
        if self.end.is_some() {
            // The run has ended, or is set aside, by that: the next task answers.
            return;
        }
        self.writing.hand_over_any(real_now_ms());
        let ask = &question.ask;
        let decided = {
            let mut shared = self.shared.lock();
            let Shared { machine, clock, .. } = &mut *shared;
            if let Ask::Resume { on: Some((digest, entries)), .. } = ask
                && machine.ended().is_none()
            {
                if self.module.is_some() || machine.entries() != *entries {
                    // Whoever asked may have gone.
                    let _ = answer.send(Err(AskError::Busy));
                    return;
                }
                machine.repin(digest.clone(), clock.now_ms());
            }
            if let Ask::Retry { on: Some(entries), .. } = ask
                && machine.entries() != *entries
            {
                let _ = answer.send(Err(AskError::Busy));
                return;
            }
            decide(machine, ask, clock.now_ms())
        };
        let decided = decided.map(|said| self.as_set_aside(ask, said));
        if let Ok(said) = &decided {
            self.granted(ask, said.granted());
            if let Some(kept) = question.kept(said) {
                self.writing.keep(kept);
            }
        }
        self.carry_out();
        // Also a refusal is only true of what is on disk.
        let ticket = self.writing.hand_over_any(real_now_ms());
        let store = self.writing.store().clone();
        tokio::spawn(async move {
            let durable = match ticket {
                Some(ticket) => store.durable(ticket).await,
                None => Ok(()),
            };
            let said = match durable {
                Ok(()) => decided.map_err(AskError::Refused),
                Err(error) => Err(AskError::Store(error)),
            };
            // Whoever asked may have gone.
            let _ = answer.send(said);
        });
    }

    /// Of a run that was set aside the machine knows nothing: what it is asked is done once somebody resumes it, which is more than
    /// nothing then.
    pub(super) fn as_set_aside(&self, ask: &Ask, said: Said) -> Said {
        let over = {
            let shared = self.shared.lock();
            shared.machine.is_ending() || shared.machine.ended().is_some()
        };
        match ask {
            _ if !self.set_aside || over => said,
            Ask::Cancel { .. } | Ask::Resolve { .. } | Ask::NothingFollowed { .. }
                if said.granted() == Granted::Now =>
            {
                said.with(Granted::OnResume)
            }
            Ask::Resume { .. } => said.with(Granted::Now),
            _ => said,
        }
    }

    /// What follows for the task and the run's row. The row says, in the same commit, what a process that comes after this one has
    /// to do with the run.
    pub(super) fn granted(&mut self, ask: &Ask, granted: Granted) {
        let now_ms = real_now_ms();
        match ask {
            Ask::Terminate { .. } => {
                // Nobody polls the guest any more, and nothing that it was to be told is told.
                self.invocation = None;
                self.event = None;
                self.rebuilding = None;
                self.set_aside = false;
                self.wanted = true;
                self.status(Status::Running, Some("it is being terminated".to_owned()), now_ms);
            }
            Ask::Pause { .. } => {
                if granted == Granted::Now {
                    self.disarm();
                    let text = self.shared.lock().machine.pause_text();
                    self.status(Status::Paused, text, now_ms);
                    if !self.may_begin() {
                        self.turn = Some(Turn::Rests);
                    }
                }
            }
            // It stays where it is until the reason is gone, and its row says it; what was asked is on record.
            Ask::Cancel { .. } | Ask::Resolve { .. } | Ask::NothingFollowed { .. } if self.set_aside => {}
            Ask::Cancel { .. } if granted == Granted::OnResume => {
                let text = self.shared.lock().machine.pause_text();
                self.status(Status::Paused, text, now_ms);
            }
            Ask::Cancel { .. } | Ask::Resolve { .. } | Ask::NothingFollowed { .. } => self.goes_on(granted, now_ms),
            Ask::Resume { on, .. } => {
                self.set_aside = false;
                self.by_hand = self.invocation.is_none();
                self.goes_on(Granted::Now, now_ms);
                if let Some((digest, _)) = on {
                    let mut change = RunChange::to(Status::Queued, now_ms);
                    change.wake_at_ms = self.rests_until();
                    change.digest = Some(digest.clone());
                    self.writing.change(change, None);
                }
            }
            // Its row is that of a failed run: the outcome goes, and the module may be another.
            Ask::Retry { .. } => {
                // It begins again when it has a place, of which it is told.
                self.turn = Some(Turn::Waits);
                self.by_hand = true;
                self.engine.expects(self.key);
                let mut change = RunChange::to(Status::Queued, now_ms);
                change.digest = Some(self.shared.lock().machine.digest().clone());
                self.writing.change(change, None);
            }
        }
    }

    /// The run has something to do that no timer and no event will wake it for.
    fn goes_on(&mut self, granted: Granted, now_ms: u64) {
        if granted != Granted::Now || self.end.is_some() || self.shared.lock().machine.is_ending() {
            return;
        }
        // It begins when it was to begin.
        if let Some(at_ms) = self.rests_until() {
            self.status(Status::Queued, None, now_ms);
            self.engine.arm(at_ms, self.key);
            return;
        }
        if !self.may_begin() {
            self.get_in_line(now_ms);
            return;
        }
        self.wanted = true;
        // A row that says less would leave the run lying after a crash; one with a place has an instance, or is about to.
        let status = if self.place.is_some() { Status::Running } else { Status::Queued };
        if self.writing.status() != Status::Running {
            self.status(status, None, now_ms);
        }
    }

    pub(super) fn status(&mut self, status: Status, detail: Option<String>, now_ms: u64) {
        let mut change = RunChange::to(status, now_ms);
        change.detail = detail;
        change.wake_at_ms = self.rests_until();
        self.writing.change(change, None);
    }
}

fn decide(machine: &mut Machine, ask: &Ask, now_ms: u64) -> Result<Said, Refusal> {
    let granted = match ask {
        Ask::Resolve { step, finding, evidence, by } => {
            return machine.resolve(step, finding.clone(), evidence, by, now_ms).map(Said::Resolved);
        }
        Ask::Cancel { reason, by } => machine.cancel(reason.clone(), by, now_ms, random()),
        Ask::Terminate { reason, by } => machine.terminate(reason.clone(), by, now_ms, random()),
        Ask::Pause { reason, by } => machine.pause(reason, by, now_ms),
        Ask::Retry { retry, reason, by, .. } => {
            return machine.retry(retry, reason, by, now_ms).map(Said::Retried);
        }
        Ask::NothingFollowed { evidence, by } => machine.nothing_followed(evidence, by, now_ms),
        Ask::Resume { by, .. } => machine.unpause(by, now_ms, random()),
    };
    granted.map(Said::Granted)
}
