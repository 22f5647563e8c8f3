//! Workflows that are started by the clock: each time once, across kills, restarts and replacements; what they do when a run is open, when
//! they are late, and when they cannot start one.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use stepwell_tests::{Answer, Api, Project};

use crate::api_keys::MODULE;

pub(crate) const EVERY_SECOND: &str = "* * * * * *";

pub(crate) fn put(api: &Api, name: &str, body: &Value) -> Answer {
    api.send("PUT", &format!("/v1/schedules/{name}"), body)
}

pub(crate) fn shown(api: &Api, name: &str) -> Value {
    api.get(&format!("/v1/schedules/{name}")).expect(200).body
}

pub(crate) fn ask(api: &Api, name: &str, what: &str) -> Value {
    api.post(&format!("/v1/schedules/{name}/{what}"), &json!({})).expect(200).body
}

fn number(schedule: &Value, name: &str) -> u64 {
    schedule[name].as_u64().unwrap_or_else(|| panic!("{name}: {schedule:#}"))
}

/// The last time for which it has started a run, in ms.
fn last(api: &Api, name: &str) -> Option<u64> {
    shown(api, name)["lastFired"]["atMs"].as_u64()
}

pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    u64::try_from(since.as_millis()).expect("a time")
}

/// The runs of a schedule, the earliest first.
pub(crate) fn runs(api: &Api, name: &str) -> Vec<Value> {
    let list = api.get(&format!("/v1/runs?limit=1000&tag=schedule%3D{name}")).expect(200).body;
    let mut runs = list["runs"].as_array().expect("a list").clone();
    runs.reverse();
    runs
}

/// Looks until it is so. Fails where it does not come to that within a minute.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = SystemTime::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed().is_ok_and(|passed| passed < Duration::from_secs(60)), "{what}");
        std::thread::yield_now();
    }
}

pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, || is_so().then_some(()));
}

/// The times for which runs were started, by their run keys, in seconds since the Unix epoch.
fn times(api: &Api, name: &str) -> Vec<u64> {
    let prefix = format!("schedule:{name}:");
    let listed = runs(api, name);
    let keys = listed.iter().map(|run| run["runKey"].as_str().expect("it has a run key"));
    keys.map(|key| seconds(key.strip_prefix(&prefix).unwrap_or_else(|| panic!("{key}")))).collect()
}

/// Each second from the first that has fired up to its pause is fired or counted once. The times that have fired.
fn accounted_for(api: &Api, name: &str) -> Vec<u64> {
    let paused = ask(api, name, "pause");
    let fired = times(api, name);
    let missing: u64 = fired.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
    // What was due when it was paused is among them.
    let pending = number(&paused, "changedAtMs") / 1_000 - fired.last().expect("it has fired");
    let counted = number(&paused, "missed") + number(&paused, "overlapped");
    assert!((missing..=missing + pending).contains(&counted), "{missing} {pending} {fired:?} {paused:#}");
    assert_eq!(number(&paused, "fired"), fired.len() as u64);
    fired
}

/// `2026-11-30T09:00:00Z` as seconds since the Unix epoch.
pub(crate) fn seconds(text: &str) -> u64 {
    let time: jiff::Timestamp = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    u64::try_from(time.as_second()).expect("after 1970")
}

/// A statement on the database of a server that does not run.
pub(crate) fn execute(project: &Project, sql: &str) {
    let database = rusqlite::Connection::open(project.data_dir().join("stepwell.db")).expect("the database opens");
    assert!(database.execute(sql, []).expect("it is a statement") > 0, "{sql}");
}

