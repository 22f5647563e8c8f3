//! The run's state machine under whatever order of commands, answers, time, cancels and crashes an input makes.
//!
//! The simulator's guests keep to the contract as an SDK does; these do not: they answer attempts that are closed, close what they
//! never began, send from anywhere. What must hold all the same is the simulator's reading of the rules (`Ledger`), and that a replay
//! does again what was done (`script`). What a host cannot do to the machine is not done here either: a guest acts in its turns
//! only, and a request that settles was sent.

mod acts;
mod given;
mod script;

use arbitrary::{Result, Unstructured};
use stepwell_core::contract::{AttemptRef, Event, Exchange};
use stepwell_core::ids::Digest;
use stepwell_core::journal::codec;
use stepwell_core::json::Json;
use stepwell_core::policy::effect::is_safe_method;
use stepwell_core::run::{Input, Machine, Mode, Output};
use stepwell_sim::invariants::Ledger;

use script::Script;

/// When runs begin, in ms since the Unix epoch.
pub const START_MS: u64 = 1_700_000_000_000;

/// An input is a run: how it begins, and what happens to it until the input is used up.
pub fn machine(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let Ok(mut play) = Play::new(&mut u) else { return };
    // `Err` is the input's end.
    let _ = play.go_on(&mut u);
    play.check();
}

/// The journal of such a run.
pub(crate) fn journal(u: &mut Unstructured<'_>) -> Result<Vec<Vec<u8>>> {
    let mut play = Play::new(u)?;
    let _ = play.go_on(u);
    Ok(play.journal)
}

/// A run under way, and all around it.
pub(crate) struct Play {
    machine: Machine,
    journal: Vec<Vec<u8>>,
    /// Entries that a crash cannot take.
    durable: usize,
    /// The second reading of the journal; none where the journal is not one that a machine wrote.
    ledger: Option<Ledger>,
    now_ms: u64,
    guest: Guest,
    script: Script,
    /// Deliveries to workflow code in this instance.
    delivered: usize,
    attempts: Vec<AttemptRef>,
    /// Requests of this process, and whether their settlement is recorded.
    under_way: Vec<(Exchange, bool)>,
    events: u64,
    result: Option<std::result::Result<Json, stepwell_core::error::Error>>,
}

/// What the guest may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guest {
    /// It has been told something, and runs.
    InTurn,
    /// It is in `next`.
    Quiet,
    /// It has returned, trapped or was dropped.
    Gone,
}

impl Play {
    fn new(u: &mut Unstructured<'_>) -> Result<Self> {
        let first = Machine::first_entry(START_MS, crate::entries::started(u)?);
        Ok(Self::load(vec![first]).unwrap_or_else(|error| panic!("{error}")))
    }

    /// A run from its journal, whoever wrote that.
    pub(crate) fn load(journal: Vec<Vec<u8>>) -> std::result::Result<Self, stepwell_core::run::LoadError> {
        let mut machine = Machine::load(&journal, None, Mode::Continue)?;
        if machine.ended().is_none() {
            machine.begin();
        }
        Ok(Self {
            now_ms: machine.recorded_ms(),
            guest: if machine.ended().is_some() { Guest::Gone } else { Guest::InTurn },
            events: machine.last_event(),
            machine,
            durable: journal.len(),
            ledger: Ledger::read(&journal[..1]).ok(),
            journal,
            script: Script::default(),
            delivered: 0,
            attempts: Vec::new(),
            under_way: Vec::new(),
            result: None,
        })
    }

    /// The same, when nothing is expected of it but that nothing panics.
    pub(crate) fn without_ledger(mut self) -> Self {
        self.ledger = None;
        self
    }

    /// Lets things happen until the input is used up.
    pub(crate) fn go_on(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        while !u.is_empty() {
            self.act(u)?;
            self.carry_out();
        }
        Ok(())
    }

