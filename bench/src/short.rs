//! Runs of one step, from the call that starts one to its end being known: what a client waits for.

use std::time::Instant;

use anyhow::Result;
use stepwell_core::ids::Digest;
use stepwell_engine::Engine;
use tokio::task::JoinSet;

use crate::figures::{BYTES, CPU, Figures, P50, P99, RATE, Rounds, quantile};
use crate::floors;
use crate::lab::{Lab, engine};
use crate::machine::Meter;
use crate::report::{At, Report};
use crate::runs::{journal_bytes, micros, new_run, succeeded};

pub(crate) async fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    for &at_once in &lab.at_once {
        let times = (lab.scaled(4_000, 1_000) / at_once).clamp(2, 500);
        let mut rounds = Rounds::default();
        for _ in 0..lab.rounds {
            rounds.add("stepwell", stepwell(lab, at_once, times).await?);
            if at_once == 1 {
                rounds.add("fdatasync", floors::fdatasync(lab.root(), times)?);
            }
        }
        let lines = report.add("short runs", at_once, &rounds);
        if at_once == 1 {
            let ms = lines.of("stepwell", P50) / 1e3;
            report.target("start to end of a one-step run, p50 in ms", ms, At::Most(4.0));
        }
    }
    Ok(())
}

async fn stepwell(lab: &Lab, at_once: u32, times: u32) -> Result<Figures> {
    let dir = lab.data_dir()?;
    let engine = engine(dir.path())?;
    let module = engine.add_module(lab.guest("ts")?.component.clone()).await?;
    // What is made at the first run is no run's.
    one(&engine, &module.digest).await?;
    let meter = Meter::start();
    let mut clients = JoinSet::new();
    for _ in 0..at_once {
        let (engine, digest) = (engine.clone(), module.digest.clone());
        clients.spawn(async move {
            let mut took = Vec::new();
            for _ in 0..times {
                took.push(one(&engine, &digest).await?);
            }
            anyhow::Ok(took)
        });
    }
    let mut took = Vec::new();
    while let Some(of_one) = clients.join_next().await {
        took.extend(of_one??);
    }
    let (wall, cpu, all) = (meter.wall(), meter.cpu(), took.len() as f64);
    let last = engine.store().read().runs(&stepwell_store::RunFilter { limit: 1, ..Default::default() })?;
    let bytes = match last.runs.first() {
        Some(row) => journal_bytes(&engine, &stepwell_engine::RunRef { id: row.run.clone(), key: row.key })?.0,
        None => 0,
    };
    engine.stop().await;
    Ok(Figures::default()
        .with(RATE, all / wall.as_secs_f64())
        .with(P50, quantile(&mut took, 0.5))
        .with(P99, quantile(&mut took, 0.99))
        .with(CPU, micros(cpu) / all)
        .with(BYTES, bytes as f64))
}

/// One run; how long it took, in us.
async fn one(engine: &Engine, digest: &Digest) -> Result<f64> {
    let began = Instant::now();
    let run = engine.start(new_run(digest, "compute", "{\"steps\":1}")?).await?;
    let end = engine.watch_rests(run.key);
    engine.go(&run);
    succeeded(end).await?;
    Ok(micros(began.elapsed()))
}
