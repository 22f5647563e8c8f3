//! Runs that have to do with other runs: what one does to another happens once, whenever the server dies.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

pub(crate) static MODULE: LazyLock<Module> =
    LazyLock::new(|| Module::build("others.ts", include_str!("others/others.ts")));

fn status(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body["status"].clone()
}

#[test]
fn an_event_from_run_to_run_comes_and_one_that_cannot_is_told() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let over = start(&server, "taker", &json!({ "input": { "name": "x", "times": 0 } }));
    let over_ended = server.ended(&over);
    assert_eq!(over_ended["result"], json!([]));
    let waits = start(&server, "taker", &json!({ "input": { "name": "x", "times": 2 } }));
    until_waiting(&server, &waits);
    // One that has not begun keeps it until it does.
    let later = start(&server, "taker", &json!({ "input": { "name": "x", "times": 2 }, "delayMs": 86_400_000 }));
    let to = json!([waits, later, over, "run_nobody"]);
    let sender = start(&server, "sender", &json!({ "input": { "to": to, "name": "x", "times": 2 } }));
    let once = ["sent", "sent", "workflows.run_ended", "workflows.run_not_found"];
    assert_eq!(server.ended(&sender)["result"], json!([once, once].concat()));
    assert_eq!(server.ended(&waits)["result"], json!([0, 1]));
    assert_eq!(status(&server, &later), "queued");
}

/// The sender dies anywhere between its first event and its end: each event comes once, in order.
#[test]
fn events_from_run_to_run_come_once_whenever_the_server_dies() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    let times = 200;
    let taker = start(&server, "taker", &json!({ "input": { "name": "x", "times": times } }));
    let input = json!({ "to": [taker], "name": "x", "times": times });
    let sender = start(&server, "sender", &json!({ "input": input }));
    let taken = |api: &Api, run: &str| {
        let page = api.get(&format!("/v1/runs/{run}/journal?limit=1000")).expect(200).body;
        let arrived = |entry: &&Value| entry["entry"]["event_arrived"].is_object();
        page["entries"].as_array().expect("a list of entries").iter().filter(arrived).count()
    };
    for kill in 1..=4 {
        while taken(&server, &taker) < kill * times / 6 && status(&server, &sender) != "succeeded" {
            std::thread::yield_now();
        }
        server.kill();
        server = project.serve(&[]);
    }
    assert_eq!(server.ended(&sender)["result"], json!(vec!["sent"; times]));
    assert_eq!(server.ended(&taker)["result"], json!((0..times).collect::<Vec<_>>()));
    assert_eq!(taken(&server, &taker), times);
}

fn shown(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body
}

fn children(api: &Api, parent: &str) -> Vec<Value> {
    let list = api.get(&format!("/v1/runs?parent={parent}&limit=1000")).expect(200).body;
    let mut runs = list["runs"].as_array().expect("a list of runs").clone();
    // The earliest first.
    runs.reverse();
    runs
}

fn id(run: &Value) -> String {
    run["id"].as_str().unwrap_or_else(|| panic!("no run: {run:#}")).to_owned()
}

