//! Taking up very many unfinished runs after a restart: how long until the first of them has got further.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use stepwell_engine::Engine;
use stepwell_store::{RunFilter, Status};

use crate::figures::{Figures, Rounds};
use crate::lab::{Lab, engine};
use crate::machine::resident;
use crate::report::{At, Report};
use crate::runs::{millis, new_run, start_all};
use crate::sleeping::{ask, megabytes, with_guest};

const FIRST: &str = "first_ms";

#[derive(Serialize, Deserialize)]
struct Seen {
    opened_ms: f64,
    recovered_ms: f64,
    first_ms: f64,
    all_ms: f64,
    resident: u64,
}

#[derive(Serialize, Deserialize)]
struct Queued {
    ms: f64,
}

pub(crate) fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    let runs = lab.scaled(100_000, 10_000);
    let dir = with_guest(lab)?;
    let queued: Queued = ask(&format!("queue {runs} {}", dir.path().display()))?;
    let seen: Seen = ask(&format!("restart {runs} {}", dir.path().display()))?;
    let mut rounds = Rounds::default();
    rounds.add("starts", Figures::default().with("per_s", f64::from(runs) / queued.ms * 1e3));
    let figures = Figures::default()
        .with("open_ms", seen.opened_ms)
        .with("recover_ms", seen.recovered_ms)
        .with(FIRST, seen.first_ms)
        .with("per_s", f64::from(runs) / seen.all_ms * 1e3)
        .with("rss_mb", megabytes(seen.resident));
    rounds.add("stepwell", figures);
    let lines = report.add("restart", runs, &rounds);
    if runs == 100_000 {
        let first = lines.of("stepwell", FIRST) / 1e3;
        report.target("restart with 100,000 unfinished runs, first progress in s", first, At::Most(2.0));
    }
    Ok(())
}

/// The child that writes runs down and ends before any has begun.
pub(crate) async fn queue(runs: u32, dir: &Path) -> Result<()> {
    let engine = engine(dir)?;
    let digest = engine.add_module(std::fs::read(dir.join("guest.wasm"))?).await?.digest;
    let starts = (0..runs).map(|_| new_run(&digest, "compute", "{\"steps\":1}"));
    let starts: Vec<_> = starts.collect::<Result<_>>()?;
    let began = Instant::now();
    start_all(&engine, starts.into_iter()).await?;
    println!("{}", serde_json::to_string(&Queued { ms: millis(began.elapsed()) })?);
    Ok(())
}

/// The child that takes them up, timed from the opening of the directory.
pub(crate) async fn child(runs: u32, dir: &Path) -> Result<()> {
    let began = Instant::now();
    let engine = engine(dir)?;
    let opened_ms = millis(began.elapsed());
    engine.recover()?;
    let recovered_ms = millis(began.elapsed());
    until(&engine, || Ok(!ended(&engine, 1)?.is_empty())).await?;
    let first_ms = millis(began.elapsed());
    let resident = resident(std::process::id())?.0;
    until(&engine, || Ok(unfinished(&engine)? == 0)).await?;
    let all_ms = millis(began.elapsed());
    let done = ended(&engine, runs + 1)?.len();
    if done != runs as usize {
        bail!("{done} runs succeeded, {runs} were unfinished");
    }
    println!("{}", serde_json::to_string(&Seen { opened_ms, recovered_ms, first_ms, all_ms, resident })?);
    Ok(())
}

fn unfinished(engine: &Engine) -> Result<usize> {
    Ok(engine.store().read().unfinished()?.0.len())
}

fn ended(engine: &Engine, limit: u32) -> Result<Vec<stepwell_store::RunRow>> {
    let filter = RunFilter { status: Some(Status::Succeeded), limit, ..RunFilter::default() };
    Ok(engine.store().read().runs(&filter)?.runs)
}

/// Looks until it is so: seldom where much is left to do, since looking costs as well.
async fn until(engine: &Engine, so: impl Fn() -> Result<bool>) -> Result<()> {
    let mut rest = Duration::from_millis(2);
    let mut commits = engine.store().commits();
    loop {
        if so()? {
            return Ok(());
        }
        tokio::time::sleep(rest).await;
        rest = (rest * 2).min(Duration::from_millis(if commits == engine.store().commits() { 50 } else { 10 }));
        commits = engine.store().commits();
    }
}
