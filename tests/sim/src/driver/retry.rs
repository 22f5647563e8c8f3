//! A failed run that is taken up again by a person, once or a few times, and what may go wrong meanwhile.

use rand::Rng;
use rand::seq::IndexedRandom;
use stepwell_core::ids::Digest;
use stepwell_core::journal::entry::Record;
use stepwell_core::run::{Output, Refusal, Retry};

use super::{Driver, Flow};
use crate::program::Ask;

/// How often a run is taken up again, at most.
const MOST: u64 = 3;

impl Driver {
    /// The run has ended, and its end is durable: perhaps somebody takes it up again. Whether it goes on.
    pub(super) fn retry(&mut self) -> Result<bool, String> {
        if self.stats.retried >= MOST + self.stats.restored || self.chance(0.3) {
            return Ok(false);
        }
        let steps: Vec<String> = self.ledger.steps().map(|step| step.begun.step.to_string()).collect();
        let mut retry = Retry {
            from_step: steps.choose(&mut self.rng).filter(|_| self.stats.retried == 1).cloned(),
            digest: self.rng.random_bool(0.2).then(|| Digest::of(&[self.stats.retried as u8])),
            confirm: self.rng.random_bool(0.5),
            restored: self.restorations.clone(),
        };
        let failed = self.ledger.has_failed();
        if failed {
            self.children_of_the_failed();
        }
        let mut asked = self.take_up(&retry);
        if let Err(Refusal::NeedsConfirm(effects, others)) = &asked {
            if retry.confirm || effects.is_empty() && others.is_empty() {
                return Err(format!("it is confirmed, and: {asked:?}"));
            }
            retry.confirm = true;
            asked = self.take_up(&retry);
        }
        let retried = match asked {
            Ok(_) if !failed => return Err("a run is taken up again that has not failed".to_owned()),
            Ok(retried) => retried,
            Err(Refusal::Ended(_)) if !failed => return Ok(false),
            Err(Refusal::NeedsCode) if failed && retry.digest.is_none() => return Ok(false),
            Err(Refusal::StepNotFailed(_)) if failed && retry.from_step.is_some() => return Ok(false),
            Err(refusal) => return Err(format!("{retry:?}, failed {failed}: {refusal}")),
        };
        let outputs = self.host.borrow_mut().machine.outputs();
        for output in outputs {
            let (entry, bytes) = match output {
                Output::Append { entry, bytes } => (entry, bytes),
                Output::Errand(errand) => {
                    self.ledger.errand(&errand)?;
                    self.others.errands.push((self.store.entries().len(), errand));
                    continue;
                }
                other => return Err(format!("{other:?} on taking the run up again")),
            };
            if let Record::Rewound { to, .. } = &entry.record {
                if self.ledger.done_since(*to) != retried.void.len() {
                    return Err(format!("what was done after entry {to} is not what is listed: {:?}", retried.void));
                }
                if self.ledger.others_since(*to) != retried.others.len() {
                    return Err(format!("what was done to others is not what is listed: {:?}", retried.others));
                }
            }
            self.ledger.entry(&entry)?;
            self.store.append(bytes);
        }
        self.lives_by_itself(self.ledger.deliveries.len() as u64);
        self.stats.retried += 1;
        if self.ledger.restorations() != self.restorations.len() {
            return Err("the run is taken up again and does not know how often its database was restored".to_owned());
        }
        if self.chance(0.1) || self.flush() == Flow::Crashed {
            self.crash()?;
            return Ok(true);
        }
        self.ledger.promise(Ask::Retry);
        if self.chance(0.1) {
            self.crash()?;
            return Ok(true);
        }
        // What had come when it had ended already is still in its inbox.
        self.others.given = self.host.borrow().machine.last_event();
        self.resume()?;
        Ok(true)
    }

    fn take_up(&mut self, retry: &Retry) -> Result<stepwell_core::run::Retried, Refusal> {
        let mut host = self.host.borrow_mut();
        host.now_ms += u64::from(host.random() as u8);
        let now_ms = host.now_ms;
        host.machine.retry(retry, "the bank is back", "ana", now_ms)
    }
}
