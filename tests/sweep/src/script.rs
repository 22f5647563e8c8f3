//! A program of the simulator's generator as the input of a real guest: `script.ts` plays it.
//!
//! Times are made short, since here they pass. What only a scripted guest can do (a trap at will) is left out.

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use serde_json::{Value, json};
use stepwell_core::contract::EffectKey;
use stepwell_sim::program::{Act, Ask, Body, Call, End, Operation, OperationKind, Program, StepPlan, Stmt, Then};

use crate::subject::{ADDRESS, Subject};

/// The guest that plays scripts.
///
/// # Errors
/// When it cannot be built.
pub fn player() -> anyhow::Result<Subject> {
    Subject::of_source("script", include_str!("script.ts"), "null")
}

/// The program of a seed, played by that guest.
///
/// # Errors
/// When the guest cannot be copied.
pub fn subject(player: &Subject, seed: u64) -> anyhow::Result<Subject> {
    let program = stepwell_sim::generate::program(&mut SmallRng::seed_from_u64(seed));
    let mut subject = player.with_input(&format!("program {seed}"), &script(&program).to_string())?;
    subject.events = program.events.iter().map(|(_, name)| ((*name).to_owned(), format!("\"{name}\""))).collect();
    let cancelled = program.asks.iter().find(|(_, ask)| matches!(ask, Ask::Cancel)).map(|(at_ms, _)| *at_ms);
    subject.run_timeout_ms = program.run_timeout_ms.or(cancelled).map(|ms| short(ms) + 50);
    Ok(subject)
}

/// How much trouble the other side makes of it.
#[must_use]
pub fn trouble(seed: u64) -> f64 {
    stepwell_sim::generate::program(&mut SmallRng::seed_from_u64(seed)).trouble.min(0.6)
}

/// Longer stays longer, within reason.
fn short(ms: u64) -> u64 {
    if ms < 10 { ms } else { (10 + ms / 60).min(120) }
}

/// An attempt has time enough for what it does, and a body that hangs is soon over.
fn deadline(ms: u64) -> u64 {
    60 + short(ms) * 2
}

fn script(program: &Program) -> Value {
    json!({ "url": ADDRESS, "main": code(&program.main), "cleanup": code(&program.cleanup) })
}

fn code(stmts: &[Stmt]) -> Value {
    stmts.iter().map(stmt).collect()
}

fn stmt(stmt: &Stmt) -> Value {
    match stmt {
        Stmt::Do(begin) => json!({ "kind": "do", "op": operation(begin) }),
        Stmt::Start(begin) => json!({ "kind": "start", "op": operation(begin) }),
        Stmt::Join(n) => json!({ "kind": "join", "n": n }),
        Stmt::All { branches, fail_fast } => {
            let branches: Vec<Value> = branches.iter().map(|branch| code(branch)).collect();
            json!({ "kind": "all", "branches": branches, "failFast": fail_fast })
        }
        Stmt::Race { contestants, close_all } => {
            let ops: Vec<Value> = contestants.iter().map(operation).collect();
            json!({ "kind": "race", "ops": ops, "closeAll": close_all })
        }
        Stmt::Abandon { operations, after_ms } => {
            let ops: Vec<Value> = operations.iter().map(operation).collect();
            json!({ "kind": "abandon", "ops": ops, "afterMs": after_ms.map(short) })
        }
        Stmt::Chance { even, odd } => json!({ "kind": "chance", "even": code(even), "odd": code(odd) }),
        Stmt::Measure(ms) => json!({ "kind": "measure", "ms": short(*ms) }),
        // Its other runs would have to be followed.
        Stmt::Continue | Stmt::Log | Stmt::Trap(_) => json!({ "kind": "log" }),
        Stmt::Forever => json!({ "kind": "forever" }),
        Stmt::Throw => json!({ "kind": "throw" }),
    }
}

