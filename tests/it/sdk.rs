//! The JavaScript SDK inside the runtime: what authors get wrong is told, and what they do to the language does it no harm.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Finished, Module, Project, Reply, Server};

use crate::journals::{entries, failures, rows};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "sdk.ts",
        r#"
import { workflow, race } from "stepwell";

const deep = (levels: number) => { let value: any = 1; for (let n = 0; n < levels; n++) value = [value]; return value; };
const cyclic = () => { const a: any = { list: [] }; a.list.push(a); return a; };
const values: Record<string, () => any> = {
  "deep enough": () => deep(400),
  "too deep": () => deep(600),
  "far too deep": () => deep(200_000),
  "cyclic": cyclic,
  "a BigInt": () => ({ cents: 5n }),
  "a function": () => () => 1,
  "a getter that throws": () => ({ get a() { throw new Error("in a getter"); } }),
  "a Map": () => ({ prices: new Map([["a", 1]]) }),
};

export const results = workflow("results", ({ input, step }: any) => step.run("makes it", () => values[input](), { retry: { initialMs: 0 } }));

export const ownResult = workflow("own-result", async ({ input }: any) => values[input]());

export const details = workflow("details", async ({ input, step }: any) => {
  await step.run("throws", () => { throw Object.assign(new Error("with details"), { details: values[input]() }); }, { retry: { maxAttempts: 1 } });
});

export const forgets = workflow("forgets", async ({ step, sleep }: any) => {
  step.run("forgotten", () => 1);
  return "done";
});

export const drops = workflow("drops", async ({ step, sleep }: any) => {
  const work = async () => {
    await step.run("first", () => 1);
    throw new Error("after the first step");
  };
  work();
  step.run("fails", () => { throw new Error("gone"); }, { retry: { maxAttempts: 1 } });
  await sleep(50);
  return "done";
});

export const patched = workflow("patched", async ({ input, step, sleep, waitForEvent, log }: any) => {
  const fail = () => { throw new Error("patched"); };
  const restore: (() => void)[] = [];
  for (const [target, names] of [
    [JSON, ["stringify", "parse"]], [Map.prototype, ["get", "set", "has", "delete", "values", "entries"]], [WeakMap.prototype, ["get", "set"]], [Set.prototype, ["add", "has"]],
    [Array.prototype, ["map", "filter", "push", "pop", "find", "slice", "includes", "join", "some", "at", "splice", "indexOf", "forEach"]],
    [String.prototype, ["slice", "toWellFormed", "replace", "split", "indexOf", "toLowerCase", "startsWith", "trim", "codePointAt"]],
    [RegExp.prototype, ["exec", "test"]], [Promise.prototype, ["then", "catch"]], [Object, ["entries", "keys", "assign", "defineProperty"]],
    [Number, ["isInteger", "isFinite"]], [Math, ["floor", "min", "max"]], [Reflect, ["apply"]], [Function.prototype, ["call", "apply"]],
  ] as [any, string[]][]) for (const name of names) {
    const own = target[name];
    restore[restore.length] = () => { target[name] = own; };
    target[name] = fail;
  }
  try {
    const a = step.run("a", async ({ http, delay }: any) => {
      await delay("1 ms");
      // Awaited: a promise that is returned is asked for its `then` by the engine.
      return await (await http.post(`${input}/./a?x=1`, { json: { n: 1 }, query: { q: "a b" } }).ensureOk()).json();
    });
    const b = step.run("b", () => 2);
    const results = [await a, await b];
    log("both", { n: 2 });
    console.log("shown %s", "here", { x: [1] });
    await race([sleep("1 h"), sleep(1)]);
    return { results, event: await waitForEvent("none", { timeoutMs: 1 }) };
  } finally {
    for (const undo of restore) undo();
  }
}, { destinations: ["127.0.0.1:*"] });
"#,
    )
});

/// The lines of the run's log, each with its level.
fn logged(end: &Finished) -> Vec<String> {
    end.of_kind("log")
        .map(|line| {
            let text = |key: &str| line[key].as_str().unwrap_or_default();
            format!("{}: {}", text("level").to_lowercase(), text("message"))
        })
        .collect()
}

