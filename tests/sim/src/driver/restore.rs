//! A disaster: the database is copied while the run goes on, lost some time later, and restored from the copy. The world remembers what
//! it did for the run after the copy; the run does not.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::SmallRng;
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{Record, Restored};
use stepwell_core::run::Output;

use super::mail::Others;
use super::{Driver, START_MS, life};
use crate::program::Ask;

/// What is to happen to the database, and what was kept of it.
pub(super) struct Disaster {
    copy_ms: u64,
    lost_ms: u64,
    /// How often it is lost and restored from the same copy.
    times: u32,
    copy: Option<Copy>,
    /// Keys of attempts, and the restorations before each.
    attempts: BTreeMap<String, u64>,
    /// Keys under which something left before the last restoration, and which the copy does not have.
    forgotten: BTreeSet<String>,
}

#[derive(Clone)]
struct Copy {
    entries: Vec<Vec<u8>>,
    logs: BTreeMap<(u64, u32), String>,
    promised: Vec<Ask>,
    /// Requests that had left by then.
    sends: usize,
    /// The restorations before it.
    restorations: Vec<Restored>,
    /// The other runs are in the same database.
    others: Others,
}

impl Disaster {
    /// For one run in four.
    pub(super) fn at_random(rng: &mut SmallRng) -> Option<Self> {
        let most = [100, 3_000, 30_000][rng.random_range(0..3)];
        let copy_ms = START_MS + rng.random_range(0..most);
        let lost_ms = copy_ms + rng.random_range(0..3 * most);
        let times = if rng.random_bool(0.25) { 2 } else { 1 };
        let (attempts, forgotten) = (BTreeMap::new(), BTreeSet::new());
        rng.random_bool(0.25).then_some(Self { copy_ms, lost_ms, times, copy: None, attempts, forgotten })
    }
}

impl Driver {
    pub(super) fn copy_when_due(&mut self) {
        let now_ms = self.now();
        // What is durable is done in the same commit.
        self.run_errands();
        let Some(disaster) = &mut self.disaster else { return };
        if disaster.copy.is_some() || now_ms < disaster.copy_ms {
            return;
        }
        disaster.copy = Some(Copy {
            entries: self.store.durable().to_vec(),
            logs: self.durable_logs.clone(),
            // What was asked is durable before it is promised.
            promised: self.ledger.promised.clone(),
            sends: self.world.sends.len(),
            restorations: self.restorations.clone(),
            others: Others { errands: Vec::new(), ..self.others.clone() },
        });
    }

    pub(super) fn is_lost_now(&self) -> bool {
        let now_ms = self.now();
        self.disaster.as_ref().is_some_and(|d| d.copy.is_some() && d.times > 0 && now_ms >= d.lost_ms)
    }

    /// Restores the database from the copy. `false` where there is none, or nothing is to be lost any more.
    pub(super) fn restore(&mut self) -> Result<bool, String> {
        let Some(disaster) = self.disaster.as_mut().filter(|disaster| disaster.times > 0) else { return Ok(false) };
        let Some(copy) = disaster.copy.clone() else { return Ok(false) };
        disaster.times -= 1;
        disaster.lost_ms += self.rng.random_range(0..30_000);
        let kept: BTreeSet<String> = (0..).zip(&copy.entries).filter_map(|(seq, bytes)| key_of(seq, bytes)).collect();
        let since = self.world.sends.iter().skip(copy.sends).filter_map(|sent| sent.key.clone());
        disaster.forgotten = since.filter(|key| !kept.contains(key)).collect();
        self.look()?;
        self.stats.restored += 1;
        self.store.restore(&copy.entries);
        self.others = copy.others;
        (self.logs, self.durable_logs) = (copy.logs.clone(), copy.logs);
        // In memory, as whoever restores has it: nothing of the run goes on meanwhile.
        let own = |place: &&(u64, u32)| place.0 >> 63 == 0;
        let (epoch, now_ms, random) = (format!("{:x}", self.rng.random::<u64>()), self.now(), self.rng.random());
        self.restorations = copy.restorations;
        self.restorations.push(Restored { epoch: epoch.clone(), in_doubt: true, by: "ana".to_owned() });
        let mut machine = life::load(&self.store, self.logs.keys().rfind(own).copied())?;
        if machine.ended().is_some() {
            // It is told once it is taken up again.
            self.read_again(copy.promised, None)?;
            return Ok(true);
        }
        machine.restore((&epoch, true), "restored", "ana", now_ms, random).map_err(|refusal| refusal.to_string())?;
        for output in machine.outputs() {
            match output {
                Output::Append { bytes, .. } => self.store.append(bytes),
                other => return Err(format!("{other:?} on restoring")),
            }
        }
        // Whoever restores has no disk that fails, or begins anew.
        let _ = self.store.flush(&mut self.rng, 0.0);
        let (mut promised, retried) = (copy.promised.clone(), copy.promised);
        promised.retain(|ask| matches!(ask, Ask::Cancel | Ask::Terminate));
        self.read_again(promised, None)?;
        let retried = retried.into_iter().filter(|ask| *ask == Ask::Retry);
        retried.for_each(|ask| self.ledger.promise(ask));
        if self.ledger.promised.iter().filter(|ask| **ask == Ask::Retry).count() > self.ledger.retries() {
            return Err("the run was taken up again before the copy, and in it it was not".to_owned());
        }
        if !self.ledger.is_paused() && !self.ledger.is_terminated() {
            return Err("a restored run goes on by itself".to_owned());
        }
        if self.ledger.is_paused() {
            self.ledger.promise(Ask::Pause);
        }
        Ok(true)
    }

    /// A person who sees everything finds that nothing was done for the run after the copy, and says so. Not always.
    pub(super) fn nothing_followed(&mut self) -> Result<bool, String> {
        let Some(copy) = self.disaster.as_ref().and_then(|disaster| disaster.copy.as_ref()) else { return Ok(false) };
        let Some(last) = self.world.sends.get(copy.sends..) else { return Ok(false) };
        if !self.host.borrow().machine.is_in_doubt() || !last.is_empty() || self.chance(0.3) {
            return Ok(false);
        }
        let said = {
            let mut host = self.host.borrow_mut();
            let now_ms = host.now_ms;
            host.machine.nothing_followed("asked the bank", "ana", now_ms)
        };
        said.map_err(|refusal| format!("nothing followed, and: {refusal}"))?;
        Ok(true)
    }

    /// No key that was issued after the copy is issued again.
    pub(super) fn check_key(&self, key: Option<&str>) -> Result<(), String> {
        let Some(disaster) = &self.disaster else { return Ok(()) };
        match key.filter(|key| disaster.forgotten.contains(*key)) {
            // The caller's own, and those of operations that the copy has, are as they were.
            Some(key) if key.starts_with("run_1:") && key.split(':').count() > 2 => {
                Err(format!("key {key:?} was issued after the copy, and is issued again"))
            }
            _ => Ok(()),
        }
    }

    /// No key of an attempt is issued again.
    pub(super) fn check_attempt_key(&mut self, key: &str) -> Result<(), String> {
        let restored = self.stats.restored;
        let Some(disaster) = &mut self.disaster else { return Ok(()) };
        match disaster.attempts.insert(key.to_owned(), restored) {
            Some(before) if before != restored => Err(format!("two attempts have the key {key:?}")),
            _ => Ok(()),
        }
    }
}

fn key_of(seq: u64, bytes: &[u8]) -> Option<String> {
    match codec::decode(seq, bytes).ok()?.record {
        Record::Dispatched(dispatched) => dispatched.key,
        _ => None,
    }
}
