//! Schedules: of two who write one the second is told, a firing is kept with its run or not at all, and which runs are a schedule's.

use stepwell_core::ids::{Digest, RunId};
use stepwell_store::{
    Action, Append, NewRun, RunChange, RunKey, Schedule, ScheduleCounts, Status, Store, StoreError, Submission,
    Successor,
};

use crate::subject::{Subject, WHEN_AWAITED, for_each_store, new_run, numbered, with_module};

for_each_store!(
    WHEN_AWAITED,
    of_two_who_fire_a_schedule_one_starts_a_run,
    one_that_was_made_anew_is_another,
    schedules_are_found_by_their_times_and_counted,
    a_schedule_knows_its_open_runs_whatever_becomes_of_them,
);

fn schedule(name: &str, version: u64, next_ms: Option<u64>) -> Schedule {
    Schedule {
        name: name.into(),
        version,
        workflow: "w".into(),
        next_ms,
        paused: next_ms.is_none().then(|| "by ana".into()),
        problem: None,
        spec: "{}".into(),
        told: "[]".into(),
    }
}

fn submit(store: &dyn Store, action: Action) -> Result<Vec<RunKey>, StoreError> {
    store.submit(Submission { actions: vec![action], answer: None }).wait().map(|kept| kept.runs)
}

fn put(store: &dyn Store, schedule: Schedule, replaces: Option<u64>) -> Result<Vec<RunKey>, StoreError> {
    submit(store, Action::PutSchedule { schedule, replaces })
}

fn fire(store: &dyn Store, schedule: Schedule, replaces: u64, run: NewRun) -> Result<Vec<RunKey>, StoreError> {
    submit(store, Action::Fire { schedule, replaces, run })
}

fn keyed(name: &str, run_key: &str) -> NewRun {
    NewRun { run_key: Some(run_key.into()), ..new_run(name) }
}

fn version(store: &dyn Store) -> Option<u64> {
    store.read().schedule("s").unwrap().map(|schedule| schedule.version)
}

fn of_two_who_fire_a_schedule_one_starts_a_run(subject: Subject) {
    let store = with_module(&subject);
    put(store, schedule("s", 7, Some(10)), None).unwrap();
    // Both have seen the same; their runs differ in everything, so that nothing but the schedule tells them apart.
    assert_eq!(fire(store, schedule("s", 8, Some(20)), 7, keyed("run_1", "k1")).unwrap().len(), 1);
    assert_eq!(fire(store, schedule("s", 9, Some(20)), 7, keyed("run_2", "k2")), Err(StoreError::Outdated));
    assert_eq!(store.read().schedule("s").unwrap(), Some(schedule("s", 8, Some(20))));
    assert!(store.read().run(&RunId::new("run_2")).unwrap().is_none());
    // A run that cannot be started leaves the schedule where it was, and so does a commit that fails.
    let taken = fire(store, schedule("s", 9, Some(30)), 8, keyed("run_3", "k1"));
    assert_eq!(taken, Err(StoreError::RunKeyTaken(RunId::new("run_1"))));
    let elsewhere = NewRun { digest: Digest::of(b"none"), ..keyed("run_3", "k3") };
    let gone = fire(store, schedule("s", 9, Some(30)), 8, elsewhere);
    assert_eq!(gone, Err(StoreError::NoSuchModule(Digest::of(b"none"))));
    subject.failures.fail_next_commit(StoreError::DiskFull("no room".into()));
    fire(store, schedule("s", 9, Some(30)), 8, keyed("run_4", "k4")).unwrap_err();
    assert_eq!(version(store), Some(8));
    assert!(store.read().run(&RunId::new("run_4")).unwrap().is_none());
    subject.failures.fail_next_commit(StoreError::DiskFull("no room".into()));
    submit(store, Action::RemoveSchedule("s".into())).unwrap_err();
    assert_eq!(version(store), Some(8));
}

