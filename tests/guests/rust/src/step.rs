//! Steps: their options, and what a body is given.

use std::future::Future;
use std::rc::Rc;

use serde_json::Value;

use crate::contract::{Attempt, Effect, Error, RetryPolicy, StepOptions, commands};
use crate::run::{Local, Run};

/// A body's means: its attempt, and the requests that it may make.
#[derive(Clone)]
pub(crate) struct Here {
    pub(crate) attempt: Attempt,
    pub(crate) run: Run,
}

/// Options as the host has them.
pub(crate) fn options() -> StepOptions {
    StepOptions {
        retry: RetryPolicy { max_attempts: None, initial_ms: None, max_ms: None, multiplier: None, jitter: None },
        timeout_ms: None,
        effect: None,
        key_ttl_ms: None,
        operation_key: None,
        reconciles: false,
        approval: None,
        reserve: None,
    }
}

/// Options with so many attempts, one right after the other.
pub(crate) fn attempts(max: u32) -> StepOptions {
    let retry = RetryPolicy { max_attempts: Some(max), initial_ms: Some(0), ..options().retry };
    StepOptions { retry, ..options() }
}

/// The class of that name; the host's own where it is none.
pub(crate) fn effect(name: &str) -> Option<Effect> {
    match name {
        "repeatable" => Some(Effect::Repeatable),
        "keyed" => Some(Effect::Keyed),
        "once" => Some(Effect::Once),
        _ => None,
    }
}

impl Run {
    /// Begins a step now; its result can be awaited at any time.
    pub(crate) fn step<F>(
        &self,
        name: &str,
        options: &StepOptions,
        body: impl Fn(Here) -> F + 'static,
    ) -> Local<Result<Value, Error>>
    where
        F: Future<Output = Result<Value, Error>> + 'static,
    {
        let begun = commands::step_begin(name, options);
        if let Ok(operation) = begun {
            let run = self.clone();
            self.keep_body(operation, Rc::new(move |attempt| Box::pin(body(Here { attempt, run: run.clone() }))));
        }
        self.outcome(begun)
    }
}

impl Here {
    /// The attempt's number, from 1.
    pub(crate) fn number(&self) -> u32 {
        self.attempt.id.number
    }

    /// Waits within the body; not journaled.
    pub(crate) async fn delay(&self, ms: u64) -> Result<(), Error> {
        self.run.answer(commands::delay(self.attempt.id, ms)).await.map(drop)
    }
}