    /// Does what the machine says.
    fn carry_out(&mut self) {
        loop {
            let outputs = self.machine.outputs();
            if outputs.is_empty() {
                return;
            }
            let mut rebuild = false;
            for output in outputs {
                rebuild |= self.output(output);
            }
            if rebuild {
                self.rebuild();
            }
        }
    }

    /// Whether the instance is to be built again.
    fn output(&mut self, output: Output) -> bool {
        match output {
            Output::Append { entry, bytes } => {
                assert_eq!(codec::decode(0, &bytes).as_ref(), Ok(&entry), "an entry is not read as it was written");
                self.holds(|ledger| ledger.entry(&entry));
                self.journal.push(bytes);
                let counted = self.machine.entries();
                assert!(counted >= self.journal.len() as u64, "{counted} entries are counted, there are more");
            }
            Output::Deliver(event) => self.told(event),
            Output::Send { exchange, attempt, request, key, not_after_ms } => {
                self.durable = self.journal.len();
                let now_ms = self.now_ms;
                // Under a key that is dead nothing leaves; the request settles all the same.
                if not_after_ms.is_none_or(|at_ms| now_ms < at_ms) {
                    let what = (request.method.as_str(), request.url.as_str());
                    self.holds(|ledger| ledger.leaves(attempt, key.as_deref(), what, now_ms));
                }
                self.under_way.push((exchange, !is_safe_method(&request.method)));
            }
            Output::Abort(exchange) => {
                // A safe request is not heard of again; it may settle all the same.
                assert!(self.under_way.iter().any(|(other, _)| *other == exchange), "{exchange} was not under way");
            }
            Output::Rebuild => {
                self.guest = Guest::Gone;
                return true;
            }
            Output::Finished(_) => {
                assert!(self.machine.ended().is_some(), "a run is finished whose end is not recorded");
                self.durable = self.journal.len();
                self.guest = Guest::Gone;
            }
            Output::Stopped(mismatch) => {
                self.guest = Guest::Gone;
                assert!(self.ledger.is_none(), "the same code differs: {mismatch}\n{}", self.shown());
            }
            Output::Verified => panic!("verified, though nobody asked"),
            Output::Errand(errand) => panic!("nobody asked for {errand:?}"),
            Output::Log(_) | Output::StatusText(_) => {}
        }
        false
    }

    fn told(&mut self, event: Event) {
        assert_eq!(self.guest, Guest::Quiet, "nobody is there for {event:?}\n{}", self.shown());
        self.guest = Guest::InTurn;
        match &event {
            Event::Attempt(attempt) => {
                self.holds(|ledger| ledger.attempt(attempt));
                self.attempts.push(attempt.id);
            }
            Event::Expired(_) | Event::Answered(..) => {}
            Event::Completed(..) | Event::Failed(..) | Event::Cancelled => {
                let at = self.delivered;
                self.holds(|ledger| ledger.delivery(at, &event));
                self.delivered += 1;
                self.script.told(event);
            }
        }
    }

    /// The guest waits for the next event. Where nothing comes, nothing may be there for it.
    fn quiet(&mut self, random: u64) {
        self.guest = Guest::Quiet;
        self.machine.handle(Input::Quiet, self.now_ms, random);
        let outputs = self.machine.outputs();
        let still = outputs.is_empty() && self.machine.ended().is_none() && !self.machine.is_ending();
        let mut rebuild = false;
        for output in outputs {
            rebuild |= self.output(output);
        }
        if still && self.machine.stopped().is_none() {
            self.holds(|ledger| ledger.nothing_to_deliver());
        }
        if rebuild {
            self.rebuild();
        }
    }

    fn holds(&mut self, check: impl FnOnce(&mut Ledger) -> std::result::Result<(), String>) {
        if let Some(ledger) = &mut self.ledger
            && let Err(violation) = check(ledger)
        {
            panic!("{violation}\n{}", self.shown());
        }
    }

