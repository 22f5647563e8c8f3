//! A journal on a disk that can fail: what was appended is durable once it was flushed, and a crash loses some of the rest.

use rand::Rng;
use rand::rngs::SmallRng;

/// The journal of the one run.
#[derive(Debug, Default)]
pub struct Store {
    entries: Vec<Vec<u8>>,
    durable: usize,
}

/// The disk failed. What had been written by then is there, and nobody knows how much that is.
#[derive(Debug)]
pub struct Failed;

impl Store {
    /// A journal whose first entry is durable.
    #[must_use]
    pub fn new(first: Vec<u8>) -> Self {
        Self { entries: vec![first], durable: 1 }
    }

    /// The journal that a new run begins with, all of it durable.
    #[must_use]
    pub fn of(entries: Vec<Vec<u8>>) -> Self {
        Self { durable: entries.len(), entries }
    }

    /// Adds an entry, in memory.
    pub fn append(&mut self, bytes: Vec<u8>) {
        self.entries.push(bytes);
    }

    /// Entries that are durable.
    #[must_use]
    pub fn durable(&self) -> &[Vec<u8>] {
        &self.entries[..self.durable]
    }

    /// All of them.
    #[must_use]
    pub fn entries(&self) -> &[Vec<u8>] {
        &self.entries
    }

    /// When it returns, everything appended is durable.
    ///
    /// # Errors
    /// With the given chance, the disk fails instead.
    pub fn flush(&mut self, rng: &mut SmallRng, failure: f64) -> Result<(), Failed> {
        if failure > 0.0 && self.durable < self.entries.len() && rng.random_bool(failure) {
            return Err(Failed);
        }
        self.durable = self.entries.len();
        Ok(())
    }

    /// The database is lost, and there is a copy of it.
    pub fn restore(&mut self, copy: &[Vec<u8>]) {
        self.entries = copy.to_vec();
        self.durable = copy.len();
    }

    /// Loses a part of what was not flushed: entries are written in order, so it is the tail.
    pub fn crash(&mut self, rng: &mut SmallRng) {
        self.durable = rng.random_range(self.durable..=self.entries.len());
        self.entries.truncate(self.durable);
    }
}
