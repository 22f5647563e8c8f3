//! What a step's body does. It runs live only, in the same instance as the workflow, and is given its events by name.

use std::rc::Rc;

use stepwell_core::contract::{Answer, AttemptRef, EffectKey, Exchange, Level, Request, Response, StepOptions};
use stepwell_core::error::{Code, Error, Retryability};
use stepwell_core::json::Json;
use stepwell_core::limits::BODY_TURN_BUDGET_MS;
use stepwell_core::policy::effect::{is_retried_status, is_safe_method};

use crate::executor::{Boxed, first};
use crate::guest::Heap;
use crate::host::{Note, What};
use crate::program::{Act, Body, Call, End, StepPlan, Then};

/// The status of a request that did not fail.
type Sending = Result<Option<u16>, Error>;

/// The body of an attempt.
#[must_use]
pub fn of_attempt(plan: &StepPlan, number: u32) -> &Body {
    // The generator gives every step at least one.
    &plan.bodies[(number as usize - 1).min(plan.bodies.len() - 1)]
}

/// Runs a body to its end.
pub async fn run(heap: Rc<Heap>, plan: Rc<StepPlan>, attempt: AttemptRef) {
    let body = of_attempt(&plan, attempt.number).clone();
    let mut told = Vec::new();
    for act in body.acts {
        if let Err(error) = perform(&heap, attempt, act, &mut told).await {
            finish(&heap, attempt, Err(error));
            return;
        }
    }
    let error = |retryability| {
        let mut error = Error::new(Code::StepFailed, format!("attempt {} fails", attempt.number));
        error.retryability = retryability;
        Err(error)
    };
    let value = Json::parse(&format!("{{\"attempt\":{},\"told\":{told:?}}}", attempt.number)).map_err(|_| ());
    let value = || Ok(value.clone().unwrap_or_else(|()| Json::null()));
    match body.end {
        End::Return => finish(&heap, attempt, value()),
        End::Fail => finish(&heap, attempt, error(Retryability::Retry)),
        End::FailForGood => finish(&heap, attempt, error(Retryability::Never)),
        End::FailAfter(ms) => finish(&heap, attempt, error(Retryability::AfterMs(ms))),
        End::Trap => heap.trap(Error::new(Code::Trap, "the body trapped")).await,
        End::Overrun => {
            {
                let mut host = heap.host.borrow_mut();
                let limit = host.machine.turn_limit();
                let over = (host.now_ms + BODY_TURN_BUDGET_MS).min(limit.deadline_ms.unwrap_or(u64::MAX));
                host.now_ms = over.max(host.now_ms);
            }
            heap.trap(Error::new(Code::TurnTimeout, "the turn took too long")).await;
        }
        End::Hang => std::future::pending().await,
        End::ReturnTwice => {
            finish(&heap, attempt, value());
            answer_late(&heap, attempt);
        }
    }
}

fn finish(heap: &Heap, attempt: AttemptRef, outcome: Result<Json, Error>) {
    let mut host = heap.host.borrow_mut();
    let (now_ms, random) = (host.now_ms, host.random());
    let succeeds = outcome.is_ok();
    // Refused where the attempt was closed and its body, woken by a sibling, has not been told yet.
    if host.machine.step_finish(attempt, outcome, now_ms, random).is_ok() && succeeds {
        let heard = heap.answers.borrow();
        let mut unheard = heap.unsafe_sent.borrow().get(&attempt).cloned().unwrap_or_default();
        unheard.retain(|exchange| !heard.contains_key(exchange));
        host.notes.push(Note::Unheard(attempt, unheard));
    }
}

/// What a body does that does not care that it was closed: nothing of it may count.
pub fn answer_late(heap: &Heap, attempt: AttemptRef) {
    let mut host = heap.host.borrow_mut();
    let (now_ms, random) = (host.now_ms, host.random());
    if host.machine.step_finish(attempt, Ok(Json::null()), now_ms, random).is_ok() {
        host.violated(format!("a late answer of {attempt:?} was taken"));
    }
    let call = Request {
        method: "POST".to_owned(),
        url: "https://late.example/".to_owned(),
        headers: Vec::new(),
        body: None,
        timeout_ms: None,
        key: EffectKey::Effect,
        label: None,
        renew_on: Vec::new(),
    };
    if host.machine.http_send(attempt, call, now_ms).is_ok() || host.machine.delay(attempt, 1, now_ms).is_ok() {
        host.violated(format!("a closed attempt may still act: {attempt:?}"));
    }
}

