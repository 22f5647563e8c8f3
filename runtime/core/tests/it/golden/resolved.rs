//! Steps of unknown outcome, and what a person says of them.

use super::charge::{World, charge, charge_with};
use crate::play::{Play, class, declined, json, post};
use stepwell_core::contract::EffectClass::{Keyed, Once};
use stepwell_core::contract::Event;
use stepwell_core::run::{Activity, Finding, Granted, Refusal, Resolved, found_error};

impl Play {
    pub(super) fn resolve(&mut self, finding: Finding) -> Result<Resolved, Refusal> {
        let mut resolved = None;
        let granted = self.ask(|machine, now_ms| {
            resolved = Some(machine.resolve("charge", finding, "asked the bank", "ana", now_ms));
            resolved.clone().expect("it was just set").map(|resolved| resolved.granted)
        });
        let resolved = resolved.expect("it was asked");
        assert_eq!(granted.is_ok(), resolved.is_ok());
        resolved
    }
}

/// A `once` step of which nobody knows whether its POST was done.
fn unknown() -> Play {
    let (mut play, attempt) = charge(Once);
    play.round(&attempt, post("charge 5"), World::Lost);
    play.fails(&attempt, World::Lost);
    play.ends_unknown();
    play
}

#[test]
fn a_step_that_happened_has_the_result_that_a_person_gives_it() {
    let mut play = unknown();
    play.crash();
    play.ends_unknown();
    let listed = play.machine.unknown();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].effects[0].key.as_deref(), Some("run_1:charge:e1"));
    let resolved = play.resolve(Finding::Succeeded(json("\"ch_1\""))).unwrap();
    assert_eq!((resolved.granted, resolved.given_up), (Granted::Now, None));
    assert!(play.machine.unknown().is_empty());
    let again = play.resolve(Finding::Retry);
    assert!(matches!(again, Err(Refusal::StepNotUnknown { .. })), "{again:?}");
    play.crash();
    assert_eq!(play.quiet(), Some(Event::Completed(0, json("\"ch_1\""))));
    play.returns(Ok("\"ch_1\""));
    play.check("resolved_succeeded");
}

#[test]
fn a_step_that_did_not_happen_fails_with_the_error_that_a_person_gives_it() {
    let mut play = unknown();
    play.resolve(Finding::Failed(found_error("the bank knows nothing of it"))).unwrap();
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the step has failed") };
    assert!(!error.outcome_unknown);
    play.returns(Err(error));
    play.check("resolved_failed");
}

#[test]
fn a_step_that_is_tried_again_keeps_its_key_while_it_lives() {
    let mut play = unknown();
    let resolved = play.resolve(Finding::Retry).unwrap();
    assert!(resolved.keys[0].kept);
    let next = play.attempt();
    // Another request under the same meaning is refused as ever.
    play.send_refused(&next, post("charge 6"));
    play.round(&next, post("charge 5"), World::Status(201));
    play.finish(&next, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.returns(Ok("1"));
    play.check("resolved_retry");
}

#[test]
fn a_step_that_is_tried_again_and_is_lost_again_is_unknown_again() {
    let mut play = unknown();
    play.resolve(Finding::Retry).unwrap();
    let next = play.attempt();
    play.round(&next, post("charge 5"), World::Lost);
    let error = play.send_refused(&next, post("charge 5"));
    play.finish(&next, Err(error));
    play.ends_unknown();
    // And one whose attempt comes to nothing before it sends anything is what it was.
    play.resolve(Finding::Retry).unwrap();
    let next = play.attempt();
    play.finish(&next, Err(declined("no")));
    play.ends_unknown();
    play.check("resolved_retry_lost");
}

#[test]
fn a_key_that_the_other_side_may_have_forgotten_is_a_new_one() {
    for effect in [Keyed, Once] {
        let mut options = class(effect);
        options.key_ttl_ms = Some(5_000);
        options.retry.max_attempts = Some(1);
        let (mut play, attempt) = charge_with(&options);
        play.round(&attempt, post("charge 5"), World::Lost);
        play.fails(&attempt, World::Lost);
        play.ends_unknown();
        play.clock(5_000);
        let resolved = play.resolve(Finding::Retry).unwrap();
        assert!(!resolved.keys[0].kept, "{resolved:?}");
        let next = play.attempt();
        play.round(&next, post("charge 5"), World::Status(201));
        play.finish(&next, Ok("1"));
        play.quiet();
        play.returns(Ok("1"));
        play.check(&format!("resolved_retry_new_key_{effect:?}").to_lowercase());
    }
}

#[test]
fn attempts_are_counted_anew_after_a_person_s_word() {
    let mut options = class(Keyed);
    options.retry.max_attempts = Some(2);
    let (mut play, attempt) = charge_with(&options);
    play.round(&attempt, post("charge 5"), World::Lost);
    play.fails(&attempt, World::Lost);
    play.next_due();
    let second = play.attempt();
    play.round(&second, post("charge 5"), World::Lost);
    play.fails(&second, World::Lost);
    play.ends_unknown();
    play.resolve(Finding::Retry).unwrap();
    let third = play.attempt();
    assert_eq!(third.id.number, 3);
    play.round(&third, post("charge 5"), World::Lost);
    play.fails(&third, World::Lost);
    play.next_due();
    assert_eq!(play.attempt().id.number, 4);
    play.check("resolved_counts_anew");
}

#[test]
fn a_cancelled_step_is_not_tried_again() {
    let mut play = unknown();
    play.cancel().unwrap();
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    play.nothing();
    assert!(matches!(play.activity(), Activity::Blocked(_)));
    let resolved = play.resolve(Finding::Retry).unwrap();
    assert!(resolved.given_up.is_some());
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the step has failed") };
    play.returns(Err(error));
    play.check("resolved_after_a_cancel");
}

#[test]
fn what_is_no_unknown_step_is_not_resolved() {
    let mut play = Play::new();
    play.step("charge");
    assert!(matches!(play.resolve(Finding::Retry), Err(Refusal::StepNotUnknown { .. })));
    let attempt = play.attempt();
    assert!(matches!(play.resolve(Finding::Retry), Err(Refusal::StepNotUnknown { .. })));
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.resolve(Finding::Retry), Err(Refusal::StepNotUnknown { .. })));
    let missing = play.machine.resolve("mail", Finding::Retry, "", "ana", 2_000_000);
    assert_eq!(missing, Err(Refusal::NoSuchStep("mail".into())));
    let mut paused = unknown();
    paused.pause().unwrap();
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    assert!(matches!(paused.resolve(Finding::Succeeded(json(&large))), Err(Refusal::TooLarge { .. })));
    assert_eq!(paused.resolve(Finding::Succeeded(json("1"))).unwrap().granted, Granted::OnResume);
    paused.nothing();
}
