//! Planted faults of the store, for the mutation tests of the crash sweep: each breaks one rule, and each must be caught.
//!
//! Without the feature `planted-faults` every question is answered `false` at compile time.

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A ticket is said to be durable before its commit.
    EarlyTicket,
}

impl Fault {
    /// All of them.
    pub const ALL: &'static [Self] = &[Self::EarlyTicket];
}

#[cfg(feature = "planted-faults")]
mod switch {
    use super::Fault;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Plants a fault in this thread, or takes it away.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(not(feature = "planted-faults"))]
mod switch {
    use super::Fault;

    pub(crate) const fn planted(_: Fault) -> bool {
        false
    }
}

#[cfg(feature = "planted-faults")]
pub use switch::plant;
pub(crate) use switch::planted;
