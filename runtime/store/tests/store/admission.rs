//! Runs that wait to begin: who may, after whatever has happened, is told from a list that is gone through from its beginning.

use std::collections::BTreeMap;

use stepwell_core::policy::admission::{Limits, Rate, Standing, Wait, waits_for};
use stepwell_store::{
    Action, Append, Begins, LimitsRow, NewRun, QueueAs, RunChange, RunKey, Started, Status, Store, Submission,
    Successor, Turn,
};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, new_run};

for_each_store!(
    ALL: WHEN_AWAITED,
    without_limits_the_queue_knows_of_no_run,
    those_over_a_limit_wait_and_the_first_of_them_begins_when_one_ends,
    a_line_that_is_held_up_does_not_hold_up_the_others,
    a_rate_holds_over_its_window_and_says_until_when,
    a_limit_that_is_changed_or_taken_away_counts_at_once,
    runs_of_before_the_limit_count,
    who_is_paused_or_late_does_not_wait_and_gets_its_place_back,
    a_failed_run_that_is_taken_up_again_waits_like_others,
    a_run_that_goes_on_for_another_has_its_place,
    a_run_that_has_not_begun_is_woken_when_its_time_is_over,
    what_a_lost_commit_let_begin_has_not_begun,
    a_clock_that_is_set_back_holds_nobody_up_for_longer_than_a_window,
    places_are_numbers_from_one_on,
    whatever_happens_those_begin_that_may,
);

const W: &str = "checkout";

fn runs(runs: u32) -> Limits {
    Limits { runs: Some(runs), ..Limits::default() }
}

fn per_key(runs: u32) -> Limits {
    Limits { per_key: Some(runs), ..Limits::default() }
}

fn rate(runs: u32, per_ms: u64, per_key: bool) -> Limits {
    Limits { rate: Some(Rate { runs, per_ms, per_key }), ..Limits::default() }
}

fn submit(store: &dyn Store, action: Action) {
    store.submit(Submission { actions: vec![action], answer: None }).wait().unwrap();
}

fn limit(store: &dyn Store, limits: Limits, set_at_ms: u64) {
    let row = LimitsRow { workflow: W.into(), limits, set_at_ms, set_by: "me".into() };
    submit(store, Action::SetLimits(row));
}

fn admit(store: &dyn Store, at_ms: u64) {
    submit(store, Action::Admit { workflow: None, at_ms });
}

fn with(name: &str, key: &str, priority: i32, at_ms: u64) -> NewRun {
    let queue = QueueAs { key: Some(key.to_owned()).filter(|key| !key.is_empty()), priority, deadline_ms: None };
    NewRun { created_at_ms: at_ms, queue, ..new_run(name) }
}

fn enter(store: &dyn Store, run: NewRun) -> RunKey {
    match store.start_run(run).wait().unwrap() {
        Started::New(key) => key,
        existing @ Started::Existing { .. } => panic!("{existing:?}"),
    }
}

fn start(store: &dyn Store, name: &str) -> RunKey {
    enter(store, with(name, "", 0, 1_000))
}

fn change(store: &dyn Store, run: RunKey, change: RunChange) {
    let ticket = store.append(Append::change(run, change));
    store.flush(ticket).unwrap();
}

fn to(store: &dyn Store, run: RunKey, status: Status, at_ms: u64) {
    change(store, run, RunChange::to(status, at_ms));
}

fn turn(store: &dyn Store, run: RunKey) -> Option<Turn> {
    let turn = store.read().turn(run).unwrap();
    assert_eq!(store.read().run_by_number(run).unwrap().unwrap().turn, turn);
    turn
}

fn turns(store: &dyn Store, runs: &[RunKey]) -> Vec<Turn> {
    runs.iter().map(|run| turn(store, *run).unwrap()).collect()
}

fn wait_of(store: &dyn Store, run: RunKey, now_ms: u64) -> Option<Wait> {
    store.read().in_queue(run, now_ms).unwrap().unwrap().wait
}

/// What has come of commits since it was asked last.
fn begins(heard: &mut tokio::sync::mpsc::UnboundedReceiver<Begins>) -> Vec<Begins> {
    std::iter::from_fn(|| heard.try_recv().ok()).collect()
}

