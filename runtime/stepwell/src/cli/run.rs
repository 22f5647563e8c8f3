//! `stepwell run`: a workflow to its end in this process.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::json::Json;
use stepwell_engine::{AskError, Engine, RunEvent, RunRef, StartRun, Verdict};

use super::BY;
use super::exit::Exit;
use super::render::{Lines, json_event};
use super::{DataDir, DurabilityArg, open, source};

/// Arguments of `stepwell run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell run checkout.ts --input '{\"order\":\"ord_42\"}'
  stepwell run checkout.ts --input @order.json
  stepwell run flows.ts refund --event 'approved={\"by\":\"ana\"}'
  stepwell run --resume run_0198c1a2b3c4d5e6f708192a3b4c5d6e
  stepwell run pay.ts --secret stripe=env:STRIPE_KEY@api.stripe.com

The result goes to stdout as JSON, everything else to stderr. Ctrl-C parks the run; `--resume` goes on with it.")]
pub(super) struct RunArgs {
    /// The workflow: source (.ts, .js) or a component (.wasm). With --resume it may be left out.
    #[arg(required_unless_present = "resume")]
    file: Option<PathBuf>,
    /// Which workflow of the file; where it has only one, this can be left out.
    #[arg(conflicts_with = "resume")]
    workflow: Option<String>,
    /// The input: JSON, or @FILE with JSON in it, or @- for stdin.
    #[arg(short, long, value_name = "JSON", conflicts_with = "resume")]
    input: Option<String>,
    /// Go on with a run that stopped. With a FILE, on the code that it has now, if the run replays the same on it.
    #[arg(long, value_name = "RUN")]
    resume: Option<String>,
    /// An event for the run, there before it is awaited. Can be given more than once.
    #[arg(long = "event", value_name = "NAME=JSON")]
    events: Vec<String>,
    /// How long the run may take, in ms; then it is cancelled.
    #[arg(long, value_name = "MS", conflicts_with = "resume")]
    run_timeout_ms: Option<u64>,
    /// A secret for request headers: NAME=env:VARIABLE@HOST or NAME=file:PATH@HOST.
    #[arg(long = "secret", value_name = "SECRET")]
    secrets: Vec<String>,
    /// A destination beyond those that the workflow declares: a host, an address or a network. Loopback is always allowed.
    #[arg(long = "allow-net", value_name = "NET")]
    allow_net: Vec<String>,
    /// Let sleeps end at once: for trying a workflow out.
    #[arg(long)]
    skip_sleeps: bool,
    /// Computing time that workflow code may use between two waits, in ms; over it the run fails. 10 s by default.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    workflow_turn_ms: Option<u64>,
    /// Computing time that a step's body may use between two waits, in ms; over it the attempt fails. 60 s by default.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    body_turn_ms: Option<u64>,
    /// Do not replay the run once after its end to see that its code is deterministic.
    #[arg(long)]
    no_replay_check: bool,
    /// Print events as JSON lines on stdout: `run` first, with its id; `ended` has the result, and how many commits this
    /// process made until then.
    #[arg(long)]
    json: bool,
    /// What a commit withstands.
    #[arg(long, value_enum, default_value = "disk")]
    durability: DurabilityArg,
    #[command(flatten)]
    data_dir: DataDir,
}

pub(super) async fn run(args: RunArgs) -> ExitCode {
    match attempt(args).await {
        Ok(exit) | Err(exit) => exit,
    }
}

async fn attempt(args: RunArgs) -> Result<ExitCode, ExitCode> {
    let input = input(args.input.as_deref())?;
    let events = args.events.iter().map(|text| event(text)).collect::<Result<Vec<_>, _>>()?;
    let cache_dir = args.data_dir.data_dir.join("built");
    let built = match &args.file {
        Some(file) => Some(source::component(file, Some(cache_dir)).await?),
        None => None,
    };
    let outside = open::Outside { secrets: &args.secrets, allow_net: &args.allow_net };
    let engine = open::engine(&args.data_dir.data_dir, args.durability, &outside, |settings| {
        settings.skip_sleeps = args.skip_sleeps;
        settings.workflow_turn = args.workflow_turn_ms.map_or(settings.workflow_turn, Duration::from_millis);
        settings.body_turn = args.body_turn_ms.map_or(settings.body_turn, Duration::from_millis);
    })?;
    let module = match built {
        Some(built) => Some(engine.add_module(built.component).await.map_err(|e| module_error(&e))?.digest),
        None => None,
    };
    let run = match &args.resume {
        Some(text) => find(&engine, text)?,
        None => {
            let digest = module.clone().ok_or_else(|| Exit::Usage.with("name a file to run"))?;
            let start = StartRun {
                digest,
                workflow: args.workflow,
                input,
                run_key: None,
                run_timeout_ms: args.run_timeout_ms,
                events: events.clone(),
            };
            engine.start(start).await.map_err(|e| Exit::Usage.with(e))?
        }
    };
    let mut watcher = Watcher { json: args.json, lines: Lines::default() };
    watcher.began(&run);
    if args.resume.is_some()
        && let Some(outcome) = engine.outcome(&run).map_err(|error| Exit::Failed.with(error))?
    {
        // It ended before its result was seen, for instance by a kill in between: a result is not lost by that.
        watcher.note(&format!("run {} has ended already", run.id));
        let end = RunEvent::Ended(outcome);
        watcher.show(&engine, &end);
        return Ok(conclude(&engine, &run, Some(end), &args.data_dir.data_dir, false, args.json).await);
    }
    let mut happenings = engine.watch(run.key);
    if args.resume.is_some() {
        resume(&engine, &run, module.as_ref(), &events).await?;
    } else {
        engine.go(&run);
    }
    let end = watcher.follow(&engine, &run, &mut happenings).await;
    Ok(conclude(&engine, &run, end, &args.data_dir.data_dir, !args.no_replay_check, args.json).await)
}

