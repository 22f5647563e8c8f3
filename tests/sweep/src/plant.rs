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
        let engine = EngineFault::ALL.iter().copied().map(Self::Engine);
        let store = StoreFault::ALL.iter().copied().map(Self::Store);
        core.into_iter().map(Self::Core).chain(engine).chain(store).collect()
    }
}
