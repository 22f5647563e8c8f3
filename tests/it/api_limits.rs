//! Limits of workflows: who begins, who waits, what a run that waits says of itself, and what is asked of it.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::start;

pub(crate) static MODULE: LazyLock<Module> = LazyLock::new(|| {
    let source = r#"
import { workflow } from "stepwell";

const reach = { destinations: ["127.0.0.1:*"] };
const post = (step: any, input: any, name: string) =>
  step.run(name, async ({ http }: any) => (await http.post(`${input.url}/${name}/${input.name}`).ensureOk()).status);

export const held = workflow("held", async ({ input, step, waitForEvent }: any) => {
  await post(step, input, "in");
  return waitForEvent("go");
}, reach);

export const passes = workflow("passes", async ({ input, step }: any) => {
  await post(step, input, "in");
  await post(step, input, "out");
}, reach);

export const family = workflow("family", async ({ input, start }: any) =>
  input.deep ? start("family", { deep: false }) : "grown");

export const fails = workflow("fails", async ({ input, step }: any) =>
  step.run("charge", async ({ http }: any) => (await http.post(`${input.url}/charge`).ensureOk()).status,
    { retry: { maxAttempts: 1 } }), reach);
"#;
    Module::build("limits.ts", source)
});

fn recorder() -> Server {
    Server::start(|_| Reply::Answer(200, String::new()))
}

fn limit(api: &Api, workflow: &str, limits: &Value) {
    drop(api.put(&format!("/v1/workflows/{workflow}/limits"), limits).expect(200));
}

/// Starts a run of `held` with a name, and whatever else is to be said.
fn hold(api: &Api, server: &Server, name: &str, with: &Value) -> String {
    let mut body = json!({ "input": { "url": server.url(), "name": name } });
    for (member, value) in with.as_object().into_iter().flatten() {
        body[member] = value.clone();
    }
    start(api, "held", &body)
}

fn shown(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body
}

fn go(api: &Api, run: &str) {
    drop(api.post(&format!("/v1/runs/{run}/events/go"), &json!(1)).expect(202));
    assert_eq!(api.ended(run)["status"], "succeeded");
}

fn ask(api: &Api, run: &str, what: &str) {
    drop(api.post(&format!("/v1/runs/{run}/{what}"), &json!({})).expect(202));
}

/// The names of those that have begun, in order.
fn begun(server: &Server) -> Vec<String> {
    server.requests().iter().filter_map(|request| Some(request.path.strip_prefix("/in/")?.to_owned())).collect()
}

fn place(api: &Api, run: &str) -> (Value, Value) {
    let shown = shown(api, run);
    assert_eq!(shown["status"], "queued", "{shown:#}");
    (shown["queue"]["waitsFor"].clone(), shown["queue"]["place"].clone())
}

