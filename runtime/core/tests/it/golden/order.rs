//! What comes in which order, and what a damaged journal may not say.

use stepwell_core::contract::{EffectClass, EffectKey, Event, Request, RetryFields, StepOptions};
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::{Entry, Record, Started};
use stepwell_core::json::Json;
use stepwell_core::run::{Machine, Mode};

use crate::play::{Play, START_MS, declined, json, post, started};

#[test]
fn a_cancel_comes_before_what_was_ready() {
    let mut play = Play::new();
    play.step("a");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.cancel().unwrap();
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    assert_eq!(play.quiet(), Some(Event::Completed(0, json("1"))));
}

#[test]
fn a_run_time_out_fails_what_was_begun_before_it_was_told() {
    let mut play = Play::of(Started { deadline_ms: Some(START_MS + 1_000), ..started() });
    play.sleep(500);
    play.sleep(864_000_000);
    play.nothing();
    play.clock(2_000);
    let mut told = Vec::new();
    while let Some(event) = play.quiet() {
        told.push(event);
    }
    assert_eq!(told[0], Event::Cancelled);
    assert!(told.iter().any(|event| matches!(event, Event::Failed(1, _))), "{told:?}");
}

#[test]
fn events_that_were_handed_out_return_to_their_place() {
    let mut play = Play::new();
    let first = play.wait("x", None);
    let second = play.wait("x", None);
    play.sleep(10);
    play.nothing();
    play.clock(10);
    play.event(1, "x", "1");
    play.event(2, "x", "2");
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))));
    play.close(first);
    play.close(second);
    play.wait("x", None);
    assert_eq!(play.quiet(), Some(Event::Completed(3, json("1"))));
}

#[test]
fn a_refused_request_leaves_nothing_open() {
    let mut play = Play::new();
    play.step("a");
    let attempt = play.attempt();
    let request = Request { method: "GET".into(), key: EffectKey::Custom(String::new()), ..post("") };
    play.send_refused(&attempt, request);
    play.finish(&attempt, Ok("1"));
    assert_eq!(play.torn(), Vec::<u32>::new());
}

#[test]
fn details_of_null_are_none_live_as_well_as_replayed() {
    let mut error = declined("x");
    error.details = Some(Json::null());
    assert_eq!(error.bounded().details, None);
}

#[test]
fn a_timer_of_a_step_or_one_that_fires_twice_is_refused() {
    let mut play = Play::new();
    play.step("a");
    play.sleep(10);
    let fired = |op| codec::encode(&Entry { at_ms: START_MS + 1_000, record: Record::TimerFired { op } });
    for entries in [vec![fired(0)], vec![fired(1), fired(1)]] {
        let journal = play.journal.iter().cloned().chain(entries);
        assert!(Machine::load(journal, None, Mode::Continue).is_err());
    }
}

#[test]
fn the_last_attempt_lost_after_its_effect_was_done_is_unknown_and_not_failed() {
    for (effect, unknown) in [(EffectClass::Once, 1), (EffectClass::Keyed, 1), (EffectClass::Repeatable, 0)] {
        let mut play = Play::new();
        let retry = RetryFields { max_attempts: Some(1), ..RetryFields::default() };
        play.step_with("charge", &StepOptions { effect: Some(effect), retry, ..StepOptions::default() });
        let attempt = play.attempt();
        let exchange = play.send(&attempt, post("1"));
        play.answered(exchange, 201, "ok");
        play.crash();
        let told = play.quiet();
        assert_eq!(play.machine.unknown_steps().len(), unknown, "{effect:?}");
        assert_eq!(matches!(told, Some(Event::Failed(..))), unknown == 0, "{effect:?}: {told:?}");
    }
}

#[test]
fn while_the_process_drains_no_attempt_is_started() {
    let mut play = Play::new();
    play.step("under way");
    play.step("not yet");
    let attempt = play.attempt();
    play.machine.drain();
    assert_eq!(play.quiet(), None);
    play.finish(&attempt, Ok("1"));
    assert_eq!(play.quiet(), Some(Event::Completed(0, json("1"))));
    assert_eq!(play.quiet(), None);
    assert!(!play.machine.has_attempts_under_way());
}
