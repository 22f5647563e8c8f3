//! What bodies may do and workflow code may not, and what is said where a replay differs.

use std::sync::{LazyLock, Mutex, mpsc};

use serde_json::json;
use stepwell_tests::{Module, Project, Reply, Server};

use crate::journals::{entries, rows};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "determinism.ts",
        r#"
import { workflow } from "stepwell";

const refusal = (call: () => any) => { try { call(); return "was let through"; } catch (e: any) { return e.code; } };

// While the body of A waits for its request, the other branch wakes up.
export const mixed = workflow("mixed", async ({ input, step, sleep }: any) => {
  const a = step.run("A", async ({ delay }: any) => {
    const refused = [refusal(() => step.run("inner", () => 1)), refusal(() => sleep(1))];
    const drawn = Array.from({ length: 50 }, () => Math.random());
    const answer = await (await fetch(`${input}/held`)).text();
    await new Promise((done) => setTimeout(done, 1));
    return { refused, answer, distinct: new Set(drawn).size, later: refusal(() => sleep(1)) };
  });
  const branch = async () => {
    await sleep(20);
    const refused = refusal(() => fetch(`${input}/from-workflow-code`));
    const told = await step.run("tell", async ({ fetch }: any) => (await fetch(`${input}/go`)).status);
    return { refused, told, random: Math.random(), now: Date.now(), uuid: crypto.randomUUID() };
  };
  const [body, flow] = await Promise.all([a, branch()]);
  return { body, flow, random: Math.random(), now: Date.now() };
});

let seen = 0;
export const residue = workflow("residue", async ({ input, step }: any) => {
  seen = 0;
  await step.run("innocent", () => null);
  await step.run("sets it", () => { seen = 7; });
  if (input === "a command") await step.run(`saw ${seen}`, () => null);
  if (input === "one more" && seen === 7) await step.run("extra", () => null);
  return input === "the result" ? seen : null;
});
"#,
    )
});

#[test]
fn bodies_reach_the_world_and_workflow_code_does_not() {
    let (go, held) = mpsc::channel();
    let (go, held) = (Mutex::new(go), Mutex::new(held));
    let server = Server::start(move |request| match request.path.as_str() {
        // A's request is answered once the other branch has come past it.
        "/held" => match held.lock().expect("no other request is held").recv() {
            Ok(()) => Reply::Answer(200, "held".to_owned()),
            Err(_) => Reply::Drop,
        },
        "/go" => {
            let _ = go.lock().expect("it is whole").send(());
            Reply::Answer(200, String::new())
        }
        _ => Reply::Answer(500, String::new()),
    });
    let project = Project::new();
    // Code 0: the replay draws the same numbers and times, whatever the body drew.
    let end = project.run(&MODULE, "mixed", &json!(server.url())).wait().expect_code(0);
    let result = end.result();
    let refused = "workflows.operation_inside_step";
    assert_eq!(
        result["body"],
        json!({ "refused": [refused, refused], "answer": "held", "distinct": 50, "later": refused })
    );
    assert_eq!(result["flow"]["refused"], "workflows.effect_outside_step");
    assert_eq!(result["flow"]["told"], 200);
    assert!(server.requests().iter().all(|request| request.path != "/from-workflow-code"));
    // What was refused has left nothing in the journal.
    let journal = project.journal(&project.only_run());
    let steps: Vec<_> = entries(&journal, "step_begun").iter().map(|begun| begun["step"]["name"].clone()).collect();
    assert_eq!(steps, ["A", "tell"]);
    assert_eq!(rows(&journal, "sleep_begun").len(), 1);
}

#[test]
fn what_a_body_leaves_behind_is_reported_with_the_step() {
    for (input, recorded, came) in [
        ("the result", "recorded was the result 7", "now came the result 0"),
        ("a command", r#"recorded was step "saw 7""#, r#"now came step "saw 0""#),
        ("one more", r#"recorded was step "extra""#, "now came "),
    ] {
        let project = Project::new();
        let end = project.run(&MODULE, "residue", &json!(input)).wait().expect_code(5);
        for part in [recorded, came] {
            assert!(end.stderr.contains(part), "{input}: {part}: {}", end.stderr);
        }
        // The run itself is over, and stays what it is.
        assert_eq!(project.show(&project.only_run())["status"], "succeeded");
        assert_eq!(end.of_kind("replay-differs").count(), 1, "{end:#?}");
    }
}

#[test]
fn the_likely_cause_names_the_step() {
    let project = Project::new();
    let end = project.run(&MODULE, "residue", &json!("the result")).wait().expect_code(5);
    assert!(end.stderr.contains(r#"the body of step "sets it""#), "{}", end.stderr);
}

#[test]
fn without_the_check_nothing_is_said() {
    let project = Project::new();
    let end =
        project.run_with(&MODULE, "residue", &json!("the result"), &["--no-replay-check"], &[]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(7));
}
