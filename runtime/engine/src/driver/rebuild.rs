//! Building instances again from the journal: only a few runs at a time.
//!
//! A process that dies soon after its start, for whatever reason, then counts against those few and not against every run that was
//! under way.

use super::Driver;
use crate::points::Points;

impl Driver {
    /// Waits for a place among those that are rebuilt. Not if the run needs no instance any more, or is to be left meanwhile.
    pub(super) async fn turn_comes(&mut self) -> bool {
        // A rebuild that did not come to its end holds one still.
        self.rebuilding = None;
        let place = self.engine.rebuilds().clone().acquire_owned();
        // The engine never closes it.
        self.rebuilding = self.hearing(place).await.and_then(Result::ok);
        self.rebuilding.is_some()
    }

    /// A run that has come to its journal's end makes room for the next.
    pub(super) fn rebuilt(&mut self) {
        if self.rebuilding.is_some() && (self.end.is_some() || self.shared.lock().machine.is_live()) {
            self.rebuilding = None;
        }
    }

    /// Whether all that the instance holds now is in the journal.
    pub(super) fn can_be_dropped(&self) -> bool {
        let shared = self.shared.lock();
        shared.machine.is_live() && !shared.machine.has_attempts_under_way() && !shared.machine.is_ending()
    }

    pub(super) fn points(&self) -> &Points {
        &self.engine.settings().points
    }
}
