//! One life of an engine over a data directory, on the thread that calls: until its run ends, or its fate strikes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use stepwell_core::error::Error;
use stepwell_core::journal::codec;
use stepwell_core::journal::entry::Entry;
use stepwell_core::json::Json;
use stepwell_engine::http::{AddressPolicy, HttpClient, HttpSettings};
use stepwell_engine::store::{Gather, Grouped, RunFilter, RunRow, SqliteLedger, SqliteOptions, Store};
use stepwell_engine::{Engine, Reach, RunEvent, RunRef, Settings, StartRun, Verdict};
use stepwell_store::{RunKey, Status};

use crate::fate::Fate;
use crate::mortal::Mortal;
use crate::subject::{ADDRESS, EAGER, HOST, Subject};

/// How a life ended.
#[derive(Debug)]
pub enum Ending {
    /// As its fate had it.
    Died,
    /// The run's last event was told.
    Told(RunEvent),
    /// Nothing came any more.
    Stuck,
    /// The engine refused what it must not refuse.
    Refused(Error),
}

/// What was seen of a life.
#[derive(Debug)]
pub struct Life {
    /// How it ended.
    pub ending: Ending,
    /// Entries that the run's watcher was shown.
    pub shown: Vec<(u64, Entry)>,
    /// What a replay of the ended run has shown.
    pub verdict: Option<Verdict>,
}

/// A client that may reach this machine.
#[must_use]
pub fn client() -> HttpClient {
    let addresses = AddressPolicy { allow_loopback: true, ..AddressPolicy::default() };
    HttpClient::new(HttpSettings { addresses, ..HttpSettings::default() })
}

/// Where steps may send.
#[must_use]
pub fn reach() -> Reach {
    Reach { also: "127.0.0.1:*".parse().ok().into_iter().collect() }
}

/// What a life is given.
pub struct Circumstances<'a> {
    /// Module and input.
    pub subject: &'a Subject,
    /// The data directory.
    pub data_dir: &'a Path,
    /// When writes that nobody waits for are committed.
    pub gather: Gather,
    /// The other side.
    pub url: &'a str,
    /// How long a run may take.
    pub patience: Duration,
}

/// Lives: starts the run where there is none, and recovers otherwise.
///
/// # Errors
/// When the directory cannot be opened.
pub fn live(at: &Circumstances<'_>, fate: &Fate) -> anyhow::Result<Life> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let life = runtime.block_on(async {
        let (ledger, reads) = SqliteLedger::open(at.data_dir, SqliteOptions::default())?;
        let store: Arc<dyn Store> = Arc::new(Grouped::over(Mortal::new(ledger, fate.clone()), reads, at.gather)?);
        let mut settings = settings(at.data_dir, at.gather, fate);
        settings.skip_sleeps = at.subject.skip_sleeps;
        let engine = Engine::over(settings, store, HOST.clone(), client(), reach());
        anyhow::Ok(follow(&engine, at, fate).await)
    });
    // Tasks and their connections go with it, and the database is closed.
    drop(runtime);
    life
}

/// Of an engine that lives to its fate.
pub(crate) fn settings(data_dir: &Path, gather: Gather, fate: &Fate) -> Settings {
    let mut settings = Settings::new(data_dir);
    // What waits is parked, however short.
    settings.keep_quiet = Duration::from_millis(5);
    // Where each batch is a commit, each turn has one: else a death between them would be no point.
    if gather == EAGER {
        settings.together = 1;
    }
    // Bodies that run on without end are interrupted soon.
    settings.body_turn = Duration::from_millis(400);
    #[cfg(feature = "sweep")]
    {
        settings.points = stepwell_engine::Points::observed_by(Arc::new(fate.clone()));
    }
    let _ = fate;
    settings
}

async fn follow(engine: &Engine, at: &Circumstances<'_>, fate: &Fate) -> Life {
    let mut shown = Vec::new();
    let mut verdict = None;
    let ending = tokio::select! {
        biased;
        () = fate.death() => Ending::Died,
        ending = to_its_end(engine, at, &mut shown, &mut verdict) => ending,
        () = tokio::time::sleep(at.patience) => Ending::Stuck,
    };
    // What a dead process is told by its own failing store is not seen by anybody.
    let ending = if fate.is_dead() { Ending::Died } else { ending };
    Life { ending, shown, verdict }
}

