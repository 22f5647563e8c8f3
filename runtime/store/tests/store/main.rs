//! The store through its public surface: one suite for every implementation, and what is particular to each.

#![allow(clippy::unwrap_used)] // Helpers of tests are tests too.

mod admission;
mod conformance;
mod crash;
mod failure;
mod forget;
mod memory;
mod others;
mod others_again;
mod outcomes;
mod parts;
mod planted;
mod schedules;
mod sqlite;
mod subject;
mod submissions;
mod timing;
