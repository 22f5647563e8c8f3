//! The other side: it takes requests, does what they ask for or not, and answers the truth, late, twice, or not at all.
//!
//! What it did is recorded here and known to nobody else. For steps of class `keyed` it deduplicates by key, while a key lives.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::SmallRng;
use stepwell_core::contract::{AttemptRef, EffectClass, Evidence, Exchange, Response};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::StepId;
use stepwell_core::limits::BODY_TURN_BUDGET_MS;
use stepwell_core::policy::effect::is_safe_method;

use crate::host::What;

/// How much longer than it says the other side knows a key: a request may be under way for as long, and leaves only when the turn
/// that sent it is over.
const KEY_SLACK_MS: u64 = BODY_TURN_BUDGET_MS + 50;

/// The other side.
#[derive(Debug)]
pub struct World {
    rng: SmallRng,
    trouble: f64,
    agenda: BTreeMap<(u64, u64), Happening>,
    happenings: u64,
    /// Every request that left.
    pub sends: Vec<Sent>,
    keys: BTreeMap<String, Key>,
    /// Whether it has stopped making difficulties.
    pub benign: bool,
    /// Requests that came under a key of another request.
    pub conflicts: Vec<String>,
}

/// A request that left.
#[derive(Debug)]
pub struct Sent {
    /// The life of the host process in which it left.
    pub epoch: u32,
    /// By which the machine knows it.
    pub exchange: Exchange,
    /// Whose it is.
    pub attempt: AttemptRef,
    /// The step's id, which is the same in all that a run may have been.
    pub step: StepId,
    /// What it asks for.
    pub what: What,
    /// The step's class.
    pub class: EffectClass,
    /// Its key.
    pub key: Option<String>,
    /// How long the other side says that it knows keys, in ms.
    pub key_ttl_ms: u64,
    /// Statuses on which nothing is done.
    pub renew_on: Vec<u16>,
    /// When it left, in ms since the Unix epoch.
    pub at_ms: u64,
    /// Whether it came.
    pub arrived: bool,
    /// How often what it asks for was done because of it.
    pub done: u32,
    /// What became of it on the wire.
    pub evidence: Option<Evidence>,
    gone: bool,
    /// It left for a step that the run has not any more: the run is a rerun from before that.
    pub former: bool,
}

#[derive(Debug)]
struct Key {
    what: What,
    done: bool,
    until_ms: u64,
}

#[derive(Debug, Clone)]
enum Happening {
    Arrive(usize),
    Do(usize),
    Answer(usize, Evidence, bool),
}

/// The end of a request, as the host learns it.
#[derive(Debug)]
pub struct Settlement {
    /// The life of the host process that asked.
    pub epoch: u32,
    /// Its request.
    pub exchange: Exchange,
    /// How far it got.
    pub evidence: Evidence,
    /// What the body is told.
    pub answer: Result<Response, Error>,
}

impl Sent {
    /// A request that is about to leave: by what the machine knows it, whose it is (attempt and step), what it asks for, the step's class, its key and
    /// how long that lives (in ms), statuses on which nothing is done, and the time (in ms since the Unix epoch).
    #[must_use]
    pub fn new(
        (epoch, exchange): (u32, Exchange),
        (attempt, step): (AttemptRef, StepId),
        what: What,
        (class, key, key_ttl_ms): (EffectClass, Option<String>, u64),
        renew_on: Vec<u16>,
        at_ms: u64,
    ) -> Self {
        Self {
            epoch,
            exchange,
            attempt,
            step,
            what,
            class,
            key,
            key_ttl_ms,
            renew_on,
            at_ms,
            arrived: false,
            done: 0,
            evidence: None,
            gone: false,
            former: false,
        }
    }
}

impl World {
    /// One that is about to make difficulties, for that share of the requests.
    #[must_use]
    pub fn new(rng: SmallRng, trouble: f64) -> Self {
        Self {
            rng,
            trouble,
            agenda: BTreeMap::new(),
            happenings: 0,
            sends: Vec::new(),
            keys: BTreeMap::new(),
            benign: false,
            conflicts: Vec::new(),
        }
    }

    /// When something happens next, in ms since the Unix epoch.
    #[must_use]
    pub fn next_ms(&self) -> Option<u64> {
        self.agenda.first_key_value().map(|(&(at, _), _)| at)
    }

