//! `stepwell runs cancel`, `terminate`, `pause` and `resume`: of one run, or of all that a filter finds (`bulk.rs`).

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use serde_json::{Map, Value};
use stepwell_engine::store::Status;

use super::bulk;
use super::client::{Client, Sent, ServerArgs, segment};

/// What is asked of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Cancel,
    Terminate,
    Pause,
    Resume,
}

impl Ask {
    /// As it stands in a path.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Terminate => "terminate",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }

    /// What is asked where nobody says which statuses: it would do nothing to others.
    pub(super) fn statuses(self) -> &'static [Status] {
        match self {
            Self::Resume => &[Status::Paused],
            Self::Pause => &[Status::Queued, Status::Running, Status::Waiting, Status::Blocked],
            Self::Cancel | Self::Terminate => {
                &[Status::Queued, Status::Running, Status::Waiting, Status::Blocked, Status::Paused]
            }
        }
    }
}

/// Which runs, and how they are asked.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).multiple(true))]
pub(crate) struct AskArgs {
    /// The run. Several are named by what they are: --workflow, --status, --tag, --all.
    #[arg(group = "which", conflicts_with_all = ["workflow", "status", "tags", "all", "dry_run", "yes"])]
    run: Option<String>,
    /// All open runs of this workflow.
    #[arg(long, group = "which")]
    pub(super) workflow: Option<String>,
    /// All runs with this status. Can be given more than once.
    #[arg(long, group = "which")]
    pub(super) status: Vec<Status>,
    /// All open runs with this tag. Can be given more than once: runs with all of them.
    #[arg(long = "tag", value_name = "NAME=VALUE", group = "which")]
    pub(super) tags: Vec<String>,
    /// All open runs.
    #[arg(long, group = "which", conflicts_with_all = ["workflow", "status", "tags"])]
    all: bool,
    /// Say which runs it would be, and ask none.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask back before several runs are asked.
    #[arg(long)]
    pub(super) yes: bool,
    /// Why. It stands in the journal; of a cancelled or terminated run the error has it.
    #[arg(long)]
    reason: Option<String>,
    /// The idempotency key of this command; a new one where it is left out.
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<String>,
    /// Print the answers as JSON, one a line.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

/// Asks it. `digest`: the module on which resumed runs are to go on.
pub(crate) async fn ask(ask: Ask, args: AskArgs, digest: Option<String>) -> Result<(), ExitCode> {
    let mut body = Map::new();
    for (name, value) in [("reason", args.reason.clone()), ("digest", digest)] {
        if let Some(value) = value {
            body.insert(name.to_owned(), value.into());
        }
    }
    let body = Value::from(body);
    let Some(run) = &args.run else { return bulk::ask(ask, &args, &body).await };
    let answer =
        Client::new(&args.server)?.post_under_key(&path(ask, run), Sent::json(&body, args.key.clone())).await?;
    if args.json {
        show!("{answer}");
    }
    Ok(())
}

/// Where it is asked of a run.
pub(super) fn path(ask: Ask, run: &str) -> String {
    format!("/v1/runs/{}/{}", segment(run), ask.name())
}
