//! What stands in a run's journal.
//!
//! Three kinds: commands of workflow code, deliveries to it, and the record of attempts and effects. Replay checks the first,
//! repeats the second, and never repeats the third. Entries are only ever added; none is changed.

use serde::{Deserialize, Serialize};

use crate::contract::{EffectClass, Evidence, Operation};
use crate::error::Error;
use crate::ids::{Digest, RunId, StepId};
use crate::json::Json;
use crate::policy::retry::RetryPolicy;

/// One entry. Its number is its place in the journal, from 0.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Recorded time, in ms since the Unix epoch; never less than the entry before.
    #[serde(rename = "t")]
    pub at_ms: u64,
    /// What is recorded. Written as `{"<kind>": {..}}`: any other form would have to be read into a tree first.
    #[serde(rename = "e")]
    pub record: Record,
}

/// What an entry records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The run began. Always the first entry.
    Started(Started),
    /// Workflow code began a step.
    StepBegun(StepBegun),
    /// Workflow code began to sleep.
    SleepBegun {
        /// The timer.
        op: Operation,
        /// Its length, in ms.
        ms: u64,
        /// When it fires, in ms since the Unix epoch.
        due_ms: u64,
    },
    /// Workflow code began to wait for an event.
    WaitBegun {
        /// The wait.
        op: Operation,
        /// The event's name.
        name: String,
        /// When the wait ends without it, in ms since the Unix epoch.
        due_ms: Option<u64>,
    },
    /// Workflow code sent an event to another run. It is in that run's inbox by the commit that has this.
    SendBegun {
        /// The sending.
        op: Operation,
        /// The other run; it may be this one too.
        to: RunId,
        /// The event's name.
        name: String,
        /// What it carries.
        payload: Json,
    },
    /// Workflow code started a child. It is there by the commit that has this.
    ChildBegun(Box<ChildBegun>),
    /// The child of an operation is begun again: the run was taken up again after it had failed, and the child has no result.
    ChildBegunAgain {
        /// The operation.
        op: Operation,
        /// The child. None is started where the earlier one has succeeded meanwhile, or goes on.
        run: RunId,
    },
    /// Workflow code ended the run so that a fresh one goes on. Once its function has returned, that one is there by the commit which
    /// has this run's end.
    ContinuedAsNew {
        /// The input of the run that goes on.
        input: Json,
    },
    /// Workflow code lost interest in an open operation.
    Closed {
        /// Which.
        op: Operation,
    },
    /// Workflow code was told the outcome of an operation.
    Delivered {
        /// Which.
        op: Operation,
    },
    /// Workflow code was told that the run is to be cancelled.
    CancelDelivered,
    /// A step's body was started.
    AttemptStarted {
        /// The step.
        op: Operation,
        /// The attempt's number, from 1.
        n: u32,
        /// When it is closed if it has not ended, in ms since the Unix epoch.
        deadline_ms: u64,
    },
    /// An attempt is over.
    AttemptEnded {
        /// The step.
        op: Operation,
        /// The attempt's number.
        n: u32,
        /// How it went.
        outcome: AttemptOutcome,
    },
    /// An unsafe request is about to leave.
    Dispatched(Dispatched),
    /// What is known of a dispatched request.
    Settled {
        /// The step.
        op: Operation,
        /// The effect.
        effect: u32,
        /// How far it got.
        evidence: Evidence,
        /// The answer, where it may be needed again and is not too large.
        answer: Option<RecordedAnswer>,
    },
    /// A sleep is over.
    TimerFired {
        /// The timer.
        op: Operation,
    },
    /// An awaited event did not come in time.
    WaitExpired {
        /// The wait.
        op: Operation,
    },
    /// An event came for the run. It goes to the oldest wait of that name, or is kept.
    EventArrived {
        /// Its number in the run's inbox.
        id: u64,
        /// Its name.
        name: String,
        /// What it carries.
        payload: Json,
    },
    /// What became of an operation on another run came to this one's inbox.
    ReplyArrived {
        /// Its number in the run's inbox.
        id: u64,
        /// The operation.
        op: Operation,
        /// What became of it.
        reply: Reply,
    },
    /// The run was asked to cancel.
    CancelRequested {
        /// What its open operations fail with.
        error: Error,
        /// Who asked; nobody did where the run's own time-out cancels it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// The run was asked to end at once. Nothing of it is started or told any more; its end follows once its requests are settled.
    TerminateRequested {
        /// What it ends with.
        error: Error,
        /// Who asked.
        by: String,
    },
    /// From here on no attempt starts, no timer fires and nothing is delivered.
    Paused {
        /// Why, in the words of whoever asked.
        reason: String,
        /// Who asked.
        by: String,
    },
    /// The pause is over.
    Unpaused {
        /// Who asked.
        by: String,
    },
    /// A person has said what became of a step whose outcome was unknown.
    Resolved {
        /// The step.
        op: Operation,
        /// What follows from it.
        resolution: Resolution,
        /// How it was found out, in their words.
        evidence: String,
        /// Who it was.
        by: String,
    },
    /// A failed run is taken up again. What its workflow was told and did from an entry on is void, and is lived through anew: steps
    /// whose failure it was told since, or not at all, are attempted again, and their attempts are counted anew. What was begun since
    /// is begun again by the code, if it comes to it; a step of that id then goes on from what was sent for it and where its numbers
    /// end.
    Rewound {
        /// The number of the first command or delivery that is void.
        to: u64,
        /// Why, in the words of whoever asked.
        reason: String,
        /// Who asked.
        by: String,
    },
    /// The run is a rerun: everything before this is of another run's journal.
    Reran(Box<Reran>),
    /// The run is being rebuilt from its journal.
    Resumed,
    /// The run goes on with another module, on which it was replayed clean.
    Repinned {
        /// The new module.
        digest: Digest,
    },
    /// The database was restored from a copy: from here on the run is in an epoch of its own, with keys and attempt numbers that
    /// no other epoch has.
    Restored(Restored),
    /// A person has said that after the copy nothing was done for the run but what stands in its journal.
    NothingFollowed {
        /// How it was found out, in their words.
        evidence: String,
        /// Who it was.
        by: String,
    },
    /// The run is over. Always the last entry, but for a failed run that is taken up again.
    Ended {
        /// How it went.
        outcome: RunOutcome,
        /// The workflow's function returned; else the host ended the run.
        returned: bool,
    },
}

