//! One listener for the journal entries of all runs, for traces: it is told what is durable, and must not wait.

use std::fmt;
use std::sync::Arc;

use stepwell_core::journal::entry::Entry;
use stepwell_store::RunKey;

type See = dyn Fn(RunKey, u64, &Entry) + Send + Sync;

/// Who is told of every entry that this process writes, with the entry's number, once it is durable. An entry with which a run is
/// started is not among them: the journal has it. Nobody by default, which costs nothing.
#[derive(Clone, Default)]
pub struct Tap(Option<Arc<See>>);

impl Tap {
    /// Tells `see`. It is called by the tasks that tell watchers, so it must return at once.
    #[must_use]
    pub fn new(see: impl Fn(RunKey, u64, &Entry) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(see)))
    }

    pub(crate) fn listens(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn see(&self, run: RunKey, seq: u64, entry: &Entry) {
        if let Some(see) = &self.0 {
            see(run, seq, entry);
        }
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.listens() { "Tap(listening)" } else { "Tap" })
    }
}