async fn to_its_end(
    engine: &Engine,
    at: &Circumstances<'_>,
    shown: &mut Vec<(u64, Entry)>,
    verdict: &mut Option<Verdict>,
) -> Ending {
    let (run, new) = match the_run(engine, at).await {
        Ok(run) => run,
        Err(error) => return Ending::Refused(error),
    };
    match engine.outcome(&run) {
        // It died between the run's end and the word of it.
        Ok(Some(outcome)) => return ended(engine, &run, RunEvent::Ended(outcome), verdict).await,
        Ok(None) => {}
        Err(error) => return Ending::Refused(error),
    }
    let mut events = engine.watch(run.key);
    if new {
        engine.go(&run);
    } else if let Err(error) = engine.recover() {
        return Ending::Refused(error);
    }
    if let Some(event) = left_alone(engine, &run) {
        return Ending::Told(event);
    }
    while let Some(event) = events.recv().await {
        match event {
            RunEvent::Entry { seq, entry } => shown.push((seq, entry)),
            event if event.is_last() => return ended(engine, &run, event, verdict).await,
            _ => {}
        }
    }
    Ending::Stuck
}

/// A run that was blocked or paused before the death stays so: recovery leaves it alone.
fn left_alone(engine: &Engine, run: &RunRef) -> Option<RunEvent> {
    let row = engine.run(&run.id).ok()??;
    match row.status {
        Status::Blocked => Some(RunEvent::Blocked(Vec::new())),
        Status::Paused => {
            let detail = row.detail.unwrap_or_default();
            Some(RunEvent::Paused(Error::new(stepwell_core::error::Code::Internal, detail)))
        }
        _ => None,
    }
}

async fn ended(engine: &Engine, run: &RunRef, event: RunEvent, verdict: &mut Option<Verdict>) -> Ending {
    match engine.verify(run).await {
        Ok(replay) => *verdict = Some(replay),
        Err(error) => return Ending::Refused(error),
    }
    Ending::Told(event)
}

/// The run, and its children.
fn all() -> RunFilter {
    RunFilter { limit: u32::MAX, ..RunFilter::default() }
}

/// The run, and whether it is new.
async fn the_run(engine: &Engine, at: &Circumstances<'_>) -> Result<(RunRef, bool), Error> {
    let list = engine.store().read().runs(&all());
    let list = list.map_err(|error| Error::new(stepwell_core::error::Code::Internal, error.to_string()))?;
    if let Some(row) = list.runs.iter().find(|row| row.links.parent.is_none()) {
        return Ok((RunRef { id: row.run.clone(), key: row.key }, false));
    }
    let input = at.subject.input.replace(ADDRESS, at.url);
    let json = |text: &str| {
        Json::parse(text).map_err(|error| Error::new(stepwell_core::error::Code::InvalidArgument, error.to_string()))
    };
    let mut events = Vec::new();
    for (name, payload) in &at.subject.events {
        events.push((name.clone(), json(payload)?));
    }
    let start = StartRun {
        digest: at.subject.digest.clone(),
        workflow: None,
        input: json(&input)?,
        run_key: None,
        run_timeout_ms: at.subject.run_timeout_ms,
        events,
        tags: Vec::new(),
        delay_ms: 0,
        retry_of: None,
        concurrency_key: None,
        priority: 0,
    };
    Ok((engine.start(start).await?, true))
}

/// What the disk has of a run.
#[derive(Debug)]
pub struct OnDisk {
    /// Its row.
    pub row: RunRow,
    /// Its journal.
    pub journal: Vec<Vec<u8>>,
    /// What its workflow code logged.
    pub lines: Vec<String>,
}

/// The run as it stands on the disk.
///
/// # Errors
/// When they cannot be read.
pub fn on_disk(data_dir: &Path) -> anyhow::Result<Option<OnDisk>> {
    use stepwell_engine::store::Reads as _;

    let reads = stepwell_store::read_only(data_dir)?;
    let list = reads.runs(&all())?;
    let Some(row) = list.runs.iter().find(|row| row.links.parent.is_none()) else { return Ok(None) };
    let row = reads.run_by_number(row.key)?.context("the run is there")?;
    // What bodies log comes once for each attempt that had begun to: how often is no part of what is compared.
    let lines = reads.logs(row.key, None, u32::MAX)?.into_iter().filter(|line| line.step.is_none());
    let lines = lines.map(|line| line.text).collect();
    Ok(Some(OnDisk { journal: journal(&reads, row.key)?, row, lines }))
}

fn journal(reads: &stepwell_store::SqliteReads, run: RunKey) -> anyhow::Result<Vec<Vec<u8>>> {
    use stepwell_engine::store::Reads as _;

    Ok(reads.journal(run)?.into_iter().map(|(_, bytes)| bytes).collect())
}

/// The entries of a journal.
///
/// # Errors
/// When one cannot be read.
pub fn entries(journal: &[Vec<u8>]) -> anyhow::Result<Vec<Entry>> {
    (0..).zip(journal).map(|(seq, bytes)| Ok(codec::decode(seq, bytes)?)).collect()
}
