//! Runs that go on from a copy of their journal: what may have followed it is unknown, and no key of it is issued again.

use super::charge::{World, charge, charge_with};
use crate::play::{Play, class, declined, post, started};
use stepwell_core::contract::EffectClass::{Keyed, Once, Repeatable};
use stepwell_core::contract::{EffectKey, Event, Request};
use stepwell_core::journal::entry::Started;
use stepwell_core::run::{Activity, Finding, Granted, Machine, Mode, Refusal};

/// The steps that are unknown, and whether they may have been attempted after the copy.
fn unknown(play: &Play) -> Vec<(String, bool)> {
    play.machine.unknown().iter().map(|step| (step.step.to_string(), step.after_copy)).collect()
}

fn resolve(play: &mut Play, step: &str, finding: Finding) {
    let answer = play.ask(|machine, now_ms| {
        machine.resolve(step, finding, "asked the bank", "ana", now_ms).map(|resolved| resolved.granted)
    });
    answer.unwrap();
}

#[test]
fn steps_that_were_not_over_and_must_not_happen_twice_are_unknown() {
    let mut play = Play::new();
    for (name, effect) in [("open", Keyed), ("backing off", Once), ("never", Keyed), ("read", Repeatable)] {
        play.step_with(name, &class(effect));
    }
    // One has a request under way, one has failed, one has not been attempted; the last one may be repeated.
    let open = play.attempt();
    play.send(&open, post("charge 5"));
    let failed = play.attempt();
    play.finish(&failed, Err(declined("not now")));
    let copy = play.journal.len();
    // What follows is lost: the request was refused, and sent again under another key.
    play.answered(0, 503, "busy");
    assert!(matches!(play.quiet(), Some(Event::Answered(0, _))));
    play.finish(&open, Err(declined("busy")));
    play.next_due();
    play.attempt();
    play.restore_keeping(copy, "7f");
    assert!(play.machine.is_in_doubt() && play.machine.is_paused());
    let (of, text) = (["open", "backing off", "never"], play.machine.pause_text().unwrap());
    assert_eq!(unknown(&play), of.map(|name| (name.to_owned(), true)));
    assert!(text.contains("restored from a copy"), "{text}");
    // It does nothing before somebody resumes it, whatever falls due.
    play.clock(3_600_000);
    assert!(matches!(play.activity(), Activity::Paused));
    play.taken_up();
    let read = play.attempt();
    assert_eq!((read.id.number, read.idempotency_key.as_str()), (100_001, "run_1:read:r7f:100001"));
    assert_eq!(read.operation_key, "run_1:read", "it began before the copy");
    play.finish(&read, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(3, _))));
    play.nothing();
    assert!(matches!(play.activity(), Activity::Blocked(steps) if steps.len() == 3));
    play.check("restored_open_steps");
}

#[test]
fn a_step_that_begins_after_a_restoration_may_have_been_before() {
    for effect in [Keyed, Once] {
        let mut play = Play::new();
        play.sleep(1_000);
        play.nothing();
        let copy = play.journal.len();
        play.restore_keeping(copy, "7f");
        play.clock(2_000);
        play.taken_up();
        assert_eq!(play.quiet(), Some(Event::Completed(0, crate::play::json("null"))));
        play.step_with("charge", &class(effect));
        play.ends_unknown();
        assert_eq!(unknown(&play), [("charge".to_owned(), true)]);
        play.crash();
        play.ends_unknown();
        // The other side knows nothing of it: it is attempted, under keys that the time after the copy cannot have seen.
        resolve(&mut play, "charge", Finding::Retry);
        let attempt = play.attempt();
        assert_eq!(attempt.idempotency_key, "run_1:charge:r7f:100001");
        assert_eq!(attempt.operation_key, "run_1:charge:r7f");
        play.round(&attempt, post("charge 5"), World::Status(503));
        let attempt = play.failed_round(&attempt, World::Status(503));
        assert_eq!(attempt.id.number, 100_002);
        play.succeeds(&attempt);
        play.check(&format!("restored_new_step_{effect:?}").to_lowercase());
    }
}

