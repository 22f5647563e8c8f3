//! Makes programs from a seed: small ones, in which every feature of the contract meets every other now and then.

use std::rc::Rc;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use stepwell_core::contract::{EffectClass, EffectKey, RetryFields};

use crate::program::{Act, Ask, Body, Call, End, Operation, OperationKind, Program, StepPlan, Stmt, Then};

const EVENTS: [&str; 3] = ["paid", "shipped", "x"];
const STEPS: [&str; 5] = ["a", "b", "charge", "a#2", "支払い"];

/// A program.
pub fn program(rng: &mut SmallRng) -> Program {
    let size = rng.random_range(1..=10);
    let main = code(rng, size, 3);
    let cleanup = if rng.random_bool(0.4) { code(rng, 2, 0) } else { Vec::new() };
    let mut events: Vec<_> = (0..rng.random_range(0..6)).map(|_| (duration(rng), *pick(rng, &EVENTS))).collect();
    events.sort_unstable();
    let mut program = Program {
        main,
        cleanup,
        rescue: Vec::new(),
        run_timeout_ms: rng.random_bool(0.08).then(|| duration(rng) + 1),
        events,
        trouble: *pick(rng, &[0.05, 0.3, 1.0]),
        asks: asks(rng),
    };
    if rng.random_bool(0.2) {
        careless(&mut program.main);
        program.rescue = if rng.random_bool(0.6) { code(rng, 2, 1) } else { Vec::new() };
        if rng.random_bool(0.3) {
            program.rescue.push(of_two_classes(rng));
        }
    }
    program
}

/// The same step, of one class or another: taken up again, a run may come to it as the other.
fn of_two_classes(rng: &mut SmallRng) -> Stmt {
    let (one, like) = (step(rng), step(rng));
    let other = StepPlan { class: like.class, key_ttl_ms: like.key_ttl_ms, ..one.clone() };
    let [even, odd] =
        [one, other].map(|plan| vec![Stmt::Do(Operation { kind: OperationKind::Step(Rc::new(plan)), caught: true })]);
    Stmt::Chance { even, odd }
}

/// Nothing is caught any more: the first failure ends the run.
fn careless(stmts: &mut [Stmt]) {
    for stmt in stmts {
        match stmt {
            Stmt::Do(operation) | Stmt::Start(operation) => operation.caught = false,
            Stmt::All { branches, .. } => branches.iter_mut().for_each(|branch| careless(branch)),
            Stmt::Race { contestants: operations, .. } | Stmt::Abandon { operations, .. } => {
                operations.iter_mut().for_each(|operation| operation.caught = false);
            }
            Stmt::Chance { even, odd } => {
                careless(even);
                careless(odd);
            }
            _ => {}
        }
    }
}

/// Mostly nothing; else a few things in any order, each now and then twice.
fn asks(rng: &mut SmallRng) -> Vec<(u64, Ask)> {
    let mut asks = Vec::new();
    if rng.random_bool(0.15) {
        asks.push((duration(rng), Ask::Cancel));
    }
    if rng.random_bool(0.07) {
        asks.push((duration(rng), Ask::Terminate));
    }
    if rng.random_bool(0.2) {
        for _ in 0..rng.random_range(1..=2) {
            let at_ms = duration(rng);
            asks.push((at_ms, Ask::Pause));
            asks.push((at_ms + duration(rng), Ask::Resume));
        }
    }
    if rng.random_bool(0.3)
        && let Some(&(at_ms, ask)) = asks.choose(rng)
    {
        let later = *pick(rng, &[0, 1, 20, 500]);
        asks.push((at_ms + later, ask));
    }
    asks.sort_by_key(|(at_ms, _)| *at_ms);
    asks
}

/// A time of every size, in ms.
fn duration(rng: &mut SmallRng) -> u64 {
    match rng.random_range(0..6) {
        0 => 0,
        1 => rng.random_range(0..10),
        2 | 3 => rng.random_range(0..300),
        4 => rng.random_range(0..5_000),
        _ => rng.random_range(0..100_000),
    }
}

fn pick<'a, T>(rng: &mut SmallRng, from: &'a [T]) -> &'a T {
    // None of the lists is empty.
    from.choose(rng).unwrap_or(&from[0])
}

fn code(rng: &mut SmallRng, size: usize, depth: u32) -> Vec<Stmt> {
    (0..size).map(|_| stmt(rng, depth)).collect()
}

fn stmt(rng: &mut SmallRng, depth: u32) -> Stmt {
    let nested = |rng: &mut SmallRng| {
        let size = rng.random_range(1..=2);
        code(rng, size, depth - 1)
    };
    match rng.random_range(0..100) {
        0..40 => Stmt::Do(operation(rng, 70)),
        40..48 => Stmt::Start(operation(rng, 70)),
        48..54 => Stmt::Join(rng.random_range(0..4)),
        54..66 if depth > 0 => Stmt::All {
            branches: (0..rng.random_range(2..=4)).map(|_| nested(rng)).collect(),
            fail_fast: rng.random_bool(0.5),
        },
        66..78 => Stmt::Race {
            contestants: (0..rng.random_range(2..=4)).map(|_| operation(rng, 35)).collect(),
            close_all: rng.random_bool(0.8),
        },
        78..83 => Stmt::Abandon {
            operations: (0..rng.random_range(1..=3)).map(|_| operation(rng, 20)).collect(),
            after_ms: rng.random_bool(0.7).then(|| duration(rng)),
        },
        83..88 if depth > 0 => Stmt::Chance { even: nested(rng), odd: nested(rng) },
        88..93 => Stmt::Measure(duration(rng)),
        93..96 => Stmt::Log,
        96 if rng.random_bool(0.4) => Stmt::Continue,
        97 => Stmt::Trap(*pick(rng, &[0, 50, 100])),
        98 if rng.random_bool(0.3) => Stmt::Forever,
        99 if rng.random_bool(0.5) => Stmt::Throw,
        _ => Stmt::Do(operation(rng, 100)),
    }
}