#[test]
fn a_run_over_the_limit_waits_says_for_what_and_where_and_can_be_asked_like_any_other() {
    let (project, server) = (Project::new(), recorder());
    let api = project.serve_with(&MODULE);
    limit(&api, "held", &json!({ "concurrency": { "runs": 2 } }));
    let runs: Vec<String> = ["a", "b", "c", "d", "e", "f"].map(|name| hold(&api, &server, name, &json!({}))).to_vec();
    server.wait_for(2);
    assert_eq!(place(&api, &runs[2]), (json!("concurrency"), json!(1)));
    assert_eq!(place(&api, &runs[5]), (json!("concurrency"), json!(4)));
    let detail = shown(&api, &runs[3])["detail"].as_str().unwrap_or_default().to_owned();
    assert_eq!(detail, "a place: its workflow is limited to 2 runs at a time; it is number 2 in line");
    let queued = api.get("/v1/runs?status=queued&workflow=held").expect(200).body;
    assert_eq!(queued["runs"].as_array().map(Vec::len), Some(4));
    assert_eq!(queued["counts"]["queued"], 4);
    let limits = api.get("/v1/workflows/held/limits").expect(200).body;
    assert_eq!(
        (&limits["underWay"], &limits["queued"], &limits["waitsFor"]),
        (&json!(2), &json!(4), &json!("concurrency"))
    );
    let metrics = api.get("/metrics").expect(200).body;
    let metrics = metrics.as_str().unwrap_or_default();
    for line in [
        r#"stepwell_queued_runs{workflow="held",limit="concurrency"} 4"#,
        r#"stepwell_runs_under_way{workflow="held"} 2"#,
        r#"stepwell_runs_limit{workflow="held"} 2"#,
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    // What is asked of one that waits is done at once, and none of its code runs for it.
    ask(&api, &runs[2], "cancel");
    assert_eq!(api.ended(&runs[2])["status"], "cancelled");
    ask(&api, &runs[3], "terminate");
    assert_eq!(api.ended(&runs[3])["status"], "terminated");
    ask(&api, &runs[4], "pause");
    assert_eq!(shown(&api, &runs[4])["status"], "paused");
    assert_eq!(place(&api, &runs[5]).1, 1);
    ask(&api, &runs[4], "resume");
    assert_eq!((place(&api, &runs[4]).1, place(&api, &runs[5]).1), (json!(1), json!(2)));
    // A pause keeps the place of one that has begun.
    ask(&api, &runs[0], "pause");
    assert_eq!(place(&api, &runs[4]).1, 1);
    ask(&api, &runs[0], "resume");
    go(&api, &runs[0]);
    server.wait_for(3);
    ask(&api, &runs[1], "terminate");
    server.wait_for(4);
    assert_eq!(begun(&server)[2..], ["e", "f"]);
    for run in [&runs[4], &runs[5]] {
        go(&api, run);
    }
    assert_eq!(server.requests().len(), 4, "who ended in line has sent nothing");
}

#[test]
fn keys_are_lines_of_their_own_and_priorities_go_first() {
    let (project, server) = (Project::new(), recorder());
    let api = project.serve_with(&MODULE);
    limit(&api, "held", &json!({ "concurrency": { "runs": 3, "perKey": 1 } }));
    let of = |name: &str, key: &str, priority: i32| json!({ "workflow": "held", "concurrencyKey": key, "priority": priority, "input": { "url": server.url(), "name": name } });
    let batch = json!({ "runs": [of("a1", "a", 0), of("a2", "a", 9), of("a3", "a", 0), of("b1", "b", -1)] });
    let outcomes = api.post("/v1/runs:batch", &batch).expect(200).body;
    let id = |at: usize| outcomes["outcomes"][at]["run"]["id"].as_str().unwrap_or_default().to_owned();
    server.wait_for(2);
    let waits = shown(&api, &id(2));
    assert_eq!((&waits["concurrencyKey"], &waits["queue"]["waitsFor"]), (&json!("a"), &json!("concurrencyPerKey")));
    assert_eq!((&waits["queue"]["place"], &waits["queue"]["placeInKey"]), (&json!(2), &json!(2)));
    assert_eq!(shown(&api, &id(1))["priority"], 9);
    // The line of `a` is held up, and the third place is free for others.
    let other = hold(&api, &server, "c1", &json!({}));
    server.wait_for(3);
    let mut names = begun(&server);
    names.sort_unstable();
    assert_eq!(names, ["a1", "b1", "c1"]);
    let low = hold(&api, &server, "low", &json!({ "priority": -100 }));
    let plain = hold(&api, &server, "plain", &json!({}));
    go(&api, &other);
    server.wait_for(4);
    assert_eq!(begun(&server)[3], "plain", "{low}");
    go(&api, &id(0));
    server.wait_for(5);
    assert_eq!(begun(&server)[4], "a2", "{plain}");
    for wrong in
        [json!({ "priority": 101 }), json!({ "concurrencyKey": "" }), json!({ "concurrencyKey": "x".repeat(201) })]
    {
        drop(api.post("/v1/workflows/held/runs", &wrong).problem(422, "workflows.invalid_argument"));
    }
}

#[test]
fn limits_are_set_by_an_administrator_count_at_once_and_say_who_set_them() {
    let (project, server) = (Project::new(), recorder());
    let api = project.serve_with(&MODULE);
    let path = "/v1/workflows/held/limits";
    for wrong in [
        json!({}),
        json!({ "concurrency": {} }),
        json!({ "concurrency": { "perKey": 0 } }),
        json!({ "rate": { "runs": 0, "perMs": 1 } }),
        json!({ "rate": { "runs": 1 } }),
        json!({ "rate": { "runs": 1, "perMs": 0 } }),
        json!({ "cocurrency": { "runs": 1 } }),
    ] {
        drop(api.put(path, &wrong).problem(400, "invalid_request"));
    }
    drop(api.delete(path).problem(404, "not_found"));
    limit(&api, "held", &json!({ "concurrency": { "runs": 0 } }));
    let runs: Vec<String> = ["a", "b", "c"].map(|name| hold(&api, &server, name, &json!({}))).to_vec();
    assert_eq!(place(&api, &runs[2]), (json!("concurrency"), json!(3)));
    let url = format!("http://{}", api.address());
    let cli = |args: &[&str]| project.stepwell(&[args, &["--json", "--url", &url]].concat()).expect_code(0).events;
    let set = cli(&[
        "workflows",
        "limits",
        "set",
        "held",
        "--runs",
        "2",
        "--rate",
        "100",
        "--rate-ms",
        "1",
        "--rate-per-key",
    ]);
    assert_eq!(set[0]["rate"], json!({ "runs": 100, "perMs": 1, "perKey": true }));
    server.wait_for(2);
    assert_eq!(place(&api, &runs[2]).1, 1);
    let listed = cli(&["workflows", "list"]);
    let held = listed.iter().find(|workflow| workflow["name"] == "held").map(|workflow| workflow["limits"].clone());
    assert_eq!(held.unwrap_or_default()["concurrency"], json!({ "runs": 2 }));
    let started = cli(&["start", "held", "--concurrency-key", "k", "--priority", "-3", "--input", "{}"]);
    assert_eq!((&started[0]["concurrencyKey"], &started[0]["priority"]), (&json!("k"), &json!(-3)));
    ask(&api, started[0]["id"].as_str().unwrap_or_default(), "terminate");
    drop(cli(&["workflows", "limits", "remove", "held"]));
    server.wait_for(3);
    let told = cli(&["workflows", "limits", "show", "held"]);
    let changes = told[0]["changes"].as_array().cloned().unwrap_or_default();
    let set: Vec<&Value> = changes.iter().map(|change| &change["concurrency"]).collect();
    assert_eq!(set, [&Value::Null, &json!({ "runs": 2 }), &json!({ "runs": 0 })]);
    assert!(changes.iter().all(|change| change["by"] == "local"), "{changes:#?}");
    // From here on only who may.
    let admin = json!({ "principal": "ada", "scopes": ["admin"] });
    let admin = api.as_token(api.post("/v1/tokens", &admin).expect(201).body["token"].as_str().unwrap_or_default());
    let other = json!({ "principal": "bob", "scopes": ["read", "run", "deploy"] });
    let other = api.as_token(admin.post("/v1/tokens", &other).expect(201).body["token"].as_str().unwrap_or_default());
    drop(other.put(path, &json!({ "concurrency": { "runs": 1 } })).problem(403, "forbidden"));
    drop(other.delete(path).problem(403, "forbidden"));
    drop(admin.put(path, &json!({ "concurrency": { "runs": 1 } })).expect(200));
    let changes = other.get(path).expect(200).body["changes"].clone();
    assert_eq!((&changes[0]["by"], &changes[0]["concurrency"]["runs"]), (&json!("ada"), &json!(1)));
}

#[test]
fn a_rate_lets_begin_what_it_may_and_no_more_after_a_kill() {
    let (project, server) = (Project::new(), recorder());
    let api = project.serve_with(&MODULE);
    limit(&api, "held", &json!({ "rate": { "runs": 2, "perMs": 3_600_000 } }));
    let runs: Vec<String> = ["a", "b", "c"].map(|name| hold(&api, &server, name, &json!({}))).to_vec();
    server.wait_for(2);
    go(&api, &runs[0]);
    let created_ms = shown(&api, &runs[0])["createdAtMs"].as_u64().expect("a time");
    assert_eq!(place(&api, &runs[2]), (json!("rate"), json!(1)));
    assert_eq!(shown(&api, &runs[2])["queue"]["untilMs"], created_ms + 3_600_000);
    api.kill();
    let api = project.serve(&[]);
    go(&api, &runs[1]);
    assert_eq!(place(&api, &runs[2]), (json!("rate"), json!(1)));
    assert_eq!(server.requests().len(), 2);
    // Time alone lets the others begin: each when the one before it is so long ago.
    limit(&api, "held", &json!({ "rate": { "runs": 1, "perMs": 200 } }));
    let more: Vec<String> = ["d", "e"].map(|name| hold(&api, &server, name, &json!({}))).to_vec();
    server.wait_for(5);
    assert_eq!(begun(&server)[2..], ["c", "d", "e"]);
    let began = |run: &str| {
        let entries = api.get(&format!("/v1/runs/{run}/journal")).expect(200).body["entries"].clone();
        entries[1]["atMs"].as_u64().expect("a time")
    };
    // That of `c` began with the limit, if not before.
    let set_ms = api.get("/v1/workflows/held/limits").expect(200).body["changes"][0]["atMs"].as_u64().expect("a time");
    assert!(began(&more[0]) >= set_ms + 200, "{} after {set_ms}", began(&more[0]));
    assert!(began(&more[1]) >= set_ms + 400, "{} after {set_ms}", began(&more[1]));
}

#[test]
fn a_run_whose_time_is_over_in_line_is_cancelled_without_having_begun() {
    let (project, server) = (Project::new(), recorder());
    let api = project.serve_with(&MODULE);
    limit(&api, "held", &json!({ "concurrency": { "runs": 0 } }));
    let first = hold(&api, &server, "a", &json!({ "runTimeoutMs": 50 }));
    let ended = api.ended(&first);
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("cancelled"), &json!("workflows.run_timeout")));
    let second = hold(&api, &server, "b", &json!({ "runTimeoutMs": 1_500 }));
    let late = hold(&api, &server, "c", &json!({ "delayMs": 1 }));
    api.kill();
    let api = project.serve(&[]);
    assert_eq!(api.ended(&second)["error"]["code"], "workflows.run_timeout");
    // Its delay is over: it waits like the others.
    while shown(&api, &late)["queue"]["place"] != 1 {
        std::thread::yield_now();
    }
    drop(api.delete("/v1/workflows/held/limits").expect(204));
    go(&api, &late);
    assert_eq!(begun(&server), ["c"]);
}

