//! Making, seeing, replacing, pausing and taking away schedules, by the API and the command line; and after a database was restored.

use serde_json::{Value, json};
use stepwell_tests::Project;

use crate::api_keys::MODULE;
use crate::restore::{back_up, restore};
use crate::schedules::{EVERY_SECOND, ask, now_ms, put, runs, seconds, shown, until, wait};

#[test]
fn schedules_are_made_seen_replaced_and_taken_away() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let body = json!({ "workflow": "echo", "cron": "30 2 * * *", "timeZone": "Europe/Berlin", "input": [1] });
    let made = put(&server.keyed("make"), "nightly", &body).expect(201).body;
    assert_eq!((&made["overlap"], &made["catchUp"], &made["state"]), (&json!("skip"), &json!(1), &json!("active")));
    let again = put(&server.keyed("make"), "nightly", &body).expect(201);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &made));
    drop(put(&server.keyed("make"), "other", &body).problem(422, "idempotency_key_reuse"));
    assert_eq!(put(&server, "nightly", &body).expect(200).body, made, "the same again changes nothing");
    assert_eq!(put(&server.keyed("same"), "nightly", &body).expect(200).body, made);
    // The night in which clocks are put forward, and the one in which they are put back.
    let next = |after: &str| {
        let path = format!("/v1/schedules/nightly?next=2&afterMs={}", seconds(after) * 1_000);
        let firings = server.get(&path).expect(200).body["next"].clone();
        [0, 1].map(|n| firings[n]["runKey"].as_str().expect("a run key").to_owned())
    };
    let key = |at: &str| format!("schedule:nightly:{at}");
    assert_eq!(next("2027-03-27T12:00:00Z"), [key("2027-03-28T01:00:00Z"), key("2027-03-29T00:30:00Z")]);
    assert_eq!(next("2027-10-30T12:00:00Z"), [key("2027-10-31T00:30:00Z"), key("2027-11-01T01:30:00Z")]);

    drop(ask(&server, "nightly", "pause"));
    let later = json!({ "workflow": "echo", "cron": "0 4 * * *" });
    let replaced = put(&server, "nightly", &later).expect(200).body;
    assert_eq!((&replaced["cron"], &replaced["state"]), (&json!("0 4 * * *"), &json!("paused")), "it stays paused");
    for n in 0..3 {
        drop(put(&server, &format!("s{n}"), &later).expect(201));
    }
    let page = server.get("/v1/schedules?limit=3").expect(200).body;
    assert_eq!(page["cursor"], "s1");
    let rest = server.get("/v1/schedules?limit=3&cursor=s1").expect(200).body;
    let names = rest["schedules"].as_array().map(|list| list.iter().map(|one| &one["name"]).collect::<Vec<_>>());
    assert_eq!(names, Some(vec![&json!("s2")]));
    assert_eq!(server.delete("/v1/schedules/s0").status, 204);
    drop(server.delete("/v1/schedules/s0").problem(404, "not_found"));
}

#[test]
fn what_could_never_start_a_run_is_refused() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    for (wrong, said) in [
        (json!({ "cron": "0 4 * *" }), "cron"),
        (json!({ "cron": "0 0 30 2 *" }), "never fires"),
        (json!({ "timeZone": "Mars/Olympus" }), "timeZone"),
        (json!({ "catchUp": 1001 }), "catchUp"),
        (json!({ "catchUp": 0, "overlap": "queue" }), "at least 1"),
        (json!({ "tags": { "schedule": "x" } }), "tag"),
        (json!({ "overlaps": "skip" }), "overlaps"),
        (json!({ "workflow": 7 }), "expected a string"),
    ] {
        let mut body = json!({ "workflow": "echo", "cron": "0 4 * * *" });
        body.as_object_mut().expect("an object").extend(wrong.as_object().expect("an object").clone());
        let problem = put(&server, "wrong", &body).problem(400, "invalid_request").body;
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(said)), "{said}: {problem:#}");
    }
    let daily = |more: Value| {
        let mut body = json!({ "workflow": "echo", "cron": "0 4 * * *" });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        put(&server, "wrong", &body)
    };
    drop(daily(json!({ "workflow": "nobody" })).problem(422, "workflow_not_active"));
    assert_eq!(daily(json!({ "input": "x".repeat(2 << 20) })).status, 413);
    assert_eq!(daily(json!({ "runTimeoutMs": 0 })).status, 422);
    assert_eq!(put(&server, &"n".repeat(201), &json!({ "workflow": "echo", "cron": "0 4 * * *" })).status, 400);
    for (method, path) in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume")] {
        drop(server.send(method, &format!("/v1/schedules/wrong{path}"), &json!({})).problem(404, "not_found"));
    }
}

#[test]
fn what_is_due_stays_so_when_its_times_do_and_is_passed_over_when_they_change() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let body = |cron: &str, input: u64| json!({ "workflow": "waiting", "cron": cron, "overlap": "queue", "input": { "times": input } });
    drop(put(&server, "s", &body(EVERY_SECOND, 1)).expect(201));
    let waiting = until("it waits", || Some(shown(&server, "s")).filter(|shown| shown["state"] == "waiting"));
    let kept = put(&server, "s", &body(EVERY_SECOND, 2)).expect(200).body;
    assert_eq!((&kept["nextMs"], &kept["state"]), (&waiting["nextMs"], &json!("waiting")));
    let replaced = put(&server, "s", &body("0 4 1 1 *", 2)).expect(200).body;
    assert!(replaced["nextMs"].as_u64().is_some_and(|at_ms| at_ms > now_ms()), "{replaced:#}");
    assert_eq!(replaced["lastSkipped"]["reason"], "replaced");
    assert!(replaced["missed"].as_u64().is_some_and(|missed| missed > 0));
    // So is what is due when it is paused.
    drop(put(&server, "s", &body(EVERY_SECOND, 2)).expect(200));
    wait("it waits", || shown(&server, "s")["state"] == "waiting");
    assert_eq!(ask(&server, "s", "pause")["lastSkipped"]["reason"], "paused");
    assert_eq!(runs(&server, "s").len(), 1);
}

