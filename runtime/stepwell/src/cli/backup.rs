//! `stepwell backup`: a copy of a database, also of one in use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use stepwell_engine::store::{self, StoreError};

use super::DataDir;
use super::exit::Exit;
use super::progress::Progress;
use super::stdout::Stdout;

/// Arguments of `stepwell backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell backup /backups/stepwell-$(date +%F).db
  stepwell backup /backups/now.db --data-dir /var/lib/stepwell

The copy is consistent and on the disk when the command ends with 0; otherwise there is none. It holds inputs, results and answers as
they are, and hashes of tokens. Bring it back with `stepwell restore`.")]
pub(super) struct BackupArgs {
    /// Where the copy is to be. Nothing may be there yet.
    file: PathBuf,
    /// As JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    data_dir: DataDir,
}

pub(super) async fn run(args: BackupArgs) -> Result<(), ExitCode> {
    let progress = Progress::start(format!("copying {}", args.data_dir.data_dir.display()));
    let (directory, file) = (args.data_dir.data_dir.clone(), args.file.clone());
    let copied = tokio::task::spawn_blocking(move || store::back_up(&directory, &file)).await;
    let copied = copied.map_err(|error| Exit::Failed.with(error))?;
    progress.end(copied.is_ok().then(|| format!("copied to {}", args.file.display())));
    let copied = copied.map_err(|error| match error {
        StoreError::Missing(_) | StoreError::Exists(_) => Exit::Usage.with(error),
        error => Exit::Failed.with(error),
    })?;
    if args.json {
        Stdout::default().line(json!({ "file": args.file, "bytes": copied.bytes, "runs": copied.runs }));
    } else {
        Stdout::default().line(format!("{} runs, {} bytes", copied.runs, copied.bytes));
    }
    Ok(())
}
