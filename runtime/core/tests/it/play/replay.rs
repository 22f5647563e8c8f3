//! What workflow code did and was told in a play, done again against beginnings of its journal.
//!
//! This is the promise of replay: whatever entry was the last on disk, the code gets the numbers and the deliveries that it got, in
//! that order, and nothing is written before it has come to the journal's end.

use stepwell_core::contract::{Event, Operation, RunOptions, StepOptions};
use stepwell_core::error::Error;
use stepwell_core::json::Json;
use stepwell_core::run::{Input, Machine, Mode, Output};

/// Something that workflow code did, or was told.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Step(Operation, String, StepOptions),
    Sleep(Operation, u64),
    Wait(Operation, String, Option<u64>),
    Send(Operation, String, String, Json),
    Start(Operation, String, Json, RunOptions),
    Continue(Json),
    Close(Operation),
    Told(Event),
}

impl Act {
    /// Of an event, if it is for workflow code.
    pub(super) fn told(event: &Event) -> Option<Self> {
        matches!(event, Event::Completed(..) | Event::Failed(..) | Event::Cancelled).then(|| Self::Told(event.clone()))
    }
}

/// Does the acts again up to the journal's end; how many there were.
pub(super) fn follow(machine: &mut Machine, acts: &[Act], now_ms: u64) -> usize {
    for (done, act) in acts.iter().enumerate() {
        // A close of what was over already is not in the journal.
        if machine.at_frontier() && !matches!(act, Act::Close(_)) {
            return done;
        }
        match act {
            Act::Step(op, name, options) => assert_eq!(machine.step_begin(name, options, now_ms), Ok(*op)),
            Act::Sleep(op, ms) => assert_eq!(machine.sleep(*ms, now_ms), Ok(*op)),
            Act::Wait(op, name, timeout_ms) => assert_eq!(machine.wait_event(name, *timeout_ms, now_ms), Ok(*op)),
            Act::Send(op, to, name, payload) => {
                assert_eq!(machine.send_event(to, name, payload.clone(), now_ms), Ok(*op));
            }
            Act::Start(op, workflow, input, options) => {
                assert_eq!(machine.start_run(workflow, input.clone(), options.clone(), now_ms), Ok(*op));
            }
            Act::Continue(input) => assert_eq!(machine.continue_as_new(input.clone(), now_ms), Ok(())),
            Act::Close(_) if machine.at_frontier() => return done,
            Act::Close(op) => assert_eq!(machine.close(*op, now_ms, 0), Ok(())),
            Act::Told(event) => {
                machine.handle(Input::Quiet, now_ms, 0);
                let outputs = machine.outputs();
                let [Output::Deliver(again)] = &outputs[..] else { panic!("not {event:?} but {outputs:?}") };
                assert_eq!(again, event);
                continue;
            }
        }
        let outputs = machine.outputs();
        assert!(outputs.is_empty(), "{act:?} while replaying: {outputs:?}");
    }
    acts.len()
}

/// Replays every beginning of the journal that has at least `from` entries.
pub(super) fn every_beginning(journal: &[Vec<u8>], from: usize, acts: &[Act], text: &str) {
    for mode in [Mode::Continue, Mode::Verify] {
        for kept in from..=journal.len() {
            let load = Machine::load(&journal[..kept], None, mode);
            let mut machine = load.unwrap_or_else(|e| panic!("{kept} entries: {e}\n{text}"));
            let no_instance = machine.ended().is_some() || machine.is_terminating() || machine.is_paused();
            if no_instance && mode == Mode::Continue {
                // A run that is over, or paused, is only ever verified.
                continue;
            }
            follow(&mut machine, acts, u64::MAX / 2);
            assert!(machine.at_frontier(), "{kept} entries are not replayed to their end\n{text}");
            assert!(machine.stopped().is_none(), "{:?}\n{text}", machine.stopped());
        }
    }
}

/// Verifies a run that has returned: another result is a difference, the same one is none.
pub(super) fn verified(journal: &[Vec<u8>], acts: &[Act], result: Result<Json, Error>) {
    let ends = |result| {
        let mut machine = Machine::load(journal, None, Mode::Verify).unwrap();
        follow(&mut machine, acts, u64::MAX / 2);
        machine.handle(Input::Returned(result), u64::MAX / 2, 0);
        machine.outputs()
    };
    let outputs = ends(result.clone());
    assert!(matches!(&outputs[..], [Output::Verified]), "{outputs:?}");
    if acts.iter().any(|act| matches!(act, Act::Continue(_))) {
        // What the function returns is nobody's result.
        return;
    }
    let outputs = match result {
        Ok(_) => ends(Ok(Json::parse("\"another\"").unwrap())),
        Err(_) => ends(Ok(Json::null())),
    };
    assert!(matches!(&outputs[..], [Output::Stopped(_)]), "{outputs:?}");
}
