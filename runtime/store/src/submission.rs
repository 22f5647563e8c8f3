//! What a client's request does to the store, as plain data: its actions and the answer that is given again when it is repeated.
//!
//! All of a submission is kept in one transaction, or nothing of it: so an answer is never there without what it speaks of,
//! nor the other way round.

use stepwell_core::ids::Digest;

use crate::queue::LimitsRow;
use crate::rows::{Delivered, NewEvent, NewModule, NewRun, RunKey};
use crate::schedules::Schedule;
use crate::status::Status;

/// A client's request.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// What it does, in order.
    pub actions: Vec<Action>,
    /// What is answered, where the client gave a key.
    pub answer: Option<Answer>,
}

/// One thing that a request does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Starts a run. Its run key must be free and its module in the store.
    Start(NewRun),
    /// Puts something into a run's inbox. A repetition, told by its key, is no error.
    Event(NewEvent),
    /// Keeps a module, where it is not there yet.
    AddModule(NewModule),
    /// New runs of a workflow start on this module from now on. The module must be in the store.
    Activate {
        /// The workflow.
        workflow: String,
        /// The module.
        digest: Digest,
        /// When.
        at_ms: u64,
        /// Only where the workflow starts on no module yet; else the submission is outdated.
        only_if_none: bool,
    },
    /// Takes a module away. No run may need it, and no workflow start on it.
    RemoveModule(Digest),
    /// Takes a run away that has ended: from then on nobody finds it, and its names are free. Its rows in the large tables are left to
    /// [`ForgetRows`](Self::ForgetRows). A run that is not as `ended` says, of which something is unknown, or that is the newest of all,
    /// is left alone.
    ForgetRun {
        /// The run.
        run: RunKey,
        /// How and when it ended.
        ended: (Status, u64),
    },
    /// Takes rows of runs away that were taken away themselves.
    ForgetRows {
        /// How many may go at once.
        most: u32,
    },
    /// Keeps a token. Its name must be free.
    AddToken(Token),
    /// Lets a token end at this time, unless it ends before; at once where the time has come. The token must be there.
    ExpireToken {
        /// The token.
        id: String,
        /// When.
        at_ms: u64,
    },
    /// Refuses the submission if a token has ended at this time, or is not there.
    NeedToken {
        /// The token.
        id: String,
        /// When.
        at_ms: u64,
    },
    /// Refuses the submission if no token without an end would be left that has this scope, where there is one now; and if the first
    /// token of all would not be such a one.
    SpareScope(String),
    /// Keeps a schedule in place of the one that has this version, or where there is none. Else the submission is outdated.
    PutSchedule {
        /// As it is from now on.
        schedule: Schedule,
        /// What it was made from.
        replaces: Option<u64>,
    },
    /// The same for a schedule that fires, with the run that it starts: both, or neither.
    Fire {
        /// As it is from now on.
        schedule: Schedule,
        /// What it was made from.
        replaces: u64,
        /// The run. It is started like any other.
        run: NewRun,
    },
    /// Takes a schedule away. It must be there.
    RemoveSchedule(String),
    /// Takes answers away that hold their keys no longer.
    ForgetAnswers {
        /// Those from before this time.
        before_ms: u64,
        /// How many may go at once.
        most: u32,
    },
    /// Sets the limits of a workflow, or takes them away where they are none.
    SetLimits(LimitsRow),
    /// Lets those begin that may at this time.
    Admit {
        /// Of this workflow; of all where none is named.
        workflow: Option<String>,
        /// When, in ms since the Unix epoch.
        at_ms: u64,
    },
    /// Writes what takes room, and takes it away again: whether the store can keep anything now.
    TryWriting,
}

/// An answer under an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The key.
    pub key: String,
    /// Who asked.
    pub principal: String,
    /// A digest of what was asked.
    pub fingerprint: String,
    /// When it was given.
    pub at_ms: u64,
    /// It started runs, and so holds its key for as long as they exist.
    pub kept: bool,
    /// The HTTP status.
    pub status: u16,
    /// The body, JSON.
    pub body: String,
}

/// What became of a submission.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// The runs that it started, in order.
    pub runs: Vec<RunKey>,
    /// Its events, in order.
    pub events: Vec<Delivered>,
    /// Whether its modules were new, in order.
    pub modules: Vec<bool>,
    /// Whether its runs that were to be taken away were, in order.
    pub forgotten: Vec<bool>,
    /// Whether more rows or answers are to be taken away than went, in order.
    pub more: Vec<bool>,
}

/// A bearer token, without the secret that proves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Its name, which is part of the token.
    pub id: String,
    /// Whose it is.
    pub principal: String,
    /// What it is good for, separated by blanks.
    pub scopes: String,
    /// A digest of its secret.
    pub hash: Vec<u8>,
    /// When it was made.
    pub created_at_ms: u64,
    /// When it ends.
    pub expires_at_ms: Option<u64>,
}

/// Which module a workflow's new runs start on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// The workflow.
    pub workflow: String,
    /// The module.
    pub digest: Digest,
    /// Since when.
    pub activated_at_ms: u64,
}
