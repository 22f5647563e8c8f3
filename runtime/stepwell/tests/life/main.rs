//! What people ask of a run, through the engine, with real workflows: each question in each state, live and after a kill.

// Also in functions that are no tests themselves: here a panic is the answer.
#![allow(clippy::unwrap_used, clippy::panic)]

mod in_line;
mod live;
mod no_place;
mod offline;
mod place_free;

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use stepwell_core::error::Error;
use stepwell_core::run::Granted;
use stepwell_engine::http::{AddressPolicy, Destinations, HttpClient, HttpSettings, Secrets};
use stepwell_engine::{AskError, Engine, Reach, RunRef, Settings};
use stepwell_tests::{Module, Reply, Server};

static MODULE: LazyLock<Module> = LazyLock::new(|| Module::build("life.ts", include_str!("life.ts")));

/// A state of a run in which people ask something of it, and the workflow's word for it.
const STATES: [&str; 6] = ["executing", "backing-off", "sleeping", "waiting", "blocked", "between"];

/// What takes longer does not come any more.
const HANGS: Duration = Duration::from_secs(60);

/// An engine on that data directory.
fn engine(data_dir: &Path, adjust: impl FnOnce(&mut Settings)) -> Engine {
    try_engine(data_dir, adjust).unwrap()
}

fn try_engine(data_dir: &Path, adjust: impl FnOnce(&mut Settings)) -> Result<Engine, String> {
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    let secrets = Secrets::load(&[]).unwrap();
    let http = HttpSettings { allow: Destinations::Any, addresses, secrets, ..HttpSettings::default() };
    let mut settings = Settings::new(data_dir);
    adjust(&mut settings);
    let also = ["127.0.0.1:*"].iter().map(|text| text.parse().unwrap()).collect();
    Engine::open(settings, HttpClient::new(http), Reach { also }).map_err(|error| format!("{error:#}"))
}

/// The other side: it never answers a charge, drops what is doubtful, and answers everything else.
fn server() -> Server {
    Server::start(|request| match request.path.as_str() {
        "/charge" => Reply::Hang,
        "/doubtful" => Reply::Drop,
        _ => Reply::Answer(200, "done".to_owned()),
    })
}

fn count(server: &Server, path: &str) -> usize {
    server.requests().iter().filter(|request| request.path == path).count()
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    Cancel,
    Terminate,
    Pause,
    Resume,
}

impl Question {
    const ALL: [Self; 4] = [Self::Cancel, Self::Terminate, Self::Pause, Self::Resume];

    async fn ask(self, engine: &Engine, run: &RunRef) -> Result<Granted, AskError> {
        match self {
            Self::Cancel => engine.cancel(run, "ana", "no longer wanted").await,
            Self::Terminate => engine.terminate(run, "ana", "out of hand").await,
            Self::Pause => engine.pause(run, "ana", "the bank is down").await,
            Self::Resume => engine.resume(run, "ana", None).await,
        }
    }
}

/// The run's status and detail, as its row has them.
fn status(engine: &Engine, run: &RunRef) -> Result<(String, String), Error> {
    let row = engine.run(&run.id)?.unwrap();
    Ok((row.status.to_string(), row.detail.unwrap_or_default()))
}
