//! The queue in memory: looked through from its beginning each time, so that what an index has to bring is told from it.

use std::collections::BTreeMap;

use stepwell_core::policy::admission::Limits;

use super::reads::MemoryReads;
use super::{State, Transaction};
use crate::admission;
use crate::error::Result;
use crate::queue::{Entrant, InQueue, LimitsRow, Line, QueueCounts, QueueReads, QueueRows, Rank, Turn};
use crate::rows::RunKey;
use crate::status::Status;
use crate::store::QueueStands;

/// All of it. It is put back as a whole when a transaction is lost.
#[derive(Clone, Default)]
pub(super) struct Queue {
    limits: BTreeMap<String, LimitsRow>,
    changes: Vec<LimitsRow>,
    entrants: BTreeMap<RunKey, Entrant>,
    /// Lines that are closed, and until when, by workflow and key.
    closed: BTreeMap<(String, String), Option<u64>>,
    /// When runs began under a rate, in order, by workflow and key.
    begun: BTreeMap<(String, String), Vec<u64>>,
}

impl Queue {
    pub(super) fn forget(&mut self, run: RunKey) {
        self.entrants.remove(&run);
    }

    pub(super) fn find(&self, run: RunKey) -> Option<&Entrant> {
        self.entrants.get(&run)
    }

    fn waiting<'a>(&'a self, workflow: &'a str) -> impl Iterator<Item = &'a Entrant> {
        self.entrants.values().filter(move |entrant| entrant.workflow == workflow && entrant.turn == Turn::Waits)
    }
}

fn place(workflow: &str, key: &str) -> (String, String) {
    (workflow.to_owned(), key.to_owned())
}

impl QueueReads for State {
    fn limits(&self, workflow: &str) -> Result<Option<Limits>> {
        Ok(self.queue.limits.get(workflow).map(|row| row.limits))
    }

    fn entrant(&self, run: RunKey) -> Result<Option<Entrant>> {
        Ok(self.queue.find(run).cloned())
    }

    fn under_way(&self, workflow: &str) -> Result<u64> {
        let to_come = |run| self.queue.find(run).is_some_and(|entrant| entrant.turn.is_to_come());
        let open = self.runs.values().filter(|found| {
            found.row.workflow == workflow && !found.row.status.is_finished() && !to_come(found.row.key)
        });
        Ok(open.count() as u64)
    }

    fn holding(&self, workflow: &str, key: &str, most: u32) -> Result<u32> {
        let holds =
            |entrant: &&Entrant| entrant.workflow == workflow && entrant.key == key && entrant.turn == Turn::Holds;
        Ok(self.queue.entrants.values().filter(holds).take(most as usize).count() as u32)
    }

    fn begun_back(&self, workflow: &str, key: &str, back: u32) -> Result<Option<u64>> {
        let begun = self.queue.begun.get(&place(workflow, key));
        Ok(begun.and_then(|begun| begun.len().checked_sub(back as usize).map(|at| begun[at])))
    }

    fn before(&self, entrant: &Entrant, with_key: bool, most: u32) -> Result<u32> {
        let before = self.queue.waiting(&entrant.workflow);
        let before = before.filter(|other| other.rank() < entrant.rank() && (!with_key || other.key == entrant.key));
        Ok(before.take(most as usize).count() as u32)
    }
}

impl QueueReads for Transaction<'_> {
    fn limits(&self, workflow: &str) -> Result<Option<Limits>> {
        self.state.limits(workflow)
    }

    fn entrant(&self, run: RunKey) -> Result<Option<Entrant>> {
        self.state.entrant(run)
    }

    fn under_way(&self, workflow: &str) -> Result<u64> {
        self.state.under_way(workflow)
    }

    fn holding(&self, workflow: &str, key: &str, most: u32) -> Result<u32> {
        self.state.holding(workflow, key, most)
    }

    fn begun_back(&self, workflow: &str, key: &str, back: u32) -> Result<Option<u64>> {
        self.state.begun_back(workflow, key, back)
    }

    fn before(&self, entrant: &Entrant, with_key: bool, most: u32) -> Result<u32> {
        self.state.before(entrant, with_key, most)
    }
}

impl Transaction<'_> {
    /// The queue, to be changed.
    pub(super) fn queue_mut(&mut self) -> &mut Queue {
        let before = self.state.queue.clone();
        self.on_undo(move |state| {
            state.queue = before;
            Ok(())
        });
        &mut self.state.queue
    }
}

