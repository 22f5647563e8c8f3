//! What the simulator has found, each as the few inputs that show it.

#![allow(clippy::unwrap_used)]

use stepwell_core::contract::{AttemptRef, EffectKey, Event, Evidence, Request, Response, StepOptions};
use stepwell_core::error::{Code, Error};
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::{AttemptOutcome, Entry, Next, Record, Started};
use stepwell_core::json::Json;
use stepwell_core::policy::retry::RetryPolicy;
use stepwell_core::run::{Input, Machine, Mode, Output};

fn machine() -> Machine {
    let started = Started {
        run: RunId::new("run_1"),
        workflow: "w".into(),
        digest: Digest::of(b"m"),
        input: Json::null(),
        retry: RetryPolicy::default(),
        step_timeout_ms: None,
        deadline_ms: None,
        parent: None,
        continues: None,
    };
    Machine::load([Machine::first_entry(1_000, started)], None, Mode::Continue).unwrap()
}

/// What was recorded and what was delivered since this was asked last.
fn drain(machine: &mut Machine) -> (Vec<Entry>, Vec<Event>) {
    let (mut entries, mut events) = (Vec::new(), Vec::new());
    for output in machine.outputs() {
        match output {
            Output::Append { entry, .. } => entries.push(entry),
            Output::Deliver(event) => events.push(event),
            _ => {}
        }
    }
    (entries, events)
}

/// The body had failed and could be retried; its request was still awaited when the workflow lost interest in the step.
#[test]
fn a_step_that_is_closed_while_its_failed_attempt_settles_is_not_attempted_again() {
    let mut machine = machine();
    let step = machine.step_begin("a", &StepOptions::default(), 1_000).unwrap();
    let timer = machine.sleep(5, 1_000).unwrap();
    machine.handle(Input::Quiet, 1_000, 0);
    let attempt = AttemptRef { operation: step, number: 1 };
    let request = Request {
        method: "POST".into(),
        url: "https://a.example/".into(),
        headers: Vec::new(),
        body: None,
        timeout_ms: None,
        key: EffectKey::Effect,
        label: None,
        renew_on: Vec::new(),
    };
    let exchange = machine.http_send(attempt, request, 1_001).unwrap();
    machine.step_finish(attempt, Err(Error::new(Code::StepFailed, "no")), 1_001, 0).unwrap();
    machine.handle(Input::Time, 1_005, 0);
    drain(&mut machine);
    machine.handle(Input::Quiet, 1_005, 0);
    assert!(matches!(&drain(&mut machine).1[..], [Event::Completed(op, _)] if *op == timer));
    machine.close(step, 1_005, 0).unwrap();
    let response = Response { status: 503, headers: Vec::new(), body: Vec::new(), recorded: false };
    machine.handle(Input::Settled { exchange, evidence: Evidence::Answered(503), answer: Ok(response) }, 1_006, 0);
    let (entries, _) = drain(&mut machine);
    let ended = entries.iter().find_map(|entry| match &entry.record {
        Record::AttemptEnded { outcome: AttemptOutcome::Failed { next, .. }, .. } => Some(*next),
        _ => None,
    });
    assert_eq!(ended, Some(Next::GiveUp), "{entries:?}");
}

/// A restarted host's clock may be behind what is recorded.
#[test]
fn a_sleep_is_as_long_as_it_says_by_the_journal_s_own_clock() {
    let mut machine = machine();
    machine.resume(1_100, false).unwrap();
    machine.sleep(10, 1_050).unwrap();
    machine.wait_event("x", Some(10), 1_050).unwrap();
    let (entries, _) = drain(&mut machine);
    let [_, sleep, wait] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!(sleep.at_ms, 1_100);
    assert!(matches!(sleep.record, Record::SleepBegun { due_ms: 1_110, .. }), "{sleep:?}");
    assert!(matches!(wait.record, Record::WaitBegun { due_ms: Some(1_110), .. }), "{wait:?}");
}
