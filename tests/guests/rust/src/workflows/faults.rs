//! Code that takes its instance down.

use std::hint::black_box;

use serde_json::{Value, json};

use crate::contract::Error;
use crate::run::{Run, expected};
use crate::step::{attempts, options};

/// A fault in a body, between two steps that have none. The code that the workflow catches.
pub(crate) async fn body(run: Run, input: Value) -> Result<Value, Error> {
    let before = run.step("before", &options(), |_| async { Ok(json!("kept")) }).await?;
    let fault = expected(input.as_str(), "a fault")?.to_owned();
    let outcome = run.step("faulty", &attempts(2), move |_| {
        let fault = fault.clone();
        async move { Ok(json!(commit(&fault))) }
    });
    let outcome = outcome.await.map_err(|error| error.code);
    let after = run.step("after", &options(), |_| async { Ok(json!("goes on")) }).await?;
    Ok(json!([before, outcome.err(), after]))
}

/// A fault in workflow code, after a step.
pub(crate) async fn workflow(run: Run, input: Value) -> Result<Value, Error> {
    run.step("before", &options(), |_| async { Ok(json!("kept")) }).await?;
    Ok(json!(commit(expected(input.as_str(), "a fault")?)))
}

fn commit(fault: &str) -> u64 {
    match fault {
        "panic" => panic!("on purpose"),
        "division" => 1 / black_box(0),
        "bounds" => [1, 2, 3][black_box(3)],
        "memory" => grow(),
        "recursion" => deeper(1),
        "frames" => wider(1),
        "loop" => loop {
            black_box(());
        },
        other => panic!("there is no fault {other:?}"),
    }
}

/// Keeps all that it asks for.
fn grow() -> u64 {
    let mut all = Vec::new();
    loop {
        all.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Small frames, on the machine's stack.
#[inline(never)]
#[expect(unconditional_recursion, reason = "on purpose")]
fn deeper(n: u64) -> u64 {
    black_box(deeper(black_box(n) + 1)) + 1
}

/// Large frames, on the stack that a module has in its memory.
#[inline(never)]
#[expect(unconditional_recursion, reason = "on purpose")]
fn wider(n: u64) -> u64 {
    let frame = black_box([n; 512]);
    black_box(wider(frame[0] + 1)) + frame[1]
}
