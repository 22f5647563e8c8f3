//! Runs that have something to do and wait for a place among the live ones: a small record each. Its task, its journal and its
//! instance are made when its place comes.
//!
//! Whoever has waited longest is next. What is asked of a run does not wait here: it has a task for that at once (`tasks.rs`), which
//! comes back to where the run stood if the run is to go on.

use std::collections::BTreeMap;
use std::time::Instant;

use stepwell_store::RunKey;
use tokio::sync::mpsc::Receiver;

use crate::driver::Message;
use crate::engine::Engine;

/// What a run is to be told when its place comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// There may be something to do for it.
    pub(crate) woken: bool,
    /// Its journal was written in this process and nothing has run yet.
    pub(crate) fresh: bool,
    /// It waited to begin, and may now.
    pub(crate) admitted: bool,
    /// A person has asked for this: the limit of recoveries does not apply.
    pub(crate) by_hand: bool,
}

impl Told {
    /// What is left of a message until the run has a place; `None` for what a run is told without one.
    pub(crate) fn of(message: &Message) -> Option<Self> {
        match message {
            Message::Wake { fresh } => Some(Self { woken: true, fresh: *fresh, ..Self::default() }),
            // It is looked at in any case.
            Message::Inbox => Some(Self { woken: true, ..Self::default() }),
            Message::Admitted => Some(Self { admitted: true, ..Self::default() }),
            _ => None,
        }
    }

    /// As its task hears it.
    pub(crate) fn messages(self) -> impl Iterator<Item = Message> {
        let admitted = self.admitted.then_some(Message::Admitted);
        admitted.into_iter().chain(self.woken.then_some(Message::Wake { fresh: self.fresh }))
    }

    fn and(&mut self, more: Self) {
        self.woken |= more.woken;
        self.fresh |= more.fresh;
        self.admitted |= more.admitted;
        self.by_hand |= more.by_hand;
    }
}

/// A run's place in the queue, which it keeps while it is asked something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stands {
    number: u64,
    /// When it came.
    pub(crate) since: Instant,
}

/// All that wait.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    line: BTreeMap<u64, RunKey>,
    runs: BTreeMap<RunKey, (Stands, Told)>,
    numbers: u64,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.line.len()
    }

    /// A run that is not in the queue: last, or where it stood.
    pub(crate) fn join(&mut self, run: RunKey, stood: Option<Stands>, told: Told) {
        let stands = stood.unwrap_or_else(|| {
            self.numbers += 1;
            Stands { number: self.numbers, since: Instant::now() }
        });
        self.line.insert(stands.number, run);
        self.runs.insert(run, (stands, told));
    }

    /// Tells a run that waits. `false` where it does not.
    pub(crate) fn tell(&mut self, run: RunKey, more: Told) -> bool {
        self.runs.get_mut(&run).map(|(_, told)| told.and(more)).is_some()
    }

    pub(crate) fn leave(&mut self, run: RunKey) -> Option<(Stands, Told)> {
        let found = self.runs.remove(&run)?;
        self.line.remove(&found.0.number);
        Some(found)
    }

    /// Whoever has waited longest.
    pub(crate) fn next(&mut self) -> Option<(RunKey, Stands, Told)> {
        let (_, run) = self.line.pop_first()?;
        let (stands, told) = self.runs.remove(&run)?;
        Some((run, stands, told))
    }

    /// Nobody waits any more. Those who did.
    pub(crate) fn close(&mut self) -> impl Iterator<Item = RunKey> + use<> {
        self.runs.clear();
        std::mem::take(&mut self.line).into_values()
    }
}

/// Starts the task that gives each place that is free to whoever is next. It ends with the engine.
pub(crate) fn start(engine: &Engine, mut came: Receiver<()>) {
    let (weak, places) = (engine.downgrade(), engine.places().clone());
    tokio::spawn(async move {
        while came.recv().await.is_some() {
            loop {
                // Nobody closes it.
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let Some(engine) = weak.upgrade() else { return };
                if !engine.begin_next(place) {
                    break;
                }
            }
        }
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const WOKEN: Told = Told { woken: true, fresh: false, admitted: false, by_hand: false };

    #[test]
    fn who_has_waited_longest_is_next_and_who_was_asked_something_comes_back_to_where_it_stood() {
        let mut queue = Queue::default();
        for run in [7, 3, 5] {
            queue.join(run, None, WOKEN);
        }
        let (stood, told) = queue.leave(3).unwrap();
        assert!(!queue.tell(3, WOKEN), "it has a task");
        queue.join(9, None, WOKEN);
        queue.join(3, Some(stood), told);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(run, ..)| run).collect();
        assert_eq!(order, [7, 3, 5, 9]);
        assert!(queue.is_empty());
    }

    #[test]
    fn what_a_run_is_told_meanwhile_is_told_once_it_has_a_place() {
        let mut queue = Queue::default();
        queue.join(1, None, Told::of(&Message::Wake { fresh: true }).unwrap());
        assert!(queue.tell(1, Told::of(&Message::Inbox).unwrap()));
        assert!(queue.tell(1, Told::of(&Message::Admitted).unwrap()));
        let (_, _, told) = queue.next().unwrap();
        let heard: Vec<_> = told.messages().collect();
        assert!(matches!(heard[..], [Message::Admitted, Message::Wake { fresh: true }]), "{heard:?}");
        assert!(Told::of(&Message::Stop).is_none() && Told::of(&Message::ParentGone).is_none());
    }

    #[test]
    fn those_who_wait_when_it_is_closed_are_told_to_the_one_who_closes() {
        let mut queue = Queue::default();
        queue.join(2, None, WOKEN);
        queue.join(1, None, WOKEN);
        assert_eq!(queue.close().collect::<Vec<_>>(), [2, 1]);
        assert!(queue.is_empty() && queue.next().is_none());
    }
}
