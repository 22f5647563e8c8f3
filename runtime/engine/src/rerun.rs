//! Reruns: a new run goes on from the journal of one that has ended, as it was before the beginning of a step.
//!
//! What it is to be is decided by the core, from the journal alone. Here that is read, replayed on the module that the new run is to
//! have, and made ready to be started as any other run is.

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::RunId;
use stepwell_core::run::{Birth, Machine, Mode, Refusal, Rerun, RerunError, Rerunning, rerun};
use stepwell_store::{NewRerun, NewRun, QueueAs, RerunOf, Status};

use crate::ask::{AskError, differs, same};
use crate::clock::real_now_ms;
use crate::effects::unread;
use crate::engine::Engine;
use crate::start::RunRef;

/// How a run is rerun.
#[derive(Debug, Clone, Default)]
pub struct RerunAs {
    /// From where.
    pub rerun: Rerun,
    /// The starter's own name for the new run.
    pub run_key: Option<String>,
    /// Marks on the new run; those of the other where none are given.
    pub tags: Option<Vec<(String, String)>>,
    /// Why, for people.
    pub reason: String,
    /// Who asks.
    pub by: String,
}

impl Engine {
    /// Makes a rerun of a run that has ended ready to be started. Nothing is written. Restorations of its database that the other run
    /// does not know the new one is told of, whatever `ask` says.
    ///
    /// # Errors
    /// When there is no such run, or it has not ended; when it has no such step, or several; when something was done since the step
    /// began that is not confirmed; when what is before does not replay clean on the module; when it cannot be read.
    pub async fn prepare_rerun(&self, of: &RunRef, mut ask: RerunAs) -> Result<(NewRun, Rerunning), AskError> {
        let reads = self.store().read();
        let row = reads.run_by_number(of.key).map_err(AskError::Store)?;
        let row = row.ok_or_else(|| AskError::NoSuchRun(of.id.clone()))?;
        // Its journal need not be read for this.
        if !row.status.is_finished() {
            return Err(AskError::Refused(Refusal::NotEnded));
        }
        if row.status == Status::Failed {
            ask.rerun.restored = self.restored_since(of.key)?;
        }
        let journal = reads.journal(of.key).map_err(|error| AskError::Failed(unread(&error)))?;
        let journal: Vec<Vec<u8>> = journal.into_iter().map(|(_, bytes)| bytes).collect();
        let birth = Birth {
            run: RunId::new(format!("run_{}", uuid::Uuid::now_v7().simple())),
            at_ms: real_now_ms(),
            reason: ask.reason,
            by: ask.by,
        };
        let mut new = rerun(&journal, &ask.rerun, &birth).map_err(refused)?;
        let entries = journal.len() as u64;
        drop(journal);
        self.replays_clean(&new).await?;
        let inbox = std::mem::take(&mut new.inbox);
        let run = NewRun {
            run: birth.run,
            workflow: new.workflow.clone(),
            digest: new.digest.clone(),
            run_key: ask.run_key,
            created_at_ms: birth.at_ms,
            first: std::mem::take(&mut new.journal),
            inbox: inbox.into_iter().map(|(name, payload)| (name, payload.to_string())).collect(),
            tags: ask.tags.unwrap_or(row.tags),
            begins_at_ms: None,
            retry_of: None,
            queue: QueueAs { key: row.concurrency_key, priority: row.priority, deadline_ms: new.deadline_ms },
            rerun: Some(NewRerun {
                of: RerunOf { run: new.of.clone(), step: new.step.to_string() },
                entries,
                unknown: new.unknown,
            }),
        };
        Ok((run, new))
    }

    /// Also on the module that it had: nothing is stored of a run that could not go on.
    async fn replays_clean(&self, new: &Rerunning) -> Result<(), AskError> {
        let loaded = self.loaded(&new.digest).await.map_err(AskError::Failed)?;
        loaded.workflow(Some(&new.workflow)).map_err(AskError::Failed)?;
        let machine = Machine::load(&new.journal, None, Mode::Verify).map_err(|error| {
            AskError::Failed(Error::new(Code::Internal, format!("the rerun's journal cannot be read: {error}")))
        })?;
        let verdict = self.replay(machine, None).await.map_err(AskError::Failed)?;
        same(if new.digest == new.other_digest { verdict } else { differs(verdict) })
    }
}

fn refused(error: RerunError) -> AskError {
    match error {
        RerunError::Refused(refusal) => AskError::Refused(refusal),
        RerunError::Unreadable(error) => AskError::Failed(Error::new(Code::JournalUnreadable, error.to_string())),
        _ => AskError::Failed(Error::new(Code::Internal, "the run cannot be rerun")),
    }
}
