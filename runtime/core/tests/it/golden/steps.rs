//! Steps and their attempts: order, retries, time-outs, occurrences.

use stepwell_core::contract::{Event, RetryFields, StepOptions};
use stepwell_core::error::{Cause, Code, Error, Retryability};

use crate::play::{Play, declined, json, post, started};

#[test]
fn steps_one_after_another() {
    let mut play = Play::new();
    for (name, value) in [("reserve", "{\"stock\":3}"), ("charge", "\"ch_1\""), ("ship", "null")] {
        play.step(name);
        let attempt = play.attempt();
        play.finish(&attempt, Ok(value));
        assert!(matches!(play.quiet(), Some(Event::Completed(_, got)) if got == json(value)));
    }
    play.returns(Ok("\"done\""));
    play.check("steps_one_after_another");
}

#[test]
fn parallel_steps_with_interleaved_requests() {
    let mut play = Play::new();
    play.step("a");
    play.step("b");
    let a = play.attempt();
    let of_a = play.send(&a, post("for a"));
    let b = play.attempt();
    let of_b = play.send(&b, post("for b"));
    play.nothing();
    play.clock(5);
    play.answered(of_b, 201, "b is done");
    play.answered(of_a, 201, "a is done");
    assert!(matches!(play.quiet(), Some(Event::Answered(exchange, Ok(_))) if exchange == of_b));
    play.finish(&b, Ok("\"b\""));
    assert!(matches!(play.quiet(), Some(Event::Answered(exchange, Ok(_))) if exchange == of_a));
    play.finish(&a, Ok("\"a\""));
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))), "the one that ended first comes first");
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.returns(Ok("[\"a\",\"b\"]"));
    play.check("parallel_steps_with_interleaved_requests");
}

#[test]
fn a_failure_is_retried_after_its_delay_and_no_earlier() {
    let mut play = Play::new();
    play.step("charge");
    for expected_due in [Some(1_000), Some(3_000), None] {
        let attempt = play.attempt();
        play.finish(&attempt, Err(declined("no funds")));
        let Some(due) = expected_due else { break };
        play.clock(due - 1);
        play.nothing();
        play.clock(due);
    }
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the last error is thrown") };
    assert_eq!((error.name.as_deref(), error.message.as_str()), (Some("PaymentDeclined"), "no funds"));
    play.note("the workflow catches it and goes on");
    play.step("apologise");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("true"));
    play.quiet();
    play.returns(Ok("\"sorry\""));
    play.check("a_failure_is_retried_after_its_delay_and_no_earlier");
}

#[test]
fn retry_after_replaces_the_delay_and_counts() {
    let mut play = Play::new();
    let options =
        StepOptions { retry: RetryFields { max_ms: Some(10_000), ..RetryFields::default() }, ..StepOptions::default() };
    play.step_with("call", &options);
    let attempt = play.attempt();
    let busy = Error { retryability: Retryability::AfterMs(3_600_000), ..declined("busy") };
    play.finish(&attempt, Err(busy.clone()));
    play.crash();
    play.clock(3_599_999);
    play.nothing();
    play.clock(3_600_000);
    let attempt = play.attempt();
    play.finish(&attempt, Err(Error { retryability: Retryability::AfterMs(0), ..busy.clone() }));
    play.clock(3_600_000);
    let attempt = play.attempt();
    assert_eq!(attempt.id.number, 3);
    play.finish(&attempt, Err(busy));
    assert!(matches!(play.quiet(), Some(Event::Failed(0, _))), "the third attempt was the last");
    play.returns(Err(declined("gave up")));
    play.check("retry_after_replaces_the_delay_and_counts");
}

#[test]
fn non_retriable_is_one_attempt_also_with_an_empty_message_in_a_branch() {
    let mut play = Play::new();
    play.step("a");
    play.step("b");
    let a = play.attempt();
    let b = play.attempt();
    let causes = vec![Cause { name: Some("NonRetriableError".into()), message: String::new() }];
    play.finish(&b, Err(Error { causes, details: Some(json("{\"n\":1e400}")), ..declined("").never_retried() }));
    let Some(Event::Failed(1, error)) = play.quiet() else { panic!("b has failed") };
    assert_eq!(error.details, Some(json("{\"n\":1e400}")));
    play.finish(&a, Ok("1"));
    play.quiet();
    play.returns(Err(declined("b failed")));
    play.check("non_retriable_is_one_attempt");
}

