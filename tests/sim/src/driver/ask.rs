//! People: what they ask of the run at random moments, what they are answered, and that an answer holds after a crash.

use rand::Rng;
use rand::seq::IndexedRandom;
use stepwell_core::contract::EffectClass;
use stepwell_core::error::{Code, Error};
use stepwell_core::json::Json;
use stepwell_core::run::{Finding, Granted, Refusal, UnknownStep, found_error};

use super::{Driver, Flow, START_MS};
use crate::program::Ask;
use crate::step::Step;

impl Driver {
    /// Asks what is due. Whoever asked is answered once it is durable; where the host crashes before, they ask again.
    pub(super) fn ask_due(&mut self) -> Result<Flow, String> {
        let mut flow = Flow::Still;
        while let Some(&(at_ms, ask)) = self.asks.get(self.asked) {
            if at_ms > self.now() {
                break;
            }
            flow = Flow::Moved;
            if self.ask(ask)? == Flow::Crashed {
                return Ok(Flow::Crashed);
            }
        }
        Ok(flow)
    }

    /// When somebody asks next, in ms since the Unix epoch.
    pub(super) fn next_ask_ms(&self) -> Option<u64> {
        self.asks.get(self.asked).map(|(at_ms, _)| *at_ms)
    }

    fn ask(&mut self, ask: Ask) -> Result<Flow, String> {
        // Nothing that the machine has said is left unread: the rules are asked of the whole journal.
        loop {
            match self.pump()? {
                Flow::Moved => {}
                Flow::Still => break,
                Flow::Crashed => return Ok(Flow::Crashed),
            }
        }
        let before = (self.ledger.is_paused(), self.ledger.is_cancel_asked(), self.ledger.is_terminated());
        let (over, ending) = {
            let host = self.host.borrow();
            (self.ledger.ended(), host.machine.is_ending())
        };
        let answer = {
            let mut host = self.host.borrow_mut();
            let (now_ms, random) = (host.now_ms, host.random());
            let machine = &mut host.machine;
            match ask {
                Ask::Cancel => machine.cancel(Error::new(Code::Cancelled, "asked to"), "ana", now_ms, random),
                Ask::Terminate => machine.terminate(Error::new(Code::Terminated, "asked to"), "ana", now_ms, random),
                Ask::Pause => machine.pause("the bank is down", "ana", now_ms),
                Ask::Resume => machine.unpause("ana", now_ms, random),
                // Once it has failed.
                Ask::Retry => Ok(Granted::Already),
            }
        };
        check_answer(ask, &answer, over, ending, before)?;
        if self.host.borrow().machine.is_terminating() || self.host.borrow().machine.ended().is_some() {
            // Nobody polls it any more.
            self.guest = None;
            self.parked = false;
        }
        if self.pump()? == Flow::Crashed || self.flush() == Flow::Crashed {
            return self.crash();
        }
        // Answered. From here on it holds, whatever happens.
        self.asked += 1;
        if !over && !ending {
            self.resolve_wrongly()?;
        }
        if answer.is_ok() {
            self.ledger.promise(ask);
            self.stats.asks += 1;
        }
        Ok(Flow::Moved)
    }

    /// Before anything of the run has run.
    pub(super) fn ask_first(&mut self) -> Result<(), String> {
        if self.rng.random_bool(0.3) {
            self.parked = true;
            while self.asks.get(self.asked).is_some_and(|(at_ms, _)| *at_ms <= START_MS) {
                self.ask_due()?;
            }
        }
        Ok(())
    }

    /// The run is blocked, and nothing is under way anywhere: a person looks at what the world has done, and says so. Not always.
    pub(super) fn resolve_at_last(&mut self) -> Result<bool, String> {
        if self.stats.resolved >= 5 || self.chance(0.2) {
            return Ok(false);
        }
        if self.nothing_followed()? {
            return Ok(true);
        }
        let unknown = self.host.borrow().machine.unknown();
        for step in unknown.into_iter().filter(|step| !step.void) {
            if self.ledger.step(step.op).map(|known| known.doubted) != Some(step.after_copy) {
                return Err(format!("what a person is told of step {} and the copy is not so: {step:?}", step.step));
            }
            let finding = self.finding(&step);
            let expected = (finding.clone(), step.effects.len());
            let resolved = {
                let mut host = self.host.borrow_mut();
                let now_ms = host.now_ms;
                host.machine.resolve(&step.step.to_string(), finding, "looked it up", "ana", now_ms)
            };
            let resolved = resolved.map_err(|refusal| format!("step {} is unknown, and: {refusal}", step.step))?;
            if expected.0 == Finding::Retry && resolved.given_up.is_none() && resolved.keys.len() != expected.1 {
                return Err(format!("the answer does not say what becomes of each key: {resolved:?}"));
            }
            let may_have = step.after_copy || self.ledger.step(step.op).is_some_and(Step::is_any_unknown);
            if resolved.given_up.is_some_and(|error| error.outcome_unknown != may_have) {
                return Err(format!(
                    "step {} is given up, and of what it did the answer says what is not so",
                    step.step
                ));
            }
            self.stats.resolved += 1;
            // The same person, twice: nothing has become of it yet.
            let again = {
                let mut host = self.host.borrow_mut();
                let now_ms = host.now_ms;
                host.machine.resolve(&step.step.to_string(), Finding::Retry, "", "bob", now_ms)
            };
            if !matches!(again, Err(Refusal::StepNotUnknown { .. })) {
                return Err(format!("a step is resolved twice: {again:?}"));
            }
        }
        if self.pump()? == Flow::Crashed || self.chance(0.9) && self.flush() == Flow::Crashed {
            self.crash()?;
        }
        Ok(true)
    }

