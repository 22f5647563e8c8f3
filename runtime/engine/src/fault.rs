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
    /// Recovery leaves runs alone that were given their place as the process died.
    ForgetAdmitted,
    /// Recovery does not look whether time has made room for runs that wait.
    ForgetTheLine,
    /// A schedule's run is started before the schedule is moved on, and not with it.
    FireApart,
    /// A schedule is moved on before its run is started, and not with it.
    MoveOnFirst,
    /// Times that a schedule passes over are not counted.
    PassUncounted,
}

impl Fault {
    /// Those of runs by themselves.
    pub const OF_RUNS: &'static [Self] = &[
        Self::SendBeforeDurable,
        Self::ShowBeforeDurable,
        Self::ParkBeforeDurable,
        Self::ForgetTimers,
        Self::ForgetRunning,
        Self::ForgetSettlements,
    ];

    /// Those of runs that wait for a place.
    pub const OF_THE_QUEUE: &'static [Self] = &[Self::ForgetAdmitted, Self::ForgetTheLine];

    /// Those of schedules.
    pub const OF_SCHEDULES: &'static [Self] = &[Self::FireApart, Self::MoveOnFirst, Self::PassUncounted];
}

stepwell_core::switch_of_faults!(Fault);

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
