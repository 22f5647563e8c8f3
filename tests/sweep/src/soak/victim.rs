//! The program that is killed: an engine that takes up what it finds, keeps so many runs under way, and says what it did.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use stepwell_core::ids::Digest;
use stepwell_core::json::Json;
use stepwell_engine::store::{RunFilter, RunRow, Status};
use stepwell_engine::{Engine, RunEvent, RunRef, Settings, StartRun};

use crate::life::{client, reach};

/// How often it looks whether runs are wanting.
const LOOKS: Duration = Duration::from_millis(20);

/// Drives runs until it is killed; with `runs` 0, until none is under way any more.
///
/// Its lines: `started N` and `ended N STATUS`, each once it is durable, and `ready` once all runs were taken up.
///
/// # Errors
/// When the directory cannot be opened or a run not be started.
pub fn live(dir: &Path, module: &Path, url: &str, runs: usize) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let engine = Engine::open(Settings::new(dir), client(), reach())?;
        let digest = engine.add_module(std::fs::read(module)?).await?.digest;
        let mut watched = BTreeSet::new();
        for row in under_way(&engine)? {
            watched.insert(row.key);
            watch(&engine, &row);
        }
        engine.recover()?;
        anstream::println!("{}", super::READY);
        loop {
            let open = under_way(&engine)?.len();
            if runs == 0 && open == 0 {
                engine.stop().await;
                return Ok(());
            }
            for _ in open..runs {
                start(&engine, &digest, url).await?;
            }
            tokio::time::sleep(LOOKS).await;
        }
    })
}

/// Those that go on by themselves.
fn under_way(engine: &Engine) -> anyhow::Result<Vec<RunRow>> {
    let reads = engine.store().read();
    let mut open = reads.unfinished()?.0;
    open.retain(|row| matches!(row.status, Status::Queued | Status::Running | Status::Waiting));
    open.iter().filter_map(|run| reads.run_by_number(run.key).transpose()).map(|row| Ok(row?)).collect()
}

async fn start(engine: &Engine, digest: &Digest, url: &str) -> anyhow::Result<()> {
    let last = engine.store().read().runs(&RunFilter { limit: 1, ..RunFilter::default() })?;
    let n = last.runs.first().map_or(0, |row| row.key);
    let (once, nap) = (n % 5 == 0, 50 + n * 7919 % 1_500);
    let input = serde_json::json!({ "n": n, "url": url, "once": once, "napMs": nap });
    let run = engine
        .start(StartRun {
            digest: digest.clone(),
            workflow: None,
            input: Json::parse(&input.to_string())?,
            run_key: Some(n.to_string()),
            run_timeout_ms: None,
            events: Vec::new(),
            tags: Vec::new(),
            delay_ms: 0,
            retry_of: None,
            concurrency_key: None,
            priority: 0,
        })
        .await?;
    anstream::println!("started {n}");
    if let Some(row) = engine.run(&run.id)? {
        watch(engine, &row);
    }
    engine.go(&run);
    Ok(())
}

/// Says when a run is over. What a watcher is told is durable.
fn watch(engine: &Engine, row: &RunRow) {
    let run = RunRef { id: row.run.clone(), key: row.key };
    let n = row.run_key.clone().unwrap_or_default();
    let mut events = engine.watch(run.key);
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            let status = match event {
                RunEvent::Ended(outcome) => match outcome {
                    stepwell_core::journal::entry::RunOutcome::Succeeded(_) => "succeeded",
                    _ => "failed",
                },
                RunEvent::Blocked(_) => "blocked",
                RunEvent::Paused(error) => {
                    anstream::println!("paused {n} {error}");
                    return;
                }
                _ => continue,
            };
            anstream::println!("ended {n} {status}");
            return;
        }
    });
}
