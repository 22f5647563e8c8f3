//! `stepwell backup` and `stepwell restore`: what a copy has, and what is known of runs that went on after it was made.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use stepwell_tests::{Api, Module, Project, Reply, Server};

use crate::api_runs::{start, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(|| Module::build("pay.ts", include_str!("restore/pay.ts")));

/// A server that charges whoever asks, except that the second answer to an order called `lost` never comes.
fn bank() -> Server {
    Server::start(|request| match request.path.as_str() {
        path if path.contains("/lost-") => Reply::Hang,
        path => Reply::Answer(201, format!("charged {path}")),
    })
}

/// Every charge that was asked for: its path, and the keys under which it was.
pub(crate) fn charges(bank: &Server) -> BTreeMap<String, Vec<String>> {
    let mut charges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for request in bank.requests() {
        let key = request.key().unwrap_or_else(|| panic!("a charge without a key: {request:#?}")).to_owned();
        charges.entry(request.path).or_default().push(key);
    }
    charges
}

pub(crate) fn seen(api: &Api, run: &str) -> Value {
    api.get(&format!("/v1/runs/{run}")).expect(200).body
}

fn event(api: &Api, run: &str, name: &str) {
    drop(api.post(&format!("/v1/runs/{run}/events/{name}"), &json!(null)).expect(202));
}

pub(crate) fn back_up(project: &Project, name: &str) -> String {
    let file = project.path().join(name).display().to_string();
    let copied = project.stepwell(&["backup", &file, "--json"]).expect_code(0).events;
    assert_eq!(copied[0]["file"], json!(file));
    assert_eq!(copied[0]["bytes"].as_u64(), std::fs::metadata(&file).ok().map(|metadata| metadata.len()));
    file
}

/// Restores the copy over what there is, and answers the epoch's name.
pub(crate) fn restore(project: &Project, file: &str, args: &[&str]) -> (String, Value) {
    let mut all = vec!["restore", file, "--replace", "--json"];
    all.extend(args);
    let restored = project.stepwell(&all).expect_code(0).events.remove(0);
    (restored["epoch"].as_str().expect("the epoch has a name").to_owned(), restored)
}

/// The steps that are unknown, by run: name and whether they may have been attempted after the copy.
pub(crate) fn unknown(project: &Project) -> BTreeMap<String, (String, bool)> {
    let steps = project.stepwell(&["steps", "list", "--json"]).expect_code(0).events;
    let text = |value: &Value| value.as_str().expect("it is text").to_owned();
    steps.iter().map(|s| (text(&s["run"]), (text(&s["step"]), s["afterCopy"] == true))).collect()
}

pub(crate) fn resolve(project: &Project, run: &str, step: &str, finding: &[&str]) {
    let mut args = vec!["steps", "resolve", run, step, "--evidence", "asked the bank"];
    args.extend(finding);
    drop(project.stepwell(&args).expect_code(0));
}

/// Runs of either class that stand before their first charge, in it, between the two, and at their end.
struct Orders {
    before: BTreeMap<&'static str, String>,
    within: BTreeMap<&'static str, String>,
    between: BTreeMap<&'static str, String>,
    over: BTreeMap<&'static str, String>,
}

const CLASSES: [&str; 2] = ["keyed", "once"];

fn orders(api: &Api, bank: &Server) -> Orders {
    let order = |name: &str, effect: &str| {
        let input = json!({ "url": bank.url(), "order": format!("{name}-{effect}"), "effect": effect });
        let run = start(api, "pay", &json!({ "input": input }));
        drop(until_waiting(api, &run));
        run
    };
    let all = |name: &str| CLASSES.map(|effect| (effect, order(name, effect))).into_iter().collect::<BTreeMap<_, _>>();
    let (before, within, between, over) = (all("before"), all("lost"), all("between"), all("over"));
    for run in between.values().chain(over.values()) {
        event(api, run, "go");
        drop(waits_for(api, run, "more"));
    }
    for run in over.values() {
        event(api, run, "more");
        assert_eq!(api.ended(run)["status"], "succeeded");
    }
    for run in within.values() {
        event(api, run, "go");
    }
    bank.wait_for(2 + 4 + 2);
    Orders { before, within, between, over }
}

fn waits_for(api: &Api, run: &str, event: &str) -> Value {
    loop {
        let shown = until_waiting(api, run);
        if shown["detail"].as_str().is_some_and(|detail| detail.contains(&format!("{event:?}"))) {
            return shown;
        }
    }
}

#[test]
fn what_followed_a_copy_is_unknown_and_nothing_of_it_is_repeated() {
    let (project, bank) = (Project::new(), bank());
    let server = project.serve_with(&MODULE);
    let done = AtomicBool::new(false);
    let (file, orders) = std::thread::scope(|scope| {
        let api = (*server).clone();
        // Something is written all the time.
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::Relaxed) {
                drop(api.ended(&start(&api, "busy", &json!({ "input": 50 }))));
            }
        });
        let orders = orders(&server, &bank);
        let file = back_up(&project, "copy.db");
        done.store(true, Ordering::Relaxed);
        (file, orders)
    });
    // All of this is lost.
    let after: Vec<String> = CLASSES
        .map(|effect| {
            let input = json!({ "url": bank.url(), "order": format!("after-{effect}"), "effect": effect });
            start(&server, "pay", &json!({ "input": input }))
        })
        .into();
    for run in orders.before.values() {
        event(&server, run, "go");
    }
    for run in orders.between.values() {
        event(&server, run, "more");
        assert_eq!(server.ended(run)["status"], "succeeded");
    }
    for run in orders.before.values() {
        drop(waits_for(&server, run, "more"));
    }
    server.kill();
    let made = charges(&bank);

    let (epoch, restored) = restore(&project, &file, &[]);
    assert!(Path::new(restored["aside"].as_str().unwrap_or_default()).join("stepwell.db").exists(), "{restored}");
    let server = project.serve(&[]);
    for run in &after {
        drop(server.get(&format!("/v1/runs/{run}")).problem(404, "not_found"));
    }
    // What was over in the copy is over, with all that it had.
    for run in orders.over.values() {
        assert_eq!(seen(&server, run)["status"], "succeeded");
        assert_eq!(server.ended(run)["result"].as_array().map(Vec::len), Some(2));
    }
    let open = || orders.before.values().chain(orders.within.values()).chain(orders.between.values());
    for run in open() {
        let shown = seen(&server, run);
        let detail = shown["detail"].as_str().unwrap_or_default();
        assert!(shown["status"] == "paused" && detail.contains("restored from a copy"), "{shown:#}");
    }
    // They go on as far as nothing is in doubt, whatever comes.
    for run in open() {
        event(&server, run, "go");
        event(&server, run, "more");
        drop(server.post(&format!("/v1/runs/{run}/resume"), &json!({})).expect(202));
    }
    for run in open() {
        drop(until_status(&server, run, "blocked"));
    }
    assert!(server.stop().code == Some(0));
    assert_eq!(charges(&bank), made, "nothing was sent again, and nothing new");
    let unknown = unknown(&project);
    for (runs, step) in [(&orders.before, "first"), (&orders.within, "first"), (&orders.between, "second")] {
        for run in runs.values() {
            assert_eq!(unknown.get(run), Some(&(step.to_owned(), true)), "{unknown:#?}");
        }
    }

    // What happened is said to have happened; the rest is tried again, under keys that nobody has seen.
    for run in orders.before.values() {
        resolve(&project, run, "first", &["--succeeded", "\"charged\""]);
    }
    for run in orders.within.values() {
        resolve(&project, run, "first", &["--failed", "it was not charged"]);
    }
    for run in orders.between.values() {
        resolve(&project, run, "second", &["--succeeded", "\"charged too\""]);
    }
    for run in orders.between.values() {
        assert_eq!(project.resume(run).wait().expect_code(0).result()[1], "charged too");
    }
    for run in orders.within.values() {
        drop(project.resume(run).wait().expect_code(1));
    }
    for run in orders.before.values() {
        // The second charge of these runs did not happen before the database was lost; nobody here knows that.
        drop(project.resume(run).wait().expect_code(4));
        resolve(&project, run, "second", &["--retry"]);
        assert_eq!(project.resume(run).wait().expect_code(0).result()[0], "charged");
    }
    let keys = charges(&bank);
    for effect in CLASSES {
        let charged = &keys[&format!("/before-{effect}/second")];
        assert_eq!(*charged, [format!("{}:second:r{epoch}:e1", orders.before[effect])]);
    }
    assert_eq!(keys.len(), made.len() + 2, "{keys:#?}");
    let all: Vec<&String> = keys.values().flatten().collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "no key has two uses: {keys:#?}");
    let mut bodies = bank.requests().into_iter().filter(|request| request.path.starts_with("/before-keyed/second"));
    let body: Value =
        serde_json::from_slice(&bodies.next_back().expect("it was charged").body).expect("the body is JSON");
    assert_eq!(body["attempt"], 100_001);
    let run = &orders.before["keyed"];
    assert_eq!(body["idempotencyKey"], format!("{run}:second:r{epoch}:100001"));
    assert_eq!(body["operationKey"], format!("{run}:second:r{epoch}"));
}

