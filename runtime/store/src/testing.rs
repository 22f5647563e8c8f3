//! For tests of the store and of what is built on it: a ledger whose commits fail on command.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Result, StoreError};
use crate::ledger::{Ledger, Rows};

/// The failures to come, shared with the ledger. Cloning gives another handle to the same.
#[derive(Debug, Clone, Default)]
pub struct Failures(Arc<Mutex<VecDeque<StoreError>>>);

impl Failures {
    /// One of the next transactions fails with this error, after those that were named before, as if the disk had said so at
    /// the commit.
    pub fn fail_next_commit(&self, error: StoreError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(error);
    }

    fn next(&self) -> Option<StoreError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A ledger that does what the other does, but for the failures.
#[derive(Debug)]
pub struct Faulty<L> {
    ledger: L,
    failures: Failures,
}

impl<L> Faulty<L> {
    /// Around this ledger.
    pub fn new(ledger: L, failures: Failures) -> Self {
        Self { ledger, failures }
    }
}

impl<L: Ledger> Ledger for Faulty<L> {
    type Reads = L::Reads;

    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Rows) -> Result<()>) -> Result<()> {
        let failure = self.failures.next();
        self.ledger.transaction(&mut |rows| {
            work(rows)?;
            failure.clone().map_or(Ok(()), Err)
        })
    }
}
