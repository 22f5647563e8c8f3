//! `stepwell runs`: looks at runs in a data directory, also while another process drives them, or of a server; follows those of a
//! server, and asks something of them.

use std::path::Path;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use stepwell_core::ids::RunId;
use stepwell_core::journal::codec;
use stepwell_core::journal::print::{Printer, Times};
use stepwell_engine::queue_text;
use stepwell_engine::store::{Reads, RunFilter, RunRow, Status, Turn};

use super::exit::Exit;
use super::open;
use super::remote::{self, Ask, AskArgs, Place, PlaceArgs, RerunArgs, ServerArgs};
use super::shown::{self, LogLine};
use crate::api::RetryOf;

/// Arguments of `stepwell runs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell runs list --status blocked
  stepwell runs list --workflow checkout --url https://flows.example
  stepwell runs show run_0198c1a2b3c4d5e6f708192a3b4c5d6e
  stepwell runs journal run_0198c1a2b3c4d5e6f708192a3b4c5d6e --json
  stepwell runs watch run_0198c1a2b3c4d5e6f708192a3b4c5d6e
  stepwell runs cancel --workflow checkout --tag shop=berlin --reason 'the shop has closed'
  stepwell runs retry run_0198c1a2b3c4d5e6f708192a3b4c5d6e --reason 'the bank is back'
  stepwell runs rerun run_0198c1a2b3c4d5e6f708192a3b4c5d6e --from-step label --confirm
  stepwell runs resume run_0198c1a2b3c4d5e6f708192a3b4c5d6e --digest \"$DIGEST\"")]