/// Asks until the run stands so.
pub(crate) fn until_status(api: &Api, run: &str, status: &str) -> Value {
    loop {
        let shown = seen(api, run);
        if shown["status"] == status {
            return shown;
        }
        assert!(!["succeeded", "failed", "cancelled", "terminated"].contains(&shown["status"].as_str().unwrap_or("")));
        std::thread::yield_now();
    }
}

#[test]
fn a_run_that_nothing_followed_goes_on_once_somebody_says_so() {
    let (project, bank) = (Project::new(), bank());
    let server = project.serve_with(&MODULE);
    let input = json!({ "url": bank.url(), "order": "a", "effect": "once" });
    let run = start(&server, "pay", &json!({ "input": input }));
    drop(until_waiting(&server, &run));
    server.kill();
    let file = back_up(&project, "copy.db");
    let (epoch, _) = restore(&project, &file, &[]);
    let args = ["steps", "nothing-followed", &run, "--evidence"];
    let said = |evidence: &str, code| drop(project.stepwell(&[&args[..], &[evidence]].concat()).expect_code(code));
    said("  ", 2);
    said("the server was down", 0);
    let server = project.serve(&[]);
    assert_eq!(seen(&server, &run)["status"], "paused");
    drop(server.post(&format!("/v1/runs/{run}/resume"), &json!({})).expect(202));
    event(&server, &run, "go");
    event(&server, &run, "more");
    assert_eq!(server.ended(&run)["status"], "succeeded");
    let key = |step| vec![format!("{run}:{step}:r{epoch}:e1")];
    let expected: BTreeMap<_, _> =
        [("/a/first".to_owned(), key("first")), ("/a/second".to_owned(), key("second"))].into_iter().collect();
    assert_eq!(charges(&bank), expected);
    assert!(server.stop().code == Some(0));
    let journal = project.journal(&run);
    let entry = journal.iter().find_map(|entry| entry["entry"].get("nothing_followed")).expect("it is on record");
    assert_eq!(entry["evidence"], "the server was down");
    said("again", 2);
}

