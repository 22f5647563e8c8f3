//! The rules of retries, time-outs, effects and keys, as functions over plain data.
//!
//! Nothing here knows of runs or journals. Each function is given the time, the random number and what is recorded.

pub mod admission;
pub mod effect;
pub mod fault;
pub mod idempotency;
pub mod key;
pub mod retention;
pub mod retry;
pub mod schedule;
pub mod timeout;
