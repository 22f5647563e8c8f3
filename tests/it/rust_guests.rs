//! Guests in Rust, which block in `next`: the contract without an event loop, and without the JavaScript SDK.

mod effects;
mod faults;

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project, each_in_parallel, rust_core_module};

use crate::journals::{at_ms, due_ms, entries, failures, rows, until_waiting};

static MODULE: LazyLock<Module> = LazyLock::new(Module::rust);

#[test]
fn a_core_module_is_run_as_it_comes_from_the_compiler() {
    let project = Project::new();
    let module = rust_core_module().display().to_string();
    let args = ["run", &module, "sequential", "--input", "10", "--json"];
    let end = project.spawn(&args).wait().expect_code(0);
    assert_eq!(*end.result(), json!(45));
}

#[test]
fn steps_one_after_another_are_one_attempt_each() {
    let project = Project::new();
    let end = project.run(&MODULE, "sequential", &json!(1_000)).wait().expect_code(0);
    assert_eq!(*end.result(), json!(499_500));
    assert_eq!(rows(&project.journal(&project.only_run()), "attempt_started").len(), 1_000);
}

#[test]
fn steps_side_by_side_end_in_any_order_and_are_joined_in_theirs() {
    const WIDTH: u64 = 50;
    let project = Project::new();
    let end = project.run(&MODULE, "parallel", &json!({ "width": WIDTH })).wait().expect_code(0);
    assert_eq!(*end.result(), json!((0..WIDTH).collect::<Vec<_>>()));
    // The later begun have the shorter waits.
    let journal = project.journal(&project.only_run());
    let ended: Vec<_> = entries(&journal, "attempt_ended").iter().map(|ended| ended["op"].as_u64().unwrap()).collect();
    assert_ne!(ended, (0..WIDTH).collect::<Vec<_>>(), "no step overtook another");
}

#[test]
fn a_kill_with_half_of_the_steps_done_repeats_the_others_alone() {
    const WIDTH: usize = 100;
    let project = Project::new();
    let mut running = project.run(&MODULE, "parallel", &json!({ "width": WIDTH, "prompt": WIDTH / 2 }));
    let (mut started, mut ended) = (0, 0);
    running.until(|event| {
        started += usize::from(event["entry"].get("attempt_started").is_some());
        ended += usize::from(event["entry"].get("attempt_ended").is_some());
        ((started, ended) == (WIDTH, WIDTH / 2)).then_some(())
    });
    running.kill();
    let run = project.only_run();
    let before = project.journal(&run);
    let end = project.resume(&run).wait().expect_code(0);
    assert_eq!(*end.result(), json!((0..WIDTH).collect::<Vec<_>>()));
    let after = project.journal(&run);
    assert_eq!(after[..before.len()], before[..]);
    let again: Vec<_> = entries(&after, "attempt_started").into_iter().filter(|started| started["n"] == 2).collect();
    assert_eq!(again.len(), WIDTH / 2);
    assert!(again.iter().all(|started| started["op"].as_u64() >= Some(WIDTH as u64 / 2)), "{again:#?}");
}

#[test]
fn a_sleep_is_as_long_as_it_says_across_a_kill() {
    const MS: u64 = 3_600_000;
    let project = Project::new();
    let mut running = project.run(&MODULE, "sleeps", &json!(MS));
    let due = until_waiting(&mut running)["untilMs"].clone();
    running.kill();
    let run = project.only_run();
    let mut running = project.resume(&run);
    assert_eq!(until_waiting(&mut running)["untilMs"], due);
    running.kill();
    // The rest of the hour is skipped; by the run's clock it has passed.
    let end = project.spawn(&["run", "--resume", &run, "--skip-sleeps", "--json"]).wait().expect_code(0);
    // It begins a little after the turn, whose time is the clock's.
    assert!((MS..MS + 60_000).contains(&end.result().as_u64().expect("a time in ms")), "{}", end.result());
    assert_eq!(rows(&project.journal(&run), "timer_fired").len(), 1);
}

