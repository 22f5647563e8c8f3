//! What a process does once it has nothing left to do: memory that much work has left behind is given back, by each of the threads
//! that may have kept some (`runtime.rs`). Nothing is looked for while runs begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::runtime;
use crate::watch::Watchers;

/// Nothing has begun for so long: a process between two bursts keeps what it will need again.
const REST: Duration = Duration::from_secs(2);
/// So many runs have been taken up since the last rest. What fewer leave behind is not worth the way.
const MUCH: u64 = 64;

/// Of one engine.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Runs that have been taken up since the last rest. Where there are any, a task waits for the next.
    begun: AtomicU64,
}

impl Rest {
    /// A run is taken up.
    pub(crate) fn works(self: &Arc<Self>, watchers: &Arc<Watchers>) {
        if self.begun.fetch_add(1, Relaxed) == 0 {
            let (rest, watchers) = (self.clone(), watchers.clone());
            tokio::spawn(async move { rest.comes(&watchers).await });
        }
    }

    /// Waits until nothing begins any more.
    async fn comes(&self, watchers: &Watchers) {
        loop {
            let begun = self.begun.load(Relaxed);
            tokio::time::sleep(REST).await;
            // Whoever begins after this finds nothing, and has a task of its own wait.
            if self.begun.compare_exchange(begun, 0, Relaxed, Relaxed).is_ok() {
                if begun >= MUCH {
                    watchers.rest();
                    runtime::rest().await;
                }
                return;
            }
        }
    }
}
