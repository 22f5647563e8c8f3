//! Crashes, traps of bodies, and code that has changed: what a run goes on from, and what it does not go on from.

use stepwell_core::contract::{Event, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::limits::MAX_RECOVERIES;
use stepwell_core::run::{Input, Machine, Mode, Output};

use crate::play::{Play, START_MS, declined, json, post, started};

#[test]
fn a_trap_in_a_body_is_retried_alone_and_its_siblings_are_lost() {
    let mut play = Play::new();
    play.step("traps");
    play.step("sibling");
    play.step("third");
    let traps = play.attempt();
    let sibling = play.attempt();
    let exchange = play.send(&sibling, post("x"));
    let third = play.attempt();
    play.finish(&third, Ok("3"));
    play.note("the turn that traps belongs to the body that delays");
    let delay = play.machine.delay(traps.id, 5, START_MS).unwrap();
    play.clock(5);
    assert!(matches!(play.quiet(), Some(Event::Answered(of, _)) if of == delay));
    play.traps(Code::Trap);
    play.rebuild();
    play.note("the sibling's request is carried to its settlement");
    assert!(play.torn().is_empty());
    play.answered(exchange, 201, "done");
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))));
    play.next_due();
    play.clock(1_005);
    let again = play.attempt();
    assert_eq!((again.id.operation, again.id.number), (0, 2));
    play.note("alone: the sibling waits until this attempt is over");
    play.nothing();
    play.finish(&again, Ok("1"));
    let other = play.attempt();
    assert_eq!(other.id.operation, 1);
    play.finish(&other, Ok("2"));
    play.quiet();
    play.quiet();
    play.returns(Ok("null"));
    play.check("a_trap_in_a_body_is_retried_alone");
}

#[test]
fn a_crash_counts_as_a_failed_attempt_and_the_due_time_holds() {
    let mut play = Play::new();
    play.step("a");
    play.attempt();
    play.crash();
    play.nothing();
    play.crash();
    play.clock(999);
    play.nothing();
    play.clock(1_000);
    let second = play.attempt();
    assert_eq!(second.id.number, 2);
    play.crash();
    play.nothing();
    play.next_due();
    play.attempt();
    play.crash();
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("three attempts were lost") };
    assert!(error.is(Code::InvocationLost));
    play.returns(Err(error));
    play.check("a_crash_counts_as_a_failed_attempt");
}

#[test]
fn a_caught_error_is_the_same_after_replay() {
    let mut play = Play::new();
    play.step("a");
    let attempt = play.attempt();
    let error = Error { details: Some(json("{\"balance\":1.50}")), ..declined("no funds").never_retried() };
    play.finish(&attempt, Err(error));
    play.quiet();
    play.sleep(1_000);
    play.nothing();
    play.note("`crash` asserts that each delivery is the one that was made");
    play.crash();
    play.clock(1_000);
    play.quiet();
    play.returns(Ok("null"));
    play.check("a_caught_error_is_the_same_after_replay");
}

#[test]
fn a_crash_after_any_entry_loses_no_result_that_is_recorded() {
    let mut kept = 2;
    loop {
        let mut play = Play::new();
        play.step("a");
        play.step("b");
        let a = play.attempt();
        let b = play.attempt();
        play.finish(&b, Ok("\"b\""));
        play.finish(&a, Ok("\"a\""));
        play.quiet();
        play.quiet();
        if kept > play.journal.len() {
            return;
        }
        play.crash_keeping(kept);
        if kept == 2 {
            assert_eq!(play.step("b"), 1, "the second step's beginning was lost with what followed");
        }
        let mut results = Vec::new();
        for _ in 0..20 {
            match play.quiet() {
                Some(Event::Attempt(attempt)) => play.finish(&attempt, Ok("\"again\"")),
                Some(Event::Completed(_, value)) => results.push(value),
                Some(other) => panic!("{other:?}"),
                None if play.machine.next_due_ms().is_some() => play.next_due(),
                None => break,
            }
        }
        play.note(&format!("{results:?}"));
        play.check(&format!("a_crash_after_entry_{kept}"));
        kept += 1;
    }
}

