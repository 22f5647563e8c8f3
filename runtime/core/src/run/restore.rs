//! Restoring: the run goes on from a copy of its journal, in an epoch of its own. What it did after the copy was made is not known.
//!
//! So nothing of it goes on before a person has had a look (it is paused), every step that must not happen twice and may have been
//! attempted meanwhile is unknown, and no key and no attempt's number is issued that the time after the copy may have seen.

use std::sync::Arc;

use super::ask::{Granted, Refusal, bounded_name, bounded_text};
use super::machine::Machine;
use super::state::Step;
use crate::fault::{Fault, planted};
use crate::journal::codec;
use crate::journal::entry::{Entry, Record, Restored};
use crate::policy::key;

impl Machine {
    /// Begins a new epoch of a run that was just loaded. `epoch` is a name that no other restoration has. With `in_doubt` the run
    /// may have gone on after the copy; it is paused then, for this `reason`.
    ///
    /// # Errors
    /// When the run has ended: nothing of it goes on. Nothing is recorded then.
    pub fn restore(
        &mut self,
        (epoch, in_doubt): (&str, bool),
        reason: &str,
        by: &str,
        now_ms: u64,
        random: u64,
    ) -> Result<(), Refusal> {
        self.not_over()?;
        let restored = Restored { epoch: bounded_name(epoch), in_doubt, by: bounded_name(by) };
        self.record(now_ms, Record::Restored(restored));
        // Each is over, whatever became of it.
        self.end_lost_attempts(now_ms, random);
        let goes_on = self.ending.is_none() && self.state.paused.is_none();
        if in_doubt && goes_on && !planted(Fault::RestoreGoesOn) {
            self.record(now_ms, Record::Paused { reason: bounded_text(reason), by: bounded_name(by) });
        }
        Ok(())
    }

    /// A person has found out that nothing was done for the run after the copy but what its journal has: steps that were unknown for
    /// no other reason are attempted, and others that begin are not in doubt. `evidence` says how they found it out.
    ///
    /// # Errors
    /// When the run has ended, or its end is decided.
    pub fn nothing_followed(&mut self, evidence: &str, by: &str, now_ms: u64) -> Result<Granted, Refusal> {
        self.not_ending()?;
        if !self.state.in_doubt {
            return Ok(Granted::Already);
        }
        self.record(now_ms, Record::NothingFollowed { evidence: bounded_text(evidence), by: bounded_name(by) });
        Ok(if self.state.paused.is_some() { Granted::OnResume } else { Granted::Now })
    }

    /// Whether the run was restored from a copy and may have gone on after that.
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.state.in_doubt
    }

    /// An entry that a run has after its first, when this one starts it. While this one is in doubt it may have started the same run
    /// after the copy too, under the same name: what that one did then is in doubt as well.
    #[must_use]
    pub fn doubt_handed_on(&self, at_ms: u64) -> Option<Vec<u8>> {
        let epoch = self.state.epoch.as_deref().filter(|_| self.state.in_doubt)?.to_owned();
        let restored = Restored { epoch, in_doubt: true, by: self.run_id().to_string() };
        Some(codec::encode(&Entry { at_ms, record: Record::Restored(restored) }))
    }

    /// The epoch's name, for keys that are issued now.
    pub(super) fn epoch_in_keys(&self) -> Option<&str> {
        self.state.epoch.as_deref().filter(|_| !planted(Fault::SameKeysAfterRestore))
    }

    /// The key of the step, which is that of the epoch in which it began.
    pub(super) fn operation_key(&self, step: &Step) -> String {
        let epoch: Option<&Arc<str>> = step.epoch.as_ref();
        key::operation_key(self.run_id(), &step.begun.step, epoch.map(AsRef::as_ref))
    }
}