impl Record {
    /// Whether a step's outcome may be unknown from this entry on that was not before, or the other way round.
    #[must_use]
    pub fn may_change_unknown(&self) -> bool {
        match self {
            Self::AttemptEnded { outcome, .. } => matches!(outcome, AttemptOutcome::Failed { .. }),
            Self::Closed { .. }
            | Self::CancelDelivered
            | Self::Resolved { .. }
            | Self::Rewound { .. }
            | Self::Reran(_)
            | Self::Restored(_)
            | Self::NothingFollowed { .. }
            | Self::Ended { .. } => true,
            _ => false,
        }
    }
}

/// What became of an operation on another run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It went well.
    Succeeded(Json),
    /// It did not.
    Failed(Error),
}

/// How a run began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: String,
    /// The module.
    pub digest: Digest,
    /// Its input.
    pub input: Json,
    /// The default policy of its steps.
    pub retry: RetryPolicy,
    /// The default time-out of its steps, in ms.
    pub step_timeout_ms: Option<u64>,
    /// When the run is cancelled if it has not ended, in ms since the Unix epoch.
    pub deadline_ms: Option<u64>,
    /// The run that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// The run that it goes on for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<RunId>,
}

/// Whose child a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The run that started it.
    pub run: RunId,
    /// How many runs stand above it: 1 for a child of a run that is none.
    pub depth: u32,
}