#[test]
fn a_child_that_waits_for_its_parents_place_says_so() {
    let project = Project::new();
    let api = project.serve_with(&MODULE);
    limit(&api, "family", &json!({ "concurrency": { "runs": 1 } }));
    let parent = start(&api, "family", &json!({ "input": { "deep": true } }));
    let waits = |api: &Api| {
        let queued = api.get("/v1/runs?status=queued").expect(200).body;
        let child = queued["runs"].as_array().into_iter().flatten().find(|run| run["parent"] == json!(parent));
        child.and_then(|child| child["id"].as_str().map(str::to_owned))
    };
    let child = loop {
        match waits(&api) {
            Some(child) => break child,
            None => std::thread::yield_now(),
        }
    };
    let detail = shown(&api, &child)["detail"].as_str().unwrap_or_default().to_owned();
    let says = format!("limited to 1 run at a time; run {parent}, which started it, has one; it is number 1 in line");
    assert!(detail.contains(&says), "{detail}");
    limit(&api, "family", &json!({ "concurrency": { "runs": 2 } }));
    assert_eq!(api.ended(&parent)["result"], "grown");
}

#[test]
fn a_failed_run_that_is_retried_waits_for_a_place() {
    let project = Project::new();
    let api = project.serve_with(&MODULE);
    let server = Server::start(|request| match request.number {
        1 => Reply::Answer(400, String::new()),
        3 => Reply::Hang,
        _ => Reply::Answer(200, String::new()),
    });
    let input = json!({ "url": server.url() });
    let failed = start(&api, "fails", &json!({ "input": input }));
    assert_eq!(api.ended(&failed)["status"], "failed");
    // Without limits it goes on at once.
    drop(api.post(&format!("/v1/runs/{failed}/retry"), &json!({})).expect(202));
    assert_eq!(api.ended(&failed)["status"], "succeeded");
    limit(&api, "fails", &json!({ "concurrency": { "runs": 1 } }));
    let holds = start(&api, "fails", &json!({ "input": input }));
    server.wait_for(3);
    let next = start(&api, "fails", &json!({ "input": { "url": "http://127.0.0.1:1" } }));
    assert_eq!(place(&api, &next).1, 1);
    ask(&api, &holds, "terminate");
    assert_eq!(api.ended(&next)["status"], "failed");
    let holds = start(&api, "fails", &json!({ "input": input }));
    assert_eq!(api.ended(&holds)["status"], "succeeded");
    limit(&api, "fails", &json!({ "concurrency": { "runs": 0 } }));
    drop(api.post(&format!("/v1/runs/{next}/retry"), &json!({})).expect(202));
    assert_eq!(place(&api, &next), (json!("concurrency"), json!(1)));
    api.kill();
    let api = project.serve(&[]);
    assert_eq!(place(&api, &next), (json!("concurrency"), json!(1)));
    drop(api.delete("/v1/workflows/fails/limits").expect(204));
    assert_eq!(api.ended(&next)["status"], "failed", "it was tried, and failed as before");
}
