//! `stepwell steps`: steps of unknown outcome in a data directory or on a server, and what a person has found out of them.

use std::path::Path;
use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::json;
use stepwell_core::ids::RunId;
use stepwell_core::journal::print::printable;
use stepwell_core::json::Json;
use stepwell_core::run::{Machine, Mode};
use stepwell_engine::store::{Reads, RunFilter, RunRow};
use stepwell_engine::{AskError, Engine, Finding, Granted, RunRef, UnknownStep, found_error};

use super::exit::Exit;
use super::remote::{self, Place, PlaceArgs, ServerArgs, Word};
use super::render::clock;
use super::stdout::Stdout;
use super::{BY, DataDir, DurabilityArg, open};
use crate::api::{ResolvedStep, Unknown};

/// Arguments of `stepwell steps`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell steps list
  stepwell steps list --url https://flows.example
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
        place: PlaceArgs,
    },
    /// Say what became of a step whose outcome is unknown. It is recorded with the evidence, and the run goes on with it: on a server
    /// at once, in a data directory when it is resumed with `stepwell run --resume RUN`.
    Resolve(ResolveArgs),
    /// Say that nothing was done for a restored run after the copy was made, but what its journal has. Steps that were unknown for no
    /// other reason are attempted once it is resumed.
    NothingFollowed(NothingFollowedArgs),
}

