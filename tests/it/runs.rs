//! Steps and their retries, as the run's journal shows them.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project, Reply, Server};

use crate::journals::{at_ms, due_ms, entries, failures, rows, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "runs.ts",
        r#"
import { workflow, NonRetriableError, RetryAfterError } from "stepwell";

export const computing = workflow("computing", async ({ input, step }: any) => {
  let sum = 0;
  for (let i = 0; i < input; i++) sum += await step.run("add", () => i);
  return sum;
});

export const posting = workflow("posting", async ({ input, step }: any) => {
  for (let i = 0; i < input.times; i++) {
    await step.run("post", async ({ http }: any) => (await http.post(`${input.url}/${i}`, { json: i }).ensureOk()).text());
  }
});

export const together = workflow("together", async ({ input, step }: any) => {
  const part = async (i: number, { attempt, delay }: any) => { if (i >= input.prompt && attempt === 1) await delay("10 min"); return i; };
  const results = await Promise.all(Array.from({ length: input.width }, (_, i) =>
    step.run(`part ${i}`, (context: any) => part(i, context), { retry: { initialMs: 0 } })));
  if (input.pause) await step.run("pause", ({ delay, attempt }: any) => attempt === 1 ? delay("10 min") : null);
  return results.reduce((a: number, b: number) => a + b, 0);
});

export const failing = workflow("failing", async ({ input, step }: any) => {
  await step.run("fails", ({ attempt }: any) => { throw new Error(`attempt ${attempt} failed`); }, { retry: input });
});

export const nonRetriable = workflow("non-retriable", async ({ input, step }: any) => {
  const thrown = (): any => input === "as a cause" ? new Error("wrapped", { cause: new NonRetriableError("") }) : new NonRetriableError("");
  const branches = await Promise.allSettled([
    step.run("other", ({ delay }: any) => delay(20)),
    step.run("refused", () => { throw thrown(); }, { retry: { initialMs: 0 } }),
  ]);
  return branches.map((branch) => branch.status);
});

export const retryAfter = workflow("retry-after", async ({ input, step }: any) => {
  await Promise.all([
    step.run("other", ({ delay }: any) => delay(20)),
    step.run("later", () => {
      const later = new RetryAfterError("come back", input.after);
      throw input.wrapped ? new Error("wrapped", { cause: later }) : later;
    }, { retry: { maxAttempts: 2, maxMs: 10_000 } }),
  ]);
});

export const sameName = workflow("same-name", async ({ input, step }: any) => {
  const results: number[] = [];
  if (input === "loop") {
    for (let i = 0; i < 20; i++) results.push(await step.run("same", () => i));
    return results;
  }
  return Promise.all(Array.from({ length: 20 }, (_, i) => step.run("same", async ({ delay }: any) => { await delay(20 - i); return i; })));
});
"#,
    )
});

/// How many commits the process had made when the run ended.
fn commits(end: &stepwell_tests::Finished) -> u64 {
    let ended = end.of_kind("ended").last().expect("the run ended");
    ended["commits"].as_u64().expect("the end says how many commits there were")
}

/// The store lets a write rest for this long where nobody waits for it.
const REST_MS: u64 = 5;
/// The module, the run, and its end.
const ALWAYS: u64 = 3;

fn elapsed_ms(journal: &[Value]) -> u64 {
    at_ms(journal.last().expect("there are entries")) - at_ms(&journal[0])
}

#[test]
fn steps_that_only_compute_wait_for_no_disk() {
    let project = Project::new();
    let end = project.run(&MODULE, "computing", &json!(10_000)).wait().expect_code(0);
    assert_eq!(*end.result(), json!(49_995_000));
    let journal = project.journal(&project.only_run());
    assert_eq!(rows(&journal, "attempt_ended").len(), 10_000);
    let (commits, most) = (commits(&end), elapsed_ms(&journal) / REST_MS + ALWAYS);
    assert!(commits <= most, "{commits} commits; {most} at most");
}

