//! The memory of all live instances together: who may come to life waits here until there is room.
//!
//! What an instance takes is counted by its linear memories, whole; of an image that it shares with others less may be resident.
//! An instance that lives is never refused what its own limits allow, so a total may be over the limit for a while.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The total, and those who wait for it to fall.
pub(crate) struct Memory {
    limit: usize,
    in_use: Mutex<usize>,
    freed: Notify,
}

/// What one instance after another of a run has of the total. Given back when this is dropped.
pub struct MemoryShare {
    memory: Option<Arc<Memory>>,
    bytes: AtomicUsize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, in_use: Mutex::new(0), freed: Notify::new() }
    }

    /// Waits until there is room for this much. Where nothing else lives there is always room, so that nobody waits for ever.
    pub(crate) async fn admit(self: &Arc<Self>, bytes: usize) -> MemoryShare {
        loop {
            let freed = self.freed.notified();
            {
                let mut in_use = self.in_use();
                if *in_use == 0 || in_use.saturating_add(bytes) <= self.limit {
                    *in_use = in_use.saturating_add(bytes);
                    return MemoryShare { memory: Some(self.clone()), bytes: AtomicUsize::new(bytes) };
                }
            }
            freed.await;
        }
    }

    fn in_use(&self) -> MutexGuard<'_, usize> {
        self.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryShare {
    /// A share of no total: it only says what an instance has.
    #[must_use]
    pub fn uncounted() -> Self {
        Self { memory: None, bytes: AtomicUsize::new(0) }
    }

    /// The most that an instance has had.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// An instance has grown to this.
    pub(crate) fn grown_to(&self, total: usize) {
        let more = total.saturating_sub(self.bytes.fetch_max(total, Relaxed));
        if let (1.., Some(memory)) = (more, &self.memory) {
            *memory.in_use() += more;
        }
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            *memory.in_use() -= self.bytes();
            memory.freed.notify_waiters();
        }
    }
}

impl std::fmt::Debug for MemoryShare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryShare").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;

    #[tokio::test]
    async fn who_does_not_fit_waits_until_somebody_has_gone() {
        let memory = Arc::new(Memory::new(100));
        let first = memory.admit(60).await;
        let second = memory.admit(30).await;
        second.grown_to(40);
        let mut third = pin!(memory.admit(1));
        assert!(poll_fn(|cx| Poll::Ready(third.as_mut().poll(cx).is_pending())).await, "100 of 100 are taken");
        drop(first);
        let third = third.await;
        assert_eq!(*memory.in_use(), 41);
        drop((second, third));
        assert_eq!(*memory.in_use(), 0);
    }

    #[tokio::test]
    async fn one_alone_is_let_in_however_large_it_is() {
        let memory = Arc::new(Memory::new(100));
        let large = memory.admit(1_000).await;
        assert_eq!((large.bytes(), *memory.in_use()), (1_000, 1_000));
        // A rebuilt instance begins small again; its run keeps what it once needed.
        large.grown_to(10);
        assert_eq!(*memory.in_use(), 1_000);
    }
}
