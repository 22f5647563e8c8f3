//! A run's slice of its thread. A turn that computes gives way at every epoch; turns that follow one another without waiting for
//! anything give way here, or a run of many short ones would keep all others on its thread from theirs.

use std::time::{Duration, Instant};

/// Less than between two epochs: to give way costs little, and what others do meanwhile is short as a rule.
const SLICE: Duration = Duration::from_millis(1);

pub(crate) struct Slice(Instant);

impl Slice {
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Whether it is used up.
    pub(crate) fn is_over(&self) -> bool {
        self.0.elapsed() >= SLICE
    }

    /// Lets others run, and begins the next.
    pub(crate) async fn give_way(&mut self) {
        tokio::task::yield_now().await;
        *self = Self::begin();
    }
}