#[test]
fn no_time_is_lost_or_fires_twice_when_the_server_is_killed_again_and_again() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    let every = json!({ "workflow": "echo", "cron": EVERY_SECOND, "input": { "n": 1.50 }, "overlap": "allow", "catchUp": 1000 });
    let first = number(&put(&server, "tick", &every).expect(201).body, "nextMs") / 1_000;
    wait("it fires", || last(&server, "tick").is_some());
    // Just when it has fired, and just when it begins to make up for what it has missed.
    for n in 0..8_u64 {
        if n % 2 == 0 {
            let fired = last(&server, "tick");
            wait("it fires", || last(&server, "tick") != fired);
        }
        server.kill();
        server = project.serve(&[]);
    }
    let caught_up = now_ms() / 1_000;
    wait("what was missed is made up for", || last(&server, "tick").is_some_and(|at_ms| at_ms / 1_000 >= caught_up));
    let stands = ask(&server, "tick", "pause");
    let last = stands["lastFired"]["atMs"].as_u64().expect("a time") / 1_000;
    let fired = times(&server, "tick");
    assert_eq!(fired.iter().copied().collect::<BTreeSet<_>>().len(), fired.len(), "a time has fired twice: {fired:?}");
    assert_eq!(fired, (first..=last).collect::<Vec<_>>(), "a time is missing");
    assert_eq!(number(&stands, "fired"), fired.len() as u64);
    assert_eq!(number(&stands, "overlapped"), 0);
    for run in runs(&server, "tick") {
        let run = run["id"].as_str().expect("a run");
        assert_eq!(server.ended(run)["result"], json!({ "n": 1.50 }));
    }
}

#[test]
fn an_open_run_is_waited_for_passed_over_or_joined_also_by_a_server_that_was_killed() {
    let project = Project::new();
    let mut server = project.serve_with(&MODULE);
    for overlap in ["skip", "queue", "allow"] {
        let body =
            json!({ "workflow": "waiting", "cron": EVERY_SECOND, "overlap": overlap, "tags": { "of": overlap } });
        drop(put(&server, overlap, &body).expect(201));
    }
    // Of two of them the first run is open, whatever dies; of the third several are.
    for n in 1..=2 {
        wait("others run beside it", || runs(&server, "allow").len() >= 2 * n);
        wait("times pass", || number(&shown(&server, "skip"), "overlapped") >= 2 * n as u64);
        wait("it waits", || shown(&server, "queue")["state"] == "waiting");
        server.kill();
        server = project.serve(&[]);
    }
    drop(ask(&server, "allow", "pause"));
    let (skip, queue) = (runs(&server, "skip"), runs(&server, "queue"));
    assert_eq!((skip.len(), queue.len()), (1, 1));
    assert_eq!(queue[0]["tags"], json!({ "of": "queue", "schedule": "queue" }));
    assert!(number(&shown(&server, "queue"), "nextMs") < now_ms(), "its time has come");
    assert_eq!(shown(&server, "skip")["lastSkipped"]["reason"], "overlap");
    for (name, open) in [("skip", &skip[0]), ("queue", &queue[0])] {
        let id = open["id"].as_str().expect("a run");
        drop(server.post(&format!("/v1/runs/{id}/events/answer"), &json!(1)).expect(202));
        drop(server.ended(id));
        wait("the next one is started", || runs(&server, name).len() == 2);
    }
    // Of all that came meanwhile it makes up for one, and says how many are missing.
    assert_eq!(accounted_for(&server, "queue").len(), 2);
    assert_eq!(number(&shown(&server, "queue"), "overlapped"), 0);
    assert_eq!(accounted_for(&server, "skip").len(), 2);
}

#[test]
fn a_time_that_waits_is_gone_with_its_schedule() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let body = json!({ "workflow": "waiting", "cron": EVERY_SECOND, "overlap": "queue" });
    drop(put(&server, "s", &body).expect(201));
    wait("it waits", || shown(&server, "s")["state"] == "waiting");
    assert_eq!(server.delete("/v1/schedules/s").status, 204);
    let first = runs(&server, "s")[0]["id"].as_str().expect("a run").to_owned();
    // One of the same name has other times to deal with, and still knows the run: it waits too.
    drop(put(&server, "s", &body).expect(201));
    wait("it waits", || shown(&server, "s")["state"] == "waiting");
    assert_eq!(server.delete("/v1/schedules/s").status, 204);
    drop(server.post(&format!("/v1/runs/{first}/events/answer"), &json!(1)).expect(202));
    drop(server.ended(&first));
    // Another one fires twice meanwhile.
    drop(put(&server, "other", &json!({ "workflow": "echo", "cron": EVERY_SECOND })).expect(201));
    wait("it fires", || number(&shown(&server, "other"), "fired") >= 2);
    assert_eq!(runs(&server, "s").len(), 1);
}

