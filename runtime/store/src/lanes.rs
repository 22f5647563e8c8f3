//! Where writes wait for their commit: quick ones apart from bulky ones, so that nobody waits for the megabytes of others. Plain data;
//! when something is committed is decided in `group`.
//!
//! Invariants: writes leave a lane in the order of their numbers. So do those of one run, whichever lanes they are in: what follows
//! a bulky one is in the bulk lane too until that has settled, and a bulky one leaves after the quick ones before it.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::apply::{Reply, Write};
use crate::error::Result;
use crate::rows::RunKey;

/// Where a write waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// With little to write.
    Quick,
    /// With much.
    Bulk,
}

/// A write's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) lane: Lane,
}

/// A write of more bytes is bulky.
const BULKY_BYTES: usize = 96 << 10;
/// A write of more records is.
const BULKY_RECORDS: usize = 250;
/// A commit of quick writes has so much at most, or a single write: what comes later waits for the next.
const QUICK: Amount = Amount { bytes: 512 << 10, records: usize::MAX };
/// The same of bulky ones, beside quick ones. It bounds for how long those wait for others' bulk.
const BULK: Amount = Amount { bytes: 128 << 10, records: 500 };
/// The same where nobody has waited lately.
const BULK_ALONE: Amount = Amount { bytes: 1 << 20, records: 5_000 };
const ALL: Amount = Amount { bytes: usize::MAX, records: usize::MAX };

#[derive(Debug, Clone, Copy, Default)]
struct Amount {
    bytes: usize,
    records: usize,
}

pub(crate) struct Queued {
    pub(crate) number: u64,
    pub(crate) write: Write,
    pub(crate) answer: Option<oneshot::Sender<Result<Reply>>>,
    queued_at: Instant,
    bytes: usize,
    records: usize,
}

/// What a commit is made of.
pub(crate) struct Taken {
    pub(crate) lane: Lane,
    pub(crate) writes: Vec<Queued>,
    /// When the first of them was queued.
    pub(crate) since: Instant,
}

#[derive(Default)]
pub(crate) struct Lanes {
    quick: Waiting,
    bulk: Waiting,
    /// How many bulky writes of a run have not settled.
    unsettled: HashMap<RunKey, usize>,
    last_number: u64,
}

#[derive(Default)]
struct Waiting {
    writes: VecDeque<Queued>,
    bytes: usize,
    records: usize,
}

impl Lanes {
    /// Queues a write, and says where.
    pub(crate) fn push(&mut self, write: Write, answer: Option<oneshot::Sender<Result<Reply>>>, now: Instant) -> Place {
        self.last_number += 1;
        let (number, bytes, records) = (self.last_number, write.bytes(), write.records().max(1));
        let run = write.run();
        let follows = run.is_some_and(|run| self.unsettled.contains_key(&run));
        let bulky = bytes > BULKY_BYTES || records > BULKY_RECORDS || matches!(write, Write::Part(_));
        let lane = if follows || bulky { Lane::Bulk } else { Lane::Quick };
        if let (Lane::Bulk, Some(run)) = (lane, run) {
            *self.unsettled.entry(run).or_default() += 1;
        }
        self.lane(lane).add(Queued { number, write, answer, queued_at: now, bytes, records });
        Place { number, lane }
    }

    /// The number of the last write that was queued.
    pub(crate) fn last_number(&self) -> u64 {
        self.last_number
    }

    /// The next quick writes, as many as make one commit.
    pub(crate) fn take_quick(&mut self) -> Option<Taken> {
        self.quick.take(Lane::Quick, QUICK, u64::MAX)
    }

    /// The next bulky writes, more of them where they are alone; none while a quick one is before them.
    pub(crate) fn take_bulk(&mut self, alone: bool) -> Option<Taken> {
        let before = self.quick.first().map_or(u64::MAX, |first| first.number);
        self.bulk.take(Lane::Bulk, if alone { BULK_ALONE } else { BULK }, before)
    }

    /// All that waits, in order.
    pub(crate) fn take_all(&mut self) -> [Option<Taken>; 2] {
        [Lane::Quick, Lane::Bulk].map(|lane| self.lane(lane).take(lane, ALL, u64::MAX))
    }

