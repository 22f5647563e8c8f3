//! Connections at rest, by target. It hands them out and knows nothing of requests.
//!
//! There is no task that watches over them: hyper closes its end when the server does, and what has rested too long is dropped
//! at a later visit. Not all are looked at each time: with many at rest that would cost more than what is asked for.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::destination::Target;

/// Connections at rest to one target.
const MAX_IDLE_PER_TARGET: usize = 128;
/// Connections at rest in all.
const MAX_IDLE: usize = 256;
/// Between two looks at all of them.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

pub(super) struct Pool {
    idle: Mutex<Idle>,
    longest: Duration,
}

struct Idle {
    /// Of each target those that have rested longest come first.
    by_target: HashMap<Target, Vec<Rested>>,
    total: usize,
    swept: Instant,
}

struct Rested {
    connection: Connection,
    since: Instant,
}

impl Pool {
    pub(super) fn new(longest: Duration) -> Self {
        Self { idle: Mutex::new(Idle { by_target: HashMap::new(), total: 0, swept: Instant::now() }), longest }
    }

    /// The connection that has rested shortest, if it is usable and rested no longer than `longest`.
    pub(super) fn take(&self, target: &Target, longest: Duration) -> Option<Connection> {
        let now = Instant::now();
        let mut idle = self.visit(now);
        let Idle { by_target, total, .. } = &mut *idle;
        let connections = by_target.get_mut(target)?;
        while connections.pop_if(|rested| !rested.connection.is_usable()).is_some() {
            *total -= 1;
        }
        let taken = connections.pop_if(|rested| now.saturating_duration_since(rested.since) < longest)?;
        *total -= 1;
        Some(taken.connection)
    }

    pub(super) fn put(&self, target: Target, connection: Connection) {
        let now = Instant::now();
        let mut idle = self.visit(now);
        if idle.total >= MAX_IDLE {
            idle.sweep(now, self.longest);
        }
        let Idle { by_target, total, .. } = &mut *idle;
        let connections = by_target.entry(target).or_default();
        if connections.len() >= MAX_IDLE_PER_TARGET {
            connections.remove(0);
            *total -= 1;
        } else if *total >= MAX_IDLE {
            return;
        }
        connections.push(Rested { connection, since: now });
        *total += 1;
    }

    pub(super) fn len(&self) -> usize {
        let now = Instant::now();
        let mut idle = self.visit(now);
        idle.sweep(now, self.longest);
        idle.total
    }

    fn visit(&self, now: Instant) -> MutexGuard<'_, Idle> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_duration_since(idle.swept) >= SWEEP_EVERY {
            idle.sweep(now, self.longest);
        }
        idle
    }
}

impl Idle {
    /// Drops what is dead, or has rested too long for anybody.
    fn sweep(&mut self, now: Instant, longest: Duration) {
        self.swept = now;
        let good = |rested: &mut Rested| {
            now.saturating_duration_since(rested.since) < longest && rested.connection.is_usable()
        };
        self.by_target.retain(|_, connections| {
            connections.retain_mut(good);
            !connections.is_empty()
        });
        self.total = self.by_target.values().map(Vec::len).sum();
    }
}