fn without_limits_the_queue_knows_of_no_run(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    let plain = start(store, "a");
    assert_eq!(turn(store, plain), None);
    let keyed = enter(store, with("b", "k", 0, 1_000));
    assert_eq!(turn(store, keyed), Some(Turn::Holds));
    let row = store.read().run_by_number(keyed).unwrap().unwrap();
    assert_eq!((row.concurrency_key.as_deref(), row.priority), (Some("k"), 0));
    to(store, plain, Status::Running, 1_100);
    to(store, plain, Status::Succeeded, 1_200);
    to(store, keyed, Status::Failed, 1_200);
    assert_eq!((turn(store, plain), turn(store, keyed)), (None, Some(Turn::Over)));
    assert!(store.read().in_queue(keyed, 1_200).unwrap().is_none());
    assert!(begins(&mut heard).is_empty());
}

fn those_over_a_limit_wait_and_the_first_of_them_begins_when_one_ends(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, runs(2), 900);
    let first = [start(store, "a"), start(store, "b")];
    assert!(begins(&mut heard).is_empty(), "whoever starts a run lets it go on");
    let low = enter(store, with("low", "", -5, 1_000));
    let same = [start(store, "c"), start(store, "d")];
    let high = enter(store, with("high", "", 5, 1_000));
    assert_eq!(turns(store, &first), [Turn::Holds; 2]);
    assert_eq!(turns(store, &[low, same[0], same[1], high]), [Turn::Waits; 4]);
    assert_eq!(wait_of(store, high, 1_000), Some(Wait::Runs(2)));
    let counts = store.read().queue_counts(W, 1_000).unwrap();
    assert_eq!((counts.under_way, counts.waiting, counts.wait), (2, 4, Some(Wait::Runs(2))));
    for (ends, next) in [(first[0], high), (first[1], same[0]), (high, same[1]), (same[0], low)] {
        // Its place is its until it ends.
        for status in [Status::Running, Status::Waiting, Status::Blocked, Status::Paused, Status::Queued] {
            to(store, ends, status, 1_500);
            assert!(begins(&mut heard).is_empty(), "{status}");
        }
        to(store, ends, Status::Cancelled, 2_000);
        assert_eq!(begins(&mut heard), [Begins::Run(next)]);
        assert_eq!(turns(store, &[ends, next]), [Turn::Over, Turn::Holds]);
    }
    assert!(store.read().in_queue(low, 1_000).unwrap().is_none());
}

fn a_line_that_is_held_up_does_not_hold_up_the_others(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, Limits { runs: Some(3), ..per_key(1) }, 900);
    let a: Vec<RunKey> = (0..4).map(|n| enter(store, with(&format!("a{n}"), "a", 9, 1_000))).collect();
    let b = enter(store, with("b", "b", 0, 1_000));
    let none = [start(store, "c"), start(store, "d")];
    assert_eq!(turns(store, &a), [Turn::Holds, Turn::Waits, Turn::Waits, Turn::Waits]);
    assert_eq!(turns(store, &[b, none[0], none[1]]), [Turn::Holds, Turn::Holds, Turn::Waits]);
    assert_eq!(wait_of(store, a[1], 1_000), Some(Wait::Runs(3)));
    to(store, b, Status::Succeeded, 2_000);
    assert_eq!(begins(&mut heard), [Begins::Run(none[1])]);
    to(store, none[0], Status::Succeeded, 2_000);
    assert_eq!(begins(&mut heard), []);
    assert_eq!(wait_of(store, a[1], 1_000), Some(Wait::PerKey(1)));
    to(store, a[0], Status::Succeeded, 2_000);
    assert_eq!(begins(&mut heard), [Begins::Run(a[1])]);
}

