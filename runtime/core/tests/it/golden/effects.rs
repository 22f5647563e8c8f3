//! Unsafe requests: what is known of them, and under which key they are repeated.

use super::charge::{World, charge, charge_with};
use crate::play::{Play, class, post, started};
use stepwell_core::contract::EffectClass::{Keyed, Once, Repeatable};
use stepwell_core::contract::{EffectKey, Event, Request, StepOptions};
use stepwell_core::error::{Code, Retryability};

#[test]
fn a_503_is_not_done_and_the_next_attempt_has_a_new_key() {
    for effect in [Repeatable, Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        let next = play.failed_round(&attempt, World::Status(503));
        play.succeeds(&next);
        play.check(&format!("a_503_{effect:?}").to_lowercase());
    }
}

#[test]
fn connection_refused_is_not_done_for_every_class() {
    for effect in [Repeatable, Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        let next = play.failed_round(&attempt, World::Refused);
        play.succeeds(&next);
        play.check(&format!("connection_refused_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_lost_answer_is_repeated_under_its_key_through_all_that_follows() {
    let mut options = class(Keyed);
    options.retry.max_attempts = Some(10);
    let (mut play, mut attempt) = charge_with(&options);
    for world in [World::Lost, World::Refused, World::Status(503), World::Status(409), World::Status(425)] {
        attempt = play.failed_round(&attempt, world);
    }
    play.succeeds(&attempt);
    play.check("a_lost_answer_is_repeated_under_its_key");
}

#[test]
fn a_lost_answer_of_a_repeatable_step_keeps_its_key_too() {
    let (mut play, attempt) = charge(Repeatable);
    let next = play.failed_round(&attempt, World::Lost);
    let last = play.failed_round(&next, World::Refused);
    play.round(&last, post("charge 5"), World::Status(503));
    play.fails(&last, World::Status(503));
    let Some(Event::Failed(_, error)) = play.quiet() else { panic!("attempts are used up") };
    assert!(error.outcome_unknown, "the first send may have happened");
    play.returns(Err(error));
    play.check("a_lost_answer_of_a_repeatable_step");
}

#[test]
fn a_504_of_a_gateway_keeps_the_key() {
    for status in [500, 502, 504, 408] {
        let (mut play, attempt) = charge(Keyed);
        let next = play.failed_round(&attempt, World::Status(status));
        play.succeeds(&next);
        play.check(&format!("a_{status}_keeps_the_key"));
    }
}

#[test]
fn renew_on_says_that_a_500_did_nothing() {
    let (mut play, attempt) = charge(Once);
    let request = Request { renew_on: vec![500], ..post("charge 5") };
    play.round(&attempt, request, World::Status(500));
    play.fails(&attempt, World::Status(500));
    play.next_due();
    let next = play.attempt();
    play.succeeds(&next);
    play.check("renew_on");
}

#[test]
fn a_422_is_not_done_and_ends_the_step_for_every_class() {
    for effect in [Repeatable, Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        play.round(&attempt, post("charge 5"), World::Status(422));
        play.fails(&attempt, World::Status(422));
        let Some(Event::Failed(_, error)) = play.quiet() else { panic!("no further attempt") };
        assert!(!error.outcome_unknown);
        play.returns(Err(error));
        play.check(&format!("a_422_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_body_that_loops_keeps_its_key_after_unknown_and_renews_it_after_not_done() {
    let (mut play, attempt) = charge(Keyed);
    for world in [World::Status(503), World::Status(500), World::Lost, World::Status(503)] {
        play.round(&attempt, post("charge 5"), world);
    }
    play.succeeds(&attempt);
    play.check("a_body_that_loops");
}

#[test]
fn another_body_under_a_kept_key_is_refused_and_nothing_is_sent() {
    let (mut play, attempt) = charge(Keyed);
    let next = play.failed_round(&attempt, World::Lost);
    let sent = play.sends();
    let error = play.send_refused(&next, post("charge 6"));
    assert!(error.is(Code::IdempotencyKeyReuse) && error.retryability == Retryability::Never);
    assert_eq!(play.sends(), sent);
    play.note("with a label of its own it is another request");
    let other = Request { label: Some("refund".into()), ..post("refund 6") };
    play.round(&next, other, World::Status(201));
    play.finish(&next, Err(error));
    play.ends_unknown();
    play.check("another_body_under_a_kept_key");
}

#[test]
fn a_step_that_is_finished_awaits_its_requests() {
    let (mut play, attempt) = charge(Keyed);
    let exchange = play.send(&attempt, post("charge 5"));
    play.finish(&attempt, Ok("\"not awaited\""));
    play.nothing();
    play.answered(exchange, 201, "");
    assert!(matches!(play.quiet(), Some(Event::Completed(..))));
    play.returns(Ok("null"));
    play.check("a_step_that_is_finished_awaits_its_requests");

    let (mut play, attempt) = charge(Once);
    let exchange = play.send(&attempt, post("charge 5"));
    play.finish(&attempt, Ok("\"not awaited\""));
    play.lost(exchange);
    play.ends_unknown();
    play.check("a_step_that_is_finished_while_its_request_is_lost");
}

#[test]
fn the_key_header_is_what_the_request_says() {
    let (mut play, attempt) = charge(Repeatable);
    for (n, (method, key)) in [
        ("POST", EffectKey::Effect),
        ("PATCH", EffectKey::Effect),
        ("PUT", EffectKey::Effect),
        ("DELETE", EffectKey::Effect),
        ("GET", EffectKey::Effect),
        ("GET", EffectKey::Operation),
        ("POST", EffectKey::Attempt),
        ("POST", EffectKey::Operation),
        ("POST", EffectKey::None),
        ("POST", EffectKey::Custom("order 42".into())),
    ]
    .into_iter()
    .enumerate()
    {
        let request = Request { method: method.into(), key, label: Some(n.to_string()), ..post(&n.to_string()) };
        let exchange = play.send(&attempt, request);
        play.answered(exchange, 200, "");
        play.quiet();
    }
    for text in ["", " ", "é", "a\u{0}", &"k".repeat(256)] {
        let request = Request { key: EffectKey::Custom(text.into()), ..post("x") };
        assert!(play.send_refused(&attempt, request).is(Code::InvalidRequest), "{text:?}");
    }
    let again = Request { key: EffectKey::Custom("order 42".into()), label: Some("again".into()), ..post("other") };
    assert!(play.send_refused(&attempt, again).is(Code::IdempotencyKeyReuse));
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("the_key_header");
}

#[test]
fn keys_are_counted_not_requests() {
    let (mut play, attempt) = charge(Repeatable);
    let put = Request { method: "PUT".into(), ..post("without a key") };
    play.round(&attempt, put, World::Status(204));
    for n in ["first", "second"] {
        play.round(&attempt, Request { label: Some(n.into()), ..post(n) }, World::Status(201));
    }
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("keys_are_counted_not_requests");
}

#[test]
fn a_keyed_step_may_not_send_without_a_key_and_keys_every_method() {
    let (mut play, attempt) = charge(Keyed);
    let request = Request { key: EffectKey::None, ..post("x") };
    assert!(play.send_refused(&attempt, request).is(Code::InvalidRequest));
    let request = Request { method: "PUT".into(), ..post("x") };
    play.round(&attempt, request, World::Status(204));
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("a_keyed_step_may_not_send_without_a_key");
}

#[test]
fn a_run_s_end_settles_what_is_under_way() {
    let mut play = Play::of(started());
    play.step_with("charge", &class(Keyed));
    play.sleep(10);
    let attempt = play.attempt();
    let exchange = play.send(&attempt, post("charge 5"));
    play.clock(10);
    play.quiet();
    play.returns(Ok("\"without it\""));
    assert!(play.machine.ended().is_none(), "the request is carried to its settlement first");
    play.answered(exchange, 201, "ch_1");
    assert!(play.machine.ended().is_some());
    play.check("a_run_s_end_settles_what_is_under_way");
}

#[test]
fn a_done_ends_an_unknown_and_later_requests_are_new() {
    let (mut play, attempt) = charge(Repeatable);
    let next = play.failed_round(&attempt, World::Lost);
    play.round(&next, post("charge 5"), World::Status(200));
    play.round(&next, post("charge 6"), World::Status(200));
    play.finish(&next, Ok("2"));
    play.quiet();
    play.returns(Ok("2"));
    play.check("a_done_ends_an_unknown");
}

#[test]
fn a_redirect_that_keeps_the_method_did_nothing() {
    for status in [307, 308] {
        let (mut play, attempt) = charge(Once);
        play.round(&attempt, post("charge 5"), World::Status(status));
        let elsewhere = Request { url: "https://pay.example/elsewhere".into(), ..post("charge 5") };
        play.round(&attempt, elsewhere, World::Status(200));
        play.finish(&attempt, Ok("1"));
        play.quiet();
        play.returns(Ok("1"));
        play.check(&format!("a_redirect_{status}"));
    }
}

#[test]
fn a_result_that_was_given_stands_when_a_request_of_its_own_is_torn_down() {
    let options = StepOptions { timeout_ms: Some(100), ..class(Repeatable) };
    let (mut play, attempt) = charge_with(&options);
    let exchange = play.send(&attempt, post("charge 5"));
    play.finish(&attempt, Ok("\"given\""));
    play.nothing();
    play.clock(100);
    assert_eq!(play.torn(), [exchange]);
    play.lost(exchange);
    assert!(matches!(play.quiet(), Some(Event::Completed(..))));
    play.returns(Ok("null"));
    play.check("a_result_that_was_given_stands");
}

#[test]
fn a_safe_request_is_not_journaled_and_is_dropped_with_its_attempt() {
    let (mut play, attempt) = charge(Once);
    let get = Request { method: "GET".into(), body: None, ..post("") };
    play.round(&attempt, get.clone(), World::Lost);
    let exchange = play.send(&attempt, get);
    play.finish(&attempt, Ok("1"));
    assert_eq!(play.torn(), [exchange]);
    play.note("what it would have answered is nobody's");
    play.answered(exchange, 200, "late");
    play.quiet();
    play.returns(Ok("1"));
    play.check("a_safe_request_is_not_journaled");
}
