//! What is to be done with an unsafe request, from what is recorded of its step: send it, under which key, answer it from the
//! record, or refuse it. A pure function; the rules are in `docs/effects.md`.

use std::collections::BTreeSet;

use super::state::{Effect, Step};
use crate::contract::EffectClass;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::journal::entry::Asked;
use crate::policy::effect::{self, Outcome};

/// What is done with a request.
#[derive(Debug, PartialEq)]
pub(super) enum Plan {
    /// Send it again under the key of this effect.
    Again(u32),
    /// Send it as a new effect.
    New,
    /// Answer it from the record of this effect.
    Recorded(u32),
    /// Send nothing. `unknown`: the step cannot go on by itself.
    Refuse { error: Error, unknown: bool },
}

/// Whether two requests without a common key mean the same to a person: the same label, or the same method and URL.
fn alike(a: &Asked, b: &Asked) -> bool {
    match (&a.label, &b.label) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.method == b.method && a.url == b.url,
        _ => false,
    }
}

/// Decides. `claimed` holds the effects that this attempt has done or was answered for, `heard` those whose answers its body was
/// told; `key` is the key that a new effect would carry.
pub(super) fn plan(
    step: &Step,
    (claimed, heard): (&BTreeSet<u32>, &BTreeSet<u32>),
    asked: &Asked,
    key: Option<&str>,
    now_ms: u64,
) -> Plan {
    let class = step.begun.effect;
    let effects = || (1..).zip(&step.effects).filter(|(_, effect)| !effect.in_flight);
    let once = class == EffectClass::Once && !planted(Fault::ResendOnce);

    if once && step.has_unreleased() {
        return refuse_unknown(
            "an earlier request of this step may have happened, and its class `once` forbids another",
        );
    }
    // A body that has given up on an answer, and asks again: while the first request is under way nobody knows what it has done.
    let under_way = |e: &&Effect| e.in_flight && e.what == *asked;
    if class != EffectClass::Repeatable
        && !planted(Fault::RepeatUnderWay)
        && let Some(effect) = step.effects.iter().find(under_way)
    {
        return refuse_under_way(effect);
    }
    if class != EffectClass::Repeatable && !planted(Fault::IgnoreRecordedAnswer) {
        // A body that asks again before it is told has given up on the answer: it is answered from the record too.
        let same = effects().find(|(k, e)| e.outcome == Outcome::Done && e.what == *asked && !heard.contains(k));
        if let Some((k, effect)) = same {
            return match &effect.done {
                Some((_, Some(_))) => Plan::Recorded(k),
                _ if once => {
                    refuse_unknown("this request was done before, but its answer was too large to be recorded")
                }
                _ => again(step, k, now_ms),
            };
        }
    }
    // A request that is known not to have happened is no other request than it was.
    let known = effects().any(|(_, e)| e.outcome == Outcome::NotDone && e.what == *asked);

    if !planted(Fault::RenewUnknownKey) {
        let unknown = || effects().filter(|(_, e)| e.outcome == Outcome::Unknown && alike(&e.what, asked));
        if let Some((k, _)) = unknown().find(|(_, e)| e.what == *asked) {
            return again(step, k, now_ms);
        }
        if !known && let Some((_, effect)) = unknown().find(|(_, e)| e.key.is_some()) {
            return refuse_reuse(effect, "may have happened");
        }
    }
    if class != EffectClass::Repeatable && !known {
        let done = || effects().filter(|(k, e)| e.outcome == Outcome::Done && !claimed.contains(k));
        if once && done().next().is_some() {
            return refuse_unknown(
                "an earlier attempt did another request than this one, which this attempt has not repeated",
            );
        }
        if let Some((_, effect)) = done().find(|(_, e)| e.key.is_some() && alike(&e.what, asked)) {
            return refuse_reuse(effect, "was done");
        }
    }
    // Keys that the caller chose may meet again: another request under one that may have been used is refused too.
    let used = |e: &Effect| (e.in_flight || e.outcome != Outcome::NotDone) && e.key.as_deref() == key && key.is_some();
    if let Some(effect) = step.effects.iter().find(|e| used(e) && e.what != *asked) {
        return refuse_reuse(effect, "was sent");
    }
    Plan::New
}

/// The same request under the kept key, while the other side still knows it.
fn again(step: &Step, k: u32, now_ms: u64) -> Plan {
    // A run that was taken back may give the id to a step of another class.
    let of_another = |e: &Effect| step.begun.effect == EffectClass::Keyed && !e.deduplicated && !e.released;
    if step.effects.get(k as usize - 1).is_some_and(of_another) && !planted(Fault::TrustOtherClass) {
        return refuse_unknown(
            "it was sent when its step was not of class `keyed`, and nobody has said that the other side knows its key",
        );
    }
    let dead = step.key_dies_ms(k).is_some_and(|dies_ms| now_ms >= dies_ms);
    if dead && !planted(Fault::DeadKey) {
        return Plan::Refuse { error: effect::dead_key(), unknown: true };
    }
    Plan::Again(k)
}

fn refuse_unknown(why: &str) -> Plan {
    Plan::Refuse { error: effect::not_sent(why), unknown: true }
}

/// The attempt fails by this, and the next one is answered from the record, or repeats the request under its key.
fn refuse_under_way(effect: &Effect) -> Plan {
    let text = format!(
        "the request was not sent: the same {} {} of this attempt is still under way. Await its answer; if two of the same are \
         meant, await one after the other, or give them different labels",
        effect.what.method, effect.what.url
    );
    Plan::Refuse { error: Error::new(Code::OutcomeUnknown, text), unknown: false }
}

fn refuse_reuse(effect: &Effect, what: &str) -> Plan {
    let key = effect.key.as_deref().unwrap_or("");
    let text = format!(
        "the request was not sent: {} {} {what} under key {key:?}, and this request has another body, method or URL. Repeat it with the same bytes (take times \
         and random values from the workflow, not from the body), or give different requests different labels",
        effect.what.method, effect.what.url
    );
    Plan::Refuse { error: Error::new(Code::IdempotencyKeyReuse, text).never_retried(), unknown: false }
}