#[test]
fn attempts_that_never_end_time_out_three_times() {
    let mut play = Play::new();
    play.step_with("slow", &StepOptions { timeout_ms: Some(100), ..StepOptions::default() });
    for n in 1..=3 {
        let attempt = play.attempt();
        assert_eq!(attempt.id.number, n);
        play.next_due();
        assert_eq!(play.quiet(), Some(Event::Expired(attempt.id)));
        if n < 3 {
            play.next_due();
        }
    }
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the step has failed") };
    assert_eq!(error.code, Code::StepTimeout.as_str());
    play.returns(Err(error));
    play.check("attempts_that_never_end_time_out_three_times");
}

#[test]
fn a_request_is_torn_down_before_the_next_attempt_and_a_late_finish_changes_nothing() {
    let mut play = Play::new();
    play.step_with("slow", &StepOptions { timeout_ms: Some(1_000), ..StepOptions::default() });
    let first = play.attempt();
    let exchange = play.send(&first, post("x"));
    play.nothing();
    play.clock(1_000);
    assert_eq!(play.torn(), [exchange]);
    assert_eq!(play.quiet(), Some(Event::Expired(first.id)));
    play.nothing();
    play.clock(1_400);
    play.nothing();
    play.note("the torn request settles: only now is the attempt over");
    play.lost(exchange);
    play.next_due();
    let second = play.attempt();
    assert_eq!(second.id.number, 2);
    let error = play.refuses(|machine, now| machine.step_finish(first.id, Ok(json("\"late\"")), now, 0));
    assert!(error.is(Code::AttemptClosed));
    let error = play.send_refused(&first, post("late"));
    assert!(error.is(Code::EffectOutsideStep));
    let again = play.send(&second, post("x"));
    play.answered(again, 200, "ok");
    play.quiet();
    play.finish(&second, Ok("\"second\""));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, value)) if value == json("\"second\"")));
    play.returns(Ok("null"));
    play.check("a_request_is_torn_down_before_the_next_attempt");
}

#[test]
fn sleeping_waiting_and_backing_off_never_time_out() {
    let mut play = Play::new();
    play.step_with("quick", &StepOptions { timeout_ms: Some(1_000), ..StepOptions::default() });
    let attempt = play.attempt();
    let later = Error { retryability: Retryability::AfterMs(5_000), ..declined("later") };
    play.finish(&attempt, Err(later));
    play.clock(4_999);
    play.nothing();
    play.clock(5_000);
    let attempt = play.attempt();
    play.clock(5_999);
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.sleep(10_000);
    play.nothing();
    play.clock(15_999);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.wait("x", None);
    play.nothing();
    play.clock(1_000_000);
    play.nothing();
    play.event(1, "x", "1");
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))));
    play.returns(Ok("null"));
    play.check("sleeping_waiting_and_backing_off_never_time_out");
}

#[test]
fn twenty_steps_of_one_name() {
    let mut play = Play::new();
    for n in 0..10 {
        play.step("item");
        let attempt = play.attempt();
        play.finish(&attempt, Ok(&n.to_string()));
        play.quiet();
    }
    let ops: Vec<_> = (0..10).map(|_| play.step("item")).collect();
    for op in &ops {
        let attempt = play.attempt();
        assert_eq!(attempt.operation_key, format!("run_1:item#{}", op + 1));
        play.finish(&attempt, Ok(&op.to_string()));
    }
    for op in ops {
        assert!(
            matches!(play.quiet(), Some(Event::Completed(done, value)) if done == op && value == json(&op.to_string()))
        );
    }
    play.returns(Ok("20"));
    play.check("twenty_steps_of_one_name");
}

#[test]
fn a_step_named_like_an_occurrence_has_a_key_of_its_own() {
    let mut play = Play::new();
    let mut keys = std::collections::BTreeSet::new();
    for name in ["a", "a#2", "a"] {
        play.step(name);
        let attempt = play.attempt();
        keys.extend([attempt.operation_key.clone(), attempt.idempotency_key.clone()]);
        let exchange = play.send(&attempt, post("x"));
        play.answered(exchange, 200, "");
        play.quiet();
        play.finish(&attempt, Ok("null"));
        play.quiet();
    }
    assert_eq!(keys.len(), 6);
    play.returns(Ok("null"));
    play.check("a_step_named_like_an_occurrence");
}

