//! Waiting for the disk, with a runtime or without one.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use crate::error::Result;
use crate::lanes::Place;
use crate::rows::RunKey;

/// A queued batch. To be given to [`Store::durable`](crate::Store::durable) of the store that it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    pub(crate) place: Place,
    /// The number of the first of its parts, or its own.
    pub(crate) first: u64,
    pub(crate) run: RunKey,
}

/// An answer that comes when what it speaks of is durable.
///
/// Awaiting it has what is queued committed once the tasks that are ready have had their turn; on the awaiting thread if nobody else
/// waits or is committing: at most one thread is ever kept by that, for the time of one commit. It needs no runtime. Dropping it takes
/// nothing back.
#[must_use = "nothing is known to be durable until this has been awaited"]
pub struct Pending<T>(Pin<Box<dyn Future<Output = Result<T>> + Send>>);

impl<T> Pending<T> {
    pub(crate) fn new(future: impl Future<Output = Result<T>> + Send + 'static) -> Self {
        Self(Box::pin(future))
    }

    /// Blocks the thread until the answer is there.
    ///
    /// # Errors
    /// Those of the method that it came from.
    pub fn wait(self) -> Result<T> {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        // Called from within a task, the task's budget must not apply: it is only renewed when the task returns.
        let mut future = pin!(tokio::task::unconstrained(self.0));
        loop {
            BLOCKS.set(true);
            let polled = future.as_mut().poll(&mut context);
            BLOCKS.set(false);
            match polled {
                Poll::Ready(answer) => return answer,
                Poll::Pending => thread::park(),
            }
        }
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// This thread waits for an answer, and runs no task until that is there.
    static BLOCKS: Cell<bool> = const { Cell::new(false) };
}

/// Lets the tasks go first that are ready on this thread.
pub(crate) async fn give_way() {
    // Its runtime would wake a thread that blocks when that has nothing else to do, which is never.
    if !BLOCKS.get() {
        tokio::task::yield_now().await;
    }
}
