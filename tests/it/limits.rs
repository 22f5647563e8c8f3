//! Names, values, memory and stack at their bounds and beyond.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project, each_in_parallel};

use crate::journals::{entries, failures};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "limits.ts",
        r#"
import { workflow } from "stepwell";

const deeper = (n: number): number => n + deeper(n + 1);
const grow = () => { const all: Uint8Array[] = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); };
const evil: Record<string, () => any> = { stack: () => deeper(0), memory: grow };

export const named = workflow("named", async ({ input, step }: any) => {
  try { return { result: await step.run(input, () => "done") }; } catch (e: any) { return { code: e.code }; }
});

export const sized = workflow("sized", async ({ input, step }: any) => {
  // A string's JSON is its characters and two quotes.
  try { return (await step.run("big", () => "x".repeat(input - 2))).length; } catch (e: any) { return e.code; }
});

export const evilWorkflow = workflow("evil workflow", async ({ input }: any) => evil[input]());

export const evilBody = workflow("evil body", async ({ input, step }: any) => {
  const before = await step.run("before", () => "kept");
  let code = null;
  try { await step.run("evil", () => evil[input](), { retry: { maxAttempts: 2, initialMs: 0 } }); } catch (e: any) { code = e.code; }
  return [before, code, await step.run("after", () => "goes on")];
});

export const wide = workflow("wide", async ({ input, step }: any) =>
  (await Promise.all(Array.from({ length: input }, (_, i) => step.run("part", () => i)))).length);

export const thrown = workflow("thrown", async ({ input, step }: any) => {
  const what: Record<string, any> = {
    undefined: undefined, text: "a text", object: { not: "an error" }, nul: new Error("a\u0000b"), surrogate: new Error("a\ud800b"),
    long: new Error("é".repeat(2_500_000)), empty: new Error(""),
  };
  try { await step.run("throws", () => { throw what[input]; }, { retry: { maxAttempts: 1 } }); }
  catch (e: any) { return { isError: e instanceof Error, code: e.code, message: e.message.slice(0, 20), length: e.message.length }; }
});
"#,
    )
});

const MAX_VALUE_BYTES: usize = 2 << 20;

#[test]
fn a_step_has_a_name_of_any_script_and_of_200_bytes_at_most() {
    let long = "é".repeat(100);
    let good = ["a", "支払い", "Δοκιμή шаг خطوة", "🧾 receipt", "a#2", "with space/and slash", &long, &"x".repeat(200)]
        .map(str::to_owned);
    each_in_parallel(&good, |name| {
        let project = Project::new();
        let end = project.run(&MODULE, "named", &json!(name)).wait().expect_code(0);
        assert_eq!(*end.result(), json!({ "result": "done" }));
        assert_eq!(entries(&project.journal(&project.only_run()), "step_begun")[0]["step"]["name"], **name);
    });
    let bad = [String::new(), "x".repeat(201), format!("{long}x"), "a\u{0}b".to_owned(), "a\nb".to_owned()];
    each_in_parallel(&bad, |name| {
        let project = Project::new();
        let end = project.run(&MODULE, "named", &json!(name)).wait().expect_code(0);
        assert_eq!(*end.result(), json!({ "code": "workflows.invalid_argument" }), "{name:?}");
        assert!(entries(&project.journal(&project.only_run()), "step_begun").is_empty());
    });
}

#[test]
fn a_result_has_2_mib_at_most() {
    for (bytes, result) in
        [(MAX_VALUE_BYTES, json!(MAX_VALUE_BYTES - 2)), (MAX_VALUE_BYTES + 1, json!("workflows.result_too_large"))]
    {
        let project = Project::new();
        let end = project.run(&MODULE, "sized", &json!(bytes)).wait().expect_code(0);
        assert_eq!(*end.result(), result, "{bytes}");
        assert_eq!(end.entries("attempt_started").count(), 1, "it is not tried again");
    }
}

#[test]
fn a_body_that_exhausts_the_instance_fails_and_the_run_goes_on() {
    for (what, code) in [("stack", "workflows.stack_overflow"), ("memory", "workflows.memory_limit")] {
        let project = Project::new();
        let end = project.run(&MODULE, "evil body", &json!(what)).wait().expect_code(0);
        assert_eq!(*end.result(), json!(["kept", code, "goes on"]));
        assert_eq!(failures(&project.journal(&project.only_run())), [code, code]);
    }
}

#[test]
fn workflow_code_that_exhausts_the_instance_fails_the_run() {
    for (what, code) in [("stack", "workflows.stack_overflow"), ("memory", "workflows.memory_limit")] {
        let project = Project::new();
        let end = project.run(&MODULE, "evil workflow", &json!(what)).wait().expect_code(1);
        assert_eq!(end.error()["code"], code);
    }
}

#[test]
fn steps_side_by_side() {
    for width in [99, 100, 101] {
        let project = Project::new();
        let end = project.run(&MODULE, "wide", &json!(width)).wait().expect_code(0);
        assert_eq!(*end.result(), json!(width));
    }
}

#[test]
fn whatever_a_body_throws_is_recorded() {
    for what in ["undefined", "text", "object", "nul", "surrogate", "long", "empty"] {
        let project = Project::new();
        let end = project.run(&MODULE, "thrown", &json!(what)).wait().expect_code(0);
        let result: &Value = end.result();
        assert_eq!(
            (&result["isError"], &result["code"]),
            (&json!(true), &json!("workflows.step_failed")),
            "{what}: {result}"
        );
        let message = result["message"].as_str().expect("an error has a message");
        match what {
            "text" => assert_eq!(message, "a text"),
            "nul" => assert_eq!(message, "a\u{0}b"),
            "surrogate" => assert_eq!(message, "a\u{fffd}b"),
            "long" => assert_eq!(result["length"], 4096, "8 KiB of two-byte characters"),
            "empty" => assert_eq!(message, ""),
            _ => assert!(!message.is_empty(), "{what}"),
        }
    }
}
