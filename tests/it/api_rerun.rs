//! Reruns over HTTP: what came before the step is not done again, what follows is, under keys of the new run.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Answer, Api, Module, Project, Reply, Server};

use crate::api_runs::{events, start, until_waiting};

/// The workflows, with this in the place of what the mail says.
fn module(mail: &str) -> Module {
    let source = r#"
import { workflow } from "stepwell";

const steps = { destinations: ["127.0.0.1:*"] };
const post = (url: string, path: string) => async ({ http }: any) => (await http.post(`${url}/${path}`, { json: 5 }).ensureOk()).text();

export const order = workflow("order", async ({ input, step, random, now, runId }: any) => {
  const mark = `${runId} ${random()} ${now()}`;
  const reserved = await step.run("reserve", post(input.url, "reserve"), { effect: "keyed" });
  const charged = await step.run("charge", post(input.url, "charge"), { effect: "keyed" });
  const mailed = await step.run("mail", post(input.url, "MAIL"), { effect: "once" });
  return { mark, reserved, charged, mailed };
}, steps);

/** What the charge did is lost; the others go on meanwhile. */
export const pair = workflow("pair", async ({ input, step }: any) => {
  const charge = step.run("charge", post(input.url, "lost"), { effect: "once" });
  await step.run("pack", () => 1);
  await step.run("label", post(input.url, "label"));
  return charge;
}, steps);

export const parts = workflow("parts", async ({ step }: any) => {
  const parts = [];
  for (let part = 0; part < 3; part += 1) parts.push(await step.run("part", () => part));
  return parts;
});

export const paid = workflow("paid", async ({ step, waitForEvent }: any) => {
  await step.run("invoice", () => 1);
  return waitForEvent("paid");
});
"#;
    Module::build("rerun.ts", &source.replace("MAIL", mail))
}

static MODULE: LazyLock<Module> = LazyLock::new(|| module("mail"));
static MENDED: LazyLock<Module> = LazyLock::new(|| module("letter"));
static OTHER: LazyLock<Module> = LazyLock::new(|| {
    let source = r#"
import { workflow } from "stepwell";
export const order = workflow("order", async ({ step }: any) => step.run("another", () => 1));
"#;
    Module::build("another_order.ts", source)
});

fn shop() -> Server {
    Server::start(|request| match request.path.as_str() {
        "/lost" => Reply::Drop,
        path => Reply::Answer(201, format!("{path} {}", request.number)),
    })
}

fn rerun(api: &Api, run: &str, asked: &Value) -> Answer {
    api.post(&format!("/v1/runs/{run}/rerun"), asked)
}

fn from(step: &str) -> Value {
    json!({ "fromStep": step, "confirm": true })
}

fn order(api: &Api, server: &Server) -> (String, Value) {
    let run = start(api, "order", &json!({ "input": { "url": server.url() }, "tags": { "shop": "berlin" } }));
    let ended = api.ended(&run);
    assert_eq!(ended["status"], "succeeded", "{ended:#?}");
    (run, ended["result"].clone())
}

/// The keys under which that was asked for.
fn keys(server: &Server, path: &str) -> Vec<String> {
    let requests = server.requests();
    let of = requests.iter().filter(|request| request.path == path);
    of.map(|request| request.key().unwrap_or_default().to_owned()).collect()
}

fn until_blocked(api: &Api, run: &str) -> Value {
    let mut events = events(api.lines(&format!("/v1/runs/{run}/events")));
    let blocked = events.find(|(name, _, data)| name == "run" && data["status"] == "blocked");
    blocked.expect("the run is blocked").2
}

fn runs(api: &Api) -> usize {
    api.get("/v1/runs").expect(200).body["runs"].as_array().expect("a list of runs").len()
}

