//! Drives runs: joins the store, the host and the run's state machine, and decides nothing that they decide.
//!
//! The CLI and the API reach the rest of Stepwell through [`Engine`], so a local run and the server are the same code.

mod admission;
mod ask;
mod batch;
mod clock;
mod commands;
mod counters;
mod drive;
mod driver;
mod effects;
mod engine;
pub mod fault;
mod last;
mod later;
mod lengths;
mod long;
mod modules;
mod points;
mod reach;
mod ready;
mod recover;
mod requests;
mod rerun;
mod rest;
mod restore;
mod retention;
mod runtime;
pub mod schedule;
mod settings;
mod slice;
mod start;
mod tap;
mod tasks;
mod timers;
mod verify;
mod watch;

pub use admission::{queue_text, wait_text};
pub use ask::{AskError, Asker, Said};
pub use counters::{AttemptEnd, Counters};
pub use engine::{Engine, ModuleInfo, check_event};
#[cfg(feature = "crash-points")]
pub use points::Observer;
pub use points::{Moment, Points};
pub use reach::Reach;
pub use requests::Request;
pub use rerun::RerunAs;
pub use restore::{InNewEpoch, RestoreAs, restore};
pub use runtime::runtime;
pub use settings::Settings;
pub use start::{RunRef, StartRun};
pub use stepwell_core::run::{
    DoneSince, ErrandKind, Finding, Granted, KeyOfRetry, Refusal, Rerun, Rerunning, Resolved, Retried, Retry,
    RunStatus, UnknownEffect, UnknownStep, VoidEffect, VoidErrand, found_error,
};
pub use stepwell_host::{Host, HostSettings, http};
pub use stepwell_store as store;
pub use tap::Tap;
pub use verify::Verdict;
pub use watch::RunEvent;