fn one_that_was_made_anew_is_another(subject: Subject) {
    let store = with_module(&subject);
    put(store, schedule("s", 7, Some(10)), None).unwrap();
    assert_eq!(put(store, schedule("s", 8, Some(10)), None), Err(StoreError::Outdated), "it is there");
    let remove = || submit(store, Action::RemoveSchedule("s".into()));
    assert_eq!(remove(), Ok(vec![]));
    assert_eq!(remove(), Err(StoreError::NoSuchSchedule("s".into())));
    assert_eq!(put(store, schedule("s", 9, None), Some(7)), Err(StoreError::Outdated));
    put(store, schedule("s", 10, Some(10)), None).unwrap();
    // Who has seen the first does not fire for the second.
    assert_eq!(fire(store, schedule("s", 11, Some(20)), 7, new_run("run_1")), Err(StoreError::Outdated));
    assert_eq!(version(store), Some(10));
}

fn schedules_are_found_by_their_times_and_counted(subject: Subject) {
    let store = &*subject.store;
    for (name, next_ms) in [("c", Some(10)), ("a", Some(30)), ("b", Some(20)), ("d", None)] {
        put(store, schedule(name, 1, next_ms), None).unwrap();
    }
    let due = |now_ms| store.read().due_schedules(now_ms).unwrap();
    assert_eq!((due(20), due(9)), (vec!["c".to_owned(), "b".to_owned()], vec![]));
    assert_eq!((store.read().next_schedule(20).unwrap(), store.read().next_schedule(30).unwrap()), (Some(30), None));
    let names = |found: Vec<Schedule>| found.into_iter().map(|schedule| schedule.name).collect::<Vec<_>>();
    assert_eq!(names(store.read().schedules(None, 3).unwrap()), ["a", "b", "c"]);
    assert_eq!(names(store.read().schedules(Some("b"), 3).unwrap()), ["c", "d"]);
    assert_eq!(store.read().schedule("d").unwrap(), Some(schedule("d", 1, None)));
    let failing = Schedule { problem: Some("no module".into()), ..schedule("a", 2, Some(30)) };
    put(store, failing, Some(1)).unwrap();
    assert_eq!(store.read().schedule_counts().unwrap(), ScheduleCounts { active: 2, paused: 1, failing: 1 });
}

fn a_schedule_knows_its_open_runs_whatever_becomes_of_them(subject: Subject) {
    let store = with_module(&subject);
    let open = |name: &str| store.read().has_open_run(name).unwrap();
    let end = |run, seq, status| {
        store.flush(store.append(numbered(run, seq).with_change(RunChange::to(status, 5)))).unwrap();
    };
    put(store, schedule("s", 1, Some(10)), None).unwrap();
    put(store, schedule("other", 1, Some(10)), None).unwrap();
    // Whoever marks a run with a schedule's name does not make it the schedule's.
    let tagged = NewRun { tags: vec![("schedule".into(), "s".into())], ..new_run("run_0") };
    submit(store, Action::Start(tagged)).unwrap();
    assert!(!open("s"));
    let first = fire(store, schedule("s", 2, Some(20)), 1, new_run("run_1")).unwrap()[0];
    let second = fire(store, schedule("s", 3, Some(30)), 2, new_run("run_2")).unwrap()[0];
    assert!(open("s") && !open("other"));
    end(first, 1, Status::Failed);
    assert!(open("s"), "the second is");
    end(second, 1, Status::Cancelled);
    assert!(!open("s"));
    // A failed one that is taken up again is open again, until it ends again.
    let mut retried = numbered(first, 2).with_change(RunChange::to(Status::Waiting, 6));
    retried.reopens = true;
    store.flush(store.append(retried)).unwrap();
    assert!(open("s"));
    // One that goes on for it has its place; also for a schedule that was taken away and made anew.
    submit(store, Action::RemoveSchedule("s".into())).unwrap();
    put(store, schedule("s", 4, Some(20)), None).unwrap();
    let batch = numbered(first, 3).with_change(RunChange::to(Status::Succeeded, 7));
    let successor = Successor { run: new_run("run_3"), events: vec![], seen: 0 };
    store.flush(store.append(Append { successor: Some(Box::new(successor)), ..batch })).unwrap();
    assert!(open("s"));
    let third = store.read().run(&RunId::new("run_3")).unwrap().unwrap().key;
    end(third, 1, Status::Succeeded);
    assert!(!open("s") && !open("other"));
}