pub(super) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, the latest first.
    List {
        /// Only those with this status: queued, running, waiting, blocked, paused, succeeded, failed, cancelled, terminated.
        #[arg(long)]
        status: Option<Status>,
        /// Only those of this workflow.
        #[arg(long)]
        workflow: Option<String>,
        /// Only those with this tag. Can be given more than once.
        #[arg(long = "tag", value_name = "NAME=VALUE")]
        tags: Vec<String>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Show a run: where it stands, what it waits for, its result or error.
    Show {
        /// The run.
        run: String,
        #[command(flatten)]
        common: Common,
    },
    /// Print a run's journal, a line an entry.
    Journal {
        /// The run.
        run: String,
        #[command(flatten)]
        common: Common,
    },
    /// Follow a run of a server until it ends, across restarts of the server. The exit code is the run's.
    Watch {
        /// The run.
        run: String,
        /// Events as JSON lines.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Cancel runs of a server: their workflows are told, may clean up, and end.
    Cancel(AskArgs),
    /// End runs of a server at once. No code of theirs runs any more; what may have happened stays unknown, and listed.
    Terminate(AskArgs),
    /// Pause runs of a server: no attempt starts, no timer fires until they are resumed.
    Pause(AskArgs),
    /// Take runs of a server up again that were paused or set aside.
    Resume {
        /// Go on with this module, if the run replays clean on it. One that is live is paused first.
        #[arg(long, value_name = "DIGEST")]
        digest: Option<String>,
        #[command(flatten)]
        ask: AskArgs,
    },
    /// Retry a failed run of a server: it is taken back to the failure that ended it, and the steps that failed are attempted again
    /// under the keys that they had.
    Retry {
        /// The run.
        run: String,
        /// The step whose failure it is taken back to: `charge`, `charge#2`. Else the one that has reached the run's end.
        #[arg(long, value_name = "STEP")]
        from_step: Option<String>,
        /// The module that it goes on with, where that is another.
        #[arg(long)]
        digest: Option<String>,
        /// What was done after that point may be done again.
        #[arg(long)]
        confirm: bool,
        /// Why; it stands in the journal.
        #[arg(long)]
        reason: Option<String>,
        /// Print the answer as JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Rerun a run of a server that has ended: a new run has everything from before a step as it was, and does again what follows.
    Rerun(RerunArgs),
    /// Print what a run has logged.
    Logs {
        /// The run.
        run: String,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// As JSON, an object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(super) async fn run(args: RunsArgs) -> ExitCode {
    let answer = match args.command {
        RunsCommand::Watch { run, json, server } => {
            return remote::watch(&server, &run, json).await.unwrap_or_else(|exit| exit);
        }
        RunsCommand::Cancel(args) => remote::ask(Ask::Cancel, args, None).await,
        RunsCommand::Terminate(args) => remote::ask(Ask::Terminate, args, None).await,
        RunsCommand::Pause(args) => remote::ask(Ask::Pause, args, None).await,
        RunsCommand::Resume { digest, ask } => remote::ask(Ask::Resume, ask, digest).await,
        RunsCommand::Rerun(args) => remote::rerun(args).await,
        RunsCommand::Retry { run, from_step, digest, confirm, reason, json, server } => {
            remote::retry(&server, &run, &RetryOf { reason, from_step, digest, confirm }, json).await
        }
        RunsCommand::List { status, workflow, tags, limit, common } => {
            let filter = remote::tags(&tags).map(|tags| RunFilter {
                tags: tags.into_iter().collect(),
                ..RunFilter { status, workflow, limit, ..RunFilter::default() }
            });
            match (filter, common.place.place()) {
                (Err(exit), _) => Err(exit),
                (Ok(filter), Place::Server(server)) => remote::list(&server, &filter, common.json).await,
                (Ok(filter), Place::Directory(directory)) => list(&directory, &filter, common.json),
            }
        }
        RunsCommand::Show { run, common: Common { json, place } } => match place.place() {
            Place::Server(server) => remote::show(&server, &run, json).await,
            Place::Directory(directory) => with_run(&directory, &run, json, show),
        },
        RunsCommand::Journal { run, common: Common { json, place } } => match place.place() {
            Place::Server(server) => remote::journal(&server, &run, json).await,
            Place::Directory(directory) => with_run(&directory, &run, json, journal),
        },
        RunsCommand::Logs { run, common: Common { json, place } } => match place.place() {
            Place::Server(server) => remote::logs(&server, &run, json).await,
            Place::Directory(directory) => with_run(&directory, &run, json, logs),
        },
    };
    match answer {
        Ok(()) => Exit::Done.into(),
        Err(exit) => exit,
    }
}

/// Where a directory's runs are read, one of them is looked up and shown.
fn with_run(directory: &Path, run: &str, json: bool, show: Show) -> Result<(), ExitCode> {
    let reads = open::to_read(directory)?;
    let row = reads.run(&RunId::new(run)).map_err(|error| Exit::Failed.with(error))?;
    let row = row.ok_or_else(|| Exit::Usage.with(format!("there is no run {run} in {}", directory.display())))?;
    show(&reads, &row, json)
}

type Show = fn(&dyn Reads, &RunRow, bool) -> Result<(), ExitCode>;

fn list(directory: &Path, filter: &RunFilter, json: bool) -> Result<(), ExitCode> {
    let list = open::to_read(directory)?.runs(filter).map_err(|error| Exit::Failed.with(error))?;
    for row in &list.runs {
        let run = as_json(row);
        show!("{}", if json { run.to_string() } else { shown::row(&run) });
    }
    for run in &list.unreadable {
        say!("a run cannot be read (number {}): {}", run.key, run.reason);
    }
    Ok(())
}

/// What a list has of a run: its outcome, which may be large, is not among it.
fn as_json(row: &RunRow) -> serde_json::Value {
    json!({
        "run": row.run, "workflow": row.workflow, "digest": row.digest, "status": row.status.as_str(), "detail": row.detail,
        "statusText": row.status_text, "runKey": row.run_key, "retryOf": row.retry_of,
        "rerunOf": row.rerun_of.as_ref().map(|of| json!({ "run": of.run, "fromStep": of.step })),
        "parent": row.links.parent.as_ref().map(|(run, _)| run), "continuedFrom": row.links.continued_from,
        "continuedAs": row.links.continued_as, "wakeAtMs": row.wake_at_ms, "createdAtMs": row.created_at_ms,
        "changedAtMs": row.changed_at_ms, "concurrencyKey": row.concurrency_key, "priority": row.priority,
    })
}

fn show(reads: &dyn Reads, row: &RunRow, json: bool) -> Result<(), ExitCode> {
    let now_ms = jiff::Timestamp::now().as_millisecond().unsigned_abs();
    let waits = row.status == Status::Queued && row.turn == Some(Turn::Waits);
    let found = if waits { reads.in_queue(row.key, now_ms).map_err(|error| Exit::Failed.with(error))? } else { None };
    let detail = found.map(|found| queue_text(&found, None)).or_else(|| row.detail.clone());
    let mut run = as_json(row);
    run["detail"] = json!(detail);
    if json {
        run["place"] = json!(found.map(|found| found.place));
        run["outcome"] = row.outcome.as_deref().map_or(serde_json::Value::Null, shown::tree);
        show!("{run}");
    } else {
        shown::fields(&run, row.outcome.as_deref()).iter().for_each(|line| show!("{line}"));
    }
    Ok(())
}

fn journal(reads: &dyn Reads, row: &RunRow, json: bool) -> Result<(), ExitCode> {
    let entries = reads.journal(row.key).map_err(|error| Exit::Failed.with(error))?;
    let mut printer = Printer::new(Times::Relative);
    for (seq, bytes) in entries {
        let entry = codec::decode(seq, &bytes).map_err(|error| Exit::Failed.with(error))?;
        show!("{}", shown::entry(&mut printer, seq, &entry, json));
    }
    Ok(())
}

fn logs(reads: &dyn Reads, row: &RunRow, json: bool) -> Result<(), ExitCode> {
    let lines = reads.logs(row.key, None, u32::MAX).map_err(|error| Exit::Failed.with(error))?;
    for line in lines {
        let level = ["trace", "debug", "info", "warn", "error"].get(usize::from(line.level)).copied().unwrap_or("info");
        let (step, fields) = (line.step.as_deref(), line.fields.as_deref());
        show!("{}", LogLine { at_ms: line.at_ms, level, step, message: &line.text, fields }.shown(json));
    }
    Ok(())
}
