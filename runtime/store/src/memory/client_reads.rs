//! Reads for answering clients, in memory.

use std::collections::BTreeMap;

use stepwell_core::ids::Digest;

use super::MemoryReads;
use super::reads::module_row;
use crate::error::Result;
use crate::rows::{EndedRun, ModuleRow, RunKey, RunRow};
use crate::schedules::{Schedule, ScheduleCounts};
use crate::status::Status;
use crate::store::ClientReads;
use crate::submission::{Active, Answer, Token};

impl ClientReads for MemoryReads {
    fn run_by_run_key(&self, run_key: &str) -> Result<Option<RunRow>> {
        let state = self.state();
        Ok(state.run_keys.get(run_key).and_then(|&key| state.shown(key)))
    }

    fn counts(&self, workflow: Option<&str>) -> Result<Vec<(String, Status, u64)>> {
        let mut counts = BTreeMap::new();
        for found in self.state().runs.values() {
            let row = &found.row;
            if workflow.is_none_or(|workflow| row.workflow == workflow) {
                *counts.entry((row.workflow.clone(), row.status)).or_default() += 1;
            }
        }
        Ok(counts.into_iter().map(|((workflow, status), n)| (workflow, status, n)).collect())
    }

    fn module_row(&self, digest: &Digest) -> Result<Option<ModuleRow>> {
        Ok(self.state().modules.get(digest).map(module_row))
    }

    fn active(&self) -> Result<Vec<Active>> {
        Ok(self.state().active.values().cloned().collect())
    }

    fn active_of(&self, workflow: &str) -> Result<Option<Active>> {
        Ok(self.state().active.get(workflow).cloned())
    }

    fn answer(&self, key: &str) -> Result<Option<Answer>> {
        Ok(self.state().answers.get(key).cloned())
    }

    fn ended(&self, status: Status, after: RunKey, limit: u32) -> Result<Vec<EndedRun>> {
        let state = self.state();
        let ended = state.runs.keys().filter(|key| **key > after).filter_map(|key| state.ended(*key));
        Ok(ended.filter(|run| run.status == status).take(limit as usize).collect())
    }

    fn token(&self, id: &str) -> Result<Option<Token>> {
        Ok(self.state().tokens.get(id).cloned())
    }

    fn has_tokens(&self) -> Result<bool> {
        Ok(!self.state().tokens.is_empty())
    }

    fn tokens(&self, after: Option<(u64, &str)>, limit: u32) -> Result<Vec<Token>> {
        let mut tokens: Vec<_> = self.state().tokens.values().cloned().collect();
        tokens.retain(|token| after.is_none_or(|after| (token.created_at_ms, token.id.as_str()) > after));
        tokens.sort_by(|a, b| (a.created_at_ms, &a.id).cmp(&(b.created_at_ms, &b.id)));
        tokens.truncate(limit as usize);
        Ok(tokens)
    }

    fn schedule(&self, name: &str) -> Result<Option<Schedule>> {
        Ok(self.state().schedules.get(name).cloned())
    }

    fn schedules(&self, after: Option<&str>, limit: u32) -> Result<Vec<Schedule>> {
        let state = self.state();
        let following = state.schedules.values().filter(|schedule| Some(schedule.name.as_str()) > after);
        Ok(following.take(limit as usize).cloned().collect())
    }

    fn due_schedules(&self, now_ms: u64) -> Result<Vec<String>> {
        let is_due = |schedule: &&Schedule| schedule.next_ms.is_some_and(|next_ms| next_ms <= now_ms);
        let mut due: Vec<_> = self.state().schedules.values().filter(is_due).cloned().collect();
        due.sort_by_key(|schedule| schedule.next_ms);
        Ok(due.into_iter().map(|schedule| schedule.name).collect())
    }

    fn next_schedule(&self, after_ms: u64) -> Result<Option<u64>> {
        let state = self.state();
        Ok(state.schedules.values().filter_map(|schedule| schedule.next_ms).filter(|at_ms| *at_ms > after_ms).min())
    }

    fn has_open_run(&self, schedule: &str) -> Result<bool> {
        let state = self.state();
        let mut its = state.runs.values().filter(|found| found.schedule.as_deref() == Some(schedule));
        Ok(its.any(|found| !found.row.status.is_finished()))
    }

    fn schedule_counts(&self) -> Result<ScheduleCounts> {
        let mut counts = ScheduleCounts::default();
        for schedule in self.state().schedules.values() {
            match (&schedule.paused, &schedule.problem) {
                (Some(_), _) => counts.paused += 1,
                (None, Some(_)) => counts.failing += 1,
                (None, None) => counts.active += 1,
            }
        }
        Ok(counts)
    }
}