    /// Another instance in the same process: after a trap, or once a run that only waited has something to do.
    fn rebuild(&mut self) {
        if self.machine.resume(self.now_ms, false).is_err() {
            let entries = self.journal.len() as u64;
            assert_eq!(self.machine.entries(), entries, "a refusal to rebuild was recorded");
            assert!(self.machine.resume(self.now_ms, true).is_ok(), "a person's resume was refused");
        }
        self.guest = Guest::InTurn;
        self.delivered = 0;
        for output in self.machine.outputs() {
            self.output(output);
        }
        self.durable = self.journal.len();
        if self.machine.ended().is_some() || self.machine.stopped().is_some() {
            self.guest = Guest::Gone;
            return;
        }
        self.delivered = self.script.follow(&mut self.machine, self.now_ms, self.ledger.is_some());
        self.go_live();
    }

    /// Replay is over where the guest is at the journal's end.
    fn go_live(&mut self) {
        if self.ledger.is_some() {
            assert!(self.machine.at_frontier(), "the journal is not replayed to its end\n{}", self.shown());
            assert!(self.machine.stopped().is_none(), "{:?}\n{}", self.machine.stopped(), self.shown());
        }
        if self.machine.stopped().is_some() {
            self.guest = Guest::Gone;
        }
    }

    /// The process dies, and with it some of what was not durable; the run goes on in another, perhaps with another module.
    fn crash(&mut self, kept: usize, repinned: bool) {
        self.journal.truncate(kept.clamp(self.durable, self.journal.len()));
        self.durable = self.journal.len();
        self.machine = Machine::load(&self.journal, None, Mode::Continue)
            .unwrap_or_else(|error| panic!("what was written cannot be read: {error}\n{}", self.shown()));
        if self.ledger.is_some() {
            self.ledger = Some(Ledger::read(&self.journal).unwrap_or_else(|error| panic!("{error}\n{}", self.shown())));
        }
        self.events = self.machine.last_event();
        self.under_way.clear();
        self.result = None;
        if repinned && self.machine.ended().is_none() {
            self.machine.repin(Digest::of(b"another"), self.now_ms);
        }
        self.rebuild();
    }

    /// Everything that can be asked of a run.
    pub(crate) fn look(&self) {
        let _ = (self.machine.activity(), self.machine.unknown_steps(), self.machine.next_due_ms());
        let _ = (self.machine.can_park(), self.machine.turn_limit(), self.machine.ended_by_return());
    }

    /// What must hold of what is left: every beginning of the journal is replayed, and a run that returned is verified.
    fn check(&mut self) {
        let whole = self.journal.len();
        let some = [1, whole / 3, whole / 2, whole.saturating_sub(1), whole];
        for kept in some.into_iter().filter(|kept| *kept > 0) {
            for mode in [Mode::Continue, Mode::Verify] {
                let mut machine = Machine::load(&self.journal[..kept], None, mode)
                    .unwrap_or_else(|error| panic!("{kept} entries: {error}\n{}", self.shown()));
                if machine.ended().is_some() && mode == Mode::Continue {
                    continue;
                }
                self.script.clone().follow(&mut machine, u64::MAX / 4, true);
                assert!(machine.at_frontier(), "{kept} entries are not replayed to their end\n{}", self.shown());
                assert!(machine.stopped().is_none(), "{:?}\n{}", machine.stopped(), self.shown());
                if machine.ended_by_return()
                    && let Some(result) = self.result.clone()
                {
                    machine.handle(Input::Returned(result), u64::MAX / 4, 0);
                    let outputs = machine.outputs();
                    assert!(matches!(&outputs[..], [Output::Verified]), "{outputs:?}\n{}", self.shown());
                }
            }
        }
    }

    /// The journal, for whoever looks at a failure.
    fn shown(&self) -> String {
        self.journal.iter().map(|bytes| String::from_utf8_lossy(bytes) + "\n").collect()
    }
}
