//! Moments at which a test may let this process "die", or drop an instance: the seams of the crash sweep.
//!
//! Without the feature `crash-points` nothing observes, and every question is answered at compile time.

/// A moment of a run's task, or of the task that wakes runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Moment {
    /// A run is about to be taken up; its journal has not been read.
    TakingUp,
    /// Its rebuild is recorded and durable; nothing has been replayed.
    Rebuilt,
    /// What led to a request is durable; none of it has left.
    Sending,
    /// The request is over; its run does not know.
    Sent,
    /// The run's task has taken the request's end from its queue; nothing is recorded.
    Settling,
    /// The request's end is in the machine's journal, and queued.
    Settled,
    /// Something of a live run has fallen due; nothing is recorded.
    Due,
    /// A run is about to be left, and all that it wrote is durable.
    Parking,
    /// A run that waits has come to its time.
    Waking,
    /// Something is durable and about to be shown to the run's watchers.
    Showing,
    /// The run's task ends; all that it wrote is durable.
    Leaving,
}

#[cfg(feature = "crash-points")]
mod seam {
    use std::sync::Arc;

    use super::Moment;

    /// Looks on, and decides what happens.
    pub trait Observer: Send + Sync {
        /// Whether the process lives on after this moment. Once it does not, nothing of it may reach the network any more; that
        /// nothing reaches the disk is for the observer's own ledger to see to.
        fn reach(&self, moment: Moment) -> bool;

        /// Whether the instance of a quiet run with no body under way is dropped here, and built anew.
        fn drops_here(&self) -> bool;
    }

    /// Who looks on.
    #[derive(Clone, Default)]
    pub struct Points(Option<Arc<dyn Observer>>);

    impl Points {
        /// To be observed by this one.
        #[must_use]
        pub fn observed_by(observer: Arc<dyn Observer>) -> Self {
            Self(Some(observer))
        }

        /// For moments at which nothing has to be held back.
        pub(crate) fn mark(&self, moment: Moment) {
            if let Some(observer) = &self.0 {
                let _ = observer.reach(moment);
            }
        }

        /// Never returns once the process is dead.
        pub(crate) async fn pass(&self, moment: Moment) {
            if self.0.as_ref().is_some_and(|observer| !observer.reach(moment)) {
                std::future::pending::<()>().await;
            }
        }

        pub(crate) fn drops_here(&self) -> bool {
            self.0.as_ref().is_some_and(|observer| observer.drops_here())
        }
    }

    impl std::fmt::Debug for Points {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(if self.0.is_some() { "observed" } else { "unobserved" })
        }
    }
}

#[cfg(not(feature = "crash-points"))]
mod seam {
    use super::Moment;

    /// Nobody looks on.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct Points;

    impl Points {
        pub(crate) const fn mark(self, _: Moment) {}

        pub(crate) fn pass(self, _: Moment) -> std::future::Ready<()> {
            std::future::ready(())
        }

        pub(crate) const fn drops_here(self) -> bool {
            false
        }
    }
}

#[cfg(feature = "crash-points")]
pub use seam::Observer;
pub use seam::Points;
