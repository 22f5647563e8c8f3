//! Failed runs that are taken up again after a person has said what became of a step, or after they were told to cancel: what nobody
//! has said is not forgotten, and what was cancelled stays so.

use super::charge::World;
use super::retried::{confirmed, no};
use crate::play::{Play, class, json, post};
use stepwell_core::contract::EffectClass::{Keyed, Once};
use stepwell_core::contract::Event;
use stepwell_core::error::{Code, Error};
use stepwell_core::run::{Finding, Refusal, Retry};

/// A check has failed; after that a `once` step has sent something, and nobody knows whether it was done. A sleep goes on beside it.
fn unknown_after_a_failure() -> (Play, u32, Error) {
    let mut play = Play::new();
    play.step("check");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    let charge = play.step_with("charge", &class(Once));
    play.sleep(1_000);
    let attempt = play.attempt();
    play.round(&attempt, post("charge 5"), World::Lost);
    play.fails(&attempt, World::Lost);
    play.nothing();
    (play, charge, error)
}

impl Play {
    /// The run fails, and is taken back to the check, which succeeds now.
    fn checks_again(&mut self, error: Error) {
        self.returns(Err(error));
        self.retry(&confirmed()).unwrap();
        let again = self.attempt();
        self.finish(&again, Ok("1"));
        assert!(matches!(self.quiet(), Some(Event::Completed(0, _))));
    }
}

/// Nobody attempts it any more, so a person's "try it again" fails it. That it did not happen, nobody has said.
#[test]
fn what_was_given_up_may_have_happened_all_the_same() {
    let (mut play, charge, error) = unknown_after_a_failure();
    play.next_due();
    assert!(matches!(play.quiet(), Some(Event::Completed(..))));
    play.close(charge);
    let resolved = play.resolve(Finding::Retry).unwrap();
    assert!(resolved.given_up.is_some_and(|error| error.outcome_unknown));
    play.checks_again(error);
    play.step_with("charge", &class(Once));
    let attempt = play.attempt();
    let error = play.send_refused(&attempt, post("charge 5"));
    play.finish(&attempt, Err(error));
    play.ends_unknown();
    play.check("retried_void_given_up");
}

/// The code gives the id to a step of another class. Nobody has said that the other side knows the key under which it was done.
#[test]
fn a_keyed_step_does_not_repeat_what_was_sent_for_a_step_of_another_class() {
    let (mut play, charge, error) = unknown_after_a_failure();
    play.resolve(Finding::Succeeded(json("1"))).unwrap();
    assert!(matches!(play.quiet(), Some(Event::Completed(of, _)) if of == charge));
    play.checks_again(error);
    play.step_with("charge", &class(Keyed));
    let attempt = play.attempt();
    let error = play.send_refused(&attempt, post("charge 5"));
    assert!(error.is(Code::OutcomeUnknown));
    play.finish(&attempt, Err(error));
    play.nothing();
    assert_eq!(play.machine.unknown_steps().len(), 1);
    play.check("retried_void_other_class");
}

/// The shorter of two lives is what both steps were written for.
#[test]
fn a_key_lives_no_longer_than_the_first_step_said() {
    let mut play = Play::new();
    play.step("check");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    let mut short = class(Keyed);
    short.key_ttl_ms = Some(60_000);
    play.step_with("charge", &short);
    let attempt = play.attempt();
    play.round(&attempt, post("charge 5"), World::Lost);
    play.checks_again(error);
    play.step_with("charge", &class(Keyed));
    let attempt = play.attempt();
    play.clock(60_000);
    let error = play.send_refused(&attempt, post("charge 5"));
    play.finish(&attempt, Err(error));
    play.ends_unknown();
    play.check("retried_void_old_key");
}

/// A run that was told to cancel does not attempt what it had begun before.
#[test]
fn what_was_begun_before_a_cancel_is_not_attempted_again() {
    let mut play = Play::new();
    play.step("charge");
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    play.told_failed(0);
    let mail = play.step("mail");
    play.attempt();
    play.cancel().unwrap();
    assert!(matches!(play.quiet(), Some(Event::Expired(_))));
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    play.step("clean");
    play.told_failed(mail);
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    play.told_failed(2);
    play.traps(Code::Trap);
    let from = |step: &str| Retry { from_step: Some(step.to_owned()), ..Retry::default() };
    assert_eq!(play.retry(&Retry::default()), Err(Refusal::NeedsCode));
    for step in ["charge", "mail"] {
        assert_eq!(play.retry(&from(step)), Err(Refusal::StepNotFailed(step.to_owned())));
    }
    let retried = play.retry(&from("clean")).unwrap();
    assert_eq!(retried.again.iter().map(ToString::to_string).collect::<Vec<_>>(), ["clean"]);
    let again = play.attempt();
    assert_eq!((again.id.operation, again.id.number), (2, 2));
    play.check("retried_cancelled");
}
