//! A run goes on after a kill, on the same code and on other code, and what cannot be read hinders nobody else.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project, each_in_parallel};

use crate::journals::{entries, rows, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "replay.ts",
        r#"
import { workflow, StepError } from "stepwell";

class PaymentDeclined extends Error {
  name = "PaymentDeclined";
  code = "shop.payment_declined";
  details = { reason: "limit", nested: [1, { deep: null }], big: 1e300 };
}

// Every field of a caught error, and every one of its causes.
function shape(error: any): any {
  if (!(error instanceof Error)) return error;
  const { name, message, code, details, outcomeUnknown } = error as any;
  return { name, message, code, details, outcomeUnknown, step: error instanceof StepError, cause: shape(error.cause) };
}

export const branches = workflow("branches", async ({ step, sleep }: any) => {
  const order: string[] = [];
  const branch = async (name: string, ms: number) => {
    await step.run(`${name} first`, ({ delay }: any) => delay(ms));
    order.push(`${name} first`);
    await sleep(ms);
    order.push(`${name} slept`);
    await step.run(`${name} last`, () => name);
    order.push(`${name} last`);
  };
  await Promise.all([branch("a", 3), branch("b", 5)]);
  return order;
});

export const caught = workflow("caught", async ({ step, waitForEvent }: any) => {
  let error: any;
  try {
    await step.run("pay", () => {
      throw new PaymentDeclined("declined: é\u0000\ud800", { cause: new TypeError("inner", { cause: new RangeError("innermost") }) });
    }, { retry: { maxAttempts: 1 } });
  } catch (e) { error = e; }
  const live = await step.run("live", () => shape(error));
  await waitForEvent("go");
  return { live, now: shape(error) };
});

export const waits = workflow("waits", async ({ step, waitForEvent }: any) => {
  await step.run("slow", ({ delay }: any) => delay(200));
  return waitForEvent("go");
});

export const logs = workflow("logs", async ({ step, log, waitForEvent }: any) => {
  for (let i = 0; i < 3; i++) {
    console.log(`round ${i}`);
    log.warn("with fields", { i });
    await step.run("body", () => console.log(`body ${i}`));
    await waitForEvent(`go ${i}`);
  }
});
"#,
    )
});

#[test]
fn a_kill_after_any_entry_replays_the_deliveries_that_were_made() {
    let project = Project::new();
    let end = project.run(&MODULE, "branches", &Value::Null).wait().expect_code(0);
    assert_eq!(end.result().as_array().map(Vec::len), Some(6));
    let all = end.of_kind("entry").count();
    assert!(all > 20, "{end:#?}");
    each_in_parallel(&(1..=all).collect::<Vec<_>>(), |&k| {
        let project = Project::new();
        let mut running = project.run(&MODULE, "branches", &Value::Null);
        let mut seen = 0;
        running.until(|event| {
            seen += usize::from(event["event"] == "entry");
            // The journal of one run may be shorter than that of another, where both branches share a turn.
            (seen == k || event["event"] == "ended").then_some(())
        });
        running.kill();
        let run = project.only_run();
        let before = project.journal(&run);
        if project.show(&run)["status"] != "succeeded" {
            let _ = project.resume(&run).wait().expect_code(0);
        }
        let journal = project.journal(&run);
        assert_eq!(journal[..before.len()], before[..]);
        // What the workflow saw is what the journal says, in its order: the names of the operations as they were delivered.
        assert_eq!(entries(&journal, "ended")[0]["outcome"]["succeeded"], json!(delivered(&journal)));
    });
}

/// The operations of the two branches in the order of their deliveries, named as the workflow names them.
fn delivered(journal: &[Value]) -> Vec<String> {
    let mut names = std::collections::HashMap::new();
    // A sleep belongs to the branch that was told something last.
    let mut branch = String::new();
    let mut order = Vec::new();
    for row in journal {
        let entry = &row["entry"];
        if let Some(begun) = entry.get("step_begun") {
            names
                .insert(begun["op"].to_string(), begun["step"]["name"].as_str().expect("a step has a name").to_owned());
        } else if let Some(begun) = entry.get("sleep_begun") {
            names.insert(begun["op"].to_string(), format!("{branch} slept"));
        } else if let Some(delivered) = entry.get("delivered") {
            let name = names[&delivered["op"].to_string()].clone();
            branch = name[..1].to_owned();
            order.push(name);
        }
    }
    order
}

