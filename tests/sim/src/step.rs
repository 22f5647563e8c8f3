//! What must hold of a step: its attempts, its waiting times, its effects and their keys.
//!
//! Written from the rules, and not from the machine: the tables here are a second opinion.

use stepwell_core::contract::{EffectClass, Evidence};
use stepwell_core::error::{Code, Error, Retryability};
use stepwell_core::journal::entry::{Asked, AttemptOutcome, Dispatched, Next, Resolution, StepBegun};
use stepwell_core::json::Json;

/// What is known of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    /// It was not done.
    NotDone,
    /// It was.
    Done,
    /// It may have been.
    Unknown,
}

/// A step of the journal.
#[derive(Debug)]
pub struct Step {
    /// As it was begun.
    pub begun: StepBegun,
    /// The number of its latest attempt.
    pub attempts: u32,
    /// How many attempts it has had.
    tried: u32,
    /// After how many of them they were last counted anew, by a person's word.
    counted_from: u32,
    /// The database was restored from a copy after which it may have been attempted.
    pub doubted: bool,
    /// It was unknown in that copy already.
    own: bool,
    /// A person has said since then what became of it.
    cleared: bool,
    /// The attempt under way, and its deadline.
    pub open: Option<(u32, u64)>,
    /// When the next attempt may start.
    pub due_ms: u64,
    /// Its next attempt, or the one under way, is to be alone.
    pub alone: bool,
    /// Its end, once it has one.
    pub over: Option<Result<Json, Error>>,
    /// It waits for a person.
    pub unknown: bool,
    /// It waits for one only since nobody attempts it any more.
    pub abandoned: bool,
    /// Its run was taken back to before it.
    pub void: bool,
    /// What was sent for it.
    pub effects: Vec<Effect>,
    /// The latest settled evidence was 409 or 425 under a key that may have been used.
    still_at_it: bool,
}

/// All that was sent under one key.
#[derive(Debug)]
pub struct Effect {
    what: Asked,
    key: Option<String>,
    first_ms: u64,
    renew_on: Vec<u16>,
    /// What is known of it.
    pub known: Known,
    /// It is under way.
    pub in_flight: bool,
    /// It is recorded as dispatched and has not left.
    to_leave: Option<u32>,
    /// A person has said that it may be sent once more.
    released: bool,
    /// It was sent for `keyed` steps alone: the other side deduplicates it.
    deduplicated: bool,
    /// How long the other side knows its key at least, in ms.
    ttl_ms: u64,
}

impl Effect {
    /// The key that its requests carry.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
}

fn table(evidence: &Evidence, renew_on: &[u16]) -> Known {
    match *evidence {
        Evidence::NotSent | Evidence::Answered(307 | 308 | 429 | 503) => Known::NotDone,
        Evidence::Answered(status) if status >= 400 && renew_on.contains(&status) => Known::NotDone,
        Evidence::Sent | Evidence::Answered(408 | 409 | 425 | 500..) => Known::Unknown,
        Evidence::Answered(400..500) => Known::NotDone,
        Evidence::Answered(_) => Known::Done,
    }
}

impl Step {
    /// A step that has begun.
    #[must_use]
    pub fn new(begun: StepBegun) -> Self {
        Self {
            begun,
            attempts: 0,
            tried: 0,
            counted_from: 0,
            doubted: false,
            own: false,
            cleared: false,
            open: None,
            due_ms: 0,
            alone: false,
            over: None,
            unknown: false,
            abandoned: false,
            void: false,
            effects: Vec::new(),
            still_at_it: false,
        }
    }

    /// Its run was taken up again: it is attempted anew, unless it has a result or waits for a person. One that may have been attempted
    /// after a copy (`in_doubt`) waits for one until somebody has said what became of it.
    pub fn anew(&mut self, in_doubt: bool) {
        self.unknown &= !std::mem::take(&mut self.abandoned);
        if !self.unknown && !matches!(self.over, Some(Ok(_))) {
            self.over = None;
            self.counted_from = self.tried;
            self.due_ms = 0;
            self.alone = false;
            (self.doubted, self.own) = (false, false);
            if in_doubt && !self.cleared {
                self.doubt(true);
            }
        }
    }

