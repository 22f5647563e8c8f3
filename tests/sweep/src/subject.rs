//! What is swept: a module with an input, and the trouble that the other side makes by itself.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context as _, ensure};
use stepwell_core::ids::Digest;
use stepwell_engine::store::{Gather, SqliteOptions, SqliteStore};
use stepwell_engine::{Engine, Host, HostSettings, Reach, Settings};
use tempfile::TempDir;

use crate::life;

/// One for all lives: what wasmtime compiles is no part of what is swept.
pub static HOST: LazyLock<Host> = LazyLock::new(|| {
    let settings =
        HostSettings { pool_instances: 0, cache_dir: Some(scratch().join("compiled")), ..HostSettings::default() };
    Host::new(settings).expect("wasmtime can be set up")
});

/// What is kept for as long as the test process lives.
fn scratch() -> &'static Path {
    static SCRATCH: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a directory can be made"));
    SCRATCH.path()
}

/// Where the address of the other side stands in an input.
pub const ADDRESS: &str = "http://127.0.0.1:4810";

/// What is swept.
pub struct Subject {
    /// Of the example, or a number.
    pub name: String,
    /// JSON, with [`ADDRESS`] in it.
    pub input: String,
    /// Faults of the shop.
    pub faults: Vec<String>,
    /// Sleeps end at once.
    pub skip_sleeps: bool,
    /// Events that are there from the beginning.
    pub events: Vec<(String, String)>,
    /// When the run is cancelled.
    pub run_timeout_ms: Option<u64>,
    /// The module.
    pub digest: Digest,
    /// A data directory that has the module and nothing else.
    template: TempDir,
}

impl Subject {
    /// Of TypeScript source.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn of_source(name: &str, source: &str, input: &str) -> anyhow::Result<Self> {
        let template = tempfile::tempdir()?;
        let digest = add_module(template.path(), source)?;
        Ok(Self {
            name: name.to_owned(),
            input: input.to_owned(),
            faults: Vec::new(),
            skip_sleeps: false,
            events: Vec::new(),
            run_timeout_ms: None,
            digest,
            template,
        })
    }

    /// Adds another module to the data directory. Its name.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn also(&self, source: &str) -> anyhow::Result<Digest> {
        add_module(self.template.path(), source)
    }

    /// The same module with another input, under another name.
    ///
    /// # Errors
    /// When the template cannot be copied.
    pub fn with_input(&self, name: &str, input: &str) -> anyhow::Result<Self> {
        let template = tempfile::tempdir()?;
        self.put_into(template.path())?;
        Ok(Self {
            name: name.to_owned(),
            input: input.to_owned(),
            faults: Vec::new(),
            skip_sleeps: self.skip_sleeps,
            events: Vec::new(),
            run_timeout_ms: None,
            digest: self.digest.clone(),
            template,
        })
    }

    /// Makes a data directory that has the module.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn put_into(&self, data_dir: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(data_dir)?;
        for file in std::fs::read_dir(self.template.path())? {
            let file = file?;
            if file.file_type()?.is_file() {
                std::fs::copy(file.path(), data_dir.join(file.file_name()))?;
            }
        }
        Ok(())
    }
}

/// Builds a module and keeps it in a data directory.
fn add_module(data_dir: &Path, source: &str) -> anyhow::Result<Digest> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("module.ts");
    std::fs::write(&file, source)?;
    let built = stepwell_build::build(&file, &stepwell_build::BuildOptions::default(), &|_| {})?;
    let store = SqliteStore::open(data_dir, SqliteOptions::default())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let settings = Settings::new(data_dir);
        let engine = Engine::over(settings, std::sync::Arc::new(store), HOST.clone(), life::client(), Reach::default());
        Ok(engine.add_module(built.component).await?.digest)
    })
}

/// The folder of the examples.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Every example that is a workflow: a folder with a source of its name. Its input is `input.json` or `order.json`, the shop's faults
/// are those of its `run.sh`. Waits are made such that a sweep can bear them.
///
/// # Errors
/// When one cannot be read or built.
pub fn of_examples() -> anyhow::Result<Vec<Subject>> {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(examples())?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    let mut subjects = Vec::new();
    for folder in folders {
        let Some(name) = folder.file_name().and_then(|name| name.to_str()) else { continue };
        let source = folder.join(format!("{name}.ts"));
        if source.exists() {
            subjects.push(of_example(name, &folder, &source).with_context(|| format!("example {name}"))?);
        }
    }
    ensure!(!subjects.is_empty(), "there are no examples");
    Ok(subjects)
}

fn of_example(name: &str, folder: &Path, source: &Path) -> anyhow::Result<Subject> {
    let read = |file: &str| std::fs::read_to_string(folder.join(file)).ok();
    let input = read("input.json").or_else(|| read("order.json")).unwrap_or_else(|| "null".to_owned());
    let source = quickened(&std::fs::read_to_string(source)?);
    let mut subject = Subject::of_source(name, &source, &input)?;
    let script = read("run.sh").unwrap_or_default();
    let faults = script.split("--fault '").skip(1).filter_map(|rest| rest.split('\'').next());
    subject.faults = faults.map(|fault| fault.replace("retry-after:1", "retry-after:0")).collect();
    subject.skip_sleeps = source.contains("days\"");
    Ok(subject)
}

/// The same code with waits that a sweep can bear: what is written as a text or as a policy's first delay becomes a fraction, while
/// time-outs stay (a machine under load must not run into them), but for those that an example is there to run into.
fn quickened(source: &str) -> String {
    [
        (r#"sleep("2 seconds")"#, r#"sleep("60 ms")"#),
        ("timeoutMs: 10_000,", "timeoutMs: 10_000, retry: { initialMs: 20 },"),
        // Deaths use attempts up.
        ("maxAttempts: 4,", "maxAttempts: 40,"),
        ("initialMs: 100,", "initialMs: 10,"),
        (r#""100 ms""#, r#""20 ms""#),
        (r#""300 ms""#, r#""50 ms""#),
        (r#""600 ms""#, r#""80 ms""#),
        (r#""0.3 s""#, r#""60 ms""#),
    ]
    .iter()
    .fold(source.to_owned(), |source, (slow, quick)| source.replace(slow, quick))
}

/// Commits each batch by itself, at once: so each boundary between two of them is a point, and nothing depends on a clock.
pub const EAGER: Gather = Gather { linger: None, max_records: 0 };
/// Commits only when somebody waits: a death loses as much as it can.
pub const LAZY: Gather = Gather { linger: None, max_records: 1_000 };
