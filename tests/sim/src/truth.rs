//! What was really done, held against what the bodies meant: known to the simulator alone.

use std::collections::BTreeMap;

use stepwell_core::contract::{AttemptRef, EffectClass, Exchange};

use crate::host::{Note, What};
use crate::invariants::Ledger;
use crate::world::World;

/// A step as a promise was made of it: its id and its class. In a run that was restored from a copy an id alone says too little: the run
/// may come another way after the copy than it had come before (an event is late, somebody cancels), and begin there, under the id of a
/// `keyed` step of the lost time, one of class `repeatable`. Of that nobody has promised that it is done once, and what it does is not
/// done by the other. In a run that was never restored an id has one class.
type Promised = (String, EffectClass);

/// What bodies meant to have done, and were told of.
#[derive(Debug, Default)]
pub struct Truth {
    meant: BTreeMap<(Promised, What), BTreeMap<u32, u32>>,
    unheard: BTreeMap<AttemptRef, Vec<Exchange>>,
}

impl Truth {
    /// Takes what the guest noted.
    ///
    /// # Errors
    /// If a body was told that something was done which was not.
    pub fn note(&mut self, note: Note, ledger: &Ledger, world: &World) -> Result<(), String> {
        let step = |op| {
            let begun = ledger.step(op).map(|step| &step.begun);
            begun
                .map(|begun| (begun.step.to_string(), begun.effect))
                .ok_or_else(|| format!("operation {op} is no step"))
        };
        match note {
            Note::Meant(AttemptRef { operation, number }, what) => {
                *self.meant.entry((step(operation)?, what)).or_default().entry(number).or_insert(0) += 1;
            }
            Note::Unheard(attempt, exchanges) => {
                self.unheard.insert(attempt, exchanges);
            }
            Note::ToldFromRecord(op, what) | Note::ToldDone(op, what) => {
                if done(world, &step(op)?, &what) == 0 {
                    return Err(format!("a body of operation {op} was told that {what:?} was done, and it was not"));
                }
            }
        }
        Ok(())
    }

    /// An attempt has succeeded: no request that its body never heard of may have happened, where that could do harm.
    ///
    /// # Errors
    /// The one that may have.
    pub fn succeeded(&self, attempt: AttemptRef, epoch: u32, ledger: &Ledger, world: &World) -> Result<(), String> {
        let Some(step) = ledger.step(attempt.operation) else { return Ok(()) };
        let unheard = self.unheard.get(&attempt).into_iter().flatten();
        for exchange in unheard.filter(|_| step.begun.effect != EffectClass::Repeatable) {
            let Some(sent) = world.sends.iter().find(|s| s.epoch == epoch && s.exchange == *exchange) else { continue };
            if sent.key.is_some() && step.is_unknown(sent.key.as_deref()) {
                return Err(format!("{attempt:?} succeeds, and its body never heard that {:?} is unknown", sent.key));
            }
        }
        Ok(())
    }

    /// Nothing was done more often than one attempt meant it to be, where its class promises that. `restored`: from a copy; what
    /// keys of their own the bodies chose after it may come again then for something else.
    ///
    /// # Errors
    /// What was.
    pub fn check(&self, world: &World, restored: bool) -> Result<(), String> {
        let own = |conflict: &&String| restored && conflict.starts_with("key \"own ");
        if let Some(conflict) = world.conflicts.iter().find(|conflict| !own(conflict)) {
            return Err(conflict.clone());
        }
        for ((step @ (id, class), what), attempts) in &self.meant {
            let most = attempts.values().copied().max().unwrap_or(0);
            let times = done(world, step, what);
            if *class != EffectClass::Repeatable && times > most {
                return Err(format!(
                    "class {class:?}: for step {id} {what:?} was done {times} times, and no attempt meant it more than {most} \
                     times"
                ));
            }
        }
        Ok(())
    }
}

fn done(world: &World, (id, class): &Promised, what: &What) -> u32 {
    let same = world.sends.iter().filter(|sent| sent.step == *id && sent.class == *class && sent.what == *what);
    same.map(|sent| sent.done).sum()
}
