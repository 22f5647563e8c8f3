//! Starting over HTTP: each key starts once, each run key names one run, whatever is repeated, refused or restarted.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stepwell_tests::{Answer, Api, Module, Project};

pub(crate) static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "served.ts",
        r#"
import { workflow } from "stepwell";

export const echo = workflow("echo", async ({ input, step, log }: any) => {
  log.info?.("echoing");
  return step.run("echo", () => input);
});

export const chatty = workflow("chatty", async ({ input, log }: any) => {
  for (let i = 0; i < input; i++) log.info(`line ${i}`);
});

export const other = workflow("other", async ({ input }: any) => input);

export const waiting = workflow("waiting", async ({ input, step, waitForEvent, setStatus }: any) => {
  setStatus("asking");
  const answers: any[] = [];
  for (let i = 0; i < (input?.times ?? 1); i++) answers.push(await waitForEvent("answer"));
  return answers;
});

export const clean = workflow("clean", async ({ step, sleep }: any) => {
  try {
    await sleep("1 day");
  } catch (error) {
    await step.run("clean up", () => null);
    throw error;
  }
});
"#,
    )
});

const ECHO: &str = "/v1/workflows/echo/runs";

fn runs(api: &Api) -> Vec<Value> {
    api.get("/v1/runs?limit=1000").expect(200).body["runs"].as_array().expect("a list of runs").clone()
}

fn replayed(answer: &Answer) -> Option<&str> {
    answer.header("idempotent-replayed")
}

#[test]
fn a_thousand_repeats_of_two_clients_start_one_run() {
    const REPEATS: usize = 1_000;
    const AT_ONCE: usize = 25;
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let shared: &Api = &server;
    let (next, body) = (AtomicUsize::new(0), json!({ "input": { "order": 7 } }));
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let client = || {
            let api = shared.keyed("order-7");
            let mut answers = Vec::new();
            while next.fetch_add(1, Ordering::Relaxed) < REPEATS {
                // On a machine that is busy enough the first takes longer than a repetition waits.
                let mut answer = api.post(ECHO, &body);
                while answer.body["code"] == "idempotency_in_progress" {
                    answer = api.post(ECHO, &body);
                }
                answers.push(answer);
            }
            answers
        };
        let clients: Vec<_> = (0..2 * AT_ONCE).map(|_| scope.spawn(client)).collect();
        clients.into_iter().flat_map(|client| client.join().expect("the client is answered")).collect()
    });
    assert_eq!(answers.len(), REPEATS);
    let different: BTreeSet<_> = answers.iter().map(|answer| (answer.status, answer.body.to_string())).collect();
    assert_eq!(different.len(), 1, "{different:#?}");
    assert_eq!(answers[0].status, 201);
    assert_eq!(answers.iter().filter(|answer| replayed(answer).is_none()).count(), 1);
    assert_eq!(runs(&server).len(), 1);
    assert_eq!(server.ended(&answers[0].run())["result"], json!({ "order": 7 }));
}

#[test]
fn another_request_under_a_key_is_refused_at_once_even_while_the_first_is_in_progress() {
    let project = Project::new();
    let server = project.serve(&[]);
    let keyed = server.keyed("deploy-1");
    // To be compiled, which takes its time.
    let bytes = std::fs::read(MODULE.wasm()).expect("the module can be read");
    let upload = |api: &Api| api.post_as("/v1/modules", "application/wasm", &bytes);
    std::thread::scope(|scope| {
        // Whichever has the key, the other is refused: the first comes again until it has it.
        let first = scope.spawn(|| {
            loop {
                let answer = upload(&keyed);
                if answer.status != 422 && answer.status != 409 {
                    break answer;
                }
            }
        });
        // Refused as it is, and so leaving the key unused, until the first has it.
        let refused = loop {
            let answer = keyed.post_as("/v1/modules", "text/plain", b"something else");
            if answer.status != 415 {
                break answer;
            }
        };
        drop(refused.problem(422, "idempotency_key_reuse"));
        assert!(!first.is_finished(), "the refusal did not wait for the first");
        // It waits for the first, and on a busy machine is told in the end to come again.
        let second = loop {
            let answer = upload(&keyed);
            if answer.status != 409 {
                break answer.expect(201);
            }
        };
        let first = first.join().expect("the first is answered").expect(201);
        assert_eq!((first.body, replayed(&second)), (second.body.clone(), Some("true")));
    });
}

