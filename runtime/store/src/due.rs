//! What the writer thread commits next, and when. Pure: the queue as it stands, and the time.
//!
//! Quick writes go first, but for one commit of bulky ones after each of theirs, once those have rested: so neither lane waits for ever,
//! and bulk has a third of the writer's time at most where it is shared.

use std::time::{Duration, Instant};

use crate::lanes::{Lane, Lanes, Taken};

/// When writes that nobody waits for are committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gather {
    /// So long after the first of them; with `None`, not on account of time.
    pub linger: Option<Duration>,
    /// When they make so many records.
    pub max_records: usize,
}

impl Default for Gather {
    fn default() -> Self {
        Self { linger: Some(Duration::from_millis(5)), max_records: 1_000 }
    }
}

/// Beside quick writes, bulky ones rest after each of their commits for so many times as long as that took.
const RESTS: u32 = 2;
/// And for no longer than this.
const MOST_REST: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) lanes: Lanes,
    /// By lane: somebody waits, and the writer is to commit.
    pub(crate) wanted: [bool; 2],
    /// The writer sleeps until a time, so it need not be woken to begin with that.
    pub(crate) timed: bool,
    pub(crate) closed: bool,
    /// Bulky writes rest until then, where quick ones were committed since the last.
    rests_until: Option<Instant>,
    /// Quick writes were committed since the last bulky one.
    is_shared: bool,
}

/// What the writer thread is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Commit(Lane),
    /// In so long at the latest; without a time, when somebody says so.
    Later(Option<Duration>),
    /// There is nothing left to do for ever.
    Over,
}

impl Queue {
    pub(crate) fn due(&self, gather: Gather, now: Instant) -> Due {
        if self.lanes.is_empty() {
            return if self.closed { Due::Over } else { Due::Later(None) };
        }
        let quick = self.quick_in(gather, now);
        let bulk = self.bulk_in(gather, now);
        let is_due = |left: Option<Duration>| left.is_some_and(|left| left.is_zero());
        // What is before it in its own lane's order of numbers, and may be of its run.
        let behind_quick = self.lanes.is_bulk_behind_quick();
        if is_due(bulk) && !behind_quick && (self.is_shared || !is_due(quick)) {
            return Due::Commit(Lane::Bulk);
        }
        if is_due(quick) || is_due(bulk) {
            return Due::Commit(Lane::Quick);
        }
        Due::Later([quick, bulk].into_iter().flatten().min())
    }

    /// In how long quick writes are due; `None` where there are none, or somebody has to say so.
    fn quick_in(&self, gather: Gather, now: Instant) -> Option<Duration> {
        let since = self.lanes.quick_since()?;
        if self.is_called_for(Lane::Quick, gather) {
            return Some(Duration::ZERO);
        }
        gather.linger.map(|linger| linger.saturating_sub(now.saturating_duration_since(since)))
    }