fn a_rate_holds_over_its_window_and_says_until_when(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, rate(2, 100, false), 900);
    let started: Vec<RunKey> = (0..5).map(|n| enter(store, with(&format!("a{n}"), "", 0, 1_000 + 10 * n))).collect();
    assert_eq!(turns(store, &started), [Turn::Holds, Turn::Holds, Turn::Waits, Turn::Waits, Turn::Waits]);
    assert_eq!(begins(&mut heard)[0], Begins::Later(W.into(), 1_100));
    // That one ends changes nothing.
    to(store, started[0], Status::Succeeded, 1_050);
    assert_eq!(turn(store, started[2]), Some(Turn::Waits));
    assert_eq!(wait_of(store, started[4], 1_050), Some(Wait::Rate { until_ms: 1_100 }));
    begins(&mut heard);
    admit(store, 1_099);
    assert_eq!(begins(&mut heard), [Begins::Later(W.into(), 1_100)]);
    admit(store, 1_100);
    assert_eq!(begins(&mut heard), [Begins::Run(started[2]), Begins::Later(W.into(), 1_110)]);
    admit(store, 1_300);
    assert_eq!(begins(&mut heard), [Begins::Run(started[3]), Begins::Run(started[4])]);

    limit(store, rate(1, 100, true), 2_000);
    let a = [enter(store, with("b0", "a", 0, 2_000)), enter(store, with("b1", "a", 0, 2_000))];
    let b = enter(store, with("c0", "b", 0, 2_050));
    let plain = start(store, "d0");
    assert_eq!(turns(store, &[a[0], a[1], b, plain]), [Turn::Holds, Turn::Waits, Turn::Holds, Turn::Holds]);
    assert_eq!(wait_of(store, a[1], 2_000), Some(Wait::KeyRate { until_ms: 2_100 }));
    assert!(begins(&mut heard).contains(&Begins::Later(W.into(), 2_100)));
    admit(store, 2_100);
    assert_eq!(begins(&mut heard), [Begins::Run(a[1])]);
}

fn a_limit_that_is_changed_or_taken_away_counts_at_once(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, runs(0), 900);
    let started: Vec<RunKey> = (0..6).map(|n| start(store, &format!("a{n}"))).collect();
    assert_eq!(turns(store, &started), [Turn::Waits; 6]);
    limit(store, runs(2), 1_000);
    assert_eq!(begins(&mut heard), [Begins::Run(started[0]), Begins::Run(started[1])]);
    limit(store, runs(1), 1_000);
    to(store, started[0], Status::Succeeded, 2_000);
    assert_eq!(begins(&mut heard), []);
    limit(store, runs(3), 1_000);
    assert_eq!(begins(&mut heard), [Begins::Run(started[2]), Begins::Run(started[3])]);
    limit(store, Limits::default(), 1_000);
    assert_eq!(begins(&mut heard), [Begins::Run(started[4]), Begins::Run(started[5])]);
    assert_eq!(store.read().limits_of(W).unwrap(), None);
    let set: Vec<Option<u32>> =
        store.read().limit_changes(W, 4).unwrap().iter().map(|change| change.limits.runs).collect();
    assert_eq!(set, [None, Some(3), Some(1), Some(2)]);
    assert!(store.read().all_limits().unwrap().is_empty());
}

fn runs_of_before_the_limit_count(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    let earlier = [start(store, "a"), enter(store, with("b", "k", 0, 1_000))];
    let late = enter(store, NewRun { begins_at_ms: Some(5_000), ..new_run("late") });
    limit(store, Limits { per_key: Some(1), ..runs(2) }, 1_000);
    assert_eq!(turn(store, late), Some(Turn::Rests));
    assert_eq!(store.read().queue_counts(W, 1_000).unwrap().under_way, 2);
    let next = [start(store, "c"), enter(store, with("d", "k", 0, 1_000))];
    assert_eq!(turns(store, &next), [Turn::Waits; 2]);
    to(store, earlier[0], Status::Failed, 2_000);
    assert_eq!(begins(&mut heard), [Begins::Run(next[0])]);
    to(store, next[0], Status::Failed, 2_000);
    assert_eq!(begins(&mut heard), []);
    assert_eq!(wait_of(store, next[1], 2_000), Some(Wait::PerKey(1)));
    // Its time has come: one of the two places is free.
    to(store, late, Status::Queued, 5_000);
    assert_eq!(begins(&mut heard), [Begins::Run(late)]);
    to(store, earlier[1], Status::Failed, 5_000);
    assert_eq!(begins(&mut heard), [Begins::Run(next[1])]);
}

