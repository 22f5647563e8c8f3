//! Failed runs that are taken up again over HTTP: under the keys that they had, with other code, across the end of the server.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server, Serving};

use crate::api_runs::{start, until_waiting};

/// The workflows, with this in the place of the fault in one of them.
fn module(fault: &str) -> Module {
    let source = r#"
import { workflow, NonRetriableError } from "stepwell";

const steps = { destinations: ["127.0.0.1:*"] };

export const charge = workflow("charge", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => (await http.post(`${input.url}/charge`, { json: 5 }).ensureOk()).text(),
    { retry: { maxAttempts: 2, initialMs: 1 } }), steps);

export const cleans = workflow("cleans", async ({ input, step }: any) => {
  try {
    return await step.run("charge", async ({ http }: any) => {
      const answer = await http.get(`${input.url}/ready`);
      if (!answer.ok) throw new NonRetriableError("not ready");
      return "charged";
    });
  } catch (error) {
    await step.run("refund", async ({ http }: any) => (await http.post(`${input.url}/refund`, { json: 5 }).ensureOk()).text(),
      { effect: "keyed" });
    throw error;
  }
}, steps);

export const faulty = workflow("faulty", async ({ input, step }: any) => {
  const charged = await step.run("charge", async ({ http }: any) => (await http.post(`${input.url}/charge`, { json: 5 }).ensureOk()).text(),
    { effect: "once" });
  FAULT
  return [charged, await step.run("mail", () => "sent")];
}, steps);

/** The charge is lost a few times, and each time the run fails after a refund. */
export const pays = workflow("pays", async ({ input, step }: any) => {
  try {
    return await step.run("charge", async ({ http }: any) => (await http.post(`${input.url}/charge`, { json: 5 }).ensureOk()).text(),
      { retry: { maxAttempts: 2, initialMs: 1 } });
  } catch (error) {
    await step.run("refund", async ({ http }: any) => (await http.post(`${input.url}/refund`, { json: 5 }).ensureOk()).text(),
      { effect: "keyed", retry: { initialMs: 1 } });
    throw error;
  }
}, steps);

export const fails = workflow("fails", async ({ step }: any) =>
  step.run("fail", () => { throw new NonRetriableError("no"); }));

export const waits = workflow("waits", async ({ waitForEvent }: any) => waitForEvent("answer"));
"#;
    Module::build("retried.ts", &source.replace("FAULT", fault))
}

static FAULTY: LazyLock<Module> = LazyLock::new(|| module("throw new Error('a fault in the code');"));
static MENDED: LazyLock<Module> = LazyLock::new(|| module(""));
static OTHER: LazyLock<Module> = LazyLock::new(|| {
    let source = r#"
import { workflow } from "stepwell";
export const faulty = workflow("faulty", async ({ step }: any) => step.run("another", () => 1));
"#;
    Module::build("another.ts", source)
});

fn path(run: &str) -> String {
    format!("/v1/runs/{run}/retry")
}

fn started(api: &Api, workflow: &str, server: &Server) -> String {
    start(api, workflow, &json!({ "input": { "url": server.url() } }))
}

fn failed(api: &Api, run: &str) {
    let ended = api.ended(run);
    assert_eq!(ended["status"], "failed", "{ended:#?}");
}

fn digest(api: &Api, module: &Module) -> Value {
    api.upload(module).body["digest"].clone()
}

/// What of a run's journal stands under this name.
fn entries(api: &Api, run: &str, name: &str) -> Vec<Value> {
    let journal = api.get(&format!("/v1/runs/{run}/journal")).expect(200).body;
    let entries = journal["entries"].as_array().expect("a list of entries");
    entries.iter().filter_map(|entry| entry["entry"].get(name).cloned()).collect()
}