    /// It is begun again after its run was taken back to before it: it goes on from what was done for it.
    pub fn follows(&mut self, void: &mut Self) {
        (self.attempts, self.tried) = (void.attempts, void.tried);
        self.counted_from = void.tried;
        self.effects = std::mem::take(&mut void.effects);
        void.unknown = false;
    }

    /// Whether it can be attempted some time.
    #[must_use]
    pub fn can_start(&self) -> bool {
        self.open.is_none() && self.over.is_none() && !self.unknown
    }

    /// Whether anything that was sent under that key may have happened.
    #[must_use]
    pub fn is_unknown(&self, key: Option<&str>) -> bool {
        self.effects.iter().any(|effect| effect.key.as_deref() == key && effect.known == Known::Unknown)
    }

    /// Whether anything that was sent may have happened.
    #[must_use]
    pub fn is_any_unknown(&self) -> bool {
        self.effects.iter().any(|effect| effect.known == Known::Unknown)
    }

    fn name(&self) -> String {
        format!("step {} {}", self.begun.op, self.begun.step)
    }

    /// An attempt starts. Those of the present epoch have numbers above `base`.
    ///
    /// # Errors
    /// What does not hold.
    pub fn started(&mut self, n: u32, at_ms: u64, deadline_ms: u64, base: u32) -> Result<(), String> {
        let name = self.name();
        if let Some(Ok(_)) = self.over {
            return Err(format!("{name}: a recorded result is computed again, in attempt {n}"));
        }
        if !self.can_start() {
            return Err(format!("{name}: attempt {n} starts although the step is over, unknown or under way"));
        }
        if n != self.attempts.max(base) + 1 {
            return Err(format!("{name}: attempt {n} follows attempt {}", self.attempts));
        }
        self.tried += 1;
        if self.tried - self.counted_from > self.begun.retry.max_attempts {
            return Err(format!("{name}: attempt {n} of at most {}", self.begun.retry.max_attempts));
        }
        if at_ms < self.due_ms {
            return Err(format!("{name}: attempt {n} starts {} ms early", self.due_ms - at_ms));
        }
        if deadline_ms != at_ms + self.begun.timeout_ms {
            return Err(format!("{name}: attempt {n} has a deadline other than its time-out says"));
        }
        self.attempts = n;
        self.open = Some((n, deadline_ms));
        self.still_at_it = false;
        Ok(())
    }

