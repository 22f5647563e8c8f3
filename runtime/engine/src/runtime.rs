//! The threads that runs are driven on.

use tokio::runtime::{Builder, Runtime};

/// Polls after which a thread looks for what came from outside: sockets, timers, and what other threads have woken. A guest that
/// computes gives way after some milliseconds, so that with tokio's own 61 whatever else waits would do so for over half a second beside a few of
/// those. A look costs about a microsecond.
const POLLS_BETWEEN: u32 = 4;

/// A runtime whose tasks may be guests that compute for long.
///
/// # Errors
/// When the operating system has no threads left for it.
pub fn runtime() -> std::io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().event_interval(POLLS_BETWEEN).global_queue_interval(POLLS_BETWEEN);
    builder.build()
}
