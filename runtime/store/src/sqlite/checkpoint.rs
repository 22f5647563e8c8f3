//! Checkpoints: the write-ahead log is brought into the database by a thread of its own, beside commits. Done within a commit, as
//! SQLite does by itself, it holds up everybody who waits for one: megabytes are copied and synced.
//!
//! The log begins anew only once all of it has been brought over and nothing came meanwhile. So when a pass has left little, the writer
//! does that little itself, after a commit. A log that has become very large has the writer wait for the pass: it does not grow for ever.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, MAIN_DB};

use crate::error::{Result, StoreError};

/// A pass begins when the log has so many pages that are not in the database, 8 MiB: each syncs as much, and commits beside it wait for
/// their turn at the disk.
pub(super) const MUCH: u32 = 1_000;
/// So few the writer brings over by itself: 1 MiB.
const LITTLE: u32 = 128;
/// Somebody was in the way: it is tried again when the log has grown by so many.
const AGAIN: u32 = 500;
/// With so many pages in the log, whoever commits waits for the pass: 512 MiB.
const TOO_MANY: u32 = 64_000;

pub(super) struct Checkpointer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// Pages in the log by the last commit; 0 where it has written none.
    pages: Arc<AtomicU32>,
}

struct Shared {
    file: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// A pass is wanted, or under way.
    is_busy: bool,
    is_closed: bool,
    progress: Progress,
}

/// How far the log has been brought over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Progress {
    /// Pages in the log when this was last looked at.
    pages: u32,
    /// Of those, in the database.
    moved: u32,
    /// Somebody reads what is not yet in the database, or the disk refuses: it is not tried again before the log has so many pages.
    not_before: u32,
}

/// What is to be done after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Nothing,
    /// A pass beside what comes.
    Pass,
    /// The rest, at once.
    Rest,
}

impl Progress {
    /// After a commit that left so many pages in the log.
    fn committed(&mut self, pages: u32) -> Next {
        if pages < self.pages {
            // It has begun anew.
            *self = Self::default();
        }
        self.pages = pages;
        let left = pages.saturating_sub(self.moved);
        if pages < self.not_before {
            Next::Nothing
        } else if self.moved > 0 && left <= LITTLE {
            // If it does not begin anew then, somebody reads in it: it is not tried at each commit.
            self.not_before = pages.saturating_add(AGAIN);
            Next::Rest
        } else if left >= MUCH || self.moved > 0 {
            Next::Pass
        } else {
            Next::Nothing
        }
    }

    /// After a pass that found so many pages in the log, and so many in the database at its end.
    fn passed(&mut self, pages: u32, moved: u32) {
        self.moved = moved;
        if moved < pages {
            self.not_before = pages.saturating_add(AGAIN);
        }
    }

    /// After a pass that came to nothing.
    fn failed(&mut self) {
        self.not_before = self.pages.saturating_add(MUCH);
    }
}

impl Checkpointer {
    /// For a database and the connection that writes it.
    pub(super) fn begin(file: &Path, connection: &mut Connection) -> Result<Self> {
        let pages = Arc::new(AtomicU32::new(0));
        let told = pages.clone();
        // In the place of SQLite's own hook, which would checkpoint within the commit.
        connection.wal_hook(Some(move |_: &mut Wal, count: i32| {
            told.store(u32::try_from(count).unwrap_or(0), Ordering::Relaxed);
            Ok(())
        }))?;
        let shared = Arc::new(Shared { file: file.to_owned(), state: Mutex::default(), changed: Condvar::new() });
        let thread = thread::Builder::new()
            .name("stepwell-checkpoints".into())
            .spawn({
                let shared = shared.clone();
                move || shared.pass_until_closed()
            })
            .map_err(|error| StoreError::Io(format!("the thread for checkpoints did not start: {error}")))?;
        Ok(Self { shared, thread: Some(thread), pages })
    }