#[test]
fn a_refused_request_leaves_its_key_unused() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let keyed = server.keyed("k");
    drop(keyed.post_as(ECHO, "application/json", b"{").problem(400, "invalid_request"));
    drop(keyed.post(ECHO, &json!({ "inptu": 1 })).problem(400, "invalid_request"));
    // The values of a start in the order of its fields.
    drop(keyed.post(ECHO, &json!([1, null, null, null, {}, 0, null, null, 0])).problem(400, "invalid_request"));
    drop(keyed.with("content-encoding", "gzip").post(ECHO, &json!({})).problem(415, "unsupported_media_type"));
    drop(keyed.post("/v1/workflows/none/runs", &json!({})).problem(422, "workflow_not_active"));
    drop(keyed.post(ECHO, &json!({ "runTimeoutMs": 0 })).problem(422, "workflows.invalid_policy"));
    drop(keyed.post("/v1/runs/run_none/events/e", &json!(1)).problem(404, "not_found"));
    let large = json!({ "input": "x".repeat(2 << 20) });
    drop(keyed.post(ECHO, &large).problem(413, "workflows.result_too_large"));
    assert_eq!(replayed(&keyed.post(ECHO, &json!({ "input": 1 })).expect(201)), None);
    // Now it is used, for this method, path and body alone.
    drop(keyed.post(ECHO, &json!({ "input": 2 })).problem(422, "idempotency_key_reuse"));
    drop(keyed.post("/v1/workflows/other/runs", &json!({ "input": 1 })).problem(422, "idempotency_key_reuse"));
    assert_eq!(runs(&server).len(), 1);
}

#[test]
fn a_start_is_answered_the_same_after_the_end_and_after_a_restart() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let (body, start) =
        (json!({ "input": [1] }), |api: &Api, body: &Value| api.keyed("k").post(ECHO, body).expect(201));
    let first = start(&server, &body);
    let run = first.run();
    let ended = server.ended(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!([1])));
    let same = |again: Answer| assert_eq!((replayed(&again), &again.body), (Some("true"), &first.body));
    same(start(&server, &body));
    drop(server.stop().expect_code(0));
    let server = project.serve(&[]);
    same(start(&server, &body));
    server.kill();
    let server = project.serve(&[]);
    same(start(&server, &body));
    // Whoever waits sees the run as it is, first or repeated.
    let waited = server.keyed("k").post(&format!("{ECHO}?wait=30s"), &body).expect(201);
    assert_eq!((replayed(&waited), &waited.body), (Some("current-state"), &ended));
    assert_eq!(runs(&server).len(), 1);
}

#[test]
fn a_run_key_names_one_run_of_one_workflow_and_input() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let first = server.post(ECHO, &json!({ "input": { "a": 1, "b": 2 }, "runKey": "order 7" })).expect(201);
    let ended = server.ended(&first.run());
    let check = |api: &Api| {
        let other_workflow = json!({ "input": { "a": 1, "b": 2 }, "runKey": "order 7" });
        let conflict = api.post("/v1/workflows/other/runs", &other_workflow).problem(409, "run_key_conflict");
        assert_eq!(conflict.body["run"], first.run());
        drop(api.post(ECHO, &json!({ "input": 2, "runKey": "order 7" })).problem(409, "run_key_conflict"));
        // The same as JSON values, however it is written.
        let same = api.post_as(ECHO, "application/json", br#"{"runKey":"order 7","input":{"b":2, "a":1}}"#).expect(200);
        assert_eq!(same.body, ended);
        assert_eq!(runs(api).len(), 1);
    };
    check(&server);
    server.kill();
    check(&project.serve(&[]));
}

