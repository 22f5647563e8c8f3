//! Starts while something fails or changes beside them: nothing that passes is kept as an answer, and nothing is refused that could be done.

use serde_json::{Value, json};
use stepwell_tests::Project;

use crate::api_keys::MODULE;

#[test]
fn a_batch_that_the_server_failed_is_not_kept_under_its_key() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let held = server.post("/v1/workflows/echo/runs", &json!({ "input": 0, "runKey": "held" })).expect(201).run();
    drop(server.ended(&held));
    drop(server.stop().expect_code(0));
    // Its input cannot be read for a while.
    let database = rusqlite::Connection::open(project.data_dir().join("stepwell.db")).expect("the database opens");
    let of_held = "seq = 0 AND run = (SELECT id FROM runs WHERE run_key = 'held')";
    let first = format!("SELECT entry FROM journal WHERE {of_held}");
    let entry: Vec<u8> = database.query_row(&first, [], |row| row.get(0)).expect("the entry is there");
    let put = |bytes: &[u8]| {
        let rows = database.execute(&format!("UPDATE journal SET entry = ?1 WHERE {of_held}"), [bytes]);
        assert_eq!(rows.expect("the database can be written"), 1);
    };
    put(b"9{");
    let server = project.serve(&[]);
    let batch = json!({ "runs": [
        { "workflow": "echo", "input": 1, "tags": { "of": "batch" } },
        { "workflow": "echo", "input": 0, "runKey": "held" },
    ] });
    let failed = server.keyed("b").post("/v1/runs:batch", &batch).problem(500, "internal");
    assert_eq!(failed.body["index"], 1);
    let started = || server.get("/v1/runs?tag=of%3Dbatch").expect(200).body["runs"].as_array().map_or(0, Vec::len);
    assert_eq!(started(), 0, "the others were not started without the batch");
    put(&entry);
    // Now it is carried out, once.
    for replayed in [None, Some("true")] {
        let answer = server.keyed("b").post("/v1/runs:batch", &batch).expect(200);
        assert_eq!(answer.header("idempotent-replayed"), replayed);
        let statuses = answer.body["outcomes"].as_array().expect("there are outcomes").iter();
        let statuses: Vec<_> = statuses.map(|outcome| outcome["status"].clone()).collect();
        assert_eq!(json!(statuses), json!([201, 200]));
        assert_eq!(started(), 1);
    }
}

#[test]
fn a_start_is_not_refused_because_its_workflow_moves_to_another_module() {
    let project = Project::new();
    let server = project.serve(&[]);
    let source = |n: u32| {
        format!(
            "import {{ workflow }} from \"stepwell\";\nexport const moved = workflow(\"moved\", async () => {n});\n"
        )
    };
    let upload = |n| {
        let answer = server.post_as("/v1/modules", "text/typescript", source(n).as_bytes());
        assert!([200, 201].contains(&answer.status), "{answer:#?}");
        answer.body["digest"].as_str().expect("a module has a digest").to_owned()
    };
    let digests = [upload(1), upload(2)];
    // Long enough to be resolved that the move comes in between, now and then.
    let many: Vec<Value> = (0..300).map(|_| json!({ "workflow": "moved" })).collect();
    let mut started = 0;
    for round in 0..6 {
        let (from, to) = (&digests[round % 2], &digests[(round + 1) % 2]);
        let api = (*server).clone();
        // Nothing keeps the module but what is being started.
        while server.get("/v1/runs?limit=1").body["counts"]["succeeded"] != started {
            std::thread::yield_now();
        }
        started += many.len();
        std::thread::scope(|scope| {
            let starting = scope.spawn(|| api.post("/v1/runs:batch", &json!({ "runs": many })).expect(200).body);
            drop(server.post("/v1/workflows/moved/activate", &json!({ "digest": to })).expect(200));
            // Those that began on it are open for a moment.
            loop {
                let answer = server.delete(&format!("/v1/modules/{from}"));
                if answer.status == 204 {
                    break;
                }
                drop(answer.problem(409, "module_needed"));
            }
            let answer = starting.join().expect("the batch is answered");
            let outcomes = answer["outcomes"].as_array().expect("there are outcomes");
            assert!(outcomes.iter().all(|outcome| outcome["status"] == 201), "{outcomes:#?}");
        });
        assert_eq!(&upload(if round % 2 == 0 { 1 } else { 2 }), from);
    }
}

#[test]
fn a_report_under_a_key_is_kept() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let digest = server.get("/v1/workflows").body["workflows"][0]["digest"].clone();
    let run = server.post("/v1/workflows/waiting/runs", &json!({})).expect(201).run();
    let dry = json!({ "digest": digest, "dryRun": true });
    let ask = |body: &Value| server.keyed("k").post("/v1/workflows/waiting/activate", body);
    let first = ask(&dry).expect(200);
    assert_eq!((&first.body["report"]["checked"], &first.body["report"]["leftOut"]), (&json!(1), &json!(0)));
    drop(server.post(&format!("/v1/runs/{run}/events/answer"), &json!(1)).expect(202));
    drop(server.ended(&run));
    let again = ask(&dry).expect(200);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    drop(ask(&json!({ "digest": digest })).problem(422, "idempotency_key_reuse"));
}

#[test]
fn a_server_whose_store_takes_no_writes_is_not_ready() {
    let project = Project::new();
    let server = project.serve(&[]);
    drop(server.get("/readyz").expect(200));
    let other = rusqlite::Connection::open(project.data_dir().join("stepwell.db")).expect("it is a database");
    other.execute_batch("BEGIN IMMEDIATE").expect("nobody else writes");
    // What was found out is good for a moment.
    let refused = loop {
        let answer = server.get("/readyz");
        if answer.status != 200 {
            break answer;
        }
    };
    drop(refused.problem(503, "storage_failed"));
    drop(server.get("/healthz").expect(200));
    other.execute_batch("ROLLBACK").expect("what was begun can be left");
    while server.get("/readyz").status != 200 {
        std::thread::yield_now();
    }
}
