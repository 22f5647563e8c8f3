//! `http-send` and `delay`: what a body does outside, and how it hears of it.
//!
//! A request with an unsafe method is an effect: its dispatch is recorded, and durable, before its first byte leaves, and what is
//! known of it is recorded when it is over. A safe one is only sent.

use super::attempt::{Open, Stage};
use super::machine::{Machine, Mode, Output, Told, UnderWay};
use super::plan::{Plan, plan};
use crate::contract::{Answer, AttemptRef, EffectClass, EffectKey, Evidence, Exchange, Operation, Request, Response};
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::Digest;
use crate::journal::entry::{Asked, Dispatched, Record, RecordedAnswer};
use crate::limits;
use crate::policy::effect::{Outcome, carries_key_by_default, is_safe_method, merged, outcome_of};
use crate::policy::key;

impl Machine {
    /// Whether a request may be sent now, before anything is known of what it asks for.
    ///
    /// # Errors
    /// Refused outside an open attempt.
    pub fn may_send(&mut self, attempt: AttemptRef) -> Result<(), Error> {
        let open = self.executing(attempt, Code::EffectOutsideStep)?.open.len();
        if open >= limits::MAX_OPEN_EXCHANGES {
            let text = format!("the attempt has {open} requests and delays open; await some of them first");
            return Err(Error::new(Code::TooManyOperations, text).never_retried());
        }
        Ok(())
    }

    /// `http-send`: a body sends a request. The host has checked its form, destination and secrets.
    ///
    /// # Errors
    /// Refused outside an open attempt, and where what is recorded of the step forbids it. Nothing is sent then.
    pub fn http_send(&mut self, attempt: AttemptRef, request: Request, now_ms: u64) -> Result<Exchange, Error> {
        self.may_send(attempt)?;
        let bytes = request.body.as_ref().map_or(0, Vec::len);
        if self.bytes_under_way.saturating_add(bytes) > limits::MAX_OPEN_REQUEST_BYTES {
            let (open, max) = (self.bytes_under_way, limits::MAX_OPEN_REQUEST_BYTES);
            let text = format!(
                "the run's open requests carry {open} bytes, and this one {bytes}; at most {max} are carried at once. Await \
                 some of them first"
            );
            return Err(Error::new(Code::TooManyOperations, text).never_retried());
        }
        let op = attempt.operation;
        if is_safe_method(&request.method) {
            let key = match &request.key {
                EffectKey::Effect | EffectKey::None => None,
                _ => self.chosen_key(attempt, &request)?,
            };
            let exchange = self.open_exchange(op, Open::Safe, bytes);
            self.outputs.push(Output::Send { exchange, attempt, request, key, not_after_ms: None });
            return Ok(exchange);
        }
        let key = self.chosen_key(attempt, &request)?;
        let asked = Asked {
            method: request.method.clone(),
            url: request.url.clone(),
            label: request.label.clone(),
            body: request.body.as_ref().map(|body| Digest::of(body)),
        };
        let (Some(step), Some(live)) = (self.state.step(op), self.live.get(&op)) else {
            return Err(Error::new(Code::EffectOutsideStep, "the attempt is not open").never_retried());
        };
        match plan(step, (&live.claimed, &live.heard), &asked, key.as_deref(), now_ms.max(self.state.at_ms)) {
            Plan::Recorded(k) => Ok(self.answer_from_record(op, k)),
            Plan::Again(k) => {
                let key = step.effects.get(k as usize - 1).and_then(|effect| effect.key.clone());
                Ok(self.dispatch(attempt, request, asked, k, key, now_ms))
            }
            Plan::New => {
                let k = step.effects.len() as u32 + 1;
                Ok(self.dispatch(attempt, request, asked, k, key, now_ms))
            }
            Plan::Refuse { error, unknown } => {
                if unknown && let Some(live) = self.live.get_mut(&op) {
                    live.refused = true;
                }
                Err(error)
            }
        }
    }

    /// `delay`: a timer for a body. Not journaled.
    ///
    /// # Errors
    /// Refused outside an open attempt, and beyond the longest sleep.
    pub fn delay(&mut self, attempt: AttemptRef, ms: u64, now_ms: u64) -> Result<Exchange, Error> {
        self.may_send(attempt)?;
        if ms > limits::MAX_SLEEP_MS {
            let text = format!("a delay of {ms} ms is too long");
            return Err(Error::new(Code::InvalidArgument, text).never_retried());
        }
        let due_ms = now_ms.saturating_add(ms);
        let exchange = self.open_exchange(attempt.operation, Open::Delay { due_ms }, 0);
        self.delays.insert((due_ms, exchange));
        Ok(exchange)
    }

    /// The key that the request would carry as a new effect.
    fn chosen_key(&self, attempt: AttemptRef, request: &Request) -> Result<Option<String>, Error> {
        let invalid = |text: &str| Err(Error::new(Code::InvalidRequest, text).never_retried());
        let Some(step) = self.state.step(attempt.operation) else { return Ok(None) };
        let (run, id) = (self.run_id(), &step.begun.step);
        let keyed = step.begun.effect == EffectClass::Keyed;
        Ok(match &request.key {
            EffectKey::Effect if keyed || carries_key_by_default(&request.method) => {
                Some(key::effect_key(run, id, self.epoch_in_keys(), step.keys() + 1))
            }
            EffectKey::Effect => None,
            EffectKey::Attempt => Some(key::idempotency_key(run, id, self.epoch_in_keys(), attempt.number)),
            EffectKey::Operation => Some(self.operation_key(step)),
            EffectKey::None if keyed => {
                return invalid("a step whose effect is `keyed` cannot send a request with key `none`");
            }
            EffectKey::None => None,
            EffectKey::Custom(text) if key::is_valid_custom(text) => Some(text.clone()),
            EffectKey::Custom(_) => {
                return invalid(
                    "an idempotency key has 1 to 255 printable ASCII characters, the first and last no blank",
                );
            }
        })
    }