#[test]
fn an_effect_of_the_copy_keeps_its_key_where_a_person_has_it_tried_again() {
    let (mut play, attempt) = charge(Keyed);
    play.send(&attempt, post("charge 5"));
    let copy = play.journal.len();
    play.restore_keeping(copy, "7f");
    play.restore_keeping(copy, "80");
    play.taken_up();
    play.ends_unknown();
    resolve(&mut play, "charge", Finding::Retry);
    let attempt = play.attempt();
    assert_eq!(attempt.idempotency_key, "run_1:charge:r80:100001");
    // What the copy knows of may have happened under the old key; another request has a new one.
    play.round(&attempt, post("charge 5"), World::Status(200));
    let own = Request { label: Some("fee".into()), ..post("fee 1") };
    play.round(&attempt, own, World::Status(200));
    play.round(&attempt, Request { key: EffectKey::Attempt, label: Some("b".into()), ..post("b") }, World::Status(200));
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.returns(Ok("1"));
    play.check("restored_keys");
}

#[test]
fn where_nothing_followed_the_run_goes_on_as_it_stood() {
    let mut options = class(Once);
    options.retry.max_attempts = Some(2);
    let (mut play, attempt) = charge_with(&options);
    play.finish(&attempt, Err(declined("not now")));
    let copy = play.journal.len();
    play.restore_keeping(copy, "7f");
    let said = |play: &mut Play| play.ask(|machine, now_ms| machine.nothing_followed("it was down", "ana", now_ms));
    assert_eq!(said(&mut play), Ok(Granted::OnResume));
    assert_eq!(said(&mut play), Ok(Granted::Already));
    assert!(unknown(&play).is_empty());
    play.taken_up();
    // Not before the end of its back-off.
    play.nothing();
    play.next_due();
    let attempt = play.attempt();
    assert_eq!(attempt.id.number, 100_001);
    play.succeeds(&attempt);
    play.check("restored_nothing_followed");
}

#[test]
fn what_was_unknown_in_the_copy_stays_so_whoever_says_that_nothing_followed() {
    let (mut play, attempt) = charge(Once);
    play.send(&attempt, post("charge 5"));
    let copy = play.journal.len();
    play.restore_keeping(copy, "7f");
    play.ask(|machine, now_ms| machine.nothing_followed("it was down", "ana", now_ms)).unwrap();
    play.taken_up();
    play.ends_unknown();
    play.check("restored_unknown_in_the_copy");
}

#[test]
fn what_was_unknown_in_the_copy_may_have_been_attempted_since() {
    let (mut play, attempt) = charge(Once);
    play.send(&attempt, post("charge 5"));
    play.crash();
    play.ends_unknown();
    let charge = |after_copy| [("charge".to_owned(), after_copy)];
    assert_eq!(unknown(&play), charge(false));
    let copy = play.journal.len();
    // All of this is lost: whoever looked had it tried again.
    resolve(&mut play, "charge", Finding::Retry);
    play.attempt();
    play.restore_keeping(copy, "7f");
    assert_eq!(unknown(&play), charge(true));
    play.ask(|machine, now_ms| machine.nothing_followed("it was down", "ana", now_ms)).unwrap();
    assert_eq!(unknown(&play), charge(false), "it is as unknown as it was");
    play.taken_up();
    play.ends_unknown();
    play.check("restored_unknown_before");
}

#[test]
fn a_run_that_was_asked_to_end_ends_and_lists_what_is_unknown() {
    let (mut play, attempt) = charge(Keyed);
    play.send(&attempt, post("charge 5"));
    play.terminate().unwrap();
    let copy = play.journal.len();
    play.restore_keeping(copy, "7f");
    assert!(!play.machine.is_paused());
    play.clock(10);
    assert_eq!(unknown(&play), [("charge".to_owned(), true)]);
    assert!(play.machine.ended().is_some());
    let over = play.machine.restore(("80", true), "", "ana", 0, 0);
    assert!(matches!(over, Err(Refusal::Ended(_))), "{over:?}");
    play.check("restored_terminated");
}

#[test]
fn a_copy_after_which_nothing_was_done_goes_on_by_itself() {
    let first = Machine::first_entry(1, Started { ..started() });
    let mut machine = Machine::load([&first], None, Mode::Continue).unwrap();
    machine.restore(("7f", false), "", "ana", 5, 0).unwrap();
    assert!(!machine.is_paused() && !machine.is_in_doubt());
    assert_eq!(machine.entries(), 2);
}
