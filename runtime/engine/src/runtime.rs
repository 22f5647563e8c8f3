//! The threads that runs are driven on.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};

/// Polls after which a thread looks for what came from outside: sockets, timers, and what other threads have woken. A guest that
/// computes gives way after some milliseconds, so that with tokio's own 61 whatever else waits would do so for over half a second beside a few of
/// those. A look costs about a microsecond.
const POLLS_BETWEEN: u32 = 4;

/// A runtime whose tasks may be guests that compute for long. `give_back` is called on its threads, each for itself and without any task
/// under way on it, once much was done and nothing is left to do: to give back what the program's allocator keeps for that thread.
///
/// # Errors
/// When the operating system has no threads left for it.
pub fn runtime(give_back: fn()) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().event_interval(POLLS_BETWEEN).global_queue_interval(POLLS_BETWEEN);
    builder.on_thread_park(move || {
        let rests = RESTS.load(Relaxed);
        if SEEN.replace(rests) != rests {
            give_back();
        }
    });
    builder.build()
}

/// How often the process has come to rest.
static RESTS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// How often this thread has heard of it.
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// There is nothing left to do. Threads that have been at rest for a while are woken, so that each hears of it.
pub(crate) async fn rest() {
    const TIMES: usize = 4;
    RESTS.fetch_add(1, Relaxed);
    for _ in 0..TIMES {
        // More than one for each, since a thread keeps the latest for itself.
        for _ in 0..2 * Handle::current().metrics().num_workers() {
            tokio::spawn(std::future::ready(()));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