#[test]
fn an_event_ends_a_wait_and_so_does_its_time() {
    let project = Project::new();
    let mut running = project.run(&MODULE, "waits", &json!({}));
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    let end =
        project.spawn(&["run", "--resume", &run, "--json", "--event", r#"go={"by":"ana"}"#]).wait().expect_code(0);
    assert_eq!(*end.result(), json!({ "by": "ana" }));
    let project = Project::new();
    let end = project.run(&MODULE, "waits", &json!({ "timeoutMs": 10 })).wait().expect_code(0);
    assert_eq!(*end.result(), json!({ "code": "workflows.wait_timeout" }));
}

#[test]
fn a_kill_after_any_entry_leads_to_the_same_result() {
    let tour = |project: &Project| project.run_with(&MODULE, "tour", &Value::Null, &["--event", "go=7"], &[]);
    let whole = tour(&Project::new()).wait().expect_code(0);
    let all = whole.of_kind("entry").count();
    assert!(all > 25, "{whole:#?}");
    each_in_parallel(&(1..=all).collect::<Vec<_>>(), |&k| {
        let project = Project::new();
        let mut running = tour(&project);
        let mut seen = 0;
        running.until(|event| {
            seen += usize::from(event["event"] == "entry");
            (seen == k || event["event"] == "ended").then_some(())
        });
        running.kill();
        let run = project.only_run();
        let before = project.journal(&run);
        if project.show(&run)["status"] != "succeeded" {
            // The event came with the run's beginning, which is durable before an entry is shown.
            let _ = project.resume(&run).wait().expect_code(0);
        }
        let journal = project.journal(&run);
        assert_eq!(journal[..before.len()], before[..]);
        let result = &entries(&journal, "ended")[0]["outcome"]["succeeded"];
        for part in ["first", "branches", "event"] {
            assert_eq!(result[part], whole.result()[part], "{part}");
        }
        assert_eq!(result["codes"][1], "workflows.wait_timeout");
        // An attempt that the kill took counts.
        assert!(
            result["codes"][0] == "guest.twice" || failures(&journal).contains(&"workflows.invocation_lost"),
            "{result:#}"
        );
    });
}

#[test]
fn what_a_body_leaves_behind_shows_in_the_replay() {
    let project = Project::new();
    let end = project.run(&MODULE, "residue", &Value::Null).wait().expect_code(5);
    assert_eq!(end.of_kind("replay-differs").count(), 1, "{end:#?}");
    assert!(end.stderr.contains("leaves it"), "{}", end.stderr);
}

#[test]
fn a_run_that_is_cancelled_cleans_up() {
    let project = Project::new();
    let args = ["--run-timeout-ms", "50"];
    let end = project.run_with(&MODULE, "cleans up", &Value::Null, &args, &[]).wait().expect_code(1);
    assert_eq!(end.of_kind("ended").last().map(|ended| &ended["status"]), Some(&json!("cancelled")), "{end:#?}");
    let journal = project.journal(&project.only_run());
    assert_eq!(entries(&journal, "step_begun")[0]["step"]["name"], "cleaning up");
    assert_eq!(rows(&journal, "attempt_ended").len(), 1);
}

#[test]
fn a_failure_for_good_is_one_attempt() {
    let project = Project::new();
    let end = project.run(&MODULE, "non-retriable", &Value::Null).wait().expect_code(1);
    assert_eq!((&end.error()["code"], &end.error()["message"]), (&json!("guest.refused"), &json!("for good")));
    assert_eq!(rows(&project.journal(&project.only_run()), "attempt_started").len(), 1);
}

#[test]
fn retry_after_replaces_the_delay_and_outlives_a_kill() {
    const HOUR_MS: u64 = 3_600_000;
    let project = Project::new();
    let mut running = project.run(&MODULE, "retry-after", &json!(HOUR_MS));
    until_waiting(&mut running);
    running.kill();
    let run = project.only_run();
    let journal = project.journal(&run);
    let failed = rows(&journal, "attempt_ended")[0];
    assert_eq!(due_ms(failed) - at_ms(failed), HOUR_MS);
    let mut running = project.resume(&run);
    assert_eq!(until_waiting(&mut running)["untilMs"], due_ms(failed));
    running.kill();
    let end = Project::new().run(&MODULE, "retry-after", &json!(20)).wait().expect_code(0);
    assert_eq!(*end.result(), json!(2));
}

#[test]
fn an_error_of_the_workflows_own_comes_out_whole() {
    let project = Project::new();
    let end = project.run(&MODULE, "own error", &json!({ "limit": 5 })).wait().expect_code(1);
    let error = end.error();
    assert_eq!((&error["code"], &error["name"]), (&json!("shop.payment_declined"), &json!("PaymentDeclined")));
    assert_eq!((&error["message"], &error["details"]), (&json!("declined"), &json!({ "limit": 5 })));
    assert_eq!(error["causes"], json!([{ "name": "Limit", "message": "é\u{0}" }]));
}

#[test]
fn commands_out_of_place_are_refused_with_their_codes() {
    let project = Project::new();
    let end = project.run(&MODULE, "misplaced", &Value::Null).wait().expect_code(0);
    let inside = "workflows.operation_inside_step";
    let result = json!({ "begun": [inside, inside, inside], "elsewhere": "workflows.destination_refused" });
    assert_eq!(*end.result(), json!({ "result": result, "outside": "workflows.effect_outside_step" }));
    // A second answer to an attempt is refused, and changes nothing.
    let late: Vec<_> = end.of_kind("status").map(|status| &status["text"]).collect();
    assert_eq!(late, ["workflows.attempt_closed"]);
}