/// A run whose journal has two steps, an event and a race, and which waits now.
fn recorded() -> Vec<Vec<u8>> {
    let mut play = Play::of(started());
    play.step("a");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    let wait = play.wait("x", None);
    play.sleep(10);
    play.clock(10);
    play.quiet();
    play.close(wait);
    play.step("b");
    play.journal
}

#[test]
fn code_that_differs_stops_the_run_and_writes_nothing() {
    type Guest = fn(&mut Machine);
    fn a(m: &mut Machine) {
        let _ = m.step_begin("a", &StepOptions::default(), START_MS);
        m.handle(Input::Quiet, START_MS, 0);
    }
    fn race(m: &mut Machine) {
        a(m);
        let _ = m.wait_event("x", None, START_MS);
        let _ = m.sleep(99, START_MS);
        m.handle(Input::Quiet, START_MS, 0);
    }
    let cases: [(&str, Guest, &str, &str); 11] = [
        ("another step", |m| drop(m.step_begin("A", &StepOptions::default(), START_MS)), "step \"a\"", "step \"A\""),
        ("another kind", |m| drop(m.sleep(1, START_MS)), "step \"a\"", "a sleep"),
        ("no command", |m| m.handle(Input::Quiet, START_MS, 0), "step \"a\"", "no further command"),
        ("a return", |m| m.handle(Input::Returned(Ok(json("1"))), START_MS, 0), "step \"a\"", "the workflow's end"),
        ("an idle guest", |m| m.handle(Input::Idle, START_MS, 0), "step \"a\"", "waits for nothing"),
        (
            "a command more",
            |m| {
                let _ = m.step_begin("a", &StepOptions::default(), START_MS);
                let _ = m.sleep(1, START_MS);
            },
            "the outcome of step \"a\"",
            "a sleep",
        ),
        (
            "another event",
            |m| {
                a(m);
                let _ = m.wait_event("y", None, START_MS);
            },
            "event \"x\"",
            "event \"y\"",
        ),
        (
            "an order",
            |m| {
                a(m);
                let _ = m.sleep(10, START_MS);
            },
            "event \"x\"",
            "a sleep",
        ),
        (
            "no close",
            |m| {
                race(m);
                let _ = m.step_begin("b", &StepOptions::default(), START_MS);
            },
            "the close of operation 1",
            "step \"b\"",
        ),
        (
            "a close of another",
            |m| {
                a(m);
                let _ = m.wait_event("x", None, START_MS);
                let _ = m.close(1, START_MS, 0);
            },
            "a sleep",
            "the close of operation 1",
        ),
        (
            "one fewer at the end",
            |m| {
                race(m);
                let _ = m.close(1, START_MS, 0);
                m.handle(Input::Returned(Ok(json("1"))), START_MS, 0);
            },
            "step \"b\"",
            "the workflow's end",
        ),
    ];
    let journal = recorded();
    for (name, guest, recorded, came) in cases {
        for mode in [Mode::Continue, Mode::Verify] {
            let mut machine = Machine::load(&journal, None, mode).unwrap();
            guest(&mut machine);
            let stopped = machine.stopped().cloned().unwrap_or_else(|| panic!("{name}: not stopped"));
            assert!(stopped.recorded.contains(recorded) && stopped.came.contains(came), "{name}: {stopped}");
            for refused in [
                machine.sleep(1, START_MS).unwrap_err(),
                machine.step_begin("z", &StepOptions::default(), START_MS).unwrap_err(),
            ] {
                assert!(refused.is(Code::ReplayMismatch), "{name}: {refused}");
            }
            machine.handle(Input::Event { id: 1, name: "x".into(), payload: json("1") }, START_MS + 99, 0);
            machine.handle(Input::Quiet, START_MS + 99, 0);
            machine.handle(Input::Returned(Ok(json("1"))), START_MS + 99, 0);
            let outputs = machine.outputs();
            assert!(
                !outputs.iter().any(|o| matches!(o, Output::Append { .. } | Output::Send { .. } | Output::Finished(_))),
                "{name}: {outputs:?}"
            );
        }
        let mut right = Machine::load(&journal, None, Mode::Continue).unwrap();
        race(&mut right);
        assert_eq!(right.close(1, START_MS, 0), Ok(()));
        assert_eq!(right.step_begin("b", &StepOptions::default(), START_MS), Ok(3), "the right code goes on");
        assert!(right.stopped().is_none());
    }
}

