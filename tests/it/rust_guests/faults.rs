//! Rust code that takes its instance down: what it is called, and what it costs.

use serde_json::json;
use stepwell_tests::{Project, each_in_parallel};

use super::MODULE;
use crate::journals::{entries, failures};

/// Each fault, and the code that it has.
const FAULTS: [(&str, &str); 6] = [
    ("panic", "workflows.trap"),
    ("division", "workflows.trap"),
    ("bounds", "workflows.trap"),
    ("memory", "workflows.memory_limit"),
    ("recursion", "workflows.stack_overflow"),
    // The stack that Rust keeps in the module's memory: its end is the memory's, and looks like any access outside it.
    ("frames", "workflows.trap"),
];

#[test]
fn a_fault_in_a_body_is_a_failed_attempt_and_the_run_goes_on() {
    each_in_parallel(&FAULTS, |&(fault, code)| {
        let project = Project::new();
        let end = project.run(&MODULE, "faulty body", &json!(fault)).wait().expect_code(0);
        assert_eq!(*end.result(), json!(["kept", code, "goes on"]), "{fault}");
        let journal = project.journal(&project.only_run());
        assert_eq!(failures(&journal), [code, code], "{fault}");
        let started = entries(&journal, "attempt_started");
        let attempts = |op: u64| started.iter().filter(|started| started["op"] == op).count();
        assert_eq!((attempts(0), attempts(1), attempts(2)), (1, 2, 1), "{fault}: what was done is not done again");
    });
}

#[test]
fn a_fault_in_workflow_code_fails_the_run_at_once() {
    each_in_parallel(&FAULTS, |&(fault, code)| {
        let project = Project::new();
        let end = project.run(&MODULE, "faulty workflow", &json!(fault)).wait().expect_code(1);
        assert_eq!(end.error()["code"], code, "{fault}");
        assert_eq!(project.show(&project.only_run())["status"], "failed", "{fault}");
    });
}

#[test]
fn a_panic_says_where_it_was_in_the_runs_log() {
    for workflow in ["faulty body", "faulty workflow"] {
        for (fault, says) in [("panic", "on purpose"), ("division", "attempt to divide by zero")] {
            let end = Project::new().run(&MODULE, workflow, &json!(fault)).wait();
            let told = end.of_kind("log").any(|line| {
                let text = line["message"].as_str().unwrap_or_default();
                line["level"] == "error" && text.contains(says) && text.contains("faults.rs")
            });
            assert!(told, "{workflow}, {fault}: {end:#?}");
        }
    }
}

#[test]
fn code_that_does_not_end_is_interrupted() {
    let project = Project::new();
    let args = ["--body-turn-ms", "100", "--workflow-turn-ms", "100"];
    let end = project.run_with(&MODULE, "faulty body", &json!("loop"), &args, &[]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(["kept", "workflows.turn_timeout", "goes on"]));
    let project = Project::new();
    let end = project.run_with(&MODULE, "faulty workflow", &json!("loop"), &args, &[]).wait().expect_code(1);
    assert_eq!(end.error()["code"], "workflows.turn_timeout");
}