fn who_is_paused_or_late_does_not_wait_and_gets_its_place_back(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, runs(1), 900);
    let first = start(store, "a");
    let late = enter(store, NewRun { begins_at_ms: Some(5_000), ..new_run("late") });
    let paused = start(store, "paused");
    let last = start(store, "last");
    to(store, paused, Status::Paused, 1_100);
    assert_eq!(turns(store, &[late, paused, last]), [Turn::Rests, Turn::Rests, Turn::Waits]);
    assert!(store.read().in_queue(paused, 1_100).unwrap().is_none());
    assert_eq!(store.read().in_queue(last, 1_100).unwrap().unwrap().place, 1);
    // Before its time nothing makes it wait for a place.
    change(store, late, RunChange { wake_at_ms: Some(5_000), ..RunChange::to(Status::Queued, 1_200) });
    assert_eq!(turn(store, late), Some(Turn::Rests));
    to(store, paused, Status::Queued, 1_300);
    to(store, late, Status::Queued, 5_000);
    assert_eq!(store.read().in_queue(last, 5_000).unwrap().unwrap().place, 3);
    for (ends, next) in [(first, late), (late, paused), (paused, last)] {
        to(store, ends, Status::Succeeded, 6_000);
        assert_eq!(begins(&mut heard), [Begins::Run(next)]);
    }
}

fn a_failed_run_that_is_taken_up_again_waits_like_others(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    let again = |run| {
        let retried = Append { reopens: true, ..Append::change(run, RunChange::to(Status::Queued, 3_000)) };
        store.flush(store.append(retried)).unwrap();
    };
    let plain = start(store, "plain");
    let earlier = start(store, "earlier");
    to(store, plain, Status::Failed, 1_000);
    to(store, earlier, Status::Failed, 1_000);
    again(plain);
    assert_eq!(begins(&mut heard), [Begins::Run(plain)], "it is told where nothing holds it up, too");
    limit(store, runs(1), 1_000);
    let failed = enter(store, with("a", "k", 3, 1_000));
    assert_eq!(turn(store, failed), Some(Turn::Waits));
    to(store, plain, Status::Succeeded, 1_500);
    to(store, failed, Status::Failed, 2_000);
    let next = start(store, "b");
    let waits = start(store, "c");
    begins(&mut heard);
    again(failed);
    again(earlier);
    assert_eq!(turns(store, &[failed, earlier]), [Turn::Waits; 2]);
    to(store, next, Status::Succeeded, 4_000);
    assert_eq!(begins(&mut heard), [Begins::Run(failed)], "with its priority");
    to(store, failed, Status::Succeeded, 4_000);
    assert_eq!(begins(&mut heard), [Begins::Run(earlier)], "with its place");
    to(store, earlier, Status::Succeeded, 4_000);
    assert_eq!(begins(&mut heard), [Begins::Run(waits)]);
}

fn a_run_that_goes_on_for_another_has_its_place(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, Limits { per_key: Some(1), ..runs(1) }, 900);
    let first = enter(store, with("a", "k", 2, 1_000));
    let waits = enter(store, with("b", "k", 100, 1_000));
    to(store, first, Status::Running, 1_000);
    let successor = Successor { run: with("a2", "", 0, 2_000), events: Vec::new(), seen: 0 };
    let ends = Append::change(first, RunChange::to(Status::Succeeded, 2_000));
    store.flush(store.append(Append { successor: Some(Box::new(successor)), ..ends })).unwrap();
    assert_eq!(begins(&mut heard), []);
    let row = store.read().run(&stepwell_core::ids::RunId::new("a2")).unwrap().unwrap();
    assert_eq!((row.turn, row.concurrency_key.as_deref(), row.priority), (Some(Turn::Holds), Some("k"), 2));
    to(store, row.key, Status::Succeeded, 3_000);
    assert_eq!(begins(&mut heard), [Begins::Run(waits)]);
}

