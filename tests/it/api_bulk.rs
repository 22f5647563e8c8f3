//! The same asked of many runs at once by the command line: which ones, with whose word, and what is said when it breaks off.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use stepwell_tests::{Api, Finished, Project, Reply, Server, Serving};

use crate::api_keys::MODULE;
use crate::api_runs::{start, until_waiting};

fn ask(project: &Project, server: &Serving, args: &[&str]) -> Finished {
    let url = format!("http://{}", server.address());
    let mut all = vec!["runs"];
    all.extend(args);
    all.extend(["--json", "--url", &url]);
    project.stepwell(&all)
}

fn waiting(server: &Api, colour: &str) -> String {
    let run = start(server, "waiting", &json!({ "tags": { "colour": colour } }));
    drop(until_waiting(server, &run));
    run
}

fn status(server: &Api, run: &str) -> Value {
    server.get(&format!("/v1/runs/{run}")).expect(200).body["status"].clone()
}

fn names(finished: &Finished) -> Vec<String> {
    let mut names: Vec<String> =
        finished.events.iter().map(|line| line["run"].as_str().expect("a line names its run").to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_filter_finds_the_runs_and_no_other_is_asked() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let mut red: Vec<String> = (0..3).map(|_| waiting(&server, "red")).collect();
    red.sort();
    let blue = waiting(&server, "blue");
    let ended = start(&server, "echo", &json!({ "input": 1, "tags": { "colour": "red" } }));
    drop(server.ended(&ended));

    // Looked at, and then not confirmed: nothing happens.
    let by_tag = ["--tag", "colour=red", "--workflow", "waiting"];
    let dry = ask(&project, &server, &[&["pause"], &by_tag[..], &["--dry-run"]].concat()).expect_code(0);
    assert_eq!(names(&dry), red);
    assert!(dry.stderr.contains("3 runs: 3 waiting"), "{dry:#?}");
    let unconfirmed = ask(&project, &server, &[&["pause"], &by_tag[..]].concat()).expect_code(2);
    assert!(unconfirmed.stderr.contains("--yes"), "{unconfirmed:#?}");
    assert!(red.iter().all(|run| status(&server, run) == "waiting"));

    let paused = ask(&project, &server, &[&["pause"], &by_tag[..], &["--yes"]].concat()).expect_code(0);
    assert_eq!(names(&paused), red);
    assert!(red.iter().all(|run| status(&server, run) == "paused"));
    assert_eq!(status(&server, &blue), "waiting");
    // Of those that can be resumed it finds the paused ones alone.
    let resumed = ask(&project, &server, &["resume", "--all", "--yes"]).expect_code(0);
    assert_eq!(names(&resumed), red);
    let of_status = ["terminate", "--status", "waiting", "--tag", "colour=blue", "--yes", "--reason", "no more blue"];
    assert_eq!(names(&ask(&project, &server, &of_status).expect_code(0)), std::slice::from_ref(&blue));
    let end = server.ended(&blue);
    assert_eq!((&end["status"], &end["error"]["message"]), (&json!("terminated"), &json!("no more blue")));
    let none = ask(&project, &server, &["cancel", "--workflow", "nobody", "--yes"]).expect_code(0);
    assert!(none.events.is_empty() && none.stderr.contains("0 runs"), "{none:#?}");

    // What has ended is not asked again, and that it had is no failure.
    let cancel = ["cancel", "--all", "--yes", "--key", "close the shop"];
    assert_eq!(names(&ask(&project, &server, &cancel).expect_code(0)), red);
    assert!(red.iter().all(|run| server.ended(run)["status"] == "cancelled"));
    assert!(ask(&project, &server, &cancel).expect_code(0).events.is_empty());
    drop(ask(&project, &server, &["cancel", "--status", "failed", "--yes"]).expect_code(2));
    // A run and a filter, or neither, is no question.
    drop(ask(&project, &server, &["cancel", &red[0], "--all"]).expect_code(2));
    drop(ask(&project, &server, &["cancel"]).expect_code(2));
}

#[test]
fn one_run_is_asked_and_resumed_by_its_name() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = waiting(&server, "red");
    let paused = ask(&project, &server, &["pause", &run]).expect_code(0);
    assert_eq!(paused.events, [json!({ "run": run, "accepted": "pause" })]);
    assert_eq!(status(&server, &run), "paused");
    drop(ask(&project, &server, &["resume", &run]).expect_code(0));
    drop(ask(&project, &server, &["terminate", &run]).expect_code(0));
    assert_eq!(server.ended(&run)["status"], "terminated");
    drop(ask(&project, &server, &["terminate", &run]).expect_code(2));
}

/// Answers with two runs, and to what is asked of them as `answer` says.
fn two_runs(answer: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |request| {
        if request.method == "GET" {
            let run = |id: &str| json!({ "id": id, "workflow": "w", "status": "waiting" });
            let page = json!({ "runs": [run("run_1"), run("run_2")], "counts": {}, "unreadable": 0 });
            return Reply::Answer(200, page.to_string());
        }
        answer(&request.path)
    })
}

fn problem(status: u16, code: &str) -> Reply {
    Reply::Answer(status, json!({ "status": status, "code": code, "detail": "so it is" }).to_string())
}

#[test]
fn each_run_is_asked_under_a_key_of_its_own_and_a_failure_is_in_the_exit_code() {
    let project = Project::new();
    let cancel = |server: &Server, key: &str| {
        let url = server.url();
        let args = ["runs", "cancel", "--all", "--yes", "--json", "--key", key, "--url", &url];
        project.spawn_with(&args, &[("STEPWELL_TIMEOUT_MS", "2000")]).wait()
    };
    let granted = json!({ "run": "run_1", "accepted": "cancel" }).to_string();
    // A refusal of one keeps nobody from asking the other, and a passing failure is waited out under the same key.
    let come = AtomicUsize::new(0);
    let accepted = granted.clone();
    let server = two_runs(move |path| match path.contains("run_1") || path.contains("run%5F1") {
        true => problem(409, "run_busy"),
        false if come.fetch_add(1, Ordering::SeqCst) == 0 => problem(503, "storage_failed"),
        false => Reply::Answer(202, accepted.clone()),
    });
    let ended = cancel(&server, "op").expect_code(2);
    assert!(ended.stderr.contains("1 run granted, 1 failed") && ended.stderr.contains("--key op"), "{ended:#?}");
    assert_eq!(ended.events.len(), 2, "{ended:#?}");
    let requests = server.requests();
    let mut keys: Vec<_> = requests.iter().filter_map(|request| request.key()).map(str::to_owned).collect();
    keys.sort();
    assert_eq!(keys, ["op:cancel:run_1", "op:cancel:run_2", "op:cancel:run_2"]);
    // The server's own failures are told from refusals.
    let accepted = granted.clone();
    let server = two_runs(move |path| match path.ends_with("1/cancel") {
        true => problem(500, "internal"),
        false => Reply::Answer(202, accepted.clone()),
    });
    drop(cancel(&server, "op").expect_code(6));
    // Runs that have ended meanwhile have nothing to be cancelled.
    let server = two_runs(|_| problem(409, "run_finished"));
    let over = cancel(&server, "op").expect_code(0);
    assert!(over.stderr.contains("2 had ended meanwhile"), "{over:#?}");
    // A key that leaves no room for the run's name is no key.
    let server = two_runs(|_| problem(500, "internal"));
    drop(cancel(&server, &"k".repeat(201)).expect_code(2));
    assert!(server.requests().is_empty());
}