/// Waits until the run has so many children.
fn until_children(api: &Api, parent: &str, count: usize) -> Vec<Value> {
    loop {
        let found = children(api, parent);
        if found.len() >= count {
            return found;
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_run_that_goes_on_in_another_has_its_place_there() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let asked = json!({ "input": { "sum": 0, "left": 3 }, "runKey": "k", "tags": { "a": "b" } });
    let first = start(&server, "adder", &asked);
    until_waiting(&server, &first);
    // Two more than the first takes: they are for those that go on. Sent to the first, whoever goes on has it.
    for n in [1, 10] {
        drop(server.post(&format!("/v1/runs/{first}/events/add"), &json!(n)).expect(202));
    }
    let second = loop {
        match shown(&server, &first)["continuedAs"].as_str() {
            Some(second) => break second.to_owned(),
            None => std::thread::yield_now(),
        }
    };
    let over = shown(&server, &first);
    assert_eq!((&over["status"], &over["runKey"], &over["result"]), (&json!("succeeded"), &Value::Null, &Value::Null));
    assert_eq!(shown(&server, &second)["continuedFrom"], json!(first));
    let sent = server.keyed("the last").post(&format!("/v1/runs/{first}/events/add"), &json!(100)).expect(202);
    assert!(sent.body["number"].as_u64().is_some() || sent.body.is_object(), "{sent:#?}");
    // Whoever waits for the first waits for the last.
    let end = server.ended(&first);
    assert_eq!((&end["status"], &end["result"], &end["runKey"]), (&json!("succeeded"), &json!(111), &json!("k")));
    assert_eq!((&end["tags"], &end["continuedAs"]), (&json!({ "a": "b" }), &Value::Null));
    let all = server.get("/v1/runs?workflow=adder").expect(200).body["runs"].as_array().expect("a list").len();
    assert_eq!(all, 4);
    // The same start again is the same: it answers the run that has the run key now. Another one is refused.
    let again = server.post("/v1/workflows/adder/runs", &asked).expect(200);
    assert_eq!(again.run(), id(&end));
    let other = json!({ "input": { "sum": 111, "left": 0 }, "runKey": "k" });
    drop(server.post("/v1/workflows/adder/runs", &other).problem(409, "run_key_conflict"));
}

#[test]
fn runs_go_on_in_others_whenever_the_server_dies() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    const ROUNDS: usize = 300;
    let first = start(&server, "rounds", &json!({ "input": { "left": ROUNDS }, "runKey": "k" }));
    let count = |api: &Api| {
        let counts = api.get("/v1/runs?workflow=rounds&limit=1").expect(200).body["counts"].clone();
        counts.as_object().expect("there are counts").values().filter_map(Value::as_u64).sum::<u64>()
    };
    for kill in 1..=4 {
        while count(&server) < kill * 50 {
            std::thread::yield_now();
        }
        server.kill();
        server = project.serve(&[]);
    }
    let end = server.ended(&first);
    assert_eq!((&end["status"], &end["result"], &end["runKey"]), (&json!("succeeded"), &json!("at last"), &json!("k")));
    assert_eq!(count(&server), ROUNDS as u64 + 1, "each goes on in one other");
}

#[test]
fn a_parent_is_told_what_became_of_its_children() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let asked = json!([
        { "input": { "does": "returns", "value": [1] } },
        { "input": { "does": "fails" } },
        { "input": { "does": "waits" }, "options": { "detached": true, "onParentClose": "abandon", "runKey": "k", "tags": { "a": "b" } } },
        { "input": { "does": "waits" }, "options": { "detached": true, "runKey": "k" } },
        { "input": { "does": "returns" }, "options": { "runKey": "k" } },
        { "workflow": "nobody", "input": 1 },
        { "workflow": "rounds", "input": { "left": 2 } },
        { "input": { "does": "waits" } },
        { "input": { "does": "sleeps" } },
    ]);
    let run = start(&server, "parent", &json!({ "input": { "children": asked } }));
    let open = until_children(&server, &run, 5);
    let waiting = open.iter().filter(|child| child["runKey"].is_null()).map(id).collect::<Vec<_>>();
    for child in &waiting {
        let row = shown(&server, child);
        assert_eq!(row["parent"], json!(run));
        match row["status"].as_str() {
            Some("waiting" | "running" | "queued") => {}
            _ => continue,
        }
        // Both are asked; only one of them takes an event.
        let _ = server.post(&format!("/v1/runs/{child}/events/go"), &json!("went"));
        let journal = server.get(&format!("/v1/runs/{child}/journal")).expect(200).body;
        if journal["entries"][0]["entry"]["started"]["input"]["does"] == "sleeps" {
            drop(server.post(&format!("/v1/runs/{child}/terminate"), &json!({ "reason": "enough" })).expect(202));
        }
    }
    let end = server.ended(&run);
    let became = end["result"].as_array().unwrap_or_else(|| panic!("{end:#}"));
    assert_eq!(became[0], json!([1]));
    assert_eq!(
        (&became[1]["name"], &became[1]["code"], &became[1]["message"], &became[1]["details"]),
        (&json!("Broke"), &json!("shop.broke"), &json!("no money"), &json!({ "cents": 5 }))
    );
    let keyed = became[2].as_str().expect("a run id");
    assert_eq!(became[3], became[2], "the run that has the run key is what was asked for");
    assert_eq!(became[4]["code"], "workflows.run_key_conflict");
    assert_eq!(became[5]["code"], "workflows.unknown_workflow");
    assert_eq!(became[6], "at last");
    assert_eq!(became[7], "went");
    assert_eq!(became[8]["code"], "workflows.terminated");
    // What was abandoned goes on.
    let row = shown(&server, keyed);
    assert_eq!((&row["status"], &row["tags"]), (&json!("waiting"), &json!({ "a": "b" })));
}

/// Whether it could be started comes with the commit, when the parent may have gone to wait already.
#[test]
fn a_parent_of_a_child_that_cannot_be_started_does_not_wait_for_it() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let holder = start(&server, "child", &json!({ "input": { "does": "waits" }, "runKey": "k" }));
    until_waiting(&server, &holder);
    let runs: Vec<String> = (0..100)
        .map(|n| {
            let child = match n % 2 {
                0 => json!({ "workflow": "nobody", "input": 1 }),
                _ => json!({ "input": { "does": "returns" }, "options": { "runKey": "k" } }),
            };
            start(&server, "parent", &json!({ "input": { "children": [child] } }))
        })
        .collect();
    for run in &runs {
        let code = server.ended(run)["result"][0]["code"].clone();
        assert!(code == "workflows.unknown_workflow" || code == "workflows.run_key_conflict", "{code}");
    }
    assert_eq!(shown(&server, &holder)["status"], "waiting");
}

