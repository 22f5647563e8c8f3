//! Connections at rest, by target. It hands them out and knows nothing of requests.
//!
//! There is no task that watches over them: hyper closes its end when the server does, and what has rested too long is dropped
//! at the next visit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::destination::Target;

/// Connections at rest to one target.
const MAX_IDLE_PER_TARGET: usize = 32;
/// Connections at rest in all.
const MAX_IDLE: usize = 256;

pub(super) struct Pool {
    idle: Mutex<HashMap<Target, Vec<Idle>>>,
    longest: Duration,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(longest: Duration) -> Self {
        Self { idle: Mutex::default(), longest }
    }

    /// The connection that has rested shortest, if it is usable and rested no longer than `longest`.
    pub(super) fn take(&self, target: &Target, longest: Duration) -> Option<Connection> {
        let mut idle = self.visit();
        let connections = idle.get_mut(target)?;
        let taken = connections.pop_if(|c| c.since.elapsed() < longest);
        if connections.is_empty() {
            idle.remove(target);
        }
        taken.map(|c| c.connection)
    }

    pub(super) fn put(&self, target: Target, connection: Connection) {
        let mut idle = self.visit();
        let total: usize = idle.values().map(Vec::len).sum();
        let connections = idle.entry(target).or_default();
        if connections.len() >= MAX_IDLE_PER_TARGET && !connections.is_empty() {
            connections.remove(0);
        } else if total >= MAX_IDLE {
            return;
        }
        connections.push(Idle { connection, since: Instant::now() });
    }

    pub(super) fn len(&self) -> usize {
        self.visit().values().map(Vec::len).sum()
    }

    fn visit(&self) -> MutexGuard<'_, HashMap<Target, Vec<Idle>>> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|_, connections| {
            connections.retain(|c| c.since.elapsed() < self.longest && c.connection.is_usable());
            !connections.is_empty()
        });
        idle
    }
}