#[test]
fn what_was_missed_is_made_up_for_as_far_as_it_is_said_and_what_was_paused_is_not() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let body =
        |catch_up: u64| json!({ "workflow": "echo", "cron": EVERY_SECOND, "overlap": "allow", "catchUp": catch_up });
    for (name, catch_up) in [("two", 2), ("none", 0), ("paused", 100)] {
        drop(put(&server, name, &body(catch_up)).expect(201));
        wait("it fires", || last(&server, name).is_some());
    }
    let paused = server.keyed("stop").post("/v1/schedules/paused/pause", &json!({})).expect(200).body;
    assert_eq!((&paused["state"], paused.get("nextMs")), (&json!("paused"), None));
    let again = server.keyed("stop").post("/v1/schedules/paused/pause", &json!({})).expect(200);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &paused));
    server.kill();
    let down_until = now_ms() + 6_000;
    wait("six seconds pass", || now_ms() >= down_until);
    let server = project.serve(&[]);
    for (name, at_most) in [("two", 2), ("none", 1)] {
        wait("it fires again", || number(&shown(&server, name), "missed") > 0);
        let fired = accounted_for(&server, name);
        let missing: u64 = fired.windows(2).map(|pair| pair[1] - pair[0] - 1).sum();
        // On a machine that is busy enough it is late again later.
        assert!(missing >= 6 - at_most - 1, "all but {at_most} of six seconds: {fired:?}");
    }
    let before = times(&server, "paused");
    let stands = shown(&server, "paused");
    assert_eq!((&stands["state"], &stands["changedBy"]), (&json!("paused"), &paused["changedBy"]));
    let resumed_at = now_ms();
    drop(ask(&server, "paused", "resume"));
    wait("it fires again", || times(&server, "paused").len() > before.len());
    assert!(times(&server, "paused")[before.len()] * 1_000 > resumed_at, "it goes on with its next time");
}

#[test]
fn one_that_cannot_start_its_run_says_why_until_it_can() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    for (name, catch_up) in [("s", 2), ("other", 1)] {
        let workflow = if name == "s" { "echo" } else { "other" };
        let body = json!({ "workflow": workflow, "cron": EVERY_SECOND, "catchUp": catch_up, "overlap": "allow" });
        drop(put(&server, name, &body).expect(201));
    }
    wait("it fires", || last(&server, "s").is_some());
    assert!(server.stop().code == Some(0));
    execute(&project, "DELETE FROM workflows WHERE name = 'echo'");
    let server = project.serve(&[]);
    let failing = until("it fails", || Some(shown(&server, "s")).filter(|shown| shown["state"] == "failing"));
    assert!(failing["detail"].as_str().is_some_and(|text| text.contains("no module is active")), "{failing:#}");
    assert!(failing["failingSinceMs"].as_u64().is_some());
    let listed = server.get("/v1/schedules").expect(200).body;
    assert_eq!(listed["schedules"][1]["state"], "failing", "{listed:#}");
    let metrics = server.get("/metrics").expect(200).body;
    let metrics = metrics.as_str().expect("text");
    assert!(metrics.contains("stepwell_schedules{state=\"failing\"} 1"), "{metrics}");
    assert!(!metrics.contains("stepwell_schedule_firings_total{outcome=\"failed\"} 0"), "{metrics}");
    // It holds up no other.
    let fired = number(&shown(&server, "other"), "fired");
    wait("another fires", || number(&shown(&server, "other"), "fired") > fired + 3);
    let before = times(&server, "s");
    let modules = server.get("/v1/modules").expect(200).body;
    let digest = modules["modules"][0]["digest"].clone();
    drop(server.post("/v1/workflows/echo/activate", &json!({ "digest": digest })).expect(200));
    let mended = until("it fires again", || Some(shown(&server, "s")).filter(|shown| shown["state"] == "active"));
    assert_eq!((mended.get("detail"), mended.get("failingSinceMs")), (None, None));
    assert_eq!(mended["lastSkipped"]["reason"], "failed", "{mended:#}");
    assert!(accounted_for(&server, "s").len() > before.len());
}

