//! `stepwell run`: a workflow to its end in this process.

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::journal::print::printable;
use stepwell_core::json::Json;
use stepwell_engine::{AskError, Engine, RunEvent, RunRef, StartRun};

use super::BY;
use super::conclude::Concluding;
use super::exit::Exit;
use super::render::{Lines, json_event};
use super::signals::Signals;
use super::stdout::Stdout;
use super::{DataDir, DurabilityArg, open, source};
use crate::trace::{TraceArgs, Tracing};

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
    /// Tells these events of --resume from equal ones that were sent before: a repeated command sends its events once.
    #[arg(long, value_name = "ID", requires = "resume")]
    event_id: Option<String>,
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
    trace: TraceArgs,
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
    let tracing = args.trace.tracing().map_err(|error| Exit::Usage.with(format!("{error:#}")))?;
    let engine = open::engine(&args.data_dir.data_dir, args.durability, &outside, |settings| {
        settings.tap = tracing.as_ref().map(Tracing::tap).unwrap_or_default();
        settings.skip_sleeps = args.skip_sleeps;
        settings.workflow_turn = args.workflow_turn_ms.map_or(settings.workflow_turn, Duration::from_millis);
        settings.body_turn = args.body_turn_ms.map_or(settings.body_turn, Duration::from_millis);
    })?;
    let traced = match tracing {
        Some(tracing) => Some(tracing.start(&engine).map_err(|error| Exit::Failed.with(format!("{error:#}")))?),
        None => None,
    };
    let module = match built {
        Some(built) => Some(engine.add_module(built.component).await.map_err(|e| module_error(&e))?.digest),
        None => None,
    };
    // From here on a signal parks the run; before, it ends the process.
    let mut signals = Signals::listen()?;
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
                tags: Vec::new(),
                delay_ms: 0,
                retry_of: None,
                concurrency_key: None,
                priority: 0,
            };
            engine.start(start).await.map_err(|error| refused(&error))?
        }
    };
    let mut watcher = Watcher { json: args.json, lines: Lines::default(), stdout: Stdout::default() };
    watcher.began(&run);
    let mut happenings = engine.watch(run.key);
    let mut check = !args.no_replay_check;
    let last = if args.resume.is_none() {
        engine.go(&run);
        watcher.follow(&engine, &run, &mut happenings, &mut signals).await
    } else if let Some(over) = watcher.over(&engine, &run)? {
        // It ended before its result was seen, for instance by a kill in between: a result is not lost by that.
        watcher.note(&format!("run {} has ended already", run.id));
        check = false;
        Some(over)
    } else {
        // Before its events: they wake the run, and must not do so on the code that it is to leave.
        engine.resume(&run, BY, module.as_ref()).await.map_err(|error| not_resumed(&run, &error))?;
        engine.recover_children(&run).map_err(|error| Exit::Failed.with(error))?;
        send_events(&engine, &run, &events, args.event_id.as_deref().unwrap_or("cli")).await;
        watcher.follow(&engine, &run, &mut happenings, &mut signals).await
    };
    let (run, last) = watcher.follow_to_the_last(&engine, run, last, &mut signals).await?;
    let end = Concluding { engine: &engine, run: &run, data_dir: &args.data_dir.data_dir, json: args.json };
    let exit = end.tell(last, check, &mut signals, watcher.stdout).await;
    if let Some(traced) = traced {
        traced.end().await;
    }
    Ok(exit)
}

/// The run is under way by now: an event that cannot be sent does not stop it.
async fn send_events(engine: &Engine, run: &RunRef, events: &[(String, Json)], id: &str) {
    for (at, (name, payload)) in events.iter().enumerate() {
        // The same command again after a kill must not send its events twice.
        let dedup = format!("{id}:{at}:{name}:{}", Digest::of(payload.as_str().as_bytes()).short());
        match engine.send_event(run.key, name, payload, Some(dedup)).await {
            Ok(sent) if sent.repeated => {
                let hint =
                    "the same command has sent it before; to send it once more, give the command another --event-id";
                say!("event {name:?} is there already: {hint}");
            }
            Ok(_) => {}
            Err(error) => say!("warning: event {name:?} was not sent: {error}"),
        }
    }
}

