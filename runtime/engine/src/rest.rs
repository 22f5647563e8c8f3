//! What a process does once it has nothing left to do: memory that much work has left behind is given back, by each of the threads
//! that may have kept some (`runtime.rs`). Nothing is looked for while runs begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::runtime;

/// Nothing has begun for so long: a process between two bursts keeps what it will need again.
const REST: Duration = Duration::from_secs(2);
/// So many runs have begun since the last rest. What fewer leave behind is not worth the way.
const MUCH: u64 = 64;

/// Of one engine.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    begun: AtomicU64,
    /// There is a task that waits for the end of the work.
    watched: AtomicBool,
}

impl Rest {
    /// A run is taken up.
    pub(crate) fn works(self: &Arc<Self>) {
        self.begun.fetch_add(1, SeqCst);
        if !self.watched.swap(true, SeqCst) {
            let rest = self.clone();
            tokio::spawn(async move { rest.comes().await });
        }
    }

    /// Waits until nothing begins any more.
    async fn comes(&self) {
        let (before, mut last) = (self.begun.load(SeqCst) - 1, 0);
        loop {
            while last != self.begun.load(SeqCst) {
                last = self.begun.load(SeqCst);
                tokio::time::sleep(REST).await;
            }
            self.watched.store(false, SeqCst);
            // Whoever began before that has left the waiting to this task.
            if last == self.begun.load(SeqCst) || self.watched.swap(true, SeqCst) {
                break;
            }
        }
        if last - before >= MUCH {
            runtime::rest().await;
        }
    }
}
