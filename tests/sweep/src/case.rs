//! One case: a run that dies where it is told, as often as it is told, and then goes on to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::Value;
use stepwell_core::journal::codec;
use stepwell_core::journal::print::{Printer, Times};
use stepwell_engine::RunEvent;
use stepwell_engine::store::Gather;

use crate::fate::{Doom, Fate, Point};
use crate::gate::{self, Behind, Gate};
use crate::judge::{self, Done, Remains};
use crate::life::{self, Circumstances, Ending, Life, OnDisk};
use crate::subject::Subject;
use crate::world::World;

/// The other side of a case.
#[derive(Debug, Clone, Copy)]
pub enum Side {
    /// The shop of the examples, with the subject's faults.
    Shop,
    /// The sweep's own service: its seed, and how much trouble it makes.
    World(u64, f64),
}

/// A case.
#[derive(Clone)]
pub struct Case<'a> {
    /// What runs.
    pub subject: &'a Subject,
    /// Against whom.
    pub side: Side,
    /// When writes that nobody waits for are committed.
    pub gather: Gather,
    /// One for each life that is to end early.
    pub dooms: Vec<Doom>,
    /// How long a run may take.
    pub patience: Duration,
    /// Drops instances at quiet points chosen by this.
    pub drops: Option<u64>,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// What is left.
    pub remains: Remains,
    /// All lives.
    pub lives: Vec<Life>,
    /// The points that each life passed.
    pub trails: Vec<Vec<Point>>,
    /// Instances that were dropped at quiet points.
    pub dropped: u32,
}

impl Outcome {
    /// Whether the first doom struck.
    #[must_use]
    pub fn struck(&self) -> bool {
        self.lives.len() > 1
    }
}

/// Runs a case to its end; an error is a verdict on it. A panic counts as one.
///
/// # Errors
/// What does not hold of the run by itself.
pub fn run(case: &Case<'_>) -> anyhow::Result<Outcome> {
    unpanicked(|| attempt(case))
}

/// A panic is an error like any other.
pub(crate) fn unpanicked<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        bail!("panic: {text}")
    })
}

fn attempt(case: &Case<'_>) -> anyhow::Result<Outcome> {
    let dir = tempfile::tempdir()?;
    case.subject.put_into(dir.path())?;
    let mut shop = None;
    let behind = match case.side {
        Side::Shop => {
            let (address, task) = gate::shop(&case.subject.faults)?;
            shop = Some(task);
            Behind::Shop(address)
        }
        Side::World(seed, trouble) => Behind::World(Arc::new(World::new(seed, trouble))),
    };
    let gate = Gate::start(behind.clone())?;
    let url = gate.url();
    let at = Circumstances {
        subject: case.subject,
        data_dir: dir.path(),
        gather: case.gather,
        url: &url,
        patience: case.patience,
    };
    let (mut lives, mut trails, mut dropped) = (Vec::new(), Vec::new(), 0);
    let mut dooms = case.dooms.clone().into_iter();
    for number in 0.. {
        let doom = dooms.next().unwrap_or(Doom::Never);
        let fate = Fate::dropping(doom, case.drops.map(|seed| seed.wrapping_add(number.into())));
        gate.begin_life(number, fate.clone());
        let life = life::live(&at, &fate)?;
        trails.push(fate.trail());
        dropped += fate.dropped();
        let over = check(&life, &fate)?;
        lives.push(life);
        if over {
            break;
        }
    }
    let OnDisk { row, journal, lines } = life::on_disk(dir.path())?.context("there is no run")?;
    let done = match &behind {
        Behind::Shop(address) => of_shop(&gate::shop_record(*address)?),
        Behind::World(world) => of_world(world),
    };
    let remains = Remains { row, journal, lines, arrivals: gate.arrivals(), done };
    if let Some(task) = shop {
        task.abort();
    }
    judge::holds(&remains, &lives).map_err(|error| anyhow!("{error:#}\n{}", print(&remains.journal)))?;
    Ok(Outcome { remains, lives, trails, dropped })
}

/// Whether that was the last life.
fn check(life: &Life, fate: &Fate) -> anyhow::Result<bool> {
    match &life.ending {
        Ending::Died => Ok(false),
        Ending::Told(RunEvent::Ended(_) | RunEvent::Blocked(_)) => Ok(true),
        Ending::Told(event) => bail!("the run stops with {event:?}"),
        Ending::Stuck => {
            let trail = fate.trail();
            let tail: Vec<_> = trail.iter().rev().take(8).map(ToString::to_string).collect();
            bail!("the run is stuck; the last points, backwards: {tail:?}")
        }
        Ending::Refused(error) => bail!("the engine refuses: {error}"),
    }
}

/// A journal for people.
fn print(journal: &[Vec<u8>]) -> String {
    let entries: Vec<_> = (0..).zip(journal).filter_map(|(seq, bytes)| codec::decode(seq, bytes).ok()).collect();
    Printer::print(&entries, Times::Relative)
}

fn of_shop(record: &Value) -> Done {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let mut operations: Vec<String> = list(&record["operations"])
        .iter()
        .map(|done| format!("{} {}", text(&done["path"]), text(&done["id"])))
        .collect();
    operations.sort_unstable();
    let verdict = &record["verdict"];
    let mut faults = Vec::new();
    for what in ["storedTwice", "secondKeys", "withoutKey"] {
        if !list(&verdict[what]).is_empty() {
            faults.push(format!("{what}: {} of {}", verdict[what], record["requests"]));
        }
    }
    Done { operations, faults, ..Done::default() }
}

fn of_world(world: &World) -> Done {
    let done = world.done();
    let mut operations: Vec<String> = done
        .iter()
        .map(|done| format!("{} {} {}", done.what.0, done.what.1, String::from_utf8_lossy(&done.what.2)))
        .collect();
    operations.sort_unstable();
    let keys = done.iter().filter_map(|done| Some((done.key.clone()?, format!("{:?}", done.what)))).collect();
    Done { operations, keys, faults: Vec::new() }
}

/// The run without a death, against which the others are held.
///
/// # Errors
/// When it does not hold by itself.
pub fn whole(subject: &Subject, side: Side, gather: Gather, patience: Duration) -> anyhow::Result<Outcome> {
    let outcome =
        run(&Case { subject, side, gather, dooms: Vec::new(), drops: None, patience }).context("without a death")?;
    ensure!(!outcome.struck(), "nobody was to die");
    Ok(outcome)
}