fn run(workflow: &str, input: &Value, code: i32) -> (Project, Finished) {
    let project = Project::new();
    let end = project.run(&MODULE, workflow, input).wait().expect_code(code);
    (project, end)
}

#[test]
fn a_result_that_can_never_be_written_fails_once() {
    for (what, says) in [
        ("too deep", "it is nested more than 500 levels deep"),
        ("far too deep", "it is nested more than 500 levels deep"),
        ("cyclic", "circular"),
        ("a BigInt", ".cents is a BigInt: write it as a text, String(value)"),
        ("a function", "is no JSON value"),
        ("a getter that throws", "in a getter"),
    ] {
        let (project, end) = run("results", &json!(what), 1);
        let message = end.error()["message"].as_str().expect("an error has a message");
        assert!(message.starts_with(r#"the result of step "makes it""#) && message.contains(says), "{what}: {message}");
        let journal = project.journal(&project.only_run());
        assert_eq!(failures(&journal), ["workflows.invalid_argument"], "{what}: one attempt");
        let (_, end) = run("own-result", &json!(what), 1);
        let message = end.error()["message"].as_str().expect("an error has a message");
        assert!(message.contains(says), "{what}: {message}");
    }
}

#[test]
fn a_result_that_is_deep_arrives_whole() {
    let (_, end) = run("results", &json!("deep enough"), 0);
    // As a text, since it is nested too deeply for a tree.
    assert_eq!(*end.result(), json!(format!("{}1{}", "[".repeat(400), "]".repeat(400))));
}

#[test]
fn details_that_cannot_be_written_are_left_out() {
    for what in ["far too deep", "cyclic", "a BigInt"] {
        let (_, end) = run("details", &json!(what), 1);
        assert_eq!(
            (&end.error()["message"], &end.error()["details"]),
            (&json!("with details"), &Value::Null),
            "{what}"
        );
    }
}

#[test]
fn what_json_makes_something_else_of_is_told() {
    let (_, end) = run("results", &json!("a Map"), 0);
    assert_eq!(*end.result(), json!({ "prices": {} }));
    let lines = logged(&end);
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["warn: ", r#"step "makes it""#, ".prices, a Map, becomes {}", "Object.fromEntries"] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
}

#[test]
fn a_step_that_is_not_awaited_is_told() {
    let (project, end) = run("forgets", &Value::Null, 0);
    let lines = logged(&end);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(r#"warn: step "forgotten" was begun and never awaited"#), "{lines:?}");
    // Kept, for who looks later.
    let kept = project.stepwell(&["runs", "logs", &project.only_run()]).expect_code(0).stdout;
    assert!(kept.contains("never awaited"), "{kept}");
    assert!(rows(&project.journal(&project.only_run()), "attempt_started").is_empty());
}

#[test]
fn what_fails_and_is_not_awaited_is_told() {
    let (_, end) = run("drops", &Value::Null, 0);
    let lines = logged(&end);
    assert_eq!(
        lines,
        [
            "error: the promise that line 35 lets go was rejected, and nothing awaits it: after the first step",
            r#"warn: step "fails" failed, and nothing awaited it: gone"#,
        ]
    );
}

#[test]
fn a_patched_language_does_not_confuse_the_sdk() {
    let server = Server::start(|_| Reply::Answer(201, r#"{"id":"made"}"#.to_owned()));
    // Code 0: its replay is the same.
    let (project, end) = run("patched", &json!(server.url()), 0);
    assert_eq!(*end.result(), json!({ "results": [{ "id": "made" }, 2], "event": null }));
    assert_eq!(logged(&end), ["info: both", "info: shown here { x: [1] }"]);
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].path.as_str(), requests[0].body.as_slice()), ("/a?x=1&q=a+b", &br#"{"n":1}"#[..]));
    let steps = entries(&project.journal(&project.only_run()), "step_begun").len();
    assert_eq!(steps, 2);
}
