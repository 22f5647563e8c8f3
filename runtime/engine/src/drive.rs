//! Taking a run up: from its journal to a task that drives it.

use std::sync::Arc;

use stepwell_core::error::{Code, Error, Retryability};
use stepwell_core::journal::entry::RunOutcome;
use stepwell_core::run::{Granted, Machine, Mode};
use stepwell_host::http::Destinations;
use stepwell_store::{RunChange, RunKey, RunRow, Status, Turn};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use crate::ask::{Answer, Ask, AskError, Question, Said};
use crate::batch::{Writing, ended};
use crate::clock::{Parked, RunClock, real_now_ms};
use crate::commands::Handle;
use crate::driver::{Driver, End, Message};
use crate::effects::{InFlight, Outside, unread};
use crate::engine::Engine;
use crate::points::Moment;
use crate::ready::Stands;
use crate::watch::RunEvent;

/// A run to be taken up, and how its task is reached.
pub(crate) struct Task {
    pub(crate) run: RunKey,
    pub(crate) sender: UnboundedSender<Message>,
    pub(crate) messages: UnboundedReceiver<Message>,
    /// A person has asked for this: the limit of recoveries does not apply.
    pub(crate) by_hand: bool,
    pub(crate) place: Place,
}

/// A run's place among the live ones.
pub(crate) struct Place {
    /// Where it waited for one, until it was asked something.
    pub(crate) stood: Option<Stands>,
    /// What it has.
    pub(crate) taken: Option<OwnedSemaphorePermit>,
}

/// Drives a run for as long as it has something to do. A run that cannot be taken up is set aside by name; others are not hindered.
pub(crate) async fn drive(engine: &Engine, mut task: Task) -> End {
    let key = task.run;
    engine.settings().points.pass(Moment::TakingUp).await;
    // Whatever an earlier failure of the store left behind: what is durable now is what there is.
    engine.store().recover(key);
    match take_up(engine, key) {
        Ok(taken) => taken.driver(engine, task).run().await,
        Err(error) if passes(&error) => {
            tracing::error!(run = key, %error, "the run cannot be taken up for now; it is tried again in a while");
            engine.watchers().tell(key, &RunEvent::Paused(error.clone()));
            for (_, answer) in asks(&mut task) {
                // Whoever asked may have gone.
                let _ = answer.send(Err(AskError::Failed(error.clone())));
            }
            End::Later
        }
        Err(error) => {
            tracing::error!(run = key, %error, "the run is set aside");
            set_aside(engine, key, &error).await;
            for (question, answer) in asks(&mut task) {
                let said = match &question.ask {
                    Ask::Terminate { reason, .. } => end_unread(engine, key, reason, &question).await,
                    _ => Err(AskError::Failed(error.clone())),
                };
                // Whoever asked may have gone.
                let _ = answer.send(said);
            }
            End::Done
        }
    }
}

/// Whoever asks something of a run that cannot be taken up.
fn asks(task: &mut Task) -> Vec<(Question, Answer)> {
    let messages = std::iter::from_fn(|| task.messages.try_recv().ok());
    let asks = messages.filter_map(|message| match message {
        Message::Ask(question, answer) => Some((question, answer)),
        _ => None,
    });
    asks.collect()
}

/// Ends a run whose journal cannot be read, so that it is off the list: by its row alone.
async fn end_unread(engine: &Engine, key: RunKey, reason: &Error, question: &Question) -> Result<Said, AskError> {
    let outcome = RunOutcome::Terminated(reason.clone());
    let (status, text) = ended(&outcome);
    let mut change = RunChange::to(status, real_now_ms());
    change.outcome = text;
    change.detail = Some("its journal could not be read: what it did is not known".to_owned());
    let said = Said::Granted(Granted::Now);
    let mut append = stepwell_store::Append::change(key, change);
    append.answer = question.kept(&said);
    let ticket = engine.store().append(append);
    match engine.store().durable(ticket).await {
        Ok(()) => {
            engine.notice_end(key);
            Ok(said)
        }
        Err(error) => Err(AskError::Store(error)),
    }
}

/// Whether an error is of the machine's, not of the run or its module: a disk, a descriptor or a thread that could not be had. It is
/// no reason to set a run aside, which a person would have to take up again.
pub(crate) fn passes(error: &Error) -> bool {
    [Code::Internal, Code::InvalidModule].iter().any(|code| error.is(*code))
        && error.retryability != Retryability::Never
}

/// A run as it is on the disk.
struct Taken {
    row: RunRow,
    machine: Machine,
}

fn take_up(engine: &Engine, key: RunKey) -> Result<Taken, Error> {
    let row = engine.store().read().run_by_number(key).map_err(|error| unread(&error))?;
    let row = row.ok_or_else(|| Error::new(Code::InvalidArgument, format!("there is no run of number {key}")))?;
    Ok(Taken { row, machine: engine.machine(key, Mode::Continue)? })
}

impl Taken {
    /// Its task, which builds an instance only if the run needs one.
    fn driver(self, engine: &Engine, task: Task) -> Driver {
        let Taken { row, machine } = self;
        let Task { run: key, sender, messages, by_hand, place } = task;
        let outside =
            Outside { client: engine.client().clone(), destinations: Destinations::None, secrets: Vec::new() };
        let clock = RunClock::after(machine.recorded_ms(), parked(&row, &machine));
        let (store, watchers) = (engine.store().clone(), engine.watchers().clone());
        let mut writing = Writing::new(&row, store, watchers, machine.entries(), engine.settings());
        if machine.ended().is_none() {
            writing.unknown(machine.unknown_count());
        }
        let mut driver = Driver {
            engine: engine.clone(),
            key,
            module: None,
            wanted: false,
            set_aside: row.status == Status::Paused && !machine.is_paused() && !machine.is_terminating(),
            begins_at: row.wake_at_ms.filter(|_| rests(&row)),
            turn: row.turn,
            armed: row.wake_at_ms,
            shared: Handle::new(machine, clock, outside),
            writing,
            sender,
            messages,
            fresh: false,
            by_hand,
            invocation: None,
            in_flight: InFlight::default(),
            others: Vec::new(),
            workflows: None,
            lengths: Arc::default(),
            slices: 0,
            run_key: row.run_key.clone(),
            tags: row.tags.clone(),
            event: None,
            end: None,
            stop_at: None,
            inbox: true,
            inbox_seen: 0,
            stood: place.stood,
            place: place.taken,
            share: None,
            rebuilding: None,
        };
        if row.links.cancel {
            driver.parent_is_gone();
        }
        driver
    }
}

/// Whether a run's time is that of its beginning. One that waits for a place has the end of its time there.
fn rests(row: &RunRow) -> bool {
    matches!(row.status, Status::Queued | Status::Paused) && row.turn.is_none_or(|turn| turn == Turn::Rests)
}

/// How a run was left that waits for what its journal knows of. One that has not begun, or is paused, wakes by its row alone.
fn parked(row: &RunRow, machine: &Machine) -> Option<Parked> {
    let waits = row.wake_at_ms.filter(|_| !matches!(row.status, Status::Queued | Status::Paused));
    let (wake_at_ms, due_ms) = waits.zip(machine.waits_until_ms())?;
    Some(Parked { due_ms, wake_at_ms })
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
