//! Where hostile guests run: an engine with a data directory, in this process, so that a well-behaved run can be beside each.

use std::time::Duration;

use serde_json::Value;
use stepwell_core::error::Error;
use stepwell_core::ids::Digest;
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::json::Json;
use stepwell_engine::http::{AddressPolicy, HttpClient, HttpSettings};
use stepwell_engine::store::LogRow;
use stepwell_engine::{Engine, Reach, RunEvent, RunRef, Settings, StartRun};
use tempfile::TempDir;

use super::guest::{Budget, made};

/// An engine of its own.
pub(crate) struct House {
    pub(crate) engine: Engine,
    neighbour: Digest,
    _dir: TempDir,
}

/// What became of a run.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) run: RunRef,
    pub(crate) end: End,
}

#[derive(Debug)]
pub(crate) enum End {
    Succeeded(Json),
    Failed(Error),
    /// Set aside, or blocked.
    Paused(Error),
    /// It waits for what is far away.
    Waiting,
}

/// How long a run may say nothing and not end. No test waits for this: what runs into it has hung.
const HANGS: Duration = Duration::from_secs(120);
/// What is due within this is waited for.
const NEAR_MS: u64 = 60_000;

/// Two steps and a sleep, and then both their results.
const NEIGHBOUR: &str = r#"
(func $run (result i32)
  (drop (call $begin (i32.const 2072) (i32.const 1)))
  (if (i32.eqz (call $until-told)) (then (unreachable)))
  (call $sleep (i64.const 1) (i32.const 256))
  (if (i32.ne (call $next) (i32.const 3)) (then (unreachable)))
  (drop (call $begin (i32.const 2080) (i32.const 5)))
  (if (i32.eqz (call $until-told)) (then (unreachable)))
  (call $ok-value))
"#;

impl House {
    pub(crate) async fn new(budget: Budget) -> Self {
        Self::with(|settings| {
            if budget == Budget::Short {
                settings.workflow_turn = Duration::from_millis(500);
                settings.body_turn = Duration::from_millis(500);
            }
        })
        .await
    }

    pub(crate) async fn with(adjust: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let engine = open(&dir, adjust);
        let neighbour = engine.add_module(made(NEIGHBOUR)).await.expect("the neighbour is a module").digest;
        Self { engine, neighbour, _dir: dir }
    }

    /// Runs a module's only workflow to its end.
    pub(crate) async fn run(&self, digest: &Digest) -> Seen {
        self.run_with(digest, Json::null(), Vec::new()).await
    }

    /// Lets a run begin, and does not wait for it.
    pub(crate) async fn begin(&self, digest: &Digest) -> RunRef {
        let run = self.start(digest, Json::null(), Vec::new()).await;
        self.engine.go(&run);
        run
    }

    pub(crate) async fn run_with(&self, digest: &Digest, input: Json, events: Vec<(String, Json)>) -> Seen {
        let run = self.start(digest, input, events).await;
        let mut happenings = self.engine.watch(run.key);
        self.engine.go(&run);
        let end = follow(&mut happenings).await;
        Seen { run, end }
    }

    async fn start(&self, digest: &Digest, input: Json, events: Vec<(String, Json)>) -> RunRef {
        let start = StartRun { events, ..StartRun::new(digest.clone(), None, input) };
        self.engine.start(start).await.unwrap_or_else(|error| panic!("the run does not start: {error}"))
    }

    /// The run that means well. It must end as it always does.
    pub(crate) async fn neighbour(&self) {
        let seen = self.run(&self.neighbour).await;
        assert!(matches!(&seen.end, End::Succeeded(value) if value.as_str() == "1"), "{seen:?}");
        let kinds: Vec<String> = self.journal(&seen.run).iter().map(kind).filter(|kind| kind != "resumed").collect();
        let step = ["step_begun", "attempt_started", "attempt_ended", "delivered"];
        let sleep = ["sleep_begun", "timer_fired", "delivered"];
        let all = [&["started"][..], &step, &sleep, &step, &["ended"]].concat();
        assert_eq!(kinds, all);
    }

    /// The entries of a run's journal, as JSON.
    pub(crate) fn journal(&self, run: &RunRef) -> Vec<Value> {
        let journal = self.engine.store().read().journal(run.key).expect("the journal can be read");
        let record = |(seq, bytes): (u64, Vec<u8>)| codec::decode(seq, &bytes).expect("an entry can be read").record;
        // What is nested too deeply to be a tree is shown as text.
        let tree = |record| serde_json::to_value(&record).unwrap_or_else(|_| Value::String(format!("{record:?}")));
        journal.into_iter().map(record).map(tree).collect()
    }

    pub(crate) fn logs(&self, run: &RunRef) -> Vec<LogRow> {
        self.engine.store().read().logs(run.key, None, u32::MAX).expect("the log can be read")
    }
}

/// An engine on a directory.
pub(crate) fn open(dir: &TempDir, adjust: impl FnOnce(&mut Settings)) -> Engine {
    let mut settings = Settings::new(dir.path());
    settings.pool_instances = 8;
    // What waits is rebuilt by replay, however short the wait.
    settings.keep_quiet = Duration::ZERO;
    adjust(&mut settings);
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    let client = HttpClient::new(HttpSettings { addresses, ..HttpSettings::default() });
    let reach = Reach { also: vec!["127.0.0.1:*".parse().expect("it is a destination")] };
    Engine::open(settings, client, reach).expect("an engine can be opened")
}

/// What an entry is.
pub(crate) fn kind(entry: &Value) -> String {
    match entry {
        Value::Object(fields) => fields.keys().next().cloned().unwrap_or_default(),
        other => other.as_str().unwrap_or_default().to_owned(),
    }
}

/// Until a run ends, is set aside, or waits for what is far away.
pub(crate) async fn follow(happenings: &mut tokio::sync::mpsc::UnboundedReceiver<RunEvent>) -> End {
    loop {
        let event = tokio::time::timeout(HANGS, happenings.recv()).await.expect("a run neither speaks nor ends");
        match event.expect("a run's watchers hear of its end") {
            RunEvent::Ended(RunOutcome::Succeeded(value)) => return End::Succeeded(value),
            RunEvent::Ended(RunOutcome::Failed(error)) => return End::Failed(error),
            RunEvent::Paused(error) => return End::Paused(error),
            RunEvent::Waiting { until_ms, .. } if until_ms.is_none_or(|at| at > now_ms() + NEAR_MS) => {
                return End::Waiting;
            }
            RunEvent::Entry { .. } | RunEvent::Log(_) | RunEvent::StatusText(_) | RunEvent::Waiting { .. } => {}
            other => panic!("no such end is expected of any guest: {other:?}"),
        }
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(since.as_millis()).expect("it is not that late yet")
}
