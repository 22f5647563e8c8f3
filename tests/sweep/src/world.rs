//! A service that deduplicates by `Idempotency-Key`, and behaves badly as its seed says.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng as _, SeedableRng as _};

use crate::wire::{self, Message};

/// What was done under a key, or without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// The key.
    pub key: Option<String>,
    /// Method, path and body.
    pub what: (String, String, Vec<u8>),
}

/// The service.
pub struct World {
    state: Mutex<State>,
    /// Takes its time for each request.
    slow: bool,
}

struct State {
    random: SmallRng,
    /// The share of requests that go wrong.
    trouble: f64,
    /// Requests with these paths are deduplicated; others are done each time.
    known: BTreeMap<String, (String, String, Vec<u8>)>,
    done: Vec<Done>,
    conflicts: Vec<String>,
}

impl World {
    /// With so much trouble, from 0 to 1.
    #[must_use]
    pub fn new(seed: u64, trouble: f64) -> Self {
        let state = State {
            random: SmallRng::seed_from_u64(seed),
            trouble,
            known: BTreeMap::new(),
            done: Vec::new(),
            conflicts: Vec::new(),
        };
        Self { state: Mutex::new(state), slow: false }
    }

    /// The same; it takes its time, so that requests are under way whenever somebody looks.
    #[must_use]
    pub fn slow(self) -> Self {
        Self { slow: true, ..self }
    }

    /// What was done, in order; what a known key asked for again is not among it.
    #[must_use]
    pub fn done(&self) -> Vec<Done> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).done.clone()
    }

    /// Keys that were used for two different requests.
    #[must_use]
    pub fn conflicts(&self) -> Vec<String> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).conflicts.clone()
    }

    /// None where the connection closes without an answer.
    pub async fn answer(&self, request: &Message) -> Option<Vec<u8>> {
        let (status, answered) = self.decide(request);
        if self.slow {
            let ms = self.state.lock().unwrap_or_else(PoisonError::into_inner).random.random_range(0..40);
            tokio::time::sleep(Duration::from_millis(ms)).await;
        }
        let retry = if status == 429 { "retry-after: 0\r\n" } else { "" };
        answered.then(|| wire::answer(status, retry, &format!("{{\"status\":{status}}}")))
    }

    /// The status, and whether it is told.
    fn decide(&self, request: &Message) -> (u16, bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (method, path) = request.asks();
        let what = (method.to_owned(), path.to_owned(), request.body.clone());
        let key = request.header("idempotency-key").map(str::to_owned);
        if matches!(method, "GET" | "HEAD") {
            return (200, true);
        }
        if let Some(key) = &key
            && let Some(known) = state.known.get(key)
        {
            if *known == what {
                return (201, true);
            }
            let text = format!("key {key} was used for {known:?} and for {what:?}");
            state.conflicts.push(text);
            return (422, true);
        }
        // Asked for a path with this for the first time, it does what it is asked and nobody hears of it.
        if path.contains("/lost") {
            if let Some(key) = &key {
                state.known.insert(key.clone(), what.clone());
            }
            let first = state.done.iter().all(|done| done.what != what);
            state.done.push(Done { key, what });
            return (201, !first);
        }
        let trouble = state.trouble;
        let (does, status, answered) = if state.random.random_bool(trouble) {
            match state.random.random_range(0..8) {
                0 => (false, 503, true),
                1 => (false, 429, true),
                2 => (true, 504, true),
                3 => (false, 504, true),
                4 | 5 => (true, 201, false),
                6 => (false, 201, false),
                _ => (false, 500, true),
            }
        } else {
            (true, 201, true)
        };
        if does {
            if let Some(key) = &key {
                state.known.insert(key.clone(), what.clone());
            }
            state.done.push(Done { key, what });
        }
        (status, answered)
    }
}