    /// What a person who sees everything says of it. They let it be repeated only where that does it once.
    fn finding(&mut self, unknown: &UnknownStep) -> Finding {
        let now_ms = self.now();
        let begun = self.ledger.step(unknown.op).map(|step| (step.begun.effect, step.begun.key_ttl_ms));
        let Some((class, own_ttl_ms)) = begun else { return Finding::Retry };
        let of_step = || self.world.sends.iter().filter(|sent| !sent.former && sent.step == unknown.step);
        let done = of_step().any(|sent| sent.done > 0);
        // Taken up again, or come another way after a copy, a run may give the id to a step of another class or with another life of
        // its keys: the other side knows what it was asked to know, and no longer than it was asked to.
        let known = class == EffectClass::Keyed
            && of_step().filter(|sent| sent.done > 0).all(|sent| sent.class == EffectClass::Keyed);
        let ttl_ms = of_step().map(|sent| sent.key_ttl_ms).min().unwrap_or(0).min(own_ttl_ms);
        // What was sent after a copy was sent under keys that nobody has any more.
        let fresh = !unknown.after_copy
            && unknown.effects.iter().all(|e| e.key.is_some() && now_ms + 3_600_000 < e.first_sent_ms + ttl_ms);
        let again = !done || known && fresh;
        match self.rng.random_range(0..3) {
            0 if !done => Finding::Failed(found_error("it did not happen")),
            0 | 1 if again => Finding::Retry,
            _ if done => Finding::Succeeded(Json::null()),
            _ => Finding::Retry,
        }
    }

    /// A person's word on a step of which enough is known.
    pub(super) fn resolve_wrongly(&mut self) -> Result<(), String> {
        let known: Vec<String> = {
            let known = self.ledger.steps().filter(|step| !step.unknown && !step.void);
            known.map(|step| step.begun.step.to_string()).collect()
        };
        let Some(step) = known.choose(&mut self.rng) else { return Ok(()) };
        let answer = {
            let mut host = self.host.borrow_mut();
            let now_ms = host.now_ms;
            host.machine.resolve(step, Finding::Succeeded(Json::null()), "guessed", "bob", now_ms)
        };
        match answer {
            Err(_) => Ok(()),
            Ok(resolved) => Err(format!("step {step} was not unknown, and is resolved: {resolved:?}")),
        }
    }

    /// Nobody resumes the run any more: the simulator does, so that every run ends.
    pub(super) fn resume_at_last(&mut self) {
        self.asks.push((self.now(), Ask::Resume));
    }
}

/// The table of what is answered when, written from the rules.
fn check_answer(
    ask: Ask,
    answer: &Result<Granted, Refusal>,
    over: bool,
    ending: bool,
    (paused, cancelled, terminated): (bool, bool, bool),
) -> Result<(), String> {
    let expected = match ask {
        _ if over => "ended",
        Ask::Terminate if terminated => "already",
        Ask::Terminate => "granted",
        _ if ending => "ending",
        Ask::Cancel if cancelled => "already",
        Ask::Pause if paused => "already",
        Ask::Resume if !paused => "already",
        _ => "granted",
    };
    let came = match answer {
        Ok(Granted::Already) => "already",
        Ok(Granted::Now | Granted::OnResume) => "granted",
        Err(Refusal::Ended(_)) => "ended",
        Err(Refusal::Ending) => "ending",
        Err(_) => "another refusal",
    };
    if came != expected {
        return Err(format!("{ask:?} was answered {answer:?}, and the rules say {expected}"));
    }
    Ok(())
}
