//! Which key a repetition carries: a new one where nothing was done, the same while something may have been.

use serde_json::{Value, json};
use shop::Verdict;
use stepwell_tests::{Project, Reply, Server, Shop};

use super::{CLASSES, MODULE, eager, keys, run};

/// A server that replies to the requests in this order, and to further ones with 500.
fn replies(list: Vec<Reply>) -> impl Fn(&stepwell_tests::Request) -> Reply + Send + Sync {
    move |request| list.get(request.number - 1).cloned().unwrap_or_else(|| answer(500))
}

fn answer(status: u16) -> Reply {
    Reply::Answer(status, "done".to_owned())
}

#[test]
fn a_refused_request_is_repeated_under_a_new_key() {
    for class in CLASSES {
        for status in [503, 429] {
            let project = Project::new();
            let server = Server::start(replies(vec![answer(status), answer(201)]));
            let end = run(&project, "post", &server, eager(class)).expect_code(0);
            assert_eq!(*end.result(), json!({ "attempt": 2, "recorded": false, "text": "done" }), "{class} {status}");
            assert_eq!(keys(&project, &server), ["charge:e1", "charge:e2"], "{class} {status}");
        }
    }
}

#[test]
fn from_a_lost_answer_to_a_good_one_there_is_one_key_and_one_request() {
    for class in ["repeatable", "keyed"] {
        let project = Project::new();
        // Taken and lost; then nobody listens; then it is in progress; then it is done.
        let server = Server::start(replies(vec![Reply::DropAndRefuse, answer(409), answer(200)]));
        let input = json!({ "url": server.url(), "options": eager(class) });
        let mut running = project.run(&MODULE, "post", &input);
        // A request that was refused makes the connection's end known; then the server comes back.
        running.until(|event| (event["entry"]["settled"]["evidence"] == "not_sent").then_some(()));
        server.listen();
        drop(running.wait().expect_code(0));
        assert_eq!(keys(&project, &server), ["charge:e1", "charge:e1", "charge:e1"], "{class}");
        let requests = server.requests();
        for again in &requests[1..] {
            assert_eq!(String::from_utf8_lossy(&again.raw), String::from_utf8_lossy(&requests[0].raw), "{class}");
        }
    }
}

#[test]
fn a_lost_answer_on_a_used_connection_is_not_repeated_below_the_step() {
    let project = Project::new();
    let server = Server::start(replies(vec![answer(201), Reply::Drop, answer(201)]));
    let end = run(&project, "two", &server, eager("keyed")).expect_code(0);
    let result = json!({ "attempt": 2, "first": [true, 201, "done"], "second": [false, "done"] });
    assert_eq!(*end.result(), result);
    assert_eq!(keys(&project, &server), ["both:e1", "both:e2", "both:e2"]);
}

#[test]
fn a_gateway_that_gives_up_after_the_origin_has_charged_costs_one_charge() {
    for class in ["repeatable", "keyed"] {
        for fault in ["store-then:504", "store-then:502", "store-then:500", "drop:after-store", "drop:mid-answer"] {
            let project = Project::new();
            let shop = Shop::start(&[format!("POST /charges#1={fault}")], None);
            let input = json!({ "url": shop.url(), "options": eager(class) });
            let end = project.run(&MODULE, "post", &input).wait().expect_code(0);
            assert_eq!(end.result()["attempt"], 2, "{class} {fault}");
            let record = shop.record();
            assert_eq!(shop.verdict(), Verdict::default(), "{class} {fault}: {record:#?}");
            assert_eq!(record.iter().filter(|entry| entry.stored).count(), 1, "{class} {fault}: {record:#?}");
            assert_eq!(record.len(), 2, "{class} {fault}: {record:#?}");
        }
    }
}

#[test]
fn a_body_that_repeats_a_failing_request_keeps_its_key_while_the_outcome_is_unknown() {
    for class in ["repeatable", "keyed"] {
        for (statuses, expected) in [
            ([504, 500, 201], ["charge:e1", "charge:e1", "charge:e1"]),
            ([503, 503, 201], ["charge:e1", "charge:e2", "charge:e3"]),
            // What may have been done under a key is not undone by a later refusal.
            ([500, 503, 201], ["charge:e1", "charge:e1", "charge:e1"]),
        ] {
            let project = Project::new();
            let server = Server::start(replies(statuses.map(answer).to_vec()));
            let end = run(&project, "loops", &server, eager(class)).expect_code(0);
            assert_eq!(*end.result(), json!({ "attempt": 1, "times": 3 }), "{class} {statuses:?}");
            assert_eq!(keys(&project, &server), expected, "{class} {statuses:?}");
        }
    }
}

