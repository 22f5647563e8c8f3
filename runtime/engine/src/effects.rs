//! Requests of bodies: checked at the call, sent once what led to them is durable, torn down on demand.

use std::collections::HashMap;
use std::sync::Arc;

use stepwell_core::contract::{Evidence, Exchange, Request};
use stepwell_core::error::{Code, Error};
use stepwell_core::policy::effect::dead_key;
use stepwell_host::http::{Destinations, HttpClient, Outbound, Teardown, TeardownHandle};
use stepwell_store::{Store, StoreError, Ticket};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::real_now_ms;
use crate::driver::Message;
use crate::fault::{Fault, planted};
use crate::points::{Moment, Points};

/// What a run may reach outside, and how.
#[derive(Clone)]
pub(crate) struct Outside {
    pub(crate) client: HttpClient,
    pub(crate) destinations: Destinations,
    /// The names of the secrets that the run's workflow declares.
    pub(crate) secrets: Vec<String>,
}

impl Outside {
    /// Whether the request may leave for where it is going.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Error> {
        self.client.check(&self.outbound(request.clone(), None))
    }

    pub(crate) fn outbound(&self, request: Request, key_header: Option<String>) -> Outbound {
        Outbound { request, key_header, destinations: self.destinations.clone(), secrets: Some(self.secrets.clone()) }
    }
}

/// The requests of a run that are under way.
#[derive(Default)]
pub(crate) struct InFlight(HashMap<Exchange, TeardownHandle>);

impl InFlight {
    /// Sends a request as soon as what led to it is durable, and tells the run's task how it went.
    pub(crate) fn send(
        &mut self,
        exchange: Exchange,
        outbound: Outbound,
        client: HttpClient,
        leave: Leave,
        driver: UnboundedSender<Message>,
    ) {
        let (handle, teardown) = Teardown::new();
        self.0.insert(exchange, handle);
        let Leave { store, after, not_after_ms, points } = leave;
        let at_once = planted(Fault::SendBeforeDurable);
        // Whatever becomes of the task, the run hears of its request: it may have left.
        let untold = Untold { exchange, driver: Some(driver) };
        tokio::spawn(async move {
            let untold = untold;
            let durable = tokio::select! {
                biased;
                () = std::future::ready(()), if at_once => Ok(()),
                durable = store.durable(after) => durable,
                () = teardown.clone().fired() => {
                    untold.tell(not_sent(exchange, Error::new(Code::RequestFailed, "the request was given up before it was sent")));
                    return;
                }
            };
            let message = match durable {
                // The body may have computed on for long since it asked, and the disk may be slow.
                Ok(()) if not_after_ms.is_some_and(|at_ms| real_now_ms() >= at_ms) => not_sent(exchange, dead_key()),
                Ok(()) => {
                    points.pass(Moment::Sending).await;
                    let outcome = client.send(outbound, teardown).await;
                    points.pass(Moment::Sent).await;
                    Message::Settled { exchange, evidence: outcome.evidence, answer: outcome.answer }
                }
                // Nothing may leave that is not on disk: the run stops in this process, and goes on from its journal in another.
                Err(error) => Message::StoreFailed(error),
            };
            untold.tell(message);
        });
    }

    /// Tears a request down. Its settlement is told as always.
    pub(crate) fn abort(&mut self, exchange: Exchange) {
        if let Some(handle) = self.0.get(&exchange) {
            handle.fire();
        }
    }

    pub(crate) fn settled(&mut self, exchange: Exchange) {
        self.0.remove(&exchange);
    }
}

/// The settlement that a run still has to be told of.
struct Untold {
    exchange: Exchange,
    driver: Option<UnboundedSender<Message>>,
}

impl Untold {
    fn tell(mut self, message: Message) {
        // A run that is gone has parked or failed: what is not settled then is unknown, as the journal says.
        let _ = self.driver.take().map(|driver| driver.send(message));
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take() else { return };
        let error = Error::new(Code::RequestFailed, "the request was lost within Stepwell; it may have been sent");
        let _ = driver.send(Message::Settled { exchange: self.exchange, evidence: Evidence::Sent, answer: Err(error) });
    }
}

/// When a request may leave.
pub(crate) struct Leave {
    pub(crate) store: Arc<dyn Store>,
    /// Once this is durable.
    pub(crate) after: Ticket,
    /// And before this real time: its key is dead then.
    pub(crate) not_after_ms: Option<u64>,
    /// Who looks on.
    pub(crate) points: Points,
}

fn not_sent(exchange: Exchange, error: Error) -> Message {
    Message::Settled { exchange, evidence: Evidence::NotSent, answer: Err(error) }
}

/// A part of a run that was not read: the disk's fault, or what is stored.
pub(crate) fn unread(error: &StoreError) -> Error {
    match error {
        StoreError::Corrupt(reason) => Error::new(Code::JournalUnreadable, reason.clone()),
        other => store_error(other),
    }
}

/// A store's failure as a run's.
pub(crate) fn store_error(error: &StoreError) -> Error {
    // What stopped a run is the first failure, not those that followed from it.
    let first = match error {
        StoreError::Stopped { cause, .. } => cause,
        other => other,
    };
    Error::new(Code::Internal, format!("the store failed: {first}"))
}
