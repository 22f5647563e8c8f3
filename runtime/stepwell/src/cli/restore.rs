//! `stepwell restore`: a copy becomes the database of a data directory, in a new epoch.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use stepwell_core::journal::print::printable;
use stepwell_engine::store::{Restoration, StoreError};
use stepwell_engine::{RestoreAs, restore};

use super::exit::Exit;
use super::progress::Progress;
use super::render::clock;
use super::stdout::Stdout;
use super::{BY, DataDir};

/// Arguments of `stepwell restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell restore /backups/stepwell-2026-11-28.db --data-dir /var/lib/stepwell
  stepwell restore /backups/stepwell-2026-11-28.db --replace
  stepwell restore /backups/last.db --nothing-followed

Every run of the copy that has not ended is paused. Steps of the classes `keyed` and `once` that were not over, and those that begin
from then on, are unknown until somebody has said what became of them: they may have happened after the copy was made. Look at
them with `stepwell steps list`, say what you know with `stepwell steps resolve`, or, where nothing at all followed for a run, with
`stepwell steps nothing-followed`; then resume it.")]
pub(super) struct RestoreArgs {
    /// The copy: what `stepwell backup` has made, or another copy of `stepwell.db`, with its `-wal` beside it where it has one.
    file: PathBuf,
    /// Where a database is in the data directory: move it aside, to `replaced-N` in the same directory.
    #[arg(long)]
    replace: bool,
    /// Nothing was done for any run after the copy was made: every process was stopped before that. Runs go on, and are in no doubt.
    #[arg(long)]
    nothing_followed: bool,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data_dir: DataDir,
}

pub(super) async fn run(args: RestoreArgs) -> Result<(), ExitCode> {
    let progress = Progress::start(format!("restoring {}", args.file.display()));
    let (directory, file) = (args.data_dir.data_dir.clone(), args.file.clone());
    let (replace, nothing_followed) = (args.replace, args.nothing_followed);
    let restored = tokio::task::spawn_blocking(move || {
        let what = Restoration { copy: &file, directory: &directory, replace };
        restore(&RestoreAs { what, nothing_followed, by: BY, reason: &reason })
    });
    let restored = restored.await.map_err(|error| Exit::Failed.with(error))?;
    progress.end(restored.is_ok().then(|| format!("restored to {}", args.data_dir.data_dir.display())));
    let done = restored.map_err(|error| match error {
        StoreError::Missing(_) | StoreError::Occupied(_) => Exit::Usage.with(error),
        error => Exit::Failed.with(error),
    })?;
    for (number, reason) in &done.unreadable {
        say!("run number {number} cannot be read, and is set aside: {}", printable(reason));
    }
    let mut stdout = Stdout::default();
    if args.json {
        let unreadable: Vec<_> = done.unreadable.iter().map(|(number, _)| number).collect();
        stdout.line(json!({
            "epoch": done.epoch, "openRuns": done.restored.open_runs, "newestMs": done.restored.newest_ms,
            "pausedSchedules": done.restored.paused_schedules,
            "aside": done.restored.aside, "unreadable": unreadable,
        }));
        return Ok(());
    }
    let doubt =
        if nothing_followed { "they go on as they stood" } else { "they are paused until somebody resumes them" };
    stdout.line(format!("{} open runs: {doubt}", done.restored.open_runs));
    if done.restored.paused_schedules > 0 {
        stdout.line(format!("{} schedules are paused until somebody resumes them", done.restored.paused_schedules));
    }
    stdout.line(format!("epoch {}, newest change of the copy {}", done.epoch, clock(done.restored.newest_ms)));
    if let Some(aside) = &done.restored.aside {
        stdout.line(format!("what was there before is in {}", aside.display()));
    }
    Ok(())
}

/// Why a run is paused.
fn reason(newest_ms: u64) -> String {
    format!(
        "the database was restored from a copy whose newest change is of {}; what was done after that is not known",
        clock(newest_ms)
    )
}