/// Brings a run to its end.
type Ends = fn(&Api, &str);

/// The end of the parent, in each way that there is, and what becomes of children that are not abandoned.
#[test]
fn children_go_down_with_their_parent_also_when_the_server_dies_in_between() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    let asked = json!([
        { "input": { "does": "sleeps" } },
        { "input": { "does": "sleeps" }, "options": { "detached": true } },
        { "input": { "does": "sleeps" }, "options": { "detached": true, "onParentClose": "abandon" } },
    ]);
    let ends: [(&str, Ends); 3] = [
        // The parent takes what becomes of its children as it comes, and returns.
        ("succeeded", |api, run| drop(api.post(&format!("/v1/runs/{run}/cancel"), &json!({})).expect(202))),
        ("terminated", |api, run| drop(api.post(&format!("/v1/runs/{run}/terminate"), &json!({})).expect(202))),
        ("succeeded", |api, run| {
            // What is paused is cancelled once it is resumed, children included.
            for child in children(api, run) {
                drop(api.post(&format!("/v1/runs/{}/pause", id(&child)), &json!({})).expect(202));
            }
            drop(api.post(&format!("/v1/runs/{run}/cancel"), &json!({})).expect(202));
            let _ = api.ended(run);
            for child in children(api, run) {
                drop(api.post(&format!("/v1/runs/{}/resume", id(&child)), &json!({})).expect(202));
            }
        }),
    ];
    for kills in [false, true] {
        for (status, end) in &ends {
            let run = start(&server, "parent", &json!({ "input": { "children": asked } }));
            let found = until_children(&server, &run, 3);
            for child in &found {
                until_waiting(&server, &id(child));
            }
            end(&server, &run);
            if kills {
                server.kill();
                server = project.serve(&[]);
            }
            assert_eq!(server.ended(&run)["status"], json!(status));
            for (child, goes_down) in found.iter().zip([true, true, false]) {
                let child = id(child);
                if goes_down {
                    let ended = server.ended(&child);
                    assert_eq!(
                        (&ended["status"], &ended["error"]["code"]),
                        (&json!("cancelled"), &json!("workflows.cancelled"))
                    );
                    let journal = server.get(&format!("/v1/runs/{child}/journal")).expect(200).body.to_string();
                    assert!(journal.contains("clean up"), "{journal}");
                } else {
                    until_waiting(&server, &child);
                }
            }
        }
    }
}

#[test]
fn a_child_that_lost_a_race_is_cancelled() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "loser", &json!({}));
    let child = id(&until_children(&server, &run, 1)[0]);
    drop(server.post(&format!("/v1/runs/{run}/events/enough"), &json!(1)).expect(202));
    assert_eq!(server.ended(&run)["result"], "enough");
    assert_eq!(server.ended(&child)["status"], "cancelled");
}

/// Parents and children die together, at any moment, again and again: each child is started once, and its end is told once.
#[test]
fn children_are_started_once_whenever_the_server_dies() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    const PARENTS: usize = 10;
    const CHILDREN: usize = 20;
    let asked: Vec<Value> = (0..CHILDREN).map(|n| json!({ "input": { "does": "returns", "value": n } })).collect();
    let parents: Vec<String> =
        (0..PARENTS).map(|_| start(&server, "parent", &json!({ "input": { "children": asked } }))).collect();
    let started = |api: &Api| {
        let counts = api.get("/v1/runs?workflow=child&limit=1").expect(200).body["counts"].clone();
        counts.as_object().expect("there are counts").values().filter_map(Value::as_u64).sum::<u64>()
    };
    let ended = |api: &Api| {
        api.get("/v1/runs?workflow=child&limit=1").expect(200).body["counts"]["succeeded"].as_u64().unwrap_or(0)
    };
    for kill in 1..=4u64 {
        while ended(&server) < kill * 25 && ended(&server) < (PARENTS * CHILDREN) as u64 {
            std::thread::yield_now();
        }
        server.kill();
        server = project.serve(&[]);
    }
    for run in &parents {
        assert_eq!(server.ended(run)["result"], json!((0..CHILDREN).collect::<Vec<_>>()));
        assert_eq!(children(&server, run).len(), CHILDREN);
    }
    assert_eq!(started(&server), (PARENTS * CHILDREN) as u64);
}

