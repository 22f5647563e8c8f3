//! How runs end: cancelled, timed out, deadlocked, by a trap.

use stepwell_core::contract::Event;
use stepwell_core::error::{Code, Error};
use stepwell_core::journal::entry::{RunOutcome, Started};
use stepwell_core::run::{Granted, Input, Refusal, RunStatus};

use crate::play::{Play, START_MS, declined, json, post, started};

#[test]
fn a_cancel_fails_what_is_open_and_lets_the_workflow_clean_up() {
    let mut play = Play::new();
    play.sleep(1_000_000);
    play.wait("x", Some(500));
    play.nothing();
    play.clock(100);
    assert_eq!(play.cancel(), Ok(Granted::Now));
    assert_eq!(play.cancel(), Ok(Granted::Already));
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    for op in [0, 1] {
        assert!(matches!(play.quiet(), Some(Event::Failed(of, error)) if of == op && error.is(Code::Cancelled)));
    }
    assert_eq!(play.machine.next_due_ms(), None, "no timer is left");
    play.step("clean up");
    let attempt = play.attempt();
    let exchange = play.send(&attempt, post("undo"));
    play.answered(exchange, 200, "");
    play.quiet();
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))));
    play.returns(Err(Error::new(Code::Cancelled, "rethrown")));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Cancelled(_))));
    play.check("a_cancel_fails_what_is_open");
}

#[test]
fn a_cancel_closes_an_executing_step_and_ends_a_back_off() {
    let mut play = Play::new();
    play.step("failing");
    play.step("executing");
    let failing = play.attempt();
    play.finish(&failing, Err(declined("no")));
    let executing = play.attempt();
    let exchange = play.send(&executing, post("x"));
    assert_eq!(play.cancel(), Ok(Granted::Now));
    assert_eq!(play.torn(), [exchange]);
    assert_eq!(play.quiet(), Some(Event::Expired(executing.id)));
    // The request is settled before the workflow is told, so that what fails does so in order.
    assert_eq!(play.quiet(), None);
    play.lost(exchange);
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    let mut failed = Vec::new();
    for _ in 0..2 {
        let Some(Event::Failed(op, error)) = play.quiet() else { panic!("two operations were open") };
        assert!(error.is(Code::Cancelled));
        failed.push(op);
    }
    assert_eq!(failed, [0, 1]);
    play.returns(Err(Error::new(Code::Cancelled, "rethrown")));
    play.check("a_cancel_closes_an_executing_step");
}

#[test]
fn a_cancelled_workflow_that_returns_a_result_has_succeeded() {
    let mut play = Play::new();
    play.sleep(1_000);
    play.nothing();
    assert_eq!(play.cancel(), Ok(Granted::Now));
    play.quiet();
    play.quiet();
    play.returns(Ok("\"in time\""));
    assert_eq!(play.cancel(), Err(Refusal::Ended(RunStatus::Succeeded)));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Succeeded(_))));
    play.check("a_cancelled_workflow_that_returns_a_result");
}

#[test]
fn a_cancel_during_replay_is_recorded_at_once_and_told_at_the_journal_s_end() {
    let mut play = Play::new();
    play.step("a");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.sleep(5_000);
    play.nothing();
    play.crash();
    assert_eq!(play.cancel(), Ok(Granted::Now));
    // It holds, whatever becomes of this process.
    play.crash();
    assert_eq!(play.cancel(), Ok(Granted::Already));
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    assert!(matches!(play.quiet(), Some(Event::Failed(1, _))));
    play.returns(Err(Error::new(Code::Cancelled, "rethrown")));
    play.check("a_cancel_during_replay");
}

#[test]
fn a_run_s_time_out_is_a_cancel_with_a_reason() {
    let mut play = Play::of(Started { deadline_ms: Some(START_MS + 1_000), ..started() });
    play.wait("x", None);
    play.nothing();
    play.clock(999);
    play.nothing();
    play.clock(1_000);
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the wait has ended") };
    assert!(error.is(Code::RunTimeout));
    play.returns(Err(error));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Cancelled(error)) if error.is(Code::RunTimeout)));
    play.check("a_run_s_time_out");
}

#[test]
fn a_workflow_that_awaits_what_nothing_settles_is_a_deadlock_at_once() {
    let mut play = Play::new();
    play.step("a");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.nothing();
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Failed(error)) if error.is(Code::Deadlock)));
    play.check("deadlock_quiet");

    let mut play = Play::new();
    play.wait("x", None);
    play.machine.handle(Input::Idle, START_MS, 0);
    play.nothing();
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Failed(error)) if error.is(Code::Deadlock)));
    play.check("deadlock_idle");
}

#[test]
fn a_trap_in_workflow_code_ends_the_run_with_its_code() {
    for code in [Code::Trap, Code::StackOverflow, Code::MemoryLimit, Code::TurnTimeout] {
        let mut play = Play::new();
        play.step("a");
        let attempt = play.attempt();
        play.finish(&attempt, Ok("1"));
        play.quiet();
        play.traps(code);
        assert!(matches!(play.machine.ended(), Some(RunOutcome::Failed(error)) if error.is(code)));
        play.check(&format!("a_trap_in_workflow_code_{}", code.as_str().trim_start_matches("workflows.")));
    }
}

