//! The signal that ends a request under way: its attempt was closed, nobody may learn its answer any more.
//!
//! It says that the request is to end, not how far it got: that is the wire's.

use tokio::sync::watch;

/// Fires the [`Teardown`]s that were made with it. Dropped without firing it leaves them as they are.
#[derive(Debug)]
pub struct TeardownHandle(watch::Sender<bool>);

/// Given to a request; clones fire together.
#[derive(Debug, Clone)]
pub struct Teardown(Option<watch::Receiver<bool>>);

impl Teardown {
    /// A signal and what fires it.
    #[must_use]
    pub fn new() -> (TeardownHandle, Self) {
        let (sender, receiver) = watch::channel(false);
        (TeardownHandle(sender), Self(Some(receiver)))
    }

    /// A signal that never fires.
    #[must_use]
    pub fn never() -> Self {
        Self(None)
    }

    /// Waits until it fires.
    pub async fn fired(mut self) {
        if let Some(receiver) = &mut self.0
            && receiver.wait_for(|fired| *fired).await.is_ok()
        {
            return;
        }
        std::future::pending().await
    }
}

impl TeardownHandle {
    /// Every request under way with this signal is torn down.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}
