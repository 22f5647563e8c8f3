//! Restoring a database from a copy: each of its runs that is not over begins a new epoch, as the core decides it, and waits for a
//! person. Nothing is driven here, and no engine is open on the directory.

use stepwell_core::run::{Machine, Mode, Output};
use stepwell_store::{Append, Epoch, Restoration, Restored, RunChange, RunInCopy, RunRow, Status, StoreError};

use crate::clock::{random, real_now_ms};
use crate::driver::unknown_text;

/// How a copy is restored.
pub struct RestoreAs<'a> {
    /// Which copy, and where.
    pub what: Restoration<'a>,
    /// Nothing was done for any run after the copy was made. Else nobody knows, and runs are paused.
    pub nothing_followed: bool,
    /// Who restores it.
    pub by: &'a str,
    /// Why a run is paused, or a schedule, from when the copy has its newest change (in ms since the Unix epoch).
    pub reason: &'a dyn Fn(u64) -> String,
}

impl std::fmt::Debug for RestoreAs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestoreAs").field("what", &self.what).field("by", &self.by).finish_non_exhaustive()
    }
}

/// What was restored, and in which epoch it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InNewEpoch {
    /// What was restored.
    pub restored: Restored,
    /// The epoch's name, which stands in keys from now on.
    pub epoch: String,
    /// Runs that cannot be read, by their numbers inside, and why. They are set aside.
    pub unreadable: Vec<(i64, String)>,
}

/// Makes a copy the database of a data directory, in a new epoch.
///
/// # Errors
/// Those of [`stepwell_store::restore`].
pub fn restore(how: &RestoreAs<'_>) -> Result<InNewEpoch, StoreError> {
    // No other restoration has it, also not one of the same copy.
    let epoch = format!("{:x}", random());
    let mut unreadable = Vec::new();
    let begins = Epoch { name: epoch.clone(), in_doubt: !how.nothing_followed, by: how.by.to_owned() };
    let restored = stepwell_store::restore(how.what, &begins, how.reason, &mut |run| {
        let (key, newest_ms) = (run.key, run.newest_ms);
        Ok(begun_anew(how, &epoch, run).unwrap_or_else(|reason| {
            unreadable.push((key, reason.clone()));
            let mut change = RunChange::to(Status::Paused, real_now_ms());
            change.detail = Some(format!("{}; and the run cannot be read: {reason}", (how.reason)(newest_ms)));
            Append::change(key, change)
        }))
    })?;
    Ok(InNewEpoch { restored, epoch, unreadable })
}

/// What is written to a run. The error is why it cannot be read.
fn begun_anew(how: &RestoreAs<'_>, epoch: &str, run: RunInCopy) -> Result<Append, String> {
    let (row, journal) = (run.row.map_err(|e| e.to_string())?, run.journal.map_err(|e| e.to_string())?);
    let first_seq = journal.len() as u64;
    let mut machine = Machine::load(&journal, None, Mode::Continue).map_err(|error| error.to_string())?;
    let reason = (how.reason)(run.newest_ms);
    let in_doubt = !how.nothing_followed;
    if machine.restore((epoch, in_doubt), &reason, how.by, real_now_ms(), random()).is_err() {
        // It is over, whatever its row says.
        return Ok(Append::entries(run.key, first_seq, Vec::new()));
    }
    let mut entries = Vec::new();
    for output in machine.outputs() {
        match output {
            Output::Append { bytes, .. } => entries.push(bytes),
            Output::Stopped(mismatch) => return Err(mismatch.to_string()),
            // Nothing of it is live.
            _ => {}
        }
    }
    let mut append = Append::entries(run.key, first_seq, entries);
    append.unknown = Some(machine.unknown_count());
    Ok(if machine.is_paused() { append.with_change(paused(&machine, &row)) } else { append })
}

fn paused(machine: &Machine, row: &RunRow) -> RunChange {
    let mut change = RunChange::to(Status::Paused, real_now_ms());
    let texts = [machine.pause_text(), unknown_text(&machine.unknown_steps())];
    change.detail = Some(texts.into_iter().flatten().collect::<Vec<_>>().join("; "));
    // One that was started for later begins then, once it is resumed.
    change.wake_at_ms = row.wake_at_ms.filter(|_| matches!(row.status, Status::Queued | Status::Paused));
    change
}
