//! How far writes have come, and who waits for that. A waiter is woken once, when its own write has settled: with many of them a
//! commit that is not theirs is no business of theirs.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Every write with a number up to this one has been committed or has failed. It only grows.
#[derive(Default)]
pub(crate) struct Settled {
    /// Changed under the lock of `waiting`, so that nobody begins to wait for what has just come.
    last: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// By the write that is waited for, and a number of the waiter's own.
    wakers: BTreeMap<(u64, u64), Waker>,
    last_waiter: u64,
}

impl Settled {
    pub(crate) fn has(&self, number: u64) -> bool {
        self.last.load(Ordering::Acquire) >= number
    }

    /// Wakes those who waited for this, and nobody else.
    pub(crate) fn move_to(&self, number: u64) {
        let woken = {
            let mut waiting = self.waiting();
            self.last.store(number, Ordering::Release);
            let later = waiting.wakers.split_off(&(number.saturating_add(1), 0));
            std::mem::replace(&mut waiting.wakers, later)
        };
        woken.into_values().for_each(Waker::wake);
    }

    /// Returns when the write with this number has settled.
    pub(crate) fn wait_for(&self, number: u64) -> impl Future<Output = ()> + Send {
        Wait { settled: self, number, waiter: None }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics under the lock but for want of memory, and then what is in it is still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Wait<'a> {
    settled: &'a Settled,
    number: u64,
    /// Its own number, once it waits.
    waiter: Option<u64>,
}

impl Future for Wait<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let (settled, number) = (self.settled, self.number);
        if settled.has(number) {
            return Poll::Ready(());
        }
        let mut waiting = settled.waiting();
        if settled.has(number) {
            return Poll::Ready(());
        }
        let waiter = *self.waiter.get_or_insert_with(|| {
            waiting.last_waiter += 1;
            waiting.last_waiter
        });
        waiting.wakers.insert((number, waiter), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter
            && !self.settled.has(self.number)
        {
            self.settled.waiting().wakers.remove(&(self.number, waiter));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;
    use std::thread;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_waits_is_woken_once_and_by_its_own_write() {
        let settled = Settled::default();
        let (early, late) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
        let (for_early, for_late) = (Waker::from(early.clone()), Waker::from(late.clone()));
        let (mut early_wait, mut late_wait) = (pin!(settled.wait_for(3)), pin!(settled.wait_for(7)));
        // However often it is polled meanwhile.
        for _ in 0..2 {
            assert!(early_wait.as_mut().poll(&mut Context::from_waker(&for_early)).is_pending());
            assert!(late_wait.as_mut().poll(&mut Context::from_waker(&for_late)).is_pending());
        }
        let woken = || (early.0.load(Ordering::SeqCst), late.0.load(Ordering::SeqCst));
        settled.move_to(2);
        assert_eq!(woken(), (0, 0));
        settled.move_to(5);
        assert_eq!(woken(), (1, 0));
        assert!(early_wait.as_mut().poll(&mut Context::from_waker(&for_early)).is_ready());
        settled.move_to(7);
        assert_eq!(woken(), (1, 1));
        assert!(late_wait.as_mut().poll(&mut Context::from_waker(&for_late)).is_ready());
        assert!(pin!(settled.wait_for(7)).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn whoever_goes_leaves_nothing_behind() {
        let settled = Settled::default();
        {
            let mut wait = pin!(settled.wait_for(1));
            assert!(wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            assert_eq!(settled.waiting().wakers.len(), 1);
        }
        assert_eq!(settled.waiting().wakers.len(), 0);
    }

    #[test]
    fn nobody_misses_what_comes_while_they_begin_to_wait() {
        const WRITES: u64 = 20_000;
        let settled = Settled::default();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                    runtime.block_on(async {
                        for number in 1..=WRITES {
                            settled.wait_for(number).await;
                        }
                    });
                });
            }
            for number in 1..=WRITES {
                settled.move_to(number);
                if number % 64 == 0 {
                    thread::yield_now();
                }
            }
        });
    }
}
