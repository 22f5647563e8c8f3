//! `continue-as-new`: the run ends, and a fresh one goes on in its place, with an empty journal. Events that came and were not made use
//! of are for that one.

use super::errand::{Continue, Errand};
use super::machine::{Machine, Output};
use super::replay::Came;
use crate::error::{Code, Error};
use crate::fault::{Fault, planted};
use crate::ids::RunId;
use crate::journal::entry::{Record, RunOutcome};
use crate::json::Json;
use crate::limits;

impl Machine {
    /// Ends the run once its function returns, so that another goes on with that input. Nothing begins any more.
    ///
    /// # Errors
    /// Refused in a body's turn, the second time, with an input that is too large, and once the workflow was told to cancel.
    pub fn continue_as_new(&mut self, input: Json, now_ms: u64) -> Result<(), Error> {
        self.may_begin("a run that goes on", &self.state.started.workflow)?;
        if self.guest.cancelled {
            let text = "the run was cancelled, so no other goes on for it";
            return Err(Error::new(Code::Cancelled, text).never_retried());
        }
        if input.len() > limits::MAX_VALUE_BYTES {
            let (len, max) = (input.len(), limits::MAX_VALUE_BYTES);
            let text =
                format!("the input of the run that goes on has {len} bytes of JSON; at most {max} can be recorded");
            return Err(Error::new(Code::ResultTooLarge, text).never_retried());
        }
        if self.replayed(Came::Continue(&input))?.is_none() {
            self.record(now_ms, Record::ContinuedAsNew { input });
            self.guest.cursor = self.state.script.len();
        }
        self.guest.continued = true;
        Ok(())
    }

    /// The id of the run that goes on.
    pub(super) fn id_of_next(&self, now_ms: u64) -> RunId {
        RunId::derived(self.run_id(), "next", now_ms.max(self.state.at_ms))
    }

    /// The run has ended: the one that goes on is started with the same commit.
    pub(super) fn go_on_in_another(&mut self, outcome: &RunOutcome) {
        let (RunOutcome::Continued(run), Some(input)) = (outcome, self.state.continued.clone()) else { return };
        let events = if planted(Fault::ContinueDropsEvents) { Vec::new() } else { self.state.events_left() };
        let next = Continue { run: run.clone(), input, events, seen: self.state.last_event };
        self.outputs.push(Output::Errand(Errand::Continue(Box::new(next))));
    }
}
