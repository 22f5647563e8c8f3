//! What may have happened, and what is done and recorded: no repetition, and a step that a person can see.

use super::charge::{World, charge, charge_with};
use crate::play::{Play, class, declined, post};
use stepwell_core::contract::EffectClass::{Keyed, Once};
use stepwell_core::contract::{Answer, Event, Request, StepOptions};
use stepwell_core::error::{Code, Retryability};
use stepwell_core::limits::MAX_RECORDED_ANSWER_BYTES;

#[test]
fn a_409_without_an_unknown_is_not_retried_and_leaves_the_step_unknown() {
    let (mut play, attempt) = charge(Keyed);
    play.round(&attempt, post("charge 5"), World::Status(409));
    play.fails(&attempt, World::Status(409));
    play.ends_unknown();
    play.check("a_409_at_first");
}

#[test]
fn of_two_posts_the_one_that_is_done_is_not_sent_again() {
    for effect in [Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        play.round(&attempt, post("first"), World::Status(201));
        play.round(&attempt, post("second"), World::Status(503));
        play.fails(&attempt, World::Status(503));
        play.next_due();
        let next = play.attempt();
        let sent = play.sends();
        play.send(&next, post("first"));
        assert_eq!(play.sends(), sent);
        let Some(Event::Answered(_, Ok(Answer::Response(response)))) = play.quiet() else { panic!("no answer") };
        assert_eq!((response.status, response.recorded, &response.body[..]), (201, true, &b"answer"[..]));
        play.round(&next, post("second"), World::Status(201));
        play.finish(&next, Ok("2"));
        play.quiet();
        play.returns(Ok("2"));
        play.check(&format!("of_two_posts_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_201_then_a_crash_is_answered_from_the_record() {
    for effect in [Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        let exchange = play.send(&attempt, post("charge 5"));
        play.answered(exchange, 201, "ch_1");
        play.crash();
        play.nothing();
        play.next_due();
        let next = play.attempt();
        play.send(&next, post("charge 5"));
        assert_eq!(play.sends(), 1);
        assert!(matches!(play.quiet(), Some(Event::Answered(_, Ok(Answer::Response(r)))) if r.recorded));
        play.finish(&next, Ok("\"ch_1\""));
        play.quiet();
        play.returns(Ok("\"ch_1\""));
        play.check(&format!("a_201_then_a_crash_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_once_effect_whose_answer_is_lost_is_never_sent_again() {
    let (mut play, attempt) = charge(Once);
    play.round(&attempt, post("charge 5"), World::Lost);
    let error = play.send_refused(&attempt, post("another"));
    assert!(error.is(Code::OutcomeUnknown) && error.outcome_unknown);
    play.fails(&attempt, World::Lost);
    play.ends_unknown();
    play.crash();
    play.ends_unknown();
    play.check("a_once_effect_whose_answer_is_lost");
}

#[test]
fn a_once_effect_under_way_at_a_crash_is_unknown() {
    for kept in [3, 4] {
        let (mut play, attempt) = charge(Once);
        play.send(&attempt, post("charge 5"));
        play.crash_keeping(kept);
        if kept == 3 {
            play.nothing();
            play.next_due();
            let next = play.attempt();
            play.succeeds(&next);
        } else {
            play.ends_unknown();
        }
        play.check(&format!("a_once_effect_under_way_at_a_crash_{kept}"));
    }
}

#[test]
fn a_once_step_whose_attempt_times_out_with_a_request_under_way_is_unknown() {
    let options = StepOptions { timeout_ms: Some(100), ..class(Once) };
    let (mut play, attempt) = charge_with(&options);
    let exchange = play.send(&attempt, post("charge 5"));
    play.clock(100);
    play.quiet();
    play.lost(exchange);
    play.ends_unknown();
    play.check("a_once_step_times_out");
}

#[test]
fn unknown_comes_before_non_retriable_and_before_attempts_used_up() {
    let (mut play, attempt) = charge(Keyed);
    play.round(&attempt, post("charge 5"), World::Lost);
    play.finish(&attempt, Err(declined("no").never_retried()));
    play.ends_unknown();
    play.check("unknown_before_non_retriable");

    let mut options = class(Keyed);
    options.retry.max_attempts = Some(1);
    let (mut play, attempt) = charge_with(&options);
    play.round(&attempt, post("charge 5"), World::Lost);
    play.fails(&attempt, World::Lost);
    play.ends_unknown();
    play.check("unknown_before_attempts_used_up");
}

#[test]
fn unknown_comes_before_a_cancel() {
    for effect in [Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        let exchange = play.send(&attempt, post("charge 5"));
        play.cancel().unwrap();
        play.quiet();
        play.lost(exchange);
        assert_eq!(play.machine.unknown_steps().len(), 1);
        assert_eq!(play.quiet(), Some(Event::Cancelled));
        play.returns(Err(declined("cancelled")));
        play.note(&format!("unknown still: {:?}", play.machine.unknown_steps()));
        play.check(&format!("unknown_before_a_cancel_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_key_older_than_its_time_is_not_used_again() {
    let options = StepOptions { key_ttl_ms: Some(1_500), ..class(Keyed) };
    let (mut play, attempt) = charge_with(&options);
    let next = play.failed_round(&attempt, World::Lost);
    play.round(&next, post("charge 5"), World::Lost);
    play.clock(1_499);
    play.round(&next, post("charge 5"), World::Lost);
    play.clock(1_500);
    let error = play.send_refused(&next, post("charge 5"));
    assert!(error.is(Code::OutcomeUnknown), "{error}");
    play.finish(&next, Err(error));
    play.ends_unknown();
    play.check("a_key_older_than_its_time");
}

#[test]
fn a_key_that_dies_before_its_request_leaves_is_not_used() {
    let options = StepOptions { key_ttl_ms: Some(1_500), ..class(Keyed) };
    let (mut play, attempt) = charge_with(&options);
    let next = play.failed_round(&attempt, World::Lost);
    play.clock(1_499);
    let exchange = play.send(&next, post("charge 5"));
    play.note("its body computes on, and the key dies before the turn is over: the host lets nothing leave");
    play.dead(exchange);
    let Some(Event::Answered(_, Err(error))) = play.quiet() else { panic!("no answer") };
    assert!(error.is(Code::OutcomeUnknown), "{error}");
    play.note("even a body that takes no notice cannot make a success of it");
    play.finish(&next, Ok("\"charged\""));
    play.ends_unknown();
    play.check("a_key_that_dies_before_its_request_leaves");
}

#[test]
fn what_is_under_way_is_not_sent_again_by_a_body_that_has_given_up_on_it() {
    for effect in [Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        let exchange = play.send(&attempt, post("charge 5"));
        let error = play.send_refused(&attempt, post("charge 5"));
        assert!(error.is(Code::OutcomeUnknown) && error.retryability == Retryability::Retry, "{error:?}");
        let other = play.send(&attempt, Request { label: Some("tip".into()), ..post("charge 5") });
        play.answered(other, 201, "tip");
        play.quiet();
        play.finish(&attempt, Err(error));
        play.note("the attempt ends once its request has");
        play.answered(exchange, 201, "ch_1");
        play.next_due();
        let next = play.attempt();
        play.send(&next, post("charge 5"));
        assert!(matches!(play.quiet(), Some(Event::Answered(_, Ok(Answer::Response(r)))) if r.recorded));
        play.finish(&next, Ok("1"));
        play.quiet();
        play.returns(Ok("1"));
        play.check(&format!("what_is_under_way_{effect:?}").to_lowercase());
    }
}

#[test]
fn a_body_that_asks_again_before_it_is_told_is_answered_from_the_record() {
    let (mut play, attempt) = charge(Keyed);
    let first = play.send(&attempt, post("charge 5"));
    play.answered(first, 201, "ch_1");
    play.note("its turn goes on: it has not been told");
    let again = play.send(&attempt, post("charge 5"));
    assert_eq!(play.sends(), 1);
    for exchange in [first, again] {
        assert!(matches!(play.quiet(), Some(Event::Answered(told, Ok(_))) if told == exchange));
    }
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("a_body_that_asks_again_before_it_is_told");
}

#[test]
fn what_was_done_and_then_closed_from_outside_is_no_plain_failure() {
    let mut options = StepOptions { timeout_ms: Some(100), ..class(Keyed) };
    options.retry.max_attempts = Some(1);
    let (mut play, attempt) = charge_with(&options);
    play.round(&attempt, post("charge 5"), World::Status(201));
    play.clock(100);
    play.quiet();
    play.ends_unknown();
    play.check("what_was_done_and_then_timed_out");

    let (mut play, attempt) = charge(Once);
    play.round(&attempt, post("charge 5"), World::Status(201));
    play.cancel().unwrap();
    while play.quiet().is_some_and(|event| event != Event::Cancelled) {}
    play.returns(Err(declined("cancelled")));
    play.note(&format!("unknown still: {:?}", play.machine.unknown_steps()));
    play.check("what_was_done_and_then_cancelled");
}

#[test]
fn what_a_body_had_not_heard_of_counts_only_where_it_was_unknown() {
    for (heard, name) in [(true, "another_answer"), (false, "the_unknown_one")] {
        let (mut play, attempt) = charge(Keyed);
        let exchange = play.send(&attempt, post("charge 5"));
        if heard {
            play.lost(exchange);
            play.quiet();
            let other = play.send(&attempt, Request { method: "GET".into(), ..post("") });
            play.answered(other, 200, "it was charged");
        } else {
            play.lost(exchange);
        }
        play.note("the body answers in the same turn, before it is told");
        play.finish(&attempt, Ok("\"charged\""));
        if heard {
            play.quiet();
            play.returns(Ok("1"));
        } else {
            play.next_due();
            let next = play.attempt();
            play.succeeds(&next);
        }
        play.check(&format!("a_body_that_had_not_heard_of_{name}"));
    }
}

#[test]
fn an_answer_too_large_to_record() {
    for effect in [Keyed, Once] {
        let (mut play, attempt) = charge(effect);
        let exchange = play.send(&attempt, post("charge 5"));
        play.answered(exchange, 200, &"x".repeat(MAX_RECORDED_ANSWER_BYTES + 1));
        play.crash();
        play.nothing();
        play.next_due();
        let next = play.attempt();
        if effect == Once {
            let error = play.send_refused(&next, post("charge 5"));
            play.finish(&next, Err(error));
            play.ends_unknown();
        } else {
            play.succeeds(&next);
        }
        play.check(&format!("an_answer_too_large_{effect:?}").to_lowercase());
    }
}

#[test]
fn equal_requests_of_one_body_are_counted() {
    let (mut play, attempt) = charge(Keyed);
    play.round(&attempt, post("same"), World::Status(201));
    play.round(&attempt, post("same"), World::Status(202));
    play.finish(&attempt, Err(declined("after both")));
    play.next_due();
    let next = play.attempt();
    for status in [201, 202] {
        play.send(&next, post("same"));
        let Some(Event::Answered(_, Ok(Answer::Response(response)))) = play.quiet() else { panic!("no answer") };
        assert_eq!((response.status, response.recorded), (status, true));
    }
    play.note("the third equal one is new");
    play.round(&next, post("same"), World::Status(203));
    play.finish(&next, Ok("3"));
    play.quiet();
    play.returns(Ok("3"));
    play.check("equal_requests_of_one_body");
}

#[test]
fn another_request_than_the_one_that_is_done() {
    for (effect, name) in [(Once, "once"), (Keyed, "keyed")] {
        let (mut play, attempt) = charge(effect);
        play.round(&attempt, post("charge 5"), World::Status(201));
        play.finish(&attempt, Err(declined("after it")));
        play.next_due();
        let next = play.attempt();
        let error = play.send_refused(&next, post("charge 6"));
        if effect == Once {
            assert!(error.is(Code::OutcomeUnknown));
            play.finish(&next, Err(error));
            play.ends_unknown();
        } else {
            assert!(error.is(Code::IdempotencyKeyReuse));
            let other = Request { url: "https://pay.example/refunds".into(), ..post("charge 6") };
            play.round(&next, other, World::Status(201));
            play.finish(&next, Ok("1"));
            play.quiet();
            play.returns(Ok("1"));
        }
        play.check(&format!("another_request_than_the_one_that_is_done_{name}"));
    }
}

#[test]
fn a_trap_loses_neither_an_answer_nor_a_request_under_way() {
    for (answered_first, name) in [(true, "after_the_answer"), (false, "before_the_answer")] {
        let (mut play, attempt) = charge(Once);
        let exchange = play.send(&attempt, post("charge 5"));
        if answered_first {
            play.answered(exchange, 201, "ch_1");
        }
        play.traps(Code::Trap);
        play.rebuild();
        if !answered_first {
            assert_eq!(play.torn(), [exchange], "the body that trapped hears of nothing any more");
            play.note("it was too late to tear it down");
            play.answered(exchange, 201, "ch_1");
        }
        play.nothing();
        play.next_due();
        let next = play.attempt();
        play.send(&next, post("charge 5"));
        assert_eq!(play.sends(), 1);
        assert!(matches!(play.quiet(), Some(Event::Answered(_, Ok(Answer::Response(r)))) if r.recorded));
        play.finish(&next, Ok("\"ch_1\""));
        play.quiet();
        play.returns(Ok("\"ch_1\""));
        play.check(&format!("a_trap_{name}"));
    }
}

#[test]
fn a_once_step_refuses_its_other_requests_once_one_is_unknown() {
    let mut play = Play::new();
    play.step_with("charge", &class(Once));
    let attempt = play.attempt();
    let first = play.send(&attempt, post("first"));
    let second = play.send(&attempt, post("second"));
    play.lost(first);
    play.answered(second, 503, "");
    play.quiet();
    play.quiet();
    assert!(play.send_refused(&attempt, post("second")).is(Code::OutcomeUnknown));
    play.note("also where the body swallows that");
    play.finish(&attempt, Ok("1"));
    play.ends_unknown();
    play.check("a_once_step_refuses_its_other_requests");
}

#[test]
fn an_unknown_step_that_the_workflow_closed_stays_listed() {
    let mut play = Play::new();
    let step = play.step_with("charge", &class(Once));
    play.sleep(100);
    let attempt = play.attempt();
    play.round(&attempt, post("charge 5"), World::Lost);
    play.finish(&attempt, Err(declined("no answer")));
    play.nothing();
    play.clock(100);
    play.quiet();
    play.close(step);
    play.returns(Ok("\"without it\""));
    assert!(play.machine.ended().is_some());
    assert_eq!(play.machine.unknown_steps().len(), 1);
    play.check("an_unknown_step_that_the_workflow_closed");
}
