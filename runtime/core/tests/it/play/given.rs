//! What plays are made of: runs, options, requests, errors.

use stepwell_core::contract::{EffectClass, EffectKey, Request, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::Started;
use stepwell_core::json::Json;
use stepwell_core::policy::retry::RetryPolicy;

/// Where every request of these tests goes.
pub(crate) const URL: &str = "https://pay.example/charges";

/// The JSON text.
pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// The options of a step with that effect class.
pub(crate) fn class(effect: EffectClass) -> StepOptions {
    StepOptions { effect: Some(effect), ..StepOptions::default() }
}

/// A body's error of its own.
pub(crate) fn declined(message: &str) -> Error {
    Error { name: Some("PaymentDeclined".into()), ..Error::new(Code::StepFailed, message) }
}

/// What an SDK makes of a status that is no success, retried or not as its helper would have it.
pub(crate) fn status_error(status: u16) -> Error {
    let error = Error::new(Code::HttpStatus, format!("POST {URL} answered {status}"));
    if stepwell_core::policy::effect::is_retried_status(status, false) { error } else { error.never_retried() }
}

/// A POST with that body.
pub(crate) fn post(body: &str) -> Request {
    Request {
        method: "POST".into(),
        url: URL.into(),
        headers: Vec::new(),
        body: Some(body.into()),
        timeout_ms: None,
        key: EffectKey::Effect,
        label: None,
        renew_on: Vec::new(),
    }
}

/// A run's beginning whose steps are retried three times in all, after 1 s and 2 s, without jitter.
pub(crate) fn started() -> Started {
    Started {
        run: RunId::new("run_1"),
        workflow: "w".into(),
        digest: Digest::of(b"module"),
        input: json("{\"order\":42}"),
        retry: RetryPolicy { max_attempts: 3, jitter: 0.0, ..RetryPolicy::default() },
        step_timeout_ms: None,
        deadline_ms: None,
        parent: None,
        continues: None,
    }
}