#[test]
fn a_caught_error_is_the_same_after_a_kill() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "caught", &Value::Null);
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    let end = project.spawn(&["run", "--resume", &run, "--json", "--event", "go"]).wait().expect_code(0);
    let (live, now) = (&end.result()["live"], &end.result()["now"]);
    assert_eq!(live, now);
    assert_eq!(
        (&live["name"], &live["code"], &live["step"]),
        (&json!("PaymentDeclined"), &json!("shop.payment_declined"), &json!(true))
    );
    assert_eq!(live["message"], "declined: é\u{0}\u{fffd}");
    assert_eq!(live["details"], json!({ "reason": "limit", "nested": [1, { "deep": null }], "big": 1e300 }));
    assert_eq!(live["cause"]["message"], "inner");
    assert_eq!(live["cause"]["cause"]["name"], "RangeError");
    assert_eq!(rows(&project.journal(&run), "attempt_started").len(), 2, "nothing was attempted again");
}

#[test]
fn an_event_that_comes_while_a_step_executes_starts_nothing_again() {
    let project = Project::new();
    // It is there from the beginning: the run takes it up at its first quiet, while the body waits.
    let end = project.run_with(&MODULE, "waits", &Value::Null, &["--event", "go=7"], &[]).wait().expect_code(0);
    let run = project.only_run();
    assert_eq!(*end.result(), json!(7));
    let journal = project.journal(&run);
    let seq = |kind: &str| rows(&journal, kind).last().map(|row| row["seq"].as_u64());
    assert!(
        seq("attempt_started") < seq("event_arrived") && seq("event_arrived") < seq("attempt_ended"),
        "{journal:#?}"
    );
    assert_eq!(rows(&journal, "attempt_started").len(), 1);
}

/// A step of that name, then a wait, then a step of another.
fn source(first: &str, last: &str) -> String {
    format!(
        r#"
import {{ workflow }} from "stepwell";
export const main = workflow("main", async ({{ step, waitForEvent }}: any) => {{
  const a = await step.run("{first}", () => 1);
  await waitForEvent("go");
  return a + await step.run("{last}", () => 1);
}});
"#
    )
}

