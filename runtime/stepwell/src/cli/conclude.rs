//! How `stepwell run` ends: the run's end told to people and in the exit code, and the replay that checks its code.

use std::path::Path;
use std::process::ExitCode;

use stepwell_core::error::{Code, Error};
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::journal::print::printable;
use stepwell_engine::{Engine, RunEvent, RunRef, Verdict};

use super::exit::Exit;
use super::signals::Signals;
use super::stdout::Stdout;

/// A run that is over in this process.
pub(super) struct Concluding<'a> {
    pub(super) engine: &'a Engine,
    pub(super) run: &'a RunRef,
    pub(super) data_dir: &'a Path,
    pub(super) json: bool,
}

impl Concluding<'_> {
    /// Tells how it ended. With `check`, the run is replayed once first.
    pub(super) async fn tell(
        &self,
        end: Option<RunEvent>,
        check: bool,
        signals: &mut Signals,
        mut stdout: Stdout,
    ) -> ExitCode {
        let run = &self.run.id;
        let exit = match end {
            Some(RunEvent::Ended(outcome)) => {
                let exit = self.ended(&outcome, &mut stdout);
                if check {
                    let succeeded = matches!(outcome, RunOutcome::Succeeded(_) | RunOutcome::Continued(_));
                    self.replay_check(exit, succeeded, signals, &mut stdout).await
                } else {
                    exit
                }
            }
            Some(RunEvent::Blocked(steps)) => {
                let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
                Exit::NeedsSomebody.with(format!(
                    "run {run} is blocked: it is not known whether a request of step {} happened, and repeating it could do harm. \
                     `{}` shows what was sent; when you know what became of it, say so: stepwell steps resolve --help",
                    steps.join(", "),
                    self.command("steps list --run")
                ))
            }
            Some(RunEvent::Paused(error)) if error.is(Code::Internal) => Exit::Failed.with(format!(
                "run {run} stopped: {}\nTo go on, once the cause is gone: {}",
                printable(&error.to_string()),
                self.command("run --resume")
            )),
            Some(RunEvent::Paused(error)) => Exit::NeedsSomebody.with(format!(
                "run {run} is set aside: {}\nTo go on: {}",
                printable(&error.to_string()),
                self.command("run --resume")
            )),
            Some(RunEvent::Parked) => {
                say!("run {run} is parked. To go on: {}", self.command("run --resume"));
                Exit::Stopped.into()
            }
            _ => Exit::Failed.with(format!("run {run} was lost sight of. To go on: {}", self.command("run --resume"))),
        };
        stdout.finish(exit)
    }

    fn ended(&self, outcome: &RunOutcome, stdout: &mut Stdout) -> ExitCode {
        let run = &self.run.id;
        let exit = match outcome {
            RunOutcome::Succeeded(value) => {
                if !self.json {
                    stdout.line(value);
                }
                Exit::Done.into()
            }
            // The one that goes on was followed to its end, if it came to one.
            RunOutcome::Continued(next) => Exit::Done.with(format!("run {run} has ended, and run {next} goes on")),
            RunOutcome::Failed(error) => Exit::RunFailed.with(format!("run {run} failed: {}", chain(error))),
            RunOutcome::Cancelled(error) => Exit::RunFailed.with(format!("run {run} was cancelled: {}", chain(error))),
            RunOutcome::Terminated(error) => {
                Exit::RunFailed.with(format!("run {run} was terminated: {}", chain(error)))
            }
        };
        // What may have happened is said, however the run ended.
        if let Ok(Some(row)) = self.engine.run(run)
            && let Some(detail) = row.detail
        {
            say!("but {}; `{}` shows what was sent", printable(&detail), self.command("runs journal"));
        }
        exit
    }

    /// Replays the finished run once: a body that left something behind would otherwise show only after a crash.
    async fn replay_check(
        &self,
        exit: ExitCode,
        succeeded: bool,
        signals: &mut Signals,
        stdout: &mut Stdout,
    ) -> ExitCode {
        let verdict = tokio::select! {
            verdict = self.engine.verify(self.run) => verdict,
            () = signals.next() => {
                say!("the run is over; the check of its replay was broken off");
                return exit;
            }
        };
        match verdict {
            Ok(Verdict::Same) => exit,
            Ok(Verdict::Differs(mismatch)) => {
                if self.json {
                    stdout.line(serde_json::json!({ "event": "replay-differs", "difference": mismatch.to_string() }));
                }
                let text = format!("the run is over, but is not deterministic: {}", printable(&mismatch.to_string()));
                let code = Exit::ReplayDiffers.with(text);
                if succeeded { code } else { exit }
            }
            // The run's result stands: whoever starts it anew because of this code would do everything twice.
            Err(error) => {
                let text = printable(&error.to_string());
                say!("warning: the run is over, but its replay could not be checked: {text}");
                exit
            }
        }
    }

    /// A command about this run, to be typed as it stands.
    fn command(&self, what: &str) -> String {
        let dir = match self.data_dir.as_os_str() == ".stepwell" {
            true => String::new(),
            false => format!(" --data-dir {}", self.data_dir.display()),
        };
        format!("stepwell {what} {}{dir}", self.run.id)
    }
}

/// The error with its causes.
fn chain(error: &Error) -> String {
    let mut text = match &error.name {
        Some(name) => printable(&format!("{name} ({}): {}", error.code, error.message)),
        None => printable(&error.to_string()),
    };
    for cause in &error.causes {
        let name = cause.name.as_deref().unwrap_or("error");
        text.push_str(&format!("\n  caused by {}", printable(&format!("{name}: {}", cause.message))));
    }
    if error.outcome_unknown {
        text.push_str("\n  a request of the step may have happened all the same");
    }
    text
}