    /// An attempt ends. `given_up`: the step was closed, or the run is cancelled.
    ///
    /// # Errors
    /// What does not hold.
    pub fn ended(&mut self, n: u32, outcome: &AttemptOutcome, at_ms: u64, given_up: bool) -> Result<(), String> {
        let name = self.name();
        if self.open.is_none_or(|(open, _)| open != n) {
            return Err(format!("{name}: attempt {n} ends and was not open"));
        }
        self.open = None;
        let lost = self.effects.iter().any(|effect| effect.in_flight);
        for effect in self.effects.iter_mut().filter(|effect| effect.in_flight) {
            effect.in_flight = false;
            effect.to_leave = None;
            effect.released = false;
            if effect.known != Known::Done {
                effect.known = Known::Unknown;
            }
        }
        let unknown = self.effects.iter().any(|effect| effect.known == Known::Unknown);
        let class = self.begun.effect;
        if self.doubted && !matches!(outcome, AttemptOutcome::Failed { next: Next::Unknown, .. }) {
            return Err(format!("{name}: attempt {n} was open in the copy, and the step is not unknown"));
        }
        match outcome {
            AttemptOutcome::Succeeded(_) if lost => Err(format!("{name}: it succeeds while a request is under way")),
            AttemptOutcome::Succeeded(value) => {
                self.over = Some(Ok(value.clone()));
                Ok(())
            }
            AttemptOutcome::Failed { error, next } => {
                if error.outcome_unknown != unknown {
                    return Err(format!("{name}: the error of attempt {n} says of the outcome what is not so"));
                }
                match *next {
                    Next::Retry { due_ms, alone } => {
                        self.due_ms = due_ms;
                        self.alone = alone;
                        if given_up {
                            return Err(format!("{name}: it is retried although it was closed or cancelled"));
                        }
                        if class == EffectClass::Once && unknown {
                            return Err(format!("{name}: class `once` is retried with an unknown outcome"));
                        }
                        self.retried(error, due_ms - at_ms)
                    }
                    Next::GiveUp => {
                        self.over = Some(Err(error.clone()));
                        if class != EffectClass::Repeatable && unknown {
                            return Err(format!("{name}: it fails although what it did is unknown"));
                        }
                        let last = self.tried - self.counted_from >= self.begun.retry.max_attempts
                            || error.retryability == Retryability::Never;
                        // The run's end closes attempts too; the journal says so only in what follows.
                        if !last && !given_up && !error.is(Code::Cancelled) {
                            return Err(format!("{name}: it gives up after attempt {n}, and nothing says why"));
                        }
                        Ok(())
                    }
                    Next::Unknown => {
                        self.unknown = true;
                        if class == EffectClass::Repeatable {
                            return Err(format!("{name}: a repeatable step becomes unknown"));
                        }
                        Ok(())
                    }
                }
            }
        }
    }

    fn retried(&self, error: &Error, delay_ms: u64) -> Result<(), String> {
        let name = self.name();
        let policy = &self.begun.retry;
        let n = self.tried - self.counted_from;
        if n >= policy.max_attempts {
            return Err(format!("{name}: an attempt after number {n} of at most {}", policy.max_attempts));
        }
        let told_to_wait = self.still_at_it && error.is(Code::HttpStatus);
        match error.retryability {
            Retryability::Never if !told_to_wait => Err(format!("{name}: a non-retriable failure is retried")),
            Retryability::AfterMs(ms) if ms != delay_ms => {
                Err(format!("{name}: retry after {ms} ms was asked for, and {delay_ms} ms are waited"))
            }
            Retryability::AfterMs(_) => Ok(()),
            _ => {
                let mut base = policy.initial_ms as f64;
                for _ in 1..n {
                    base = (base * policy.multiplier).min(1e18);
                }
                let base = base.min(policy.max_ms as f64);
                let low = base * (1.0 - policy.jitter);
                let delay = delay_ms as f64;
                if delay + 1.0 < low || delay > base || delay_ms == 0 && base >= 1.0 {
                    return Err(format!("{name}: after failure {n} {delay_ms} ms are waited, not {low} to {base}"));
                }
                Ok(())
            }
        }
    }