#[test]
fn code_that_replays_differently_is_refused_and_nothing_is_written() {
    let project = Project::new();
    project.write("main.ts", &source("reserve", "charge"));
    let mut running = project.spawn(&["run", "main.ts", "--json"]);
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    let before = stored_journal(&project);

    project.write("main.ts", &source("allocate", "charge"));
    let refused = project.stepwell(&["run", "main.ts", "--resume", &run, "--event", "go"]).expect_code(4);
    for part in ["replay differs at entry", r#"recorded was step "reserve""#, r#"now came step "allocate""#] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    assert_eq!(stored_journal(&project), before);

    project.write("main.ts", &source("reserve", "charge"));
    let end = project.spawn(&["run", "main.ts", "--resume", &run, "--json", "--event", "go"]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
    let after = project.journal(&run);
    assert_eq!(rows(&after, "attempt_started").len(), 2);
    assert!(rows(&after, "repinned").is_empty());
}

#[test]
fn code_that_differs_only_in_what_is_to_come_is_taken() {
    let project = Project::new();
    project.write("main.ts", &source("reserve", "charge"));
    let mut running = project.spawn(&["run", "main.ts", "--json"]);
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    project.write("main.ts", &source("reserve", "charge in euros"));
    let end = project.spawn(&["run", "main.ts", "--resume", &run, "--json", "--event", "go"]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
    let journal = project.journal(&run);
    assert_eq!(rows(&journal, "repinned").len(), 1);
    assert_eq!(entries(&journal, "step_begun")[1]["step"]["name"], "charge in euros");
}

#[test]
fn a_run_that_was_killed_within_a_turn_goes_on_with_mended_code() {
    let project = Project::new();
    let source = |rest: &str| {
        format!(
            r#"
import {{ workflow }} from "stepwell";
export const main = workflow("main", async ({{ step }}: any) => {{
  await step.run("reserve", () => 1);
  {rest}
}});
"#
        )
    };
    project.write("main.ts", &source("for (;;) {}"));
    let mut running = project.spawn(&["run", "main.ts", "--json"]);
    running.until(|event| event["entry"].get("delivered").map(|_| ()));
    running.kill();
    let run = project.only_run();
    // Its journal ends with a delivery; what the code does with it is not recorded, and may be mended.
    project.write("main.ts", &source(r#"return await step.run("charge", () => 2);"#));
    let end = project.spawn(&["run", "main.ts", "--resume", &run, "--json"]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
    assert_eq!(rows(&project.journal(&run), "repinned").len(), 1);
}

#[test]
fn an_event_that_the_same_command_sends_again_is_said_to_be_there() {
    let project = Project::new();
    project.write(
        "main.ts",
        r#"
import { workflow } from "stepwell";
export const main = workflow("main", async ({ waitForEvent }: any) => [await waitForEvent("tick"), await waitForEvent("tick")]);
"#,
    );
    let mut running = project.spawn(&["run", "main.ts", "--json"]);
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    let tick = ["run", "--resume", &run, "--json", "--event", "tick=1"];
    for already in [false, true] {
        let mut running = project.spawn(&tick);
        until_waiting(&mut running);
        running.signal("INT");
        let end = running.wait().expect_code(130);
        assert_eq!(end.stderr.contains("event \"tick\" is there already"), already, "{}", end.stderr);
    }
    let again: Vec<&str> = tick.into_iter().chain(["--event-id", "second"]).collect();
    assert_eq!(*project.spawn(&again).wait().expect_code(0).result(), json!([1, 1]));
}

fn database(project: &Project) -> rusqlite::Connection {
    rusqlite::Connection::open(project.data_dir().join("stepwell.db")).expect("the database can be opened")
}

/// Every byte of every journal.
fn stored_journal(project: &Project) -> Vec<(i64, i64, Vec<u8>)> {
    let database = database(project);
    let mut statement =
        database.prepare("SELECT run, seq, entry FROM journal ORDER BY run, seq").expect("there is a journal");
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("it can be read");
    rows.map(|row| row.expect("it can be read")).collect()
}

#[test]
fn a_run_whose_journal_cannot_be_read_is_set_aside_by_name_and_hinders_no_other() {
    let project = Project::new();
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut running = project.run(&MODULE, "waits", &Value::Null);
        until_waiting(&mut running);
        running.kill();
        ids.push(project.runs(&[])[0]["run"].as_str().expect("a run has an id").to_owned());
    }
    let broken = "UPDATE journal SET entry = x'deadbeef' WHERE seq = 2 AND run = (SELECT id FROM runs WHERE run = ?1)";
    assert_eq!(database(&project).execute(broken, [&ids[0]]).expect("it can be written"), 1);

    let missing = "DELETE FROM journal WHERE seq = 2 AND run = (SELECT id FROM runs WHERE run = ?1)";
    assert_eq!(database(&project).execute(missing, [&ids[2]]).expect("it can be written"), 1);

    for id in [&ids[0], &ids[2]] {
        let end = project.resume(id).wait().expect_code(4);
        assert!(end.stderr.contains(id) && end.stderr.contains("workflows.journal_unreadable"), "{}", end.stderr);
        let shown = project.show(id);
        assert_eq!(shown["status"], "paused");
        assert!(shown["detail"].as_str().is_some_and(|text| text.contains("workflows.journal_unreadable")), "{shown}");
    }

    let end = project.spawn(&["run", "--resume", &ids[1], "--json", "--event", "go=1"]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(1));
}

#[test]
fn a_log_line_appears_once_however_often_the_run_is_replayed() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "logs", &Value::Null);
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    for _ in 0..2 {
        let mut running = project.resume(&run);
        until_waiting(&mut running);
        running.kill();
    }
    for event in ["go 0", "go 1"] {
        let mut running = project.spawn(&["run", "--resume", &run, "--json", "--event", event]);
        until_waiting(&mut running);
        running.kill();
    }
    let _ = project.spawn(&["run", "--resume", &run, "--json", "--event", "go 2"]).wait().expect_code(0);
    let lines: Vec<Value> = project.stepwell(&["runs", "logs", &run, "--json"]).expect_code(0).events;
    let lines: Vec<Value> = lines.iter().map(|line| json!([line["step"], line["message"], line["fields"]])).collect();
    // Those of bodies and of workflow code together, as they were written.
    let expected = ["body", "body#2", "body#3"].iter().enumerate().flat_map(|(i, step)| {
        [
            json!([null, format!("round {i}"), null]),
            json!([null, "with fields", { "i": i }]),
            json!([step, format!("body {i}"), null]),
        ]
    });
    assert_eq!(lines, expected.collect::<Vec<_>>());
}
