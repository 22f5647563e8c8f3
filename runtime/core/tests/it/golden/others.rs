//! What a run does to others: it is done by the commit that records it, and what became of it is told.

use stepwell_core::contract::{Event, ParentClose, RunOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::RunId;
use stepwell_core::journal::entry::{Parent, RunOutcome, Started};
use stepwell_core::run::{Activity, Awaited, Machine, Mode};

use crate::play::{Play, START_MS, json, started};

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

fn started_with(detached: bool, on_parent_close: ParentClose) -> RunOptions {
    RunOptions { run_key: None, detached, on_parent_close, tags: Vec::new() }
}

#[test]
fn a_child_is_started_once_and_its_parent_waits_for_its_end() {
    let mut play = Play::new();
    play.start("ship", "{\"n\":1}", started_with(false, ParentClose::Cancel));
    play.nothing();
    assert!(matches!(play.activity(), Activity::Waiting { what: Awaited::Child(_), until_ms: None }));
    assert!(play.machine.can_park());
    play.crash();
    play.nothing();
    play.reply(1, 0, Ok("\"shipped\""));
    assert!(matches!(play.quiet(), Some(Event::Completed(0, value)) if value == json("\"shipped\"")));
    let mut broke = Error::new(Code::StepFailed, "no money");
    broke.code = "shop.broke".into();
    broke.details = Some(json("{\"cents\":5}"));
    play.start("pay", "null", started_with(false, ParentClose::Cancel));
    play.reply(2, 1, Err(broke.clone()));
    assert!(matches!(play.quiet(), Some(Event::Failed(1, error)) if error == broke));
    play.start("audit", "null", started_with(true, ParentClose::Abandon));
    play.nothing();
    // Its start comes with its commit: nobody is to wait for it elsewhere.
    assert_eq!(play.activity(), Activity::Running);
    play.reply(3, 2, Ok("\"run_x\""));
    assert!(matches!(play.quiet(), Some(Event::Completed(2, value)) if value == json("\"run_x\"")));
    play.returns(Ok("null"));
    play.check("a_child_and_its_end");
}

#[test]
fn children_are_cancelled_with_what_waits_for_them() {
    let mut play = Play::new();
    let lost = play.start("a", "1", started_with(false, ParentClose::Cancel));
    let left = play.start("b", "2", started_with(false, ParentClose::Abandon));
    play.start("c", "3", started_with(false, ParentClose::Cancel));
    play.start("d", "4", started_with(false, ParentClose::Abandon));
    play.start("e", "5", started_with(true, ParentClose::Cancel));
    play.start("f", "6", started_with(false, ParentClose::Cancel));
    play.reply(1, 4, Ok("\"run_e\""));
    play.reply(2, 5, Ok("6"));
    play.close(lost);
    play.close(left);
    play.cancel().unwrap();
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    // What they say after that changes nothing.
    play.reply(3, lost, Ok("1"));
    play.reply(4, 2, Ok("3"));
    for op in [4, 5] {
        assert!(matches!(play.quiet(), Some(Event::Completed(told, _)) if told == op));
    }
    for op in [2, 3] {
        assert!(matches!(play.quiet(), Some(Event::Failed(told, error)) if told == op && error.is(Code::Cancelled)));
    }
    play.returns(Ok("null"));
    play.check("children_are_cancelled");
}

#[test]
fn what_is_no_child_is_refused_and_takes_no_number() {
    let mut play = Play::new();
    let large = json(&format!("\"{}\"", "x".repeat(2 << 20)));
    let options = |run_key: Option<&str>, tags: &[(&str, &str)]| RunOptions {
        run_key: run_key.map(Into::into),
        tags: tags.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        ..started_with(false, ParentClose::Cancel)
    };
    let many: Vec<(String, String)> = (0..33).map(|n| (n.to_string(), "v".into())).collect();
    let refused = [
        ("", json("1"), options(None, &[]), Code::InvalidArgument),
        ("a\nb", json("1"), options(None, &[]), Code::InvalidArgument),
        ("a", large, options(None, &[]), Code::ResultTooLarge),
        ("a", json("1"), options(Some(" "), &[]), Code::InvalidArgument),
        ("a", json("1"), options(Some(&"k".repeat(256)), &[]), Code::InvalidArgument),
        ("a", json("1"), options(None, &[("a", "1"), ("a", "2")]), Code::InvalidArgument),
        ("a", json("1"), options(None, &[("", "1")]), Code::InvalidArgument),
        ("a", json("1"), RunOptions { tags: many, ..options(None, &[]) }, Code::InvalidArgument),
    ];
    for (workflow, input, options, code) in refused {
        let error = play.machine.start_run(workflow, input, options, START_MS).unwrap_err();
        assert!(error.is(code), "{error}");
    }
    play.step("a");
    play.attempt();
    let error = play.machine.start_run("a", json("1"), options(None, &[]), START_MS).unwrap_err();
    assert!(error.is(Code::OperationInsideStep), "{error}");
    let deep = Parent { run: RunId::new("run_0"), depth: 32 };
    let mut play = Play::of(Started { parent: Some(deep), ..started() });
    let error = play.machine.start_run("a", json("1"), options(None, &[]), START_MS).unwrap_err();
    assert!(error.is(Code::TooManyOperations), "{error}");
    assert!(play.machine.outputs().is_empty());
    let parent = Parent { run: RunId::new("run_0"), depth: 31 };
    let mut play = Play::of(Started { parent: Some(parent), ..started() });
    assert_eq!(play.start("a", "1", options(Some("k"), &[("a", "1")])), 0);
}

#[test]
fn another_child_on_replay_is_a_difference() {
    let mut play = Play::new();
    play.start("ship", "{\"a\":1,\"b\":2}", started_with(false, ParentClose::Cancel));
    let starts = |workflow: &str, input: &str| {
        let mut machine = Machine::load(&play.journal, None, Mode::Continue).unwrap();
        machine.start_run(workflow, json(input), started_with(true, ParentClose::Abandon), START_MS)
    };
    // Options are not compared: the recorded ones win.
    assert_eq!(starts("ship", "{\"b\":2,\"a\":1}"), Ok(0));
    for (workflow, input) in [("send", "{\"a\":1,\"b\":2}"), ("ship", "{\"a\":1}")] {
        let error = starts(workflow, input).unwrap_err();
        assert!(error.is(Code::ReplayMismatch), "{error}");
    }
}

#[test]
fn a_run_goes_on_in_another_with_what_it_made_no_use_of() {
    let mut play = Play::new();
    play.event(1, "x", "1");
    play.event(2, "y", "2");
    play.event(3, "x", "3");
    play.wait("x", None);
    assert!(matches!(play.quiet(), Some(Event::Completed(0, _))));
    // Handed to a wait, and never told.
    play.wait("x", None);
    play.continue_as_new("{\"round\":2}");
    let error = play.machine.sleep(1, START_MS).unwrap_err();
    assert!(error.is(Code::InvalidArgument), "{error}");
    assert!(play.machine.continue_as_new(json("3"), START_MS).is_err(), "once is enough");
    play.event(4, "z", "4");
    play.returns(Ok("null"));
    let next = RunId::derived(play.machine.run_id(), "next", START_MS);
    assert_eq!(play.machine.ended(), Some(&RunOutcome::Continued(next)));
    play.check("a_run_goes_on_in_another");
}

#[test]
fn a_run_that_was_asked_to_cancel_goes_on_in_none() {
    // Asked between its last word and its end.
    let mut play = Play::new();
    play.continue_as_new("2");
    play.cancel().unwrap();
    play.returns(Ok("null"));
    assert!(matches!(play.machine.ended(), Some(RunOutcome::Cancelled(_))));
    play.check("a_run_that_was_cancelled_goes_on_in_none");
    // Told so before.
    let mut play = Play::new();
    play.sleep(1_000);
    play.cancel().unwrap();
    assert_eq!(play.quiet(), Some(Event::Cancelled));
    let error = play.machine.continue_as_new(json("2"), START_MS).unwrap_err();
    assert!(error.is(Code::Cancelled), "{error}");
}

#[test]
fn a_run_that_goes_on_with_something_else_on_replay_differs() {
    let mut play = Play::new();
    play.continue_as_new("2");
    let mut machine = Machine::load(&play.journal, None, Mode::Continue).unwrap();
    let error = machine.continue_as_new(json("3"), START_MS).unwrap_err();
    assert!(error.is(Code::ReplayMismatch), "{error}");
    let mut machine = Machine::load(&play.journal, None, Mode::Continue).unwrap();
    let error = machine.sleep(3, START_MS).unwrap_err();
    assert!(error.is(Code::ReplayMismatch), "{error}");
}