#[test]
fn what_came_before_is_not_done_again_and_what_follows_is_once_it_is_confirmed() {
    let project = Project::new();
    let server = shop();
    let api = project.serve_with(&MODULE);
    let (run, result) = order(&api, &server);
    let refused = rerun(&api, &run, &json!({ "fromStep": "charge" })).problem(409, "rerun_needs_confirm").body;
    let effect = |step: &str| {
        let (url, key) = (format!("{}/{step}", server.url()), format!("{run}:{step}:e1"));
        json!({ "step": step, "effect": 1, "method": "POST", "url": url, "done": true, "key": key })
    };
    assert_eq!(refused["effects"], json!([effect("charge"), effect("mail")]));
    assert_eq!((runs(&api), server.requests().len()), (1, 3), "nothing is started");
    let answer = api.keyed("k").post(&format!("/v1/runs/{run}/rerun"), &from("charge")).expect(201);
    let second = answer.run();
    assert_eq!(answer.body["rerunOf"], json!({ "run": run, "fromStep": "charge" }));
    assert_eq!(answer.body["effects"], refused["effects"]);
    // The process dies at once, or in the middle.
    api.kill();
    let api = project.serve(&[]);
    let ended = api.ended(&second);
    assert_eq!((&ended["status"], &ended["tags"]), (&json!("succeeded"), &json!({ "shop": "berlin" })), "{ended:#?}");
    assert_eq!(ended["result"]["reserved"], result["reserved"]);
    assert_ne!(ended["result"]["charged"], result["charged"]);
    assert_eq!(
        ended["result"]["mark"], result["mark"],
        "its id, chance and time are those that were seen before the step"
    );
    assert_eq!(keys(&server, "/reserve"), [format!("{run}:reserve:e1")]);
    let charges = keys(&server, "/charge");
    assert_eq!(charges[..2], [format!("{run}:charge:e1"), format!("{second}:charge:e1")], "{charges:?}");
    assert!(charges[1..].iter().all(|key| *key == charges[1]), "a lost attempt keeps its key: {charges:?}");
    let again = api.keyed("k").post(&format!("/v1/runs/{run}/rerun"), &from("charge")).expect(201);
    assert_eq!((again.header("idempotent-replayed"), again.run()), (Some("true"), second.clone()));
    assert_eq!(runs(&api), 2, "it is started once");
    let other = api.get(&format!("/v1/runs/{run}")).expect(200).body;
    assert_eq!((&other["result"], &other["rerunOf"]), (&result, &Value::Null), "the other is as it was");
    let shown = project.stepwell(&["runs", "show", &second, "--json"]).expect_code(0).events;
    assert_eq!(shown[0]["rerunOf"], json!({ "run": run, "fromStep": "charge" }));
}

#[test]
fn a_rerun_is_rerun() {
    let project = Project::new();
    let server = shop();
    let api = project.serve_with(&MODULE);
    let (run, result) = order(&api, &server);
    let second = rerun(&api, &run, &from("charge")).expect(201).run();
    let charged = api.ended(&second)["result"]["charged"].clone();
    let third = rerun(&api, &second, &from("mail")).expect(201);
    assert_eq!(third.body["rerunOf"], json!({ "run": second, "fromStep": "mail" }));
    let third = third.run();
    let ended = api.ended(&third)["result"].clone();
    assert_eq!((&ended["charged"], &ended["mark"]), (&charged, &result["mark"]));
    // From a step that the second has from the first.
    let fourth = rerun(&api, &second, &from("reserve")).expect(201).run();
    assert_eq!(api.ended(&fourth)["status"], "succeeded");
    assert_eq!(keys(&server, "/reserve"), [format!("{run}:reserve:e1"), format!("{fourth}:reserve:e1")]);
    assert_eq!(keys(&server, "/charge"), [&run, &second, &fourth].map(|run| format!("{run}:charge:e1")));
    assert_eq!(keys(&server, "/mail"), [&run, &second, &third, &fourth].map(|run| format!("{run}:mail:e1")));
}

#[test]
fn other_code_has_to_replay_what_came_before() {
    let project = Project::new();
    let server = shop();
    let api = project.serve_with(&MODULE);
    let (run, _) = order(&api, &server);
    let with = |digest: &Value| {
        let mut asked = from("mail");
        asked["digest"] = digest.clone();
        rerun(&api, &run, &asked)
    };
    drop(with(&json!("0000")).problem(404, "not_found"));
    let other = api.upload(&OTHER).body["digest"].clone();
    let refused = with(&other).problem(409, "workflows.replay_mismatch").body;
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("reserve")), "{refused:#?}");
    assert_eq!(runs(&api), 1, "nothing is stored");
    let mended = api.upload(&MENDED).body["digest"].clone();
    let answer = with(&mended).expect(201);
    assert_eq!(answer.body["digest"], mended);
    assert_eq!(api.ended(&answer.run())["status"], "succeeded");
    let counts = ["/reserve", "/charge", "/mail", "/letter"].map(|path| keys(&server, path).len());
    assert_eq!(counts, [1, 1, 1, 1]);
}

#[test]
fn what_may_have_happened_before_is_carried_over_and_not_repeated() {
    let project = Project::new();
    let server = shop();
    let api = project.serve_with(&MODULE);
    let run = start(&api, "pair", &json!({ "input": { "url": server.url() } }));
    drop(until_blocked(&api, &run));
    drop(rerun(&api, &run, &from("label")).problem(409, "run_not_ended"));
    drop(api.post(&format!("/v1/runs/{run}/terminate"), &json!({})).expect(202));
    assert_eq!(api.ended(&run)["status"], "terminated");
    let second = rerun(&api, &run, &from("label")).expect(201);
    assert_eq!(second.body["unknownSteps"], 1);
    let second = second.run();
    drop(until_blocked(&api, &second));
    assert_eq!((keys(&server, "/lost").len(), keys(&server, "/label").len()), (1, 2));
    let unknown = api.get(&format!("/v1/steps?status=unknown&run={second}")).expect(200).body;
    assert_eq!(unknown["steps"][0]["step"], "charge", "{unknown:#?}");
    let found = json!({ "outcome": "succeeded", "result": 7, "evidence": "asked the bank" });
    drop(api.post(&format!("/v1/runs/{second}/steps/charge/resolve"), &found).expect(200));
    assert_eq!(api.ended(&second)["result"], 7);
    assert_eq!(keys(&server, "/lost"), [format!("{run}:charge:e1")]);
}

