//! Where events wait for the guest: one place, read by both forms of `next`.
//!
//! It knows whether a `next` is pending, which is half of what makes a guest quiet. The other half, that nothing else is left to
//! run, is proven where the guest is polled.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use stepwell_core::contract::Event;

use crate::trap::Stop;

#[derive(Default)]
pub(crate) struct Port(Mutex<State>);

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// There is a `next` that has not been answered.
    pending: bool,
    waker: Option<Waker>,
}

impl Port {
    /// Gives the guest an event: to its pending `next`, or to the next one.
    pub(crate) fn deliver(&self, event: Event) {
        let mut state = self.state();
        state.events.push_back(event);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Whether the guest is in `next`.
    pub(crate) fn is_pending(&self) -> bool {
        self.state().pending
    }

    /// The guest's `next`.
    ///
    /// # Errors
    /// When one is pending already.
    pub(crate) fn next(&self) -> Result<Next<'_>, Stop> {
        let mut state = self.state();
        if std::mem::replace(&mut state.pending, true) {
            return Err(Stop::SecondNext);
        }
        Ok(Next { port: self, yielded: false })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock; if something did, the state would still be whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pending `next`. Dropped unanswered (the guest cancelled its call) it leaves the place free and no event is lost.
pub(crate) struct Next<'a> {
    port: &'a Port,
    yielded: bool,
}

impl Future for Next<'_> {
    type Output = Event;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Event> {
        let mut state = self.port.state();
        // An async import that is answered at its first poll is answered before the guest's other jobs have run.
        let first = !self.yielded;
        if !first && let Some(event) = state.events.pop_front() {
            return Poll::Ready(event);
        }
        if first && !state.events.is_empty() {
            context.waker().wake_by_ref();
        }
        state.waker = Some(context.waker().clone());
        drop(state);
        self.yielded = true;
        Poll::Pending
    }
}

impl Drop for Next<'_> {
    fn drop(&mut self) {
        let mut state = self.port.state();
        state.pending = false;
        state.waker = None;
    }
}