    /// To be called after each commit, with the connection that made it. A checkpoint that fails harms no commit; the log grows, and it
    /// is tried again.
    pub(super) fn committed(&self, connection: &Connection) {
        let pages = self.pages.swap(0, Ordering::Relaxed);
        if pages == 0 {
            return;
        }
        let mut state = self.shared.lock();
        while state.is_busy && pages >= TOO_MANY {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.is_busy {
            return;
        }
        match state.progress.committed(pages) {
            Next::Nothing => {}
            Next::Rest => state.take(&pass(connection)),
            Next::Pass => {
                state.is_busy = true;
                self.shared.changed.notify_all();
            }
        }
    }

    /// Ends the thread, and its connection with it.
    pub(super) fn close(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic in it has been reported by its thread.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn pass_until_closed(&self) {
        // Made when it is first needed: most processes end before.
        let mut connection = None;
        loop {
            let mut state = self.lock();
            while !state.is_busy && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_closed {
                state.is_busy = false;
                self.changed.notify_all();
                return;
            }
            drop(state);
            let passed = match &connection {
                Some(connection) => pass(connection),
                None => self.open().and_then(|opened| pass(connection.insert(opened))),
            };
            let mut state = self.lock();
            state.take(&passed);
            state.is_busy = false;
            self.changed.notify_all();
        }
    }

    /// A connection whose passes sync as the writer's do.
    fn open(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open(&self.file)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(connection)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock panics but an assignment could not leave half of one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, passed: &rusqlite::Result<(u32, u32)>) {
        match passed {
            Ok((pages, moved)) => self.progress.passed(*pages, *moved),
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log could not be brought into the database; it is tried again");
                self.progress.failed();
            }
        }
    }
}

/// Brings over what nobody stands in the way of. How many pages the log has, and how many of them are in the database.
fn pass(connection: &Connection) -> rusqlite::Result<(u32, u32)> {
    let (pages, moved) = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE)?;
    let count = |number: i32| u32::try_from(number).unwrap_or(0);
    Ok((count(pages), count(moved)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_begins_when_the_log_is_long_and_its_rest_is_brought_over_by_the_writer() {
        let mut progress = Progress::default();
        assert_eq!(progress.committed(MUCH - 1), Next::Nothing);
        assert_eq!(progress.committed(MUCH), Next::Pass);
        // While it went on, others committed much.
        progress.passed(MUCH, MUCH);
        assert_eq!(progress.committed(MUCH + LITTLE + 1), Next::Pass);
        progress.passed(MUCH + LITTLE + 1, MUCH + LITTLE + 1);
        assert_eq!(progress.committed(MUCH + LITTLE + 5), Next::Rest);
        progress.passed(MUCH + LITTLE + 5, MUCH + LITTLE + 5);
        // The log begins anew.
        assert_eq!(progress.committed(3), Next::Nothing);
        assert_eq!(progress, Progress { pages: 3, moved: 0, not_before: 0 });
    }

    #[test]
    fn what_a_reader_stands_in_the_way_of_is_not_tried_at_each_commit() {
        let mut progress = Progress::default();
        assert_eq!(progress.committed(MUCH), Next::Pass);
        progress.passed(MUCH, 10);
        assert_eq!(progress.committed(MUCH + 1), Next::Nothing);
        assert_eq!(progress.committed(MUCH + AGAIN), Next::Pass);
        progress.passed(MUCH + AGAIN, MUCH + AGAIN);
        assert_eq!(progress.committed(MUCH + AGAIN + 1), Next::Rest);
        progress.passed(MUCH + AGAIN + 1, MUCH + AGAIN + 1);
        // All of it is in the database, but the reader still reads in it.
        assert_eq!(progress.committed(MUCH + AGAIN + 2), Next::Nothing);
        assert_eq!(progress.committed(MUCH + 2 * AGAIN + 1), Next::Pass);
    }

    #[test]
    fn a_failure_is_tried_again_when_the_log_has_grown() {
        let mut progress = Progress::default();
        assert_eq!(progress.committed(MUCH), Next::Pass);
        progress.failed();
        assert_eq!(progress.committed(2 * MUCH - 1), Next::Nothing);
        assert_eq!(progress.committed(2 * MUCH), Next::Pass);
    }
}
