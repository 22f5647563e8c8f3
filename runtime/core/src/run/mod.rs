//! The run's state machine. It does no I/O: given what happened and the time, it answers what is to be done.
//!
//! ```text
//!   guest's commands ─┐                        ┌─> append to the journal
//!   guest is quiet  ──┤   ┌────────────────┐   ├─> deliver an event to the guest
//!   evidence        ──┼──>│    Machine     │───┼─> send a request, once all before it is durable
//!   time, people    ──┤   │  State (fold)  │   ├─> tear a request down
//!   events          ──┘   └────────────────┘   └─> rebuild, finished, stopped
//! ```
//!
//! - `State` is the fold of the journal and nothing else: what it knows after a restart is what it knew before.
//! - There is one door by which entries are made, `Machine::record`; live and recovered state go through the same fold.
//! - The guest's place is a cursor into the commands and deliveries of the journal. Before its end the run replays, from it on it
//!   runs live. Replay comes through the same functions.
//! - What belongs to an instance alone (open exchanges, events not yet told) is in the machine, not in the state, and is gone
//!   with the instance.

mod again;
mod ask;
mod attempt;
mod cancel;
mod child;
mod close;
mod continued;
mod effect;
mod end;
mod errand;
mod event;
mod guest;
mod log;
mod machine;
mod pause;
mod plan;
mod prefix;
mod replay;
mod rerun;
mod resolve;
mod restore;
mod retry;
mod send;
mod sleep;
mod state;
mod status;
mod step;
mod terminate;
mod time;

#[cfg(test)]
mod tests;

pub use again::{ErrandKind, VoidErrand};
pub use ask::{Granted, Refusal, RunStatus};
pub use errand::{Continue, Errand};
pub use machine::{Input, LoadError, LogLine, Machine, Mode, Output, TurnLimit};
pub use rerun::{Birth, DoneSince, Rerun, RerunError, Rerunning, rerun};
pub use resolve::{Finding, KeyOfRetry, Resolved, UnknownEffect, UnknownStep, found_error};
pub use retry::{Retried, Retry, VoidEffect};
pub use status::{Activity, Awaited};
pub use step::check_name;
