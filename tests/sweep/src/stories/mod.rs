//! Runs that somebody does something with while they go on, over the real stack, in a process that dies at every point: they are
//! cancelled, paused, resolved, retried, rerun, restored from a copy, have children, and wait for a place.
//!
//! ```text
//!   a story: acts, one after the other ──> an act is played in one life, or in several where that dies ──> `judge`
//!   a plot (`plots`) is what a client does that begins anew after each death: it asks for what is not on record yet (`client`)
//! ```

mod client;
mod judge;
mod life;
mod offline;
mod plots;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use stepwell_core::ids::Digest;
use stepwell_engine::store::Gather;

use crate::case::unpanicked;
use crate::fate::{Doom, Fate, Point};
use crate::gate::{Arrival, Behind, Gate};
use crate::subject::Subject;
use crate::sweep::{PATIENCE, Way, all, both_ways, deaths};
use crate::table::Table;
use crate::world::World;

use client::{Client, Desk};
use judge::Remains;
use life::Ending;

pub use plots::STORIES;

/// What a client does; over when it returns.
type Plot = fn(Client) -> Pin<Box<dyn Future<Output = anyhow::Result<()>>>>;

/// A part of a story.
#[derive(Clone, Copy)]
enum Act {
    /// Is played by a client of an engine.
    Live(Plot),
    /// Is done while there is none.
    Offline(fn(&Path, &Desk) -> anyhow::Result<()>),
}

/// What is swept.
pub struct Story {
    /// For the table.
    pub name: &'static str,
    acts: &'static [Act],
    /// What must hold of what came to the other side, in order.
    seen: fn(&[Arrival]) -> anyhow::Result<()>,
}

/// The modules that all stories run on.
pub struct Modules {
    /// In a data directory; the first module is its own.
    subject: Subject,
    /// The first, and the one in which something is mended.
    digests: [Digest; 2],
}

impl Modules {
    /// Builds them.
    ///
    /// # Errors
    /// When they cannot be built.
    pub fn build() -> anyhow::Result<Self> {
        let source = include_str!("stories.ts");
        let subject = Subject::of_source("stories", source, "null")?;
        let mended = subject.also(&source.replace("MENDED = false", "MENDED = true"))?;
        let digests = [subject.digest.clone(), mended];
        Ok(Self { subject, digests })
    }
}

/// What came of a case.
struct Outcome {
    remains: Remains,
    /// The points that each life passed.
    trails: Vec<Vec<Point>>,
}

/// Sweeps a story, with each of the two ways in which writes are gathered.
///
/// # Errors
/// When the story without a death does not hold.
pub fn sweep(story: &Story, modules: &Modules, way: Way) -> anyhow::Result<Table> {
    both_ways(story.name, way, |gather| {
        let play =
            |dooms: &[Doom], drops, patience| unpanicked(|| attempt(story, modules, gather, dooms, drops, patience));
        let whole = play(&[], None, PATIENCE).context("without a death")?;
        let trails = whole.trails.iter().enumerate();
        let points = trails.flat_map(|(life, trail)| trail.iter().map(move |point| (life, point.clone()))).collect();
        Ok(all(&deaths(points, way), way, |deaths| {
            let outcome = play(&deaths.dooms, deaths.drops, way.patience)?;
            if way.compared {
                judge::same(&outcome.remains, &whole.remains)?;
            }
            Ok(outcome.trails.len() > whole.trails.len())
        }))
    })
}

/// Plays a story to its end; an error is a verdict on it.
fn attempt(
    story: &Story,
    modules: &Modules,
    gather: Gather,
    dooms: &[Doom],
    drops: Option<u64>,
    patience: Duration,
) -> anyhow::Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path().join("data");
    modules.subject.put_into(&dir)?;
    let world = Arc::new(World::new(0, 0.0));
    let gate = Gate::start(Behind::World(world.clone()))?;
    let desk = Arc::new(Desk::new(world, gate, modules.digests.clone()));
    let (mut trails, mut dooms, mut number) = (Vec::new(), dooms.iter().cloned(), 0);
    for act in story.acts {
        let plot = match act {
            Act::Live(plot) => *plot,
            Act::Offline(work) => {
                work(&dir, &desk)?;
                continue;
            }
        };
        loop {
            let fate =
                Fate::dropping(dooms.next().unwrap_or(Doom::Never), drops.map(|seed| seed.wrapping_add(number.into())));
            desk.gate.begin_life(number, fate.clone());
            number += 1;
            let ending = life::live(&dir, gather, plot, &desk, &fate, patience)?;
            trails.push(fate.trail());
            match ending {
                Ending::Died => {}
                Ending::Over => break,
                Ending::Stuck => {
                    let trail = fate.trail();
                    let tail: Vec<_> = trail.iter().rev().take(8).map(ToString::to_string).collect();
                    bail!("it is stuck; the last points, backwards: {tail:?}\n{}", judge::print(&dir)?)
                }
                Ending::Failed(error) => bail!("{error:#}\n{}", judge::print(&dir)?),
            }
        }
    }
    let remains = Remains::of(&dir, desk.gate.arrivals(), &desk)?;
    judge::holds(&remains, &desk).and_then(|()| (story.seen)(&remains.arrivals)).map_err(|error| {
        let journals = judge::print(&dir).unwrap_or_default();
        anyhow::anyhow!("{error:#}\n{journals}")
    })?;
    Ok(Outcome { remains, trails })
}
