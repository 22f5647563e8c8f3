//! The contract as Rust types, generated from the WIT. `run` is lifted as a plain function: it blocks in `next`.

#![allow(unsafe_code, missing_docs, reason = "generated")]

wit_bindgen::generate!({
    path: "../../../guest-sdk/wit",
    world: "workflow",
    sync: ["all"],
});

pub(crate) use exports::stepwell::workflow::workflows::{Definition, Guest};
pub(crate) use stepwell::workflow::blocking_turns::next;
pub(crate) use stepwell::workflow::commands;
pub(crate) use stepwell::workflow::types::{
    Answer, Answered, Attempt, AttemptRef, Cause, Completed, Effect, EffectKey, Error, Event, Exchange, Failed, Level,
    Operation, Request, Response, RetryPolicy, Retryability, StepOptions,
};
