//! The reading side in memory.

use std::fmt;
use std::sync::{PoisonError, RwLockReadGuard};

use stepwell_core::ids::{Digest, RunId};

use super::{RunState, Shared, State, inbox_event};
use crate::error::{Result, StoreError};
use crate::rows::{
    Epoch, InboxEvent, LogPlace, LogRow, ModuleRow, NewModule, RunFilter, RunKey, RunList, RunRow, Unfinished,
    UnreadableRun,
};
use crate::store::{Reads, inbox_page};

/// The reading side of a store in memory.
pub struct MemoryReads(pub(super) Shared);

impl fmt::Debug for MemoryReads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryReads")
    }
}

impl MemoryReads {
    pub(super) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on the run's journal cannot be read, as after a fault of the disk.
    pub(super) fn damage_journal(&self, run: RunKey) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(found) = state.run_mut(run) {
            found.damaged = true;
        }
    }
}

impl Reads for MemoryReads {
    fn journal(&self, run: RunKey) -> Result<Vec<(u64, Vec<u8>)>> {
        let state = self.state();
        let Some(found) = state.run(run) else { return Ok(Vec::new()) };
        if found.damaged {
            return Err(StoreError::Corrupt(format!("the journal of run {run} was damaged by a test")));
        }
        Ok((0..).zip(found.journal.iter().cloned()).collect())
    }

    fn entries(&self, run: RunKey, from: u64, limit: u32) -> Result<Vec<(u64, Vec<u8>)>> {
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        Ok(self.journal(run)?.into_iter().skip(from).take(limit as usize).collect())
    }

    fn epochs(&self, _run: RunKey) -> Result<Vec<Epoch>> {
        // What is in memory is restored from nothing.
        Ok(Vec::new())
    }

    fn last_log(&self, run: RunKey) -> Result<Option<LogPlace>> {
        Ok(self.state().run(run).and_then(|found| found.log_places.keys().next_back().copied()))
    }

    fn logs(&self, run: RunKey, after: Option<LogPlace>, limit: u32) -> Result<Vec<LogRow>> {
        let state = self.state();
        let Some(found) = state.run(run) else { return Ok(Vec::new()) };
        let from = after.and_then(|place| found.log_places.get(&place)).map_or(0, |at| at + 1);
        Ok(found.logs.iter().skip(from).take(limit as usize).cloned().collect())
    }

    fn run(&self, run: &RunId) -> Result<Option<RunRow>> {
        let state = self.state();
        Ok(state.run_ids.get(run).and_then(|&key| state.shown(key)))
    }

    fn run_by_number(&self, run: RunKey) -> Result<Option<RunRow>> {
        Ok(self.state().shown(run))
    }

    fn runs(&self, filter: &RunFilter) -> Result<RunList> {
        let state = self.state();
        let wanted = |row: &RunRow| {
            filter.status.is_none_or(|status| row.status == status)
                && filter.workflow.as_ref().is_none_or(|workflow| row.workflow == *workflow)
                && filter.run_key.as_ref().is_none_or(|run_key| row.run_key.as_ref() == Some(run_key))
                && filter.parent.as_ref().is_none_or(|run| row.links.parent.as_ref().is_some_and(|(of, _)| of == run))
                && !(filter.open && row.status.is_finished())
                && !(filter.unknown && row.unknown == 0)
                && filter.tags.iter().all(|tag| row.tags.contains(tag))
                && filter.since_ms.is_none_or(|since_ms| row.created_at_ms >= since_ms)
                && filter.until_ms.is_none_or(|until_ms| row.created_at_ms < until_ms)
                && filter.before.is_none_or(|before| row.key < before)
        };
        let matching = state.runs.values().rev().filter(|found| wanted(&found.row));
        Ok(list(&state, matching.take(filter.limit as usize)))
    }

    fn unfinished(&self) -> Result<(Vec<Unfinished>, Vec<UnreadableRun>)> {
        let state = self.state();
        let open = state.runs.values().filter(|found| !found.row.status.is_finished());
        let open = open.map(|found| Unfinished {
            key: found.row.key,
            status: found.row.status,
            wake_at_ms: found.row.wake_at_ms,
            unseen: found.inbox.len() as u64 > found.inbox_seen,
            cancel: found.link.cancel,
            turn: state.queue.find(found.row.key).map(|entrant| entrant.turn),
        });
        Ok((open.collect(), Vec::new()))
    }

    fn due_timers(&self, now_ms: u64, limit: u32) -> Result<Vec<(u64, RunKey)>> {
        let state = self.state();
        Ok(state.timers.iter().take_while(|(due_ms, _)| *due_ms <= now_ms).take(limit as usize).copied().collect())
    }

    fn next_wake(&self) -> Result<Option<u64>> {
        Ok(self.state().timers.first().map(|(due_ms, _)| *due_ms))
    }

    fn inbox(&self, run: RunKey, after: u64) -> Result<Vec<InboxEvent>> {
        let state = self.state();
        let Some(found) = state.run(run) else { return Ok(Vec::new()) };
        let events = (1..).zip(&found.inbox).filter(|(number, _)| *number > after);
        inbox_page(events.map(|(number, mail)| Ok(inbox_event(number, mail))))
    }

    fn module(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        Ok(self.state().modules.get(digest).map(|module| module.bytes.clone()))
    }

    fn modules(&self, after: Option<&Digest>, limit: u32) -> Result<Vec<ModuleRow>> {
        let state = self.state();
        let following = state.modules.iter().filter(|(digest, _)| after.is_none_or(|after| *digest > after));
        Ok(following.take(limit as usize).map(|(_, module)| module_row(module)).collect())
    }
}

pub(super) fn module_row(module: &NewModule) -> ModuleRow {
    ModuleRow {
        digest: module.digest.clone(),
        description: module.description.clone(),
        size_bytes: module.bytes.len() as u64,
        added_at_ms: module.added_at_ms,
    }
}

fn list<'a>(state: &State, runs: impl Iterator<Item = &'a RunState>) -> RunList {
    let shown = runs.filter_map(|found| state.shown(found.row.key));
    let runs = shown.map(|row| RunRow { outcome: None, ..row }).collect();
    RunList { runs, unreadable: Vec::new() }
}
