//! Running the guest's futures: no threads, no wakers, polled in a fixed order until nothing moves.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use stepwell_core::contract::AttemptRef;

/// A future of the guest's.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;

/// A body, or the workflow's function.
pub struct Task {
    /// Whose body; none for the workflow's function.
    pub attempt: Option<AttemptRef>,
    /// What is left of it.
    pub future: Boxed<()>,
}

impl Task {
    /// Polls it once. Whether it is over.
    pub fn poll(&mut self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.future.as_mut().poll(&mut context).is_ready()
    }
}

/// One of several that are awaited together.
type Part<E> = Boxed<Result<(), E>>;

/// All of them; or, if `fail_fast`, the first error, and then the others are dropped.
pub async fn all<E: Clone>(parts: Vec<Boxed<Result<(), E>>>, fail_fast: bool) -> Result<(), E> {
    let mut parts: Vec<(Option<Part<E>>, Option<E>)> = parts.into_iter().map(|p| (Some(p), None)).collect();
    poll_fn(move |context| {
        for (part, error) in &mut parts {
            if let Some(future) = part
                && let Poll::Ready(result) = future.as_mut().poll(context)
            {
                *part = None;
                *error = result.err();
                if fail_fast && let Some(error) = error {
                    return Poll::Ready(Err(error.clone()));
                }
            }
        }
        if parts.iter().any(|(part, _)| part.is_some()) {
            return Poll::Pending;
        }
        Poll::Ready(parts.iter().find_map(|(_, error)| error.clone()).map_or(Ok(()), Err))
    })
    .await
}

/// The first that is ready, by place.
pub async fn first<T>(mut parts: Vec<Boxed<T>>) -> (usize, T) {
    poll_fn(move |context| {
        for (at, part) in parts.iter_mut().enumerate() {
            if let Poll::Ready(value) = part.as_mut().poll(context) {
                return Poll::Ready((at, value));
            }
        }
        Poll::Pending
    })
    .await
}
