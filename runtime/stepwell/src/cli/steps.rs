//! `stepwell steps`: steps of unknown outcome in a data directory, and what a person has found out of them.

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Value, json};
use stepwell_core::ids::RunId;
use stepwell_core::journal::print::printable;
use stepwell_core::json::Json;
use stepwell_core::run::{Machine, Mode};
use stepwell_engine::store::{self, Reads, RunFilter, RunRow, StoreError};
use stepwell_engine::{AskError, Finding, Granted, Resolved, RunRef, UnknownStep, found_error};

use super::exit::Exit;
use super::render::clock;
use super::stdout::Stdout;
use super::{BY, DataDir, DurabilityArg, open};

/// Arguments of `stepwell steps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell steps list
  stepwell steps resolve run_0198c1a2b3c4d5e6f708192a3b4c5d6e charge --succeeded '{\"id\":\"ch_1\"}' --evidence 'seen in the bank statement'
  stepwell steps resolve run_0198c1a2b3c4d5e6f708192a3b4c5d6e charge --failed 'the card was declined' --evidence 'asked the bank'
  stepwell steps resolve run_0198c1a2b3c4d5e6f708192a3b4c5d6e charge --retry --evidence 'the bank knows nothing of it'")]
pub(super) struct StepsArgs {
    #[command(subcommand)]
    command: StepsCommand,
}

#[derive(Debug, Subcommand)]
enum StepsCommand {
    /// List steps whose outcome is unknown, and what was sent for them.
    List {
        /// Only those of this run.
        #[arg(long)]
        run: Option<String>,
        /// Also those of runs that have ended.
        #[arg(long)]
        all: bool,
        /// As JSON, an object a line.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        data_dir: DataDir,
    },
    /// Say what became of a step whose outcome is unknown. It is recorded with the evidence; the run goes on with it when it is
    /// resumed: `stepwell run --resume RUN`.
    Resolve(ResolveArgs),
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("finding").required(true))]
struct ResolveArgs {
    /// The run.
    run: String,
    /// The step, as `steps list` shows it: `charge`, `charge#2`.
    step: String,
    /// It happened: the step has this result.
    #[arg(long, value_name = "JSON", group = "finding")]
    succeeded: Option<String>,
    /// It did not happen, and is not to be tried again: the step fails with this message.
    #[arg(long, value_name = "MESSAGE", group = "finding")]
    failed: Option<String>,
    /// Try it again: under the same key while the other side knows it, else under a new one.
    #[arg(long, group = "finding")]
    retry: bool,
    /// How you found it out. It stands in the journal.
    #[arg(long, value_name = "TEXT")]
    evidence: String,
    /// Who you are. It stands in the journal.
    #[arg(long, value_name = "NAME", default_value = BY)]
    by: String,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data_dir: DataDir,
}

pub(super) async fn run(args: StepsArgs) -> ExitCode {
    let answer = match args.command {
        StepsCommand::List { run, all, json, data_dir } => list(&data_dir, run.as_deref(), all, json),
        StepsCommand::Resolve(args) => resolve(args).await,
    };
    match answer {
        Ok(()) => Exit::Done.into(),
        Err(exit) => exit,
    }
}

fn list(data_dir: &DataDir, run: Option<&str>, all: bool, json: bool) -> Result<(), ExitCode> {
    let reads = store::read_only(&data_dir.data_dir).map_err(|error| Exit::Usage.with(error))?;
    let failed = |error| Exit::Failed.with(error);
    let rows =
        match run {
            Some(run) => {
                let row = reads.run(&RunId::new(run)).map_err(failed)?;
                vec![row.ok_or_else(|| {
                    Exit::Usage.with(format!("there is no run {run} in {}", data_dir.data_dir.display()))
                })?]
            }
            None if all => reads.runs(&RunFilter { limit: u32::MAX, ..RunFilter::default() }).map_err(failed)?.runs,
            None => unfinished(&reads).map_err(failed)?,
        };
    let mut stdout = Stdout::default();
    for row in rows {
        // A run that cannot be read hides no other.
        match unknown(&reads, &row) {
            Ok(steps) => steps.iter().for_each(|step| show(&mut stdout, &row, step, json)),
            Err(error) => anstream::eprintln!("run {} cannot be read: {}", row.run, printable(&error)),
        }
    }
    Ok(())
}

fn unfinished(reads: &dyn Reads) -> Result<Vec<RunRow>, StoreError> {
    let (runs, unreadable) = reads.unfinished()?;
    for run in unreadable {
        anstream::eprintln!("run number {} cannot be read: {}", run.key, printable(&run.reason));
    }
    let rows: Result<Vec<_>, _> = runs.iter().map(|run| reads.run_by_number(run.key)).collect();
    Ok(rows?.into_iter().flatten().collect())
}

