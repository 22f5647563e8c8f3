//! Steps in the fold: their attempts and effects.

use super::{Effect, Op, OpKind, Phase, Ready, State};
use crate::contract::{EffectClass, Evidence, Operation};
use crate::fault::{Fault, planted};
use crate::journal::entry::{AttemptOutcome, Dispatched, Next, RecordedAnswer, Resolution};
use crate::policy::effect::{Outcome, merged, outcome_of};

impl State {
    pub(super) fn attempt_started(&mut self, op: Operation, n: u32, deadline_ms: u64) -> Result<(), String> {
        self.disarm(op);
        let next = self.step(op).map(|step| self.next_attempt(step));
        let step = self.step_mut(op)?;
        if !matches!(step.phase, Phase::Ready | Phase::BackingOff { .. }) || Some(n) != next {
            return Err(format!("attempt {n} of operation {op} cannot start: {:?}", step.phase));
        }
        step.attempts = n;
        step.tried = step.tried.saturating_add(1);
        step.phase = Phase::Executing { n, deadline_ms };
        self.timers.insert((deadline_ms, op));
        self.unready(Ready::Attempt(op));
        Ok(())
    }

    pub(super) fn attempt_ended(&mut self, op: Operation, n: u32, outcome: &AttemptOutcome) -> Result<(), String> {
        self.disarm(op);
        let step = self.step_mut(op)?;
        if !matches!(step.phase, Phase::Executing { n: open, .. } if open == n) {
            return Err(format!("attempt {n} of operation {op} is not open"));
        }
        for effect in step.effects.iter_mut().filter(|effect| effect.in_flight) {
            effect.in_flight = false;
            effect.released = false;
            effect.outcome = merged(effect.outcome, Outcome::Unknown);
        }
        match outcome {
            AttemptOutcome::Succeeded(value) => {
                step.phase = Phase::Done;
                self.settle(op, Ok(value.clone()))?;
            }
            AttemptOutcome::Failed { error, next } => {
                step.failures += 1;
                match *next {
                    Next::Retry { due_ms, alone } => {
                        step.phase = Phase::BackingOff { due_ms };
                        step.alone = alone;
                        self.timers.insert((due_ms, op));
                    }
                    Next::GiveUp => {
                        step.phase = Phase::Done;
                        self.settle(op, Err(error.clone()))?;
                    }
                    Next::Unknown => step.phase = Phase::Unknown,
                }
            }
        }
        Ok(())
    }

    /// The step's next attempt must be alone in the instance.
    pub(in crate::run) fn alone_next(&mut self, op: Operation) {
        if let Ok(step) = self.step_mut(op)
            && matches!(step.phase, Phase::BackingOff { .. } | Phase::Ready)
        {
            step.alone = true;
            if step.phase == Phase::Ready {
                self.alone_ready.insert(op);
            }
        }
    }

    /// The back-off is over: the step can be attempted. Not journaled; it follows from the time.
    pub(in crate::run) fn backed_off(&mut self, op: Operation) {
        self.disarm(op);
        if let Ok(step) = self.step_mut(op) {
            step.phase = Phase::Ready;
            let alone = step.alone;
            self.ready.push_back(Ready::Attempt(op));
            if alone {
                self.alone_ready.insert(op);
            }
        }
    }

