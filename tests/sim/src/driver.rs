//! Joins program, machine, store and world, and lets the host crash. Virtual time; everything follows from the seed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use stepwell_core::contract::{Evidence, Exchange};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::{Restored, Started};
use stepwell_core::json::Json;
use stepwell_core::policy::effect::dead_key;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::run::{Input, Machine};

use crate::generate;
use crate::guest::Guest;
use crate::host::Host;
use crate::invariants::Ledger;
use crate::program::{Ask, Program};
use crate::replay;
use crate::store::Store;
use crate::truth::Truth;
use crate::world::World;
use crate::{Failure, Stats, report};
use mail::Others;
use restore::Disaster;

mod ask;
mod life;
mod mail;
mod pump;
mod rerun;
mod restore;
mod retry;

/// When runs begin, in ms since the Unix epoch.
pub const START_MS: u64 = 1_700_000_000_000;
/// Steps of the driver after which a run is taken to go on for ever.
const MAX_STEPS: u32 = 60_000;

/// One run and all around it.
pub struct Driver {
    pub(crate) seed: u64,
    pub(crate) program: Rc<Program>,
    pub(crate) store: Store,
    pub(crate) world: World,
    pub(crate) ledger: Ledger,
    rng: SmallRng,
    host: Rc<RefCell<Host>>,
    guest: Option<Guest>,
    truth: Truth,
    /// The life of the host process, from 0.
    epoch: u32,
    /// Deliveries to workflow code in this instance.
    delivered: usize,
    others: Others,
    /// The instance was dropped while the run waited.
    parked: bool,
    /// What people ask: when, in ms since the Unix epoch.
    asks: Vec<(u64, Ask)>,
    /// How much of it they were answered.
    asked: usize,
    /// The database is copied, lost, and restored from the copy.
    disaster: Option<Disaster>,
    /// The restorations that the database has behind it.
    restorations: Vec<Restored>,
    /// The run's id, and the keys from before it that are not of it.
    own_keys: (String, BTreeSet<String>),
    /// When difficulties end, in ms since the Unix epoch.
    calm_ms: u64,
    /// Requests whose keys died before they could leave.
    refused: Vec<Exchange>,
    crashes_left: u32,
    /// How probable a crash is in each round, while some are left.
    crash_share: f64,
    logs: BTreeMap<(u64, u32), String>,
    durable_logs: BTreeMap<(u64, u32), String>,
    stats: Stats,
}

pub(crate) use mail::Mail;

/// How it goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Something happened.
    Moved,
    /// Nothing did.
    Still,
    /// The host has crashed and come back.
    Crashed,
}

/// Runs a seed to its end.
///
/// # Errors
/// The first invariant that does not hold.
pub fn run(seed: u64) -> Result<Stats, Box<Failure>> {
    let mut driver = Driver::new(seed);
    match driver.drive() {
        Ok(()) => Ok(driver.stats),
        Err(invariant) => Err(Box::new(report::failure(&driver, invariant))),
    }
}

impl Driver {
    fn new(seed: u64) -> Self {
        let mut seeds = SmallRng::seed_from_u64(seed);
        let mut next = || SmallRng::seed_from_u64(seeds.random());
        let program = Rc::new(generate::program(&mut next()));
        let trouble = program.trouble;
        let first = Machine::first_entry(
            START_MS,
            Started {
                run: RunId::new("run_1"),
                workflow: "sim".to_owned(),
                digest: Digest::of(b"sim"),
                input: Json::null(),
                retry: RetryPolicy::default(),
                step_timeout_ms: None,
                deadline_ms: program.run_timeout_ms.map(|ms| START_MS + ms),
                parent: None,
                continues: None,
            },
        );
        let store = Store::new(first);
        let ledger = Ledger::read(store.entries()).unwrap_or_default();
        let host = Rc::new(RefCell::new(Host {
            // The entry was made by the same machine.
            machine: life::load(&store, None).unwrap_or_else(|e| panic!("{e}")),
            now_ms: START_MS,
            rng: next(),
            notes: Vec::new(),
            violations: Vec::new(),
            takes: BTreeMap::new(),
            witness: BTreeMap::new(),
            traps: true,
        }));
        let mut rng = next();
        let events = program.events.iter().enumerate();
        let post: BTreeMap<_, _> = events.map(|(n, (at, name))| ((START_MS + at, n), Mail::Event(name))).collect();
        Self {
            seed,
            others: Others::new(post),
            guest: None,
            program: program.clone(),
            store,
            world: World::new(next(), trouble),
            ledger,
            host,
            truth: Truth::default(),
            epoch: 0,
            delivered: 0,
            parked: false,
            asks: program.asks.iter().map(|(at, ask)| (START_MS + at, *ask)).collect(),
            asked: 0,
            disaster: Disaster::at_random(&mut next()),
            restorations: Vec::new(),
            own_keys: ("run_1".to_owned(), BTreeSet::new()),
            calm_ms: START_MS + rng.random_range(0..300_000),
            refused: Vec::new(),
            crashes_left: rng.random_range(0..20),
            crash_share: *[0.005, 0.02, 0.08].choose(&mut rng).unwrap_or(&0.02),
            rng,
            logs: BTreeMap::new(),
            durable_logs: BTreeMap::new(),
            stats: Stats::default(),
        }
    }

