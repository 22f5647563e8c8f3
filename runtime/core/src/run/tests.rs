//! The machine with a guest that a test plays by hand: enough to see the turns. The simulator goes further.

use super::*;
use crate::contract::{AttemptRef, Event, StepOptions};
use crate::ids::{Digest, RunId};
use crate::journal::entry::{Entry, RunOutcome, Started};
use crate::journal::print::{Printer, Times};
use crate::json::Json;
use crate::policy::retry::RetryPolicy;

fn started() -> Vec<u8> {
    Machine::first_entry(
        1_000,
        Started {
            run: RunId::new("run_1"),
            workflow: "w".into(),
            digest: Digest::of(b"m"),
            input: Json::null(),
            retry: RetryPolicy::default(),
            step_timeout_ms: None,
            deadline_ms: None,
            parent: None,
            continues: None,
        },
    )
}

/// The journal and the other outputs since the last call.
fn drain(machine: &mut Machine, journal: &mut Vec<Vec<u8>>) -> Vec<Output> {
    machine
        .outputs()
        .into_iter()
        .filter_map(|output| match output {
            Output::Append { bytes, .. } => {
                journal.push(bytes);
                None
            }
            other => Some(other),
        })
        .collect()
}

fn text(journal: &[Vec<u8>]) -> String {
    let entries: Vec<Entry> =
        (0..).zip(journal).map(|(seq, bytes)| crate::journal::codec::decode(seq, bytes).unwrap()).collect();
    Printer::print(&entries, Times::Hidden)
}

#[test]
fn a_step_and_its_replay() {
    let mut journal = vec![started()];
    let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
    let op = machine.step_begin("a", &StepOptions::default(), 1_001).unwrap();
    machine.handle(Input::Quiet, 1_001, 0);
    let outputs = drain(&mut machine, &mut journal);
    let [Output::Deliver(Event::Attempt(attempt))] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!(attempt.idempotency_key, "run_1:a:1");
    machine.step_finish(AttemptRef { operation: op, number: 1 }, Ok(Json::parse("7").unwrap()), 1_002, 0).unwrap();
    machine.handle(Input::Quiet, 1_003, 0);
    let outputs = drain(&mut machine, &mut journal);
    assert!(
        matches!(&outputs[..], [Output::Deliver(Event::Completed(0, value))] if value.as_str() == "7"),
        "{outputs:?}"
    );
    machine.handle(Input::Returned(Ok(Json::parse("7").unwrap())), 1_004, 0);
    let outputs = drain(&mut machine, &mut journal);
    assert!(matches!(&outputs[..], [Output::Finished(RunOutcome::Succeeded(_))]));
    assert_eq!(
        text(&journal),
        "started w null\nstep-begun 0 a\nattempt-started 0 a attempt 1\nattempt-ended 0 a attempt 1 succeeded 7\n\
         delivered 0 a (turn 1)\nended succeeded 7\n"
    );

    let mut replay = Machine::load(&journal, None, Mode::Verify).unwrap();
    assert_eq!(replay.step_begin("a", &StepOptions::default(), 9_000), Ok(0));
    replay.handle(Input::Quiet, 9_000, 0);
    assert!(matches!(&replay.outputs()[..], [Output::Deliver(Event::Completed(0, _))]));
    assert_eq!(replay.now_ms(9_000), 1_003);
    replay.handle(Input::Returned(Ok(Json::parse("8").unwrap())), 9_000, 0);
    let outputs = replay.outputs();
    let [Output::Stopped(mismatch)] = &outputs[..] else { panic!("{outputs:?}") };
    assert!(mismatch.likely.contains("step \"a\""), "{mismatch}");
}

#[test]
fn another_step_on_replay_stops_the_run_and_writes_nothing() {
    let mut journal = vec![started()];
    let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
    machine.step_begin("a", &StepOptions::default(), 1_001).unwrap();
    drain(&mut machine, &mut journal);
    let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
    let error = machine.step_begin("b", &StepOptions::default(), 1_001).unwrap_err();
    assert_eq!(error.code, "workflows.replay_mismatch");
    machine.handle(Input::Quiet, 1_001, 0);
    assert!(matches!(&machine.outputs()[..], [Output::Stopped(_)]));
}
