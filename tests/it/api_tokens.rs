//! Tokens in time: what becomes of one that is rotated, revoked or has ended, also where two ask at once or an answer is lost.

use serde_json::{Value, json};
use stepwell_tests::{Api, Project};

use crate::api_keys::MODULE;
use crate::api_runs::{start, until_waiting};

fn token(api: &Api, body: &Value) -> Value {
    api.post("/v1/tokens", body).expect(201).body
}

fn admin(api: &Api) -> Value {
    token(api, &json!({ "principal": "ana", "scopes": ["admin"] }))
}

fn text(token: &Value) -> &str {
    token["token"].as_str().expect("a token is shown once")
}

fn path(token: &Value) -> String {
    format!("/v1/tokens/{}", token["id"].as_str().expect("an id"))
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is before the end of time")
}

#[test]
fn a_rotated_token_has_the_end_of_the_one_before() {
    let project = Project::new();
    let server = project.serve(&[]);
    let ana = server.as_token(text(&admin(&server)));
    let soon = now_ms() + 60_000;
    let old = token(&ana, &json!({ "principal": "ben", "scopes": ["read"], "expiresAtMs": soon }));
    let new = ana.post(&format!("{}/rotate", path(&old)), &json!({ "overlapMs": 86_400_000 })).expect(201).body;
    assert_eq!(new["expiresAtMs"], soon);
    // The overlap lets the old one hold no longer than it would have.
    let listed = ana.get("/v1/tokens").expect(200).body;
    let of_old = listed["tokens"].as_array().expect("a list").iter().find(|one| one["id"] == old["id"]);
    assert_eq!(of_old.expect("the old one is listed")["expiresAtMs"], soon);
    // One that is revoked stays so.
    assert_eq!(ana.delete(&path(&new)).status, 204);
    drop(ana.post(&format!("{}/rotate", path(&new)), &json!({})).problem(404, "not_found"));
    drop(server.as_token(text(&new)).get("/v1/runs").problem(401, "unauthorized"));
}

#[test]
fn a_lost_answer_to_a_rotation_locks_nobody_out() {
    let project = Project::new();
    let server = project.serve(&[]);
    let first = admin(&server);
    let ana = server.as_token(text(&first));
    // As if this had not arrived: the old token holds, and says which one is to be rotated in its place.
    let lost = ana.post(&format!("{}/rotate", path(&first)), &json!({})).expect(201).body;
    let told = ana.post(&format!("{}/rotate", path(&first)), &json!({})).problem(409, "token_replaced");
    assert_eq!(told.body["by"], lost["id"]);
    let found = ana.post(&format!("{}/rotate", path(&lost)), &json!({})).expect(201).body;
    // It has no end, as the first one had none.
    assert_eq!((&found["expiresAtMs"], &found["scopes"]), (&Value::Null, &json!(["admin"])));
    let told = ana.post(&format!("{}/rotate", path(&first)), &json!({})).problem(409, "token_replaced");
    assert_eq!(told.body["by"], found["id"]);
    drop(server.as_token(text(&found)).get("/v1/tokens").expect(200));
}

#[test]
fn of_two_who_rotate_a_token_at_once_one_does() {
    let project = Project::new();
    let server = project.serve(&[]);
    let first = admin(&server);
    let ana = server.as_token(text(&first));
    let rotate = format!("{}/rotate", path(&first));
    let made: Vec<u16> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|_| scope.spawn(|| ana.post(&rotate, &json!({})).status)).collect();
        all.into_iter().map(|one| one.join().expect("it is answered")).collect()
    });
    assert_eq!(made.iter().filter(|status| **status == 201).count(), 1, "{made:?}");
    assert!(made.iter().all(|status| [201, 409].contains(status)), "{made:?}");
}

#[test]
fn the_last_two_administrators_cannot_revoke_each_other_at_once() {
    let project = Project::new();
    let server = project.serve(&[]);
    let mut last = admin(&server);
    for _ in 0..20 {
        let other = token(&server.as_token(text(&last)), &json!({ "principal": "ben", "scopes": ["admin"] }));
        let (one, two) = (server.as_token(text(&last)), server.as_token(text(&other)));
        let (of_other, of_last) = std::thread::scope(|scope| {
            let of_other = scope.spawn(|| one.delete(&path(&other)).status);
            let of_last = scope.spawn(|| two.delete(&path(&last)).status);
            (of_other.join().expect("it is answered"), of_last.join().expect("it is answered"))
        });
        assert!(of_other != 204 || of_last != 204, "both are gone");
        let left = if of_last == 204 { other } else { last };
        drop(server.as_token(text(&left)).get("/v1/tokens").expect(200));
        last = left;
    }
}

#[test]
fn a_stream_ends_with_its_token() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "waiting", &json!({ "input": { "times": 2 } }));
    drop(until_waiting(&server, &run));
    // While there are no tokens this machine may look; with the first one it may not any more.
    let mut open = server.lines(&format!("/v1/runs/{run}/events"));
    assert!(open.next().is_some());
    let ana = server.as_token(text(&admin(&server)));
    let ben = token(&ana, &json!({ "principal": "ben", "scopes": ["read"] }));
    let mut bens = server.as_token(text(&ben)).lines(&format!("/v1/runs/{run}/events"));
    assert!(bens.next().is_some());
    assert_eq!(ana.delete(&path(&ben)).status, 204);
    // Something happens in the run that neither of them may see.
    drop(ana.post(&format!("/v1/runs/{run}/events/answer"), &json!("secret")).expect(202));
    for lines in [open.collect::<Vec<_>>(), bens.collect()] {
        assert!(lines.iter().any(|line| line == "event: problem"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.contains("\"unauthorized\"")), "{lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("secret")), "{lines:#?}");
    }
}

#[test]
fn a_directory_that_was_misspelt_gets_no_token() {
    let project = Project::new();
    let missing = project.path().join("mispelt");
    let dir = missing.display().to_string();
    let create = ["token", "create", "ops", "--scope", "admin", "--data-dir", &dir];
    let refused = project.stepwell(&create).expect_code(2);
    assert!(refused.stderr.contains("--init") && refused.stdout.is_empty(), "{refused:#?}");
    assert!(!missing.exists(), "nothing was made");
    let mut init = create.to_vec();
    init.push("--init");
    let made = project.stepwell(&init).expect_code(0);
    assert!(made.stdout.starts_with("stepwell_"), "{made:#?}");
    // Once there is a database it is found.
    drop(project.stepwell(&create).expect_code(0));
}
