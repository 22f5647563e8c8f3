//! What was really done, held against what the bodies meant: known to the simulator alone.

use std::collections::BTreeMap;

use stepwell_core::contract::{AttemptRef, EffectClass, Exchange};
use stepwell_core::ids::StepId;

use crate::host::{Note, What};
use crate::invariants::Ledger;
use crate::world::{Sent, World};

/// What bodies meant to have done, and were told of.
#[derive(Debug, Default)]
pub struct Truth {
    meant: BTreeMap<(StepId, What), BTreeMap<u32, u32>>,
    unheard: BTreeMap<AttemptRef, Vec<Exchange>>,
}

impl Truth {
    /// Takes what the guest noted.
    ///
    /// # Errors
    /// If a body was told that something was done which was not.
    pub fn note(&mut self, note: Note, ledger: &Ledger, world: &World) -> Result<(), String> {
        let step = |op| ledger.step(op).map(|step| step.begun.step.clone()).ok_or("a note of what is no step");
        match note {
            Note::Meant(AttemptRef { operation, number }, what) => {
                *self.meant.entry((step(operation)?, what)).or_default().entry(number).or_insert(0) += 1;
            }
            Note::Unheard(attempt, exchanges) => {
                self.unheard.insert(attempt, exchanges);
            }
            Note::ToldFromRecord(op, what) | Note::ToldDone(op, what) => {
                let step = step(op)?;
                if done(world, &step, &what) == 0 {
                    return Err(format!("a body of step {step} was told that {what:?} was done, and it was not"));
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

    /// Nothing was done more often than one attempt meant it to be, where its class promises that.
    ///
    /// # Errors
    /// What was.
    pub fn check(&self, world: &World) -> Result<(), String> {
        if let Some(conflict) = world.conflicts.first() {
            return Err(conflict.clone());
        }
        for ((step, what), attempts) in &self.meant {
            let most = attempts.values().copied().max().unwrap_or(0);
            // Taken up again, a run may give the id to another step of its code.
            let repeatable = sent(world, step, what).any(|sent| sent.class == EffectClass::Repeatable);
            let times = done(world, step, what);
            if !repeatable && times > most {
                return Err(format!(
                    "for step {step} {what:?} was done {times} times, and no attempt meant it more than {most} times"
                ));
            }
        }
        Ok(())
    }
}

fn sent<'a>(world: &'a World, step: &'a StepId, what: &'a What) -> impl Iterator<Item = &'a Sent> {
    world.sends.iter().filter(move |sent| sent.step == *step && sent.what == *what)
}

fn done(world: &World, step: &StepId, what: &What) -> u32 {
    sent(world, step, what).map(|sent| sent.done).sum()
}
