//! Drives runs: joins the store, the host and the run's state machine, and decides nothing that they decide.
//!
//! The CLI and the API reach the rest of Stepwell through [`Engine`], so a local run and the server are the same code.

mod ask;
mod batch;
mod clock;
mod commands;
mod drive;
mod driver;
mod effects;
mod engine;
mod modules;
mod reach;
mod settings;
mod start;
mod timers;
mod verify;
mod watch;

pub use ask::AskError;
pub use engine::{Engine, ModuleInfo, check_event};
pub use reach::Reach;
pub use settings::Settings;
pub use start::{RunRef, StartRun};
pub use stepwell_core::run::{
    Finding, Granted, KeyOfRetry, Refusal, Resolved, RunStatus, UnknownEffect, UnknownStep, found_error,
};
pub use stepwell_host::http;
pub use stepwell_store as store;
pub use verify::Verdict;
pub use watch::RunEvent;
