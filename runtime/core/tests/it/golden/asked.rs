//! What people ask of a run: pausing, resuming, terminating.

use stepwell_core::contract::{EffectClass, Event};
use stepwell_core::error::Code;
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::run::{Activity, Granted, Refusal, RunStatus};

use crate::play::{Play, class, declined, post};

#[test]
fn a_paused_run_lets_its_attempt_end_and_starts_and_tells_nothing() {
    let mut play = Play::new();
    play.step("under way");
    play.step("behind it");
    play.sleep(500);
    play.wait("paid", Some(600));
    let attempt = play.attempt();
    let exchange = play.send(&attempt, post("charge 5"));
    assert_eq!(play.pause(), Ok(Granted::Now));
    assert_eq!(play.pause(), Ok(Granted::Already));
    play.answered(exchange, 200, "ok");
    // Its body hears of its answer, may ask for more, and comes to its end.
    assert!(matches!(play.quiet(), Some(Event::Answered(..))));
    let second = play.send(&attempt, post("mail"));
    play.answered(second, 200, "ok");
    play.quiet();
    play.finish(&attempt, Ok("1"));
    play.nothing();
    assert_eq!(play.activity(), Activity::Paused);
    // What falls due waits, and what comes is kept.
    play.clock(550);
    play.event(1, "paid", "7");
    play.nothing();
    assert_eq!(play.machine.next_due_ms(), None);
    assert!(play.machine.can_park());
    play.crash();
    play.nothing();
    assert_eq!(play.activity(), Activity::Paused);
    assert_eq!(play.unpause(), Ok(Granted::Now));
    assert_eq!(play.unpause(), Ok(Granted::Already));
    let mut told = Vec::new();
    while told.len() < 4 {
        match play.quiet().unwrap() {
            Event::Attempt(attempt) => play.finish(&attempt, Ok("2")),
            Event::Completed(op, _) => told.push(op),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, [0, 3, 2, 1]);
    play.returns(Ok("1"));
    play.check("a_paused_run");
}

#[test]
fn a_paused_attempt_keeps_its_deadline_and_its_retry_waits() {
    let mut play = Play::new();
    let mut options = class(EffectClass::Repeatable);
    options.timeout_ms = Some(100);
    play.step_with("a", &options);
    let attempt = play.attempt();
    play.pause().unwrap();
    play.clock(100);
    assert_eq!(play.quiet(), Some(Event::Expired(attempt.id)));
    play.clock(60_000);
    play.nothing();
    assert_eq!(play.activity(), Activity::Paused);
    play.unpause().unwrap();
    let next = play.attempt();
    assert_eq!(next.id.number, 2);
    play.finish(&next, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("a_paused_attempt");
}

#[test]
fn a_cancel_of_a_paused_run_is_kept_until_it_is_resumed() {
    let mut play = Play::new();
    play.sleep(1_000);
    play.nothing();
    play.pause().unwrap();
    assert_eq!(play.cancel(), Ok(Granted::OnResume));
    play.nothing();
    play.crash();
    assert_eq!(play.cancel(), Ok(Granted::Already));
    play.nothing();
    play.unpause().unwrap();
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    assert!(matches!(play.quiet(), Some(Event::Failed(0, _))));
    play.returns(Err(declined("cancelled")));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Cancelled(_))));
    play.check("a_cancel_of_a_paused_run");
}

#[test]
fn a_run_of_which_nothing_has_run_is_cancelled_at_once() {
    let mut play = Play::queued();
    assert_eq!(play.cancel(), Ok(Granted::Now));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Cancelled(_))));
    assert_eq!(play.cancel(), Err(Refusal::Ended(RunStatus::Cancelled)));
    play.check("a_queued_run_is_cancelled");
}

#[test]
fn a_terminated_run_tears_its_requests_down_and_keeps_what_is_unknown() {
    let mut play = Play::new();
    let charge = play.step_with("charge", &class(EffectClass::Keyed));
    play.step_with("mail", &class(EffectClass::Keyed));
    play.step("read");
    play.sleep(1_000_000);
    let first = play.attempt();
    let exchange = play.send(&first, post("charge 5"));
    // It is repeated under its key when it is terminated: what it did is unknown.
    let second = play.attempt();
    let mail = play.send(&second, post("mail"));
    play.lost(mail);
    play.quiet();
    play.finish(&second, Err(declined("lost")));
    let third = play.attempt();
    assert_eq!(third.id.operation, 2);
    assert_eq!(play.terminate(), Ok(Granted::Now));
    assert_eq!(play.terminate(), Ok(Granted::Already));
    assert_eq!(play.torn(), [exchange]);
    assert_eq!(play.cancel(), Err(Refusal::Ending));
    assert_eq!(play.pause(), Err(Refusal::Ending));
    // Whatever the guest still tries is for nothing.
    play.nothing();
    play.refuses(|machine, now_ms| machine.step_begin("late", &class(EffectClass::Keyed), now_ms));
    play.send_refused(&third, post("late"));
    play.lost(exchange);
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Terminated(error)) if error.is(Code::Terminated)));
    assert_eq!(play.machine.next_due_ms(), None, "no timer is left");
    let unknown: Vec<String> = play.machine.unknown_steps().iter().map(ToString::to_string).collect();
    assert_eq!(unknown, ["charge", "mail"]);
    assert_eq!(play.terminate(), Err(Refusal::Ended(RunStatus::Terminated)));
    assert_eq!(charge, 0);
    play.check("a_terminated_run");
}

#[test]
fn a_termination_is_carried_to_its_end_after_a_crash_without_the_run_s_code() {
    let mut play = Play::new();
    play.step_with("charge", &class(EffectClass::Once));
    let attempt = play.attempt();
    play.send(&attempt, post("charge 5"));
    play.terminate().unwrap();
    play.lose_process();
    assert!(play.machine.is_terminating());
    play.next_due();
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Terminated(_))));
    assert_eq!(play.machine.unknown_steps().len(), 1);
    play.check("a_termination_after_a_crash");
}
