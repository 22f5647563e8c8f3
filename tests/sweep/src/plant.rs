//! Planting a fault in the thread that a case runs on.

use stepwell_core::fault::Fault as CoreFault;
use stepwell_engine::fault::Fault as EngineFault;
use stepwell_engine::store::fault::Fault as StoreFault;

/// A rule that is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// By the run's state machine.
    Core(CoreFault),
    /// By the engine.
    Engine(EngineFault),
    /// By the store.
    Store(StoreFault),
}

impl Planted {
    /// Whatever was planted in this thread is gone.
    pub fn nothing() {
        stepwell_core::fault::plant(None);
        stepwell_engine::fault::plant(None);
        stepwell_engine::store::fault::plant(None);
    }

    /// Breaks the rule in this thread, from now on.
    pub fn plant(self) {
        match self {
            Self::Core(fault) => stepwell_core::fault::plant(Some(fault)),
            Self::Engine(fault) => stepwell_engine::fault::plant(Some(fault)),
            Self::Store(fault) => stepwell_engine::store::fault::plant(Some(fault)),
        }
    }

    /// All that a sweep must notice: those of engine and store, and those of the machine that break what a restart or the other side
    /// relies on. The simulator has the others.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let core = [
            CoreFault::RenewUnknownKey,
            CoreFault::IgnoreRecordedAnswer,
            CoreFault::SendBeforeRecord,
            CoreFault::RerunCompleted,
            CoreFault::ReplayOutOfOrder,
            CoreFault::SkipDelivery,
        ];
        let engine = EngineFault::OF_RUNS.iter().copied().map(Self::Engine);
        let store = StoreFault::OF_THE_JOURNAL.iter().copied().map(Self::Store);
        core.into_iter().map(Self::Core).chain(engine).chain(store).collect()
    }

    /// All that a run must notice that writes long entries.
    #[must_use]
    pub fn of_parts() -> Vec<Self> {
        StoreFault::OF_PARTS.iter().copied().map(Self::Store).collect()
    }

    /// All that the stories of runs that wait for a place must notice.
    #[must_use]
    pub fn of_the_queue() -> Vec<Self> {
        let store = [StoreFault::EndMakesNoRoom, StoreFault::SuccessorWithoutPlace];
        let engine = EngineFault::OF_THE_QUEUE.iter().copied().map(Self::Engine);
        engine.chain(store.map(Self::Store)).collect()
    }

    /// All that a schedule whose process dies must show.
    #[must_use]
    pub fn of_schedules() -> Vec<Self> {
        EngineFault::OF_SCHEDULES.iter().copied().map(Self::Engine).collect()
    }
}
