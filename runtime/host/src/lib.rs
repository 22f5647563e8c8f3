//! WebAssembly for Stepwell: wasmtime's settings, modules and their cache, instances within their limits, commands, turns, traps.
//!
//! It knows neither the store nor the run's state machine: a guest's commands go to a [`Commands`] that the engine gives, and
//! what the guest is told comes in as events, one a turn.

mod bindings;
mod cache;
mod commands;
mod convert;
mod guest;
mod host;
pub mod http;
mod invocation;
mod limits;
mod memory;
mod module;
mod port;
mod settings;
mod trap;
mod turn;
mod wasi;

/// What the tests of the public surface share, for those of what is below it.
#[cfg(test)]
#[path = "../tests/it/support/mod.rs"]
#[allow(dead_code, reason = "its other users need all of it")]
mod support;
#[cfg(test)]
extern crate self as stepwell_host;

pub use commands::Commands;
pub use host::Host;
pub use invocation::{Invocation, TurnEnd};
pub use memory::MemoryShare;
pub use module::{Module, ModuleError};
pub use settings::HostSettings;
pub use trap::{Trap, TrapKind};
pub use turn::{InterruptHandle, TurnDeadline, gave_way};
