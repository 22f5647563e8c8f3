//! The pure part of Stepwell: what a run is, without a clock, a disk, a socket or WebAssembly.
//!
//! Everything here is plain data and functions over it. Time and randomness are arguments; nothing blocks, nothing does I/O.

pub mod contract;
pub mod error;
pub mod fault;
pub mod ids;
pub mod journal;
pub mod json;
pub mod limits;
pub mod policy;
pub mod run;