async fn resume(
    engine: &Engine,
    run: &RunRef,
    module: Option<&Digest>,
    events: &[(String, Json)],
) -> Result<(), ExitCode> {
    // Before its events: they wake the run, and must not do so on the code that it is to leave.
    engine.resume(run, BY, module).await.map_err(|error| {
        let exit = match &error {
            AskError::NoSuchRun(_) | AskError::Refused(_) => Exit::Usage,
            _ => Exit::NeedsSomebody,
        };
        exit.with(error)
    })?;
    for (at, (name, payload)) in events.iter().enumerate() {
        // The same command again after a kill must not send its events twice.
        let dedup = format!("cli:{at}:{name}:{}", Digest::of(payload.as_str().as_bytes()).short());
        engine.send_event(run.key, name, payload, Some(dedup)).await.map_err(|e| Exit::Usage.with(e))?;
    }
    Ok(())
}

/// Follows a run and shows what happens in it.
struct Watcher {
    json: bool,
    lines: Lines,
}

impl Watcher {
    /// Says which run it is: who resumes it needs to know.
    fn began(&self, run: &RunRef) {
        if self.json {
            anstream::println!("{}", serde_json::json!({ "event": "run", "run": run.id }));
        } else {
            anstream::eprintln!("run {}", run.id);
        }
    }

    fn note(&self, text: &str) {
        if !self.json {
            anstream::eprintln!("{text}");
        }
    }

    fn show(&mut self, engine: &Engine, event: &RunEvent) {
        if self.json {
            let mut object = json_event(event);
            if matches!(event, RunEvent::Ended(_)) {
                object["commits"] = engine.store().commits().into();
            }
            anstream::println!("{object}");
        } else if let Some(line) = self.lines.line(event) {
            anstream::eprintln!("{line}");
        }
    }

    /// Until the run's last event. The first Ctrl-C parks the run, the second ends the process at once.
    async fn follow(
        &mut self,
        engine: &Engine,
        run: &RunRef,
        events: &mut tokio::sync::mpsc::UnboundedReceiver<RunEvent>,
    ) -> Option<RunEvent> {
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                event = events.recv() => {
                    let event = event?;
                    self.show(engine, &event);
                    if event.is_last() {
                        return Some(event);
                    }
                    // A run that waits has no task to stop: it is where it can be resumed.
                    if stopping && matches!(event, RunEvent::Waiting { .. }) {
                        return Some(RunEvent::Parked);
                    }
                }
                () = interrupted() => {
                    if stopping {
                        std::process::exit(Exit::Stopped as i32);
                    }
                    stopping = true;
                    self.note("stopping; requests under way are waited for (Ctrl-C again to stop at once)");
                    let live = engine.stop_run(run.key);
                    if !live {
                        return Some(RunEvent::Parked);
                    }
                }
            }
        }
    }
}