    fn at(&mut self, at_ms: u64, happening: Happening) {
        self.happenings += 1;
        self.agenda.insert((at_ms, self.happenings), happening);
    }

    /// The run is rerun from where it has these steps alone.
    pub fn forget_others(&mut self, stays: &BTreeSet<StepId>) {
        self.sends.iter_mut().filter(|sent| !stays.contains(&sent.step)).for_each(|sent| sent.former = true);
    }

    /// A request leaves.
    pub fn send(&mut self, sent: Sent, timeout_ms: Option<u64>) {
        let (id, now_ms) = (self.sends.len(), sent.at_ms);
        self.sends.push(sent);
        let arrives = now_ms + self.rng.random_range(0..20);
        if !self.benign && self.rng.random_bool(0.06) {
            self.at(arrives, Happening::Answer(id, Evidence::NotSent, false));
        } else {
            self.at(arrives, Happening::Arrive(id));
        }
        if let Some(ms) = timeout_ms {
            self.at(now_ms + ms, Happening::Answer(id, Evidence::Sent, true));
        }
    }

    /// The host tears a request down. What is known of it comes as its settlement.
    pub fn abort(&mut self, epoch: u32, exchange: Exchange, now_ms: u64) {
        let Some(id) = self.sends.iter().position(|s| s.epoch == epoch && s.exchange == exchange && !s.gone) else {
            return;
        };
        let at_ms = now_ms + self.rng.random_range(0..5);
        if !self.sends[id].arrived && self.rng.random_bool(0.5) {
            self.agenda.retain(|_, happening| !matches!(happening, Happening::Arrive(of) if *of == id));
            self.at(at_ms, Happening::Answer(id, Evidence::NotSent, false));
        } else {
            self.at(at_ms, Happening::Answer(id, Evidence::Sent, false));
        }
    }