#[test]
fn a_family_has_an_end() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "generations", &json!({ "input": 5 }));
    assert_eq!(server.ended(&run)["result"], "the last");
    let run = start(&server, "generations", &json!({ "input": 1_000 }));
    let end = server.ended(&run);
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!("workflows.too_many_operations")));
}

#[test]
fn the_command_line_follows_a_run_to_the_last_that_goes_on_for_it() {
    let project = Project::new();
    let ran = project.run(&MODULE, "rounds", &json!({ "left": 3 })).wait().expect_code(0);
    assert_eq!(ran.of_kind("run").count(), 4);
    let ended: Vec<&Value> = ran.of_kind("ended").collect();
    assert_eq!(ended.len(), 4);
    assert_eq!(ended[3]["result"], "at last");
    // Who asks for the first once more is answered by the last.
    let first = ran.of_kind("run").next().expect("a run")["run"].as_str().expect("an id").to_owned();
    let again = project.resume(&first).wait().expect_code(0);
    assert_eq!(again.of_kind("ended").last().expect("an end")["result"], "at last");
}

#[test]
fn a_resumed_parent_takes_its_children_up_with_it() {
    let project = Project::new();
    let asked = json!([{ "input": { "does": "naps", "ms": 400 } }, { "workflow": "generations", "input": 2 }]);
    let mut doomed = project.run(&MODULE, "parent", &json!({ "children": asked }));
    let run = doomed.until(|event| (event["event"] == "run").then(|| event["run"].as_str().expect("an id").to_owned()));
    doomed.until(|event| event["entry"].get("child_begun").map(drop));
    doomed.kill();
    let ended = project.resume(&run).wait().expect_code(0);
    assert_eq!(ended.of_kind("ended").last().expect("an end")["result"], json!([null, "the last"]));
    let rows = project.runs(&[]);
    assert!(rows.iter().all(|row| row["status"] == "succeeded"), "{rows:#?}");
    // The parent, the child that naps, and three generations: each once.
    assert_eq!(rows.len(), 5, "{rows:#?}");
}

/// A parent that is terminated, and a child in each state that it can be found in: it is on record at once that the child is to cancel,
/// and it comes to that when it can.
#[test]
fn a_child_in_any_state_is_asked_to_cancel_when_its_parent_is_terminated() {
    let shop = Server::start(|request| match request.number {
        1 | 2 => Reply::Drop,
        _ => Reply::Hang,
    });
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    for kills in [false, true] {
        let charges = json!({ "input": { "does": "charges", "url": shop.url() } });
        let asked = json!([
            { "input": { "does": "waits" } },
            { "input": { "does": "sleeps" } },
            charges,
            { "workflow": "parent", "input": { "children": [{ "input": { "does": "sleeps" } }] } },
            { "input": { "does": "returns", "value": 1 } },
        ]);
        let run = start(&server, "parent", &json!({ "input": { "children": asked } }));
        let found: Vec<String> = until_children(&server, &run, 5).iter().map(id).collect();
        let [waits, sleeps, blocked, parent, returns] = &found[..] else { panic!("{found:#?}") };
        until_waiting(&server, waits);
        until_waiting(&server, sleeps);
        until_waiting(&server, parent);
        let below = id(&until_children(&server, parent, 1)[0]);
        until_waiting(&server, &below);
        while shown(&server, blocked)["status"] != "blocked" {
            std::thread::yield_now();
        }
        drop(server.ended(returns));
        drop(server.post(&format!("/v1/runs/{run}/terminate"), &json!({})).expect(202));
        if kills {
            server.kill();
            server = project.serve(&[]);
        }
        for child in [waits, sleeps] {
            assert_eq!(server.ended(child)["status"], "cancelled");
        }
        // The parent in between takes it as it comes, and its own child goes down before it.
        assert_eq!(server.ended(parent)["status"], "succeeded");
        assert_eq!(server.ended(&below)["status"], "cancelled");
        assert_eq!(server.ended(returns)["status"], "succeeded");
        // What is unknown stays so, and it is on record that the run is to cancel.
        let asked = |api: &Api| {
            let journal = api.get(&format!("/v1/runs/{blocked}/journal")).expect(200).body;
            let entries = journal["entries"].as_array().expect("a list of entries").clone();
            entries.iter().filter(|entry| entry["entry"]["cancel_requested"].is_object()).count()
        };
        while asked(&server) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(asked(&server), 1);
        let resolved = json!({ "outcome": "succeeded", "result": 201, "evidence": "on the statement" });
        let path = format!("/v1/runs/{blocked}/steps/charge/resolve");
        let answer = server.post(&path, &resolved);
        assert!(answer.status < 300, "{answer:#?}");
        assert_eq!(server.ended(blocked)["result"], 201);
    }
}
