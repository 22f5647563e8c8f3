//! Values across the guest's border: the contract's plain data on our side, the generated types on the guest's.
//!
//! What must be checked to be represented at all (JSON) is checked here; ranges and limits are the machine's.

use stepwell_core::contract as core;
use stepwell_core::error::{Cause, Code, Error, Retryability};
use stepwell_core::json::Json;

use crate::bindings::{Definition, types as wit};

/// A guest's text as JSON.
pub(crate) fn json(text: &str, what: &str) -> Result<Json, Error> {
    Json::parse(text).map_err(|e| Error::new(Code::InvalidArgument, format!("{what} is {e}")).never_retried())
}

fn text(json: &Json) -> String {
    json.as_str().to_owned()
}

pub(crate) fn retry(policy: &wit::RetryPolicy) -> core::RetryFields {
    let wit::RetryPolicy { max_attempts, initial_ms, max_ms, multiplier, jitter } = *policy;
    core::RetryFields { max_attempts, initial_ms, max_ms, multiplier, jitter }
}

pub(crate) fn step_options(options: wit::StepOptions) -> core::StepOptions {
    core::StepOptions {
        retry: retry(&options.retry),
        timeout_ms: options.timeout_ms,
        effect: options.effect.map(|effect| match effect {
            wit::Effect::Repeatable => core::EffectClass::Repeatable,
            wit::Effect::Keyed => core::EffectClass::Keyed,
            wit::Effect::Once => core::EffectClass::Once,
        }),
        key_ttl_ms: options.key_ttl_ms,
        operation_key: options.operation_key,
        reconciles: options.reconciles,
        approval: options.approval.map(|a| core::Approval { reason: a.reason, expires_ms: a.expires_ms }),
        reserve: options.reserve,
    }
}

pub(crate) fn run_options(options: wit::RunOptions) -> core::RunOptions {
    core::RunOptions {
        run_key: options.run_key,
        detached: options.detached,
        on_parent_close: match options.on_parent_close {
            wit::ParentClose::Cancel => core::ParentClose::Cancel,
            wit::ParentClose::Abandon => core::ParentClose::Abandon,
        },
        tags: options.tags,
    }
}

pub(crate) fn request(request: wit::Request) -> core::Request {
    core::Request {
        method: request.method,
        url: request.url,
        headers: request.headers,
        body: request.body,
        timeout_ms: request.timeout_ms,
        key: match request.key {
            wit::EffectKey::Effect => core::EffectKey::Effect,
            wit::EffectKey::Attempt => core::EffectKey::Attempt,
            wit::EffectKey::Operation => core::EffectKey::Operation,
            wit::EffectKey::None => core::EffectKey::None,
            wit::EffectKey::Custom(key) => core::EffectKey::Custom(key),
        },
        label: request.label,
        renew_on: request.renew_on,
    }
}

pub(crate) fn level(level: wit::Level) -> core::Level {
    match level {
        wit::Level::Trace => core::Level::Trace,
        wit::Level::Debug => core::Level::Debug,
        wit::Level::Info => core::Level::Info,
        wit::Level::Warn => core::Level::Warn,
        wit::Level::Error => core::Level::Error,
    }
}

pub(crate) fn attempt_ref(attempt: wit::AttemptRef) -> core::AttemptRef {
    core::AttemptRef { operation: attempt.operation, number: attempt.number }
}

fn attempt_ref_to_guest(attempt: core::AttemptRef) -> wit::AttemptRef {
    wit::AttemptRef { operation: attempt.operation, number: attempt.number }
}