    /// What happens until that time; the settlements among it.
    pub fn advance(&mut self, now_ms: u64) -> Vec<Settlement> {
        let mut settled = Vec::new();
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now_ms) {
            let ((at_ms, _), happening) = entry.remove_entry();
            match happening {
                Happening::Arrive(id) => self.arrive(id, at_ms),
                Happening::Do(id) => self.carry_out(id),
                Happening::Answer(id, evidence, by_clock) => settled.extend(self.answer(id, evidence, by_clock)),
            }
        }
        settled
    }

    fn arrive(&mut self, id: usize, now_ms: u64) {
        self.sends[id].arrived = true;
        let sent = &self.sends[id];
        if sent.class == EffectClass::Keyed
            && !is_safe_method(&sent.what.method)
            && let Some(key) = sent.key.clone()
        {
            let ttl = sent.key_ttl_ms.saturating_add(KEY_SLACK_MS);
            match self.keys.get(&key).filter(|known| now_ms < known.until_ms) {
                Some(known) if known.what != sent.what => {
                    self.conflicts.push(format!("key {key:?} was sent for {:?} and for {:?}", known.what, sent.what));
                    return self.reply(id, now_ms, 422);
                }
                Some(known) if !known.done => return self.reply(id, now_ms, 409),
                Some(_) => return self.repeat(id, now_ms),
                None => {}
            }
            let known = Key { what: sent.what.clone(), done: false, until_ms: now_ms.saturating_add(ttl) };
            let (does, answer) = self.scenario(id);
            if does {
                self.keys.insert(key, known);
            }
            self.play(id, now_ms, does, answer);
            return;
        }
        let (does, answer) = self.scenario(id);
        self.play(id, now_ms, does, answer);
    }

    /// What is done was done before: the stored answer, if it comes through.
    fn repeat(&mut self, id: usize, now_ms: u64) {
        let status = match self.rng.random_range(0..100) {
            _ if self.benign => 201,
            0..60 => 201,
            60..68 => 503,
            68..74 => 400,
            74..80 => 429,
            80..86 => 409,
            86..92 => 504,
            _ => {
                self.at(now_ms + 5, Happening::Answer(id, Evidence::Sent, false));
                return;
            }
        };
        self.reply(id, now_ms, status);
    }

    fn reply(&mut self, id: usize, now_ms: u64, status: u16) {
        let at_ms = now_ms + self.rng.random_range(0..30);
        self.at(at_ms, Happening::Answer(id, Evidence::Answered(status), false));
        if !self.benign && self.rng.random_bool(0.04) {
            let again = at_ms + self.rng.random_range(0..30);
            self.at(again, Happening::Answer(id, Evidence::Answered(status), false));
        }
    }

    /// Whether it is done, and the answer; no answer where the connection breaks, none at all where it only hangs.
    fn scenario(&mut self, id: usize) -> (bool, Option<Option<u16>>) {
        if self.benign || !self.rng.random_bool(self.trouble) {
            return (true, Some(Some(201)));
        }
        let renews_on_500 = self.sends[id].renew_on.contains(&500);
        let coin = self.rng.random_bool(0.5);
        match self.rng.random_range(0..100) {
            0..46 => (true, Some(Some(201))),
            46..50 => (true, Some(Some(303))),
            50..62 => (coin, Some(Some(504))),
            62..68 => (coin, Some(None)),
            68..73 => (coin, None),
            73..77 => (coin && !renews_on_500, Some(Some(500))),
            77..80 => (coin, Some(Some(408))),
            80..83 => (coin, Some(Some(409))),
            83..85 => (coin, Some(Some(425))),
            85..90 => (false, Some(Some(503))),
            90..93 => (false, Some(Some(429))),
            93..96 => (false, Some(Some(400))),
            96..98 => (false, Some(Some(404))),
            _ => (false, Some(Some(307))),
        }
    }

    fn play(&mut self, id: usize, now_ms: u64, does: bool, answer: Option<Option<u16>>) {
        let slow = self.rng.random_bool(0.3) && !self.benign;
        // What succeeds has been done before it is answered; what is unknown may be done long after.
        let certain = matches!(answer, Some(Some(200..=399)));
        let done_after = if slow && !certain { self.rng.random_range(0..3_000) } else { 0 };
        if does && done_after == 0 {
            self.carry_out(id);
        } else if does {
            self.at(now_ms + done_after, Happening::Do(id));
        }
        match answer {
            Some(Some(status)) => self.reply(id, now_ms, status),
            Some(None) => {
                let at_ms = now_ms + self.rng.random_range(0..30);
                self.at(at_ms, Happening::Answer(id, Evidence::Sent, false));
            }
            None => {}
        }
    }

    fn carry_out(&mut self, id: usize) {
        let sent = &mut self.sends[id];
        sent.done += 1;
        if !is_safe_method(&sent.what.method)
            && let Some(key) = sent.key.as_ref().and_then(|key| self.keys.get_mut(key))
        {
            key.done = true;
        }
    }

    fn answer(&mut self, id: usize, evidence: Evidence, by_clock: bool) -> Option<Settlement> {
        let sent = &mut self.sends[id];
        // A second answer goes through as it is: the machine has to bear it. Time-outs and breaks come once.
        if sent.gone && !matches!(evidence, Evidence::Answered(_)) {
            return None;
        }
        if !sent.gone {
            sent.gone = true;
            sent.evidence = Some(evidence.clone());
        }
        let answer = match evidence {
            Evidence::Answered(status) => Ok(response(status, &mut self.rng)),
            Evidence::NotSent => Err(Error::new(Code::ConnectFailed, "connection refused")),
            Evidence::Sent if by_clock => Err(Error::new(Code::RequestTimeout, "no answer in time")),
            Evidence::Sent => Err(Error::new(Code::RequestFailed, "the connection broke")),
        };
        Some(Settlement { epoch: sent.epoch, exchange: sent.exchange, evidence, answer })
    }
}

fn response(status: u16, rng: &mut SmallRng) -> Response {
    let mut headers = vec![("content-type".to_owned(), "text/plain".to_owned())];
    if matches!(status, 429 | 503) && rng.random_bool(0.5) {
        headers.push(("retry-after".to_owned(), rng.random_range(0..20u64).to_string()));
    }
    // Now and then more than can be recorded.
    let large = status == 201 && rng.random_bool(0.004);
    let body = if large { vec![b'x'; 300 << 10] } else { format!("answer {status}").into_bytes() };
    Response { status, headers, body, recorded: false }
}
