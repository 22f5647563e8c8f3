//! `stepwell runs` shows runs of a server as it shows those of a directory.

use std::sync::LazyLock;

use serde_json::json;
use stepwell_tests::{Module, Project};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "looked-at.ts",
        r#"
import { workflow } from "stepwell";

export const much = workflow("much", async ({ step, log, setStatus }: any) => {
  setStatus("beginning");
  // More than a page of each.
  for (let n = 0; n < 1_050; n++) log.warn(`line ${n}`, { n, odd: "\u0007\u202e" });
  for (let n = 0; n < 260; n++) await step.run("s", () => { if (n === 0) console.log("in a body"); return n; });
  return { deep: JSON.parse("[".repeat(300) + "]".repeat(300)), large: "9007199254740993" };
});

export const fails = workflow("fails", async ({ step }: any) => {
  await step.run("s", () => { throw new Error("declined\n"); }, { retry: { maxAttempts: 1 } });
});

export const waits = workflow("waits", async ({ start, waitForEvent }: any) => {
  await start("fails", null, { detached: true });
  await waitForEvent("paid", { timeoutMs: 3_600_000 });
});
"#,
    )
});

#[test]
fn runs_of_a_server_are_shown_like_those_of_a_directory() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let (dir, url) = (project.data_dir().display().to_string(), format!("http://{}", server.address()));
    let start = |workflow: &str, tags: serde_json::Value| {
        let body = json!({ "input": null, "tags": tags, "priority": 3 });
        server.post(&format!("/v1/workflows/{workflow}/runs"), &body).expect(201).run()
    };
    let (much, fails) = (start("much", json!({})), start("fails", json!({ "shop": "berlin" })));
    let waits = start("waits", json!({ "shop": "berlin", "of": "a=b" }));
    for run in [&much, &fails] {
        let _ = server.ended(run);
    }
    while server.get(&format!("/v1/runs/{waits}")).body["status"] != "waiting"
        || server.get("/v1/runs?workflow=fails&status=failed").body["runs"].as_array().map(Vec::len) != Some(2)
    {
        std::thread::yield_now();
    }
    let both = |args: &[&str]| {
        [&["--data-dir", &*dir], &["--url", &*url]].map(|place| {
            let end = project.stepwell(&[&["runs"], args, place].concat()).expect_code(0);
            assert_eq!(end.stderr, "", "{args:?}");
            end.stdout
        })
    };
    for json in [&[][..], &["--json"]] {
        for (list, lines) in [
            (&["list"][..], 4),
            (&["list", "--workflow", "fails"], 2),
            (&["list", "--status", "waiting"], 1),
            (&["list", "--tag", "shop=berlin"], 2),
            (&["list", "--tag", "shop=berlin", "--tag", "of=a=b"], 1),
            (&["list", "--limit", "3"], 3),
            (&["list", "--limit", "0"], 0),
        ] {
            let [local, remote] = both(&[list, json].concat());
            assert_eq!((local.lines().count(), &local), (lines, &remote), "{list:?}");
        }
        for (run, journal, logs) in [(&much, 1_000, 1_051), (&fails, 5, 0), (&waits, 3, 0)] {
            for (look, least) in [("show", 1), ("journal", journal), ("logs", logs)] {
                let [local, remote] = both(&[&[look, run], json].concat());
                assert!(local.lines().count() >= least, "{look}: {local}");
                assert_eq!(local, remote, "{look}");
            }
        }
    }
    for look in ["show", "journal", "logs"] {
        let end = project.stepwell(&["runs", look, "run_0", "--url", &url]).expect_code(2);
        assert!(end.stderr.contains("there is no run"), "{end:#?}");
    }
}
