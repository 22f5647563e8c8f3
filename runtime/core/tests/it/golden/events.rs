//! Sleeps, waits, events and races.

use stepwell_core::contract::Event;
use stepwell_core::error::Code;

use crate::play::{Play, declined, json, post};

#[test]
fn an_event_before_its_wait_is_kept_and_two_come_in_order() {
    let mut play = Play::new();
    play.event(1, "x", "1");
    play.event(2, "y", "\"y\"");
    play.event(3, "x", "3");
    play.event(3, "x", "\"the same number again\"");
    play.wait("x", None);
    assert!(matches!(play.quiet(), Some(Event::Completed(0, value)) if value == json("1")));
    play.wait("x", Some(10));
    assert!(matches!(play.quiet(), Some(Event::Completed(1, value)) if value == json("3")));
    play.wait("x", Some(10));
    play.nothing();
    play.clock(9);
    play.nothing();
    play.event(4, "x", "4");
    play.clock(10);
    assert!(matches!(play.quiet(), Some(Event::Completed(2, value)) if value == json("4")));
    play.returns(Ok("null"));
    play.check("an_event_before_its_wait_is_kept");
}

#[test]
fn a_wait_times_out_and_the_next_one_gets_the_event() {
    let mut play = Play::new();
    play.wait("review", Some(1_000));
    play.nothing();
    play.clock(1_000);
    let Some(Event::Failed(0, error)) = play.quiet() else { panic!("the wait has ended") };
    assert!(error.is(Code::WaitTimeout));
    play.wait("review", Some(1_000));
    play.nothing();
    play.event(1, "review", "{\"stars\":5}");
    assert!(matches!(play.quiet(), Some(Event::Completed(1, value)) if value == json("{\"stars\":5}")));
    play.returns(Ok("5"));
    play.check("a_wait_times_out_and_the_next_one_gets_the_event");
}

#[test]
fn a_race_that_the_sleep_wins_leaves_the_event_for_later() {
    let mut play = Play::new();
    let wait = play.wait("x", None);
    play.sleep(1_000);
    play.nothing();
    play.clock(1_000);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.close(wait);
    play.step("between");
    let attempt = play.attempt();
    play.event(1, "x", "\"late\"");
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.wait("x", None);
    assert!(matches!(play.quiet(), Some(Event::Completed(3, value)) if value == json("\"late\"")));
    play.returns(Ok("null"));
    play.check("a_race_that_the_sleep_wins");
}

#[test]
fn an_event_handed_to_a_race_s_loser_goes_to_the_next_wait() {
    let mut play = Play::new();
    let wait = play.wait("x", None);
    play.sleep(1_000);
    play.nothing();
    play.clock(1_000);
    play.event(1, "x", "\"handed out, never told\"");
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.close(wait);
    play.event(2, "x", "\"second\"");
    play.wait("x", None);
    assert!(matches!(play.quiet(), Some(Event::Completed(2, value)) if value == json("\"handed out, never told\"")));
    play.wait("x", None);
    assert!(matches!(play.quiet(), Some(Event::Completed(3, value)) if value == json("\"second\"")));
    play.returns(Ok("null"));
    play.check("an_event_handed_to_a_loser");
}

#[test]
fn parallel_waits_of_one_name_get_one_event_each() {
    let mut play = Play::new();
    play.wait("x", None);
    play.wait("x", None);
    play.wait("y", None);
    play.nothing();
    play.event(1, "x", "1");
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.nothing();
    play.event(2, "y", "2");
    play.event(3, "x", "3");
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))));
    assert!(matches!(play.quiet(), Some(Event::Completed(1, value)) if value == json("3")));
    play.returns(Ok("null"));
    play.check("parallel_waits_of_one_name");
}

#[test]
fn an_event_while_a_step_executes_does_not_start_it_again() {
    let mut play = Play::new();
    play.step("a");
    play.wait("x", None);
    let attempt = play.attempt();
    play.event(1, "x", "1");
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.nothing();
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.returns(Ok("null"));
    play.check("an_event_while_a_step_executes");
}

#[test]
fn a_sleep_fires_once_after_a_restart_and_at_once_where_it_is_overdue() {
    let mut play = Play::new();
    play.sleep(2_000);
    play.nothing();
    play.clock(1_000);
    play.crash();
    play.clock(1_999);
    play.nothing();
    play.clock(3_000);
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.crash();
    play.step("after");
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    play.quiet();
    play.returns(Ok("null"));
    play.check("a_sleep_fires_once_after_a_restart");
}

#[test]
fn a_clock_that_goes_back_takes_recorded_time_with_it_nowhere() {
    let mut play = Play::new();
    play.clock(5_000);
    play.sleep(1_000);
    play.nothing();
    play.clock(100);
    play.nothing();
    play.clock(5_999);
    play.nothing();
    play.clock(6_000);
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.clock(0);
    assert_eq!(play.machine.now_ms(0), 1_006_000);
    play.sleep(500);
    play.clock(6_499);
    play.nothing();
    play.clock(6_500);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.returns(Ok("null"));
    play.check("a_clock_that_goes_back");
}

#[test]
fn sleeps_of_0_and_of_ten_years() {
    let mut play = Play::new();
    play.sleep(0);
    play.sleep(315_576_000_000);
    play.clock(0);
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    play.nothing();
    play.activity();
    play.clock(315_576_000_000);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.returns(Ok("null"));
    play.check("sleeps_of_0_and_of_ten_years");
}

#[test]
fn closing_an_executing_step_tears_its_request_down() {
    let mut play = Play::new();
    let step = play.step("loser");
    play.sleep(100);
    let attempt = play.attempt();
    let exchange = play.send(&attempt, post("x"));
    play.nothing();
    play.clock(100);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.close(step);
    assert_eq!(play.torn(), [exchange]);
    play.close(step);
    play.step("winner's next");
    assert_eq!(play.quiet(), Some(Event::Expired(attempt.id)));
    let error = play.refuses(|machine, now| machine.step_finish(attempt.id, Ok(json("1")), now, 0));
    assert!(error.is(Code::AttemptClosed));
    play.lost(exchange);
    let attempt = play.attempt();
    play.finish(&attempt, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(2, _))), "the closed step is not told of");
    play.returns(Ok("null"));
    play.check("closing_an_executing_step");
}

#[test]
fn closing_what_has_not_started_backs_off_or_is_over() {
    let mut play = Play::new();
    let failing = play.step("failing");
    play.sleep(100);
    let attempt = play.attempt();
    play.finish(&attempt, Err(declined("no")));
    play.clock(100);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    let unstarted = play.step("unstarted");
    let sleep = play.sleep(10);
    let wait = play.wait("x", Some(20));
    for op in [failing, unstarted, sleep, wait, sleep] {
        play.close(op);
    }
    assert_eq!(play.machine.next_due_ms(), None, "no timer is left");
    play.clock(1_000_000);
    play.returns(Ok("null"));
    play.check("closing_what_has_not_started");
}

#[test]
fn a_number_that_the_run_has_not_given_cannot_be_closed() {
    let mut play = Play::new();
    play.sleep(1);
    for op in [1, 7, u32::MAX] {
        assert!(play.refuses(|machine, now| machine.close(op, now, 0)).is(Code::UnknownOperation));
    }
    play.clock(1);
    play.quiet();
    play.close(0);
    play.returns(Ok("null"));
    play.check("a_number_that_the_run_has_not_given");
}
