//! Who may use the server: this machine while there are no tokens, then tokens and what each is good for.

use serde_json::{Value, json};
use stepwell_tests::{Api, Project};

use crate::api_keys::MODULE;

fn token(api: &Api, principal: &str, scopes: &[&str]) -> Value {
    api.post("/v1/tokens", &json!({ "principal": principal, "scopes": scopes })).expect(201).body
}

fn text(token: &Value) -> &str {
    token["token"].as_str().expect("a token is shown once")
}

#[test]
fn without_tokens_nobody_listens_beyond_this_machine() {
    let project = Project::new();
    let refused = project.spawn(&["serve", "--listen", "0.0.0.0:0"]).wait().expect_code(6);
    assert!(refused.stderr.contains("stepwell token create"), "{refused:#?}");
}

#[test]
fn pages_of_other_sites_and_foreign_names_are_kept_out() {
    let project = Project::new();
    let server = project.serve(&[]);
    drop(server.with("origin", "http://evil.example").get("/v1/runs").problem(403, "cross_origin"));
    drop(server.with("host", "evil.example").get("/v1/runs").problem(403, "cross_origin"));
    let own = format!("http://{}", server.address());
    drop(server.with("origin", &own).get("/v1/runs").expect(200));
    assert!(server.get("/v1/runs").header("access-control-allow-origin").is_none());
}

#[test]
fn a_token_is_good_for_its_scopes_alone() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    drop(
        server.post("/v1/tokens", &json!({ "principal": "ana", "scopes": ["read"] })).problem(409, "last_admin_token"),
    );
    let admin = token(&server, "ana", &["admin"]);
    drop(server.get("/v1/runs").problem(401, "unauthorized"));
    let ana = server.as_token(text(&admin));
    let mut others = Vec::new();
    for scope in ["read", "run", "deploy"] {
        others.push((scope, token(&ana, "ben", &[scope])));
    }
    let start = json!({ "input": 1 });
    for (scope, made) in &others {
        let ben = server.as_token(text(made));
        let status = |allowed: &str, granted: u16| if *scope == allowed { granted } else { 403 };
        assert_eq!(ben.get("/v1/runs").status, status("read", 200), "{scope}");
        assert_eq!(ben.get("/metrics").status, status("read", 200), "{scope}");
        assert_eq!(ben.post("/v1/workflows/echo/runs", &start).status, status("run", 201), "{scope}");
        assert_eq!(ben.post_as("/v1/modules", "text/plain", b"").status, status("deploy", 415), "{scope}");
        drop(ben.get("/v1/tokens").problem(403, "forbidden"));
    }
    for wrong in ["", "x", "stepwell_x_y", &text(&admin)[..text(&admin).len() - 1], &format!("{}0", text(&admin))] {
        drop(server.as_token(wrong).get("/v1/runs").problem(401, "unauthorized"));
    }
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
    let listed = ana.get("/v1/tokens").expect(200).body.to_string();
    let database = std::fs::read(project.data_dir().join("stepwell.db-wal")).expect("the log of writes is there");
    for made in [&admin, &others[0].1] {
        let secret = text(made).rsplit('_').next().expect("a token has parts");
        assert!(!listed.contains(secret), "a list has no secrets");
        assert!(!database.windows(secret.len()).any(|bytes| bytes == secret.as_bytes()), "the database has no secrets");
    }
    drop(ana.delete(&format!("/v1/tokens/{}", admin["id"].as_str().expect("an id"))).problem(409, "last_admin_token"));
}

#[test]
fn a_principal_outlives_its_token_and_its_keys_are_its_own() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let admin = token(&server, "ana", &["admin"]);
    let ana = server.as_token(text(&admin));
    let old = token(&ana, "ben", &["run"]);
    let start = |api: &Api| api.keyed("k").post("/v1/workflows/echo/runs", &json!({ "input": 1 }));
    let first = start(&server.as_token(text(&old))).expect(201);
    // Another principal is refused like another request.
    drop(start(&ana).problem(422, "idempotency_key_reuse"));
    let path = format!("/v1/tokens/{}/rotate", old["id"].as_str().expect("an id"));
    let at_once = json!({ "overlapMs": 0 });
    let new = ana.keyed("rotate-1").post(&path, &at_once).expect(201);
    drop(start(&server.as_token(text(&old))).problem(401, "unauthorized"));
    let again = start(&server.as_token(text(&new.body))).expect(201);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    // The secret is shown once.
    let repeated = ana.keyed("rotate-1").post(&path, &at_once).expect(201);
    assert_eq!((&repeated.body["id"], &repeated.body["token"]), (&new.body["id"], &Value::Null));
}

#[test]
fn a_token_that_asks_too_much_is_told_when_to_come_again() {
    let project = Project::new();
    let server = project.serve(&["--rate-limit", "2"]);
    let admin = token(&server, "ana", &["admin"]);
    let keyed = server.as_token(text(&admin)).keyed("k");
    let new = json!({ "principal": "ben", "scopes": ["read"] });
    let refused = loop {
        let answer = server.as_token(text(&admin)).get("/v1/runs");
        if answer.status != 200 {
            break answer.problem(429, "rate_limited");
        }
    };
    assert!(refused.header("retry-after").is_some_and(|seconds| seconds.parse::<u64>().is_ok_and(|s| s >= 1)));
    // A key that was refused for it is unused: the request is carried out when its time has come.
    let made = loop {
        let answer = keyed.post("/v1/tokens", &new);
        if answer.status != 429 {
            break answer.expect(201);
        }
    };
    assert_eq!(made.header("idempotent-replayed"), None);
}