async fn perform(heap: &Rc<Heap>, attempt: AttemptRef, act: Act, told: &mut Vec<u16>) -> Result<(), Error> {
    match act {
        Act::Send(call) => told.extend(send(heap.clone(), attempt, call).await?),
        Act::SendAll(calls) => {
            let parts = calls.into_iter().map(|call| Box::pin(send(heap.clone(), attempt, call)) as Boxed<Sending>);
            for status in join(parts.collect()).await {
                told.extend(status?);
            }
        }
        Act::Fire(call) => {
            let (request, what) = request(attempt, &call);
            if !is_safe_method(&request.method) {
                meant(heap, attempt, &what);
            }
            dispatch(heap, attempt, request)?;
        }
        Act::SendOrDelay(call, ms) => {
            let call = Call { then: Then::Ignore, ..call };
            let timer = delay(heap, attempt, ms)?;
            let heap = heap.clone();
            let sending = Box::pin(send(heap.clone(), attempt, call)) as Boxed<Sending>;
            let waiting = Box::pin(async move {
                let _ = heap.answer(timer).await;
                Ok(None)
            }) as Boxed<Sending>;
            told.extend(first(vec![sending, waiting]).await.1?);
        }
        Act::GiveUpAndRepeat(call, ms) => told.extend(give_up_and_repeat(heap, attempt, call, ms).await?),
        Act::Delay(ms) => {
            let timer = delay(heap, attempt, ms)?;
            heap.answer(timer).await?;
        }
        Act::Token => token(heap, attempt).await?,
        Act::Sibling(n) => {
            let begun = heap.begun.borrow().clone();
            if let Some(&op) = begun.get(n % begun.len().max(1)).filter(|op| **op != attempt.operation) {
                let _ = heap.outcome(op).await;
            }
        }
        Act::Misuse => misuse(heap, attempt),
        Act::Log => {
            let mut host = heap.host.borrow_mut();
            let now_ms = host.now_ms;
            host.machine.log(Level::Info, format!("body of {attempt:?}"), None, now_ms);
        }
        Act::Chance => {
            let mut host = heap.host.borrow_mut();
            let (now_ms, random) = (host.now_ms, host.random());
            if host.machine.random_u64(random) != random || host.machine.now_ms(now_ms) < now_ms {
                host.violated("a body's clock and chance are not the real ones");
            }
        }
    }
    Ok(())
}

async fn join<T: 'static>(parts: Vec<Boxed<T>>) -> Vec<T> {
    let mut parts: Vec<_> = parts.into_iter().map(|part| (Some(part), None)).collect();
    std::future::poll_fn(move |context| {
        for (part, value) in &mut parts {
            if let Some(future) = part
                && let std::task::Poll::Ready(ready) = future.as_mut().poll(context)
            {
                *part = None;
                *value = Some(ready);
            }
        }
        if parts.iter().any(|(part, _)| part.is_some()) {
            return std::task::Poll::Pending;
        }
        std::task::Poll::Ready(parts.drain(..).filter_map(|(_, value)| value).collect())
    })
    .await
}

fn request(attempt: AttemptRef, call: &Call) -> (Request, What) {
    let body = call.body.map(|body| {
        let drift = if call.drifting { attempt.number } else { 0 };
        format!("body {body} {drift}").into_bytes()
    });
    let request = Request {
        method: call.method.to_owned(),
        url: format!("https://world.example/{}", call.url),
        headers: Vec::new(),
        body,
        timeout_ms: call.timeout_ms,
        key: match &call.key {
            // One text for one step: services that are not asked by the same step need not share a name space.
            EffectKey::Custom(own) => EffectKey::Custom(format!("{own}{}", attempt.operation)),
            key => key.clone(),
        },
        label: call.label.map(|label| format!("label {label}")),
        renew_on: if call.renew_on_500 { vec![500] } else { Vec::new() },
    };
    let what = What {
        method: request.method.clone(),
        url: request.url.clone(),
        label: request.label.clone(),
        body: request.body.clone(),
    };
    (request, what)
}

fn meant(heap: &Heap, attempt: AttemptRef, what: &What) {
    heap.host.borrow_mut().notes.push(Note::Meant(attempt, what.clone()));
}

fn dispatch(heap: &Heap, attempt: AttemptRef, request: Request) -> Result<Exchange, Error> {
    let mut host = heap.host.borrow_mut();
    let now_ms = host.now_ms;
    let safe = is_safe_method(&request.method);
    let exchange = host.machine.http_send(attempt, request, now_ms)?;
    if !safe {
        heap.unsafe_sent.borrow_mut().entry(attempt).or_default().push(exchange);
    }
    Ok(exchange)
}

fn delay(heap: &Heap, attempt: AttemptRef, ms: u64) -> Result<Exchange, Error> {
    let mut host = heap.host.borrow_mut();
    let now_ms = host.now_ms;
    host.machine.delay(attempt, ms, now_ms)
}

/// Sends, awaits, and repeats where the call says so. The status, if there is one that did not fail.
async fn send(heap: Rc<Heap>, attempt: AttemptRef, call: Call) -> Sending {
    let (asked, what) = request(attempt, &call);
    if !is_safe_method(&asked.method) {
        meant(&heap, attempt, &what);
    }
    send_what_is_meant(heap, attempt, call).await
}