#[test]
fn a_clock_that_was_ahead_is_said_and_a_schedule_begins_anew_when_it_is_resumed() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    for name in ["ahead", "late"] {
        let body = json!({ "workflow": "echo", "cron": EVERY_SECOND, "catchUp": 2, "overlap": "allow" });
        drop(put(&server, name, &body).expect(201));
        wait("it fires", || last(&server, name).is_some());
    }
    assert!(server.stop().code == Some(0));
    // As a clock leaves it that was ten years ahead when it last fired; and one that was a day behind.
    let ahead_ms = now_ms() / 1_000 * 1_000 + 315_360_000_000;
    execute(&project, &format!("UPDATE schedules SET next_ms = {ahead_ms} WHERE name = 'ahead'"));
    execute(&project, "UPDATE schedules SET next_ms = next_ms - 86400000 WHERE name = 'late'");
    let server = project.serve(&[]);
    let late = until("it fires", || Some(shown(&server, "late")).filter(|shown| number(shown, "missed") > 0));
    // A day has more times than are counted.
    assert_eq!((number(&late, "missed"), &late["lastSkipped"]["reason"]), (10_000, &json!("missed")));
    let ahead = shown(&server, "ahead");
    assert_eq!((&ahead["state"], number(&ahead, "nextMs")), (&json!("behind"), ahead_ms));
    assert!(ahead["detail"].as_str().is_some_and(|text| text.contains("clock")), "{ahead:#}");
    let fired = number(&ahead, "fired");
    let resumed = ask(&server, "ahead", "resume");
    assert_eq!(resumed["state"], "active");
    wait("it fires", || number(&shown(&server, "ahead"), "fired") > fired);
    let fired = times(&server, "ahead");
    assert_eq!(fired.iter().copied().collect::<BTreeSet<_>>().len(), fired.len(), "{fired:?}");
}

#[test]
fn a_time_whose_run_key_is_taken_starts_nothing_and_says_so() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    drop(put(&server, "s", &json!({ "workflow": "echo", "cron": EVERY_SECOND, "overlap": "allow" })).expect(201));
    wait("it fires", || last(&server, "s").is_some());
    // Made anew when the clock had been set back, for one: its next time has had its run.
    let fired = ask(&server, "s", "pause")["lastFired"].clone();
    assert!(server.stop().code == Some(0));
    let set = format!("paused = NULL, next_ms = {}", fired["atMs"]);
    execute(&project, &format!("UPDATE schedules SET {set}, told = json_remove(told, '$.last') WHERE name = 's'"));
    let server = project.serve(&["--rate-limit", "0"]);
    let again = until("it is dealt with", || Some(shown(&server, "s")).filter(|shown| shown["lastFired"].is_object()));
    if again["lastFired"]["atMs"] == fired["atMs"] {
        assert_eq!((&again["lastFired"]["run"], &again["lastFired"]["existed"]), (&fired["run"], &json!(true)));
    }
    wait("it goes on", || last(&server, "s") > fired["atMs"].as_u64());
    let times = times(&server, "s");
    assert_eq!(times.iter().copied().collect::<BTreeSet<_>>().len(), times.len(), "{times:?}");
}
