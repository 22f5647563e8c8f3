//! A client that begins anew whenever the process has died: it looks at what is on record, and asks for what is not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use stepwell_core::ids::{Digest, RunId};
use stepwell_core::journal::entry::{Entry, Record};
use stepwell_core::json::Json;
use stepwell_engine::{AskError, Engine, Refusal, RunRef, StartRun};
use stepwell_store::{RunFilter, RunKey, RunRow, Status};

use crate::gate::Gate;
use crate::life::entries;
use crate::world::World;

/// What outlives every life: what a client knows, and what was shown and promised to it.
pub(super) struct Desk {
    pub(super) world: Arc<World>,
    pub(super) gate: Gate,
    pub(super) digests: [Digest; 2],
    state: Mutex<State>,
}

/// Whether an entry is what was promised.
type IsOnRecord = fn(&Record) -> bool;

#[derive(Default)]
pub(super) struct State {
    /// Entries that somebody was told of.
    pub(super) shown: Vec<(RunKey, u64, Entry)>,
    /// What was granted.
    pub(super) granted: Vec<(RunId, &'static str, IsOnRecord)>,
    /// Entries that were lost with a database, which another has taken the place of.
    pub(super) lost: Vec<Entry>,
}

impl Desk {
    pub(super) fn new(world: Arc<World>, gate: Gate, digests: [Digest; 2]) -> Self {
        Self { world, gate, digests, state: Mutex::default() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client of one life.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) engine: Engine,
    pub(super) desk: Arc<Desk>,
}

impl Client {
    /// The run with this key; started where there is none.
    pub(super) async fn run(&self, key: &str, workflow: &str, mut input: Value) -> anyhow::Result<RunRef> {
        input["url"] = self.desk.gate.url().into();
        let start = StartRun {
            run_key: Some(key.to_owned()),
            ..StartRun::new(self.desk.digests[0].clone(), Some(workflow.to_owned()), Json::from(&input))
        };
        self.started(start).await
    }

    pub(super) async fn started(&self, start: StartRun) -> anyhow::Result<RunRef> {
        let key = start.run_key.clone().context("a run of a story has a key")?;
        if let Some(row) = self.engine.store().read().run_by_run_key(&key)? {
            return Ok(RunRef { id: row.run, key: row.key });
        }
        let new = self.engine.prepare(start).await?;
        let runs = self.engine.start_all(vec![new], None).await?;
        runs.into_iter().next().context("it was started")
    }

    /// The run that has this key now.
    pub(super) fn row(&self, key: &str) -> anyhow::Result<RunRow> {
        self.engine.store().read().run_by_run_key(key)?.with_context(|| format!("run {key:?} is gone"))
    }

    pub(super) fn journal(&self, run: RunKey) -> anyhow::Result<Vec<Entry>> {
        let journal: Vec<Vec<u8>> =
            self.engine.store().read().journal(run)?.into_iter().map(|(_, bytes)| bytes).collect();
        entries(&journal)
    }

    /// Waits until the run with this key has one of these statuses.
    pub(super) async fn until(&self, key: &str, statuses: &[Status]) -> anyhow::Result<RunRow> {
        loop {
            // Before it is looked at: whatever becomes durable after that is told.
            let mut events = self.engine.watch(self.row(key)?.key);
            let row = self.row(key)?;
            if statuses.contains(&row.status) {
                return Ok(row);
            }
            if row.status.is_finished() {
                bail!("run {key:?} is {}: {:?}", row.status, row.outcome);
            }
            events.recv().await;
        }
    }

    /// Waits until an entry like this is on record.
    pub(super) async fn until_entry(&self, run: &RunRef, is: impl Fn(&Record) -> bool) -> anyhow::Result<()> {
        let mut events = self.engine.watch(run.key);
        while !self.journal(run.key)?.iter().any(|entry| is(&entry.record)) {
            events.recv().await.context("it is over, and there is no such entry")?;
        }
        Ok(())
    }

    /// The first child of a run. It is started by the commit of its parent's entry.
    pub(super) async fn child_of(&self, run: &RunRef) -> anyhow::Result<RunRef> {
        let mut events = self.engine.watch(run.key);
        loop {
            let filter = RunFilter { parent: Some(run.id.clone()), ..RunFilter::default() };
            if let Some(row) = self.engine.store().read().runs(&filter)?.runs.pop() {
                return Ok(RunRef { id: row.run, key: row.key });
            }
            events.recv().await.context("it is over, and had no child")?;
        }
    }

    /// Waits until no run is open.
    pub(super) async fn until_all_are_over(&self) -> anyhow::Result<()> {
        loop {
            let open = || Ok::<_, anyhow::Error>(self.engine.store().read().unfinished()?.0.first().map(|run| run.key));
            let Some(first) = open()? else { return Ok(()) };
            let mut events = self.engine.watch(first);
            if open()? == Some(first) {
                events.recv().await;
            }
        }
    }

    /// Asks for something, unless it is on record. What is granted is on record from then on, whatever dies.
    pub(super) async fn asks<T>(
        &self,
        run: &RunRef,
        (what, is_on_record): (&'static str, IsOnRecord),
        ask: impl Future<Output = Result<T, AskError>>,
    ) -> anyhow::Result<()> {
        let is_there =
            || Ok::<_, anyhow::Error>(self.journal(run.key)?.iter().any(|entry| is_on_record(&entry.record)));
        if is_there()? {
            return Ok(());
        }
        match ask.await {
            // What follows shows whether that may be.
            Err(AskError::Refused(Refusal::Ended(_) | Refusal::Ending)) => return Ok(()),
            other => other.with_context(|| what)?,
        };
        ensure!(is_there()?, "{what}: granted, and not on record");
        self.desk.state().granted.push((run.id.clone(), what, is_on_record));
        Ok(())
    }
}
