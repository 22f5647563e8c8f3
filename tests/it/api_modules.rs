//! Modules over HTTP: what is no module leaves nothing behind, what is needed stays, and new code is looked at before it is used.

use serde_json::json;
use stepwell_tests::Project;

use crate::api_keys::MODULE;

const FIRST: &str = r#"
import { workflow } from "stepwell";
export const w = workflow("w", async ({ step, waitForEvent }: any) => {
  await step.run("first", () => 1);
  await waitForEvent("go");
  return "first";
}, { destinations: ["pay.example"] });
"#;

fn typescript() -> &'static str {
    "text/typescript"
}

#[test]
fn what_is_no_module_is_refused_and_leaves_nothing() {
    let project = Project::new();
    let server = project.serve(&[]);
    let component_of_nothing = b"\0asm\x0d\0\x01\0";
    let cases = [
        ("application/wasm", &b"no module"[..], 422, "workflows.invalid_module"),
        ("application/wasm", b"", 422, "workflows.invalid_module"),
        ("application/wasm", b"\0asm\x01\0\0\0", 422, "workflows.invalid_module"),
        ("application/wasm", component_of_nothing, 422, "workflows.invalid_module"),
        (typescript(), b"export const w = ;", 422, "workflows.build_failed"),
        (typescript(), b"\xff", 422, "workflows.build_failed"),
        (typescript(), b"import secret from '/etc/hostname'; export default secret;", 422, "workflows.build_failed"),
        (typescript(), b"import x from '../x.js'; export default x;", 422, "workflows.build_failed"),
        ("text/plain", b"x", 415, "unsupported_media_type"),
    ];
    for (kind, bytes, status, code) in cases {
        let problem = server.post_as("/v1/modules", kind, bytes).problem(status, code);
        assert!(!problem.body["detail"].to_string().contains("/tmp"), "{problem:#?}");
    }
    assert_eq!(server.get("/v1/modules").expect(200).body, json!({ "modules": [] }));
    assert_eq!(server.get("/v1/workflows").expect(200).body, json!({ "workflows": [] }));
}

#[test]
fn a_module_is_uploaded_activated_checked_and_taken_away() {
    let project = Project::new();
    let server = project.serve(&[]);
    let first = server.post_as("/v1/modules", typescript(), FIRST.as_bytes()).expect(201).body;
    assert_eq!((&first["active"], &first["workflows"][0]["name"]), (&json!(["w"]), &json!("w")));
    assert_eq!(first["workflows"][0]["destinations"], json!(["pay.example"]));
    // The same again is the same module; another of the same workflow waits to be activated.
    let again = server.post_as("/v1/modules", typescript(), FIRST.as_bytes()).expect(200).body;
    assert_eq!(again, first);
    let run = server.post("/v1/workflows/w/runs", &json!({})).expect(201).run();
    let compatible = FIRST.replace(r#"return "first""#, r#"return "second""#);
    let second = server.post_as("/v1/modules", typescript(), compatible.as_bytes()).expect(201).body;
    assert_eq!(second["active"], json!([]));
    let different = FIRST.replace(r#"step.run("first""#, r#"step.run("renamed""#);
    let third = server.post_as("/v1/modules", typescript(), different.as_bytes()).expect(201).body;
    let digest = |module: &serde_json::Value| module["digest"].as_str().expect("a module has a digest").to_owned();

    // The run has come to its wait: its journal has its step.
    drop(server.get(&format!("/v1/runs/{run}/result?wait=300ms")));
    let path = "/v1/workflows/w/activate";
    let dry = |module| {
        server.post(path, &json!({ "digest": digest(module), "dryRun": true })).expect(200).body["report"].clone()
    };
    let clean = dry(&second);
    assert_eq!((&clean["checked"], &clean["clean"], &clean["differs"]), (&json!(1), &json!(1), &json!(0)));
    let differs = dry(&third);
    assert_eq!(
        (&differs["clean"], &differs["differs"], &differs["differing"][0]["run"]),
        (&json!(0), &json!(1), &json!(run))
    );
    assert!(differs["differing"][0]["difference"].to_string().contains("renamed"), "{differs:#?}");
    assert_eq!(server.get("/v1/workflows").expect(200).body["workflows"][0]["digest"], first["digest"]);

    drop(server.post(path, &json!({ "digest": "none" })).problem(404, "not_found"));
    let unknown = server.post("/v1/workflows/v/activate", &json!({ "digest": digest(&second) }));
    drop(unknown.problem(422, "workflows.unknown_workflow"));
    drop(server.post(path, &json!({ "digest": digest(&second) })).expect(200));
    let newer = server.post("/v1/workflows/w/runs", &json!({})).expect(201);
    assert_eq!(newer.body["digest"], second["digest"]);
    let pinned = server.post("/v1/workflows/w/runs", &json!({ "digest": digest(&first) })).expect(201);
    assert_eq!(pinned.body["digest"], first["digest"]);

    // Needed by a workflow, then by runs, then by nobody.
    drop(server.delete(&format!("/v1/modules/{}", digest(&second))).problem(409, "module_needed"));
    let of_first = format!("/v1/modules/{}", digest(&first));
    drop(server.delete(&of_first).problem(409, "module_needed"));
    for open in [&run, &pinned.run()] {
        drop(server.post(&format!("/v1/runs/{open}/events/go"), &json!(null)).expect(202));
        assert_eq!(server.ended(open)["result"], "first");
    }
    assert_eq!(server.delete(&of_first).status, 204);
    drop(server.get(&of_first).problem(404, "not_found"));
    drop(server.delete(&of_first).problem(404, "not_found"));
    let gone = server.post("/v1/workflows/w/runs", &json!({ "digest": digest(&first) }));
    drop(gone.problem(422, "workflows.invalid_module"));
}

#[test]
fn a_module_and_what_is_active_survive_a_kill() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let (modules, workflows) = (server.get("/v1/modules").body, server.get("/v1/workflows").body);
    assert_eq!(workflows["workflows"].as_array().map(Vec::len), Some(5));
    server.kill();
    let server = project.serve(&[]);
    assert_eq!((server.get("/v1/modules").body, server.get("/v1/workflows").body), (modules, workflows));
    let run = server.post("/v1/workflows/echo/runs?wait=60s", &json!({ "input": 5 })).expect(201);
    assert_eq!((&run.body["status"], &run.body["result"]), (&json!("succeeded"), &json!(5)));
}