#[test]
fn a_failed_run_goes_on_under_the_key_that_it_had_across_the_end_of_the_server() {
    let project = Project::new();
    let api = project.serve_with(&FAULTY);
    let server = Server::start(|request| match request.number {
        1 | 2 => Reply::Drop,
        _ => Reply::Answer(201, "charged".to_owned()),
    });
    let run = started(&api, "charge", &server);
    failed(&api, &run);
    let why = json!({ "reason": "the bank is back" });
    let answer = api.keyed("k").post(&path(&run), &why).expect(202);
    assert_eq!(
        answer.body,
        json!({ "run": run, "accepted": "retry", "step": "charge", "again": ["charge"], "effects": [] })
    );
    api.kill();
    let api = project.serve(&[]);
    let ended = api.ended(&run);
    assert_eq!((&ended["status"], &ended["result"]), (&json!("succeeded"), &json!("charged")));
    let key = format!("{run}:charge:e1");
    assert!(server.requests().iter().all(|request| request.key() == Some(&key)), "{:#?}", server.requests());
    let again = api.keyed("k").post(&path(&run), &why).expect(202);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &answer.body));
    drop(api.post(&path(&run), &why).problem(409, "run_finished"));
    let rewound = entries(&api, &run, "rewound");
    assert_eq!((rewound.len(), &rewound[0]["by"], &rewound[0]["reason"]), (1, &json!("local"), &why["reason"]));
    // The third may have been under way when the server died: then it is lost, and there is a fourth.
    let numbers: Vec<u64> =
        entries(&api, &run, "attempt_started").iter().filter_map(|entry| entry["n"].as_u64()).collect();
    assert!(numbers == [1, 2, 3] || numbers == [1, 2, 3, 4], "{numbers:?}");
    assert!((3..=numbers.len()).contains(&server.requests().len()), "{:#?}", server.requests());
}

#[test]
fn what_was_done_since_is_confirmed_and_not_done_again() {
    let project = Project::new();
    let api = project.serve_with(&FAULTY);
    let server = Server::start(|request| match (request.path.as_str(), request.number) {
        ("/ready", 4..) => Reply::Answer(200, "ready".to_owned()),
        ("/ready", _) => Reply::Answer(400, "not ready".to_owned()),
        _ => Reply::Answer(201, "refunded".to_owned()),
    });
    let refunds = || server.requests().iter().filter(|request| request.path == "/refund").count();
    let run = started(&api, "cleans", &server);
    failed(&api, &run);
    assert_eq!(refunds(), 1);
    let refused = api.post(&path(&run), &json!({})).problem(409, "retry_needs_confirm").body;
    let effect = json!({
        "step": "refund", "effect": 1, "method": "POST", "url": format!("{}/refund", server.url()), "done": true,
        "key": format!("{run}:refund:e1"),
    });
    assert_eq!(refused["effects"], json!([effect]));
    assert_eq!(api.get(&format!("/v1/runs/{run}")).expect(200).body["status"], "failed");
    // It fails again, and comes to its cleaning up again: that is answered from the record.
    let answer = api.post(&path(&run), &json!({ "confirm": true })).expect(202).body;
    assert_eq!(answer["effects"], json!([effect]));
    failed(&api, &run);
    assert_eq!(refunds(), 1);
    let url = format!("http://{}", api.address());
    let bare = project.stepwell(&["runs", "retry", &run, "--url", &url]).expect_code(2);
    assert!(bare.stderr.contains("retry_needs_confirm") && bare.stderr.contains("/refund"), "{bare:#?}");
    let said = project.stepwell(&["runs", "retry", &run, "--confirm", "--json", "--url", &url]).expect_code(0).events;
    assert_eq!(said[0]["again"], json!(["charge"]));
    assert_eq!(api.ended(&run)["result"], "charged");
    assert_eq!(refunds(), 1);
}

