//! Replaying finished runs: what a run costs that is taken up again, or that is checked.

use std::time::Instant;

use anyhow::{Result, bail};
use stepwell_engine::Verdict;

use crate::alone::Alone;
use crate::figures::{Figures, Rounds};
use crate::lab::{Lab, engine};
use crate::report::{At, Report};
use crate::runs::{Batch, millis};

const MS: &str = "ms";

pub(crate) async fn measure(lab: &Lab, report: &mut Report) -> Result<()> {
    for guest in lab.compared() {
        let dir = lab.data_dir()?;
        let engine = engine(dir.path())?;
        let alone = Alone::new(guest)?;
        let module = engine.add_module(guest.component.clone()).await?;
        for steps in [10, 1_000, 10_000] {
            let inputs = std::iter::once(guest.input(steps));
            let batch = Batch::start(&engine, &module.digest, guest.compute, inputs, steps).await?;
            batch.go(&engine).await?;
            let mut rounds = Rounds::default();
            for _ in 0..lab.rounds.max(5) {
                let began = Instant::now();
                let verdict = engine.verify(&batch.runs[0]).await?;
                if verdict != Verdict::Same {
                    bail!("a replay differs: {verdict:?}");
                }
                rounds.add("stepwell", Figures::default().with(MS, millis(began.elapsed())));
                let took = alone.completions(&guest.input(steps), steps).await?;
                rounds.add("guest alone", Figures::default().with(MS, millis(took)));
            }
            let lines = report.add(&format!("replay {}", guest.name), steps, &rounds);
            if guest.name == "ts" && steps == 1_000 {
                report.target("replay of 1,000 TypeScript steps, ms", lines.of("stepwell", MS), At::Most(30.0));
            }
        }
    }
    Ok(())
}