/// An error of the guest's. Details that are no JSON are left out, with a word about it: a failure must not be lost by its wrapping.
pub(crate) fn error(error: wit::Error) -> Error {
    let mut message = error.message;
    let details = match error.details.as_deref().map(Json::parse) {
        Some(Ok(details)) => Some(details),
        Some(Err(_)) => {
            message.push_str(" (its details were no JSON and were left out)");
            None
        }
        None => None,
    };
    Error {
        code: error.code,
        name: error.name,
        message,
        details,
        causes: error.causes.into_iter().map(|c| Cause { name: c.name, message: c.message }).collect(),
        retryability: match error.retryability {
            wit::Retryability::Retry => Retryability::Retry,
            wit::Retryability::Never => Retryability::Never,
            wit::Retryability::AfterMs(ms) => Retryability::AfterMs(ms),
        },
        outcome_unknown: error.outcome_unknown,
    }
}

pub(crate) fn error_to_guest(error: Error) -> wit::Error {
    wit::Error {
        code: error.code,
        name: error.name,
        message: error.message,
        details: error.details.as_ref().map(text),
        causes: error.causes.into_iter().map(|c| wit::Cause { name: c.name, message: c.message }).collect(),
        retryability: match error.retryability {
            Retryability::Retry => wit::Retryability::Retry,
            Retryability::Never => wit::Retryability::Never,
            Retryability::AfterMs(ms) => wit::Retryability::AfterMs(ms),
        },
        outcome_unknown: error.outcome_unknown,
    }
}

/// What a body or a workflow ended with. A value that is no JSON is a failure of its own, never a refusal: whoever gave it would
/// have nothing else to give, and the attempt would stay open.
pub(crate) fn outcome(outcome: Result<String, wit::Error>) -> Result<Json, Error> {
    match outcome {
        Ok(value) => json(&value, "the result"),
        Err(failure) => Err(error(failure)),
    }
}

pub(crate) fn event_to_guest(event: core::Event) -> wit::Event {
    match event {
        core::Event::Attempt(attempt) => wit::Event::Attempt(attempt_to_guest(attempt)),
        core::Event::Expired(attempt) => wit::Event::Expired(attempt_ref_to_guest(attempt)),
        core::Event::Answered(exchange, answer) => wit::Event::Answered(wit::Answered {
            exchange,
            answer: answer.map(answer_to_guest).map_err(error_to_guest),
        }),
        core::Event::Completed(operation, value) => {
            wit::Event::Completed(wit::Completed { operation, value: text(&value) })
        }
        core::Event::Failed(operation, error) => {
            wit::Event::Failed(wit::Failed { operation, error: error_to_guest(error) })
        }
        core::Event::Cancelled => wit::Event::Cancelled,
    }
}

fn attempt_to_guest(attempt: core::Attempt) -> wit::Attempt {
    let sent =
        |e: core::SentEffect| wit::SentEffect { method: e.method, url: e.url, key: e.key, sent_at_ms: e.sent_at_ms };
    wit::Attempt {
        id: attempt_ref_to_guest(attempt.id),
        kind: match attempt.kind {
            core::AttemptKind::Execute => wit::AttemptKind::Execute,
            core::AttemptKind::Reconcile => wit::AttemptKind::Reconcile,
        },
        idempotency_key: attempt.idempotency_key,
        operation_key: attempt.operation_key,
        deadline_ms: attempt.deadline_ms,
        unknown: attempt.unknown.into_iter().map(sent).collect(),
    }
}

fn answer_to_guest(answer: core::Answer) -> wit::Answer {
    match answer {
        core::Answer::Elapsed => wit::Answer::Elapsed,
        core::Answer::Response(r) => wit::Answer::Response(wit::Response {
            status: r.status,
            headers: r.headers,
            body: r.body,
            recorded: r.recorded,
        }),
    }
}

/// A workflow as the module describes it.
///
/// # Errors
/// When its input schema is no JSON.
pub(crate) fn definition(definition: Definition) -> Result<core::Definition, Error> {
    let schema = definition.input_schema.map(|text| json(&text, "the input schema")).transpose()?;
    Ok(core::Definition {
        name: definition.name,
        retry: retry(&definition.retry),
        step_timeout_ms: definition.step_timeout_ms,
        run_timeout_ms: definition.run_timeout_ms,
        input_schema: schema,
        destinations: definition.destinations,
        secrets: definition.secrets,
    })
}
