//! Failed runs of a restored database that are taken up again: they may have been taken up in the lost time too.

use super::charge::{World, charge};
use super::retried::no;
use crate::play::{Play, class, post};
use stepwell_core::contract::EffectClass::{self, Keyed, Once, Repeatable};
use stepwell_core::contract::Event;
use stepwell_core::journal::entry::Restored;
use stepwell_core::json::Json;
use stepwell_core::run::{Activity, Finding, Granted, Retry};

/// A retry in a database that was restored so often while it had the run.
fn after(epochs: &[&str]) -> Retry {
    let restored = |epoch: &&str| Restored { epoch: (*epoch).to_owned(), in_doubt: true, by: "ana".to_owned() };
    Retry { restored: epochs.iter().map(restored).collect(), ..Retry::default() }
}

/// The other side has refused what the step asks for, and the run has failed by that.
fn failed(effect: EffectClass) -> Play {
    let (mut play, attempt) = charge(effect);
    play.round(&attempt, post("charge 5"), World::Status(400));
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.returns(Err(error));
    play
}

fn fails_again(play: &mut Play) {
    let attempt = play.attempt();
    play.round(&attempt, post("charge 5"), World::Status(400));
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.returns(Err(error));
}

fn resolve(play: &mut Play, step: &str, finding: Finding) {
    let answer = play.ask(|machine, now_ms| {
        machine.resolve(step, finding, "asked the bank", "ana", now_ms).map(|resolved| resolved.granted)
    });
    assert_eq!(answer, Ok(Granted::Now));
}

#[test]
fn a_step_that_had_failed_in_the_copy_is_not_attempted_before_somebody_has_spoken() {
    for effect in [Keyed, Once] {
        let mut play = failed(effect);
        let sent = play.sends();
        let retried = play.retry(&after(&["7f"])).unwrap();
        assert!(retried.again.is_empty(), "{retried:?}");
        play.ends_unknown();
        assert!(play.machine.is_in_doubt() && play.machine.unknown()[0].after_copy);
        play.crash();
        play.ends_unknown();
        assert_eq!(play.sends(), sent);
        resolve(&mut play, "charge", Finding::Retry);
        let attempt = play.attempt();
        assert_eq!(attempt.idempotency_key, "run_1:charge:r7f:100001");
        // Only what was refused is on record: it is sent under a key that the lost time cannot have seen.
        play.succeeds(&attempt);
        play.check(&format!("restored_retried_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_retry_is_told_of_every_restoration_that_it_does_not_know_and_of_none_twice() {
    let mut play = failed(Repeatable);
    // One that may be repeated is: under a key of the newest epoch.
    play.retry(&after(&["7f", "80"])).unwrap();
    let attempt = play.attempt();
    assert_eq!(attempt.idempotency_key, "run_1:charge:r80:200001");
    play.round(&attempt, post("charge 5"), World::Status(400));
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.returns(Err(error));
    play.retry(&after(&["7f", "80"])).unwrap();
    assert_eq!(play.attempt().idempotency_key, "run_1:charge:r80:200002");
    play.check("restored_retried_epochs");
}

#[test]
fn what_a_person_has_said_since_the_copy_is_not_asked_again() {
    let mut play = failed(Once);
    play.retry(&after(&["7f"])).unwrap();
    play.ends_unknown();
    resolve(&mut play, "charge", Finding::Retry);
    fails_again(&mut play);
    // What was done since then is on record.
    play.retry(&after(&["7f"])).unwrap();
    fails_again(&mut play);
    // After another copy it is not.
    play.retry(&after(&["7f", "80"])).unwrap();
    play.ends_unknown();
    resolve(&mut play, "charge", Finding::Succeeded(Json::parse("5").unwrap()));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.returns(Ok("5"));
    play.check("restored_retried_cleared");
}

/// The run was open when it was restored; then it fails, and is taken back to a step that had failed before the copy.
#[test]
fn an_earlier_failure_may_have_been_retried_after_the_copy() {
    let mut play = Play::new();
    play.step_with("charge", &class(Keyed));
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    drop(play.told_failed(0));
    play.sleep(1_000);
    play.nothing();
    play.restore_keeping(play.journal.len(), "7f");
    play.clock(2_000);
    play.taken_up();
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.returns(Err(no()));
    let from = Retry { from_step: Some("charge".to_owned()), ..after(&["7f"]) };
    assert!(play.retry(&from).unwrap().again.is_empty());
    play.ends_unknown();
    // Nothing followed: it is attempted.
    let said = play.ask(|machine, now_ms| machine.nothing_followed("it was down", "ana", now_ms));
    assert_eq!(said, Ok(Granted::Now));
    let attempt = play.attempt();
    assert_eq!(attempt.id.number, 100_001);
    play.succeeds(&attempt);
    play.check("restored_retried_earlier");
}

/// A step that was begun after the failure is void, and in doubt when it begins again.
#[test]
fn a_void_step_that_begins_again_is_in_doubt_and_keeps_what_is_known_of_it() {
    let mut play = failed_after_refund();
    let sent = play.sends();
    let retry = Retry { confirm: true, ..after(&["7f"]) };
    let retried = play.retry(&retry).unwrap();
    assert_eq!(retried.void.len(), 1);
    play.ends_unknown();
    resolve(&mut play, "charge", Finding::Failed(no()));
    drop(play.told_failed(0));
    let op = play.step_with("refund", &class(Keyed));
    play.nothing();
    assert!(matches!(play.activity(), Activity::Blocked(steps) if steps[0].name == "refund"));
    let unknown = play.machine.unknown();
    assert_eq!((unknown.len(), unknown[0].op, unknown[0].attempts, unknown[0].after_copy), (1, op, 1, true));
    assert_eq!(play.sends(), sent);
    resolve(&mut play, "refund", Finding::Retry);
    let attempt = play.attempt();
    assert_eq!(attempt.idempotency_key, "run_1:refund:r7f:100001");
    // It is answered from the record.
    play.send(&attempt, post("refund 5"));
    assert_eq!(play.sends(), sent);
    assert!(matches!(play.quiet(), Some(Event::Answered(..))));
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(..))));
    play.returns(Ok("1"));
    play.check("restored_retried_void");
}

fn failed_after_refund() -> Play {
    let (mut play, attempt) = charge(Once);
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(0);
    play.step_with("refund", &class(Keyed));
    let refund = play.attempt();
    play.round(&refund, post("refund 5"), World::Status(201));
    play.finish(&refund, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(..))));
    play.returns(Err(error));
    play
}