#[test]
fn what_is_no_key_is_refused_and_never_passed_over() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let body = json!({ "input": 1 });
    let text = body.to_string();
    let with_key = |key: &[u8]| {
        let mut request =
            format!("POST {ECHO} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", server.address()).into_bytes();
        request.extend([b"idempotency-key: ", key, b"\r\n"].concat());
        request
            .extend(format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{text}", text.len()).bytes());
        server.raw(&request).expect("there is an answer")
    };
    let longest = "é".repeat(255);
    let too_long = "é".repeat(256);
    for key in [&b""[..], b"  ", b"\"\"", b"\"  \"", b"\"a", b"\xff", too_long.as_bytes()] {
        drop(with_key(key).problem(400, "invalid_idempotency_key"));
    }
    // The library that reads requests refuses what is no header; what matters is that nothing is started.
    assert_eq!(with_key(b"a\0b").status, 400);
    assert_eq!(runs(&server).len(), 0);
    let keys = [b"a/b".as_slice(), "🔑".as_bytes(), "\u{e9}".as_bytes(), "e\u{301}".as_bytes(), longest.as_bytes()];
    for (n, key) in (1..).zip(keys) {
        drop(with_key(key).expect(201));
        assert_eq!(runs(&server).len(), n, "{:?} is a key of its own", String::from_utf8_lossy(key));
    }
    assert_eq!(replayed(&with_key(b"\"a/b\"").expect(201)), Some("true"), "bare or quoted, it is the same key");
    for run_key in ["", "  ", "a\u{0}b", "\n", too_long.as_str()] {
        let answer = server.post(ECHO, &json!({ "input": 1, "runKey": run_key }));
        drop(answer.problem(400, "invalid_request"));
    }
    for run_key in ["a/b", "🔑", "\u{e9}", "e\u{301}", longest.as_str()] {
        drop(server.post(ECHO, &json!({ "input": 1, "runKey": run_key })).expect(201));
    }
    drop(server.keyed("a").keyed("b").post(ECHO, &body).problem(400, "invalid_idempotency_key"));
}

#[test]
fn a_batch_starts_each_once() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let held = server.post(ECHO, &json!({ "input": 0, "runKey": "held" })).expect(201);
    let batch = json!({ "runs": [
        { "workflow": "echo", "input": 1, "runKey": "a" },
        { "workflow": "echo", "input": 1, "runKey": "a" },
        { "workflow": "echo", "input": 2, "runKey": "a" },
        { "workflow": "none" },
        { "workflow": "echo", "input": 0, "runKey": "held" },
        { "workflow": "other", "tags": { "colour": "red" } },
    ] });
    let answer = server.keyed("b").post("/v1/runs:batch", &batch).expect(200);
    let outcomes = answer.body["outcomes"].as_array().expect("there are outcomes");
    let statuses: Vec<_> = outcomes.iter().map(|outcome| outcome["status"].as_u64().unwrap_or(0)).collect();
    assert_eq!(statuses, [201, 200, 409, 422, 200, 201]);
    assert_eq!(outcomes[1]["run"]["id"], outcomes[0]["run"]["id"]);
    assert_eq!(outcomes[2]["problem"]["code"], "run_key_conflict");
    assert_eq!(outcomes[4]["run"]["id"], held.run());
    assert_eq!(runs(&server).len(), 3);
    let again = server.keyed("b").post("/v1/runs:batch", &batch).expect(200);
    assert_eq!((replayed(&again), &again.body), (Some("true"), &answer.body));
    let many: Vec<Value> = (0..1_000).map(|n| json!({ "workflow": "other", "input": n })).collect();
    drop(server.post("/v1/runs:batch", &json!({ "runs": many })).expect(200));
    let one_more: Vec<Value> = (0..1_001).map(|n| json!({ "workflow": "other", "input": n })).collect();
    drop(server.post("/v1/runs:batch", &json!({ "runs": one_more })).problem(400, "invalid_request"));
    let counts = &server.get("/v1/runs?limit=1").body["counts"];
    let total: u64 = counts.as_object().expect("there are counts").values().filter_map(Value::as_u64).sum();
    assert_eq!(total, 1_003);
}