#[test]
fn a_trap_in_workflow_code_settles_the_bodies_first() {
    let mut play = Play::new();
    play.step("a");
    play.sleep(10);
    let attempt = play.attempt();
    let exchange = play.send(&attempt, post("x"));
    play.clock(10);
    play.quiet();
    play.traps(Code::Trap);
    assert!(play.machine.ended().is_none());
    play.answered(exchange, 200, "");
    assert!(play.machine.ended().is_some());
    play.check("a_trap_in_workflow_code_settles_the_bodies");
}

#[test]
fn results_of_2_mib_are_recorded_and_one_byte_more_is_refused() {
    let value = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let mut play = Play::new();
    for (name, bytes) in [("fits", 2 << 20), ("too large", (2 << 20) + 1)] {
        play.step(name);
        let attempt = play.attempt();
        play.finish(&attempt, Ok(&value(bytes)));
        match play.machine.step_of(attempt.id.operation).map(|step| step.name.as_str()) {
            Some("fits") => assert!(matches!(play.quiet(), Some(Event::Completed(0, _)))),
            _ => assert!(matches!(play.quiet(), Some(Event::Failed(1, error)) if error.is(Code::ResultTooLarge))),
        }
    }
    play.returns(Ok(&value((2 << 20) + 1)));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Failed(error)) if error.is(Code::ResultTooLarge)));
}

#[test]
fn any_error_text_is_recorded_within_its_bound() {
    let mut play = Play::new();
    for text in ["a\u{0}b\n\u{1b}[31m", "\u{fffd}", &"é".repeat(5 << 19), ""] {
        play.step("a");
        let attempt = play.attempt();
        play.finish(&attempt, Err(declined(text).never_retried()));
        let Some(Event::Failed(_, error)) = play.quiet() else { panic!("it has failed") };
        assert!(text.starts_with(&error.message) && error.message.len() <= 8 << 10);
        assert!(error.message.len() == text.len() || error.message.len() >= (8 << 10) - 3);
    }
    play.returns(Ok("null"));
    play.check("any_error_text");
}

#[test]
fn details_of_2_mib_are_recorded_and_larger_ones_left_out_with_a_word() {
    let value = |bytes: usize| json(&format!("\"{}\"", "x".repeat(bytes - 2)));
    let failed = |bytes: usize| Error { details: Some(value(bytes)), ..declined("it said so").never_retried() };
    let mut play = Play::new();
    for (bytes, kept) in [(2 << 20, true), ((2 << 20) + 1, false)] {
        play.step("a");
        let attempt = play.attempt();
        play.finish(&attempt, Err(failed(bytes)));
        let Some(Event::Failed(_, error)) = play.quiet() else { panic!("it has failed") };
        assert_eq!(error.details, kept.then(|| value(bytes)));
        assert_eq!(error.message.contains("left out"), !kept, "{}", error.message);
        assert!(error.message.starts_with("it said so") && error.code == failed(1 << 10).code, "{error:?}");
    }
    play.returns(Err(failed((2 << 20) + 1)));
    let Some(RunOutcome::Failed(error)) = play.machine.ended() else { panic!("it has failed") };
    assert!(error.details.is_none() && error.message.contains("left out"), "{}", error.message);
}

#[test]
fn ten_thousand_operations_may_be_open_and_not_one_more() {
    let mut play = Play::new();
    for _ in 0..10_000 {
        play.sleep(1);
    }
    let error = play.refuses(|machine, now| machine.sleep(1, now));
    assert!(error.is(Code::TooManyOperations), "{error}");
    play.close(7);
    assert_eq!(play.sleep(1), 10_000);
    play.clock(1);
    assert_eq!(play.quiet(), Some(Event::Completed(0, json("null"))));
}

#[test]
fn a_crash_after_a_cancel_goes_on_with_the_cancel() {
    let mut play = Play::new();
    play.step("executing");
    play.sleep(5_000);
    let attempt = play.attempt();
    play.send(&attempt, post("x"));
    assert_eq!(play.cancel(), Ok(Granted::Now));
    play.crash();
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    let mut failed = Vec::new();
    for _ in 0..2 {
        let Some(Event::Failed(op, error)) = play.quiet() else { panic!("two operations were open") };
        assert!(error.is(Code::Cancelled));
        failed.push(op);
    }
    failed.sort_unstable();
    assert_eq!(failed, [0, 1]);
    play.note("cleaning up is retried like any step");
    play.step("clean up");
    let first = play.attempt();
    play.finish(&first, Err(declined("no")));
    play.crash();
    play.nothing();
    play.next_due();
    let second = play.attempt();
    play.finish(&second, Ok("1"));
    play.quiet();
    play.returns(Err(declined("cancelled")));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Cancelled(_))));
    play.check("a_crash_after_a_cancel");
}