    fn dispatch(
        &mut self,
        attempt: AttemptRef,
        request: Request,
        what: Asked,
        effect: u32,
        key: Option<String>,
        now_ms: u64,
    ) -> Exchange {
        let op = attempt.operation;
        let bytes = request.body.as_ref().map_or(0, Vec::len);
        let exchange = self.open_exchange(op, Open::Unsafe(effect), bytes);
        let renew_on = request.renew_on.clone();
        let dies_ms = self.state.step(op).and_then(|step| step.key_dies_ms(effect));
        let not_after_ms = dies_ms.filter(|_| !planted(Fault::DeadKeyAtSend));
        let send = Output::Send { exchange, attempt, request, key: key.clone(), not_after_ms };
        let dispatched = Record::Dispatched(Dispatched { op, n: attempt.number, effect, key, what, renew_on });
        if planted(Fault::SendBeforeRecord) {
            self.outputs.push(send);
            self.record(now_ms, dispatched);
        } else {
            self.record(now_ms, dispatched);
            self.outputs.push(send);
        }
        exchange
    }

    fn answer_from_record(&mut self, op: Operation, effect: u32) -> Exchange {
        let exchange = self.next_exchange;
        self.next_exchange += 1;
        let done =
            self.state.step(op).and_then(|step| step.effects.get(effect as usize - 1)).and_then(|e| e.done.clone());
        if let Some(live) = self.live.get_mut(&op) {
            live.claimed.insert(effect);
            live.heard.insert(effect);
        }
        let (status, answer) = done.unwrap_or((200, None));
        let (headers, body) = answer.map(|answer| (answer.headers, answer.body)).unwrap_or_default();
        let answer = Ok(Answer::Response(Response { status, headers, body, recorded: true }));
        self.told.push_back(Told::Answered { op, exchange, effect: Some(effect), answer });
        exchange
    }

    /// An exchange is over, or nobody asks any more. Whose it was; `None` where that was known already.
    pub(super) fn exchange_over(&mut self, exchange: Exchange) -> Option<Operation> {
        let UnderWay { op, bytes } = self.exchanges.remove(&exchange)?;
        self.bytes_under_way -= bytes;
        Some(op)
    }

    fn open_exchange(&mut self, op: Operation, open: Open, bytes: usize) -> Exchange {
        let exchange = self.next_exchange;
        self.next_exchange += 1;
        if let Some(live) = self.live.get_mut(&op) {
            live.open.insert(exchange, open);
            self.exchanges.insert(exchange, UnderWay { op, bytes });
            self.bytes_under_way += bytes;
        }
        exchange
    }

    /// A request is over.
    pub(super) fn settled(
        &mut self,
        exchange: Exchange,
        evidence: &Evidence,
        answer: Result<Response, Error>,
        now_ms: u64,
        random: u64,
    ) {
        // Unknown here is a safe request that was given up: nobody asks any more.
        let Some(op) = self.exchange_over(exchange) else { return };
        let Some(open) = self.live.get_mut(&op).and_then(|live| live.open.remove(&exchange)) else { return };
        let effect = match open {
            Open::Unsafe(effect) => {
                self.effect_settled(op, effect, evidence, &answer, now_ms);
                Some(effect)
            }
            Open::Safe | Open::Delay { .. } => None,
        };
        let Some(live) = self.live.get_mut(&op) else { return };
        if matches!(live.stage, Stage::Executing) {
            let answer = answer.map(Answer::Response);
            self.told.push_back(Told::Answered { op, exchange, effect, answer });
        } else {
            self.end_if_settled(op, now_ms, random);
        }
    }

    fn effect_settled(
        &mut self,
        op: Operation,
        effect: u32,
        evidence: &Evidence,
        answer: &Result<Response, Error>,
        now_ms: u64,
    ) {
        let Some(step) = self.state.step(op) else { return };
        let Some(known) = step.effects.get(effect as usize - 1) else { return };
        let sent = outcome_of(evidence, &known.renew_on);
        let after = merged(known.outcome, sent);
        let was_unknown = known.outcome == Outcome::Unknown;
        let kept = match answer {
            Ok(response) if sent == Outcome::Done && step.begun.effect != EffectClass::Repeatable => kept(response),
            _ => None,
        };
        if self.mode == Mode::Continue && self.state.ended.is_none() {
            self.record(now_ms, Record::Settled { op, effect, evidence: evidence.clone(), answer: kept });
        }
        let Some(live) = self.live.get_mut(&op) else { return };
        // Only what was answered is this attempt's: a body that heard nothing repeats it, and must come to the same effect again.
        if sent == Outcome::Done {
            live.claimed.insert(effect);
        }
        // The host refused to send under a key that had died since the body asked.
        live.refused |= answer.as_ref().is_err_and(|error| error.is(Code::OutcomeUnknown));
        live.untold |= after == Outcome::Unknown && !matches!(live.stage, Stage::Executing);
        live.still_at_it = was_unknown && matches!(evidence, Evidence::Answered(409 | 425));
    }
}

fn kept(response: &Response) -> Option<RecordedAnswer> {
    let headers: usize = response.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    (headers + response.body.len() <= limits::MAX_RECORDED_ANSWER_BYTES)
        .then(|| RecordedAnswer { headers: response.headers.clone(), body: response.body.clone() })
}