#[test]
fn who_may_not_deploy_makes_no_schedule_and_whoever_does_is_named() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let admin = server.post("/v1/tokens", &json!({ "principal": "ops", "scopes": ["admin"] })).expect(201).body;
    let admin = server.as_token(admin["token"].as_str().expect("it is shown once"));
    let made = |name: &str, scopes: &[&str]| {
        let made = admin.post("/v1/tokens", &json!({ "principal": name, "scopes": scopes })).expect(201).body;
        server.as_token(made["token"].as_str().expect("it is shown once"))
    };
    let body = json!({ "workflow": "echo", "cron": "0 4 * * *" });
    let (runner, ana, ben) = (made("runner", &["run", "read"]), made("ana", &["deploy"]), made("ben", &["deploy"]));
    drop(put(&runner, "s", &body).problem(403, "forbidden"));
    assert_eq!(put(&ana, "s", &body).expect(201).body["changedBy"], "ana");
    drop(runner.get("/v1/schedules/s").expect(200));
    for path in ["pause", "resume"] {
        drop(runner.post(&format!("/v1/schedules/s/{path}"), &json!({})).problem(403, "forbidden"));
    }
    drop(runner.delete("/v1/schedules/s").problem(403, "forbidden"));
    let paused = ask(&ben, "s", "pause");
    assert_eq!((&paused["changedBy"], &paused["detail"]), (&json!("ben"), &json!("it was paused by \"ben\"")));
}

#[test]
fn the_command_line_makes_and_shows_schedules() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let url = format!("http://{}", server.address());
    let run = |args: &[&str], code: i32| {
        let mut all = vec!["schedules"];
        all.extend(args);
        all.extend(["--url", &url]);
        project.stepwell(&all).expect_code(code)
    };
    let zone = ["--time-zone", "Asia/Kolkata"];
    let mut set = vec!["set", "report", "echo", "--cron", "0 9 * * MON", "--input", "1.50", "--json"];
    set.extend(zone);
    let set = run(&set, 0);
    assert_eq!(set.events[0]["timeZone"], "Asia/Kolkata");
    assert!(set.stdout.contains("1.50"), "the input is as it was written: {}", set.stdout);
    let seen = shown(&server, "report");
    assert_eq!((&seen["input"], &seen["cron"]), (&json!(1.5), &json!("0 9 * * MON")));
    drop(run(&["pause", "report"], 0));
    let list = run(&["list"], 0).stdout;
    assert!(list.contains("report  echo  0 9 * * MON Asia/Kolkata  paused: it was paused by"), "{list}");
    drop(run(&["resume", "report"], 0));
    let show = run(&["show", "report", "--next", "3"], 0).stdout;
    assert_eq!((show.matches("fires ").count(), show.matches("03:30:00").count()), (3, 4), "{show}");
    assert_eq!(run(&["list", "--json"], 0).events[0]["state"], "active");
    drop(run(&["set", "report", "echo", "--cron", "whenever"], 2));
    drop(run(&["delete", "report"], 0));
    drop(run(&["show", "report"], 2));
}

#[test]
fn schedules_of_a_restored_database_wait_for_somebody() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let body = json!({ "workflow": "echo", "cron": EVERY_SECOND, "catchUp": 100, "overlap": "allow" });
    drop(put(&server, "s", &body).expect(201));
    drop(put(&server, "resting", &body).expect(201));
    drop(ask(&server, "resting", "pause"));
    wait("it fires", || shown(&server, "s")["lastFired"].is_object());
    let file = back_up(&project, "copy.db");
    server.kill();
    let (_, restored) = restore(&project, &file, &[]);
    assert_eq!(restored["pausedSchedules"], 1, "{restored:#}");
    let server = project.serve(&[]);
    let paused = shown(&server, "s");
    let detail = paused["detail"].as_str().unwrap_or_default();
    assert!(paused["state"] == "paused" && detail.contains("restored from a copy"), "{paused:#}");
    assert!(shown(&server, "resting")["detail"].as_str().is_some_and(|text| text.starts_with("it was paused by")));
    // Others fire meanwhile, and this one does not.
    let before = runs(&server, "s").len();
    drop(put(&server, "new", &body).expect(201));
    wait("it fires", || runs(&server, "new").len() >= 2);
    assert_eq!(runs(&server, "s").len(), before);
    let resumed_at = now_ms();
    drop(ask(&server, "s", "resume"));
    let fired =
        until("it fires", || shown(&server, "s")["lastFired"]["atMs"].as_u64().filter(|at_ms| *at_ms > resumed_at));
    assert!(runs(&server, "s").len() > before && fired > resumed_at);
    server.kill();
    // Where nothing followed the copy it goes on as it stood.
    let (_, restored) = restore(&project, &file, &["--nothing-followed"]);
    assert_eq!(restored["pausedSchedules"], 0);
    let server = project.serve(&[]);
    let fired = runs(&server, "s").len();
    wait("it fires", || runs(&server, "s").len() > fired);
    assert_eq!(shown(&server, "s")["state"], "active");
}