fn unknown(reads: &dyn Reads, row: &RunRow) -> Result<Vec<UnknownStep>, String> {
    let journal = reads.journal(row.key).map_err(|error| error.to_string())?;
    let entries = journal.into_iter().map(|(_, bytes)| bytes);
    Machine::load(entries, None, Mode::Verify).map(|machine| machine.unknown()).map_err(|error| error.to_string())
}

fn show(stdout: &mut Stdout, row: &RunRow, step: &UnknownStep, json: bool) {
    if json {
        let effects: Vec<Value> = step
            .effects
            .iter()
            .map(|e| {
                json!({
                    "effect": e.effect, "method": e.method, "url": e.url, "key": e.key, "firstSentMs": e.first_sent_ms,
                    "lastSentMs": e.last_sent_ms,
                })
            })
            .collect();
        let object = json!({
            "run": row.run, "workflow": row.workflow, "runStatus": row.status.as_str(), "step": step.step.to_string(),
            "attempts": step.attempts, "effects": effects,
        });
        stdout.line(object);
        return;
    }
    stdout.line(printable(&format!("{}  {}  {} ({})", row.run, step.step, row.workflow, row.status)));
    for e in &step.effects {
        let key = e.key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
        let times = if e.first_sent_ms == e.last_sent_ms {
            String::new()
        } else {
            format!(", first {}", clock(e.first_sent_ms))
        };
        stdout.line(printable(&format!("    {} {} sent {}{times}{key}", e.method, e.url, clock(e.last_sent_ms))));
    }
    if step.effects.is_empty() {
        stdout.line("    something of it was done, and its last attempt was lost before it could say so");
    }
}

async fn resolve(args: ResolveArgs) -> Result<(), ExitCode> {
    let finding = match (&args.succeeded, &args.failed) {
        (Some(text), _) => {
            let value = Json::parse(text).map_err(|error| Exit::Usage.with(format!("--succeeded: {error}")))?;
            Finding::Succeeded(value)
        }
        (None, Some(message)) => Finding::Failed(found_error(message)),
        (None, None) => Finding::Retry,
    };
    if args.evidence.trim().is_empty() {
        return Err(Exit::Usage.with("--evidence: say how you found it out; it stands in the journal"));
    }
    let outside = open::Outside { secrets: &[], allow_net: &[] };
    let engine =
        open::engine(&args.data_dir.data_dir, DurabilityArg::Disk, &outside, |settings| settings.drives = false)?;
    let row = engine.run(&RunId::new(&args.run)).map_err(|error| Exit::Failed.with(error))?;
    let row = row.ok_or_else(|| {
        Exit::Usage.with(format!("there is no run {} in {}", args.run, args.data_dir.data_dir.display()))
    })?;
    let run = RunRef { id: row.run, key: row.key };
    let resolved = engine.resolve(&run, &args.step, finding, &args.evidence, &args.by).await;
    engine.stop().await;
    let resolved = resolved.map_err(|error| {
        let exit = if matches!(error, AskError::Refused(_)) { Exit::Usage } else { Exit::Failed };
        exit.with(error)
    })?;
    said(&mut Stdout::default(), &args, &run, &resolved);
    Ok(())
}

fn said(stdout: &mut Stdout, args: &ResolveArgs, run: &RunRef, resolved: &Resolved) {
    if args.json {
        let keys: Vec<Value> =
            resolved.keys.iter().map(|k| json!({ "effect": k.effect, "key": k.key, "kept": k.kept })).collect();
        let object = json!({
            "run": run.id, "step": resolved.step.to_string(), "keys": keys, "givenUp": resolved.given_up,
            "paused": resolved.granted == Granted::OnResume,
        });
        stdout.line(object);
        return;
    }
    stdout.line(printable(&format!("step {} of run {} is resolved", resolved.step, run.id)));
    for key in &resolved.keys {
        let text = match (&key.key, key.kept) {
            (Some(name), true) => format!("  its request is repeated under the same key, {name}"),
            (Some(name), false) => {
                format!("  the other side may have forgotten key {name}: its request is sent under a new one")
            }
            (None, _) => "  its request carries no key: it is sent again as it was".to_owned(),
        };
        stdout.line(printable(&text));
    }
    if let Some(error) = &resolved.given_up {
        stdout.line(printable(&format!("  it is not tried again, and fails: {error}")));
    }
    anstream::eprintln!("To go on with the run: stepwell run --resume {}", run.id);
}
