//! Planted faults for the mutation tests: each breaks one rule, and each must be caught by the simulator.
//!
//! Without the feature `planted-faults` every question is answered `false` at compile time.

/// A rule to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A later refusal makes an unknown effect not done.
    UnknownNotSticky,
    /// A repetition after an unknown outcome gets a new key.
    RenewUnknownKey,
    /// A `once` effect of unknown outcome is sent again.
    ResendOnce,
    /// A done and recorded request is sent again.
    IgnoreRecordedAnswer,
    /// A request leaves before its dispatch is in the journal.
    SendBeforeRecord,
    /// Timers fire a little early.
    EarlyTimer,
    /// A retry does not wait for its due time.
    EarlyAttempt,
    /// A step that succeeded is attempted again after a restart.
    RerunCompleted,
    /// Replay delivers in the order of the operations, not of the journal.
    ReplayOutOfOrder,
    /// Replay passes a delivery over where another follows.
    SkipDelivery,
    /// Commands are not compared on replay.
    SkipMismatch,
    /// One attempt more than the policy allows.
    ExtraAttempt,
    /// A late answer of a closed attempt counts.
    LateFinish,
    /// A non-retriable failure is retried.
    RetryNonRetriable,
    /// An event that a race's loser held is lost.
    DropEvent,
    /// A key is used for longer than the other side knows it.
    DeadKey,
    /// A request is sent again while the same one is under way.
    RepeatUnderWay,
    /// A key that dies while its request waits to leave is used all the same.
    DeadKeyAtSend,
    /// A step that was closed or cancelled while its attempt ended is attempted again.
    RetryAbandoned,
    /// The attempt after a trap shares the instance with other bodies.
    ShareAfterTrap,
    /// A result counts although a request that its body never heard of may have happened.
    AcceptUnheard,
    /// `maxMs` shortens what a body asked to wait.
    ClampRetryAfter,
    /// An event goes to the newest wait of its name.
    NewestWaitFirst,
    /// The workflow is told to cancel while attempts are under way.
    CancelTooEarly,
    /// The workflow is told to cancel before it is known what became of an event that it sent.
    CancelBeforeReply,
    /// An event to another run is sent again when its workflow replays.
    SendAgain,
    /// What became of an operation on another run is recorded, and the operation stays open.
    DropReply,
    /// A child is started again when its parent replays.
    StartAgain,
    /// A child goes on whose parent's workflow has closed it.
    CloseLeavesChild,
    /// A child goes on whose parent's workflow was told to cancel.
    CancelLeavesChild,
    /// A run goes on in another although it was asked to cancel.
    ContinueCancelled,
    /// What came for a run and was not made use of is lost when another goes on.
    ContinueDropsEvents,
    /// A run's end is recorded while its requests are under way.
    EndTooEarly,
    /// A paused run's workflow is told things.
    DeliverWhilePaused,
    /// A paused run's timers fire.
    FireWhilePaused,
    /// A request to cancel that comes during replay is kept in memory alone.
    CancelInMemory,
    /// A terminated run's bodies go on.
    TerminateLetsRun,
    /// A run that has ended still waits for a time.
    TimerAfterEnd,
    /// What may have happened is forgotten with the run's end.
    UnknownForgottenAtEnd,
    /// A person's word overrules what is known of a step.
    ResolveAnyStep,
    /// A retry by a person gets a new key although the old one lives.
    ResolveRenews,
    /// A step that a person would have tried again, and that nobody attempts any more, counts as not done.
    GivenUpIsNotDone,
    /// A `keyed` step repeats what was sent for a step of its id that was not.
    TrustOtherClass,
    /// What was done for a step is forgotten when its run is taken back to before it.
    VoidStepForgotten,
    /// An event is lost with the wait that had it, when its run is taken back to before that.
    EventVoidWithItsWait,
    /// A failed run that is taken up again fails by the same failure.
    RetryKeepsFailure,
    /// A restored run's steps that were not over are attempted again, whatever followed the copy.
    TrustOpenSteps,
    /// A restored run's steps that were unknown in the copy are taken for what the copy knows of them.
    TrustUnknownSteps,
    /// A restored run's later steps are attempted, although they may have been after the copy.
    TrustNewSteps,
    /// A restored run's steps that had failed are attempted again with it, although they may have been after the copy.
    TrustRewoundSteps,
    /// A run that had failed when it was restored is taken up again as if it had never been.
    RetryForgetsRestore,
    /// A restored run's keys are those that may have been issued after the copy.
    SameKeysAfterRestore,
    /// A restored run's attempts have the numbers of those after the copy.
    SameNumbersAfterRestore,
    /// A restored run goes on by itself.
    RestoreGoesOn,
    /// A failed run that is taken up again waits for a child that has ended without a result.
    ChildNotAgain,
    /// The replay of what another run has lived through shows a rerun its own id and random numbers.
    RerunSeesItself,
    /// A step of a rerun goes on from what the other run did for a step that is void.
    RerunGoesOnFromVoid,
    /// What the other run found out after the cut, of what was begun before it, is forgotten by its rerun.
    RerunForgetsResults,
    /// What was done after the cut is done again by a rerun, and nobody has confirmed it.
    RerunUnconfirmed,
    /// A rerun's journal is cut after the step's beginning.
    RerunCutLate,
    /// A request to cancel the other run cancels its rerun.
    RerunCancelled,
    /// A rerun's keys are those of the other run.
    RerunUnderOldKeys,
}

