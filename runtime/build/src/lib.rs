//! Workflow source to WebAssembly component, inside the process: no Node, no wasm toolchain.
//!
//! [`build`] takes a `.ts` or `.js` file: oxc parses it and everything that it imports ([`graph`], [`typescript`]), the QuickJS
//! runtime is linked with the guest contract ([`runtime`]), the modules are evaluated in it and the result is snapshotted
//! ([`snapshot`]). [`embed_core_module`] turns another language's core module into a component.
//!
//! Types are erased, not checked. The same sources give the same bytes.

mod cache;
mod core_module;
mod error;
mod graph;
mod runtime;
mod sdk;
mod snapshot;
mod stubs;
mod typescript;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use core_module::embed_core_module;
pub use error::{BuildError, Diagnostic, Thrown};

/// How to build.
#[derive(Debug, Clone)]
pub struct BuildOptions {
    /// Where finished components and the compiled JavaScript runtime are kept, by content; `None` builds anew each time. Whoever can
    /// write there can run code as this process.
    pub cache_dir: Option<PathBuf>,
    /// How long top-level code may run.
    pub evaluation_timeout: Duration,
    /// The entry may import nothing but the SDK: for source of others, which must not read files of this machine.
    pub alone: bool,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { cache_dir: None, evaluation_timeout: Duration::from_secs(30), alone: false }
    }
}

/// A finished component.
#[derive(Debug, Clone)]
pub struct Built {
    /// The component's bytes.
    pub component: Vec<u8>,
    /// It was built before, from the same sources.
    pub from_cache: bool,
    /// What top-level code printed, in order.
    pub output: Vec<BuildLine>,
    /// Every file that it was made from, the entry first.
    pub sources: Vec<PathBuf>,
}

/// A line that top-level code printed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct BuildLine {
    /// `trace`, `debug`, `info`, `warn` or `error`.
    pub level: String,
    /// What was printed.
    pub text: String,
}

/// What a build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading the sources, erasing types, following imports.
    Parse,
    /// Linking and compiling the JavaScript runtime, or taking it from the cache: once in a process.
    Prepare,
    /// Evaluating the modules.
    Evaluate,
    /// Writing the component.
    Snapshot,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Parse => "reading sources",
            Self::Prepare => "preparing the JavaScript runtime",
            Self::Evaluate => "evaluating modules",
            Self::Snapshot => "writing the component",
        })
    }
}

/// Builds the component of the workflows that `entry` and its imports register.
///
/// Blocks for as long as it takes, about a second for the first build with a cache; call it off the async threads.
///
/// # Errors
///
/// See [`BuildError`]; its text is meant for the author.
pub fn build(entry: &Path, options: &BuildOptions, progress: &dyn Fn(Stage)) -> Result<Built, BuildError> {
    progress(Stage::Parse);
    let graph = graph::read(entry, options.alone)?;
    let key = cache::key(&graph);
    if let Some(dir) = &options.cache_dir
        && let Some((component, output)) = cache::find(dir, &key)
    {
        return Ok(Built { component, from_cache: true, output, sources: graph.sources });
    }
    progress(Stage::Prepare);
    let runtime = runtime::Runtime::get(options.cache_dir.as_deref())?;
    let sources = graph.sources.clone();
    let (component, output) = snapshot::evaluate(&runtime, graph, options.evaluation_timeout, progress)?;
    if let Some(dir) = &options.cache_dir
        && let Err(error) = cache::keep(dir, &key, &component, &output)
    {
        tracing::warn!(dir = %dir.display(), %error, "the component could not be cached");
    }
    Ok(Built { component, from_cache: false, output, sources })
}
