//! Traces: what a collector is sent of runs, across the end of a process, and that no run waits for it.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project, Reply, Server};

use crate::api_runs::start;
use crate::journals::until_waiting;

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "traced.ts",
        r#"
import { workflow } from "stepwell";

export const traced = workflow("traced", async ({ input, step, waitForEvent }: any) => {
  await step.run("flaky", ({ attempt }: any) => {
    if (attempt === 1) throw new Error("once more");
    return input.secret;
  }, { retry: { initialMs: 1 } });
  const go = input.waits ? await waitForEvent("go") : null;
  return step.run("last", () => `${input.secret} ${go}`);
});
"#,
    )
});

/// What stands in inputs, events and results, and in no span.
const SECRET: &str = "4929 1234 5678";

fn collector() -> Server {
    Server::start(|_| Reply::Answer(200, String::new()))
}

/// Every span so far, with what it says of itself.
fn spans(collector: &Server) -> Vec<Value> {
    let mut spans = Vec::new();
    for request in &collector.requests() {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
        assert!(!String::from_utf8_lossy(&request.raw).contains(SECRET), "a value has left in a trace");
        let sent: Value = serde_json::from_slice(&request.body).expect("it is JSON");
        for resource in list(&sent["resourceSpans"]) {
            let service = json!({ "key": "service.name", "value": { "stringValue": "stepwell" } });
            assert!(list(&resource["resource"]["attributes"]).contains(&service), "{resource:#}");
            spans.extend(list(&resource["scopeSpans"]).iter().flat_map(|scope| list(&scope["spans"]).clone()));
        }
    }
    spans
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap_or_else(|| panic!("no list: {value}"))
}

fn named<'a>(spans: &'a [Value], name: &str) -> &'a Value {
    let found: Vec<_> = spans.iter().filter(|span| span["name"] == name).collect();
    assert_eq!(found.len(), 1, "{name}: {spans:#?}");
    found[0]
}

/// In ns since the Unix epoch: a text, since JSON's numbers are too small for it.
fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no time: {span:#}"))
}

/// That the spans of a whole run are there, one in the other, under the run's own name.
fn is_whole(spans: &[Value], run: &str) {
    assert_eq!(spans.len(), 6, "{:?}", spans.iter().map(|span| &span["name"]).collect::<Vec<_>>());
    let (start, end) = (|span| time(span, "startTimeUnixNano"), |span| time(span, "endTimeUnixNano"));
    for span in spans {
        assert_eq!(format!("run_{}", span["traceId"].as_str().expect("a name")), run);
        assert_eq!(span["spanId"].as_str().map(str::len), Some(16));
        assert!(start(span) <= end(span), "{span:#}");
    }
    let root = named(spans, "traced");
    assert_eq!(root.get("parentSpanId"), None, "{root:#}");
    for (step, attempts) in [("flaky", 2), ("last", 1)] {
        let of = named(spans, step);
        assert_eq!(of["parentSpanId"], root["spanId"]);
        assert!(start(root) <= start(of) && end(of) <= end(root));
        for n in 1..=attempts {
            let attempt = named(spans, &format!("{step} attempt {n}"));
            assert_eq!(attempt["parentSpanId"], of["spanId"]);
            assert!(start(of) <= start(attempt) && end(attempt) <= end(of));
        }
    }
    assert_eq!(named(spans, "flaky attempt 1")["status"], json!({ "code": 2, "message": "once more" }));
    assert_eq!(named(spans, "flaky attempt 2").get("status"), None);
}

#[test]
fn a_run_that_another_process_goes_on_with_is_one_trace() {
    let project = Project::new();
    let collector = collector();
    let url = collector.url();
    let mut running =
        project.run_with(&MODULE, "traced", &json!({ "secret": SECRET, "waits": true }), &["--otlp", &url], &[]);
    drop(until_waiting(&mut running));
    collector.wait_for(1);
    while spans(&collector).len() < 3 {
        collector.wait_for(collector.requests().len() + 1);
    }
    running.kill();
    let run = project.only_run();
    let go = format!("go={}", json!(SECRET));
    let args = ["run", "--resume", &run, "--json", "--event", &go];
    let end = project.spawn_with(&args, &[("STEPWELL_OTLP_URL", &url)]).wait().expect_code(0);
    assert_eq!(*end.result(), json!(format!("{SECRET} {SECRET}")));
    let spans = spans(&collector);
    is_whole(&spans, &run);
    let started = project.journal(&run)[0]["atMs"].as_u64().expect("a time");
    assert_eq!(
        time(named(&spans, "traced"), "startTimeUnixNano"),
        started * 1_000_000,
        "it began in the first process"
    );
}

#[test]
fn a_server_sends_what_its_runs_do_and_nothing_where_nobody_asked() {
    let project = Project::new();
    let collector = collector();
    let server = project.serve_with(&MODULE);
    let untraced = start(&server, "traced", &json!({ "input": { "secret": SECRET } }));
    drop(server.ended(&untraced));
    drop(server.stop().expect_code(0));
    assert!(collector.requests().is_empty());
    let server = project.serve(&["--otlp", &format!("{}/v1/traces", collector.url())]);
    let run = start(&server, "traced", &json!({ "input": { "secret": SECRET } }));
    drop(server.ended(&run));
    // What is still to be sent is sent before it ends.
    drop(server.stop().expect_code(0));
    is_whole(&spans(&collector), &run);
    drop(project.stepwell(&["serve", "--otlp", "collector:4318", "--listen", "127.0.0.1:0"]).expect_code(2));
}

#[test]
fn a_collector_that_says_nothing_or_is_not_there_holds_nobody_up() {
    let project = Project::new();
    let hangs = Server::start(|_| Reply::Hang);
    let refuses = Server::refusing(|_| Reply::Drop);
    let fails = Server::start(|_| Reply::Answer(500, "no".to_owned()));
    for collector in [&hangs, &refuses, &fails] {
        let url = collector.url();
        let args = ["--otlp", &*url];
        let end = project.run_with(&MODULE, "traced", &json!({ "secret": SECRET }), &args, &[]).wait().expect_code(0);
        assert_eq!(*end.result(), json!(format!("{SECRET} null")));
    }
    assert!(!hangs.requests().is_empty() && !fails.requests().is_empty());
}
