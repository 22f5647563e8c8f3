//! Taking a run up: from its journal to a task that drives it.

use stepwell_core::error::{Code, Error};
use stepwell_core::run::{Machine, Mode};
use stepwell_store::{RunChange, RunKey, Status};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::batch::Writing;
use crate::clock::{Parked, RunClock, real_now_ms};
use crate::commands::Handle;
use crate::driver::{Driver, End, Message};
use crate::effects::{InFlight, Outside, store_error};
use crate::engine::Engine;
use crate::points::Moment;
use crate::watch::RunEvent;

/// A run to be taken up, and how its task is reached.
pub(crate) struct Task {
    pub(crate) run: RunKey,
    /// Nothing of it has ever run.
    pub(crate) fresh: bool,
    /// A person asked for it.
    pub(crate) by_hand: bool,
    pub(crate) sender: UnboundedSender<Message>,
    pub(crate) messages: UnboundedReceiver<Message>,
}

/// Drives a run for as long as it has something to do. A run that cannot be taken up is set aside by name; others are not hindered.
pub(crate) async fn drive(engine: &Engine, task: Task) -> End {
    let key = task.run;
    match prepare(engine, task).await {
        Ok(driver) => driver.run().await,
        Err(error) => {
            tracing::error!(run = key, %error, "the run is set aside");
            set_aside(engine, key, &error).await;
            End::Done
        }
    }
}

async fn prepare(engine: &Engine, task: Task) -> Result<Driver, Error> {
    let Task { run: key, fresh, by_hand, sender, messages } = task;
    let place = engine.places().clone().acquire_owned().await;
    let place = place.map_err(|_| Error::new(Code::Internal, "the engine is closed"))?;
    engine.settings().points.pass(Moment::TakingUp).await;
    // Whatever an earlier failure of the store left behind: what is durable now is what there is.
    engine.store().recover(key);
    let machine = engine.machine(key, Mode::Continue)?;
    let loaded = engine.loaded(machine.digest()).await?;
    let share = loaded.module.admit(engine.host()).await;
    let workflow = loaded.workflow(Some(&machine.started().workflow))?;
    let outside = Outside {
        client: engine.client().clone(),
        destinations: engine.reach().of(workflow)?,
        secrets: workflow.secrets.clone(),
    };
    let parked = if fresh { None } else { parked(engine, key, &machine)? };
    let clock = RunClock::after(machine.recorded_ms(), parked);
    let points = &engine.settings().points;
    let mut writing = Writing::new(key, engine.store().clone(), engine.watchers().clone(), machine.entries(), points);
    writing.change(RunChange::to(Status::Running, real_now_ms()), None);
    Ok(Driver {
        engine: engine.clone(),
        key,
        module: loaded.module.clone(),
        shared: Handle::new(machine, clock, outside),
        writing,
        sender,
        messages,
        fresh,
        by_hand,
        invocation: None,
        in_flight: InFlight::default(),
        event: None,
        end: None,
        stop_at: None,
        inbox: true,
        share,
        rebuilding: None,
        _place: place,
    })
}

/// How a run was left that waits.
fn parked(engine: &Engine, key: RunKey, machine: &Machine) -> Result<Option<Parked>, Error> {
    let row = engine.store().read().run_by_number(key).map_err(|error| store_error(&error))?;
    let waits = row.and_then(|row| row.wake_at_ms).zip(machine.waits_until_ms());
    Ok(waits.map(|(wake_at_ms, due_ms)| Parked { due_ms, wake_at_ms }))
}

/// Marks the run as paused, as far as the store lets it, and tells its watchers why.
pub(crate) async fn set_aside(engine: &Engine, key: RunKey, error: &Error) {
    let mut change = RunChange::to(Status::Paused, real_now_ms());
    change.detail = Some(error.to_string());
    // Whatever stopped the run before: its journal may be unreadable, and takes nothing more for now.
    engine.store().recover(key);
    let ticket = engine.store().append(stepwell_store::Append::change(key, change));
    if let Err(error) = engine.store().durable(ticket).await {
        tracing::error!(run = key, %error, "the run could not be marked as paused");
    }
    engine.watchers().tell(key, &RunEvent::Paused(error.clone()));
}
