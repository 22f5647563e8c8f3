//! Failed runs that are taken up again: what is attempted again, what is told again, and what is void.

use super::charge::{World, charge_with};
use crate::play::{Play, class, declined, json, post};
use stepwell_core::contract::EffectClass::{Keyed, Once, Repeatable};
use stepwell_core::contract::{Attempt, Event, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::Digest;
use stepwell_core::run::{Activity, Refusal, Retry};

pub(super) fn no() -> Error {
    declined("no").never_retried()
}

fn once_only(options: StepOptions) -> StepOptions {
    let mut options = options;
    options.retry.max_attempts = Some(1);
    options
}

pub(super) fn confirmed() -> Retry {
    Retry { confirm: true, ..Retry::default() }
}

impl Play {
    /// The workflow is told of the failure.
    pub(super) fn told_failed(&mut self, op: u32) -> Error {
        match self.quiet() {
            Some(Event::Failed(of, error)) if of == op => error,
            other => panic!("operation {op} has failed, and this is told: {other:?}"),
        }
    }

    /// A step that does something and succeeds.
    fn does(&mut self, name: &str, body: &str) -> u32 {
        let op = self.step_with(name, &class(Keyed));
        let attempt = self.attempt();
        self.round(&attempt, post(body), World::Status(201));
        self.finish(&attempt, Ok("1"));
        assert!(matches!(self.quiet(), Some(Event::Completed(of, _)) if of == op));
        op
    }
}

/// The step's attempts are used up, and what it did is unknown; the run has failed by that.
fn failed(options: &StepOptions) -> Play {
    let (mut play, attempt) = charge_with(&once_only(options.clone()));
    play.round(&attempt, post("charge 5"), World::Lost);
    play.fails(&attempt, World::Lost);
    let error = play.told_failed(0);
    play.returns(Err(error));
    play
}

#[test]
fn the_step_that_failed_is_attempted_again_under_the_key_that_it_had() {
    let mut play = failed(&class(Repeatable));
    play.clock(60_000);
    let retried = play.retry(&Retry::default()).unwrap();
    assert_eq!((retried.step.unwrap().to_string(), retried.void.len()), ("charge".to_owned(), 0));
    let again = play.attempt();
    assert_eq!(again.id.number, 2);
    play.succeeds(&again);
    play.check("retried");
}

#[test]
fn attempts_are_counted_anew_and_their_numbers_grow() {
    let mut options = class(Repeatable);
    options.retry.max_attempts = Some(2);
    let (mut play, first) = charge_with(&options);
    let second = play.failed_round(&first, World::Status(503));
    play.round(&second, post("charge 5"), World::Status(503));
    play.fails(&second, World::Status(503));
    let error = play.told_failed(0);
    play.returns(Err(error));
    play.retry(&Retry::default()).unwrap();
    play.crash();
    let third = play.attempt();
    let fourth = play.failed_round(&third, World::Status(503));
    assert_eq!(fourth.id.number, 4);
    play.round(&fourth, post("charge 5"), World::Status(503));
    play.fails(&fourth, World::Status(503));
    let error = play.told_failed(0);
    play.returns(Err(error));
    // And once more.
    play.retry(&Retry::default()).unwrap();
    assert_eq!(play.attempt().id.number, 5);
    play.check("retried_twice");
}

/// One of three fails while the others are under way; the run ends with that.
#[test]
fn what_was_open_goes_on_and_results_are_told_again() {
    let mut play = Play::new();
    play.step("ship");
    play.step("mail");
    play.step("charge");
    play.sleep(1_000_000);
    play.wait("paid", Some(2_000_000));
    let ship = play.attempt();
    play.finish(&ship, Ok("\"shipped\""));
    let mail = play.attempt();
    play.finish(&mail, Err(declined("later")));
    let charge = play.attempt();
    play.finish(&charge, Err(no()));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    let error = play.told_failed(2);
    play.event(1, "paid", "5");
    play.returns(Err(error));
    play.retry(&Retry::default()).unwrap();
    play.crash();
    // The event came before the end, and is told now; the charge and the mail are attempted again; the sleep goes on to its time.
    assert_eq!(play.quiet(), Some(Event::Completed(4, json("5"))));
    for number in [2, 2] {
        let attempt: Attempt = play.attempt();
        assert_eq!(attempt.id.number, number);
        play.finish(&attempt, Ok("1"));
    }
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))));
    play.nothing();
    assert!(matches!(play.activity(), Activity::Waiting { until_ms: Some(2_000_000), .. }));
    play.returns(Ok("1"));
    play.check("retried_open");
}

#[test]
fn what_was_done_since_is_confirmed_and_answered_from_the_record() {
    let mut play = Play::new();
    play.step("charge");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.does("refund", "refund 5");
    play.returns(Err(error));
    let Err(Refusal::NeedsConfirm(effects, _)) = play.retry(&Retry::default()) else {
        panic!("it did something since")
    };
    assert_eq!((effects.len(), &effects[0].key.as_deref()), (1, &Some("run_1:refund:e1")));
    let entries = play.machine.entries();
    assert_eq!(play.retry(&confirmed()).unwrap().void, effects);
    assert_eq!(play.machine.entries(), entries + 2, "a refusal is not recorded");
    let again = play.attempt();
    play.finish(&again, Err(no()));
    let error = play.told_failed(0);
    // The code comes to the same step: it goes on with its number, and what it did is not done again.
    let sent = play.sends();
    let op = play.step_with("refund", &class(Keyed));
    assert_eq!(op, 2, "numbers of void operations are not given again");
    let attempt = play.attempt();
    assert_eq!((attempt.id.number, attempt.idempotency_key.as_str()), (2, "run_1:refund:2"));
    play.send(&attempt, post("refund 5"));
    assert!(matches!(play.quiet(), Some(Event::Answered(..))));
    play.finish(&attempt, Ok("1"));
    play.quiet();
    assert_eq!(play.sends(), sent);
    play.returns(Err(error));
    play.check("retried_void_done");
}

