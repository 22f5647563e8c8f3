//! Steps, sleeps, events and errors.

use std::cell::Cell;

use serde_json::{Value, json};

use crate::contract::{Cause, Error, Level, commands};
use crate::error;
use crate::run::{Local, Run, all, expected};
use crate::step::{attempts, options};

/// So many steps, one after the other; the sum of their results.
pub(crate) async fn sequential(run: Run, input: Value) -> Result<Value, Error> {
    let mut sum = 0;
    for n in 0..expected(input.as_u64(), "a number of steps")? {
        let result = run.step("add", &options(), move |_| async move { Ok(json!(n)) }).await?;
        sum += expected(result.as_u64(), "a number")?;
    }
    Ok(json!(sum))
}

/// So many steps side by side, the last begun being the first done. Those from `prompt` on do not end in their first attempt.
pub(crate) async fn parallel(run: Run, input: Value) -> Result<Value, Error> {
    let width = expected(input["width"].as_u64(), "a width")?;
    let prompt = input["prompt"].as_u64().unwrap_or(width);
    let steps = (0..width).map(|n| {
        run.step(&format!("part {n}"), &attempts(3), move |here| async move {
            if n >= prompt && here.number() == 1 {
                here.delay(600_000).await?;
            }
            here.delay(width - n).await?;
            Ok(json!(n))
        })
    });
    let steps: Vec<_> = steps.collect();
    let results: Result<Vec<Value>, Error> = all(steps).await.into_iter().collect();
    results.map(Value::Array)
}

/// Sleeps for so many ms; how long that was by the run's clock.
pub(crate) async fn sleeps(run: Run, input: Value) -> Result<Value, Error> {
    let before = commands::now_ms();
    run.sleep(expected(input.as_u64(), "a time in ms")?).await?;
    Ok(json!(commands::now_ms() - before))
}

/// What came with the event, or the code of what came in its place.
pub(crate) async fn waits(run: Run, input: Value) -> Result<Value, Error> {
    Ok(run.wait_event("go", input["timeoutMs"].as_u64()).await.unwrap_or_else(|error| json!({ "code": error.code })))
}

/// Something of everything. Its result shows in which order things were heard of, and what the run's clock and chance were.
pub(crate) async fn tour(run: Run, _: Value) -> Result<Value, Error> {
    let chance = [commands::random_u64(), commands::random_u64()].map(|number| number.to_string());
    let first = run.step("first", &options(), |_| async { Ok(json!("done")) }).await?;
    commands::log(Level::Info, "the first is done", None);
    let branch = |name: &'static str, ms: u64| -> Local<Result<Value, Error>> {
        let run = run.clone();
        Box::pin(async move {
            let early = run.step(&format!("{name} early"), &options(), move |here| async move {
                here.delay(ms).await?;
                Ok(json!(here.number() > 0))
            });
            early.await?;
            run.sleep(ms).await?;
            run.step(&format!("{name} late"), &options(), move |_| async move { Ok(json!(name)) }).await
        })
    };
    let branches = all(vec![branch("a", 3), branch("b", 5)]).await;
    let branches: Result<Vec<Value>, Error> = branches.into_iter().collect();
    let failed = run.step("fails", &attempts(2), |_| async { Err(error::new("guest.twice", "as it should")) }).await;
    let event = run.wait_event("go", None).await?;
    let slept = run.wait_event("never", Some(5)).await;
    let codes = [failed, slept].map(|outcome| outcome.err().map(|error| error.code));
    let clock = commands::now_ms();
    commands::set_status("at its end");
    Ok(
        json!({ "first": first, "branches": branches?, "event": event, "codes": codes, "chance": chance, "clock": clock }),
    )
}

/// Waits until it is cancelled, and then cleans up.
pub(crate) async fn cleans_up(run: Run, _: Value) -> Result<Value, Error> {
    let cancelled = run.sleep(600_000).await;
    if run.is_cancelled() {
        run.step("cleaning up", &options(), |_| async { Ok(Value::Null) }).await?;
    }
    cancelled
}

/// A step whose first failure is its last.
pub(crate) async fn non_retriable(run: Run, _: Value) -> Result<Value, Error> {
    let refused = error::never_retried(error::new("guest.refused", "for good"));
    run.step("refused", &attempts(5), move |_| {
        let refused = refused.clone();
        async move { Err(refused) }
    })
    .await
}

/// A step that says when it is to be attempted again.
pub(crate) async fn retry_after(run: Run, input: Value) -> Result<Value, Error> {
    let ms = expected(input.as_u64(), "a time in ms")?;
    run.step("later", &attempts(2), move |here| async move {
        match here.number() {
            1 => Err(error::retried_after(error::new("guest.busy", "come back"), ms)),
            n => Ok(json!(n)),
        }
    })
    .await
}

/// What a body left behind outside itself, which a replay does not find.
pub(crate) async fn residue(run: Run, _: Value) -> Result<Value, Error> {
    thread_local!(static SEEN: Cell<u32> = const { Cell::new(0) });
    run.step("leaves it", &options(), |_| async {
        SEEN.set(7);
        Ok(Value::Null)
    })
    .await?;
    Ok(json!(SEEN.get()))
}

/// The workflow's own error, with everything that an error has.
pub(crate) async fn own_error(_: Run, input: Value) -> Result<Value, Error> {
    Err(Error {
        name: Some("PaymentDeclined".to_owned()),
        details: Some(input.to_string()),
        causes: vec![Cause { name: Some("Limit".to_owned()), message: "é\u{0}".to_owned() }],
        ..error::new("shop.payment_declined", "declined")
    })
}
