//! A run that has ended is rerun by a person from the beginning of one of its steps. The new run is driven on in its place; the world
//! remembers both.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::seq::IndexedRandom;
use stepwell_core::contract::Operation;
use stepwell_core::ids::{Digest, RunId, StepId};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{Record, Started};
use stepwell_core::run::{Birth, Refusal, Rerun, RerunError, Rerunning, rerun};

use super::mail::{Mail, Others};
use super::{Driver, Flow, life};
use crate::invariants::{Ledger, Place};

/// How often runs are rerun in a row, at most.
const MOST: u64 = 2;

impl Driver {
    /// The run has ended, and its end is durable: perhaps somebody reruns it. Whether a new run goes on.
    pub(super) fn rerun(&mut self) -> Result<bool, String> {
        if self.stats.reran >= MOST || self.chance(0.7) {
            return Ok(false);
        }
        let ids: Vec<StepId> = self.ledger.steps().map(|step| step.begun.step.clone()).collect();
        let Some(step) = ids.choose(&mut self.rng).cloned() else { return Ok(false) };
        let place = self.ledger.place_of(&step);
        let mut ask = Rerun {
            from_step: if step.occurrence == 1 { format!("{step}#1") } else { step.to_string() },
            digest: self.rng.random_bool(0.2).then(|| Digest::of(b"rerun")),
            confirm: self.rng.random_bool(0.5),
            restored: self.restorations.clone(),
        };
        let birth = Birth {
            run: RunId::new(format!("run_1_{}", self.stats.reran + 1)),
            at_ms: self.now(),
            reason: "the goods were wrong".to_owned(),
            by: "ana".to_owned(),
        };
        let mut made = rerun(self.store.durable(), &ask, &birth);
        if let Err(RerunError::Refused(Refusal::RerunNeedsConfirm(done))) = &made {
            let nothing = done.effects.is_empty() && done.others.is_empty() && !done.in_doubt;
            if ask.confirm || nothing {
                return Err(format!("it is confirmed, or nothing was done, and: {done}"));
            }
            ask.confirm = true;
            made = rerun(self.store.durable(), &ask, &birth);
        } else if let Ok(new) = &made
            && !ask.confirm
            && (self.done_since(&place).is_some_and(|done| done > 0)
                || !new.done.others.is_empty()
                || new.done.in_doubt)
        {
            return Err("what was done since is done again, and nobody has confirmed it".to_owned());
        }
        match (made, place) {
            (Ok(new), Some(place)) => self.goes_on_as(new, &place, &birth)?,
            (Err(RerunError::Refused(Refusal::NoSuchStep(_))), None) => return Ok(false),
            (Err(RerunError::Refused(Refusal::NoRerun(why))), Some(place))
                if why.contains("had not heard") && self.ledger.has_unheard_before(&place) =>
            {
                return Ok(false);
            }
            (made, place) => return Err(format!("{ask:?}, begun at {place:?}: {made:?}")),
        }
        Ok(true)
    }

    fn done_since(&self, place: &Option<Place>) -> Option<usize> {
        place.as_ref().map(|place| self.ledger.done_since_place(place))
    }

    /// The new run, in the place of the other.
    fn goes_on_as(&mut self, new: Rerunning, place: &Place, birth: &Birth) -> Result<(), String> {
        if self.ledger.done_since_place(place) != new.done.effects.len() {
            return Err(format!("what was done since {place:?} is not what is listed: {:?}", new.done.effects));
        }
        let after = Ledger::read(&new.journal)?;
        after.is_rerun_of(&self.ledger, place)?;
        match codec::decode(0, &new.journal[0]).map(|entry| entry.record) {
            Ok(Record::Started(Started { run, parent: None, continues: None, .. })) if run == birth.run => {}
            other => return Err(format!("the rerun begins with {other:?}")),
        }
        // What was meant before is held against what was done before.
        self.truth.check(&self.world, self.stats.restored > 0 || self.stats.reran > 0)?;
        let stays: BTreeSet<StepId> = after.steps().map(|step| step.begun.step.clone()).collect();
        self.world.forget_others(&stays);
        self.truth.forget_others(&stays, place.op);
        self.lives_by_itself(after.deliveries.len() as u64);
        self.own_keys = (birth.run.to_string(), after.keys());
        self.store = crate::store::Store::of(new.journal);
        let inbox: Vec<Mail> = new.inbox.iter().map(|(name, _)| Mail::of(name)).collect();
        let mut post = std::mem::take(&mut self.others.post);
        post.retain(|_, mail| matches!(mail, Mail::Event(_)));
        let (given, posted, done) = (inbox.len() as u64, self.others.posted, self.begun_errands()?);
        self.others = Others { inbox, given, post, posted, done, ..Others::default() };
        (self.logs, self.durable_logs) = (BTreeMap::new(), BTreeMap::new());
        self.restorations.truncate(after.restorations());
        self.disaster = None;
        self.refused.clear();
        (self.guest, self.parked) = (None, false);
        self.epoch += 1;
        self.ledger = after;
        self.stats.reran += 1;
        self.crashes_left += 3;
        let mut machine = life::load(&self.store, None)?;
        if machine.unknown_count() != new.unknown {
            return Err(format!("{} steps are unknown, and {} are told", machine.unknown_count(), new.unknown));
        }
        if self.chance(0.2) {
            // The process dies before anything of it has run.
            return if self.crash()? == Flow::Crashed { Ok(()) } else { Err("no crash".to_owned()) };
        }
        machine.begin();
        self.host.borrow_mut().machine = machine;
        self.instance()
    }

    /// Turns after that are the run's own, whoever has lived through them before.
    pub(super) fn lives_by_itself(&mut self, turns: u64) {
        self.host.borrow_mut().witness.retain(|(turn, _), _| *turn <= turns);
    }

    /// Keys that the machine makes are of this run, but for those of what was sent before.
    pub(super) fn check_own_key(&self, key: Option<&str>) -> Result<(), String> {
        let (run, before) = &self.own_keys;
        match key.filter(|key| key.starts_with("run_")) {
            Some(key) if !key.starts_with(&format!("{run}:")) && !before.contains(key) => {
                Err(format!("key {key:?} is of another run than {run}"))
            }
            _ => Ok(()),
        }
    }

    /// How often each operation on another run was begun, by the journal.
    fn begun_errands(&self) -> Result<BTreeMap<Operation, u32>, String> {
        let mut begun = BTreeMap::<Operation, u32>::new();
        for (seq, bytes) in (0..).zip(self.store.entries()) {
            let op = match codec::decode(seq, bytes).map_err(|error| error.to_string())?.record {
                Record::SendBegun { op, .. } | Record::ChildBegunAgain { op, .. } => op,
                Record::ChildBegun(child) => child.op,
                _ => continue,
            };
            *begun.entry(op).or_insert(0) += 1;
        }
        Ok(begun)
    }
}