/// A child run, with everything decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChildBegun {
    /// The operation.
    pub op: Operation,
    /// The child.
    pub run: RunId,
    /// Its workflow.
    pub workflow: String,
    /// Its input.
    pub input: Json,
    /// The operation is over when it has started, else with its end.
    #[serde(default, skip_serializing_if = "is_false")]
    pub detached: bool,
    /// It goes on when its parent ends, or loses interest in it; else it is asked to cancel then.
    #[serde(default, skip_serializing_if = "is_false")]
    pub abandoned: bool,
    /// Its run key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_key: Option<String>,
    /// Its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<(String, String)>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The beginning of a new epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The epoch's name, which stands in its keys. No two restorations have the same, also not of the same copy.
    pub epoch: String,
    /// The run may have gone on after the copy was made: what it did then is not known.
    pub in_doubt: bool,
    /// Who restored the database.
    pub by: String,
}

/// Where a rerun begins. Before this its journal has that of another run, as far as the beginning of a step, and what became later of
/// what was begun by then. Commands and deliveries of the other run from an entry on are void: from there the run lives by itself. What
/// the other run's workflow saw before, the replay shows again: its times, its random numbers and its id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reran {
    /// The other run.
    pub of: RunId,
    /// The step before whose beginning it was cut.
    pub step: StepId,
    /// The number of the first command or delivery that is void.
    pub to: u64,
    /// The module, on which what is before replays clean.
    pub digest: Digest,
    /// When the run is cancelled if it has not ended, in ms since the Unix epoch.
    pub deadline_ms: Option<u64>,
    /// Why, in the words of whoever asked.
    pub reason: String,
    /// Who asked.
    pub by: String,
}

/// A step, with everything decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepBegun {
    /// The operation.
    pub op: Operation,
    /// Its name and occurrence.
    pub step: StepId,
    /// When it is attempted again.
    pub retry: RetryPolicy,
    /// How long an attempt may take, in ms.
    pub timeout_ms: u64,
    /// Its effect class.
    pub effect: EffectClass,
    /// How long the other side knows a key, in ms from its first send.
    pub key_ttl_ms: u64,
}

/// An unsafe request, before its first byte left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispatched {
    /// The step.
    pub op: Operation,
    /// The attempt's number.
    pub n: u32,
    /// The effect, from 1 within the step. The same number again is a repetition under the same key.
    pub effect: u32,
    /// What stood in the `Idempotency-Key` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What it asks for.
    #[serde(flatten)]
    pub what: Asked,
    /// Statuses on which the other side does nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub renew_on: Vec<u16>,
}

/// What makes two requests of a step equal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The request's label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Digest of the body; none where there is no body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Digest>,
}

/// An answer that may be needed again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedAnswer {
    /// In the order received.
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(with = "super::codec::bytes")]
    pub body: Vec<u8>,
}

/// How an attempt went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// With a result. The step is over.
    Succeeded(Json),
    /// With an error.
    Failed {
        /// Which one.
        error: Error,
        /// What comes next.
        next: Next,
    },
}

/// What follows a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Next {
    /// Another attempt.
    Retry {
        /// Not before this, in ms since the Unix epoch.
        due_ms: u64,
        /// With no other body in the instance: this attempt's turn trapped or was interrupted.
        alone: bool,
    },
    /// The step has failed.
    GiveUp,
    /// It is not known whether an effect of the step happened, and repeating it could do harm.
    Unknown,
}

/// What follows from what a person has found out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// The step has this result.
    Succeeded(Json),
    /// The step has failed with this error.
    Failed(Error),
    /// The step is attempted again.
    Retry {
        /// Effects whose key the other side may have forgotten: the same request is sent under a new one.
        renewed: Vec<u32>,
    },
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// With a result.
    Succeeded(Json),
    /// With an error.
    Failed(Error),
    /// It was cancelled; the reason is the error.
    Cancelled(Error),
    /// It was ended at once; the reason is the error.
    Terminated(Error),
    /// Another run goes on for it.
    Continued(RunId),
}