    fn drive(&mut self) -> Result<(), String> {
        self.ask_first()?;
        // A crash meanwhile may have built one already.
        if !self.parked && !self.ledger.ended() && self.guest.is_none() {
            self.host.borrow_mut().machine.begin();
            self.instance()?;
        }
        for _ in 0..MAX_STEPS {
            let flow = self.step()?;
            self.look()?;
            if self.host.borrow().machine.ended().is_some() && flow != Flow::Crashed {
                if self.pump()? == Flow::Crashed {
                    continue;
                }
                // Its end is visible once it is durable; a crash may come before.
                if self.flush() == Flow::Moved {
                    let retried_first = self.chance(0.5);
                    if retried_first && self.retry()? || self.restore()? || !retried_first && self.retry()? {
                        continue;
                    }
                    self.over()?;
                    if self.rerun()? {
                        continue;
                    }
                    return Ok(());
                }
                self.crash()?;
                continue;
            }
            if flow == Flow::Still && !self.wait()? && !self.restore()? {
                return self.over();
            }
        }
        Err("the run does not come to its end".to_owned())
    }

    /// One round: what is due comes in, what is to be done is done, the guest is asked for more.
    fn step(&mut self) -> Result<Flow, String> {
        if self.chance(self.crash_share) && self.crashes_left > 0 {
            return self.crash();
        }
        if self.chance(0.15) && self.flush() == Flow::Crashed {
            return self.crash();
        }
        self.copy_when_due();
        if self.is_lost_now() && self.restore()? {
            return Ok(Flow::Crashed);
        }
        if self.chance(0.3) {
            let ms = self.rng.random_range(0..4);
            self.host.borrow_mut().now_ms += ms;
        }
        let mut came = self.come_in();
        match self.ask_due()? {
            Flow::Crashed => return Ok(Flow::Crashed),
            Flow::Moved => came = true,
            Flow::Still => {}
        }
        let mut flow = self.pump()?;
        if flow == Flow::Still && self.parked {
            flow = self.wake()?;
        }
        if flow == Flow::Still && self.guest.is_some() {
            self.handle(Input::Quiet);
            flow = self.pump()?;
            if flow == Flow::Still && !came {
                let host = self.host.borrow();
                if host.machine.ended().is_none() {
                    self.ledger.nothing_to_deliver()?;
                }
            }
        }
        Ok(if came && flow == Flow::Still { Flow::Moved } else { flow })
    }

    /// Lets the world, the outside and the clock speak. Whether any did.
    fn come_in(&mut self) -> bool {
        let now_ms = self.now();
        let mut came = false;
        if now_ms >= self.calm_ms {
            self.world.benign = true;
        }
        for settlement in self.world.advance(now_ms) {
            came = true;
            if settlement.epoch == self.epoch {
                let (exchange, evidence, answer) = (settlement.exchange, settlement.evidence, settlement.answer);
                self.handle(Input::Settled { exchange, evidence, answer });
            }
        }
        for exchange in std::mem::take(&mut self.refused) {
            came = true;
            self.handle(Input::Settled { exchange, evidence: Evidence::NotSent, answer: Err(dead_key()) });
        }
        // Now and then the clock and the outside are a little late.
        if self.chance(0.15) {
            return came;
        }
        came |= self.mail(now_ms);
        let due = self.host.borrow().machine.next_due_ms();
        if due.is_some_and(|due| due <= now_ms) {
            self.handle(Input::Time);
            // What stays due (the guest replays, or the run ends) is no movement.
            came |= self.host.borrow().machine.next_due_ms() != due;
        }
        came
    }

    /// The guest's notes, and what must not be.
    fn look(&mut self) -> Result<(), String> {
        let (notes, violations) = {
            let mut host = self.host.borrow_mut();
            (std::mem::take(&mut host.notes), std::mem::take(&mut host.violations))
        };
        if let Some(violation) = violations.into_iter().next() {
            return Err(violation);
        }
        notes.into_iter().try_for_each(|note| self.truth.note(note, &self.ledger, &self.world))
    }

    fn over(&mut self) -> Result<(), String> {
        self.look()?;
        // What is under way may still be done.
        self.world.advance(u64::MAX);
        self.truth.check(&self.world, self.stats.restored > 0 || self.stats.reran > 0)?;
        self.check_errands()?;
        self.stats.entries = self.store.entries().len() as u64;
        replay::check(&self.program, self.store.entries(), &mut self.rng)
    }

    fn flush(&mut self) -> Flow {
        let failure = if self.crashes_left > 0 { 0.01 } else { 0.0 };
        if self.store.flush(&mut self.rng, failure).is_err() {
            return Flow::Crashed;
        }
        self.durable_logs = self.logs.clone();
        self.run_errands();
        Flow::Moved
    }

    fn handle(&mut self, input: Input) {
        let mut host = self.host.borrow_mut();
        let (now_ms, random) = (host.now_ms, host.random());
        host.machine.handle(input, now_ms, random);
    }

    fn now(&self) -> u64 {
        self.host.borrow().now_ms
    }

    fn chance(&mut self, share: f64) -> bool {
        self.rng.random_bool(share)
    }
}
