//! From a file on the command line to a component: built if it is source, taken as it is if it is WebAssembly.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stepwell_build::{BuildOptions, Built};
use stepwell_core::limits::MAX_MODULE_BYTES;

use super::exit::Exit;
use super::progress::Progress;

/// The component of a file, and what its top-level code printed.
pub(super) async fn component(file: &Path, cache_dir: Option<PathBuf>) -> Result<Built, ExitCode> {
    if !file.exists() {
        return Err(Exit::Usage.with(format!("there is no file {}", file.display())));
    }
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    match extension {
        "ts" | "mts" | "js" | "mjs" => build(file, cache_dir).await,
        "wasm" => read(file),
        _ => Err(Exit::Usage.with(format!(
            "{} is neither source (.ts, .js) nor a WebAssembly module (.wasm); other languages are built with their own tools",
            file.display()
        ))),
    }
}

async fn build(file: &Path, cache_dir: Option<PathBuf>) -> Result<Built, ExitCode> {
    let (path, shown) = (file.to_owned(), file.display().to_string());
    let progress = Progress::start(format!("building {shown}"));
    let reporting = progress.clone();
    let options = BuildOptions { cache_dir, ..BuildOptions::default() };
    let built = tokio::task::spawn_blocking(move || {
        stepwell_build::build(&path, &options, &|stage| reporting.stage(&stage.to_string()))
    })
    .await;
    match built {
        Ok(Ok(built)) => {
            progress.end(if built.from_cache { None } else { Some(format!("built {shown}")) });
            for line in &built.output {
                say!("  {} {}", line.level, line.text);
            }
            Ok(built)
        }
        Ok(Err(error)) => {
            progress.end(None);
            Err(Exit::Build.with(format!("{shown} does not build:\n{error}")))
        }
        Err(error) => {
            progress.end(None);
            Err(Exit::Failed.with(format!("building {shown}: {error}")))
        }
    }
}

/// A component, or a core module that becomes one.
fn read(file: &Path) -> Result<Built, ExitCode> {
    // Not even read: what is too large would be refused once it was in memory, several times over.
    let bytes = std::fs::metadata(file).map_or(0, |metadata| metadata.len());
    if bytes > MAX_MODULE_BYTES as u64 {
        let text = format!("{} has {bytes} bytes; a module may have {MAX_MODULE_BYTES}", file.display());
        return Err(Exit::Build.with(text));
    }
    let bytes = std::fs::read(file).map_err(|e| Exit::Usage.with(format!("cannot read {}: {e}", file.display())))?;
    let component = match bytes.get(..8) {
        Some([0, b'a', b's', b'm', 1, 0, 0, 0]) => stepwell_build::embed_core_module(&bytes)
            .map_err(|error| Exit::Build.with(format!("{}: {error}", file.display())))?,
        _ => bytes,
    };
    Ok(Built { component, from_cache: false, output: Vec::new(), sources: vec![file.to_owned()] })
}
