//! The loop around `next`. A run is one future, each attempt of a step another; there is no executor and nothing is woken: after every
//! event all of them are polled, in the order in which they began, so that a turn is a function of what the guest was told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use serde_json::Value;

use crate::contract::{
    Answer, Answered, Attempt, Completed, Error, Event, Exchange, Failed, Operation, commands, next,
};
use crate::error;

/// A future that stays on this thread; there is no other.
pub(crate) type Local<T> = Pin<Box<dyn Future<Output = T>>>;

/// What a step does in an attempt.
pub(crate) type Body = Rc<dyn Fn(Attempt) -> Local<Result<Value, Error>>>;

/// What a run's code has: the way to everything that it may do.
#[derive(Clone, Default)]
pub(crate) struct Run(Rc<Heard>);

/// What the guest was told, for whoever awaits it.
#[derive(Default)]
struct Heard {
    outcomes: RefCell<BTreeMap<Operation, Result<Value, Error>>>,
    answers: RefCell<BTreeMap<Exchange, Result<Answer, Error>>>,
    bodies: RefCell<BTreeMap<Operation, Body>>,
    cancelled: Cell<bool>,
}

/// An attempt under way.
struct UnderWay {
    attempt: Attempt,
    body: Local<Result<Value, Error>>,
}

/// Runs a workflow to its end.
pub(crate) fn drive(start: impl FnOnce(Run) -> Local<Result<Value, Error>>) -> Result<Value, Error> {
    let run = Run::default();
    let mut workflow = start(run.clone());
    let mut attempts: Vec<UnderWay> = Vec::new();
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = workflow.as_mut().poll(&mut context) {
            return result;
        }
        attempts.retain_mut(|under_way| match under_way.body.as_mut().poll(&mut context) {
            Poll::Pending => true,
            Poll::Ready(outcome) => {
                finish(&under_way.attempt, outcome);
                false
            }
        });
        match next() {
            Event::Attempt(attempt) => attempts.extend(run.begin(attempt)),
            Event::Expired(expired) => attempts.retain(|under_way| under_way.attempt.id.operation != expired.operation),
            event => run.hear(event),
        }
    }
}

fn finish(attempt: &Attempt, outcome: Result<Value, Error>) {
    let outcome = outcome.map(|value| value.to_string());
    if let Err(refused) = commands::step_finish(attempt.id, outcome.as_ref().map(String::as_str)) {
        panic!("{refused:?}");
    }
}

impl Run {
    fn begin(&self, attempt: Attempt) -> Option<UnderWay> {
        let body = self.0.bodies.borrow().get(&attempt.id.operation).cloned()?;
        Some(UnderWay { body: body(attempt.clone()), attempt })
    }

    fn hear(&self, event: Event) {
        match event {
            Event::Completed(Completed { operation, value }) => {
                // What the host gives is JSON.
                let value = serde_json::from_str(&value).unwrap_or(Value::Null);
                self.0.outcomes.borrow_mut().insert(operation, Ok(value));
            }
            Event::Failed(Failed { operation, error }) => {
                self.0.outcomes.borrow_mut().insert(operation, Err(error));
            }
            Event::Answered(Answered { exchange, answer }) => {
                self.0.answers.borrow_mut().insert(exchange, answer);
            }
            Event::Cancelled => self.0.cancelled.set(true),
            Event::Attempt(_) | Event::Expired(_) => {}
        }
    }

    /// What attempts of the operation do.
    pub(crate) fn keep_body(&self, operation: Operation, body: Body) {
        self.0.bodies.borrow_mut().insert(operation, body);
    }

    /// Whether the run was asked to cancel.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.cancelled.get()
    }

    /// The outcome of an operation, or why it was refused.
    pub(crate) fn outcome(&self, begun: Result<Operation, Error>) -> Local<Result<Value, Error>> {
        let heard = self.0.clone();
        Box::pin(async move {
            let operation = begun?;
            poll_fn(|_| heard.outcomes.borrow_mut().remove(&operation).map_or(Poll::Pending, Poll::Ready)).await
        })
    }

    /// What came of an exchange, or why it was refused.
    pub(crate) async fn answer(&self, sent: Result<Exchange, Error>) -> Result<Answer, Error> {
        let exchange = sent?;
        poll_fn(|_| self.0.answers.borrow_mut().remove(&exchange).map_or(Poll::Pending, Poll::Ready)).await
    }

    pub(crate) fn sleep(&self, ms: u64) -> Local<Result<Value, Error>> {
        self.outcome(commands::sleep(ms))
    }

    pub(crate) fn wait_event(&self, name: &str, timeout_ms: Option<u64>) -> Local<Result<Value, Error>> {
        self.outcome(commands::wait_event(name, timeout_ms))
    }
}

/// All of them, side by side; the results in their order.
pub(crate) async fn all<T>(mut futures: Vec<Local<T>>) -> Vec<T> {
    let mut results: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none()
                && let Poll::Ready(value) = future.as_mut().poll(context)
            {
                *result = Some(value);
            }
        }
        if results.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// A value that must have a form, or an error that is not retried.
pub(crate) fn expected<T>(value: Option<T>, what: &str) -> Result<T, Error> {
    value.ok_or_else(|| error::never_retried(error::new("guest.input", what)))
}
