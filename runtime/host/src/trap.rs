//! Why an invocation ended without a result, told apart by type.
//!
//! What we stop ourselves leaves a [`Stop`] in wasmtime's error, what the guest does wrong one of wasmtime's own traps. Neither is
//! ever recognised by its text.

use std::fmt;

use stepwell_core::error::{Code, Error};
use wasmtime::WasmBacktrace;

/// What ended the invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrapKind {
    /// The guest's own doing: `unreachable`, division by zero, a value that is none, a second pending `next`, `exit`.
    Trap,
    /// Its stack is used up.
    StackOverflow,
    /// It asked for more memory or table elements than it may have.
    MemoryLimit,
    /// The turn used up its computing time.
    TurnBudget,
    /// The turn ran past its deadline.
    Deadline,
    /// The engine interrupted it.
    Interrupted,
    /// The invocation had ended before this turn.
    Ended,
    /// Not the guest's doing: the host could not give it what it needs.
    Host,
}

/// The end of an invocation that has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Trap {
    /// To decide by.
    pub kind: TrapKind,
    /// For people: what happened, and in which functions where that is known.
    pub message: String,
}

impl Trap {
    /// The code that the failure has where nothing more exact is known.
    #[must_use]
    pub fn code(&self) -> Code {
        match self.kind {
            TrapKind::Trap => Code::Trap,
            TrapKind::StackOverflow => Code::StackOverflow,
            TrapKind::MemoryLimit => Code::MemoryLimit,
            TrapKind::TurnBudget => Code::TurnTimeout,
            TrapKind::Deadline => Code::StepTimeout,
            TrapKind::Interrupted | TrapKind::Ended => Code::InvocationLost,
            TrapKind::Host => Code::Internal,
        }
    }

    /// The trap as an error with that code.
    #[must_use]
    pub fn to_error(&self) -> Error {
        Error::new(self.code(), self.message.clone()).bounded()
    }

    pub(crate) fn ended() -> Self {
        Self { kind: TrapKind::Ended, message: "the invocation has ended already".into() }
    }
}

impl From<Stop> for Trap {
    fn from(stop: Stop) -> Self {
        Self { kind: stop.kind(), message: stop.to_string() }
    }
}

impl From<wasmtime::Error> for Trap {
    fn from(error: wasmtime::Error) -> Self {
        let (kind, mut message) = if let Some(stop) = error.downcast_ref::<Stop>() {
            (stop.kind(), stop.to_string())
        } else if let Some(trap) = error.downcast_ref::<wasmtime::Trap>() {
            (of_wasmtime(*trap), trap.to_string())
        } else if error.is::<NoInstance>() || error.is::<wasmtime::PoolConcurrencyLimitError>() {
            (TrapKind::Host, format!("{error:#}"))
        } else {
            // A value that the guest passed could not be read: an index outside its memory, a text that is no UTF-8.
            (TrapKind::Trap, error.root_cause().to_string())
        };
        if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
            message.push_str(&Frames(backtrace).to_string());
        }
        Self { kind, message }
    }
}

fn of_wasmtime(trap: wasmtime::Trap) -> TrapKind {
    match trap {
        wasmtime::Trap::StackOverflow => TrapKind::StackOverflow,
        wasmtime::Trap::AllocationTooLarge => TrapKind::MemoryLimit,
        _ => TrapKind::Trap,
    }
}

/// The functions that were running, innermost first, as far as the module names its functions. A few say where it was.
struct Frames<'a>(&'a WasmBacktrace);

impl fmt::Display for Frames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        let names: Vec<_> = self.0.frames().iter().filter_map(|frame| frame.func_name()).collect();
        for (at, name) in names.iter().take(SHOWN).enumerate() {
            f.write_str(if at == 0 { " (in " } else { " < " })?;
            f.write_str(&name[..name.floor_char_boundary(120)])?;
        }
        match names.len() {
            0 => Ok(()),
            n if n > SHOWN => f.write_str(" < ...)"),
            _ => f.write_str(")"),
        }
    }
}

/// There was no instance, for reasons that are not the module's: no memory, no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no instance could be made")]
pub(crate) struct NoInstance;

impl NoInstance {
    /// The error of an instantiation: the guest's own code may run in it, and trap or meet its limits.
    pub(crate) fn unless_the_guests(error: wasmtime::Error) -> wasmtime::Error {
        let of_the_guest = error.is::<Stop>() || error.is::<wasmtime::Trap>();
        if of_the_guest { error } else { error.context(Self) }
    }
}

/// What we ourselves stop a guest for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stop {
    #[error("the instance asked for {asked} bytes of memory in all; it may have {limit}")]
    Memory { asked: usize, limit: usize },
    #[error("the instance asked for {asked} table elements in all; it may have {limit}")]
    Tables { asked: usize, limit: usize },
    #[error("the turn used up its computing time of {budget_ms} ms")]
    TurnBudget { budget_ms: u64 },
    #[error("the turn ran past its deadline")]
    Deadline,
    #[error("the turn was interrupted")]
    Interrupted,
    #[error("the guest called `next` while another `next` was pending")]
    SecondNext,
    #[error("the guest ended itself with exit status {status}")]
    Exit { status: u8 },
    #[error("the guest asked for {asked} random bytes at once; it may ask for {limit}")]
    RandomBytes { asked: u64, limit: u64 },
    #[error("the guest called a function that Stepwell does not offer: {0}")]
    NotOffered(&'static str),
}

impl Stop {
    fn kind(self) -> TrapKind {
        match self {
            Self::Memory { .. } | Self::Tables { .. } => TrapKind::MemoryLimit,
            Self::TurnBudget { .. } => TrapKind::TurnBudget,
            Self::Deadline => TrapKind::Deadline,
            Self::Interrupted => TrapKind::Interrupted,
            Self::SecondNext | Self::Exit { .. } | Self::RandomBytes { .. } | Self::NotOffered(_) => TrapKind::Trap,
        }
    }
}
