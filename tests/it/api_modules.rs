//! Modules over HTTP: what is no module leaves nothing behind, what is needed stays, and new code is looked at before it is used.

use serde_json::json;
use stepwell_tests::{Project, rust_core_module};

use crate::api_keys::MODULE;
use crate::api_runs::until_waiting;

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
fn modules_and_tokens_are_listed_in_pages() {
    let project = Project::new();
    let server = project.serve(&[]);
    let source = |n: u32| FIRST.replace(r#"return "first""#, &format!("return {n}"));
    for n in 0..3 {
        drop(server.post_as("/v1/modules", typescript(), source(n).as_bytes()).expect(201));
    }
    let mut made = server.post("/v1/tokens", &json!({ "principal": "ops", "scopes": ["admin"] })).expect(201).body;
    let secret = made["token"].as_str().expect("it is shown once").to_owned();
    let server = server.as_token(&secret);
    let mut tokens = vec![made["id"].take()];
    for n in 0..4 {
        let new = json!({ "principal": format!("p{n}"), "scopes": ["read"] });
        tokens.push(server.post("/v1/tokens", &new).expect(201).body["id"].take());
    }
    let pages = |path: &str, name: &str, id: &str| {
        let (mut found, mut sizes, mut cursor) = (Vec::new(), Vec::new(), String::new());
        loop {
            let page = server.get(&format!("{path}?limit=2{cursor}")).expect(200).body;
            let things = page[name].as_array().expect("a list").clone();
            sizes.push(things.len());
            found.extend(things.iter().map(|thing| thing[id].clone()));
            let Some(next) = page["cursor"].as_str() else { return (found, sizes) };
            cursor = format!("&cursor={next}");
        }
    };
    let (modules, sizes) = pages("/v1/modules", "modules", "digest");
    assert_eq!(sizes, [2, 1]);
    let all = server.get("/v1/modules").expect(200).body["modules"].clone();
    let digests: Vec<_> = all.as_array().expect("a list").iter().map(|module| module["digest"].clone()).collect();
    assert_eq!((modules.len(), modules), (3, digests));
    let (mut listed, sizes) = pages("/v1/tokens", "tokens", "id");
    assert_eq!(sizes, [2, 2, 1]);
    // Those of one millisecond stand in the order of their names.
    let by_text = |a: &serde_json::Value, b: &serde_json::Value| a.as_str().cmp(&b.as_str());
    listed.sort_by(by_text);
    tokens.sort_by(by_text);
    assert_eq!(listed, tokens);
    for path in ["/v1/tokens?cursor=x", "/v1/tokens?limit=0", "/v1/modules?limit=1001", "/v1/modules?page=2"] {
        drop(server.get(path).problem(400, "invalid_request"));
    }
    // The command line shows all pages.
    let url = format!("http://{}", server.address());
    let shown = project.stepwell(&["token", "list", "--json", "--url", &url, "--token", &secret]).expect_code(0);
    assert_eq!(shown.events.len(), 5, "{shown:#?}");
}

#[test]
fn a_core_module_from_a_compiler_is_made_a_component_and_says_what_it_may_do() {
    let project = Project::new();
    let server = project.serve(&[]);
    let core = std::fs::read(rust_core_module()).expect("the guest is built");
    assert_eq!(core[4..8], [1, 0, 0, 0], "a core module");
    let module = server.post_as("/v1/modules", "application/wasm", &core).expect(201).body;
    assert_eq!(server.post_as("/v1/modules", "application/wasm", &core).expect(200).body, module);
    let may = &module["capabilities"];
    let imports: Vec<&str> =
        may["imports"].as_array().expect("a list").iter().filter_map(serde_json::Value::as_str).collect();
    assert!(imports.iter().any(|import| import.starts_with("stepwell:workflow/commands@")), "{imports:?}");
    assert_eq!(may["closedImports"], json!([]));
    let (has, most) =
        (may["memoryBytes"].as_u64().expect("bytes"), may["instanceMemoryBytes"].as_u64().expect("bytes"));
    assert!((65_536..=most).contains(&has), "{may:#}");
    // All that its workflows declare, together.
    let declared = |what: &str| {
        let workflows = module["workflows"].as_array().expect("a list").iter();
        let mut all: Vec<String> = workflows
            .flat_map(|workflow| workflow[what].as_array().expect("a list"))
            .map(|text| text.as_str().expect("a text").to_owned())
            .collect();
        all.sort();
        all.dedup();
        json!(all)
    };
    assert_eq!((&may["destinations"], &may["secrets"]), (&declared("destinations"), &declared("secrets")));
    assert_ne!(may["destinations"], json!([]));
    let run = server.post("/v1/workflows/sequential/runs?wait=60s", &json!({ "input": 10 })).expect(201);
    assert_eq!((&run.body["status"], &run.body["result"]), (&json!("succeeded"), &json!(45)));
    let url = format!("http://{}", server.address());
    let digest = module["digest"].as_str().expect("a digest");
    let shown = project.stepwell(&["modules", "show", digest, "--url", &url]).expect_code(0);
    assert!(shown.stdout.contains("may reach") && shown.stdout.contains("sequential (active)"), "{shown:#?}");
}

#[test]
fn a_run_goes_on_with_another_module_if_it_replays_on_it() {
    let project = Project::new();
    let server = project.serve(&[]);
    let upload = |source: &str| {
        let module = server.post_as("/v1/modules", typescript(), source.as_bytes()).expect(201).body;
        module["digest"].as_str().expect("a digest").to_owned()
    };
    let first = upload(FIRST);
    let mended = upload(&FIRST.replace(r#"return "first""#, r#"return "mended""#));
    let different = upload(&FIRST.replace(r#"step.run("first""#, r#"step.run("renamed""#));
    let foreign = upload(&FIRST.replace(r#"workflow("w""#, r#"workflow("v""#));
    let run = server.post("/v1/workflows/w/runs", &json!({})).expect(201).run();
    drop(until_waiting(&server, &run));
    drop(server.post(&format!("/v1/runs/{run}/pause"), &json!({})).expect(202));
    let path = format!("/v1/runs/{run}/resume");
    let on = |digest: &str| server.keyed(digest).post(&path, &json!({ "digest": digest }));
    let refused = on(&different).problem(409, "workflows.replay_mismatch");
    let detail = refused.body["detail"].to_string();
    assert!(detail.contains("first") && detail.contains("renamed"), "the first difference: {detail}");
    drop(on(&foreign).problem(422, "workflows.unknown_workflow"));
    drop(on("none").problem(404, "not_found"));
    // A refusal has changed nothing.
    let seen = server.get(&format!("/v1/runs/{run}")).expect(200).body;
    assert_eq!((&seen["status"], &seen["digest"]), (&json!("paused"), &json!(first)));
    let url = format!("http://{}", server.address());
    let resume =
        |digest: &str| project.stepwell(&["runs", "resume", &run, "--digest", digest, "--json", "--url", &url]);
    assert!(resume(&different).expect_code(2).stderr.contains("renamed"));
    drop(resume(&mended).expect_code(0));
    drop(until_waiting(&server, &run));
    server.kill();
    let server = project.serve(&[]);
    assert_eq!(server.get(&format!("/v1/runs/{run}")).expect(200).body["digest"], json!(mended));
    drop(server.post(&format!("/v1/runs/{run}/events/go"), &json!(null)).expect(202));
    assert_eq!(server.ended(&run)["result"], "mended");
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
