//! The two passes: the first counts the points of a run, the second dies at each of them.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use stepwell_engine::store::Gather;

use crate::case::{self, Case, Outcome, Side};
use crate::fate::{Doom, Point};
use crate::judge;
use crate::subject::{EAGER, LAZY, Subject};
use crate::table::{Failure, Table};

/// Cases that run at a time. They mostly wait.
const AT_A_TIME: usize = 6;

/// How long a run may take. No case that holds waits for this: who runs into it is stuck.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a subject is swept.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// Whether a death is also held against the run without one; else only against the rules.
    pub compared: bool,
    /// At most so many points, chosen by the seed; none for all.
    pub most: Option<usize>,
    /// Decides what is left to chance.
    pub seed: u64,
    /// The rule that is broken in each case; not in the run without a death.
    #[cfg(feature = "sweep")]
    pub planted: Option<crate::plant::Planted>,
    /// How long a run may take.
    pub patience: Duration,
    /// The first failure is enough.
    pub stop_early: bool,
}

impl Way {
    /// Every point, compared.
    #[must_use]
    pub fn whole(seed: u64) -> Self {
        Self {
            compared: true,
            most: None,
            seed,
            #[cfg(feature = "sweep")]
            planted: None,
            patience: PATIENCE,
            stop_early: false,
        }
    }
}

/// Sweeps a subject, with each of the two ways in which writes are gathered.
///
/// # Errors
/// When the run without a death does not hold.
pub fn sweep(subject: &Subject, side: Side, way: Way) -> anyhow::Result<Table> {
    let mut table = Table::default();
    // What loses as much as it can shows a fault sooner.
    for (gather, name) in [(LAZY, "committed when awaited"), (EAGER, "each batch committed by itself")] {
        let mut part = passes(subject, side, gather, way).with_context(|| format!("{}, {name}", subject.name))?;
        for failure in &mut part.failures {
            failure.case = format!("{}, {name}: {}", subject.name, failure.case);
        }
        table.add(part);
        if way.stop_early && !table.failures.is_empty() {
            break;
        }
    }
    Ok(table)
}

fn passes(subject: &Subject, side: Side, gather: Gather, way: Way) -> anyhow::Result<Table> {
    let whole = case::whole(subject, side, gather, PATIENCE)?;
    let mut random = SmallRng::seed_from_u64(way.seed);
    let mut points: Vec<Point> = whole.trails.first().cloned().unwrap_or_default();
    while way.most.is_some_and(|most| points.len() > most) {
        points.swap_remove(random.random_range(0..points.len()));
    }
    if way.stop_early {
        points.shuffle(&mut random);
    }
    let cases: Vec<(Point, Case<'_>)> = points
        .into_iter()
        .map(|point| {
            let mut dooms = vec![Doom::At(point.clone())];
            // Death in recovery too, now and then more than once.
            while dooms.len() < 4 && random.random_bool(0.4) {
                dooms.push(Doom::Nth(random.random_range(1..=16)));
            }
            let drops = random.random_bool(0.5).then(|| random.random());
            (point, Case { subject, side, gather, dooms, drops, patience: way.patience })
        })
        .collect();
    Ok(all(&cases, &whole, way))
}

fn all(cases: &[(Point, Case<'_>)], whole: &Outcome, way: Way) -> Table {
    let next = AtomicUsize::new(0);
    let table = Mutex::new(Table::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                #[cfg(feature = "sweep")]
                if let Some(planted) = way.planted {
                    planted.plant();
                }
                while let Some((point, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let judged = one(case, whole, way);
                    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
                    let tally = table.kinds.entry(point.kind.clone()).or_default();
                    match judged {
                        Ok(true) => (tally.died, tally.held) = (tally.died + 1, tally.held + 1),
                        Ok(false) => tally.missed += 1,
                        Err(why) => {
                            tally.died += 1;
                            let case =
                                format!("dies at {point}, then {:?}, drops by {:?}", &case.dooms[1..], case.drops);
                            table.failures.push(Failure { case, why: format!("{why:#}") });
                            if way.stop_early {
                                next.store(cases.len(), Ordering::Relaxed);
                            }
                        }
                    }
                }
            });
        }
    });
    table.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it died where it was to, and held.
fn one(case: &Case<'_>, whole: &Outcome, way: Way) -> anyhow::Result<bool> {
    let outcome = case::run(case)?;
    if way.compared {
        judge::same(&outcome.remains, &whole.remains)?;
    }
    Ok(outcome.struck())
}
