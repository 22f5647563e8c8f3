//! `stepwell runs`: looks at runs in a data directory, also while another process drives them; follows those of a server, and asks
//! something of them.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use stepwell_core::ids::RunId;
use stepwell_core::journal::codec;
use stepwell_core::journal::print::{Printer, Times, printable};
use stepwell_engine::queue_text;
use stepwell_engine::store::{self, Reads, RunFilter, RunRow, Status, StoreError, Turn};

use super::DataDir;
use super::exit::Exit;
use super::remote::{self, Ask, AskArgs, RerunArgs, ServerArgs};
use super::render::{self, clock};
use crate::api::RetryOf;

/// Arguments of `stepwell runs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell runs list --status blocked
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
    data_dir: DataDir,
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
        RunsCommand::List { status, workflow, limit, common } => list(&common, status, workflow, limit),
        RunsCommand::Show { run, common } => with_run(&common, &run, show),
        RunsCommand::Journal { run, common } => with_run(&common, &run, journal),
        RunsCommand::Logs { run, common } => with_run(&common, &run, logs),
    };
    match answer {
        Ok(()) => Exit::Done.into(),
        Err(exit) => exit,
    }
}

fn reads(common: &Common) -> Result<impl Reads + use<>, ExitCode> {
    store::read_only(&common.data_dir.data_dir).map_err(|error| match error {
        StoreError::Missing(_) => Exit::Usage.with(error),
        error => Exit::Failed.with(error),
    })
}

fn with_run(
    common: &Common,
    run: &str,
    then: impl FnOnce(&dyn Reads, &RunRow, bool) -> Result<(), ExitCode>,
) -> Result<(), ExitCode> {
    let reads = reads(common)?;
    let row = reads.run(&RunId::new(run)).map_err(|error| Exit::Failed.with(error))?;
    let row = row
        .ok_or_else(|| Exit::Usage.with(format!("there is no run {run} in {}", common.data_dir.data_dir.display())))?;
    then(&reads, &row, common.json)
}

fn list(common: &Common, status: Option<Status>, workflow: Option<String>, limit: u32) -> Result<(), ExitCode> {
    let reads = reads(common)?;
    let filter = RunFilter { status, workflow, limit, ..RunFilter::default() };
    let list = reads.runs(&filter).map_err(|error| Exit::Failed.with(error))?;
    for row in &list.runs {
        if common.json {
            show!("{}", as_json(row));
        } else {
            let detail = row.detail.as_deref().map(|detail| format!("  {}", printable(detail))).unwrap_or_default();
            let (status, workflow) = (row.status.as_str(), &row.workflow);
            show!("{}  {status:<10} {workflow:<20} {}{detail}", row.run, clock(row.created_at_ms));
        }
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

/// A JSON text as a tree; as its text where it is nested too deeply to be one.
fn tree(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|_| serde_json::Value::String(text.to_owned()))
}

fn show(reads: &dyn Reads, row: &RunRow, json: bool) -> Result<(), ExitCode> {
    let now_ms = jiff::Timestamp::now().as_millisecond().unsigned_abs();
    let waits = row.status == Status::Queued && row.turn == Some(Turn::Waits);
    let found = if waits { reads.in_queue(row.key, now_ms).map_err(|error| Exit::Failed.with(error))? } else { None };
    let detail = found.map(|found| queue_text(&found, None)).or_else(|| row.detail.clone());
    if json {
        let mut object = as_json(row);
        object["detail"] = json!(detail);
        object["place"] = json!(found.map(|found| found.place));
        object["outcome"] = row.outcome.as_deref().map_or(serde_json::Value::Null, tree);
        show!("{object}");
        return Ok(());
    }
    let mut lines = vec![
        ("run", row.run.to_string()),
        ("workflow", row.workflow.clone()),
        ("status", row.status.to_string()),
        ("started", clock(row.created_at_ms)),
        ("changed", clock(row.changed_at_ms)),
        ("module", row.digest.to_string()),
    ];
    lines.extend(row.retry_of.as_ref().map(|run| ("retry of", run.to_string())));
    lines.extend(row.rerun_of.as_ref().map(|of| ("rerun of", format!("{} from step {}", of.run, of.step))));
    lines.extend(row.links.parent.as_ref().map(|(parent, _)| ("parent", parent.to_string())));
    lines.extend(row.links.continued_from.as_ref().map(|run| ("goes on", format!("for {run}"))));
    lines.extend(row.links.continued_as.as_ref().map(|run| ("goes on", format!("as {run}"))));
    lines.extend(row.concurrency_key.clone().map(|key| ("key", key)));
    lines.extend((row.priority != 0).then(|| ("priority", row.priority.to_string())));
    lines.extend(detail.map(|detail| ("detail", detail)));
    lines.extend(row.status_text.clone().map(|text| ("text", text)));
    lines.extend(row.wake_at_ms.map(|at| ("until", clock(at))));
    lines.extend(row.outcome.clone().map(|outcome| ("outcome", outcome)));
    for (name, value) in lines {
        show!("{name:<10}{}", printable(&value));
    }
    Ok(())
}

fn journal(reads: &dyn Reads, row: &RunRow, json: bool) -> Result<(), ExitCode> {
    let entries = reads.journal(row.key).map_err(|error| Exit::Failed.with(error))?;
    let mut printer = Printer::new(Times::Relative);
    for (seq, bytes) in entries {
        let entry = codec::decode(seq, &bytes).map_err(|error| Exit::Failed.with(error))?;
        if json {
            show!("{}", json!({ "seq": seq, "atMs": entry.at_ms, "entry": render::tree(&entry.record) }));
        } else {
            show!("{seq:>5} {}", printer.line(&entry));
        }
    }
    Ok(())
}

fn logs(reads: &dyn Reads, row: &RunRow, json: bool) -> Result<(), ExitCode> {
    let lines = reads.logs(row.key, None, u32::MAX).map_err(|error| Exit::Failed.with(error))?;
    for line in lines {
        let level = ["trace", "debug", "info", "warn", "error"].get(usize::from(line.level)).copied().unwrap_or("info");
        if json {
            show!(
                "{}",
                json!({
                    "atMs": line.at_ms, "level": level, "step": line.step, "message": line.text,
                    "fields": line.fields.as_deref().map(tree),
                })
            );
        } else {
            let step = line.step.as_deref().map(|step| format!(" [{step}]")).unwrap_or_default();
            let fields = line.fields.as_deref().map(|fields| format!(" {fields}")).unwrap_or_default();
            let text = printable(&format!("{}{fields}", line.text));
            show!("{} {level:<5}{step} {text}", clock(line.at_ms));
        }
    }
    Ok(())
}
