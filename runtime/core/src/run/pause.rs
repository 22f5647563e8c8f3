//! Pausing: no attempt starts, no timer fires and nothing is delivered until a person resumes the run. Attempts under way come to
//! their end, and what comes for the run is kept.

use super::ask::{Granted, Refusal, bounded_name, bounded_text};
use super::machine::Machine;
use crate::fault::{Fault, planted};
use crate::journal::entry::Record;

impl Machine {
    /// Pauses the run.
    ///
    /// # Errors
    /// When it has ended, or its end is decided.
    pub fn pause(&mut self, reason: &str, by: &str, now_ms: u64) -> Result<Granted, Refusal> {
        self.not_ending()?;
        if self.state.paused.is_some() {
            return Ok(Granted::Already);
        }
        self.record(now_ms, Record::Paused { reason: bounded_text(reason), by: bounded_name(by) });
        Ok(Granted::Now)
    }

    /// Ends the pause. What has fallen due meanwhile does so now.
    ///
    /// # Errors
    /// When the run has ended, or its end is decided.
    pub fn unpause(&mut self, by: &str, now_ms: u64, random: u64) -> Result<Granted, Refusal> {
        self.not_ending()?;
        if self.state.paused.is_none() {
            return Ok(Granted::Already);
        }
        self.record(now_ms, Record::Unpaused { by: bounded_name(by) });
        self.time(now_ms, random);
        Ok(Granted::Now)
    }

    /// Whether a person has paused the run.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.state.paused.is_some()
    }

    /// Who paused the run, and why.
    #[must_use]
    pub fn pause_text(&self) -> Option<String> {
        let hold = self.state.paused.as_ref()?;
        let reason = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
        let cancel = if self.state.cancel.is_some() { "; a request to cancel waits for it to be resumed" } else { "" };
        Some(format!("paused by {}{reason}{cancel}", hold.by))
    }

    /// Whether the pause holds this back. Each part of it can be broken by a planted fault.
    pub(super) fn held(&self, but_for: Fault) -> bool {
        self.state.paused.is_some() && !planted(but_for)
    }
}
