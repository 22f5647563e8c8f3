//! Tests of the pure part through its public surface: rules as vectors and properties, runs as golden journals.
//!
//! No wasm, no clock, no disk but the files beside this one.

// Also in functions that are no tests themselves: here a panic is the answer.
#![allow(clippy::unwrap_used)]

mod admission;
mod codec;
mod golden;
mod http;
mod idempotency;
mod keys;
mod log;
mod pages;
mod planted;
mod play;
mod retention;
mod retry;
mod schedule;
mod table;
mod vectors;
