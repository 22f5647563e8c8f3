//! When a process dies: every point that it passes is counted by name, and one of them is its last.
//!
//! The process is a life of an engine within the test (`life`). Death means that nothing after the point reaches the disk (the
//! ledger refuses everything) or the network (its tasks are dropped).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::watch;

/// A point of a life: the kind, and which one of that kind, from 1.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// Such as `after the commit of settled`.
    pub kind: String,
    /// From 1.
    pub nth: u32,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} #{}", self.kind, self.nth)
    }
}

/// Which point is the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doom {
    /// None.
    Never,
    /// This one.
    At(Point),
    /// The n-th of all, from 1.
    Nth(u32),
}

/// What is decided of one life. Clones are the same.
#[derive(Clone)]
pub struct Fate(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    dead: watch::Sender<bool>,
}

struct State {
    doom: Doom,
    seen: BTreeMap<String, u32>,
    trail: Vec<Point>,
    /// Chooses the quiet points at which an instance is dropped.
    drops: Option<SmallRng>,
    dropped: u32,
}

impl Fate {
    /// Of a life that ends so.
    #[must_use]
    pub fn new(doom: Doom) -> Self {
        Self::dropping(doom, None)
    }

    /// The same; at quiet points chosen by the seed, instances are dropped besides.
    #[must_use]
    pub fn dropping(doom: Doom, seed: Option<u64>) -> Self {
        let drops = seed.map(SmallRng::seed_from_u64);
        let state = State { doom, seen: BTreeMap::new(), trail: Vec::new(), drops, dropped: 0 };
        Self(Arc::new(Inner { state: Mutex::new(state), dead: watch::Sender::new(false) }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A point is passed. Whether the process still lives after it.
    pub fn pass(&self, kind: &str) -> bool {
        if self.is_dead() {
            return false;
        }
        let mut state = self.state();
        let nth = state.seen.entry(kind.to_owned()).or_insert(0);
        *nth += 1;
        let point = Point { kind: kind.to_owned(), nth: *nth };
        let dies = match &state.doom {
            Doom::Never => false,
            Doom::At(last) => *last == point,
            Doom::Nth(n) => state.trail.len() + 1 == *n as usize,
        };
        state.trail.push(point);
        // Within the lock: of two threads only one comes to the end.
        if dies {
            self.0.dead.send_replace(true);
        }
        !dies
    }

    /// Whether the process has died.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        *self.0.dead.borrow()
    }

    /// Comes with the death.
    pub async fn death(&self) {
        // Cannot fail: the sender is our own.
        let _ = self.0.dead.subscribe().wait_for(|dead| *dead).await;
    }

    /// All points that were passed, in order; the last one of them is where it died, if it did.
    #[must_use]
    pub fn trail(&self) -> Vec<Point> {
        self.state().trail.clone()
    }

    /// How many instances were dropped at quiet points.
    #[must_use]
    pub fn dropped(&self) -> u32 {
        self.state().dropped
    }
}

#[cfg(feature = "sweep")]
impl stepwell_engine::Observer for Fate {
    fn reach(&self, moment: stepwell_engine::Moment) -> bool {
        use stepwell_engine::Moment;
        self.pass(match moment {
            Moment::TakingUp => "taking a run up",
            Moment::Rebuilt => "rebuilt, before the replay",
            Moment::Sending => "before the send",
            Moment::Sent => "after the send",
            Moment::Settling => "before the settlement",
            Moment::Settled => "after the settlement",
            Moment::Due => "a time falls due",
            Moment::Parking => "parking",
            Moment::Waking => "a timer wakes a run",
            Moment::Showing => "before something is shown",
            Moment::Leaving => "the run's task ends",
        })
    }

    fn drops_here(&self) -> bool {
        let mut state = self.state();
        let drops = state.drops.as_mut().is_some_and(|random| random.random_bool(0.35));
        state.dropped += u32::from(drops);
        drops
    }
}