    /// The same for bulky ones: much is not gathered for.
    fn bulk_in(&self, gather: Gather, now: Instant) -> Option<Duration> {
        let there = self.lanes.records(Lane::Bulk) > 0;
        if !there || gather.linger.is_none() && !self.is_called_for(Lane::Bulk, gather) {
            return None;
        }
        let rests_until = self.rests_until.filter(|_| !self.closed);
        Some(rests_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now)))
    }

    fn is_called_for(&self, lane: Lane, gather: Gather) -> bool {
        self.wanted[lane as usize] || self.closed || self.lanes.records(lane) >= gather.max_records
    }

    /// The next commit of a lane, where there is one. Bulky writes may be alone: nobody has waited lately.
    pub(crate) fn take(&mut self, lane: Lane, alone: bool) -> Option<Taken> {
        let taken = match lane {
            Lane::Quick => self.lanes.take_quick(),
            Lane::Bulk => self.lanes.take_bulk(alone),
        };
        self.wanted[lane as usize] &= self.lanes.records(lane) > 0;
        self.is_shared |= lane == Lane::Quick && taken.is_some();
        taken
    }

    /// A commit of bulky writes took so long.
    pub(crate) fn rest(&mut self, took: Duration, now: Instant) {
        let is_shared = std::mem::take(&mut self.is_shared);
        self.rests_until = is_shared.then(|| now + (took * RESTS).min(MOST_REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Write;
    use crate::rows::{Append, RunKey};

    const GATHER: Gather = Gather { linger: Some(Duration::from_millis(5)), max_records: 3 };
    const MS: Duration = Duration::from_millis(1);

    fn push(queue: &mut Queue, run: RunKey, bytes: usize, now: Instant) {
        queue.lanes.push(Write::Append(Append::entries(run, 0, vec![vec![0; bytes]])), None, now);
    }

    #[test]
    fn quick_writes_linger_until_they_are_many_or_wanted() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        assert_eq!(queue.due(GATHER, now), Due::Later(None));
        push(&mut queue, 1, 10, now);
        assert_eq!(queue.due(GATHER, now + 2 * MS), Due::Later(Some(3 * MS)));
        assert_eq!(queue.due(GATHER, now + 5 * MS), Due::Commit(Lane::Quick));
        assert_eq!(queue.due(Gather { linger: None, ..GATHER }, now + 5 * MS), Due::Later(None));
        queue.wanted[Lane::Quick as usize] = true;
        assert_eq!(queue.due(GATHER, now), Due::Commit(Lane::Quick));
        queue.wanted = Default::default();
        push(&mut queue, 1, 10, now);
        push(&mut queue, 1, 10, now);
        assert_eq!(queue.due(GATHER, now), Due::Commit(Lane::Quick));
        queue.take(Lane::Quick, false);
        queue.closed = true;
        assert_eq!(queue.due(GATHER, now), Due::Over);
    }

    #[test]
    fn neither_lane_waits_for_ever_for_the_other() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        let mut commits = Vec::new();
        for round in 0..6 {
            // Both lanes have more than a commit at any time.
            for _ in 0..3 {
                push(&mut queue, 1, 10, now);
            }
            push(&mut queue, 2, 1 << 20, now);
            // What bulk rests for has passed.
            let later = now + round * 10 * MS;
            let Due::Commit(lane) = queue.due(GATHER, later) else { panic!("nothing is due") };
            queue.take(lane, false);
            if lane == Lane::Bulk {
                queue.rest(2 * MS, later);
            }
            commits.push(lane);
        }
        assert_eq!(commits, [Lane::Quick, Lane::Bulk, Lane::Quick, Lane::Bulk, Lane::Quick, Lane::Bulk]);
    }

    #[test]
    fn bulk_rests_where_it_shares_the_writer_and_not_where_it_is_alone() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for _ in 0..3 {
            push(&mut queue, 2, 1 << 20, now);
        }
        queue.take(Lane::Bulk, false);
        queue.rest(3 * MS, now);
        assert_eq!(queue.due(GATHER, now), Due::Commit(Lane::Bulk));
        push(&mut queue, 1, 10, now);
        queue.take(Lane::Quick, false);
        queue.take(Lane::Bulk, false);
        queue.rest(3 * MS, now);
        assert_eq!(queue.due(GATHER, now), Due::Later(Some(6 * MS)));
        queue.closed = true;
        assert_eq!(queue.due(GATHER, now), Due::Commit(Lane::Bulk));
    }

    #[test]
    fn what_was_queued_before_bulk_is_committed_before_it() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        push(&mut queue, 1, 10, now);
        push(&mut queue, 1, 1 << 20, now);
        assert_eq!(queue.due(GATHER, now), Due::Commit(Lane::Quick));
        queue.take(Lane::Quick, false);
        assert_eq!(queue.due(GATHER, now), Due::Commit(Lane::Bulk));
    }
}
