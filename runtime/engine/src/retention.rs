//! Taking runs away that have ended and been kept for as long as an operator wants. Which those are is decided by the core.
//!
//! In small parts, each a write of its own that is awaited, with a rest after it: whoever writes beside it waits for one part at most.

use std::time::{Duration, Instant};

use stepwell_core::policy::retention::{Retention, Stands};
use stepwell_core::run::RunStatus;
use stepwell_store::{Action, EndedRun, Kept, Status, StoreError, Submission};

use crate::clock::real_now_ms;
use crate::engine::Engine;

/// Runs that are looked at in one go.
const PAGE: u32 = 500;
/// Runs that go in one write: their rows may have results of any size allowed.
const RUNS: usize = 25;
/// Rows or answers that go in one write.
const ROWS: u32 = 500;

impl Engine {
    /// Takes away what `retention` lets go of, and answers how many runs that were. A run that goes on, or of which something is
    /// unknown, is never taken away; nor is the newest of all. Also what an earlier one has left.
    ///
    /// # Errors
    /// When the store cannot be read or written. What was taken away until then is gone.
    pub async fn forget_ended(&self, retention: &Retention) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        self.forget_rows().await?;
        for status in RunStatus::ALL {
            let now_ms = real_now_ms();
            let Some(before_ms) = retention.ended_before_ms(status, now_ms) else { continue };
            let mut after = 0;
            loop {
                let page = self.ended_after(status, after).await?;
                let Some(last) = page.last() else { break };
                after = last.key;
                // Runs are in the order of their starts: where all of a page were started since, those after it were too.
                let none = page.iter().all(|run| run.created_at_ms >= before_ms);
                let lets_go = |run: &&EndedRun| {
                    let stands =
                        Stands { ended: Some(status), ended_ms: run.ended_at_ms, has_unknown: run.has_unknown };
                    retention.lets_go(stands, now_ms)
                };
                let going: Vec<&EndedRun> = page.iter().filter(lets_go).collect();
                for runs in going.chunks(RUNS) {
                    forgotten += self.forget_runs(runs).await?;
                }
                if none {
                    break;
                }
            }
        }
        Ok(forgotten)
    }

    /// Takes answers away that were given before this time and hold their keys no longer.
    ///
    /// # Errors
    /// When the store cannot be written. What was taken away until then is gone.
    pub async fn forget_answers(&self, before_ms: u64) -> Result<(), StoreError> {
        self.until_none(Action::ForgetAnswers { before_ms, most: ROWS }).await
    }

    async fn ended_after(&self, status: RunStatus, after: i64) -> Result<Vec<EndedRun>, StoreError> {
        let store = self.store().clone();
        let read = tokio::task::spawn_blocking(move || store.read().ended(stored(status), after, PAGE));
        read.await.map_err(|error| StoreError::Internal(error.to_string()))?
    }

    /// Takes runs away, with all that belongs to them. How many of them went.
    async fn forget_runs(&self, runs: &[&EndedRun]) -> Result<u64, StoreError> {
        let actions = runs.iter().map(|run| Action::ForgetRun { run: run.key, ended: (run.status, run.ended_at_ms) });
        let kept = self.restfully(actions.collect()).await?;
        self.forget_rows().await?;
        Ok(kept.forgotten.iter().filter(|gone| **gone).count() as u64)
    }

    async fn forget_rows(&self) -> Result<(), StoreError> {
        self.until_none(Action::ForgetRows { most: ROWS }).await
    }

    async fn until_none(&self, action: Action) -> Result<(), StoreError> {
        while self.restfully(vec![action.clone()]).await?.more.contains(&true) {}
        Ok(())
    }

    /// A write, and a rest as long as it took, so that others have the disk for half of the time.
    async fn restfully(&self, actions: Vec<Action>) -> Result<Kept, StoreError> {
        let began = Instant::now();
        let kept = self.store().submit(Submission { actions, answer: None }).await?;
        tokio::time::sleep(began.elapsed().min(Duration::from_secs(1))).await;
        Ok(kept)
    }
}

fn stored(status: RunStatus) -> Status {
    match status {
        RunStatus::Succeeded => Status::Succeeded,
        RunStatus::Failed => Status::Failed,
        RunStatus::Cancelled => Status::Cancelled,
        RunStatus::Terminated => Status::Terminated,
    }
}
