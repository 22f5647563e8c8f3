//! What only the store in memory can do: crash, and lose a journal.

use stepwell_core::ids::RunId;
use stepwell_store::testing::Failures;
use stepwell_store::{MemoryStore, RunFilter, Store, StoreError};

use crate::subject::{WHEN_AWAITED, length, new_run, numbered, start};

#[test]
fn a_crash_loses_what_was_not_durable_and_nothing_else() {
    let store = MemoryStore::open(WHEN_AWAITED, Failures::default()).unwrap();
    let run = start(&store, "run_1");
    store.flush(store.append(numbered(run, 1))).unwrap();
    let lost = [store.append(numbered(run, 2)), store.append(numbered(run, 3))];
    let lost_start = store.start_run(new_run("run_2"));
    store.lose_unflushed();

    assert_eq!(store.flush(lost[0]), Err(StoreError::Closed));
    assert!(matches!(store.flush(lost[1]), Err(StoreError::Stopped { .. })));
    assert_eq!(lost_start.wait(), Err(StoreError::Closed));
    assert_eq!(length(&store, run), 2);
    assert_eq!(store.read().run(&RunId::new("run_2")).unwrap(), None);

    // The run goes on from what is there, as after a restart.
    store.flush(store.append(numbered(run, 2))).unwrap();
    assert_eq!(length(&store, run), 3);
}

#[test]
fn a_journal_that_cannot_be_read_hinders_nobody_else() {
    let store = MemoryStore::open(WHEN_AWAITED, Failures::default()).unwrap();
    let (damaged, well) = (start(&store, "damaged"), start(&store, "well"));
    store.damage_journal(damaged);
    assert!(matches!(store.read().journal(damaged), Err(StoreError::Corrupt(_))));
    assert_eq!(length(&store, well), 1);
    assert_eq!(store.read().runs(&RunFilter::default()).unwrap().runs.len(), 2);
    assert_eq!(store.read().unfinished().unwrap().0.len(), 2);
}
