//! Sleeps, waits, back-off and time-outs, across kills and Ctrl-C.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use stepwell_tests::{Module, Project};

use crate::journals::{at_ms, due_ms, entries, failures, rows, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "time.ts",
        r#"
import { workflow } from "stepwell";

export const rest = workflow("rest", async ({ input, sleep }: any) => { await sleep(input); return "rested"; });

export const measured = workflow("measured", async ({ input, sleep, now }: any) => {
  const started = now();
  await sleep(input);
  return { slept: now() - started, byDate: Date.now() - started };
});

export const until = workflow("until", async ({ step, sleepUntil, waitForEvent, now }: any) => {
  await sleepUntil(now() + 300);
  await step.run("after the sleep", () => null);
  await waitForEvent("go");
  return "gone";
});

export const backsOff = workflow("backs-off", async ({ input, step }: any) =>
  step.run("second time", ({ attempt }: any) => { if (attempt === 1) throw new Error("not yet"); return attempt; },
    { retry: { initialMs: input, multiplier: 1, jitter: 0 } }));

export const shortTimeOut = workflow("short-time-out", async ({ step, sleep, waitForEvent }: any) => {
  await step.run("before", () => null);
  await sleep(400);
  await waitForEvent("never", { timeoutMs: 400 });
  return step.run("backs off", ({ attempt }: any) => { if (attempt === 1) throw new Error("not yet"); return attempt; },
    { retry: { initialMs: 400, jitter: 0 } });
}, { timeoutMs: 100 });

export const neverEnds = workflow("never-ends", async ({ step }: any) => {
  await step.run("never", () => new Promise(() => {}), { timeoutMs: 100, retry: { maxAttempts: 3, initialMs: 0 } });
});

export const waitsTwice = workflow("waits-twice", async ({ waitForEvent }: any) => {
  const first = await waitForEvent("x", { timeoutMs: 100 });
  return [first, await waitForEvent("x")];
});

export const races = workflow("races", async ({ sleep, waitForEvent }: any) => {
  const first = await Promise.race([waitForEvent("x"), sleep(100).then(() => "slept")]);
  return [first, await waitForEvent("x")];
});

export const stuck = workflow("stuck", async () => { await new Promise(() => {}); });

export const busy = workflow("busy", async ({ step }: any) =>
  step.run("long", async ({ attempt, delay }: any) => { if (attempt === 1) await delay("10 min"); return attempt; }, { retry: { initialMs: 0 } }));
"#,
    )
});

/// The time that passes is the input of these tests: a restart is to come after it.
fn let_pass(until_ms: u64) {
    loop {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_millis() as u64;
        match until_ms.checked_sub(now_ms) {
            Some(left_ms) => std::thread::sleep(Duration::from_millis(left_ms + 1)),
            None => return,
        }
    }
}

fn until_ms(waiting: &Value) -> u64 {
    waiting["untilMs"].as_u64().unwrap_or_else(|| panic!("it says until when: {waiting}"))
}

#[test]
fn ctrl_c_parks_a_run_that_sleeps_for_30_days() {
    for signal in ["INT", "TERM"] {
        let project = Project::new();
        let mut running = project.run(&MODULE, "rest", &json!("30 days"));
        let waiting = until_waiting(&mut running);
        let run = project.only_run();
        let shown = project.show(&run);
        assert_eq!((&shown["status"], &shown["wakeAtMs"]), (&json!("waiting"), &waiting["untilMs"]));
        let journal = project.journal(&run);
        assert_eq!(until_ms(&waiting) - at_ms(rows(&journal, "sleep_begun")[0]), 30 * 86_400_000);
        running.signal(signal);
        let end = running.wait().expect_code(130);
        assert!(end.stderr.contains(&format!("stepwell run --resume {run}")), "{}", end.stderr);

        let args = ["run", "--resume", &run, "--json", "--skip-sleeps"];
        let end = project.spawn(&args).wait().expect_code(0);
        assert_eq!(*end.result(), json!("rested"));
    }
}

#[test]
fn ctrl_c_parks_a_run_whose_step_is_executing() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "busy", &Value::Null);
    running.until(|event| event["entry"].get("attempt_started").map(|_| ()));
    running.signal("INT");
    let end = running.wait().expect_code(130);
    let run = project.only_run();
    assert!(end.stderr.contains(&format!("stepwell run --resume {run}")), "{}", end.stderr);
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
}

#[test]
fn a_sleep_that_fell_due_while_the_process_was_down_fires_once_and_at_once() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "rest", &json!("2 s"));
    let due_ms = until_ms(&until_waiting(&mut running));
    running.kill();
    let run = project.only_run();
    assert!(rows(&project.journal(&run), "timer_fired").is_empty());
    let_pass(due_ms);
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!("rested"));
    assert_eq!(end.of_kind("waiting").count(), 0);
    let journal = project.journal(&run);
    assert_eq!(rows(&journal, "timer_fired").len(), 1);
    assert_eq!(entries(&journal, "sleep_begun")[0]["due_ms"], due_ms);
}

