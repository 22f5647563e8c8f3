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

stepwell_core::switch_of_faults!(Fault);
