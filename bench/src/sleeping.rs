//! What sleeping runs take of memory: in the process that put them to sleep, and in one that found them there.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stepwell_core::ids::Digest;
use stepwell_engine::{Engine, RunEvent};
use tempfile::TempDir;

use crate::figures::{Figures, Rounds};
use crate::lab::{self, Lab, engine};
use crate::machine::resident;
use crate::report::{At, Report};
use crate::runs::{millis, new_run, start_all, succeeded};

/// Of resident memory, above that before, in MB, when the process has come to rest. A process's own and what it has mapped of files.
const ABOVE: &str = "above_idle_mb";
/// The same at once.
const AT_ONCE: &str = "at_once_mb";
/// A process that has nothing to do has given its memory back after so long.
const REST: Duration = Duration::from_secs(4);
const IDLE: &str = "idle_mb";
const A_SECOND: &str = "per_s";

#[derive(Serialize, Deserialize)]
struct Seen {
    idle: u64,
    /// Right after it.
    then: u64,
    /// Once it has come to rest.
    rested: u64,
    ms: f64,
}

impl Seen {
    /// What is there now, `ms` after the work was begun, and later.
    async fn after(idle: u64, ms: f64) -> Result<Self> {
        let then = resident(std::process::id())?.0;
        tokio::time::sleep(REST).await;
        Ok(Self { idle, then, rested: resident(std::process::id())?.0, ms })
    }
}

pub(crate) fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    let sizes = if lab.quick { [1_000, 10_000] } else { [10_000, 100_000] };
    for runs in sizes {
        let dir = with_guest(lab)?;
        let mut rounds = Rounds::default();
        let put: Seen = ask(&format!("sleeping {runs} {}", dir.path().display()))?;
        let found: Seen = ask(&format!("recovered {runs} {}", dir.path().display()))?;
        for (of, seen) in [("put to sleep", &put), ("found asleep", &found)] {
            let figures = Figures::default()
                .with(IDLE, megabytes(seen.idle))
                .with(AT_ONCE, megabytes(seen.then.saturating_sub(seen.idle)))
                .with(ABOVE, megabytes(seen.rested.saturating_sub(seen.idle)))
                .with(A_SECOND, f64::from(runs) / seen.ms * 1e3);
            rounds.add(of, figures);
        }
        let lines = report.add("sleeping", runs, &rounds);
        if runs == 100_000 {
            let (put, found) = (lines.of("put to sleep", ABOVE), lines.of("found asleep", ABOVE));
            report.target("100,000 sleeping runs, MB above idle, where they were put to sleep", put, At::Most(50.0));
            report.target("100,000 sleeping runs, MB above idle, after a restart", found, At::Most(50.0));
        }
    }
    Ok(())
}

pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A data directory with the TypeScript guest beside the database, for a child.
pub(crate) fn with_guest(lab: &Lab) -> Result<TempDir> {
    let dir = lab.data_dir()?;
    std::fs::write(dir.path().join("guest.wasm"), &lab.guest("ts")?.component)?;
    Ok(dir)
}

/// Runs a child and reads what it has seen.
pub(crate) fn ask<T: DeserializeOwned>(what: &str) -> Result<T> {
    let output = lab::child(what)?.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        bail!("the child {what:?} failed: {}", output.status);
    }
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().context("the child said nothing")?;
    Ok(serde_json::from_str(line)?)
}

/// Opens the directory, keeps its guest and makes a first run, so that what is made once is there.
pub(crate) async fn warm(dir: &Path) -> Result<(Engine, Digest)> {
    let engine = engine(dir)?;
    let digest = engine.add_module(std::fs::read(dir.join("guest.wasm"))?).await?.digest;
    let run = engine.start(new_run(&digest, "compute", "{\"steps\":1}")?).await?;
    let end = engine.watch_rests(run.key);
    engine.go(&run);
    succeeded(end).await?;
    Ok((engine, digest))
}

/// The child that puts runs to sleep.
pub(crate) async fn child(runs: u32, dir: &Path) -> Result<()> {
    const WAVE: u32 = 1_000;
    let (engine, digest) = warm(dir).await?;
    let idle = resident(std::process::id())?.0;
    let began = Instant::now();
    for wave in (0..runs).step_by(WAVE as usize) {
        let starts = (wave..runs.min(wave + WAVE)).map(|_| new_run(&digest, "sleeper", "null"));
        let started = start_all(&engine, starts.collect::<Result<Vec<_>>>()?.into_iter()).await?;
        let rests: Vec<_> = started.iter().map(|run| engine.watch_rests(run.key)).collect();
        started.iter().for_each(|run| engine.go(run));
        for mut rest in rests {
            match rest.recv().await {
                Some(RunEvent::Waiting { .. }) => {}
                other => bail!("a run does not sleep: {other:?}"),
            }
        }
    }
    let seen = Seen::after(idle, millis(began.elapsed())).await?;
    println!("{}", serde_json::to_string(&seen)?);
    Ok(())
}

/// The child that finds them there.
pub(crate) async fn recovered(runs: u32, dir: &Path) -> Result<()> {
    let (engine, _) = warm(dir).await?;
    let idle = resident(std::process::id())?.0;
    let began = Instant::now();
    engine.recover()?;
    let seen = Seen::after(idle, millis(began.elapsed())).await?;
    let asleep = engine.store().read().due_timers(u64::MAX, runs + 1)?.len();
    if asleep != runs as usize {
        bail!("{asleep} runs sleep, {runs} were put to sleep");
    }
    println!("{}", serde_json::to_string(&seen)?);
    Ok(())
}