#[test]
fn a_restart_within_a_sleep_does_not_shorten_it() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "measured", &json!(1000));
    until_waiting(&mut running);
    running.kill();
    let end = project.resume(&project.only_run()).wait().expect_code(0);
    for how in ["slept", "byDate"] {
        assert!(end.result()[how].as_u64().is_some_and(|ms| ms >= 1000), "{}", end.result());
    }
}

#[test]
fn a_sleep_until_is_not_slept_again_on_replay() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "until", &Value::Null);
    running.until(|event| (event["event"] == "waiting" && event["for"] == "event \"go\"").then_some(()));
    running.kill();
    let run = project.only_run();
    let before = project.journal(&run);
    let end = project.spawn(&["run", "--resume", &run, "--json", "--event", "go"]).wait().expect_code(0);
    assert_eq!(*end.result(), json!("gone"));
    let after = project.journal(&run);
    assert_eq!(after[..before.len()], before[..]);
    assert_eq!(rows(&after, "sleep_begun").len(), 1);
    assert_eq!(rows(&after, "timer_fired").len(), 1);
}

#[test]
fn a_restart_within_the_back_off_starts_nothing_earlier() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "backs-off", &json!(2000));
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    let before = project.journal(&run);
    let failed = rows(&before, "attempt_ended")[0];
    assert_eq!(due_ms(failed) - at_ms(failed), 2000);
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
    let after = project.journal(&run);
    assert_eq!(after[..before.len()], before[..]);
    let started = rows(&after, "attempt_started");
    assert_eq!(started.len(), 2);
    assert!(at_ms(started[1]) >= due_ms(failed), "{after:#?}");
}

#[test]
fn only_an_attempt_in_execution_times_out() {
    let project = Project::new();
    let end = project.run(&MODULE, "short-time-out", &Value::Null).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
    assert_eq!(failures(&project.journal(&project.only_run())), ["workflows.step_failed"]);
}

#[test]
fn a_body_that_never_ends_is_attempted_three_times() {
    let project = Project::new();
    let end = project.run(&MODULE, "never-ends", &Value::Null).wait().expect_code(1);
    assert_eq!(end.error()["code"], "workflows.step_timeout");
    let journal = project.journal(&project.only_run());
    assert_eq!(failures(&journal), ["workflows.step_timeout"; 3]);
    for (started, ended) in rows(&journal, "attempt_started").iter().zip(rows(&journal, "attempt_ended")) {
        let deadline_ms = started["entry"]["attempt_started"]["deadline_ms"].as_u64().unwrap();
        assert_eq!(deadline_ms - at_ms(started), 100);
        assert!(at_ms(ended) >= deadline_ms, "{journal:#?}");
    }
}

#[test]
fn an_event_goes_to_the_wait_that_is_open_not_to_one_that_gave_up() {
    for (workflow, first) in [("waits-twice", Value::Null), ("races", json!("slept"))] {
        let project = Project::new();
        let mut running = project.run(&MODULE, workflow, &Value::Null);
        running.until(|event| (event["event"] == "waiting" && event["untilMs"].is_null()).then_some(()));
        running.kill();
        let args = ["run", "--resume", &project.only_run(), "--json", "--event", r#"x={"n":1}"#];
        let end = project.spawn(&args).wait().expect_code(0);
        assert_eq!(*end.result(), json!([first, { "n": 1 }]), "{workflow}");
    }
}

#[test]
fn an_event_sent_twice_by_the_same_command_comes_once() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "races", &Value::Null);
    running.until(|event| (event["event"] == "waiting" && event["untilMs"].is_null()).then_some(()));
    running.kill();
    let run = project.only_run();
    let args = ["run", "--resume", &run, "--json", "--event", "y=1", "--event", "y=2"];
    for _ in 0..2 {
        let mut running = project.spawn(&args);
        until_waiting(&mut running);
        running.kill();
    }
    assert_eq!(rows(&project.journal(&run), "event_arrived").len(), 2);
}

#[test]
fn a_promise_that_nobody_settles_is_a_deadlock_at_once() {
    let project = Project::new();
    let end = project.run(&MODULE, "stuck", &Value::Null).wait().expect_code(1);
    assert_eq!(end.error()["code"], "workflows.deadlock");
    assert_eq!(end.of_kind("waiting").count(), 0);
}

#[test]
fn a_run_whose_sleeps_are_skipped_waits_for_its_retries_all_the_same() {
    let project = Project::new();
    project.write(
        "main.ts",
        r#"
import { workflow } from "stepwell";
export const main = workflow("main", async ({ step, sleep }: any) => {
  await sleep("30 days");
  return step.run("flaky", ({ attempt }: any) => {
    if (attempt < 3) throw new Error("not yet");
    return attempt;
  }, { retry: { initialMs: 200, jitter: 0 } });
});
"#,
    );
    // Its clock is a month ahead, and it is parked for each retry.
    let end = project.spawn(&["run", "main.ts", "--json", "--skip-sleeps"]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(3));
}