#[test]
fn names_and_options_out_of_range_are_refused_and_take_no_number() {
    let mut play = Play::new();
    let policy = |fields| StepOptions { retry: fields, ..StepOptions::default() };
    let long = "支".repeat(67);
    for (name, options, code) in [
        ("", StepOptions::default(), Code::InvalidArgument),
        (long.as_str(), StepOptions::default(), Code::InvalidArgument),
        ("a\u{0}", StepOptions::default(), Code::InvalidArgument),
        ("a\nb", StepOptions::default(), Code::InvalidArgument),
        ("a", policy(RetryFields { max_attempts: Some(0), ..RetryFields::default() }), Code::InvalidPolicy),
        ("a", policy(RetryFields { multiplier: Some(f64::NAN), ..RetryFields::default() }), Code::InvalidPolicy),
        ("a", policy(RetryFields { jitter: Some(f64::INFINITY), ..RetryFields::default() }), Code::InvalidPolicy),
        ("a", StepOptions { timeout_ms: Some(0), ..StepOptions::default() }, Code::InvalidPolicy),
        ("a", StepOptions { timeout_ms: Some(86_400_001), ..StepOptions::default() }, Code::InvalidPolicy),
        ("a", StepOptions { key_ttl_ms: Some(0), ..StepOptions::default() }, Code::InvalidPolicy),
    ] {
        let error = play.refuses(|machine, now| machine.step_begin(name, &options, now));
        assert!(error.is(code) && error.retryability == Retryability::Never, "{error}");
    }
    for refused in [
        play.refuses(|machine, now| machine.sleep(315_576_000_001, now)),
        play.refuses(|machine, now| machine.wait_event("", None, now)),
        play.refuses(|machine, now| machine.wait_event("x", Some(u64::MAX), now)),
    ] {
        assert!(refused.is(Code::InvalidArgument), "{refused}");
    }
    assert_eq!(play.step(&"支".repeat(66)), 0, "198 bytes of any script are a name");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("1"));
    play.check("names_and_options_out_of_range");
}

#[test]
fn a_body_may_not_begin_operations_and_workflow_code_may_not_send() {
    let mut play = Play::new();
    play.sleep(50);
    play.step("a");
    let attempt = play.attempt();
    for error in [
        play.refuses(|machine, now| machine.step_begin("b", &StepOptions::default(), now)),
        play.refuses(|machine, now| machine.sleep(1, now)),
        play.refuses(|machine, now| machine.wait_event("x", None, now)),
        play.refuses(|machine, now| machine.close(0, now, 0)),
    ] {
        assert!(error.is(Code::OperationInsideStep), "{error}");
    }
    let delay = play.machine.delay(attempt.id, 10, 1_000_000).unwrap();
    play.clock(10);
    assert!(matches!(play.quiet(), Some(Event::Answered(exchange, Ok(_))) if exchange == delay));
    play.clock(50);
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    let no_step = stepwell_core::contract::AttemptRef { operation: 0, number: 1 };
    let error = play.refuses(|machine, now| machine.http_send(no_step, post("x"), now));
    assert!(error.is(Code::UnknownOperation), "{error}");
    play.finish(&attempt, Ok("1"));
    play.quiet();
    let error = play.send_refused(&attempt, post("after its end"));
    assert!(error.is(Code::EffectOutsideStep), "{error}");
    play.returns(Ok("1"));
    play.check("a_body_may_not_begin_operations");
}

#[test]
fn time_and_chance_are_the_run_s_in_workflow_turns_and_real_in_bodies() {
    let draw = |play: &mut Play| {
        let here = (play.machine.now_ms(9_000_000), play.machine.random_u64(77), play.machine.random_u64(77));
        assert_ne!(here.1, here.2);
        here
    };
    let mut play = Play::new();
    let first = draw(&mut play);
    play.step("a");
    play.clock(40);
    let attempt = play.attempt();
    assert_eq!(play.machine.now_ms(9_000_000), 9_000_000);
    assert_eq!(play.machine.random_u64(77), 77);
    play.finish(&attempt, Ok("1"));
    play.quiet();
    let second = draw(&mut play);
    assert_eq!((first.0, second.0), (1_000_000, 1_000_040));
    assert_ne!(first.1, second.1);
    play.sleep(1_000);
    play.clock(100);
    play.crash();
    assert_eq!(draw(&mut play), second, "also after a restart, whatever the body drew");
    play.clock(1_040);
    play.quiet();
    assert_eq!(play.machine.now_ms(0), 1_001_040, "at least the sleep's length later");
    play.returns(Ok("1"));
    play.check("time_and_chance");
}

#[test]
fn one_attempt_and_a_hundred() {
    for attempts in [1, 100] {
        let mut play = Play::of(started());
        let retry = RetryFields { max_attempts: Some(attempts), initial_ms: Some(0), ..RetryFields::default() };
        play.step_with("a", &StepOptions { retry, ..StepOptions::default() });
        for n in 1..=attempts {
            let attempt = play.attempt();
            assert_eq!(attempt.id.number, n);
            play.finish(&attempt, Err(declined("no")));
            if n < attempts {
                play.next_due();
            }
        }
        assert!(matches!(play.quiet(), Some(Event::Failed(0, _))), "at once: after the last there is no wait");
        play.returns(Ok("null"));
        play.check(&format!("attempts_{attempts}"));
    }
}