#[test]
fn what_cannot_be_rerun_says_why_and_starts_nothing() {
    let project = Project::new();
    let api = project.serve_with(&MODULE);
    let parts = start(&api, "parts", &json!({}));
    assert_eq!(api.ended(&parts)["result"], json!([0, 1, 2]));
    let refused = rerun(&api, &parts, &from("part")).problem(409, "step_ambiguous").body;
    assert_eq!(refused["steps"], json!(["part#1", "part#2", "part#3"]));
    drop(rerun(&api, &parts, &from("part#4")).problem(404, "not_found"));
    drop(rerun(&api, &parts, &from("none")).problem(404, "not_found"));
    drop(rerun(&api, "run_none", &from("part")).problem(404, "not_found"));
    drop(rerun(&api, &parts, &json!({})).problem(400, "invalid_request"));
    let refused = rerun(&api, &parts, &json!({ "fromStep": "part#2", "input": 1 })).problem(400, "invalid_request");
    assert!(refused.body["detail"].as_str().is_some_and(|text| text.starts_with("input: ")), "{:#?}", refused.body);
    assert_eq!(runs(&api), 1);
    // Nothing was done outside: there is nothing to confirm.
    let keyed = json!({ "fromStep": "part#2", "runKey": "again", "tags": { "why": "test" } });
    let answer = rerun(&api, &parts, &keyed).expect(201);
    assert_eq!((&answer.body["effects"], &answer.body["tags"]), (&json!([]), &json!({ "why": "test" })));
    assert_eq!(rerun(&api, &parts, &keyed).expect(200).run(), answer.run());
    let other = json!({ "fromStep": "part#3", "runKey": "again" });
    assert_eq!(rerun(&api, &parts, &other).problem(409, "run_key_conflict").body["run"], answer.body["id"]);
    assert_eq!(api.ended(&answer.run())["result"], json!([0, 1, 2]));
    let first = rerun(&api, &parts, &from("part#1")).expect(201);
    assert_eq!(first.body["rerunOf"]["fromStep"], "part");
    assert_eq!(api.ended(&first.run())["result"], json!([0, 1, 2]));
}

#[test]
fn events_that_came_since_stay_with_the_other_run() {
    let project = Project::new();
    let api = project.serve_with(&MODULE);
    let run = start(&api, "paid", &json!({}));
    let pay = |run: &str, what: u32| drop(api.post(&format!("/v1/runs/{run}/events/paid"), &json!(what)).expect(202));
    drop(until_waiting(&api, &run));
    pay(&run, 1);
    assert_eq!(api.ended(&run)["result"], 1);
    let answer = rerun(&api, &run, &from("invoice")).expect(201);
    assert_eq!(answer.body["eventsLeft"], json!(["paid"]));
    let second = answer.run();
    drop(until_waiting(&api, &second));
    pay(&second, 2);
    assert_eq!(api.ended(&second)["result"], 2);
}

#[test]
fn the_command_says_what_would_be_done_again() {
    let project = Project::new();
    let server = shop();
    let api = project.serve_with(&MODULE);
    let (run, _) = order(&api, &server);
    let url = format!("http://{}", api.address());
    let bare = project.stepwell(&["runs", "rerun", &run, "--from-step", "mail", "--url", &url]).expect_code(2);
    assert!(bare.stderr.contains("rerun_needs_confirm") && bare.stderr.contains("/mail"), "{bare:#?}");
    assert_eq!(runs(&api), 1);
    let asked =
        ["runs", "rerun", &run, "--from-step", "mail", "--confirm", "--reason", "it was lost", "--json", "--url"];
    let said = project.stepwell(&[&asked[..], &[&url]].concat()).expect_code(0).events;
    let second = said[0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(api.ended(&second)["status"], "succeeded");
    assert_eq!(keys(&server, "/mail").len(), 2);
    let journal = project.stepwell(&["runs", "journal", &second]).expect_code(0).stdout;
    assert!(
        journal.contains(&format!("a rerun of {run} from step mail")) && journal.contains("it was lost"),
        "{journal}"
    );
}