#[test]
fn a_run_that_failed_by_its_own_code_goes_on_with_other_code() {
    let project = Project::new();
    let api = project.serve_with(&FAULTY);
    let server = Server::start(|_| Reply::Answer(201, "charged".to_owned()));
    let run = started(&api, "faulty", &server);
    failed(&api, &run);
    drop(api.post(&path(&run), &json!({})).problem(409, "retry_needs_module"));
    let with = |digest: &Value| api.post(&path(&run), &json!({ "digest": digest }));
    drop(with(&json!("0000")).problem(404, "not_found"));
    drop(with(&digest(&api, &OTHER)).problem(409, "workflows.replay_mismatch"));
    assert_eq!(entries(&api, &run, "rewound").len(), 0);
    let mended = digest(&api, &MENDED);
    let answer = with(&mended).expect(202).body;
    assert_eq!((&answer["step"], &answer["again"]), (&Value::Null, &json!([])));
    let ended = api.ended(&run);
    assert_eq!((&ended["result"], &ended["digest"]), (&json!(["charged", "sent"]), &mended));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_has_not_failed_is_not_retried() {
    let project = Project::new();
    let api = project.serve_with(&FAULTY);
    let waits = start(&api, "waits", &json!({}));
    drop(until_waiting(&api, &waits));
    drop(api.post(&path(&waits), &json!({})).problem(409, "run_not_failed"));
    drop(api.post(&path("run_none"), &json!({})).problem(404, "not_found"));
    drop(api.post(&path(&waits), &json!({ "from": "x" })).problem(400, "invalid_request"));
    drop(api.post(&format!("/v1/runs/{waits}/terminate"), &json!({})).expect(202));
    assert_eq!(api.ended(&waits)["status"], "terminated");
    drop(api.post(&path(&waits), &json!({})).problem(409, "run_finished"));
    let fails = start(&api, "fails", &json!({}));
    failed(&api, &fails);
    drop(api.post(&path(&fails), &json!({ "fromStep": "none" })).problem(404, "not_found"));
    drop(api.post(&path(&fails), &json!({ "fromStep": "fail" })).expect(202));
    failed(&api, &fails);
    assert_eq!(entries(&api, &fails, "attempt_started").len(), 2);
}

/// Retries a run that fails whenever it is retried, until the server dies. Each retry has a key of its own, which is its reason too.
fn retries(api: &Api, run: &str, answered: &AtomicUsize) -> Vec<String> {
    let mut keys = Vec::new();
    for n in 0.. {
        let key = format!("{run}-{n}");
        keys.push(key.clone());
        let Ok(answer) = api.keyed(&key).try_post(&path(run), &json!({ "reason": key })) else { break };
        drop(answer.expect(202));
        answered.fetch_add(1, Ordering::Relaxed);
        // Until it has failed again.
        loop {
            match api.try_get(&format!("/v1/runs/{run}/result?wait=60s")) {
                Ok(answer) if answer.status == 200 => break,
                Ok(_) => {}
                Err(_) => return keys,
            }
        }
    }
    keys
}

#[test]
fn each_retry_is_one_whenever_the_server_dies() {
    const CLIENTS: usize = 10;
    let kills = std::env::var("KILLS").map_or(3, |text| text.parse().expect("KILLS is a number"));
    let project = Project::new();
    let mut api: Serving = project.serve_with(&FAULTY);
    for _ in 0..kills {
        let runs: Vec<String> = (0..CLIENTS).map(|_| start(&api, "fails", &json!({}))).collect();
        runs.iter().for_each(|run| failed(&api, run));
        let (client, answered) = ((*api).clone(), AtomicUsize::new(0));
        let asked: Vec<Vec<String>> = std::thread::scope(|scope| {
            let clients: Vec<_> = runs.iter().map(|run| scope.spawn(|| retries(&client, run, &answered))).collect();
            while answered.load(Ordering::Relaxed) < 4 * CLIENTS {
                std::thread::yield_now();
            }
            api.kill();
            clients.into_iter().map(|client| client.join().expect("a client does not panic")).collect()
        });
        api = project.serve(&[]);
        for (run, keys) in runs.iter().zip(asked) {
            // What was granted goes on by itself.
            failed(&api, run);
            let times = |api: &Api| {
                let mut times: BTreeMap<String, usize> = BTreeMap::new();
                for entry in entries(api, run, "rewound") {
                    *times.entry(entry["reason"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
                }
                times
            };
            let before = times(&api);
            for key in &keys {
                let again = api.keyed(key).post(&path(run), &json!({ "reason": key })).expect(202);
                let replayed = again.header("idempotent-replayed") == Some("true");
                assert_eq!(replayed, before.contains_key(key), "{key}: {again:#?}");
            }
            failed(&api, run);
            let after = times(&api);
            assert!(after.len() == keys.len() && after.values().all(|times| *times == 1), "{after:#?}");
            // Each was one attempt more, with a number of its own.
            let attempts = entries(&api, run, "attempt_started");
            let numbers: Vec<u64> = attempts.iter().filter_map(|entry| entry["n"].as_u64()).collect();
            assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
        }
    }
}

/// Retries the run whenever it has failed, until it has succeeded or the server dies.
fn until_paid(api: &Api, run: &str, retried: &AtomicUsize) -> std::io::Result<()> {
    loop {
        let ended = api.try_get(&format!("/v1/runs/{run}/result?wait=60s"))?;
        match ended.body["status"].as_str() {
            Some("succeeded") => return Ok(()),
            Some("failed") => {
                drop(api.try_post(&path(run), &json!({ "confirm": true }))?.expect(202));
                retried.fetch_add(1, Ordering::Relaxed);
            }
            _ if ended.status == 202 => {}
            other => panic!("{other:?}: {ended:#?}"),
        }
    }
}

/// Whatever dies when: all that was sent for a step of a run carries one key, so that the other side charges and refunds once.
#[test]
fn a_run_that_is_retried_again_and_again_keeps_its_keys_whenever_the_server_dies() {
    const RUNS: usize = 8;
    let kills = std::env::var("KILLS").map_or(3, |text| text.parse().expect("KILLS is a number"));
    let project = Project::new();
    let mut api: Serving = project.serve_with(&FAULTY);
    let charges: std::sync::Mutex<BTreeMap<String, usize>> = std::sync::Mutex::default();
    let server = Server::start(move |request| {
        if request.path != "/charge" {
            return Reply::Answer(201, "refunded".to_owned());
        }
        let mut charges = charges.lock().expect("nobody panicked");
        let times = charges.entry(request.key().unwrap_or_default().to_owned()).or_default();
        *times += 1;
        if *times < 12 { Reply::Drop } else { Reply::Answer(201, "charged".to_owned()) }
    });
    let runs: Vec<String> = (0..RUNS).map(|_| started(&api, "pays", &server)).collect();
    for _ in 0..kills {
        let (client, retried) = ((*api).clone(), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let clients: Vec<_> = runs.iter().map(|run| scope.spawn(|| until_paid(&client, run, &retried))).collect();
            while retried.load(Ordering::Relaxed) < RUNS && clients.iter().any(|client| !client.is_finished()) {
                std::thread::yield_now();
            }
            api.kill();
            // Some have an answer, some have none; none has another than is right.
            clients.into_iter().for_each(|client| drop(client.join().expect("a client does not panic")));
        });
        api = project.serve(&[]);
    }
    let never = AtomicUsize::new(0);
    runs.iter().for_each(|run| until_paid(&api, run, &never).expect("the server lives"));
    for run in &runs {
        assert_eq!(api.ended(run)["result"], "charged");
    }
    let mut keys: BTreeMap<(String, String), usize> = BTreeMap::new();
    for request in server.requests() {
        *keys.entry((request.path.clone(), request.key().unwrap_or_default().to_owned())).or_default() += 1;
    }
    let of = |step: &'static str| runs.iter().map(move |run| (format!("/{step}"), format!("{run}:{step}:e1")));
    let expected: std::collections::BTreeSet<_> = of("charge").chain(of("refund")).collect();
    assert_eq!(keys.keys().cloned().collect::<std::collections::BTreeSet<_>>(), expected, "{keys:#?}");
}
