//! What people ask of a run. The one who asks is answered once the answer is durable; what happens to the run in each state is in
//! the table of ARCHITECTURE.md.

use std::fmt;
use std::sync::Arc;

use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::Restored;
use stepwell_core::json::Json;
use stepwell_core::run::{Finding, Granted, Mode, Refusal, Resolved, Retried, Retry, UnknownStep};
use stepwell_store::{Answer as Kept, Epoch, RunKey, Status, StoreError};
use tokio::sync::oneshot;

use crate::clock::real_now_ms;
use crate::driver::Message;
use crate::effects::store_error;
use crate::engine::Engine;
use crate::start::RunRef;
use crate::verify::Verdict;

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) enum Ask {
    Cancel {
        reason: Error,
        by: String,
    },
    Terminate {
        reason: Error,
        by: String,
    },
    Pause {
        reason: String,
        by: String,
    },
    Resume {
        by: String,
        /// The module that the run is to go on with, and the number of entries that were replayed on it.
        on: Option<(Digest, u64)>,
    },
    Resolve {
        step: String,
        finding: Finding,
        evidence: String,
        by: String,
    },
    Retry {
        retry: Retry,
        /// The number of entries with which it was replayed on the module that it is to go on with.
        on: Option<u64>,
        reason: String,
        by: String,
    },
    NothingFollowed {
        evidence: String,
        by: String,
    },
}

/// What is answered where it is granted.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Said {
    /// To cancel, terminate, pause and resume.
    Granted(Granted),
    /// To a person's word on a step.
    Resolved(Resolved),
    /// To a retry.
    Retried(Retried),
}

impl Said {
    /// The same, to be done then.
    pub(crate) fn with(self, granted: Granted) -> Self {
        match self {
            Self::Granted(_) => Self::Granted(granted),
            Self::Resolved(resolved) => Self::Resolved(Resolved { granted, ..resolved }),
            Self::Retried(retried) => Self::Retried(Retried { granted, ..retried }),
        }
    }

    /// Whether it takes its course now.
    #[must_use]
    pub fn granted(&self) -> Granted {
        match self {
            Self::Granted(granted) => *granted,
            Self::Resolved(resolved) => resolved.granted,
            Self::Retried(retried) => retried.granted,
        }
    }
}

/// Who asks, and what is kept of the answer.
#[derive(Clone)]
pub struct Asker {
    by: String,
    keep: Option<Keep>,
}

/// Makes of what was said the answer that is kept under a client's key.
type Keep = Arc<dyn Fn(&Said) -> Kept + Send + Sync>;

impl Asker {
    /// The same, with a client's key: what is made of the answer is kept under it, in the commit that has what was asked.
    #[must_use]
    pub fn keeping(mut self, keep: impl Fn(&Said) -> Kept + Send + Sync + 'static) -> Self {
        self.keep = Some(Arc::new(keep));
        self
    }
}

impl From<&str> for Asker {
    fn from(by: &str) -> Self {
        Self { by: by.to_owned(), keep: None }
    }
}

/// What is asked, and what is to be kept of the answer.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) ask: Ask,
    keep: Option<Keep>,
}

impl Question {
    /// What is kept of this answer.
    pub(crate) fn kept(&self, said: &Said) -> Option<Kept> {
        self.keep.as_ref().map(|keep| keep(said))
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ask.fmt(f)
    }
}

/// Where the answer goes.
pub(crate) type Answer = oneshot::Sender<Result<Said, AskError>>;

/// Why what was asked of a run is not done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AskError {
    /// There is no such run.
    NoSuchRun(RunId),
    /// The run is not such that this can be done. Nothing has changed.
    Refused(Refusal),
    /// The run does not replay on the module that it was to go on with. Nothing has changed.
    Differs(Error),
    /// The run is live on its module, or went on while it was replayed on another: pause it, then ask again. Nothing has changed.
    Busy,
    /// The disk failed. What was asked is not recorded, unless it was before.
    Store(StoreError),
    /// The run or its module cannot be read.
    Failed(Error),
}

impl fmt::Display for AskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRun(run) => write!(f, "there is no run {run}"),
            Self::Refused(refusal) => refusal.fmt(f),
            Self::Differs(error) | Self::Failed(error) => error.fmt(f),
            Self::Store(error) => store_error(error).fmt(f),
            Self::Busy => f.write_str("the run is live on its module; pause it, then let it go on with the other one"),
        }
    }
}

impl std::error::Error for AskError {}

/// How often a task that ended under the question is asked anew. Each end is one of a run's own, so that a few are enough.
const PATIENCE: u32 = 100;