impl QueueRows for Transaction<'_> {
    fn has_limits(&self) -> Result<bool> {
        Ok(!self.state.queue.limits.is_empty())
    }

    fn set_limits(&mut self, row: &LimitsRow) -> Result<()> {
        let queue = self.queue_mut();
        queue.changes.push(row.clone());
        if row.limits.is_empty() {
            queue.limits.remove(&row.workflow);
        } else {
            queue.limits.insert(row.workflow.clone(), row.clone());
        }
        Ok(())
    }

    fn workflow_of(&self, run: RunKey) -> Result<Option<String>> {
        Ok(self.state.run(run).map(|found| found.row.workflow.clone()))
    }

    fn put_entrant(&mut self, entrant: &Entrant) -> Result<()> {
        self.queue_mut().entrants.insert(entrant.run, entrant.clone());
        Ok(())
    }

    fn unknown_delayed(&self, workflow: &str) -> Result<Vec<RunKey>> {
        let rows = self.state.runs.values().map(|found| &found.row).filter(|row| {
            row.workflow == workflow
                && matches!(row.status, Status::Queued | Status::Paused)
                && row.wake_at_ms.is_some()
                && self.state.queue.find(row.key).is_none()
        });
        Ok(rows.map(|row| row.key).collect())
    }

    fn first_in_line(&self, workflow: &str, key: &str) -> Result<Option<Rank>> {
        Ok(self.state.queue.waiting(workflow).filter(|entrant| entrant.key == key).map(Entrant::rank).min())
    }

    fn put_line(&mut self, workflow: &str, key: &str, first: Option<Rank>) -> Result<()> {
        if first.is_none() {
            self.open_line(workflow, key)?;
        }
        Ok(())
    }

    fn open_line(&mut self, workflow: &str, key: &str) -> Result<()> {
        self.queue_mut().closed.remove(&place(workflow, key));
        Ok(())
    }

    fn close_line(&mut self, workflow: &str, key: &str, until_ms: Option<u64>) -> Result<()> {
        self.queue_mut().closed.insert(place(workflow, key), until_ms);
        Ok(())
    }

    fn open_lines(&mut self, workflow: &str, now_ms: u64) -> Result<()> {
        let opens = |until_ms: Option<u64>| now_ms == u64::MAX || until_ms.is_some_and(|until_ms| until_ms <= now_ms);
        self.queue_mut().closed.retain(|(of, _), until_ms| of != workflow || !opens(*until_ms));
        Ok(())
    }

    fn next_line(&self, workflow: &str) -> Result<Option<Line>> {
        let queue = &self.state.queue;
        let open = queue.waiting(workflow).filter(|entrant| !queue.closed.contains_key(&place(workflow, &entrant.key)));
        let first = open.min_by_key(|entrant| entrant.rank());
        Ok(first.map(|entrant| Line { key: entrant.key.clone(), first: entrant.rank() }))
    }

    fn next_opening(&self, workflow: &str) -> Result<Option<u64>> {
        let closed = self.state.queue.closed.iter().filter(|((of, _), _)| of == workflow);
        Ok(closed.filter_map(|(_, until_ms)| *until_ms).min())
    }

    fn queues(&self) -> Result<Vec<String>> {
        let waiting = self.state.queue.entrants.values().filter(|entrant| entrant.turn == Turn::Waits);
        let workflows: std::collections::BTreeSet<_> = waiting.map(|entrant| entrant.workflow.clone()).collect();
        Ok(workflows.into_iter().collect())
    }

    fn add_begun(&mut self, workflow: &str, key: &str, at_ms: u64, _old_ms: u64) -> Result<()> {
        self.queue_mut().begun.entry(place(workflow, key)).or_default().push(at_ms);
        Ok(())
    }

    fn newest_begun(&self, workflow: &str) -> Result<Option<u64>> {
        let of = self.state.queue.begun.iter().filter(|((of, _), _)| of == workflow);
        Ok(of.filter_map(|(_, begun)| begun.last().copied()).max())
    }

    fn begun_by(&mut self, workflow: &str, now_ms: u64) -> Result<()> {
        for ((of, _), begun) in &mut self.queue_mut().begun {
            if of == workflow {
                begun.iter_mut().for_each(|at_ms| *at_ms = (*at_ms).min(now_ms));
            }
        }
        Ok(())
    }

    fn forget_begun(&mut self, workflow: &str) -> Result<()> {
        self.queue_mut().begun.retain(|(of, _), _| of != workflow);
        Ok(())
    }
}

impl QueueStands for MemoryReads {
    fn turn(&self, run: RunKey) -> Result<Option<Turn>> {
        Ok(self.state().queue.find(run).map(|entrant| entrant.turn))
    }

    fn in_queue(&self, run: RunKey, now_ms: u64) -> Result<Option<InQueue>> {
        admission::in_queue(&*self.state(), run, now_ms)
    }

    fn limits_of(&self, workflow: &str) -> Result<Option<LimitsRow>> {
        Ok(self.state().queue.limits.get(workflow).cloned())
    }

    fn all_limits(&self) -> Result<Vec<LimitsRow>> {
        Ok(self.state().queue.limits.values().cloned().collect())
    }

    fn limit_changes(&self, workflow: &str, limit: u32) -> Result<Vec<LimitsRow>> {
        let state = self.state();
        let changes = state.queue.changes.iter().rev().filter(|row| row.workflow == workflow);
        Ok(changes.take(limit as usize).cloned().collect())
    }

    fn queue_counts(&self, workflow: &str, now_ms: u64) -> Result<QueueCounts> {
        let state = self.state();
        let first = state.queue.waiting(workflow).min_by_key(|entrant| entrant.rank());
        let wait = match first {
            Some(first) => admission::first_wait(&*state, workflow, &first.key, now_ms)?,
            None => None,
        };
        let (under_way, waiting) = (state.under_way(workflow)?, state.queue.waiting(workflow).count() as u64);
        Ok(QueueCounts { workflow: workflow.to_owned(), under_way, waiting, wait })
    }
}
