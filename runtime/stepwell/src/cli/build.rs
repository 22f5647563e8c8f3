//! `stepwell build`: source to component.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use stepwell_core::ids::Digest;

use super::exit::Exit;
use super::{DataDir, source};

/// Arguments of `stepwell build`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  stepwell build checkout.ts                 writes checkout.wasm
  stepwell build src/main.ts -o out.wasm")]
pub(super) struct BuildArgs {
    /// The workflow's source: .ts or .js; a core module (.wasm) with an embedded component type becomes a component.
    file: PathBuf,
    /// Where the component is written; beside the source by default.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    // Where there is one, what was built before is taken from it.
    #[command(flatten)]
    data_dir: DataDir,
}

pub(super) async fn run(args: BuildArgs) -> ExitCode {
    let output = args.output.unwrap_or_else(|| args.file.with_extension("wasm"));
    if output == args.file {
        return Exit::Usage.with(format!("{} would be overwritten: name another file with -o", args.file.display()));
    }
    let data_dir = args.data_dir.data_dir;
    let cache_dir = data_dir.is_dir().then(|| data_dir.join("built"));
    let built = match source::component(&args.file, cache_dir).await {
        Ok(built) => built,
        Err(exit) => return exit,
    };
    if let Err(error) = write_whole(&output, &built.component) {
        return Exit::Failed.with(format!("cannot write {}: {error}", output.display()));
    }
    let digest = Digest::of(&built.component);
    say!("wrote {} ({} KiB, module {})", output.display(), built.component.len() / 1024, digest.short());
    Exit::Done.into()
}

/// All of it or nothing: a file that is half written would be uploaded as it is.
fn write_whole(path: &std::path::Path, bytes: &[u8]) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.partial"));
    std::fs::write(&partial, bytes).and_then(|()| std::fs::rename(&partial, path)).inspect_err(|_| {
        let _ = std::fs::remove_file(&partial);
    })
}