fn operation(rng: &mut SmallRng, steps_percent: u32) -> Operation {
    let kind = if rng.random_range(0..100) < steps_percent {
        OperationKind::Step(Rc::new(step(rng)))
    } else if rng.random_bool(0.5) {
        OperationKind::Sleep(duration(rng))
    } else if rng.random_bool(0.2) {
        OperationKind::Send(pick::<&str>(rng, &EVENTS))
    } else if rng.random_bool(0.3) {
        let (detached, abandoned) = (rng.random_bool(0.25), rng.random_bool(0.3));
        OperationKind::Child { detached, abandoned, takes_ms: duration(rng) }
    } else {
        OperationKind::Wait(pick::<&str>(rng, &EVENTS), rng.random_bool(0.6).then(|| duration(rng)))
    };
    Operation { kind, caught: rng.random_bool(0.8) }
}

fn step(rng: &mut SmallRng) -> StepPlan {
    // An unknown `once` blocks its run, and a blocked run shows nothing more.
    let class = match rng.random_range(0..8) {
        0..3 => EffectClass::Repeatable,
        3..7 => EffectClass::Keyed,
        _ => EffectClass::Once,
    };
    let bodies = bodies(rng);
    StepPlan {
        name: (*pick(rng, &STEPS)).to_owned(),
        class,
        retry: RetryFields {
            max_attempts: Some(rng.random_range(1..=6)),
            initial_ms: Some(duration(rng)),
            max_ms: rng.random_bool(0.3).then(|| duration(rng) + 1),
            multiplier: Some(*pick(rng, &[1.0, 1.5, 2.0, 10.0])),
            jitter: Some(*pick(rng, &[0.0, 0.2, 1.0])),
        },
        timeout_ms: match rng.random_range(0..4) {
            0 => rng.random_range(1..20),
            1 => rng.random_range(1..300),
            _ => rng.random_range(300..60_000),
        },
        key_ttl_ms: if rng.random_bool(0.2) { rng.random_range(1..2_000) } else { 86_400_000 },
        bodies,
    }
}

/// Mostly the same body for every attempt, as real code is; sometimes another.
fn bodies(rng: &mut SmallRng) -> Vec<Body> {
    let acts = acts(rng);
    let attempts = rng.random_range(1..=4);
    (0..attempts)
        .map(|n| {
            let mut acts = acts.clone();
            if rng.random_bool(0.1) {
                acts = self::acts(rng);
            }
            if rng.random_bool(0.1) && !acts.is_empty() {
                let cut = rng.random_range(0..acts.len());
                acts.truncate(cut);
            }
            Body {
                acts,
                end: if n + 1 == attempts && rng.random_bool(0.7) { End::Return } else { end(rng) },
                stubborn: rng.random_bool(0.4),
            }
        })
        .collect()
}

fn end(rng: &mut SmallRng) -> End {
    match rng.random_range(0..100) {
        0..40 => End::Return,
        40..65 => End::Fail,
        65..72 => End::FailForGood,
        72..82 => End::FailAfter(duration(rng)),
        82..88 => End::Trap,
        88..90 => End::Overrun,
        90..96 => End::Hang,
        _ => End::ReturnTwice,
    }
}

fn acts(rng: &mut SmallRng) -> Vec<Act> {
    let mut acts = Vec::new();
    match rng.random_range(0..10) {
        0 => acts.push(Act::Misuse),
        1 => acts.push(Act::Chance),
        _ => {}
    }
    for _ in 0..rng.random_range(0..=3) {
        acts.push(match rng.random_range(0..100) {
            0..55 => Act::Send(call(rng)),
            55..67 => {
                let first = call(rng);
                let twice = rng.random_bool(0.4);
                let more = (0..rng.random_range(1..=2)).map(|_| if twice { first.clone() } else { call(rng) });
                let more: Vec<_> = more.collect();
                Act::SendAll([vec![first], more].concat())
            }
            67..73 => Act::Fire(call(rng)),
            73..76 => Act::SendOrDelay(call(rng), duration(rng)),
            76..79 => Act::GiveUpAndRepeat(call(rng), duration(rng)),
            79..87 => Act::Delay(duration(rng)),
            87..92 => Act::Token,
            92..96 => Act::Sibling(rng.random_range(0..6)),
            _ => Act::Log,
        });
    }
    acts
}

fn call(rng: &mut SmallRng) -> Call {
    let method = *pick(rng, &["POST", "POST", "POST", "POST", "PUT", "DELETE", "GET"]);
    Call {
        method,
        url: rng.random_range(0..2),
        body: rng.random_bool(0.8).then(|| rng.random_range(0..2)),
        drifting: rng.random_bool(0.04),
        key: match rng.random_range(0..100) {
            0..80 => EffectKey::Effect,
            80..85 => EffectKey::Attempt,
            85..90 => EffectKey::Operation,
            90..94 => EffectKey::None,
            94..98 => EffectKey::Custom(format!("own {}", rng.random_range(0..3))),
            _ => EffectKey::Custom(" not a key ".to_owned()),
        },
        label: rng.random_bool(0.15).then(|| rng.random_range(0..2)),
        timeout_ms: rng.random_bool(0.3).then(|| duration(rng) + 1),
        renew_on_500: rng.random_bool(0.15),
        then: match rng.random_range(0..10) {
            0..5 => Then::Fail,
            5..7 => Then::Ignore,
            _ => Then::Repeat(rng.random_range(1..=4)),
        },
    }
}
