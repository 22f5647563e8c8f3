//! Planted faults of the rules by which runs begin and schedules fire, for the mutation tests: each breaks one rule, and the tables of
//! that rule must catch it.
//!
//! Without the feature `planted-faults` every question is answered `false` at compile time. Those of a run's state machine are in
//! [`crate::fault`].

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One run more than may be is under way.
    OneRunTooMany,
    /// One run more than may be is under way with a key.
    OneOfAKeyTooMany,
    /// Runs without a key are held to the limit of each key.
    KeylessIsAKey,
    /// One run more than may begin does in a window that ends just now.
    WindowTooShort,
    /// Times that are too late are not counted.
    MissedForgotten,
    /// Of the times that have come the earliest are made up for.
    EarliestMadeUpFor,
    /// Where nothing is made up for, a time is fired for however late it is.
    FireHoweverLate,
    /// A firing that is to be passed over, or to wait, starts a run beside the one that is open.
    FireBesideAnOpenRun,
    /// Of times for which a run is open one is passed over without being counted.
    OverlapUncounted,
}

impl Fault {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::OneRunTooMany,
        Self::OneOfAKeyTooMany,
        Self::KeylessIsAKey,
        Self::WindowTooShort,
        Self::MissedForgotten,
        Self::EarliestMadeUpFor,
        Self::FireHoweverLate,
        Self::FireBesideAnOpenRun,
        Self::OverlapUncounted,
    ];
}

crate::switch_of_faults!(Fault);
