//! Steps that only compute: what Stepwell itself costs, in each guest's language, at several numbers of runs at once.

use anyhow::Result;

use crate::alone::Alone;
use crate::figures::{BYTES, Figures, RATE, Rounds};
use crate::floors;
use crate::guests::Guest;
use crate::lab::{Lab, engine};
use crate::peers::{self, Peers, Work};
use crate::report::{At, Report};
use crate::runs::{Batch, journal_bytes};

pub(crate) async fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    let mut peers = Peers::start(lab, report);
    for guest in lab.compared() {
        let alone = Alone::new(guest)?;
        let mut best: f64 = 0.0;
        for &at_once in &lab.at_once {
            let steps = steps(lab, guest, at_once);
            let mut rounds = Rounds::default();
            for _ in 0..lab.rounds {
                let (figures, step) = stepwell(lab, guest, at_once, steps).await?;
                rounds.add("stepwell", figures);
                for (of, together) in [("writer alone", floors::TOGETHER), ("writer, entry by entry", 1)] {
                    let dir = lab.data_dir()?;
                    rounds.add(of, floors::writer(dir.path(), at_once, steps, &step, together).await?);
                }
                let few = steps.max(500);
                rounds.add("guest alone", alone.steps(&guest.input(few), few).await?);
                for peer in peers.beside(guest) {
                    let work = Work { at_once, steps: peers::steps(lab, at_once), url: None };
                    if let Some(figures) = peer.figures(work, report) {
                        rounds.add(peer.name(), figures);
                    }
                }
            }
            let lines = report.add(&format!("compute {}", guest.name), at_once, &rounds);
            best = best.max(lines.of("stepwell", RATE));
        }
        match guest.name {
            "ts" => report.target("compute-only TypeScript, steps a second", best, At::Least(20_000.0)),
            "wat" => report.target("compute-only .wat, steps a second", best, At::Least(150_000.0)),
            _ => {}
        }
    }
    Ok(())
}

/// Steps of each run, so that a measurement takes about a second and fits a journal.
fn steps(lab: &Lab, guest: &Guest, at_once: u32) -> u32 {
    let all = match guest.name {
        "ts" => lab.scaled(32_000, 8_000),
        _ => lab.scaled(128_000, 32_000),
    };
    (all / at_once).clamp(8, 10_000)
}

/// So many runs of so many steps; also the entries of one step, as they stand in the journal.
async fn stepwell(lab: &Lab, guest: &Guest, at_once: u32, steps: u32) -> Result<(Figures, Vec<Vec<u8>>)> {
    const ENTRIES_A_STEP: usize = 4;
    let dir = lab.data_dir()?;
    let engine = engine(dir.path())?;
    let module = engine.add_module(guest.component.clone()).await?;
    let inputs = (0..at_once).map(|_| guest.input(steps));
    let batch = Batch::start(&engine, &module.digest, guest.compute, inputs, steps).await?;
    let took = batch.go(&engine).await?;
    let (bytes, _) = journal_bytes(&engine, &batch.runs[0])?;
    let journal = engine.store().read().journal(batch.runs[0].key)?;
    let step = journal.into_iter().skip(1).take(ENTRIES_A_STEP).map(|(_, entry)| entry).collect();
    engine.stop().await;
    Ok((took.of_steps().with(BYTES, bytes as f64 / f64::from(steps)), step))
}
