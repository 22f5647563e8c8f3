//! Threads of their own for guests that compute for long. A run's turn is over in some microseconds as a rule; one that is not gives way
//! at every epoch, and as many of those as there are cores would keep all others waiting for as long. Such a run goes on over here, where
//! the operating system lets whoever has little to do go first, and comes back with the end of its turn.
//!
//! Nothing of a run is done in two places: all that drives it goes along.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle, Runtime};

use crate::last::go_last;

/// The threads of one engine.
pub(crate) struct LongTurns {
    /// There are none before they are needed.
    threads: OnceLock<Option<Runtime>>,
    /// Whether what was just polled on the calling thread waits for nothing but its next poll.
    computes: fn() -> bool,
}

impl Default for LongTurns {
    fn default() -> Self {
        Self { threads: OnceLock::new(), computes: stepwell_host::gave_way }
    }
}

impl LongTurns {
    /// Drives a future that runs guests: here, and over there for as long as they compute.
    pub(crate) async fn carry<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> T {
        let carried = Carried(Arc::new(Mutex::new(Some(Box::pin(future)))));
        loop {
            let computes = self.computes;
            let here = poll_fn(|context| match poll(&carried.0, computes, context) {
                (Poll::Pending, true) => Poll::Ready(None),
                (polled, _) => polled,
            });
            if let Some(end) = here.await {
                return end;
            }
            let Some(threads) = self.threads() else {
                tokio::task::yield_now().await;
                continue;
            };
            let (over_there, here) = (carried.0.clone(), Handle::current());
            let computing = threads.spawn(async move {
                poll_fn(|context| {
                    // Its timers and tasks stay those of the threads that it comes from.
                    let _of_here = here.enter();
                    match poll(&over_there, computes, context) {
                        (Poll::Pending, false) => Poll::Ready(None),
                        (polled, _) => polled,
                    }
                })
                .await
            });
            match computing.await {
                Ok(Some(end)) => return end,
                Ok(None) => {}
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The threads were stopped, and so is all that they did.
                    Err(_) => return std::future::pending().await,
                },
            }
        }
    }

    fn threads(&self) -> Option<&Runtime> {
        let start = || {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let mut builder = Builder::new_multi_thread();
            // A core is left to those who have little to do: however low these threads stand, they are not interrupted at once.
            builder.worker_threads(cores.saturating_sub(1).max(1)).thread_name("long-turns").on_thread_start(|| {
                OVER_THERE.set(true);
                go_last();
            });
            builder
                .build()
                .inspect_err(|error| tracing::warn!(%error, "no threads for long turns: others wait for them"))
                .ok()
        };
        self.threads.get_or_init(start).as_ref()
    }
}

impl Drop for LongTurns {
    fn drop(&mut self) {
        if let Some(Some(threads)) = self.threads.take() {
            // It may be dropped where nobody may wait.
            threads.shutdown_background();
        }
    }
}

/// Goes over to the threads for long turns: what is to be done next is likely to be long.
pub(crate) async fn go_over() {
    if !OVER_THERE.get() {
        give_way_over_there().await;
    }
}

/// The same, and lets others there run: for what is to go on there.
pub(crate) async fn give_way_over_there() {
    GOES_OVER.set(true);
    tokio::task::yield_now().await;
}

/// Leaves the threads for long turns, if this is one: what is to be done next keeps others waiting, as a commit does.
pub(crate) async fn come_back() {
    if OVER_THERE.get() {
        tokio::task::yield_now().await;
    }
}

thread_local! {
    static OVER_THERE: Cell<bool> = const { Cell::new(false) };
    /// What is being polled wants to go over.
    static GOES_OVER: Cell<bool> = const { Cell::new(false) };
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future that is polled in two places, one at a time. It ends with this, wherever it is.
struct Carried<T>(Arc<Mutex<Option<Boxed<T>>>>);

/// What comes of a poll, and whether the future computes on, or is about to.
fn poll<T>(
    carried: &Mutex<Option<Boxed<T>>>,
    computes: fn() -> bool,
    context: &mut Context<'_>,
) -> (Poll<Option<T>>, bool) {
    // What another did on this thread is of no interest.
    let _ = (computes(), GOES_OVER.take());
    let polled = match &mut *lock(carried) {
        Some(future) => future.as_mut().poll(context).map(Some),
        // Nobody waits for it any more.
        None => Poll::Ready(None),
    };
    (polled, GOES_OVER.take() | computes())
}

fn lock<T>(carried: &Mutex<Option<Boxed<T>>>) -> MutexGuard<'_, Option<Boxed<T>>> {
    carried.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Drop for Carried<T> {
    /// Waits for what is being done of it, which is an epoch at most: nothing of it is done after that.
    fn drop(&mut self) {
        drop(lock(&self.0).take());
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    thread_local! {
        static COMPUTES: Cell<bool> = const { Cell::new(false) };
    }

    fn long_turns() -> LongTurns {
        LongTurns { threads: OnceLock::new(), computes: || COMPUTES.take() }
    }

    /// Gives way once, as a guest does at an epoch.
    async fn give_way() {
        let mut given = false;
        poll_fn(|context| {
            if std::mem::replace(&mut given, true) {
                return Poll::Ready(());
            }
            COMPUTES.set(true);
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    fn over_there() -> bool {
        thread::current().name() == Some("long-turns")
    }

    #[tokio::test]
    async fn what_computes_goes_on_over_there_and_comes_back_to_wait() {
        let long = long_turns();
        let carried = long.carry(async {
            let mut where_it_was = vec![over_there()];
            give_way().await;
            where_it_was.push(over_there());
            give_way().await;
            where_it_was.push(over_there());
            come_back().await;
            where_it_was.push(over_there());
            give_way().await;
            // Timers and tasks of where it comes from are there in both places.
            let task = tokio::spawn(async { over_there() });
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            where_it_was.extend([over_there(), task.await.unwrap(), over_there()]);
            where_it_was
        });
        assert_eq!(carried.await, [false, true, true, false, false, false, false]);
    }

    #[tokio::test]
    async fn what_is_likely_to_be_long_begins_over_there() {
        let long = long_turns();
        let carried = long.carry(async {
            let mut where_it_was = vec![over_there()];
            for _ in 0..2 {
                go_over().await;
                where_it_was.push(over_there());
                // It is there already.
                go_over().await;
                give_way_over_there().await;
                where_it_was.push(over_there());
                come_back().await;
                where_it_was.push(over_there());
            }
            where_it_was
        });
        assert_eq!(carried.await, [false, true, true, false, true, true, false]);
    }

    /// Says when it is dropped.
    struct Dropped(Arc<AtomicBool>);

    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[tokio::test]
    async fn nothing_of_it_is_done_once_it_is_dropped() {
        let (gone, long) = (Arc::new(AtomicBool::new(false)), long_turns());
        let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
        let dropped = Dropped(gone.clone());
        let endless = long.carry(async move {
            let _dropped = dropped;
            loop {
                give_way().await;
                started.send(over_there()).unwrap();
            }
        });
        tokio::select! {
            () = endless => {}
            there = has_started.recv() => assert_eq!(there, Some(true)),
        }
        assert!(gone.load(Ordering::SeqCst), "it is dropped with what waited for it");
    }

    #[tokio::test]
    #[should_panic(expected = "over there")]
    async fn a_panic_over_there_is_one_here() {
        let () = long_turns()
            .carry(async {
                give_way().await;
                assert!(!over_there(), "over there");
            })
            .await;
    }
}