#[test]
fn what_a_void_step_may_have_done_is_neither_repeated_nor_forgotten() {
    let mut play = Play::new();
    play.step("check");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.step_with("charge", &class(Once));
    let attempt = play.attempt();
    play.round(&attempt, post("charge 5"), World::Lost);
    play.fails(&attempt, World::Lost);
    play.nothing();
    play.returns(Err(error));
    assert!(matches!(play.retry(&Retry::default()), Err(Refusal::NeedsConfirm(effects, _)) if !effects[0].done));
    play.retry(&confirmed()).unwrap();
    assert!(play.machine.unknown()[0].void, "it stays listed");
    let again = play.attempt();
    play.finish(&again, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.step_with("charge", &class(Once));
    let attempt = play.attempt();
    let error = play.send_refused(&attempt, post("charge 5"));
    play.finish(&attempt, Err(error));
    play.nothing();
    let unknown = play.machine.unknown();
    assert_eq!((unknown.len(), unknown[0].void, unknown[0].effects.len()), (1, false, 1), "{unknown:?}");
    play.check("retried_void_unknown");
}

#[test]
fn an_event_goes_back_to_its_place_in_line() {
    let mut play = Play::new();
    play.step("charge");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.event(1, "paid", "1");
    play.event(2, "paid", "2");
    let wait = play.wait("paid", None);
    assert_eq!(play.quiet(), Some(Event::Completed(wait, json("1"))));
    play.returns(Err(error));
    play.retry(&Retry::default()).unwrap();
    let again = play.attempt();
    play.finish(&again, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    for event in ["1", "2"] {
        let wait = play.wait("paid", None);
        assert_eq!(play.quiet(), Some(Event::Completed(wait, json(event))));
    }
    play.returns(Ok("1"));
    play.check("retried_events");
}

#[test]
fn a_run_that_failed_by_its_own_code_needs_another_module() {
    let mut play = Play::new();
    play.does("charge", "charge 5");
    play.sleep(1_000);
    play.returns(Err(Error::new(Code::WorkflowFailed, "a fault in the code")));
    assert_eq!(play.retry(&Retry::default()), Err(Refusal::NeedsCode));
    let own = Retry { digest: Some(play.machine.digest().clone()), ..Retry::default() };
    assert_eq!(play.retry(&own), Err(Refusal::NeedsCode));
    let mended = Retry { digest: Some(Digest::of(b"mended")), ..Retry::default() };
    let retried = play.retry(&mended).unwrap();
    assert_eq!((retried.step, retried.again.len()), (None, 0));
    // It was told that the charge is done, and what its code made of that is void.
    play.step("mail");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("retried_mended");
}

#[test]
fn a_run_is_taken_back_to_the_step_that_is_named() {
    let fails = |play: &mut Play, name: &str| {
        let op = play.step(name);
        let attempt = play.attempt();
        play.finish(&attempt, Err(no()));
        play.told_failed(op)
    };
    let mut play = Play::new();
    fails(&mut play, "first");
    play.does("between", "between");
    let error = fails(&mut play, "second");
    play.step("open");
    play.returns(Err(error));
    let from = |step: &str, confirm| Retry { from_step: Some(step.to_owned()), confirm, ..Retry::default() };
    assert_eq!(play.retry(&from("none", true)), Err(Refusal::NoSuchStep("none".into())));
    assert_eq!(play.retry(&from("between", true)), Err(Refusal::StepNotFailed("between".into())));
    assert_eq!(play.retry(&from("open", true)), Err(Refusal::StepNotFailed("open".into())));
    assert!(matches!(play.retry(&from("first", false)), Err(Refusal::NeedsConfirm(..))));
    play.retry(&from("first", true)).unwrap();
    let attempt = play.attempt();
    assert_eq!((attempt.id.operation, attempt.id.number), (0, 2));
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("retried_from_a_step");
}

#[test]
fn only_a_failed_run_is_retried() {
    let mut play = Play::new();
    play.step("charge");
    assert_eq!(play.retry(&Retry::default()), Err(Refusal::NotFailed));
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    assert!(matches!(play.retry(&confirmed()), Err(Refusal::Ended(_))));
}

#[test]
fn the_time_that_a_run_was_over_does_not_count_for_its_time_out() {
    let mut started = crate::play::started();
    started.deadline_ms = Some(crate::play::START_MS + 10_000);
    let mut play = Play::of(started);
    play.step("charge");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.clock(4_000);
    play.returns(Err(error));
    play.clock(100_000);
    play.retry(&Retry::default()).unwrap();
    let again = play.attempt();
    play.finish(&again, Ok("1"));
    play.quiet();
    play.sleep(1_000_000);
    play.nothing();
    assert_eq!(play.machine.next_due_ms(), Some(crate::play::START_MS + 106_000));
    play.check("retried_time_out");
}
