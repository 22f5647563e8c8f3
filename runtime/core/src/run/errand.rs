//! What a run does to others: it starts them, sends them events, asks them to cancel, and goes on in another. Plain data; the store does it.

use crate::contract::Operation;
use crate::ids::RunId;
use crate::journal::entry::ChildBegun;
use crate::json::Json;

/// Something that a run does to another, on Stepwell's own database: in the commit that has the entry which says so, so that it
/// happens exactly once. What becomes of it comes to the run's own inbox, in the same commit or in a later one.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Errand {
    /// Put an event into another run's inbox. The reply is `null`, or why it could not be.
    Send {
        /// The operation.
        op: Operation,
        /// The other run.
        to: RunId,
        /// The event's name.
        name: String,
        /// What it carries.
        payload: Json,
    },
    /// Start a child. The reply is its end, or where it is detached its id; or why it could not be started.
    Start(Box<ChildBegun>),
    /// Start a child again whose parent was taken up again after it had failed: in the place of one that has no result. Where that one
    /// has succeeded meanwhile, or goes on since it was taken up itself, none is started, and the reply is its end.
    StartAgain(Box<ChildBegun>),
    /// Ask the child of an operation to cancel: the workflow has lost interest in it. No reply.
    Cancel {
        /// The operation.
        op: Operation,
    },
    /// Start the run that goes on for this one. No reply.
    Continue(Box<Continue>),
}

/// The run that goes on for another, which ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Continue {
    /// The run.
    pub run: RunId,
    /// Its input.
    pub input: Json,
    /// Events of the inbox that the other has and made no use of, in order; they are for the one that goes on.
    pub events: Vec<u64>,
    /// All after this one it has not seen; they are for the one that goes on, too.
    pub seen: u64,
}