#[test]
fn a_step_with_a_request_waits_for_one_commit_at_most() {
    const TIMES: u64 = 50;
    let server = Server::start(|_| Reply::Answer(201, "made".to_owned()));
    let project = Project::new();
    let input = json!({ "times": TIMES, "url": server.url() });
    let end = project.run(&MODULE, "posting", &input).wait().expect_code(0);
    assert_eq!(server.requests().len() as u64, TIMES);
    let journal = project.journal(&project.only_run());
    let (commits, most) = (commits(&end), elapsed_ms(&journal) / REST_MS + ALWAYS + TIMES);
    assert!(commits <= most, "{commits} commits; {most} at most");
    assert!(commits >= TIMES, "{commits} commits: a request left before what led to it was durable");
}

#[test]
fn a_thousand_steps_at_once() {
    let project = Project::new();
    // Code 0: the replay after its end is the same.
    let end = project.run(&MODULE, "together", &json!({ "width": 1000 })).wait().expect_code(0);
    assert_eq!(*end.result(), json!(499_500));
    assert_eq!(rows(&project.journal(&project.only_run()), "attempt_started").len(), 1000);
}

#[test]
fn a_thousand_steps_at_once_and_a_kill_half_way() {
    let project = Project::new();
    // The other half does not end in its first attempt, so that the kill comes before the end.
    let mut running = project.run(&MODULE, "together", &json!({ "width": 1000, "prompt": 500 }));
    let (mut started, mut ended) = (0, 0);
    running.until(|event| {
        started += usize::from(event["entry"].get("attempt_started").is_some());
        ended += usize::from(event["entry"].get("attempt_ended").is_some());
        ((started, ended) == (1000, 500)).then_some(())
    });
    running.kill();
    let run = project.only_run();
    let before = project.journal(&run);
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!(499_500));
    let after = project.journal(&run);
    assert_eq!(after[..before.len()], before[..]);
    // What had a result was not done again.
    let again = entries(&after, "attempt_started").into_iter().filter(|started| started["n"] == 2);
    assert!(again.clone().all(|started| started["op"].as_u64() >= Some(500)), "{after:#?}");
    assert_eq!(again.count(), 500);
}

#[test]
fn a_thousand_results_are_delivered_again_after_a_kill() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "together", &json!({ "width": 1000, "pause": true }));
    // The pause is the last step to begin its attempt.
    let mut started = 0;
    running.until(|event| {
        started += usize::from(event["entry"].get("attempt_started").is_some());
        (started == 1001).then_some(())
    });
    running.kill();
    let run = project.only_run();
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!(499_500));
    let journal = project.journal(&run);
    let attempts = entries(&journal, "attempt_started");
    assert_eq!(attempts.len(), 1002, "only the pause was attempted again");
    assert_eq!(failures(&journal), ["workflows.invocation_lost"]);
}

#[test]
fn attempts_are_as_many_as_the_policy_says() {
    for attempts in [1, 2, 100] {
        let project = Project::new();
        let policy = json!({ "maxAttempts": attempts, "initialMs": 0 });
        let end = project.run(&MODULE, "failing", &policy).wait().expect_code(1);
        assert_eq!(end.error()["message"], format!("attempt {attempts} failed"));
        let journal = project.journal(&project.only_run());
        assert_eq!(rows(&journal, "attempt_started").len(), attempts);
        let ended = entries(&journal, "attempt_ended");
        assert_eq!(ended.len(), attempts);
        // After the last there is no wait: the workflow is told, and the run ends.
        assert_eq!(ended[attempts - 1]["outcome"]["failed"]["next"], "give_up");
        let kinds: Vec<_> = journal[journal.len() - 3..]
            .iter()
            .map(|row| row["entry"].as_object().unwrap().keys().next().unwrap())
            .collect();
        assert_eq!(kinds, ["attempt_ended", "delivered", "ended"]);
    }
}