    /// A request is recorded before it leaves.
    ///
    /// # Errors
    /// What does not hold.
    pub fn dispatched(&mut self, d: &Dispatched, at_ms: u64) -> Result<(), String> {
        let name = self.name();
        if self.open.is_none_or(|(open, _)| open != d.n) {
            return Err(format!("{name}: a request of attempt {}, which is not open", d.n));
        }
        let known = self.effects.get(d.effect as usize - 1);
        let keyed = self.begun.effect == EffectClass::Keyed;
        let others = || self.effects.iter().zip(1..).filter(|(_, k)| *k != d.effect).map(|(effect, _)| effect);
        let settled_unknown = |effect: &&Effect| !effect.in_flight && effect.known == Known::Unknown;
        let held = |effect: &&Effect| settled_unknown(effect) && !effect.released;
        if self.begun.effect == EffectClass::Once && self.effects.iter().find(held).is_some() {
            return Err(format!("{name}: class `once` sends after an outcome that is unknown"));
        }
        if let Some(effect) = known {
            if effect.key != d.key || effect.what != d.what || effect.in_flight {
                return Err(format!("{name}: effect {} is not repeated as it was", d.effect));
            }
            if keyed && effect.known != Known::NotDone && !effect.deduplicated && !effect.released {
                return Err(format!(
                    "{name}: effect {} is repeated, and nobody has said that its key is known",
                    d.effect
                ));
            }
            let lives = at_ms < effect.first_ms.saturating_add(effect.ttl_ms.min(self.begun.key_ttl_ms));
            if keyed && effect.known != Known::NotDone && !lives {
                return Err(format!("{name}: effect {} is repeated under a key that has died", d.effect));
            }
        } else {
            if d.effect as usize != self.effects.len() + 1 {
                return Err(format!("{name}: effect {} follows effect {}", d.effect, self.effects.len()));
            }
            if let Some(effect) = others().find(|effect| settled_unknown(effect) && effect.what == d.what) {
                return Err(format!(
                    "{name}: key {:?} takes the place of {:?}, under which the same may have happened",
                    d.key, effect.key
                ));
            }
        }
        let used = |effect: &&Effect| effect.in_flight || effect.known != Known::NotDone;
        if d.key.is_some()
            && others().find(|effect| used(effect) && effect.key == d.key && effect.what != d.what).is_some()
        {
            return Err(format!("{name}: key {:?} is used for two requests", d.key));
        }
        let first_ms = known.map_or(at_ms, |effect| effect.first_ms);
        let outcome = known.map_or(Known::NotDone, |effect| effect.known);
        let effect = Effect {
            what: d.what.clone(),
            key: d.key.clone(),
            first_ms,
            renew_on: d.renew_on.clone(),
            known: outcome,
            in_flight: true,
            to_leave: Some(d.n),
            released: known.is_some_and(|effect| effect.released),
            deduplicated: keyed && known.is_none_or(|effect| effect.deduplicated),
            ttl_ms: known.map_or(u64::MAX, |effect| effect.ttl_ms).min(self.begun.key_ttl_ms),
        };
        let at = d.effect as usize - 1;
        if at < self.effects.len() {
            self.effects[at] = effect;
        } else {
            self.effects.push(effect);
        }
        Ok(())
    }

    /// A recorded request leaves.
    ///
    /// # Errors
    /// If it was not recorded, has left before, or leaves under a key that has died.
    pub fn left(&mut self, n: u32, key: Option<&str>, method: &str, url: &str, now_ms: u64) -> Result<(), String> {
        let name = self.name();
        let keyed = self.begun.effect == EffectClass::Keyed;
        let this = |e: &&mut Effect| {
            e.to_leave == Some(n) && e.key.as_deref() == key && e.what.method == method && e.what.url == url
        };
        match self.effects.iter_mut().find(this) {
            Some(effect)
                if keyed
                    && effect.known != Known::NotDone
                    && now_ms >= effect.first_ms.saturating_add(effect.ttl_ms) =>
            {
                Err(format!("{name}: {method} {url} leaves under a key that has died"))
            }
            Some(effect) => {
                effect.to_leave = None;
                Ok(())
            }
            None => Err(format!("{name}: {method} {url} leaves before its dispatch is durable")),
        }
    }

    /// A request is over.
    ///
    /// # Errors
    /// If it was not under way.
    pub fn settled(&mut self, effect: u32, evidence: &Evidence) -> Result<(), String> {
        let name = self.name();
        let found = self.effects.get_mut(effect as usize - 1).filter(|effect| effect.in_flight);
        let Some(effect) = found else { return Err(format!("{name}: effect {effect} settles and was not under way")) };
        effect.in_flight = false;
        effect.to_leave = None;
        effect.released = false;
        self.still_at_it = effect.known == Known::Unknown && matches!(evidence, Evidence::Answered(409 | 425));
        effect.known = match (effect.known, table(evidence, &effect.renew_on)) {
            (_, Known::Done) | (Known::Done, _) => Known::Done,
            (Known::Unknown, _) | (_, Known::Unknown) => Known::Unknown,
            _ => Known::NotDone,
        };
        Ok(())
    }

