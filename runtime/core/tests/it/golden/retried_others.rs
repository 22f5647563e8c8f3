//! Failed runs that are taken up again, and what they had to do with other runs: children without a result are begun again.

use stepwell_core::contract::{Event, ParentClose, RunOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::RunId;
use stepwell_core::run::{Activity, Awaited, ErrandKind, Refusal, Retry, VoidErrand};

use super::retried::{confirmed, no};
use crate::play::{Play, class, json};
use stepwell_core::contract::EffectClass::Repeatable;

fn broke() -> Error {
    let mut broke = Error::new(Code::StepFailed, "no money");
    broke.code = "shop.broke".into();
    broke
}

fn cancelled() -> Error {
    Error::new(Code::Cancelled, "run run_1, which started it, has ended or waits for it no longer").never_retried()
}

fn awaited(on_parent_close: ParentClose) -> RunOptions {
    RunOptions { run_key: None, detached: false, on_parent_close, tags: Vec::new() }
}

impl Play {
    fn ship(&mut self, workflow: &str) -> u32 {
        self.start(workflow, "{\"n\":1}", awaited(ParentClose::Cancel))
    }

    /// A step that fails for good, and the run with it.
    fn breaks(&mut self, name: &str) {
        let mut options = class(Repeatable);
        options.retry.max_attempts = Some(1);
        let op = self.step_with(name, &options);
        let attempt = self.attempt();
        self.finish(&attempt, Err(no()));
        let error = self.told_failed(op);
        self.returns(Err(error));
    }

    fn void_of(&mut self, retry: &Retry) -> Vec<VoidErrand> {
        match self.retry(retry) {
            Err(Refusal::NeedsConfirm(effects, others)) if effects.is_empty() => others,
            other => panic!("it is to be confirmed: {other:?}"),
        }
    }

    fn run_of(&self, op: u32) -> RunId {
        self.machine.child(op).unwrap().run.clone()
    }
}

#[test]
fn a_child_that_failed_is_begun_again_under_an_id_of_its_own() {
    let mut play = Play::new();
    let op = play.ship("ship");
    let first = play.run_of(op);
    play.reply(1, op, Err(broke()));
    let error = play.told_failed(op);
    play.returns(Err(error));
    let others = play.void_of(&Retry::default());
    assert_eq!(others, [VoidErrand { run: first.clone(), what: ErrandKind::Child("ship".into()) }]);
    let retried = play.retry(&confirmed()).unwrap();
    assert_eq!((retried.step, retried.others), (None, others));
    let second = play.run_of(op);
    assert_ne!(first, second);
    play.nothing();
    assert!(matches!(play.activity(), Activity::Waiting { what: Awaited::Child(run), .. } if run == second));
    play.crash();
    play.reply(2, op, Ok("\"shipped\""));
    assert!(matches!(play.quiet(), Some(Event::Completed(of, value)) if of == op && value == json("\"shipped\"")));
    play.returns(Ok("null"));
    play.check("retried_child");
}

#[test]
fn children_that_the_end_has_cancelled_are_begun_again_unless_they_have_succeeded() {
    let mut play = Play::new();
    let (lost, made, left) = (play.ship("a"), play.ship("b"), play.start("c", "1", awaited(ParentClose::Abandon)));
    let ids = [lost, made, left].map(|op| play.run_of(op));
    play.breaks("charge");
    assert_eq!(play.void_of(&Retry::default()).len(), 2, "one goes on by itself");
    play.retry(&confirmed()).unwrap();
    // Nothing is begun before it is known what became of them.
    assert_eq!([lost, made, left].map(|op| play.run_of(op)), ids);
    let again = play.attempt();
    play.reply(1, lost, Err(cancelled()));
    play.reply(2, made, Ok("2"));
    play.reply(3, left, Err(broke()));
    assert_ne!(play.run_of(lost), ids[0]);
    assert_eq!([made, left].map(|op| play.run_of(op)), ids[1..]);
    play.finish(&again, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(of, _)) if of == made));
    assert!(matches!(play.quiet(), Some(Event::Failed(of, _)) if of == left), "it was not asked to cancel");
    assert!(matches!(play.quiet(), Some(Event::Completed(3, _))));
    play.crash();
    play.nothing();
    play.reply(4, lost, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(of, _)) if of == lost));
    play.returns(Ok("null"));
    play.check("retried_with_children");
}

#[test]
fn what_was_done_to_others_since_has_to_be_confirmed_and_is_done_again_under_other_names() {
    let mut play = Play::new();
    let mut options = class(Repeatable);
    options.retry.max_attempts = Some(1);
    let op = play.step_with("charge", &options);
    let attempt = play.attempt();
    play.finish(&attempt, Err(no()));
    let error = play.told_failed(op);
    let void = play.ship("refund");
    play.send_to("run_2", "gone", "1");
    let first = play.run_of(void);
    play.reply(1, 2, Ok("null"));
    play.reply(2, void, Ok("1"));
    play.returns(Err(error));
    let others = play.void_of(&Retry::default());
    assert_eq!(
        others,
        [
            VoidErrand { run: first.clone(), what: ErrandKind::Child("refund".into()) },
            VoidErrand { run: RunId::new("run_2"), what: ErrandKind::Event("gone".into()) },
        ]
    );
    play.retry(&confirmed()).unwrap();
    let again = play.attempt();
    play.finish(&again, Err(no()));
    play.told_failed(op);
    // What the void one says is not for the one that is begun now.
    let anew = play.ship("refund");
    assert_ne!(play.run_of(anew), first);
    play.reply(3, void, Ok("1"));
    play.nothing();
    play.reply(4, anew, Ok("2"));
    assert!(matches!(play.quiet(), Some(Event::Completed(of, value)) if of == anew && value == json("2")));
    play.returns(Ok("null"));
    play.check("retried_with_void_errands");
}

#[test]
fn a_run_that_went_on_in_another_is_not_taken_up_and_one_that_failed_to_may() {
    let mut play = Play::new();
    play.continue_as_new("2");
    play.returns(Ok("null"));
    assert!(matches!(play.retry(&confirmed()), Err(Refusal::Ended(_))));
    let mut play = Play::new();
    let op = play.ship("ship");
    play.reply(1, op, Err(broke()));
    let error = play.told_failed(op);
    play.continue_as_new("2");
    play.returns(Err(error));
    play.retry(&confirmed()).unwrap();
    play.reply(2, op, Ok("1"));
    assert!(matches!(play.quiet(), Some(Event::Completed(..))));
    play.continue_as_new("3");
    play.returns(Ok("null"));
    play.check("retried_and_continued");
}