#[test]
fn a_delay_is_never_0_or_longer_than_a_day() {
    const DAY_MS: u64 = 86_400_000;
    let max = (1_u64 << 53) - 1;
    for (initial_ms, jitter, shortest, longest) in [
        (1_000, 0.2, 800, 1_000),
        (max, 0.2, DAY_MS / 10 * 8, DAY_MS),
        (max, 0.0, DAY_MS, DAY_MS),
        (1_000, 1.0, 1, 1_000),
    ] {
        let project = Project::new();
        let policy =
            json!({ "initialMs": initial_ms, "multiplier": 10, "maxMs": DAY_MS, "maxAttempts": 100, "jitter": jitter });
        let mut running = project.run(&MODULE, "failing", &policy);
        running.until(|event| event["entry"].get("attempt_ended").map(|_| ()));
        running.kill();
        let journal = project.journal(&project.only_run());
        let failed = rows(&journal, "attempt_ended")[0];
        let delay_ms = due_ms(failed) - at_ms(failed);
        assert!((shortest..=longest).contains(&delay_ms), "{policy}: {delay_ms} ms");
    }
}

#[test]
fn a_policy_out_of_range_is_refused_at_the_call() {
    for (policy, says) in [
        (json!({ "maxAttempts": 101 }), "maxAttempts"),
        (json!({ "maxAttempts": 0 }), "maxAttempts"),
        (json!({ "maxMs": 86_400_001 }), "maxMs"),
        (json!({ "multiplier": 0.5 }), "multiplier"),
        (json!({ "jitter": 1.5 }), "jitter"),
    ] {
        let project = Project::new();
        let end = project.run(&MODULE, "failing", &policy).wait().expect_code(1);
        assert_eq!(end.error()["code"], "workflows.invalid_policy", "{policy}");
        assert!(end.error()["message"].as_str().unwrap().contains(says), "{}", end.error());
        assert!(rows(&project.journal(&project.only_run()), "attempt_started").is_empty());
    }
}

#[test]
fn what_is_not_retriable_is_attempted_once() {
    for input in ["itself", "as a cause"] {
        let project = Project::new();
        let end = project.run(&MODULE, "non-retriable", &json!(input)).wait().expect_code(0);
        assert_eq!(*end.result(), json!(["fulfilled", "rejected"]));
        // One attempt of each branch.
        assert_eq!(rows(&project.journal(&project.only_run()), "attempt_started").len(), 2, "{input}");
    }
}

#[test]
fn retry_after_replaces_the_delay_and_outlives_a_kill() {
    const HOUR_MS: u64 = 3_600_000;
    for wrapped in [false, true] {
        let project = Project::new();
        let mut running = project.run(&MODULE, "retry-after", &json!({ "after": "1 h", "wrapped": wrapped }));
        until_waiting(&mut running);
        running.kill();
        let run = project.only_run();
        let before = project.journal(&run);
        let failed =
            rows(&before, "attempt_ended").into_iter().find(|row| row["entry"]["attempt_ended"]["op"] == 1).unwrap();
        assert_eq!(due_ms(failed) - at_ms(failed), HOUR_MS);

        let mut running = project.resume(&run);
        let waiting = until_waiting(&mut running);
        assert_eq!(waiting["untilMs"], due_ms(failed));
        running.kill();
        let after = project.journal(&run);
        assert_eq!(after[..before.len()], before[..]);
        assert_eq!(rows(&after, "attempt_started").len(), 2, "nothing is started before its time: {after:#?}");
    }
}

#[test]
fn retry_after_counts_as_an_attempt() {
    let project = Project::new();
    let _ = project.run(&MODULE, "retry-after", &json!({ "after": 0, "wrapped": false })).wait().expect_code(1);
    let journal = project.journal(&project.only_run());
    let of_later = entries(&journal, "attempt_started").into_iter().filter(|started| started["op"] == 1).count();
    assert_eq!(of_later, 2);
}

#[test]
fn twenty_steps_of_one_name_have_twenty_results() {
    for input in ["loop", "parallel"] {
        let project = Project::new();
        let end = project.run(&MODULE, "same-name", &json!(input)).wait().expect_code(0);
        assert_eq!(*end.result(), json!((0..20).collect::<Vec<_>>()), "{input}");
        let journal = project.journal(&project.only_run());
        let occurrences: Vec<_> =
            entries(&journal, "step_begun").iter().map(|begun| begun["step"]["occurrence"].clone()).collect();
        assert_eq!(json!(occurrences), json!((1..=20).collect::<Vec<_>>()));
    }
}