async fn send_what_is_meant(heap: Rc<Heap>, attempt: AttemptRef, call: Call) -> Sending {
    let (asked, what) = request(attempt, &call);
    let mut repetitions = 0;
    loop {
        let answer = match dispatch(&heap, attempt, asked.clone()) {
            Ok(exchange) => heap.answer(exchange).await,
            Err(refused) => Err(refused),
        };
        let error = match answer {
            Ok(Answer::Response(response)) if response.status < 400 => {
                told_done(&heap, attempt, &what, &response);
                return Ok(Some(response.status));
            }
            Ok(Answer::Response(response)) => status_error(&response),
            Ok(Answer::Elapsed) => {
                heap.violated("a request was answered like a delay");
                return Ok(None);
            }
            Err(error) => error,
        };
        match call.then {
            Then::Ignore => return Ok(None),
            Then::Repeat(most) if repetitions < most => repetitions += 1,
            Then::Fail | Then::Repeat(_) => return Err(error),
        }
    }
}

/// Means to have it done once, and does not hear the answer to its first request where that takes too long.
async fn give_up_and_repeat(heap: &Rc<Heap>, attempt: AttemptRef, call: Call, ms: u64) -> Sending {
    let (asked, what) = request(attempt, &call);
    if is_safe_method(&asked.method) {
        return send(heap.clone(), attempt, call).await;
    }
    meant(heap, attempt, &what);
    let first_request = dispatch(heap, attempt, asked)?;
    let timer = delay(heap, attempt, ms)?;
    let (answers, waits) = (heap.clone(), heap.clone());
    let answered = Box::pin(async move { answers.answer(first_request).await.map(Some) }) as Boxed<Result<_, Error>>;
    let given_up = Box::pin(async move {
        let _ = waits.answer(timer).await;
        Ok(None)
    });
    match first(vec![answered, given_up]).await.1? {
        Some(Answer::Response(response)) if response.status < 400 => {
            told_done(heap, attempt, &what, &response);
            Ok(Some(response.status))
        }
        Some(Answer::Response(response)) => Err(status_error(&response)),
        Some(Answer::Elapsed) | None => send_what_is_meant(heap.clone(), attempt, call).await,
    }
}

fn told_done(heap: &Heap, attempt: AttemptRef, what: &What, response: &Response) {
    if is_safe_method(&what.method) || matches!(response.status, 307 | 308) {
        return;
    }
    let what = what.clone();
    let told = if response.recorded { Note::ToldFromRecord } else { Note::ToldDone };
    heap.host.borrow_mut().notes.push(told(attempt.operation, what));
}

/// As an SDK's `ensureOk` makes it.
fn status_error(response: &Response) -> Error {
    let mut error = Error::new(Code::HttpStatus, format!("status {}", response.status));
    let after = response.headers.iter().find(|(name, _)| name == "retry-after");
    let after = after.and_then(|(_, seconds)| seconds.parse::<u64>().ok());
    error.retryability = match after {
        _ if !is_retried_status(response.status, false) => Retryability::Never,
        Some(seconds) => Retryability::AfterMs(seconds * 1_000),
        None => Retryability::Retry,
    };
    error
}

/// The token that bodies share: whoever needs it first fetches it, with its own attempt.
async fn token(heap: &Rc<Heap>, attempt: AttemptRef) -> Result<(), Error> {
    let exchange = match heap.token.get() {
        Some((_, exchange)) => exchange,
        None => {
            let call = Call {
                method: "GET",
                url: 9,
                body: None,
                drifting: false,
                key: EffectKey::Effect,
                label: None,
                timeout_ms: Some(1_000),
                renew_on_500: false,
                then: Then::Fail,
            };
            let exchange = dispatch(heap, attempt, request(attempt, &call).0)?;
            heap.token.set(Some((attempt, exchange)));
            exchange
        }
    };
    // A failed fetch is forgotten, so that the next attempt fetches again.
    heap.answer(exchange).await.map(drop).inspect_err(|_| {
        if heap.token.get().is_some_and(|(_, of)| of == exchange) {
            heap.token.set(None);
        }
    })
}

fn misuse(heap: &Heap, attempt: AttemptRef) {
    let mut host = heap.host.borrow_mut();
    let (now_ms, random) = (host.now_ms, host.random());
    let machine = &mut host.machine;
    let refused = [
        machine.step_begin("inside", &StepOptions::default(), now_ms).map(drop),
        machine.sleep(1, now_ms).map(drop),
        machine.wait_event("x", None, now_ms).map(drop),
        machine.close(attempt.operation, now_ms, random),
    ];
    for result in refused {
        if result.err().is_none_or(|error| !error.is(Code::OperationInsideStep)) {
            host.violated("a body may begin or close operations");
        }
    }
}