    /// These were committed, or have failed.
    pub(crate) fn settled(&mut self, lane: Lane, writes: &[Queued]) {
        if lane == Lane::Quick {
            return;
        }
        for run in writes.iter().filter_map(|queued| queued.write.run()) {
            if let Some(left) = self.unsettled.get_mut(&run) {
                *left -= 1;
                if *left == 0 {
                    self.unsettled.remove(&run);
                }
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.quick.writes.is_empty() && self.bulk.writes.is_empty()
    }

    /// Whether the write has not been taken yet.
    pub(crate) fn has(&self, place: Place) -> bool {
        self.waiting(place.lane).first().is_some_and(|first| first.number <= place.number)
    }

    /// When the first quick write was queued.
    pub(crate) fn quick_since(&self) -> Option<Instant> {
        self.quick.first().map(|first| first.queued_at)
    }

    /// Whether a quick write is to be committed before the first bulky one.
    pub(crate) fn is_bulk_behind_quick(&self) -> bool {
        match (self.quick.first(), self.bulk.first()) {
            (Some(quick), Some(bulk)) => quick.number < bulk.number,
            _ => false,
        }
    }

    pub(crate) fn records(&self, lane: Lane) -> usize {
        self.waiting(lane).records
    }

    pub(crate) fn bytes(&self, lane: Lane) -> usize {
        self.waiting(lane).bytes
    }

    fn waiting(&self, lane: Lane) -> &Waiting {
        match lane {
            Lane::Quick => &self.quick,
            Lane::Bulk => &self.bulk,
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut Waiting {
        match lane {
            Lane::Quick => &mut self.quick,
            Lane::Bulk => &mut self.bulk,
        }
    }
}

impl Waiting {
    fn first(&self) -> Option<&Queued> {
        self.writes.front()
    }

    fn add(&mut self, queued: Queued) {
        self.bytes += queued.bytes;
        self.records += queued.records;
        self.writes.push_back(queued);
    }

    /// The first ones with numbers below `before`, as many as have `most` at most.
    fn take(&mut self, lane: Lane, most: Amount, before: u64) -> Option<Taken> {
        let since = self.first().filter(|first| first.number < before)?.queued_at;
        let (mut sum, mut count) = (Amount::default(), 0);
        for queued in self.writes.iter().take_while(|queued| queued.number < before) {
            // The first of all is taken however large it is.
            let next = Amount { bytes: sum.bytes + queued.bytes, records: sum.records + queued.records };
            if count > 0 && (next.bytes > most.bytes || next.records > most.records) {
                break;
            }
            sum = next;
            count += 1;
        }
        let writes: Vec<_> = self.writes.drain(..count).collect();
        self.bytes -= sum.bytes;
        self.records -= sum.records;
        Some(Taken { lane, writes, since })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::parts::Part;
    use crate::rows::Append;

    fn append(run: RunKey, bytes: usize) -> Write {
        Write::Append(Append::entries(run, 0, vec![vec![0; bytes]]))
    }

    fn numbers(taken: &Taken) -> Vec<u64> {
        taken.writes.iter().map(|queued| queued.number).collect()
    }

    #[test]
    fn what_follows_a_bulky_write_of_its_run_waits_behind_it_until_it_has_settled() {
        let mut lanes = Lanes::default();
        let push = |lanes: &mut Lanes, run, bytes| lanes.push(append(run, bytes), None, Instant::now()).lane;
        assert_eq!(push(&mut lanes, 1, 10), Lane::Quick);
        assert_eq!(push(&mut lanes, 1, BULKY_BYTES + 1), Lane::Bulk);
        assert_eq!(push(&mut lanes, 1, 10), Lane::Bulk);
        assert_eq!(push(&mut lanes, 2, 10), Lane::Quick);
        // The quick one of the same run goes first.
        assert!(lanes.take_bulk(false).is_none());
        assert_eq!(numbers(&lanes.take_quick().unwrap()), [1, 4]);
        let taken = lanes.take_bulk(false).unwrap();
        assert_eq!(numbers(&taken), [2, 3]);
        assert_eq!(push(&mut lanes, 1, 10), Lane::Bulk);
        lanes.settled(Lane::Bulk, &taken.writes);
        assert_eq!(push(&mut lanes, 1, 10), Lane::Bulk);
        let taken = lanes.take_bulk(false).unwrap();
        lanes.settled(Lane::Bulk, &taken.writes);
        assert_eq!(push(&mut lanes, 1, 10), Lane::Quick);
    }

    #[test]
    fn parts_are_bulky_however_short_and_their_entry_follows_them() {
        let mut lanes = Lanes::default();
        let mut push = |write| lanes.push(write, None, Instant::now()).lane;
        for number in 0..2 {
            let part = Part { run: 1, seq: 5, number, bytes: vec![0; 10] };
            assert_eq!(push(Write::Part(part)), Lane::Bulk);
        }
        assert_eq!((push(append(1, 10)), push(append(2, 10))), (Lane::Bulk, Lane::Quick));
        assert_eq!(numbers(&lanes.take_quick().unwrap()), [4]);
        assert_eq!(numbers(&lanes.take_bulk(false).unwrap()), [1, 2, 3]);
    }

    #[test]
    fn a_commit_has_so_much_or_one_write() {
        let mut lanes = Lanes::default();
        for bytes in [BULK.bytes * 3, BULKY_BYTES + 1, BULK.bytes - BULKY_BYTES - 1, 1] {
            lanes.push(append(1, bytes), None, Instant::now());
        }
        let commits: Vec<_> = std::iter::from_fn(|| lanes.take_bulk(false).map(|taken| numbers(&taken))).collect();
        assert_eq!(commits, [vec![1], vec![2, 3], vec![4]]);
        for bytes in [BULK.bytes, BULK.bytes, BULK_ALONE.bytes - 2 * BULK.bytes, BULK.bytes] {
            lanes.push(append(1, bytes), None, Instant::now());
        }
        let alone: Vec<_> = std::iter::from_fn(|| lanes.take_bulk(true).map(|taken| numbers(&taken))).collect();
        assert_eq!(alone, [vec![5, 6, 7], vec![8]]);
        let records = |records: usize| Write::Append(Append::entries(1, 0, vec![Vec::new(); records]));
        for count in [BULK.records + 1, BULK.records - 1, 1, 1] {
            lanes.push(records(count), None, Instant::now());
        }
        let commits: Vec<_> = std::iter::from_fn(|| lanes.take_bulk(false).map(|taken| numbers(&taken))).collect();
        assert_eq!(commits, [vec![9], vec![10, 11], vec![12]]);
    }

    proptest! {
        #[test]
        fn writes_of_a_run_leave_in_their_order_and_none_is_lost(
            steps in proptest::collection::vec((0..8u8, 1..5i64, prop_oneof![1..100usize, 60_000..300_000usize]), 1..300),
        ) {
            let mut lanes = Lanes::default();
            let (mut pushed, mut left, mut under_way) = (Vec::new(), Vec::new(), Vec::new());
            let settle = |lanes: &mut Lanes, under_way: &mut Vec<Taken>, left: &mut Vec<(RunKey, u64)>| {
                for taken in under_way.drain(..) {
                    lanes.settled(taken.lane, &taken.writes);
                    left.extend(taken.writes.iter().map(|queued| (queued.write.run().unwrap(), queued.number)));
                }
            };
            for (what, run, bytes) in steps {
                match what {
                    // One commit is under way at a time.
                    0 => { settle(&mut lanes, &mut under_way, &mut left); under_way.extend(lanes.take_quick()); }
                    1 => { settle(&mut lanes, &mut under_way, &mut left); under_way.extend(lanes.take_bulk(false)); }
                    2 => settle(&mut lanes, &mut under_way, &mut left),
                    _ => pushed.push((run, lanes.push(append(run, bytes), None, Instant::now()).number)),
                }
            }
            loop {
                settle(&mut lanes, &mut under_way, &mut left);
                under_way.extend(lanes.take_bulk(false).or_else(|| lanes.take_quick()));
                if under_way.is_empty() { break; }
            }
            prop_assert!(lanes.is_empty() && lanes.bytes(Lane::Quick) + lanes.bytes(Lane::Bulk) == 0 && lanes.unsettled.is_empty());
            prop_assert_eq!(lanes.records(Lane::Quick) + lanes.records(Lane::Bulk), 0);
            let of = |all: &[(RunKey, u64)], run| all.iter().filter(|one| one.0 == run).copied().collect::<Vec<_>>();
            for run in 1..5 {
                prop_assert_eq!(of(&left, run), of(&pushed, run));
            }
        }
    }
}
