//! Stores to test, and short words for what the tests write.

use std::path::Path;

use stepwell_core::ids::{Digest, RunId};
use stepwell_store::testing::{Failures, Faulty};
use stepwell_store::{
    Append, Gather, Grouped, MemoryStore, NewModule, NewRun, QueueAs, RunKey, SqliteLedger, SqliteOptions, SqliteStore,
    Started, Store,
};
use tempfile::TempDir;

/// Nothing is committed before somebody waits.
pub(crate) const WHEN_AWAITED: Gather = Gather { linger: None, max_records: 1_000_000 };

/// A store and the means to make its commits fail.
pub(crate) struct Subject {
    pub(crate) store: Box<dyn Store>,
    pub(crate) failures: Failures,
    _directory: Option<TempDir>,
}

pub(crate) fn in_memory(gather: Gather) -> Subject {
    let failures = Failures::default();
    let store = Box::new(MemoryStore::open(gather, failures.clone()).unwrap());
    Subject { store, failures, _directory: None }
}

pub(crate) fn on_disk(gather: Gather) -> Subject {
    let directory = tempfile::tempdir().unwrap();
    let failures = Failures::default();
    let (ledger, reads) = SqliteLedger::open(directory.path(), SqliteOptions::default()).unwrap();
    let store = Box::new(Grouped::over(Faulty::new(ledger, failures.clone()), reads, gather).unwrap());
    Subject { store, failures, _directory: Some(directory) }
}

pub(crate) fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(directory, SqliteOptions::default()).unwrap()
}

/// Each test of the list, once with each implementation.
macro_rules! for_each_store {
    ($gather:expr, $($test:ident),+ $(,)?) => {
        mod in_memory {
            use super::*;
            $(#[test] fn $test() { super::$test($crate::subject::in_memory($gather)); })+
        }
        mod on_disk {
            use super::*;
            $(#[test] fn $test() { super::$test($crate::subject::on_disk($gather)); })+
        }
    };
    // And as a list of the mutation tests'.
    (ALL: $gather:expr, $($test:ident),+ $(,)?) => {
        $crate::subject::for_each_store!($gather, $($test),+);
        #[cfg(feature = "planted-faults")]
        pub(crate) const ALL: &[fn($crate::subject::Subject)] = &[$($test),+];
    };
}
pub(crate) use for_each_store;

pub(crate) fn new_run(name: &str) -> NewRun {
    NewRun {
        run: RunId::new(name),
        workflow: "checkout".into(),
        digest: Digest::of(b"module"),
        run_key: None,
        created_at_ms: 1_000,
        first: vec![b"started".to_vec()],
        inbox: Vec::new(),
        tags: Vec::new(),
        begins_at_ms: None,
        retry_of: None,
        rerun: None,
        queue: QueueAs::default(),
    }
}

/// Starts a run with one entry.
pub(crate) fn start(store: &dyn Store, name: &str) -> RunKey {
    match store.start_run(new_run(name)).wait().unwrap() {
        Started::New(key) => key,
        existing @ Started::Existing { .. } => panic!("{existing:?}"),
    }
}

/// A batch of one entry that says its own number.
pub(crate) fn numbered(run: RunKey, seq: u64) -> Append {
    Append::entries(run, seq, vec![seq.to_le_bytes().to_vec()])
}

/// The journal's length, once it is known to be whole.
pub(crate) fn length(store: &dyn Store, run: RunKey) -> u64 {
    store.read().journal(run).unwrap().len() as u64
}

/// Its store, with the module that new runs are of.
pub(crate) fn with_module(subject: &Subject) -> &dyn Store {
    let module = NewModule {
        digest: Digest::of(b"module"),
        bytes: b"module".to_vec(),
        description: "{}".into(),
        added_at_ms: 1,
    };
    subject.store.put_module(module).wait().unwrap();
    &*subject.store
}