/// The exit code where a run cannot be taken up.
fn not_resumed(run: &RunRef, error: &AskError) -> ExitCode {
    let exit = match error {
        AskError::Failed(error) | AskError::Differs(error) => exit_of(error),
        AskError::NoSuchRun(_) | AskError::Refused(_) => Exit::Usage,
        AskError::Store(_) => Exit::Failed,
        _ => Exit::NeedsSomebody,
    };
    exit.with(format!("run {} cannot go on: {}", run.id, printable(&error.to_string())))
}

/// A refusal, with its exit code.
fn refused(error: &Error) -> ExitCode {
    exit_of(error).with(printable(&error.to_string()))
}

fn exit_of(error: &Error) -> Exit {
    let usage = [
        Code::InvalidArgument,
        Code::InvalidPolicy,
        Code::ResultTooLarge,
        Code::UnknownWorkflow,
        Code::UnknownOperation,
        Code::Unsupported,
    ];
    match () {
        () if error.is(Code::Internal) => Exit::Failed,
        () if usage.into_iter().any(|code| error.is(code)) => Exit::Usage,
        () => Exit::NeedsSomebody,
    }
}

/// Follows a run and shows what happens in it.
struct Watcher {
    json: bool,
    lines: Lines,
    stdout: Stdout,
}

impl Watcher {
    /// Says which run it is: who resumes it needs to know.
    fn began(&mut self, run: &RunRef) {
        if self.json {
            self.stdout.line(serde_json::json!({ "event": "run", "run": run.id }));
        } else {
            say!("run {}", run.id);
        }
    }

    fn note(&self, text: &str) {
        if !self.json {
            say!("{text}");
        }
    }

    fn show(&mut self, engine: &Engine, event: &RunEvent) {
        if self.json {
            let mut object = json_event(event);
            if matches!(event, RunEvent::Ended(_)) {
                object["commits"] = engine.store().commits().into();
            }
            self.stdout.line(object);
        } else if let Some(line) = self.lines.line(event) {
            say!("{line}");
        }
    }

    /// How the run ended, where it has.
    fn over(&mut self, engine: &Engine, run: &RunRef) -> Result<Option<RunEvent>, ExitCode> {
        let over = engine.outcome(run).map_err(|error| Exit::Failed.with(error))?.map(RunEvent::Ended);
        over.iter().for_each(|event| self.show(engine, event));
        Ok(over)
    }

    /// Where another run goes on for it, that one is followed, and so on.
    async fn follow_to_the_last(
        &mut self,
        engine: &Engine,
        mut run: RunRef,
        mut last: Option<RunEvent>,
        signals: &mut Signals,
    ) -> Result<(RunRef, Option<RunEvent>), ExitCode> {
        while let Some(RunEvent::Ended(RunOutcome::Continued(next))) = &last {
            run = find(engine, next.as_str())?;
            self.began(&run);
            let mut happenings = engine.watch(run.key);
            // It may have come to rest before anybody watched, or have been left by an earlier process.
            match engine.resume(&run, BY, None).await {
                Ok(_) | Err(AskError::Refused(_)) => {}
                Err(error) => return Err(not_resumed(&run, &error)),
            }
            // What it was answered is durable: where it has ended by then, nothing more is told of it.
            last = match self.over(engine, &run)? {
                Some(over) => Some(over),
                None => {
                    engine.recover_children(&run).map_err(|error| Exit::Failed.with(error))?;
                    self.follow(engine, &run, &mut happenings, signals).await
                }
            };
        }
        Ok((run, last))
    }

    /// Until the run's last event. The first Ctrl-C parks the run, the second ends the process at once.
    async fn follow(
        &mut self,
        engine: &Engine,
        run: &RunRef,
        events: &mut tokio::sync::mpsc::UnboundedReceiver<RunEvent>,
        signals: &mut Signals,
    ) -> Option<RunEvent> {
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = signals.next() => {
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
            }
        }
    }
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

/// A value on the command line: JSON, or a file or stdin with it.
pub(super) fn input(text: Option<&str>) -> Result<Json, ExitCode> {
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
    let payload = Json::parse(payload).map_err(|error| usage(error.to_string()))?;
    stepwell_engine::check_event(name, &payload).map_err(|error| usage(error.to_string()))?;
    Ok((name.to_owned(), payload))
}
