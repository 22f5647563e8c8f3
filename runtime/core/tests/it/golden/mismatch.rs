//! What is said where a replay differs: the likely cause names the bodies that had run before.

use stepwell_core::contract::StepOptions;
use stepwell_core::journal::mismatch::Mismatch;
use stepwell_core::run::{Input, Machine, Mode};

use crate::play::{Play, START_MS, json};

/// A run of so many steps, one after the other, and then a sleep.
fn recorded(steps: usize) -> Vec<Vec<u8>> {
    let mut play = Play::new();
    for n in 1..=steps {
        play.step(&format!("s{n}"));
        let attempt = play.attempt();
        play.finish(&attempt, Ok("1"));
        play.quiet();
    }
    play.sleep(1000);
    play.journal
}

/// What is said when the code does something else than sleep after its steps.
fn differs(steps: usize, something_else: impl FnOnce(&mut Machine)) -> Mismatch {
    let mut machine = Machine::load(recorded(steps), None, Mode::Verify).unwrap();
    for n in 1..=steps {
        machine.step_begin(&format!("s{n}"), &StepOptions::default(), START_MS).unwrap();
        machine.handle(Input::Quiet, START_MS, 0);
    }
    something_else(&mut machine);
    machine.stopped().cloned().expect("it differs")
}

fn another_step(machine: &mut Machine) {
    machine.step_begin("other", &StepOptions::default(), START_MS).unwrap_err();
}

#[test]
fn the_bodies_that_ran_before_are_the_likely_cause() {
    let bodies = "changed something outside itself (a variable, a shared object) that the workflow then used. \
                  A body runs once and not again on replay, so return it from the step instead";
    for (steps, which) in [
        (1, r#"the body of step "s1""#),
        (2, r#"the body of step "s2" or "s1""#),
        (7, r#"the body of step "s7" or "s6" or "s5" or "s4" or "s3" or one of 2 more"#),
    ] {
        assert_eq!(differs(steps, another_step).likely, format!("{which} {bodies}"));
    }
    assert_eq!(
        differs(0, another_step).likely,
        "the workflow's code depends on something that is not recorded (no step's body had run before)"
    );
}

#[test]
fn whatever_the_difference_shows_by() {
    let quiet = |machine: &mut Machine| machine.handle(Input::Quiet, START_MS, 0);
    let idle = |machine: &mut Machine| machine.handle(Input::Idle, START_MS, 0);
    let ends = |machine: &mut Machine| machine.handle(Input::Returned(Ok(json("1"))), START_MS, 0);
    for mismatch in [differs(1, quiet), differs(1, idle), differs(1, ends), differs(1, another_step)] {
        assert!(mismatch.likely.starts_with(r#"the body of step "s1" changed"#), "{mismatch}");
        assert!(!mismatch.to_string().contains("has changed"), "{mismatch}");
    }
}

#[test]
fn a_body_that_had_not_run_before_is_no_suspect() {
    // Its step was begun after the difference.
    let journal = recorded(2);
    let mut machine = Machine::load(&journal, None, Mode::Verify).unwrap();
    machine.step_begin("s1", &StepOptions::default(), START_MS).unwrap();
    machine.handle(Input::Quiet, START_MS, 0);
    another_step(&mut machine);
    let mismatch = machine.stopped().expect("it differs");
    assert!(mismatch.likely.starts_with(r#"the body of step "s1" changed"#), "{mismatch}");
}

#[test]
fn other_code_is_the_first_suspect_where_there_is_some() {
    assert_eq!(
        differs(1, another_step).on_other_code().to_string(),
        "replay differs at entry 5 (turn 1): recorded was a sleep, but now came step \"other\". Likely cause: the code has \
         changed since the run was recorded; where it has not, the body of step \"s1\" changed something outside itself (a \
         variable, a shared object) that the workflow then used. A body runs once and not again on replay, so return it from \
         the step instead. Nothing was written; where the run has not ended, it can go on with code that does what is recorded."
    );
}
