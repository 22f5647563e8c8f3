//! The host through its public surface, with small guests made from text.

#![allow(clippy::unwrap_used, reason = "the helpers of tests are tests too")]

mod determinism;
mod hostile;
mod modules;
mod support;
mod turns;
mod wasi;
