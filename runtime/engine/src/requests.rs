//! What clients ask for: each is durable, with the answer under its key, before it is answered; then whoever it concerns is told.
//!
//! A refusal is the store's own: the API tells its client what it means.

use stepwell_core::error::Error;
use stepwell_core::ids::Digest;
use stepwell_core::json::Json;
use stepwell_store::{
    Action, Answer, Delivered, NewEvent, NewModule, NewRun, RunKey, RunRow, Status, StoreError, Submission, Turn,
};

use crate::clock::real_now_ms;
use crate::driver::Message;
use crate::effects::store_error;
use crate::engine::{Engine, ModuleInfo, check_event};
use crate::modules::description;
use crate::start::RunRef;
use crate::verify::Verdict;

/// What a client's request has beside what it asks for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The answer to keep under its key.
    pub answer: Option<Answer>,
    /// By which a run's inbox tells a repetition.
    pub dedup: Option<String>,
}

impl Engine {
    /// Starts runs that were prepared: all of them, or none. They begin at once, or when their delay is over.
    ///
    /// # Errors
    /// A run key that is taken, a module that is gone, a key that has been answered, a failure of the disk. Nothing is kept then.
    pub async fn start_all(&self, runs: Vec<NewRun>, answer: Option<Answer>) -> Result<Vec<RunRef>, StoreError> {
        let names: Vec<_> = runs.iter().map(|run| (run.run.clone(), run.begins_at_ms)).collect();
        let actions = runs.into_iter().map(Action::Start).collect();
        let kept = self.store().submit(Submission { actions, answer }).await?;
        let started = kept.runs.into_iter().zip(names).map(|(key, (id, begins_at_ms))| {
            self.let_begin(key, begins_at_ms);
            RunRef { id, key }
        });
        Ok(started.collect())
    }

    /// A run that was just written down begins, whoever has started it.
    pub(crate) fn let_begin(&self, run: RunKey, begins_at_ms: Option<u64>) {
        match begins_at_ms {
            Some(at_ms) => self.arm(at_ms, run),
            None => self.begin(run),
        }
    }

    /// Sends an event to a run. It is kept until it is awaited; a second one with the same `dedup` is the first.
    ///
    /// # Errors
    /// When the run has ended or there is none, or the store fails. Nothing is kept then.
    pub async fn deliver(
        &self,
        run: RunKey,
        name: &str,
        payload: &Json,
        request: Request,
    ) -> Result<Delivered, StoreError> {
        let (name, payload) = (name.to_owned(), payload.to_string());
        let event = NewEvent { run, name, payload, dedup: request.dedup };
        let delivered = self.put_into_inbox(event, request.answer).await?;
        if !self.message(run, Message::Inbox)
            && let Some(row) = self.store().read().run_by_number(run)?
        {
            // Where it has ended, the event is with the one that goes on for it.
            match &row.links.last {
                Some(last) => self.notice(last),
                None => self.notice_inbox(&row),
            }
        }
        Ok(delivered)
    }

    /// Something has come to a run's inbox. What is paused stays so, and what has not begun; what waits is woken to see whether it
    /// waited for this.
    pub(crate) fn notice_inbox(&self, row: &RunRow) {
        if !self.message(row.key, Message::Inbox) && takes_events(row) {
            self.wake(row.key);
        }
    }

    /// [`Engine::deliver`] for whoever needs no more than the run's own errors.
    ///
    /// # Errors
    /// Those of [`Engine::deliver`], and when the name is none or the payload is too large.
    pub async fn send_event(
        &self,
        run: RunKey,
        name: &str,
        payload: &Json,
        dedup: Option<String>,
    ) -> Result<Delivered, Error> {
        check_event(name, payload)?;
        let sent = self.deliver(run, name, payload, Request { answer: None, dedup }).await;
        sent.map_err(|error| store_error(&error))
    }

    async fn put_into_inbox(&self, event: NewEvent, answer: Option<Answer>) -> Result<Delivered, StoreError> {
        let submission = Submission { actions: vec![Action::Event(event)], answer };
        let kept = self.store().submit(submission).await?;
        kept.events.first().copied().ok_or_else(|| StoreError::Internal("an event without its number".into()))
    }

    /// Compiles a module and asks it what it has. Nothing is written.
    ///
    /// # Errors
    /// When it is no module, or describes what cannot be run.
    pub async fn inspect(&self, bytes: Vec<u8>) -> Result<(ModuleInfo, NewModule), Error> {
        let digest = Digest::of(&bytes);
        let loaded = self.inspected(&digest, bytes.clone()).await?;
        let workflows = loaded.workflows.iter().map(|workflow| workflow.name.clone()).collect();
        let description = description(&loaded, self.settings().instance_memory_bytes);
        let module = NewModule {
            digest: digest.clone(),
            bytes,
            description: description.to_string(),
            added_at_ms: real_now_ms(),
        };
        Ok((ModuleInfo { digest, workflows, description }, module))
    }

    /// Replays a run on a module without effects: whether it still does what its journal says.
    ///
    /// # Errors
    /// When the run or the module cannot be read.
    pub async fn check(&self, run: &RunRef, digest: &Digest) -> Result<Verdict, Error> {
        self.verify_on(run, Some(digest)).await.map(|(_, verdict)| verdict)
    }
}

fn takes_events(row: &RunRow) -> bool {
    if row.turn.is_some_and(Turn::is_to_come) {
        return false;
    }
    match row.status {
        Status::Waiting | Status::Running => true,
        Status::Queued => row.wake_at_ms.is_none_or(|at_ms| at_ms <= real_now_ms()),
        _ => false,
    }
}
