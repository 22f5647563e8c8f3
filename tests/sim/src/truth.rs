//! What was really done, held against what the bodies meant: known to the simulator alone.

use std::collections::{BTreeMap, BTreeSet};

use stepwell_core::contract::{AttemptRef, EffectClass, Exchange, Operation};
use stepwell_core::ids::StepId;

use crate::host::{Note, What};
use crate::invariants::Ledger;
use crate::world::{Sent, World};

/// A step as a promise was made of it: its id and its class. In a run that was restored from a copy an id alone says too little: the run
/// may come another way after the copy than it had come before (an event is late, somebody cancels), and begin there, under the id of a
/// `keyed` step of the lost time, one of class `repeatable`. Of that nobody has promised that it is done once, and what it does is not
/// done by the other. A run that is taken up again may give an id to another step of its code too, which then knows what was done for
/// the first. In every other run an id has one class.
type Promised = (StepId, EffectClass);

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
            begun.map(|begun| (begun.step.clone(), begun.effect)).ok_or_else(|| format!("operation {op} is no step"))
        };
        match note {
            Note::Meant(AttemptRef { operation, number }, what) => {
                *self.meant.entry((step(operation)?, what)).or_default().entry(number).or_insert(0) += 1;
            }
            Note::Unheard(attempt, exchanges) => {
                self.unheard.insert(attempt, exchanges);
            }
            Note::ToldFromRecord(op, what) | Note::ToldDone(op, what) => {
                let (id, class) = step(op)?;
                // Taken up again, a run may give the id to a step of another class, and that knows what was done for it.
                let taken_up = ledger.retries() > 0;
                // Under a key of its own choice a rerun's body may be told of what the other run's has done.
                let here = |sent: &&Sent| sent.what == what && (sent.step == id || sent.former);
                let sends = world.sends.iter().filter(here);
                if !{ sends }.any(|sent| sent.done > 0 && (taken_up || sent.former || sent.class == class)) {
                    return Err(format!("a body of step {id} was told that {what:?} was done, and it was not"));
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

    /// The run is rerun from where it has these steps alone, and operations below that number.
    pub fn forget_others(&mut self, stays: &BTreeSet<StepId>, op: Operation) {
        self.meant.retain(|((id, _), _), _| stays.contains(id));
        self.unheard.retain(|attempt, _| attempt.operation < op);
    }

    /// Nothing was done more often than one attempt meant it to be, where its class promises that. `restored`: from a copy, or rerun; what
    /// keys of their own the bodies chose after it may come again then for something else.
    ///
    /// # Errors
    /// What was.
    pub fn check(&self, world: &World, restored: bool) -> Result<(), String> {
        let own = |conflict: &&String| restored && conflict.starts_with("key \"own ");
        if let Some(conflict) = world.conflicts.iter().find(|conflict| !own(conflict)) {
            return Err(conflict.clone());
        }
        let mut of_any_class: BTreeMap<(&StepId, &What), u32> = BTreeMap::new();
        for (((id, class), what), attempts) in &self.meant {
            let most = attempts.values().copied().max().unwrap_or(0);
            let of_any = of_any_class.entry((id, what)).or_default();
            *of_any = most.max(*of_any);
            let times = sent(world, id, what).filter(|sent| sent.class == *class).map(|sent| sent.done).sum();
            if *class != EffectClass::Repeatable {
                no_more_often(&format!("class {class:?}: for step {id} {what:?}"), times, most)?;
            }
        }
        // Of a `repeatable` step that takes the id of another nobody has promised that it is done once.
        for ((id, what), most) in of_any_class {
            let repeatable = sent(world, id, what).any(|sent| sent.class == EffectClass::Repeatable);
            if !repeatable {
                no_more_often(
                    &format!("for step {id} {what:?}"),
                    sent(world, id, what).map(|sent| sent.done).sum(),
                    most,
                )?;
            }
        }
        Ok(())
    }
}

fn no_more_often(subject: &str, times: u32, most: u32) -> Result<(), String> {
    if times > most {
        return Err(format!("{subject} was done {times} times, and no attempt meant it more than {most} times"));
    }
    Ok(())
}

fn sent<'a>(world: &'a World, step: &'a StepId, what: &'a What) -> impl Iterator<Item = &'a Sent> {
    world.sends.iter().filter(move |sent| !sent.former && sent.step == *step && sent.what == *what)
}