#[test]
fn a_copy_of_a_stopped_server_moves_with_all_that_waits() {
    let (project, other, bank) = (Project::new(), Project::new(), bank());
    let server = project.serve_with(&MODULE);
    let run = start(&server, "later", &json!({ "input": { "url": bank.url(), "ms": 1_000 } }));
    drop(until_waiting(&server, &run));
    assert!(server.stop().code == Some(0));
    let file = back_up(&project, "copy.db");
    let restored = other.stepwell(&["restore", &file, "--nothing-followed", "--json"]).expect_code(0).events;
    assert_eq!((&restored[0]["openRuns"], &restored[0]["aside"]), (&json!(1), &json!(null)));
    let server = other.serve(&[]);
    assert_eq!(server.ended(&run)["result"], "charged /later");
    let epoch = restored[0]["epoch"].as_str().expect("the epoch has a name");
    assert_eq!(charges(&bank)["/later"], [format!("{run}:charge:r{epoch}:e1")]);
}

#[test]
fn a_database_that_is_behind_is_refused_and_restored_in_its_place() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "busy", &json!({ "input": 3 }));
    drop(server.ended(&run));
    let file = back_up(&project, "copy.db");
    drop(server.ended(&start(&server, "busy", &json!({ "input": 3 }))));
    assert!(server.stop().code == Some(0));
    // Somebody puts the older copy back by hand.
    let database = project.data_dir().join("stepwell.db");
    std::fs::copy(&file, &database).expect("a file can be copied");
    let refused = project.stepwell(&["serve", "--listen", "127.0.0.1:0"]).expect_code(6);
    assert!(refused.stderr.contains("stepwell restore"), "{refused:#?}");
    // Not by accident either.
    let database = database.display().to_string();
    let refused = project.stepwell(&["restore", &database]).expect_code(2);
    assert!(refused.stderr.contains("--replace"), "{refused:#?}");
    drop(restore(&project, &database, &[]));
    let server = project.serve(&[]);
    assert_eq!(server.ended(&run)["result"], 3);
    assert_eq!(server.get("/v1/runs").expect(200).body["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_no_copy_is_refused_and_what_is_there_is_left_alone() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "busy", &json!({ "input": 3 }));
    drop(server.ended(&run));
    let file = back_up(&project, "copy.db");
    let text = |name: &str| project.path().join(name).display().to_string();
    // A copy never takes the place of another.
    drop(project.stepwell(&["backup", &file]).expect_code(2));
    drop(project.stepwell(&["backup", &text("nowhere/copy.db")]).expect_code(6));
    drop(project.stepwell(&["restore", &file, "--replace"]).expect_code(6));
    assert!(server.stop().code == Some(0));

    let bytes = std::fs::read(&file).expect("the copy can be read");
    project.write("notes.db", &"these are notes, no database\n".repeat(1_000));
    std::fs::write(project.path().join("torn.db"), &bytes[..bytes.len() / 2]).expect("a file can be written");
    for (name, code) in [("nothing.db", 2), ("notes.db", 6), ("torn.db", 6)] {
        let refused = project.stepwell(&["restore", &text(name), "--replace"]).expect_code(code);
        assert!(refused.stderr.contains("error:"), "{refused:#?}");
    }
    let newer = rusqlite::Connection::open(&file).expect("the copy is a database");
    newer.pragma_update(None, "user_version", 99).expect("a version can be set");
    drop(newer);
    let refused = project.stepwell(&["restore", &file, "--replace"]).expect_code(6);
    assert!(refused.stderr.contains("version 99"), "{refused:#?}");
    let names: Vec<String> = std::fs::read_dir(project.path())
        .and_then(|files| files.map(|file| Ok(file?.file_name().to_string_lossy().into_owned())).collect())
        .expect("the directory can be listed");
    assert!(!names.iter().any(|name| name.contains("partial")), "{names:?}");
    assert!(!project.data_dir().join("replaced-1").exists());
    let server = project.serve(&[]);
    assert_eq!(server.ended(&run)["result"], 3);
}
