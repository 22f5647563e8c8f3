//! A run's slice of its thread. A turn that computes gives way at every epoch; turns that follow one another without waiting for
//! anything give way here, or a run of many short ones would keep all others on its thread from theirs.

use std::time::{Duration, Instant};

/// As long as between two epochs.
const SLICE: Duration = Duration::from_millis(10);

pub(crate) struct Slice(Instant);

impl Slice {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Lets others run, if this slice is used up.
    pub(crate) async fn give_way(&mut self) {
        if self.0.elapsed() >= SLICE {
            tokio::task::yield_now().await;
            *self = Self::begin();
        }
    }
}
