//! Many runs at once, through the engine's public functions, from their start to their ends.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use stepwell_core::ids::Digest;
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::json::Json;
use stepwell_engine::{Engine, RunEvent, RunRef, StartRun};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use crate::figures::{CPU, Figures, P50, P99, RATE, quantile};
use crate::machine::Meter;

/// Runs that were started and have not begun.
pub(crate) struct Batch {
    pub(crate) runs: Vec<RunRef>,
    steps: u32,
}

/// What all runs of a batch took together, and each of them.
pub(crate) struct Took {
    wall: Duration,
    cpu: Duration,
    each: Vec<Duration>,
    steps: u32,
}

pub(crate) fn new_run(digest: &Digest, workflow: &str, input: &str) -> Result<StartRun> {
    let input = Json::parse(input).context("an input is no JSON")?;
    Ok(StartRun::new(digest.clone(), Some(workflow.to_owned()), input))
}

/// Writes runs down, as many at a time as a server would.
pub(crate) async fn start_all(engine: &Engine, starts: impl Iterator<Item = StartRun>) -> Result<Vec<RunRef>> {
    const AT_A_TIME: usize = 256;
    let (mut runs, mut starting) = (Vec::new(), JoinSet::new());
    for start in starts {
        if starting.len() >= AT_A_TIME
            && let Some(run) = starting.join_next().await
        {
            runs.push(run??);
        }
        let engine = engine.clone();
        starting.spawn(async move { engine.start(start).await });
    }
    while let Some(run) = starting.join_next().await {
        runs.push(run??);
    }
    Ok(runs)
}

impl Batch {
    /// Starts a run for each input; each is known to make so many steps.
    pub(crate) async fn start(
        engine: &Engine,
        digest: &Digest,
        workflow: &str,
        inputs: impl Iterator<Item = String>,
        steps: u32,
    ) -> Result<Self> {
        let starts: Result<Vec<_>> = inputs.map(|input| new_run(digest, workflow, &input)).collect();
        Ok(Self { runs: start_all(engine, starts?.into_iter()).await?, steps })
    }

    /// Lets all of them go, and waits for their ends.
    pub(crate) async fn go(&self, engine: &Engine) -> Result<Took> {
        let ends: Vec<_> = self.runs.iter().map(|run| engine.watch_rests(run.key)).collect();
        let meter = Meter::start();
        let began = std::time::Instant::now();
        for run in &self.runs {
            engine.go(run);
        }
        let mut waiting = JoinSet::new();
        for end in ends {
            waiting.spawn(async move { succeeded(end).await.map(|()| began.elapsed()) });
        }
        let mut each = Vec::with_capacity(self.runs.len());
        while let Some(took) = waiting.join_next().await {
            each.push(took??);
        }
        Ok(Took { wall: meter.wall(), cpu: meter.cpu(), each, steps: self.steps })
    }
}

impl Took {
    /// What runs took that went side by side from the same moment on.
    pub(crate) fn new(cpu: Duration, each: Vec<Duration>, steps: u32) -> Self {
        Self { wall: each.iter().copied().max().unwrap_or_default(), cpu, each, steps }
    }

    /// Of a step: how many a second, a run's time over its steps, and computing time.
    pub(crate) fn of_steps(&self) -> Figures {
        let steps = f64::from(self.steps);
        let all = steps * self.each.len() as f64;
        let mut a_step: Vec<f64> = self.each.iter().map(|took| micros(*took) / steps).collect();
        Figures::default()
            .with(RATE, all / self.wall.as_secs_f64())
            .with(P50, quantile(&mut a_step, 0.5))
            .with(P99, quantile(&mut a_step, 0.99))
            .with(CPU, micros(self.cpu) / all)
    }
}

/// Waits for a run's end; anything but a success is a failure of the measurement.
pub(crate) async fn succeeded(mut end: UnboundedReceiver<RunEvent>) -> Result<()> {
    match end.recv().await {
        Some(RunEvent::Ended(RunOutcome::Succeeded(_))) => Ok(()),
        other => bail!("a run did not succeed: {other:?}"),
    }
}

/// Bytes of a run's journal, all of its entries together, and their number.
pub(crate) fn journal_bytes(engine: &Engine, run: &RunRef) -> Result<(usize, usize)> {
    let journal = engine.store().read().journal(run.key)?;
    Ok((journal.iter().map(|(_, entry)| entry.len()).sum(), journal.len()))
}

pub(crate) fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
