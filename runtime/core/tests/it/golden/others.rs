//! What a run does to others: it is done by the commit that records it, and what became of it is told.

use stepwell_core::contract::Event;
use stepwell_core::error::{Code, Error};
use stepwell_core::run::{Activity, Machine, Mode};

use crate::play::{Play, START_MS, json};

fn ended() -> Error {
    Error::new(Code::RunEnded, "run run_2 has succeeded, and takes no event any more").never_retried()
}

#[test]
fn an_event_to_another_run_is_sent_once_and_what_became_of_it_is_told() {
    let mut play = Play::new();
    play.send_to("run_2", "paid", "{\"n\":1}");
    play.nothing();
    // It is not a run that waits: the reply is there by the commit, or about to be.
    assert_eq!(play.activity(), Activity::Running);
    assert!(!play.machine.can_park());
    // The process dies: nothing is sent again.
    play.crash();
    play.reply(1, 0, Ok("null"));
    play.reply(1, 0, Err(ended()));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, value)) if value == json("null")));
    play.send_to("run_2", "paid", "2");
    play.reply(2, 1, Err(ended()));
    assert!(matches!(play.quiet(), Some(Event::Failed(1, error)) if error.is(Code::RunEnded)));
    play.returns(Ok("null"));
    play.check("an_event_to_another_run");
}

#[test]
fn a_cancel_waits_until_it_is_known_what_became_of_an_event() {
    let mut play = Play::new();
    play.send_to("run_2", "paid", "1");
    play.sleep(60_000);
    play.cancel().unwrap();
    play.nothing();
    play.reply(1, 0, Ok("null"));
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    assert!(matches!(play.quiet(), Some(Event::Failed(1, error)) if error.is(Code::Cancelled)));
    play.returns(Ok("null"));
    play.check("a_cancel_waits_for_what_was_sent");
}

#[test]
fn a_sending_that_was_closed_is_done_all_the_same() {
    let mut play = Play::new();
    let sent = play.send_to("run_2", "paid", "1");
    play.sleep(1_000);
    play.close(sent);
    play.reply(1, sent, Ok("null"));
    play.nothing();
    play.clock(1_000);
    assert!(matches!(play.quiet(), Some(Event::Completed(1, _))));
    play.returns(Ok("null"));
    play.check("a_sending_that_was_closed");
}

#[test]
fn what_cannot_be_sent_is_refused_and_takes_no_number() {
    let mut play = Play::new();
    let large = json(&format!("\"{}\"", "x".repeat(2 << 20)));
    for (to, name, payload, code) in [
        ("", "paid", json("1"), Code::InvalidArgument),
        ("run_2", "", json("1"), Code::InvalidArgument),
        ("run_2", "a\nb", json("1"), Code::InvalidArgument),
        ("run_2", "paid", large, Code::ResultTooLarge),
    ] {
        let error = play.machine.send_event(to, name, payload, START_MS).unwrap_err();
        assert!(error.is(code), "{error}");
    }
    play.step("a");
    play.attempt();
    let error = play.machine.send_event("run_2", "paid", json("1"), START_MS).unwrap_err();
    assert!(error.is(Code::OperationInsideStep), "{error}");
    assert_eq!(play.machine.entries(), 3);
}

#[test]
fn another_event_on_replay_is_a_difference() {
    let mut play = Play::new();
    play.send_to("run_2", "paid", "{\"a\":1,\"b\":2}");
    let sends = |to: &str, name: &str, payload: &str| {
        let mut machine = Machine::load(&play.journal, None, Mode::Continue).unwrap();
        let sent = machine.send_event(to, name, json(payload), START_MS);
        assert!(machine.outputs().len() == usize::from(sent.is_err()), "nothing is sent on replay");
        sent
    };
    assert_eq!(sends("run_2", "paid", " {\"b\":2,\"a\":1}"), Ok(0));
    for (to, name, payload) in [("run_3", "paid", "{}"), ("run_2", "sent", "{}"), ("run_2", "paid", "{\"a\":1}")] {
        let error = sends(to, name, payload).unwrap_err();
        assert!(error.is(Code::ReplayMismatch), "{error}");
    }
}
