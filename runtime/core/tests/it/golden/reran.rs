//! Runs that have ended, and what a rerun has of their journals: each is a cut, compared with a journal that a person has read.

use std::fmt::Write as _;

use stepwell_core::contract::EffectClass::{Keyed, Once, Repeatable};
use stepwell_core::contract::{Event, ParentClose, RunOptions};
use stepwell_core::ids::RunId;
use stepwell_core::journal::codec;
use stepwell_core::journal::print::{Printer, Times};
use stepwell_core::run::{Activity, Birth, Machine, Mode, Refusal, Rerun, RerunError, Rerunning, rerun};

use super::charge::World;
use super::retried::{confirmed, no};
use crate::play::{Play, class, golden, post};

const AT_MS: u64 = 5_000_000;

fn asked(journal: &[Vec<u8>], step: &str, run: &str, confirm: bool) -> Result<Rerunning, Refusal> {
    let ask = Rerun { from_step: step.to_owned(), confirm, ..Rerun::default() };
    let birth =
        Birth { run: RunId::new(run), at_ms: AT_MS, reason: "the goods were wrong".to_owned(), by: "ana".to_owned() };
    rerun(journal, &ask, &birth).map_err(|error| match error {
        RerunError::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    })
}

/// The rerun from that step, which is compared with the golden file.
fn checked(journal: &[Vec<u8>], step: &str, name: &str) -> Rerunning {
    let new = asked(journal, step, "run_2", true).unwrap();
    let entries: Vec<_> = (0..).zip(&new.journal).map(|(seq, bytes)| codec::decode(seq, bytes).unwrap()).collect();
    let mut text = Printer::print(&entries, Times::Relative);
    let ids = |ids: &[stepwell_core::ids::StepId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let _ = writeln!(text, "{:>14} -- from {}; attempted again: {}", "", new.step, ids(&new.again));
    for of in &new.done.effects {
        let done = if of.done { "done" } else { "maybe" };
        let _ = writeln!(text, "{:>14} -- {done}: {} {} by {}", "", of.method, of.url, of.step);
    }
    for other in &new.done.others {
        let _ = writeln!(text, "{:>14} -- {other}", "");
    }
    let _ = writeln!(text, "{:>14} -- {} unknown; events left: {}", "", new.unknown, new.events_left.join(", "));
    golden(name, &text);
    new
}

fn machine(new: &Rerunning) -> Machine {
    Machine::load(&new.journal, None, Mode::Continue).unwrap()
}

impl Play {
    /// A step that does something and succeeds.
    fn did(&mut self, name: &str) -> u32 {
        let op = self.step_with(name, &class(Keyed));
        let attempt = self.attempt();
        self.round(&attempt, post(name), World::Status(201));
        self.finish(&attempt, Ok("1"));
        assert!(matches!(self.quiet(), Some(Event::Completed(of, _)) if of == op));
        op
    }
}

#[test]
fn what_was_begun_before_stays_and_what_was_begun_since_is_gone() {
    let mut play = Play::new();
    play.did("reserve");
    play.did("charge");
    play.did("mail");
    play.returns(Ok("1"));
    let refused = asked(&play.journal, "charge", "run_2", false);
    assert!(matches!(&refused, Err(Refusal::RerunNeedsConfirm(done)) if done.effects.len() == 2), "{refused:?}");
    let new = checked(&play.journal, "charge", "reran");
    assert_eq!((new.again.len(), new.done.effects.len()), (0, 2));
    assert!(asked(&play.journal, "mail", "run_2", false).is_err());
    assert_eq!(asked(&play.journal, "reserve", "run_2", true).unwrap().journal.len(), 2);
}

#[test]
fn what_was_under_way_beside_it_has_its_result() {
    let mut play = Play::new();
    play.step_with("pack", &class(Keyed));
    play.sleep(1_000);
    play.step("charge");
    let pack = play.attempt();
    let charge = play.attempt();
    play.round(&pack, post("pack"), World::Status(201));
    play.finish(&pack, Ok("\"packed\""));
    play.finish(&charge, Ok("5"));
    play.quiet();
    play.quiet();
    play.next_due();
    play.quiet();
    play.returns(Ok("1"));
    let new = checked(&play.journal, "charge", "reran_beside");
    assert!(new.again.is_empty() && new.done.effects.is_empty(), "{new:?}");
    assert_eq!(machine(&new).activity(), Activity::Running, "it is told of both");
}

#[test]
fn what_may_have_happened_before_stays_unknown_under_its_key() {
    let mut play = Play::new();
    play.step_with("charge", &class(Once));
    play.step_with("ask", &class(Repeatable));
    play.step("mail");
    let charge = play.attempt();
    let ask = play.attempt();
    let mail = play.attempt();
    play.round(&charge, post("charge 5"), World::Lost);
    play.fails(&charge, World::Lost);
    play.round(&ask, post("ask"), World::Lost);
    play.fails(&ask, World::Lost);
    play.finish(&mail, Ok("1"));
    play.quiet();
    play.terminate().unwrap();
    let new = checked(&play.journal, "mail", "reran_unknown");
    assert_eq!((new.unknown, new.again.len()), (1, 1));
    assert_eq!(machine(&new).unknown_steps()[0].to_string(), "charge");
}

#[test]
fn a_request_to_cancel_that_was_not_told_was_made_of_the_other_run() {
    let mut play = Play::new();
    play.step("pack");
    play.step("charge");
    let pack = play.attempt();
    let charge = play.attempt();
    play.cancel().unwrap();
    assert!(matches!(play.quiet(), Some(Event::Expired(_))));
    drop((pack, charge));
    while !matches!(play.quiet(), Some(Event::Cancelled)) {}
    play.quiet();
    play.quiet();
    play.step("clean up");
    let clean_up = play.attempt();
    play.finish(&clean_up, Ok("1"));
    play.quiet();
    play.returns(Err(no()));
    let before = checked(&play.journal, "charge", "reran_cancelled");
    assert_eq!(before.again.len(), 1, "the step that was given up is attempted");
    assert!(!machine(&before).is_cancel_asked());
    let cleaning = checked(&play.journal, "clean up", "reran_cleaning_up");
    assert!(cleaning.again.is_empty() && machine(&cleaning).is_cancel_asked());
}

#[test]
fn nothing_goes_on_from_what_a_retry_has_made_void() {
    let mut play = Play::new();
    let mut options = class(Repeatable);
    options.retry.max_attempts = Some(1);
    let op = play.step_with("pack", &options);
    let pack = play.attempt();
    play.finish(&pack, Err(no()));
    let error = play.told_failed(op);
    play.did("apologise");
    play.returns(Err(error));
    play.retry(&confirmed()).unwrap();
    let pack = play.attempt();
    play.finish(&pack, Ok("1"));
    play.quiet();
    play.did("charge");
    play.returns(Ok("1"));
    let new = checked(&play.journal, "charge", "reran_retried");
    let of: Vec<String> = new.done.effects.iter().map(|of| of.step.to_string()).collect();
    assert_eq!(of, ["apologise", "charge"]);
    // It is begun anew, and not again.
    let mut machine = machine(&new);
    machine.resume(AT_MS, false).unwrap();
    machine.outputs();
    let refused = asked(&play.journal, "apologise", "run_2", true);
    assert_eq!(refused, Err(Refusal::NoSuchStep("apologise".to_owned())));
}

#[test]
fn a_rerun_is_cut_where_it_lives_by_itself_and_where_it_has_lived_before() {
    let mut play = Play::new();
    play.did("reserve");
    play.did("charge");
    play.returns(Ok("1"));
    let second = asked(&play.journal, "charge", "run_2", true).unwrap();
    let mut play = Play::of_journal(second.journal);
    play.redone("reserve", 0);
    play.did("charge");
    play.did("mail");
    play.returns(Ok("2"));
    let third = asked(&play.journal, "mail", "run_3", true).unwrap();
    let ids = |journal: Vec<Vec<u8>>| {
        let mut play = Play::of_journal(journal);
        let mut ids = vec![play.machine.told_run_id().to_string()];
        while !play.machine.at_frontier() {
            let named = ["reserve", "charge"][ids.len() - 1];
            play.redone(named, ids.len() as u32 - 1);
            ids.push(play.machine.told_run_id().to_string());
        }
        ids
    };
    // What was seen before is seen as it was.
    assert_eq!(ids(third.journal), ["run_1", "run_1", "run_2"]);
    let fourth = checked(&play.journal, "reserve", "reran_again");
    assert_eq!(fourth.done.effects.len(), 3);
    assert_eq!(ids(fourth.journal), ["run_1"]);
}

#[test]
fn an_event_is_the_reruns_where_something_from_before_has_had_it() {
    let mut play = Play::new();
    play.event(1, "early", "1");
    play.wait("paid", None);
    play.step("charge");
    let charge = play.attempt();
    play.event(2, "paid", "2");
    play.event(3, "paid", "3");
    play.finish(&charge, Ok("1"));
    play.quiet();
    play.quiet();
    play.wait("paid", None);
    play.quiet();
    play.returns(Ok("1"));
    let new = checked(&play.journal, "charge", "reran_events");
    assert_eq!(new.inbox.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["early", "paid"]);
    assert_eq!((machine(&new).last_event(), new.events_left), (2, vec!["paid".to_owned()]));
}

#[test]
fn a_child_that_had_no_result_is_begun_again() {
    let mut play = Play::new();
    let awaited = RunOptions { run_key: None, detached: false, on_parent_close: ParentClose::Cancel, tags: Vec::new() };
    play.start("ship", "1", awaited.clone());
    play.start("bill", "1", awaited);
    play.step("charge");
    let charge = play.attempt();
    play.reply(1, 1, Ok("\"billed\""));
    play.finish(&charge, Err(no()));
    play.quiet();
    play.quiet();
    play.returns(Err(no()));
    let refused = asked(&play.journal, "charge", "run_2", false);
    assert!(matches!(&refused, Err(Refusal::RerunNeedsConfirm(done)) if done.others.len() == 1), "{refused:?}");
    checked(&play.journal, "charge", "reran_with_children");
}

#[test]
fn what_was_not_heard_yet_cannot_be_gone_on_from() {
    let mut play = Play::new();
    play.send_to("run_9", "paid", "1");
    play.step("charge");
    play.terminate().unwrap();
    let refused = asked(&play.journal, "charge", "run_2", true);
    assert!(matches!(&refused, Err(Refusal::NoRerun(why)) if why.contains("had not heard")), "{refused:?}");
}

#[test]
fn steps_are_named_exactly() {
    let mut play = Play::new();
    for _ in 0..2 {
        play.did("charge");
    }
    play.did("mail");
    let open = asked(&play.journal, "mail", "run_2", true);
    assert_eq!(open, Err(Refusal::NotEnded));
    play.returns(Ok("1"));
    let from = |step: &str| asked(&play.journal, step, "run_2", true).map(|new| new.step.to_string());
    let ids = vec!["charge#1".to_owned(), "charge#2".to_owned()];
    assert_eq!(from("charge"), Err(Refusal::StepAmbiguous { step: "charge".to_owned(), ids }));
    assert_eq!(from("charge#1"), Ok("charge".to_owned()));
    assert_eq!(from("charge#2"), Ok("charge#2".to_owned()));
    assert_eq!(from("charge#3"), Err(Refusal::NoSuchStep("charge#3".to_owned())));
    assert_eq!(from("mail"), Ok("mail".to_owned()));
    assert_eq!(from("mail#1"), Ok("mail".to_owned()));
    assert_eq!(from("none"), Err(Refusal::NoSuchStep("none".to_owned())));
}