    /// The workflow has lost interest in it: what may have happened stays for a person to look at.
    pub fn given_up(&mut self) {
        let unknown = self.effects.iter().any(|effect| !effect.in_flight && effect.known == Known::Unknown);
        if self.can_start() && self.begun.effect != EffectClass::Repeatable && unknown {
            self.unknown = true;
            self.abandoned = true;
        }
    }

    /// The database was restored from a copy of which this step was a part.
    pub fn restored(&mut self, open: bool) {
        self.cleared = false;
        self.doubt(open);
    }

    /// It may have been attempted after a copy: it was a part of it, or it begins in a run that was. Also where it was unknown in the
    /// copy: somebody may have had it attempted again since. `open`: its workflow waits for it.
    pub fn doubt(&mut self, open: bool) {
        let goes_on = open && self.can_start() || self.open.is_some();
        if self.begun.effect != EffectClass::Repeatable && (goes_on || self.unknown) {
            self.own |= self.unknown && !self.doubted;
            self.doubted = true;
            self.unknown = self.open.is_none();
        }
    }

    /// A person has said that nothing followed the copy.
    pub fn trust(&mut self) {
        let may_be = self.effects.iter().any(|effect| effect.known == Known::Unknown);
        if self.doubted && self.unknown {
            self.doubted = false;
            let once = self.begun.effect == EffectClass::Once;
            if !(self.own || once && may_be) {
                self.unknown = false;
                self.counted_from = self.tried;
            }
        }
    }

    /// A person has said what became of it.
    ///
    /// # Errors
    /// What does not hold.
    pub fn resolved(&mut self, resolution: &Resolution, at_ms: u64) -> Result<(), String> {
        let name = self.name();
        if !self.unknown {
            return Err(format!("{name}: it is resolved, and its outcome was not unknown"));
        }
        self.unknown = false;
        self.abandoned = false;
        (self.doubted, self.own) = (false, false);
        // Of one that was given up nobody has said what happened.
        self.cleared = !matches!(resolution, Resolution::Failed(error) if error.outcome_unknown);
        let ttl_ms = self.begun.key_ttl_ms;
        let dies_ms = |effects: &[Effect], key: &Option<String>| {
            let used = effects.iter().filter(|e| e.key == *key && e.known != Known::NotDone);
            used.map(|e| e.first_ms.saturating_add(e.ttl_ms.min(ttl_ms))).min().unwrap_or(0)
        };
        match resolution {
            Resolution::Succeeded(value) => self.over = Some(Ok(value.clone())),
            Resolution::Failed(error) => self.over = Some(Err(error.clone())),
            Resolution::Retry { renewed } => {
                self.counted_from = self.tried;
                self.due_ms = 0;
                self.alone = false;
                for k in renewed {
                    let Some(effect) = self.effects.get(*k as usize - 1) else {
                        return Err(format!("{name}: it has no effect {k}"));
                    };
                    let lives = at_ms < dies_ms(&self.effects, &effect.key);
                    if effect.key.is_none() || lives {
                        return Err(format!("{name}: the key of effect {k} is renewed, and it lives"));
                    }
                }
            }
        }
        for (effect, k) in self.effects.iter_mut().zip(1..).filter(|(effect, _)| effect.known == Known::Unknown) {
            match resolution {
                Resolution::Succeeded(_) => effect.known = Known::Done,
                // It was given up; nobody has said that it did not happen.
                Resolution::Failed(error) if error.outcome_unknown => {}
                Resolution::Failed(_) => effect.known = Known::NotDone,
                Resolution::Retry { renewed } if renewed.contains(&k) => effect.known = Known::NotDone,
                Resolution::Retry { .. } => effect.released = true,
            }
        }
        Ok(())
    }
}
