//! The command line: its commands as data, and what they have in common.

#[macro_use]
mod print;

mod backup;
mod build;
mod completions;
mod conclude;
mod exit;
mod open;
mod progress;
mod remote;
mod render;
mod restore;
mod run;
mod runs;
mod serve;
mod shown;
mod signals;
mod source;
mod stdout;
mod steps;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use tracing_subscriber::EnvFilter;

pub(crate) use exit::Exit;

/// Durable workflows as WebAssembly.
///
/// A workflow is ordinary code; Stepwell runs it to its end, through crashes, restarts, time-outs and failing services.
#[derive(Debug, Parser)]
#[command(name = "stepwell", version, max_term_width = 110, after_help = exit::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a workflow to its end in this process, or go on with one that stopped.
    Run(Box<run::RunArgs>),
    /// Look at runs: list them, show one, print its journal.
    Runs(runs::RunsArgs),
    /// Serve the HTTP API, and drive all runs of the data directory.
    Serve(serve::ServeArgs),
    /// Upload a workflow's source or module to a server.
    Deploy(remote::DeployArgs),
    /// Start a run on a server.
    Start(Box<remote::StartArgs>),
    /// Send events to runs of a server.
    Events(remote::EventsArgs),
    /// Look at a server's modules, activate or delete them.
    Modules(remote::ModulesArgs),
    /// Start workflows by the clock, on a server.
    Schedules(remote::SchedulesArgs),
    /// Look at a server's workflows, and say how many runs of one may be under way.
    Workflows(remote::WorkflowsArgs),
    /// Say who may use a server.
    Token(remote::TokenArgs),
    /// Steps of which it is not known whether they happened: list them, and say what became of one.
    Steps(steps::StepsArgs),
    /// Copy a database to a file, also while a server drives runs in it.
    Backup(backup::BackupArgs),
    /// Make a copy the database of a data directory. Its runs wait to be resumed, since nobody knows what they did after the copy.
    Restore(restore::RestoreArgs),
    /// Build a workflow's source to a WebAssembly component.
    Build(build::BuildArgs),
    /// Print what a shell needs to complete the command line.
    Completions(completions::CompletionsArgs),
}

/// Who it is that asks something of a run: whoever may write to the data directory.
const BY: &str = "local";

/// Where state is kept.
#[derive(Debug, Args)]
struct DataDir {
    /// Directory with the runs, their journals and the compiled modules.
    #[arg(long, value_name = "DIR", default_value = ".stepwell", env = "STEPWELL_DATA_DIR")]
    data_dir: PathBuf,
}

/// What a commit withstands.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum DurabilityArg {
    /// The loss of power: each commit waits for the disk.
    Disk,
    /// The end of this process, however it comes, but not a loss of power.
    Process,
}

pub(crate) fn main() -> ExitCode {
    let filter = EnvFilter::try_from_env("STEPWELL_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    let log = log.with_ansi(anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never);
    // A standard error that takes nothing is no fault of what was to be said there.
    log.log_internal_errors(false).init();
    let cli = Cli::parse();
    let runtime = match stepwell_engine::runtime(crate::give_back) {
        Ok(runtime) => runtime,
        Err(error) => return Exit::Failed.with(format!("cannot start: {error}")),
    };
    let exit = runtime.block_on(async {
        match cli.command {
            Command::Run(args) => run::run(*args).await,
            Command::Runs(args) => runs::run(args).await,
            Command::Steps(args) => steps::run(args).await,
            Command::Deploy(args) => done(remote::deploy(args).await),
            Command::Start(args) => remote::start(*args).await.unwrap_or_else(|exit| exit),
            Command::Events(args) => done(remote::events(args).await),
            Command::Modules(args) => done(remote::modules(args).await),
            Command::Schedules(args) => done(remote::schedules(args).await),
            Command::Workflows(args) => done(remote::workflows(args).await),
            Command::Token(args) => done(remote::token(args).await),
            Command::Serve(args) => serve::run(args).await,
            Command::Backup(args) => done(backup::run(args).await),
            Command::Restore(args) => done(restore::run(args).await),
            Command::Build(args) => build::run(args).await,
            Command::Completions(args) => completions::run(&args, &mut Cli::command()),
        }
    });
    // Long enough for the tasks to end, and with them the database to be closed in order; not for a thread in a long compilation.
    runtime.shutdown_timeout(Duration::from_millis(250));
    exit
}

fn done(outcome: Result<(), ExitCode>) -> ExitCode {
    outcome.map_or_else(|exit| exit, |()| Exit::Done.into())
}
