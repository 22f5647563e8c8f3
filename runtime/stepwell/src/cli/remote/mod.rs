//! The commands that are clients of a server.

mod asks;
mod bulk;
mod client;
mod deploy;
mod events;
mod look;
mod modules;
mod rerun;
mod runs;
mod schedules;
mod start;
mod steps;
mod token;
mod workflows;

pub(super) use asks::{Ask, AskArgs, ask};
pub(super) use client::{Place, PlaceArgs, ServerArgs};
pub(super) use deploy::{DeployArgs, deploy};
pub(super) use events::{EventsArgs, events};
pub(super) use look::{journal, list, logs, show};
pub(super) use modules::{ModulesArgs, modules};
pub(super) use rerun::{RerunArgs, rerun};
pub(super) use runs::{retry, watch};
pub(super) use schedules::{SchedulesArgs, schedules};
pub(super) use start::{StartArgs, start, tags};
pub(super) use steps::{Word, resolve_step, steps};
pub(super) use token::{TokenArgs, token};
pub(super) use workflows::{WorkflowsArgs, workflows};