impl Engine {
    /// Asks a run to cancel: its workflow is told, may clean up, and ends. Once this returns, it is on record and holds after a
    /// crash. A paused run is told when it is resumed; a run none of whose code has run is over by this.
    ///
    /// # Errors
    /// When there is no such run, when it has ended or its end is decided, or when it cannot be read or recorded.
    pub async fn cancel(&self, run: &RunRef, by: impl Into<Asker>, reason: &str) -> Result<Granted, AskError> {
        let Asker { by, keep } = by.into();
        let reason = asked_by(Error::new(Code::Cancelled, reason_or(reason, "the run was cancelled")), &by);
        self.ask(run, Ask::Cancel { reason, by }, keep).await
    }

    /// Ends a run at once, whatever it is doing: no code of it runs any more, its requests are torn down. What may have happened
    /// stays unknown, and listed. It has ended as soon as its requests have settled, which may be a moment after this returns.
    ///
    /// # Errors
    /// When there is no such run, when it has ended, or when it cannot be read or recorded.
    pub async fn terminate(&self, run: &RunRef, by: impl Into<Asker>, reason: &str) -> Result<Granted, AskError> {
        let Asker { by, keep } = by.into();
        let reason = asked_by(Error::new(Code::Terminated, reason_or(reason, "the run was terminated")), &by);
        self.ask(run, Ask::Terminate { reason, by }, keep).await
    }

    /// Pauses a run: no attempt starts, no timer fires and nothing is told to its workflow until it is resumed. Attempts under way
    /// come to their end, and events that come are kept.
    ///
    /// # Errors
    /// When there is no such run, when it has ended or its end is decided, or when it cannot be read or recorded.
    pub async fn pause(&self, run: &RunRef, by: impl Into<Asker>, reason: &str) -> Result<Granted, AskError> {
        let Asker { by, keep } = by.into();
        self.ask(run, Ask::Pause { reason: reason.to_owned(), by }, keep).await
    }

    /// Takes up a run that was paused, set aside, or stopped with its process. [`Granted::Already`]: nobody had paused it. With a
    /// `digest` other than its own it goes on with that module, if it replays clean on it.
    ///
    /// # Errors
    /// When there is no such run, when it has ended or its end is decided, when it differs on the module or is live on its own, or
    /// when it cannot be read or recorded.
    pub async fn resume(
        &self,
        run: &RunRef,
        by: impl Into<Asker>,
        digest: Option<&Digest>,
    ) -> Result<Granted, AskError> {
        let Asker { by, keep } = by.into();
        let row = self.store().read().run_by_number(run.key).map_err(AskError::Store)?;
        let row = row.ok_or_else(|| AskError::NoSuchRun(run.id.clone()))?;
        let on = match digest.filter(|digest| **digest != row.digest && !row.status.is_finished()) {
            Some(digest) => Some((digest.clone(), self.replays_on(run, digest).await?)),
            None => None,
        };
        self.ask(run, Ask::Resume { by, on }, keep).await
    }

    /// How many entries of the run replay clean on the module: all that are durable.
    async fn replays_on(&self, run: &RunRef, digest: &Digest) -> Result<u64, AskError> {
        let (entries, verdict) = self.verify_on(run, Some(digest)).await.map_err(AskError::Failed)?;
        same(verdict).map(|()| entries)
    }

    /// Records what a person has found out of a step whose outcome is unknown, as `charge` or `charge#2`; the run goes on with that.
    /// `evidence` says how they found it out. For a retry the answer says which keys are kept.
    ///
    /// # Errors
    /// When there is no such run or step, when the step's outcome is not unknown ([`Refusal::StepNotUnknown`]), when the run has
    /// ended or its end is decided, when the result is too large, or when the run cannot be read or recorded.
    pub async fn resolve(
        &self,
        run: &RunRef,
        step: &str,
        finding: Finding,
        evidence: &str,
        by: impl Into<Asker>,
    ) -> Result<Resolved, AskError> {
        let Asker { by, keep } = by.into();
        let (step, evidence) = (step.to_owned(), evidence.to_owned());
        match self.said(run, Ask::Resolve { step, finding, evidence, by }, keep).await? {
            Said::Resolved(resolved) => Ok(resolved),
            _ => Err(another()),
        }
    }