fn operation(begin: &Operation) -> Value {
    let caught = begin.caught;
    match &begin.kind {
        OperationKind::Step(plan) => json!({ "kind": "step", "caught": caught, "step": step(plan) }),
        OperationKind::Send(name) => json!({ "kind": "send", "caught": caught, "name": format!("to itself: {name}") }),
        OperationKind::Child { detached, abandoned, takes_ms } => json!({
            "kind": "child", "caught": caught, "ms": short(*takes_ms),
            "options": { "detached": detached, "onParentClose": if *abandoned { "abandon" } else { "cancel" } },
        }),
        OperationKind::Sleep(ms) => json!({ "kind": "sleep", "caught": caught, "ms": short(*ms) }),
        OperationKind::Wait(name, timeout_ms) => {
            // What is never sent would be waited for without end.
            let timeout_ms = timeout_ms.map_or(100, short);
            json!({ "kind": "wait", "caught": caught, "name": name, "timeoutMs": timeout_ms })
        }
    }
}

fn step(plan: &StepPlan) -> Value {
    let mut retry = plan.retry;
    retry.initial_ms = retry.initial_ms.map(short);
    retry.max_ms = Some(retry.max_ms.map_or(120, short).max(1));
    json!({
        "name": plan.name,
        "options": {
            "retry": retry,
            "effect": plan.class,
            "timeoutMs": deadline(plan.timeout_ms),
            "keyTtlMs": plan.key_ttl_ms,
        },
        "bodies": plan.bodies.iter().map(body).collect::<Vec<_>>(),
    })
}

fn body(body: &Body) -> Value {
    let (end, after_ms) = match body.end {
        End::Return | End::ReturnTwice => ("return", 0),
        End::Fail | End::Trap => ("fail", 0),
        End::FailForGood => ("failForGood", 0),
        End::FailAfter(ms) => ("failAfter", short(ms)),
        End::Overrun => ("overrun", 0),
        End::Hang => ("hang", 0),
    };
    json!({ "acts": body.acts.iter().map(act).collect::<Vec<_>>(), "end": end, "afterMs": after_ms })
}

fn act(act: &Act) -> Value {
    match act {
        Act::Send(one) => json!({ "kind": "send", "call": call(one) }),
        Act::SendAll(many) => json!({ "kind": "sendAll", "calls": many.iter().map(call).collect::<Vec<_>>() }),
        Act::Fire(one) => json!({ "kind": "fire", "call": call(one) }),
        Act::SendOrDelay(one, ms) => json!({ "kind": "sendOrDelay", "call": call(one), "ms": short(*ms) }),
        Act::Delay(ms) => json!({ "kind": "delay", "ms": short(*ms).min(40) }),
        Act::GiveUpAndRepeat(one, ms) => {
            json!({ "kind": "giveUpAndRepeat", "call": call(one), "ms": short(*ms).min(40) })
        }
        Act::Token => json!({ "kind": "token" }),
        Act::Sibling(n) => json!({ "kind": "sibling", "n": n }),
        Act::Misuse => json!({ "kind": "misuse" }),
        Act::Log => json!({ "kind": "log" }),
        Act::Chance => json!({ "kind": "chance" }),
    }
}

fn call(call: &Call) -> Value {
    let (then, times) = match call.then {
        Then::Fail => ("fail", 0),
        Then::Ignore => ("ignore", 0),
        Then::Repeat(times) => ("repeat", times),
    };
    let key = match &call.key {
        EffectKey::Effect => json!("effect"),
        EffectKey::Attempt => json!("attempt"),
        EffectKey::Operation => json!("operation"),
        EffectKey::None => json!("none"),
        EffectKey::Custom(own) => json!({ "custom": own }),
    };
    json!({
        "method": call.method, "path": format!("/{}", call.url), "body": call.body, "drifting": call.drifting, "key": key,
        "label": call.label.map(|label| format!("label {label}")), "timeoutMs": call.timeout_ms.map(deadline),
        "renewOn": if call.renew_on_500 { vec![500] } else { Vec::new() }, "then": then, "times": times,
    })
}
