//! How runs hang together: a child and its parent, a run and the one that goes on for it. And what runs do to each other in the
//! commit of their own entries.

use stepwell_core::ids::RunId;

use crate::rows::{NewRun, RunKey};

/// What a run does to others. It is done in the transaction that keeps the entries which say so.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Errand {
    /// Puts an event into the inbox of a run, or of the one that goes on for it. The reply is [`Reply::Done`], or why it could not be.
    Send {
        /// The sender's operation.
        op: u32,
        /// The run.
        to: RunId,
        /// The event's name.
        name: String,
        /// JSON.
        payload: String,
    },
    /// Starts a child. The reply is its id, or, where it is awaited, its end; or why it could not be started.
    Start {
        /// The parent's operation.
        op: u32,
        /// The child.
        run: Box<NewRun>,
        /// The operation is over with the child's end, not with its start.
        awaited: bool,
        /// It goes on when its parent ends, or loses interest in it.
        stays: bool,
        /// In the place of an earlier child of the operation, since the parent was taken up again: where that one has succeeded, or
        /// goes on, none is started, and the reply is its end. Its run key is free for the new one.
        again: bool,
    },
    /// Does nothing: the reply says why.
    Refuse {
        /// The operation.
        op: u32,
        /// The error, JSON.
        error: String,
    },
    /// Asks the child of an operation to cancel, unless it is one that stays.
    Cancel {
        /// The parent's operation.
        op: u32,
    },
}

/// A run that goes on for another, which ends by the same commit. It has that one's place: its run key, its parent, and what came for
/// it and was not made use of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Successor {
    /// The run.
    pub run: NewRun,
    /// Events of the other's inbox that it has seen and made no use of.
    pub events: Vec<u64>,
    /// All events after this one were not seen by it.
    pub seen: u64,
}

/// What became of an operation on another run, as it is in the inbox of the run that has the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// It is done. The payload is `null`, or the id of the child that was started.
    Done,
    /// There is no such run.
    NoSuchRun,
    /// The run has ended. The payload is its status.
    Finished,
    /// The run key that the child was to have is taken. The payload is the id of the run that has it.
    KeyTaken,
    /// The child's module is not there any more.
    NoSuchModule,
    /// It was not tried. The payload is the error.
    Refused,
    /// The child ended with this result.
    Succeeded,
    /// The child ended with this error.
    Failed,
    /// The child was cancelled, for this reason.
    Cancelled,
    /// The child was terminated, for this reason.
    Terminated,
}

impl Reply {
    const ALL: [Self; 10] = [
        Self::Done,
        Self::NoSuchRun,
        Self::Finished,
        Self::KeyTaken,
        Self::NoSuchModule,
        Self::Refused,
        Self::Succeeded,
        Self::Failed,
        Self::Cancelled,
        Self::Terminated,
    ];

    /// As it is stored, in the place of an event's name. Never changed: databases hold it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::NoSuchRun => "no_such_run",
            Self::Finished => "finished",
            Self::KeyTaken => "key_taken",
            Self::NoSuchModule => "no_such_module",
            Self::Refused => "refused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Terminated => "terminated",
        }
    }

    /// The reply of that text.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reply| reply.as_str() == text)
    }
}

/// How a run hangs together with others, by their names outside.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Links {
    /// The run that started it, and by which of its operations.
    pub parent: Option<(RunId, u32)>,
    /// Its parent has asked it to cancel.
    pub cancel: bool,
    /// The run that it goes on for.
    pub continued_from: Option<RunId>,
    /// The run that goes on for it.
    pub continued_as: Option<RunId>,
    /// The first of all that went on for one another, where it is not that itself.
    pub first: Option<RunId>,
    /// The last of them, where it is not that itself.
    pub last: Option<RunId>,
}

/// The same by their numbers, as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Link {
    /// The run that started it, and by which of its operations.
    pub parent: Option<(RunKey, u32)>,
    /// The parent's operation is over with the run's end, and was not told of it yet.
    pub awaited: bool,
    /// It goes on when its parent ends.
    pub stays: bool,
    /// Its parent has asked it to cancel.
    pub cancel: bool,
    /// The run that it goes on for.
    pub continued_from: Option<RunKey>,
    /// The run that goes on for it.
    pub continued_as: Option<RunKey>,
    /// The first of all that went on for one another, where it is not that itself.
    pub first: Option<RunKey>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_survives_its_text() {
        for reply in Reply::ALL {
            assert_eq!(Reply::of(reply.as_str()), Some(reply));
        }
        assert_eq!(Reply::of("paid"), None);
    }
}
