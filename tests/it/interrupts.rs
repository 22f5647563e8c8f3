//! Code that does not end is interrupted, and nothing else with it.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project};

use crate::journals::{entries, failures};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "interrupts.ts",
        r#"
import { workflow } from "stepwell";

const forEver = (): never => { for (;;); };

export const workflowLoops = workflow("workflow loops", async ({ step }: any) => {
  await step.run("before", () => null);
  forEver();
});

export const bodyLoops = workflow("body loops", async ({ input, step }: any) => {
  let code = null;
  try { await step.run("loops", forEver, { ...input, retry: { maxAttempts: 2, initialMs: 0 } }); } catch (e: any) { code = e.code; }
  return [code, await step.run("after", () => "goes on")];
});

export const two = workflow("two", async ({ input, step }: any) => {
  const short = input === "loops" ? forEver : () => new Promise(() => {});
  const settled = await Promise.allSettled([
    step.run("long", async ({ delay }: any) => { await delay(300); return "done"; }, { timeoutMs: 10_000, retry: { initialMs: 0 } }),
    step.run("short", short, { timeoutMs: 50, retry: { maxAttempts: 1 } }),
  ]);
  return settled.map((one: any) => one.value ?? one.reason.code);
});
"#,
    )
});

#[test]
fn workflow_code_that_loops_fails_the_run() {
    let project = Project::new();
    let end = project
        .run_with(&MODULE, "workflow loops", &Value::Null, &["--workflow-turn-ms", "100"], &[])
        .wait()
        .expect_code(1);
    assert_eq!(end.error()["code"], "workflows.turn_timeout");
    assert_eq!(project.show(&project.only_run())["status"], "failed");
}

#[test]
fn a_body_that_loops_fails_its_attempts() {
    for (input, args, code) in [
        (json!({ "timeoutMs": 100 }), &[][..], "workflows.step_timeout"),
        (json!({}), &["--body-turn-ms", "100"], "workflows.turn_timeout"),
    ] {
        let project = Project::new();
        let end = project.run_with(&MODULE, "body loops", &input, args, &[]).wait().expect_code(0);
        assert_eq!(*end.result(), json!([code, "goes on"]));
        assert_eq!(failures(&project.journal(&project.only_run())), [code, code]);
    }
}

#[test]
fn of_two_time_outs_only_the_one_that_has_passed_interrupts() {
    for input in ["loops", "waits"] {
        let project = Project::new();
        let end = project.run(&MODULE, "two", &json!(input)).wait().expect_code(0);
        assert_eq!(*end.result(), json!(["done", "workflows.step_timeout"]), "{input}");
        let journal = project.journal(&project.only_run());
        let of_long = |ended: &&&Value| ended["op"] == 0;
        let timed_out = |ended: &&Value| ended["outcome"]["failed"]["error"]["code"] == "workflows.step_timeout";
        let ended = entries(&journal, "attempt_ended");
        assert!(!ended.iter().filter(of_long).any(timed_out), "{journal:#?}");
        if input == "waits" {
            // Nothing had to be interrupted: the other body was never disturbed.
            assert_eq!(ended.iter().filter(of_long).count(), 1, "{journal:#?}");
        }
    }
}

#[test]
fn two_runs_in_two_data_directories_do_not_disturb_each_other() {
    let (one, other) = (Project::new(), Project::new());
    let input = json!({ "timeoutMs": 50 });
    let loops = one.run(&MODULE, "body loops", &input);
    let waits = other.run(&MODULE, "two", &json!("waits"));
    assert_eq!(loops.wait().expect_code(0).result()[0], "workflows.step_timeout");
    assert_eq!(waits.wait().expect_code(0).result()[0], "done");
}