    /// Takes a failed run up again, from the failure that ended it or another of its steps'. With a `digest` other than its own it
    /// goes on with that module, if it replays clean on it so far. Restorations of its database that it does not know it is told of
    /// with that, whatever `retry` says.
    ///
    /// # Errors
    /// When there is no such run, when it has not failed, when no step's failure has ended it and there is no other module, when
    /// something was done since that is not confirmed, when it differs on the module, or when it cannot be read or recorded.
    pub async fn retry(
        &self,
        run: &RunRef,
        by: impl Into<Asker>,
        mut retry: Retry,
        reason: &str,
    ) -> Result<Retried, AskError> {
        let Asker { by, keep } = by.into();
        let row = self.store().read().run_by_number(run.key).map_err(AskError::Store)?;
        let row = row.ok_or_else(|| AskError::NoSuchRun(run.id.clone()))?;
        let on = match retry.digest.as_ref().filter(|digest| **digest != row.digest && row.status == Status::Failed) {
            Some(digest) => Some(self.replays_back_on(run, digest, &retry).await?),
            None => None,
        };
        retry.restored = self.restored_since(run.key)?;
        match self.said(run, Ask::Retry { retry, on, reason: reason.to_owned(), by }, keep).await? {
            Said::Retried(retried) => Ok(retried),
            _ => Err(another()),
        }
    }

    /// The restorations of the database of which a run is part.
    pub(crate) fn restored_since(&self, run: RunKey) -> Result<Vec<Restored>, AskError> {
        // None begins while the directory is open.
        let epochs = self.store().read().epochs(run).map_err(AskError::Store)?;
        let restored = |epoch: Epoch| Restored { epoch: epoch.name, in_doubt: epoch.in_doubt, by: epoch.by };
        Ok(epochs.into_iter().map(restored).collect())
    }

    /// How many entries the run has, which replays clean on the module as far as it is to be taken back.
    async fn replays_back_on(&self, run: &RunRef, digest: &Digest, retry: &Retry) -> Result<u64, AskError> {
        let mut machine = self.machine(run.key, Mode::Verify).map_err(AskError::Failed)?;
        let entries = machine.entries();
        machine.take_back(retry).map_err(AskError::Refused)?;
        same(self.replay(machine, Some(digest)).await.map_err(AskError::Failed)?)?;
        Ok(entries)
    }

    /// Records that a person has found out that nothing was done for a restored run after the copy but what its journal has:
    /// steps that were unknown for no other reason are attempted, and later ones are not in doubt. [`Granted::Already`]: it is in
    /// no doubt.
    ///
    /// # Errors
    /// When there is no such run, when it has ended or its end is decided, or when it cannot be read or recorded.
    pub async fn nothing_followed(&self, run: &RunRef, evidence: &str, by: &str) -> Result<Granted, AskError> {
        self.ask(run, Ask::NothingFollowed { evidence: evidence.to_owned(), by: by.to_owned() }, None).await
    }

    /// The steps of a run whose outcome is unknown, and what was sent for them. Also of one that has ended.
    ///
    /// # Errors
    /// When the run's journal cannot be read.
    pub fn unknown_steps(&self, run: &RunRef) -> Result<Vec<UnknownStep>, Error> {
        Ok(self.machine(run.key, Mode::Verify)?.unknown())
    }

    async fn ask(&self, run: &RunRef, ask: Ask, keep: Option<Keep>) -> Result<Granted, AskError> {
        self.said(run, ask, keep).await.map(|said| said.granted())
    }

    async fn said(&self, run: &RunRef, ask: Ask, keep: Option<Keep>) -> Result<Said, AskError> {
        let question = Question { ask, keep };
        let row = self.store().read().run_by_number(run.key).map_err(AskError::Store)?;
        if row.is_none() {
            return Err(AskError::NoSuchRun(run.id.clone()));
        }
        for _ in 0..PATIENCE {
            if self.is_closed() {
                return Err(AskError::Store(StoreError::Closed));
            }
            let (answer, said) = oneshot::channel();
            self.tell(run.key, Message::Ask(question.clone(), answer));
            // The run's task may end, for reasons of the run's own, before it comes to this: the next one answers.
            if let Ok(said) = said.await {
                return said;
            }
        }
        Err(AskError::Failed(Error::new(Code::Internal, "the run's task ends before it answers")))
    }
}

/// The same, said of other code.
pub(crate) fn differs(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Same => Verdict::Same,
        Verdict::Differs(difference) => Verdict::Differs(difference.on_other_code()),
    }
}

pub(crate) fn same(verdict: Verdict) -> Result<(), AskError> {
    match verdict {
        Verdict::Same => Ok(()),
        Verdict::Differs(difference) => {
            Err(AskError::Differs(Error::new(Code::ReplayMismatch, difference.to_string()).never_retried()))
        }
    }
}

fn another() -> AskError {
    AskError::Failed(Error::new(Code::Internal, "the answer to another question"))
}

fn reason_or(reason: &str, instead: &str) -> String {
    if reason.is_empty() { instead.to_owned() } else { reason.to_owned() }
}

/// With who asked, and when, for whoever looks at the error.
fn asked_by(mut error: Error, by: &str) -> Error {
    error.details = Some(Json::from(&serde_json::json!({ "by": by, "atMs": real_now_ms() })));
    error.never_retried()
}