impl Fault {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::UnknownNotSticky,
        Self::RenewUnknownKey,
        Self::ResendOnce,
        Self::IgnoreRecordedAnswer,
        Self::SendBeforeRecord,
        Self::EarlyTimer,
        Self::EarlyAttempt,
        Self::RerunCompleted,
        Self::ReplayOutOfOrder,
        Self::SkipDelivery,
        Self::SkipMismatch,
        Self::ExtraAttempt,
        Self::LateFinish,
        Self::RetryNonRetriable,
        Self::DropEvent,
        Self::DeadKey,
        Self::RepeatUnderWay,
        Self::DeadKeyAtSend,
        Self::RetryAbandoned,
        Self::ShareAfterTrap,
        Self::AcceptUnheard,
        Self::ClampRetryAfter,
        Self::NewestWaitFirst,
        Self::CancelTooEarly,
        Self::CancelBeforeReply,
        Self::SendAgain,
        Self::DropReply,
        Self::StartAgain,
        Self::CloseLeavesChild,
        Self::CancelLeavesChild,
        Self::ContinueCancelled,
        Self::ContinueDropsEvents,
        Self::EndTooEarly,
        Self::DeliverWhilePaused,
        Self::FireWhilePaused,
        Self::CancelInMemory,
        Self::TerminateLetsRun,
        Self::TimerAfterEnd,
        Self::UnknownForgottenAtEnd,
        Self::ResolveAnyStep,
        Self::ResolveRenews,
        Self::GivenUpIsNotDone,
        Self::TrustOtherClass,
        Self::VoidStepForgotten,
        Self::EventVoidWithItsWait,
        Self::RetryKeepsFailure,
        Self::TrustOpenSteps,
        Self::TrustUnknownSteps,
        Self::TrustNewSteps,
        Self::TrustRewoundSteps,
        Self::RetryForgetsRestore,
        Self::SameKeysAfterRestore,
        Self::SameNumbersAfterRestore,
        Self::RestoreGoesOn,
        Self::ChildNotAgain,
        Self::RerunSeesItself,
        Self::RerunGoesOnFromVoid,
        Self::RerunForgetsResults,
        Self::RerunUnconfirmed,
        Self::RerunCutLate,
        Self::RerunCancelled,
        Self::RerunUnderOldKeys,
    ];
}

/// The switch of a crate's planted faults: `plant` for its mutation tests, `planted` for the places that would break a rule. Which
/// crate's feature `planted-faults` counts is that of the caller.
#[doc(hidden)]
#[macro_export]
macro_rules! switch_of_faults {
    ($fault:ident) => {
        #[cfg(feature = "planted-faults")]
        mod switch {
            use super::$fault;
            use std::cell::Cell;

            thread_local! {
                static PLANTED: Cell<Option<$fault>> = const { Cell::new(None) };
            }

            /// Plants a fault in this thread, or takes it away.
            pub fn plant(fault: Option<$fault>) {
                PLANTED.set(fault);
            }

            pub(crate) fn planted(fault: $fault) -> bool {
                PLANTED.get() == Some(fault)
            }
        }

        #[cfg(not(feature = "planted-faults"))]
        mod switch {
            use super::$fault;

            pub(crate) const fn planted(_: $fault) -> bool {
                false
            }
        }

        #[cfg(feature = "planted-faults")]
        pub use switch::plant;
        pub(crate) use switch::planted;
    };
}

switch_of_faults!(Fault);