    pub(super) fn dispatched(&mut self, at_ms: u64, d: &Dispatched) -> Result<(), String> {
        let step = self.step_mut(d.op)?;
        let (keyed, key_ttl_ms) = (step.begun.effect == EffectClass::Keyed, step.begun.key_ttl_ms);
        if !matches!(step.phase, Phase::Executing { n, .. } if n == d.n) {
            return Err(format!("attempt {} of operation {} is not open", d.n, d.op));
        }
        match (d.effect as usize).checked_sub(1) {
            Some(at) if at == step.effects.len() => step.effects.push(Effect {
                what: d.what.clone(),
                key: d.key.clone(),
                first_sent_ms: at_ms,
                last_sent_ms: at_ms,
                renew_on: d.renew_on.clone(),
                outcome: Outcome::NotDone,
                released: false,
                deduplicated: keyed,
                key_ttl_ms,
                in_flight: true,
                done: None,
            }),
            Some(at) if at < step.effects.len() => {
                let effect = &mut step.effects[at];
                effect.in_flight = true;
                effect.deduplicated &= keyed;
                effect.key_ttl_ms = effect.key_ttl_ms.min(key_ttl_ms);
                effect.last_sent_ms = at_ms;
                effect.renew_on.clone_from(&d.renew_on);
            }
            _ => return Err(format!("effect {} does not follow effect {}", d.effect, step.effects.len())),
        }
        Ok(())
    }

    pub(super) fn settled(
        &mut self,
        op: Operation,
        effect: u32,
        evidence: &Evidence,
        answer: Option<&RecordedAnswer>,
    ) -> Result<(), String> {
        let step = self.step_mut(op)?;
        let found = (effect as usize).checked_sub(1).and_then(|at| step.effects.get_mut(at));
        let effect = found.ok_or_else(|| format!("operation {op} has no effect {effect}"))?;
        let sent = outcome_of(evidence, &effect.renew_on);
        effect.in_flight = false;
        effect.released = false;
        effect.outcome = if planted(Fault::UnknownNotSticky) { sent } else { merged(effect.outcome, sent) };
        if let (Outcome::Done, Evidence::Answered(status)) = (sent, evidence) {
            effect.done = Some((*status, answer.cloned()));
        }
        Ok(())
    }

    /// A person has said what became of the step.
    pub(super) fn resolved(&mut self, op: Operation, resolution: &Resolution) -> Result<(), String> {
        let step = self.step_mut(op)?;
        if step.phase != Phase::Unknown && !planted(Fault::ResolveAnyStep) {
            return Err(format!("the outcome of operation {op} is not unknown"));
        }
        step.abandoned = false;
        step.doubted = false;
        step.held = None;
        // One that was given up is nobody's word on what happened.
        step.cleared = !matches!(resolution, Resolution::Failed(error) if error.outcome_unknown);
        let unknown = step.effects.iter_mut().zip(1..).filter(|(effect, _)| effect.outcome == Outcome::Unknown);
        match resolution {
            Resolution::Succeeded(value) => {
                unknown.for_each(|(effect, _)| effect.outcome = Outcome::Done);
                step.phase = Phase::Done;
                self.settle(op, Ok(value.clone()))
            }
            Resolution::Failed(error) => {
                // One that was given up fails by a person's word, and what may have happened stays so: a run that is taken back to
                // before this, and comes to the step again, keeps its keys.
                if !error.outcome_unknown {
                    unknown.for_each(|(effect, _)| effect.outcome = Outcome::NotDone);
                }
                step.phase = Phase::Done;
                self.settle(op, Err(error.clone()))
            }
            Resolution::Retry { renewed } => {
                for (effect, k) in unknown {
                    if renewed.contains(&k) {
                        effect.outcome = Outcome::NotDone;
                    } else {
                        effect.released = true;
                    }
                }
                step.phase = Phase::Ready;
                step.failures = 0;
                step.alone = false;
                self.ready.push_back(Ready::Attempt(op));
                Ok(())
            }
        }
    }

    /// A planted fault's work: a step whose result is recorded, but not delivered, is attempted again.
    pub(in crate::run) fn forget_a_result(&mut self) {
        let settled = |op: &Op| op.is_open() && matches!((&op.kind, &op.outcome), (OpKind::Step(_), Some(Ok(_))));
        let Some(at) = self.ops.iter().position(settled) else { return };
        self.ops[at].outcome = None;
        if let OpKind::Step(step) = &mut self.ops[at].kind {
            step.phase = Phase::Ready;
        }
        self.unready(Ready::Deliver(at as Operation));
        self.ready.push_back(Ready::Attempt(at as Operation));
    }
}
