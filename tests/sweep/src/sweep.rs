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
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

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
    both_ways(&subject.name, way, |gather| passes(subject, side, gather, way))
}

/// The same with each of the two ways in which writes are gathered.
pub(crate) fn both_ways(
    subject: &str,
    way: Way,
    sweep: impl Fn(Gather) -> anyhow::Result<Table>,
) -> anyhow::Result<Table> {
    let mut table = Table::default();
    // What loses as much as it can shows a fault sooner.
    for (gather, name) in [(LAZY, "committed when awaited"), (EAGER, "each batch committed by itself")] {
        let mut part = sweep(gather).with_context(|| format!("{subject}, {name}"))?;
        for failure in &mut part.failures {
            failure.case = format!("{subject}, {name}: {}", failure.case);
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
    let points = whole.trails.first().cloned().unwrap_or_default().into_iter().map(|point| (0, point)).collect();
    let patience = way.patience;
    Ok(all(&deaths(points, way), way, |deaths| {
        let (dooms, drops) = (deaths.dooms.clone(), deaths.drops);
        one(&Case { subject, side, gather, dooms, drops, patience }, &whole, way)
    }))
}

/// How a case dies.
pub(crate) struct Deaths {
    /// The point that it is for.
    point: Point,
    /// One for each life that is to end early, or that comes before that.
    pub(crate) dooms: Vec<Doom>,
    /// Drops instances at quiet points chosen by this.
    pub(crate) drops: Option<u64>,
}

/// A case for each point, or for some of them: the number of the life without a death that passed it, and the point.
pub(crate) fn deaths(mut points: Vec<(usize, Point)>, way: Way) -> Vec<Deaths> {
    let mut random = SmallRng::seed_from_u64(way.seed);
    while way.most.is_some_and(|most| points.len() > most) {
        points.swap_remove(random.random_range(0..points.len()));
    }
    if way.stop_early {
        points.shuffle(&mut random);
    }
    let mut deaths = |(life, point): (usize, Point)| {
        let mut dooms = vec![Doom::Never; life];
        dooms.push(Doom::At(point.clone()));
        // Death in recovery too, now and then more than once.
        while dooms.len() < life + 4 && random.random_bool(0.4) {
            dooms.push(Doom::Nth(random.random_range(1..=16)));
        }
        let drops = random.random_bool(0.5).then(|| random.random());
        Deaths { point, dooms, drops }
    };
    points.into_iter().map(&mut deaths).collect()
}

/// Runs the cases, some at a time. What is asked of each is whether it died where it was to, and held.
pub(crate) fn all(cases: &[Deaths], way: Way, one: impl Fn(&Deaths) -> anyhow::Result<bool> + Sync) -> Table {
    let next = AtomicUsize::new(0);
    let table = Mutex::new(Table::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                #[cfg(feature = "sweep")]
                if let Some(planted) = way.planted {
                    planted.plant();
                }
                while let Some(deaths) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let judged = one(deaths);
                    let point = &deaths.point;
                    let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
                    let tally = table.kinds.entry(point.kind.clone()).or_default();
                    match judged {
                        Ok(true) => (tally.died, tally.held) = (tally.died + 1, tally.held + 1),
                        Ok(false) => tally.missed += 1,
                        Err(why) => {
                            tally.died += 1;
                            let case = format!("dies at {point}: {:?}, drops by {:?}", deaths.dooms, deaths.drops);
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