/// Ctrl-C, or a polite request of the system to end.
async fn interrupted() {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).ok();
    let terminated = async {
        match &mut terminate {
            Some(signal) => drop(signal.recv().await),
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

async fn conclude(
    engine: &Engine,
    run: &RunRef,
    end: Option<RunEvent>,
    data_dir: &std::path::Path,
    check: bool,
    json: bool,
) -> ExitCode {
    let resume = || {
        let dir = if data_dir.as_os_str() == ".stepwell" {
            String::new()
        } else {
            format!(" --data-dir {}", data_dir.display())
        };
        format!("stepwell run --resume {}{dir}", run.id)
    };
    match end {
        Some(RunEvent::Ended(outcome)) => {
            let exit = match &outcome {
                RunOutcome::Succeeded(value) => {
                    if !json {
                        anstream::println!("{value}");
                    }
                    Exit::Done.into()
                }
                RunOutcome::Failed(error) => Exit::RunFailed.with(format!("run {} failed: {}", run.id, chain(error))),
                RunOutcome::Cancelled(error) => {
                    Exit::RunFailed.with(format!("run {} was cancelled: {}", run.id, chain(error)))
                }
                RunOutcome::Terminated(error) => {
                    Exit::RunFailed.with(format!("run {} was terminated: {}", run.id, chain(error)))
                }
            };
            if check {
                replay_check(engine, run, exit, matches!(outcome, RunOutcome::Succeeded(_)), json).await
            } else {
                exit
            }
        }
        Some(RunEvent::Blocked(steps)) => {
            let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
            Exit::NeedsSomebody.with(format!(
                "run {} is blocked: it is not known whether a request of step {} happened, and repeating it could do harm. \
                 `stepwell steps list` shows what was sent; when you know what became of it: `stepwell steps resolve {} {}`",
                run.id,
                steps.join(", "),
                run.id,
                steps.first().map_or("STEP", String::as_str)
            ))
        }
        Some(RunEvent::Paused(error)) if error.is(Code::Internal) => Exit::Failed.with(format!(
            "run {} stopped: {error}\nTo go on, once the cause is gone: {}",
            run.id,
            resume()
        )),
        Some(RunEvent::Paused(error)) => {
            Exit::NeedsSomebody.with(format!("run {} is set aside: {error}\nTo go on: {}", run.id, resume()))
        }
        Some(RunEvent::Parked) => {
            anstream::eprintln!("run {} is parked. To go on: {}", run.id, resume());
            Exit::Stopped.into()
        }
        _ => Exit::Failed.with(format!("run {} was lost sight of. To go on: {}", run.id, resume())),
    }
}

/// Replays the finished run once: a body that left something behind would otherwise show only after a crash.
async fn replay_check(engine: &Engine, run: &RunRef, exit: ExitCode, succeeded: bool, json: bool) -> ExitCode {
    match engine.verify(run).await {
        Ok(Verdict::Same) => exit,
        Ok(Verdict::Differs(mismatch)) => {
            if json {
                anstream::println!(
                    "{}",
                    serde_json::json!({ "event": "replay-differs", "difference": mismatch.to_string() })
                );
            }
            let text = format!("the run is over, but is not deterministic: {mismatch}");
            let code = Exit::ReplayDiffers.with(text);
            if succeeded { code } else { exit }
        }
        Err(error) => {
            let code = Exit::Failed.with(format!("the run is over, but its replay could not be checked: {error}"));
            if succeeded { code } else { exit }
        }
    }
}

/// The error with its causes and details.
fn chain(error: &Error) -> String {
    let mut text = match &error.name {
        Some(name) => format!("{name} ({}): {}", error.code, error.message),
        None => error.to_string(),
    };
    for cause in &error.causes {
        let name = cause.name.as_deref().unwrap_or("error");
        text.push_str(&format!("\n  caused by {name}: {}", cause.message));
    }
    if error.outcome_unknown {
        text.push_str("\n  a request of the step may have happened all the same");
    }
    text
}

fn module_error(error: &Error) -> ExitCode {
    if error.is(Code::Internal) {
        return Exit::Failed.with(error);
    }
    Exit::Build.with(format!("the module cannot be used: {error}"))
}

fn find(engine: &Engine, text: &str) -> Result<RunRef, ExitCode> {
    match engine.run(&RunId::new(text)) {
        Ok(Some(row)) => Ok(RunRef { id: row.run, key: row.key }),
        Ok(None) => {
            Err(Exit::Usage
                .with(format!("there is no run {text} in this data directory; `stepwell runs list` shows them")))
        }
        Err(error) => Err(Exit::Failed.with(error)),
    }
}

fn input(text: Option<&str>) -> Result<Json, ExitCode> {
    let usage = |error: String| Exit::Usage.with(format!("--input: {error}"));
    let text = match text {
        None => return Ok(Json::null()),
        Some("@-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|e| usage(format!("cannot read stdin: {e}")))?;
            text
        }
        Some(text) => match text.strip_prefix('@') {
            Some(file) => std::fs::read_to_string(file).map_err(|e| usage(format!("cannot read {file}: {e}")))?,
            None => text.to_owned(),
        },
    };
    Json::parse(&text).map_err(|error| usage(error.to_string()))
}

fn event(text: &str) -> Result<(String, Json), ExitCode> {
    let usage = |error: String| Exit::Usage.with(format!("--event {text:?}: {error}"));
    let (name, payload) = text.split_once('=').unwrap_or((text, "null"));
    if name.is_empty() {
        return Err(usage("it has no name; write NAME=JSON".to_owned()));
    }
    Ok((name.to_owned(), Json::parse(payload).map_err(|error| usage(error.to_string()))?))
}