#[test]
fn nothing_leaves_under_a_key_that_dies_while_its_request_waits_to_leave() {
    let project = Project::new();
    let server = Server::start(replies(vec![Reply::Drop, answer(201)]));
    let options = json!({ "effect": "keyed", "keyTtlMs": 1_500, "retry": { "maxAttempts": 1 } });
    let input = json!({ "url": server.url(), "options": options, "computesMs": 1_600 });
    let end = project.run(&MODULE, "dies", &input).wait().expect_code(4);
    assert_eq!(end.of_kind("blocked").map(|event| &event["steps"]).collect::<Vec<_>>(), [&json!(["charge"])]);
    assert_eq!(keys(&project, &server), ["charge:e1"]);
    let outcome_unknown = |entry: &&Value| entry["outcome"]["failed"]["error"]["code"] == "workflows.outcome_unknown";
    assert_eq!(end.entries("attempt_ended").filter(outcome_unknown).count(), 1, "{end:#?}");
}

#[test]
fn a_body_that_gives_up_on_an_answer_and_asks_again_charges_once() {
    for class in ["keyed", "once"] {
        let project = Project::new();
        let shop = Shop::start(&["POST /charges#1=takes:1500".to_owned()], None);
        let input = json!({ "url": shop.url(), "options": eager(class) });
        let end = project.run(&MODULE, "hurries", &input).wait().expect_code(0);
        assert_eq!(*end.result(), json!({ "attempt": 2, "recorded": true }), "{class}");
        assert_eq!(shop.record().len(), 1, "{class}: {:#?}", shop.record());
    }
}

#[test]
fn statuses_on_which_nothing_was_done_renew_the_key() {
    let project = Project::new();
    let server = Server::start(replies(vec![answer(500), answer(201)]));
    let input = json!({ "url": server.url(), "options": eager("keyed"), "request": { "renewOn": [500] } });
    drop(project.run(&MODULE, "post", &input).wait().expect_code(0));
    assert_eq!(keys(&project, &server), ["charge:e1", "charge:e2"]);
}

#[test]
fn another_body_under_a_kept_key_is_refused_and_nothing_is_sent() {
    let project = Project::new();
    let server = Server::start(replies(vec![Reply::Drop]));
    let end = run(&project, "changes", &server, eager("repeatable")).expect_code(1);
    assert_eq!(end.error()["code"], "workflows.idempotency_key_reuse", "{end:#?}");
    assert_eq!(end.error()["outcome_unknown"], true, "{end:#?}");
    assert_eq!(keys(&project, &server), ["charge:e1"]);
    // Where the class says that a repetition could do harm, somebody has to look first.
    let project = Project::new();
    let server = Server::start(replies(vec![Reply::Drop]));
    let end = run(&project, "changes", &server, eager("keyed")).expect_code(4);
    assert_eq!(end.of_kind("blocked").map(|event| &event["steps"]).collect::<Vec<_>>(), [&json!(["charge"])]);
    assert_eq!(keys(&project, &server), ["charge:e1"]);
    let reuse = |entry: &&Value| entry["outcome"]["failed"]["error"]["code"] == "workflows.idempotency_key_reuse";
    assert_eq!(end.entries("attempt_ended").filter(reuse).count(), 1, "{end:#?}");
}

#[test]
fn a_refused_connection_is_safe_for_every_class() {
    for class in CLASSES {
        let project = Project::new();
        let server = Server::refusing(replies(vec![answer(201)]));
        let mut running = project.run(&MODULE, "post", &json!({ "url": server.url(), "options": eager(class) }));
        running.until(|event| (event["entry"]["settled"]["evidence"] == "not_sent").then_some(()));
        server.listen();
        let end = running.wait().expect_code(0);
        assert_eq!(end.result()["text"], "done", "{class}");
        assert_eq!(server.requests().len(), 1, "{class}");
        // Nothing was done under the keys before, so none of them is kept.
        assert_eq!(keys(&project, &server), [format!("charge:e{}", end.result()["attempt"])], "{class}");
    }
}

#[test]
fn what_was_done_is_answered_from_the_record_when_the_step_is_attempted_anew() {
    for (class, recorded) in [("repeatable", false), ("keyed", true), ("once", true)] {
        let project = Project::new();
        let server = Server::start(|request| match (request.path.as_str(), request.number) {
            ("/second", 2) => answer(503),
            (path, number) => Reply::Answer(201, format!("{path} {number}")),
        });
        let end = run(&project, "two", &server, eager(class)).expect_code(0);
        let (expected, second) = if recorded {
            (vec!["both:e1", "both:e2", "both:e3"], "/second 3")
        } else {
            (vec!["both:e1", "both:e2", "both:e3", "both:e4"], "/second 4")
        };
        let first = if recorded { "/first 1" } else { "/first 3" };
        let result = json!({ "attempt": 2, "first": [recorded, 201, first], "second": [false, second] });
        assert_eq!(*end.result(), result, "{class}");
        assert_eq!(keys(&project, &server), expected, "{class}");
    }
}
