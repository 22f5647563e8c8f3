//! Planted faults of the store, for the mutation tests of the crash sweep and of the queue: each breaks one rule, and each must be
//! caught.
//!
//! Without the feature `planted-faults` every question is answered `false` at compile time.

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A ticket is said to be durable before its commit.
    EarlyTicket,
    /// A long entry is written before its parts.
    EntryBeforeParts,
    /// A run's end makes no room for those that wait.
    EndMakesNoRoom,
    /// A run that goes on for another leaves the place of that one.
    SuccessorWithoutPlace,
    /// A failed run that is taken up again has a place at once.
    RetryTakesAPlace,
    /// A run that is paused while it waits is let begin all the same.
    PausedInLine,
    /// A run that is held up by its key holds up those with other keys.
    KeyHoldsUpAll,
    /// What begins is not counted for the rate.
    RateForgets,
    /// A limit that is changed counts from the next end on.
    LimitCountsLater,
    /// A clock that was set back holds runs up until it has come as far again.
    ClockHoldsUp,
    /// A run that waits for its place is not woken when its time is over.
    TimeOverInLine,
    /// A run that was started for later before there was a limit begins at its time without asking.
    EarlierUnasked,
}

impl Fault {
    /// Those of the journal, which the crash sweep must notice.
    pub const OF_THE_JOURNAL: &'static [Self] = &[Self::EarlyTicket];

    /// Those of long entries.
    pub const OF_PARTS: &'static [Self] = &[Self::EntryBeforeParts];

    /// Those of the queue, which its conformance suite must notice.
    pub const OF_THE_QUEUE: &'static [Self] = &[
        Self::EndMakesNoRoom,
        Self::SuccessorWithoutPlace,
        Self::RetryTakesAPlace,
        Self::PausedInLine,
        Self::KeyHoldsUpAll,
        Self::RateForgets,
        Self::LimitCountsLater,
        Self::ClockHoldsUp,
        Self::TimeOverInLine,
        Self::EarlierUnasked,
    ];
}

stepwell_core::switch_of_faults!(Fault);
