//! One life of an engine over a data directory, on the thread that calls: until its client has done what it wanted, or its fate strikes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stepwell_engine::store::{Gather, Grouped, SqliteLedger, SqliteOptions, Store};
use stepwell_engine::{Engine, Tap};

use super::Plot;
use super::client::{Client, Desk};
use crate::fate::Fate;
use crate::life::{client, reach, settings};
use crate::mortal::Mortal;
use crate::subject::{EAGER, HOST};

/// How a life ended.
pub(super) enum Ending {
    /// As its fate had it.
    Died,
    /// The client has done what it wanted.
    Over,
    /// Nothing came any more.
    Stuck,
    /// Something was not as the client could expect it.
    Failed(anyhow::Error),
}

pub(super) fn live(
    data_dir: &Path,
    gather: Gather,
    plot: Plot,
    desk: &Arc<Desk>,
    fate: &Fate,
    patience: Duration,
) -> anyhow::Result<Ending> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ending = runtime.block_on(async {
        let (ledger, reads) = SqliteLedger::open(data_dir, SqliteOptions::default())?;
        let store: Arc<dyn Store> = Arc::new(Grouped::over(Mortal::new(ledger, fate.clone()), reads, gather)?);
        let mut settings = settings(data_dir, gather, fate);
        // Runs wait for the only place, and are asked, told and lost while they have no task.
        if gather == EAGER {
            settings.max_live = 1;
        }
        let sees = desk.clone();
        settings.tap = Tap::new(move |run, seq, entry| sees.state().shown.push((run, seq, entry.clone())));
        let engine = Engine::over(settings, store, HOST.clone(), client(), reach());
        let told = async {
            engine.recover()?;
            plot(Client { engine: engine.clone(), desk: desk.clone() }).await
        };
        let ending = tokio::select! {
            biased;
            () = fate.death() => Ending::Died,
            told = tokio::time::timeout(patience, told) => match told {
                Ok(told) => told.map_or_else(Ending::Failed, |()| Ending::Over),
                Err(_) => Ending::Stuck,
            },
        };
        // What a dead process is told by its own failing store is not seen by anybody.
        anyhow::Ok(if fate.is_dead() { Ending::Died } else { ending })
    });
    // Tasks and their connections go with it, and the database is closed.
    drop(runtime);
    ending
}