fn a_run_that_has_not_begun_is_woken_when_its_time_is_over(subject: Subject) {
    let store = &*subject.store;
    let wake = |run| store.read().run_by_number(run).unwrap().unwrap().wake_at_ms;
    limit(store, runs(1), 900);
    let first = start(store, "a");
    let queue = QueueAs { deadline_ms: Some(9_000), ..QueueAs::default() };
    let timed = enter(store, NewRun { queue, ..new_run("b") });
    assert_eq!((wake(timed), store.read().next_wake().unwrap()), (Some(9_000), Some(9_000)));
    to(store, timed, Status::Paused, 2_000);
    assert_eq!(wake(timed), None, "a pause stops its clock");
    to(store, timed, Status::Queued, 2_000);
    assert_eq!((wake(timed), store.read().next_wake().unwrap()), (Some(9_000), Some(9_000)));
    to(store, timed, Status::Cancelled, 9_000);
    assert_eq!((turn(store, timed), store.read().next_wake().unwrap()), (Some(Turn::Over), None));
    to(store, first, Status::Succeeded, 9_000);
}

fn what_a_lost_commit_let_begin_has_not_begun(subject: Subject) {
    let store = &*subject.store;
    let mut heard = store.begins();
    limit(store, runs(1), 900);
    let (first, second) = (start(store, "a"), start(store, "b"));
    subject.failures.fail_next_commit(stepwell_store::StoreError::Io("full".into()));
    let lost = store.append(Append::change(first, RunChange::to(Status::Succeeded, 2_000)));
    store.flush(lost).unwrap_err();
    assert_eq!(turns(store, &[first, second]), [Turn::Holds, Turn::Waits]);
    assert_eq!(begins(&mut heard), []);
    store.recover(first);
    to(store, first, Status::Succeeded, 3_000);
    assert_eq!(begins(&mut heard), [Begins::Run(second)]);
}

fn a_clock_that_is_set_back_holds_nobody_up_for_longer_than_a_window(subject: Subject) {
    let store = &*subject.store;
    limit(store, rate(1, 1_000, false), 900);
    let late_ms = 3_600_000;
    let first = enter(store, with("a", "", 0, late_ms));
    let second = enter(store, with("b", "", 0, late_ms - 10));
    assert_eq!(wait_of(store, second, late_ms), Some(Wait::Rate { until_ms: late_ms + 1_000 }), "{first}");
    admit(store, 20_000);
    assert_eq!(wait_of(store, second, 20_000), Some(Wait::Rate { until_ms: 21_000 }));
    admit(store, 21_000);
    assert_eq!(turn(store, second), Some(Turn::Holds));
}

fn places_are_numbers_from_one_on(subject: Subject) {
    let store = &*subject.store;
    limit(store, runs(0), 900);
    let started: Vec<RunKey> =
        (0..6).map(|n| enter(store, with(&format!("a{n}"), ["k", "l", ""][n % 3], 0, 1_000))).collect();
    let high = enter(store, with("high", "k", 1, 1_000));
    let place = |run| {
        let found = store.read().in_queue(run, 1_000).unwrap().unwrap();
        assert_eq!(found.counted_to, 10_000);
        (found.place, found.place_in_key)
    };
    assert_eq!(place(high), (1, Some(1)));
    let places: Vec<_> = started.iter().map(|run| place(*run)).collect();
    assert_eq!(places, [(2, Some(2)), (3, Some(1)), (4, None), (5, Some(3)), (6, Some(2)), (7, None)]);
}

/// As much of a run as decides whether it may begin.
struct Modelled {
    key: &'static str,
    priority: i32,
    turn: Turn,
}

/// The queue as a list.
#[derive(Default)]
struct Model {
    limits: Limits,
    runs: BTreeMap<RunKey, Modelled>,
    begun: BTreeMap<&'static str, Vec<u64>>,
}

impl Model {
    fn standing(&self, key: &str) -> Standing {
        let holds = |run: &&Modelled| run.turn == Turn::Holds;
        let begun_ms = self.limits.rate.and_then(|rate| {
            let begun = self.begun.get(if rate.per_key { key } else { "" })?;
            begun.len().checked_sub(rate.runs as usize).map(|at| begun[at])
        });
        Standing {
            under_way: self.runs.values().filter(holds).count() as u64,
            of_key: self.runs.values().filter(holds).filter(|run| run.key == key).count() as u32,
            begun_ms,
        }
    }

