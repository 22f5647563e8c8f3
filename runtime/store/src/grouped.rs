//! The store over any ledger: the rules of a write are in `apply`, its timing in `group`; here the two meet the trait.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;

use crate::apply::{Reply, Write};
use crate::due::Gather;
use crate::error::{Result, StoreError};
use crate::fault::{Fault, planted};
use crate::group::Group;
use crate::ledger::Ledger;
use crate::parts;
use crate::pending::{Pending, Ticket};
use crate::queue::Begins;
use crate::rows::{Append, Delivered, NewEvent, NewModule, NewRun, RunKey, Started};
use crate::store::{Latencies, Reads, Store};
use crate::submission::{Kept, Submission};

/// A store whose rows are a ledger's. Dropping it commits what is queued.
pub struct Grouped<L: Ledger> {
    group: Arc<Group<L>>,
    pub(crate) reads: L::Reads,
    writer: Option<JoinHandle<()>>,
}

impl<L: Ledger> Grouped<L> {
    /// Starts the writer thread over a ledger.
    ///
    /// # Errors
    /// When the operating system has no thread left.
    pub fn over(ledger: L, reads: L::Reads, gather: Gather) -> Result<Self> {
        let group = Arc::new(Group::new(ledger, gather));
        let writer = thread::Builder::new()
            .name("stepwell-writer".into())
            .spawn({
                let group = group.clone();
                move || group.write_until_closed()
            })
            .map_err(|error| StoreError::Io(format!("the writer thread did not start: {error}")))?;
        Ok(Self { group, reads, writer: Some(writer) })
    }

    /// What a crash would do to the queue: everything that is not durable is lost, and its tickets fail. The store then goes
    /// on as if it had been opened anew. For tests.
    pub fn lose_unflushed(&self) {
        self.group.lose_queued();
    }

    /// When the batch has settled, by whomever.
    fn settled(&self, ticket: Ticket) -> Pending<()> {
        let group = self.group.clone();
        Pending::new(async move {
            group.settled(ticket.place).await;
            group.verdict(ticket)
        })
    }

    fn ask<T: Send + 'static>(&self, write: Write, take: fn(Reply) -> Option<T>) -> Pending<T> {
        let (answer, answered) = oneshot::channel();
        let place = self.group.enqueue(write, Some(answer));
        let group = self.group.clone();
        Pending::new(async move {
            group.settle(place).await;
            let reply = answered.await.unwrap_or(Err(StoreError::Closed))?;
            take(reply).ok_or_else(|| StoreError::Internal("the answer to another question".into()))
        })
    }
}

impl<L: Ledger> Store for Grouped<L> {
    fn start_run(&self, run: NewRun) -> Pending<Started> {
        self.ask(Write::Start(run), |reply| match reply {
            Reply::Started(started) => Some(started),
            _ => None,
        })
    }

    fn append(&self, batch: Append) -> Ticket {
        let run = batch.run;
        let parts = parts::before(&batch).into_iter().map(Write::Part);
        let keep = |write| self.group.enqueue(write, None);
        if planted(Fault::EntryBeforeParts) {
            let place = keep(Write::Append(batch));
            for part in parts {
                keep(part);
            }
            return Ticket { place, first: place.number, run };
        }
        let first = parts.map(|part| keep(part).number).min();
        let place = keep(Write::Append(batch));
        Ticket { place, first: first.unwrap_or(place.number), run }
    }

    fn durable(&self, ticket: Ticket) -> Pending<()> {
        let group = self.group.clone();
        Pending::new(async move {
            if !planted(Fault::EarlyTicket) {
                group.settle(ticket.place).await;
            }
            group.verdict(ticket)
        })
    }

    fn durable_beside(&self, ticket: Ticket) -> Pending<()> {
        self.group.call_writer(ticket.place);
        self.settled(ticket)
    }

    fn durable_in_time(&self, ticket: Ticket) -> Pending<()> {
        if !self.group.commits_by_itself() {
            self.group.call_writer(ticket.place);
        }
        self.settled(ticket)
    }

    fn is_waited_for(&self) -> bool {
        self.group.is_waited_for()
    }

    fn recover(&self, run: RunKey) {
        self.group.recover(run);
    }

    fn send_event(&self, event: NewEvent) -> Pending<Delivered> {
        self.ask(Write::Event(event), |reply| match reply {
            Reply::Delivered(delivered) => Some(delivered),
            _ => None,
        })
    }

    fn put_module(&self, module: NewModule) -> Pending<bool> {
        self.ask(Write::Module(module), |reply| match reply {
            Reply::Module(new) => Some(new),
            _ => None,
        })
    }

    fn submit(&self, submission: Submission) -> Pending<Kept> {
        self.ask(Write::Submit(submission), |reply| match reply {
            Reply::Kept(kept) => Some(kept),
            _ => None,
        })
    }

    fn begins(&self) -> UnboundedReceiver<Begins> {
        self.group.begins()
    }

    fn commits(&self) -> u64 {
        self.group.commits()
    }

    fn latencies(&self) -> Latencies {
        self.group.latencies()
    }

    fn read(&self) -> &dyn Reads {
        &self.reads
    }
}

impl<L: Ledger> Drop for Grouped<L> {
    fn drop(&mut self) {
        self.group.close_queue();
        if let Some(writer) = self.writer.take() {
            // It ends by itself; a panic in it has been reported by its thread.
            let _ = writer.join();
        }
        // Answers that somebody still holds keep the group alive, but must not keep the database open and locked.
        self.group.close_ledger();
    }
}