#[test]
fn what_may_be_mended_is_not_compared() {
    let mut machine = Machine::load(recorded(), None, Mode::Continue).unwrap();
    let mut options = StepOptions { timeout_ms: Some(7), ..StepOptions::default() };
    options.retry.max_attempts = Some(9);
    assert_eq!(machine.step_begin("a", &options, START_MS), Ok(0));
    machine.handle(Input::Quiet, START_MS, 0);
    assert_eq!(machine.wait_event("x", Some(123), START_MS), Ok(1));
    assert_eq!(machine.sleep(456, START_MS), Ok(2));
    machine.handle(Input::Quiet, START_MS, 0);
    assert!(machine.stopped().is_none());
}

#[test]
fn a_run_that_takes_the_host_down_is_parked_after_ten_recoveries_without_progress() {
    let journal = recorded();
    let mut machine = Machine::load(&journal, None, Mode::Continue).unwrap();
    for _ in 0..MAX_RECOVERIES {
        machine.resume(START_MS + 99, false).unwrap();
    }
    let error = machine.resume(START_MS + 99, false).unwrap_err();
    assert!(error.is(Code::RecoveryLimit), "{error}");
    assert_eq!(machine.entries(), journal.len() as u64 + u64::from(MAX_RECOVERIES), "the refusal wrote nothing");
    machine.resume(START_MS + 99, true).unwrap();
    machine.handle(Input::Event { id: 1, name: "y".into(), payload: json("1") }, START_MS + 99, 0);
    machine.resume(START_MS + 99, false).expect("an entry is progress");
}

#[test]
fn a_journal_that_cannot_be_read_is_refused_by_its_entry() {
    let good = recorded();
    let refused = |journal: &[Vec<u8>]| Machine::load(journal, None, Mode::Continue).unwrap_err().0;
    assert_eq!(refused(&[]).seq, 0);
    assert!(refused(&good[1..]).reason.contains("`started`"));
    for at in 0..good.len() {
        let mut torn = good.clone();
        torn[at].pop();
        assert_eq!(refused(&torn).seq, at as u64);
        // A timer's firing twice says nothing new; any other entry twice is no journal.
        if std::str::from_utf8(&good[at]).unwrap().contains("timer_fired") {
            continue;
        }
        let mut doubled = good.clone();
        doubled.insert(at, good[at].clone());
        assert_eq!(refused(&doubled).seq, at as u64 + 1);
    }
}

#[test]
fn log_lines_of_workflow_code_are_written_once() {
    use stepwell_core::contract::Level::Info;
    let lines = |machine: &mut Machine| -> Vec<(u64, u32)> {
        let outputs = machine.outputs();
        outputs.iter().filter_map(|o| if let Output::Log(l) = o { Some((l.turn, l.index)) } else { None }).collect()
    };
    let journal = recorded();
    for (logged, expected) in [
        (None, vec![(0, 0), (0, 1), (1, 0)]),
        (Some((0, 0)), vec![(0, 1), (1, 0)]),
        (Some((0, 1)), vec![(1, 0)]),
        (Some((1, 0)), vec![]),
    ] {
        let mut machine = Machine::load(&journal, logged, Mode::Continue).unwrap();
        machine.log(Info, "one".into(), None, START_MS);
        machine.log(Info, "two".into(), None, START_MS);
        let _ = machine.step_begin("a", &StepOptions::default(), START_MS);
        machine.handle(Input::Quiet, START_MS, 0);
        machine.log(Info, "three".into(), None, START_MS);
        assert_eq!(lines(&mut machine), expected, "after {logged:?}");
    }
}