#[derive(Debug, Args)]
struct NothingFollowedArgs {
    /// The run.
    run: String,
    /// How you found it out. It stands in the journal.
    #[arg(long, value_name = "TEXT")]
    evidence: String,
    /// Who you are. It stands in the journal.
    #[arg(long, value_name = "NAME", default_value = BY)]
    by: String,
    #[command(flatten)]
    data_dir: DataDir,
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
    /// Who you are, where you write to a data directory. It stands in the journal. A server knows it by the token.
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

pub(super) async fn run(args: StepsArgs) -> ExitCode {
    let answer = match args.command {
        StepsCommand::List { run, all, json, place } => {
            let mut stdout = Stdout::default();
            let show = |step: &Unknown| show(&mut stdout, step, json);
            match place.place() {
                Place::Server(server) => remote::steps(&server, run.as_deref(), !all, show).await,
                Place::Directory(directory) => list(&directory, run.as_deref(), all, show),
            }
        }
        StepsCommand::Resolve(args) => resolve(args).await,
        StepsCommand::NothingFollowed(args) => nothing_followed(args).await,
    };
    match answer {
        Ok(()) => Exit::Done.into(),
        Err(exit) => exit,
    }
}

fn list(directory: &Path, run: Option<&str>, all: bool, mut show: impl FnMut(&Unknown)) -> Result<(), ExitCode> {
    let reads = open::to_read(directory)?;
    let failed = |error| Exit::Failed.with(error);
    let rows = match run {
        Some(run) => {
            let row = reads.run(&RunId::new(run)).map_err(failed)?;
            vec![row.ok_or_else(|| Exit::Usage.with(format!("there is no run {run} in {}", directory.display())))?]
        }
        None => {
            let filter = RunFilter { unknown: true, open: !all, limit: u32::MAX, ..RunFilter::default() };
            let list = reads.runs(&filter).map_err(failed)?;
            for run in list.unreadable {
                say!("run number {} cannot be read: {}", run.key, printable(&run.reason));
            }
            list.runs
        }
    };
    for row in rows {
        // A run that cannot be read hides no other.
        match unknown(&reads, &row) {
            Ok(steps) => steps.iter().for_each(|step| show(&Unknown::of(&row, step))),
            Err(error) => say!("run {} cannot be read: {}", row.run, printable(&error)),
        }
    }
    Ok(())
}

fn unknown(reads: &dyn Reads, row: &RunRow) -> Result<Vec<UnknownStep>, String> {
    let journal = reads.journal(row.key).map_err(|error| error.to_string())?;
    let entries = journal.into_iter().map(|(_, bytes)| bytes);
    Machine::load(entries, None, Mode::Verify).map(|machine| machine.unknown()).map_err(|error| error.to_string())
}

fn show(stdout: &mut Stdout, step: &Unknown, json: bool) {
    if json {
        stdout.line(json!(step));
        return;
    }
    stdout.line(printable(&format!("{}  {}  {} ({})", step.run, step.step, step.workflow, step.run_status)));
    for e in &step.effects {
        let key = e.key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
        let times = if e.first_sent_ms == e.last_sent_ms {
            String::new()
        } else {
            format!(", first {}", clock(e.first_sent_ms))
        };
        stdout.line(printable(&format!("    {} {} sent {}{times}{key}", e.method, e.url, clock(e.last_sent_ms))));
    }
    if step.after_copy {
        stdout.line("    it may have been attempted after the copy was made from which the database was restored");
    } else if step.effects.is_empty() {
        stdout.line("    something of it was done, and its last attempt was lost before it could say so");
    }
}

async fn resolve(args: ResolveArgs) -> Result<(), ExitCode> {
    let value = args.succeeded.as_deref().map(Json::parse).transpose();
    let value = value.map_err(|error| Exit::Usage.with(format!("--succeeded: {error}")))?;
    if args.evidence.trim().is_empty() {
        return Err(Exit::Usage.with("--evidence: say how you found it out; it stands in the journal"));
    }
    let mut stdout = Stdout::default();
    let directory = match args.place.place() {
        Place::Directory(directory) => directory,
        Place::Server(server) => return resolve_there(&args, &server, value.as_ref(), &mut stdout).await,
    };
    let finding = match (value, &args.failed) {
        (Some(value), _) => Finding::Succeeded(value),
        (None, Some(message)) => Finding::Failed(found_error(message)),
        (None, None) => Finding::Retry,
    };
    let resolved = resolve_here(&args, &directory, finding).await?;
    said(&mut stdout, args.json, &resolved);
    if !args.json {
        say!("To go on with the run: stepwell run --resume {}", args.run);
    }
    Ok(())
}

async fn resolve_there(
    args: &ResolveArgs,
    server: &ServerArgs,
    value: Option<&Json>,
    stdout: &mut Stdout,
) -> Result<(), ExitCode> {
    if args.by.is_some() {
        return Err(Exit::Usage.with("--by: the server knows who you are by your token"));
    }
    let word = match (value, &args.failed) {
        (Some(value), _) => Word::Succeeded(value),
        (None, Some(message)) => Word::Failed(message),
        (None, None) => Word::Retry,
    };
    let resolved = remote::resolve_step(server, (&args.run, &args.step), word, &args.evidence).await?;
    said(stdout, args.json, &resolved);
    Ok(())
}

async fn resolve_here(args: &ResolveArgs, directory: &Path, finding: Finding) -> Result<ResolvedStep, ExitCode> {
    let (engine, run) = asked(directory, &args.run, &args.evidence)?;
    let by = args.by.as_deref().unwrap_or(BY);
    let resolved = engine.resolve(&run, &args.step, finding, &args.evidence, by).await;
    engine.stop().await;
    Ok(ResolvedStep::of(&run, &resolved.map_err(refused)?))
}

async fn nothing_followed(args: NothingFollowedArgs) -> Result<(), ExitCode> {
    let (engine, run) = asked(&args.data_dir.data_dir, &args.run, &args.evidence)?;
    let granted = engine.nothing_followed(&run, &args.evidence, args.by.as_str()).await;
    engine.stop().await;
    let text = match granted.map_err(refused)? {
        Granted::Already => "is in no doubt",
        Granted::Now | Granted::OnResume => "is in no doubt any more",
    };
    Stdout::default().line(format!("run {} {text}", run.id));
    say!("To go on with the run: stepwell run --resume {}", run.id);
    Ok(())
}

/// An engine that drives nothing, and the run of which somebody has something to say, with evidence.
fn asked(directory: &Path, run: &str, evidence: &str) -> Result<(Engine, RunRef), ExitCode> {
    if evidence.trim().is_empty() {
        return Err(Exit::Usage.with("--evidence: say how you found it out; it stands in the journal"));
    }
    let outside = open::Outside { secrets: &[], allow_net: &[] };
    let engine = open::engine(directory, DurabilityArg::Disk, &outside, |settings| settings.drives = false)?;
    let row = engine.run(&RunId::new(run)).map_err(|error| Exit::Failed.with(error))?;
    let none = || Exit::Usage.with(format!("there is no run {run} in {}", directory.display()));
    let row = row.ok_or_else(none)?;
    Ok((engine, RunRef { id: row.run, key: row.key }))
}

fn refused(error: AskError) -> ExitCode {
    let exit = if matches!(error, AskError::Refused(_)) { Exit::Usage } else { Exit::Failed };
    exit.with(error)
}

fn said(stdout: &mut Stdout, json: bool, resolved: &ResolvedStep) {
    if json {
        stdout.line(json!(resolved));
        return;
    }
    stdout.line(printable(&format!("step {} of run {} is resolved", resolved.step, resolved.run)));
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
    if resolved.when.is_some() {
        stdout.line("  the run is paused, and goes on with it once it is resumed");
    }
}
