//! Planted faults of the engine, for the mutation tests of the crash sweep: each breaks one rule, and each must be caught.
//!
//! Without the feature `planted-faults` every question is answered `false` at compile time. Those of the run's state machine are
//! core's.

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A request leaves before what led to it is durable.
    SendBeforeDurable,
    /// Watchers are shown what is not durable.
    ShowBeforeDurable,
    /// A run is left before what it wrote is durable.
    ParkBeforeDurable,
    /// Recovery arms no timers of runs that wait.
    ForgetTimers,
    /// Recovery leaves runs alone that were under way.
    ForgetRunning,
    /// What a run's requests came to is forgotten when the run is taken up again.
    ForgetSettlements,
}

impl Fault {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::SendBeforeDurable,
        Self::ShowBeforeDurable,
        Self::ParkBeforeDurable,
        Self::ForgetTimers,
        Self::ForgetRunning,
        Self::ForgetSettlements,
    ];
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

/// An entry as it would be if nothing were known of how a request ended.
pub(crate) fn without_settlement(bytes: Vec<u8>) -> Vec<u8> {
    use stepwell_core::contract::Evidence;
    use stepwell_core::journal::codec;
    use stepwell_core::journal::entry::Record;

    match codec::decode(0, &bytes) {
        Ok(mut entry) => {
            if let Record::Settled { evidence, answer, .. } = &mut entry.record {
                (*evidence, *answer) = (Evidence::Sent, None);
            }
            codec::encode(&entry)
        }
        Err(_) => bytes,
    }
}