    /// Lets those begin that may, each looked at in its order.
    fn admit(&mut self, now_ms: u64) {
        loop {
            let mut waiting: Vec<(i32, RunKey)> = self
                .runs
                .iter()
                .filter(|(_, run)| run.turn == Turn::Waits)
                .map(|(key, run)| (-run.priority, *key))
                .collect();
            waiting.sort_unstable();
            let may = |(_, run): &&(i32, RunKey)| {
                let key = self.runs[run].key;
                waits_for(&self.limits, !key.is_empty(), self.standing(key), now_ms).is_none()
            };
            let Some((_, run)) = waiting.iter().find(may) else { return };
            let modelled = self.runs.get_mut(run).unwrap();
            modelled.turn = Turn::Holds;
            if let Some(rate) = self.limits.rate.filter(|rate| !rate.per_key || !modelled.key.is_empty()) {
                self.begun.entry(if rate.per_key { modelled.key } else { "" }).or_default().push(now_ms);
            }
        }
    }
}

/// Numbers that look random, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn whatever_happens_those_begin_that_may(subject: Subject) {
    let store = &*subject.store;
    let mut chance = Chance(7);
    let mut now_ms = 1_000;
    let mut heard = store.begins();
    let mut model = Model::default();
    limit(store, runs(1), now_ms);
    model.limits = runs(1);
    for step in 0..1_500 {
        now_ms += chance.below(30);
        let keys: Vec<RunKey> = model.runs.keys().copied().collect();
        let any = (!keys.is_empty()).then(|| keys[chance.below(keys.len() as u64) as usize]);
        let done = match (chance.below(10), any) {
            (0..=3, _) | (_, None) => {
                let (key, priority) = (["", "k", "l", "m"][chance.below(4) as usize], chance.below(3) as i32 - 1);
                let run = enter(store, with(&format!("r{step}"), key, priority, now_ms));
                model.runs.insert(run, Modelled { key, priority, turn: Turn::Waits });
                format!("{run} comes")
            }
            (4..=6, Some(run)) => {
                to(store, run, Status::Succeeded, now_ms);
                model.runs.remove(&run);
                format!("{run} ends")
            }
            (7, Some(run)) => {
                let modelled = model.runs.get_mut(&run).unwrap();
                let (status, turn) = match modelled.turn {
                    Turn::Waits => (Status::Paused, Turn::Rests),
                    Turn::Rests => (Status::Queued, Turn::Waits),
                    other => (Status::Running, other),
                };
                modelled.turn = turn;
                to(store, run, status, now_ms);
                format!("{run} is {status}")
            }
            (8, _) if chance.below(4) == 0 => {
                let some = |n: u64, of: u64| (n > 0).then_some((n % of) as u32);
                let per_key = some(chance.below(3), 3);
                let rate = some(chance.below(4), 4).map(|runs| Rate { runs, per_ms: 60, per_key: per_key.is_none() });
                // Never without any, so that all who come are in the queue.
                let limits = Limits { runs: Some(chance.below(5) as u32), per_key, rate };
                if model.limits.rate.map(|rate| rate.per_key) != rate.map(|rate| rate.per_key) {
                    model.begun.clear();
                }
                limit(store, limits, now_ms);
                model.limits = limits;
                format!("{limits:?}")
            }
            _ => {
                admit(store, now_ms);
                "time goes by".to_owned()
            }
        };
        model.admit(now_ms);
        // Rates are looked at when something happens, or at the time that is told.
        for later in begins(&mut heard) {
            if let Begins::Later(_, at_ms) = later {
                assert!(at_ms > now_ms, "{step}: {done}: {at_ms} is over at {now_ms}");
            }
        }
        admit(store, now_ms);
        begins(&mut heard);
        for (run, modelled) in &model.runs {
            assert_eq!(turn(store, *run), Some(modelled.turn), "{step}: after {done} at {now_ms}: run {run}");
        }
        let waiting = model.runs.values().filter(|run| run.turn == Turn::Waits).count() as u64;
        let counts = store.read().queue_counts(W, now_ms).unwrap();
        assert_eq!((counts.waiting, counts.under_way), (waiting, model.standing("").under_way), "{step}: {done}");
    }
}
