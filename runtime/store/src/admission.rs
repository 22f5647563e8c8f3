//! The rules of the queue: which of the runs that wait may begin. All of it is in the transaction of the write that made room, or that
//! started the run; so whoever dies leaves no place taken by nobody, and none given twice.
//!
//! ```text
//!   start ──> Waits ──(a place)──> Holds ──(the end)──> Over ──(taken up again)──> Waits
//!      └────> Rests ──(its time; resumed)──> Waits ──(paused)──> Rests
//! ```
//!
//! Runs with the same key are a line. A line whose first may not begin because of its key is closed, and the others go past it. Whether a
//! line is open is a hint: each run is looked at anew, by the rows, before it begins.

use std::collections::{HashMap, HashSet};

use stepwell_core::policy::admission::{Limits, Standing, Wait, waits_for};

use crate::error::Result;
use crate::fault::{Fault, planted};
use crate::ledger::Rows;
use crate::queue::{Begins, COUNTED_TO, Entrant, InQueue, LimitsRow, QueueAs, QueueReads, QueueRows, Turn};
use crate::rows::{RunChange, RunKey};
use crate::status::Status;

/// Lines looked at by one write; the others later, so that other writes have their turn.
const AT_ONCE: usize = 256;
/// By so much the times of writes may be out of their order, in ms.
const OUT_OF_ORDER_MS: u64 = 5_000;
/// Workflows whose limits are remembered. Beyond that all are forgotten and looked up anew.
const MAX_REMEMBERED: usize = 10_000;

/// What is remembered of the limits, and what has come of the present transaction.
#[derive(Default)]
pub(crate) struct Gate {
    /// Whether there are any.
    limited: Option<bool>,
    limits: HashMap<String, Option<Limits>>,
    begins: Vec<Begins>,
}

impl Gate {
    /// What has come of the transaction, once it is committed. What is said of a workflow is said once.
    pub(crate) fn take(&mut self) -> Vec<Begins> {
        let mut begins = std::mem::take(&mut self.begins);
        let mut told = HashSet::new();
        begins.retain(|begins| told.insert(begins.clone()));
        begins
    }

    /// No longer true: limits have changed.
    fn forget(&mut self) {
        self.limited = None;
        self.limits.clear();
    }

    fn is_limited(&mut self, queue: &dyn QueueRows) -> Result<bool> {
        Ok(match self.limited {
            Some(limited) => limited,
            None => *self.limited.insert(queue.has_limits()?),
        })
    }

    fn limits(&mut self, queue: &dyn QueueRows, workflow: &str) -> Result<Option<Limits>> {
        if !self.is_limited(queue)? {
            return Ok(None);
        }
        if let Some(limits) = self.limits.get(workflow) {
            return Ok(*limits);
        }
        let limits = queue.limits(workflow)?;
        if self.limits.len() >= MAX_REMEMBERED {
            self.limits.clear();
        }
        self.limits.insert(workflow.to_owned(), limits);
        Ok(limits)
    }
}

/// How a run that is about to be started stands, and when it is to be woken.
pub(crate) struct Entering {
    /// None where nothing is to be kept of it.
    pub(crate) turn: Option<Turn>,
    pub(crate) wake_at_ms: Option<u64>,
}

/// Where a run comes to stand that is about to be started. The one place where that is decided, whoever starts it.
pub(crate) fn entering(
    rows: &mut dyn Rows,
    gate: &mut Gate,
    workflow: &str,
    queue_as: &QueueAs,
    begins_at_ms: Option<u64>,
) -> Result<Entering> {
    let limited = gate.limits(rows.queue(), workflow)?.is_some();
    let known = limited || queue_as.key.is_some() || queue_as.priority != 0;
    let turn = match begins_at_ms {
        _ if !known => None,
        Some(_) => Some(Turn::Rests),
        None if limited => Some(Turn::Waits),
        None => Some(Turn::Holds),
    };
    let wake_at_ms = if turn == Some(Turn::Waits) { queue_as.deadline_ms } else { begins_at_ms };
    Ok(Entering { turn, wake_at_ms })
}

/// The run has its row: it gets in line, and begins where it may.
pub(crate) fn entered(rows: &mut dyn Rows, gate: &mut Gate, entrant: &Entrant, now_ms: u64) -> Result<()> {
    let queue = rows.queue();
    queue.put_entrant(entrant)?;
    if entrant.turn != Turn::Waits {
        return Ok(());
    }
    line_up(queue, &entrant.workflow, &entrant.key)?;
    let before = gate.begins.len();
    admit(queue, gate, &entrant.workflow, now_ms)?;
    // Whoever starts a run lets it go on by himself.
    if let Some(at) = gate.begins.iter().skip(before).position(|begins| *begins == Begins::Run(entrant.run)) {
        gate.begins.remove(before + at);
    }
    Ok(())
}

/// What is known of a run whose row changes.
pub(crate) struct Changing<'a> {
    pub(crate) run: RunKey,
    pub(crate) change: &'a RunChange,
    /// It had failed, and is taken up again.
    pub(crate) reopens: bool,
    /// Another goes on in its place, and has its place here too.
    pub(crate) is_succeeded: bool,
}

/// When a run is to be woken that does not begin yet: what is asked for, or the end of its time.
pub(crate) fn wake_of(rows: &mut dyn Rows, changing: &Changing<'_>) -> Result<Option<u64>> {
    let asked = changing.change.wake_at_ms;
    let Some(entrant) = rows.queue().entrant(changing.run)? else { return Ok(asked) };
    let waits =
        turn_after(entrant.turn, changing) == Turn::Waits && !changing.reopens && !planted(Fault::TimeOverInLine);
    Ok(if waits { entrant.deadline_ms } else { asked })
}

/// Where a run comes to stand by a change.
fn turn_after(turn: Turn, changing: &Changing<'_>) -> Turn {
    let change = changing.change;
    match (turn, change.status) {
        (_, status) if status.is_finished() => Turn::Over,
        (Turn::Over, _) if changing.reopens && planted(Fault::RetryTakesAPlace) => Turn::Holds,
        (Turn::Over, _) if changing.reopens => Turn::Waits,
        (Turn::Waits, Status::Paused) if planted(Fault::PausedInLine) => Turn::Waits,
        (Turn::Waits | Turn::Rests, Status::Paused) => Turn::Rests,
        (Turn::Rests, Status::Queued) if change.wake_at_ms.is_some() => Turn::Rests,
        (Turn::Waits | Turn::Rests, Status::Queued) => Turn::Waits,
        // Whoever drives it says that it has begun.
        (Turn::Waits | Turn::Rests, _) => Turn::Holds,
        (Turn::Holds | Turn::Over, _) => turn,
    }
}

/// The row of a run that the queue knows has changed: it gets in line or out of it, and makes room for others.
pub(crate) fn changed(rows: &mut dyn Rows, gate: &mut Gate, changing: &Changing<'_>) -> Result<()> {
    let queue = rows.queue();
    let Some(before) = queue.entrant(changing.run)? else { return Ok(()) };
    let turn = turn_after(before.turn, changing);
    if turn == before.turn {
        return Ok(());
    }
    // Who has begun once has no time to begin in any more.
    let deadline_ms = before.deadline_ms.filter(|_| !changing.reopens);
    queue.put_entrant(&Entrant { turn, deadline_ms, ..before.clone() })?;
    if before.turn == Turn::Waits || turn == Turn::Waits {
        line_up(queue, &before.workflow, &before.key)?;
    }
    if before.turn == Turn::Holds {
        queue.open_line(&before.workflow, &before.key)?;
    }
    let makes_room = turn == Turn::Over && !changing.is_succeeded && !planted(Fault::EndMakesNoRoom);
    if turn == Turn::Waits || makes_room { admit(queue, gate, &before.workflow, changing.change.at_ms) } else { Ok(()) }
}

/// The same for a run that the queue does not know: from before there were limits, or of a workflow without any. Whether it is known
/// now.
pub(crate) fn changed_unknown(rows: &mut dyn Rows, gate: &mut Gate, changing: &Changing<'_>) -> Result<bool> {
    let ends = changing.change.status.is_finished() && !changing.is_succeeded;
    if !ends && !changing.reopens {
        return Ok(false);
    }
    let queue = rows.queue();
    let run = changing.run;
    // Nearly always there are no limits at all, and nothing is looked up.
    let workflow = if gate.is_limited(queue)? { queue.workflow_of(run)? } else { None };
    let limits = match &workflow {
        Some(workflow) => gate.limits(queue, workflow)?,
        None => None,
    };
    let (Some(workflow), Some(_)) = (workflow, limits) else {
        if changing.reopens {
            gate.begins.push(Begins::Run(run));
        }
        return Ok(false);
    };
    if changing.reopens {
        queue.put_entrant(&unnamed(run, &workflow, Turn::Waits))?;
        line_up(queue, &workflow, "")?;
    }
    admit(queue, gate, &workflow, changing.change.at_ms)?;
    Ok(changing.reopens)
}

/// Who goes on for another has its place. Whether the queue knows it.
pub(crate) fn succeeded(rows: &mut dyn Rows, run: RunKey, successor: RunKey) -> Result<bool> {
    let queue = rows.queue();
    let Some(entrant) = queue.entrant(run)? else { return Ok(false) };
    let turn = if planted(Fault::SuccessorWithoutPlace) { Turn::Over } else { Turn::Holds };
    queue.put_entrant(&Entrant { run: successor, turn, deadline_ms: None, ..entrant })?;
    Ok(true)
}

/// Sets the limits of a workflow, with immediate effect.
pub(crate) fn set_limits(rows: &mut dyn Rows, gate: &mut Gate, limits: &LimitsRow) -> Result<()> {
    let queue = rows.queue();
    let workflow = &limits.workflow;
    let rated = |limits: Option<Limits>| limits.and_then(|limits| limits.rate).map(|rate| rate.per_key);
    let before = queue.limits(workflow)?;
    if rated(before) != rated(Some(limits.limits)) {
        queue.forget_begun(workflow)?;
    }
    queue.set_limits(limits)?;
    gate.forget();
    if before.is_none() && !planted(Fault::EarlierUnasked) {
        // They would begin at their time without asking.
        for run in queue.unknown_delayed(workflow)? {
            queue.put_entrant(&unnamed(run, workflow, Turn::Rests))?;
        }
    }
    queue.open_lines(workflow, u64::MAX)?;
    if planted(Fault::LimitCountsLater) {
        return Ok(());
    }
    admit(queue, gate, workflow, limits.set_at_ms)
}

/// Lets those begin that may at this time: of this workflow, or of all.
pub(crate) fn admit_at(rows: &mut dyn Rows, gate: &mut Gate, workflow: Option<&str>, now_ms: u64) -> Result<()> {
    let queue = rows.queue();
    match workflow {
        Some(workflow) => admit(queue, gate, workflow, now_ms),
        None => queue.queues()?.iter().try_for_each(|workflow| admit(queue, gate, workflow, now_ms)),
    }
}

/// A run without a key or a priority.
fn unnamed(run: RunKey, workflow: &str, turn: Turn) -> Entrant {
    Entrant { run, workflow: workflow.to_owned(), key: String::new(), priority: 0, turn, deadline_ms: None }
}

/// The first of those that wait with a key may be another.
fn line_up(queue: &mut dyn QueueRows, workflow: &str, key: &str) -> Result<()> {
    let first = queue.first_in_line(workflow, key)?;
    queue.put_line(workflow, key, first)
}

fn admit(queue: &mut dyn QueueRows, gate: &mut Gate, workflow: &str, now_ms: u64) -> Result<()> {
    let limits = gate.limits(queue, workflow)?.unwrap_or_default();
    let now_ms = if limits.rate.is_some() { never_back(queue, workflow, now_ms)? } else { now_ms };
    queue.open_lines(workflow, now_ms)?;
    let mut looked_at = 0;
    while let Some(line) = queue.next_line(workflow)? {
        if looked_at == AT_ONCE {
            gate.begins.push(Begins::More(workflow.to_owned()));
            return Ok(());
        }
        looked_at += 1;
        match wait_of(queue, &limits, workflow, &line.key, now_ms)? {
            None => begin(queue, gate, &limits, line.first.1, now_ms)?,
            Some(wait) if wait.is_for_all() || planted(Fault::KeyHoldsUpAll) => {
                if let Some(until_ms) = wait.until_ms() {
                    gate.begins.push(Begins::Later(workflow.to_owned(), until_ms));
                }
                return Ok(());
            }
            Some(wait) => queue.close_line(workflow, &line.key, wait.until_ms())?,
        }
    }
    if let Some(at_ms) = queue.next_opening(workflow)? {
        gate.begins.push(Begins::Later(workflow.to_owned(), at_ms));
    }
    Ok(())
}

/// The time for a rate: not before what has begun. Writes come a little out of order; a clock that was set back by more has what has
/// begun begin now.
fn never_back(queue: &mut dyn QueueRows, workflow: &str, now_ms: u64) -> Result<u64> {
    let Some(newest_ms) = queue.newest_begun(workflow)?.filter(|newest_ms| *newest_ms > now_ms) else {
        return Ok(now_ms);
    };
    if newest_ms - now_ms <= OUT_OF_ORDER_MS || planted(Fault::ClockHoldsUp) {
        return Ok(newest_ms);
    }
    queue.begun_by(workflow, now_ms)?;
    Ok(now_ms)
}

/// What a run with this key waits for.
fn wait_of<Q: QueueReads + ?Sized>(
    queue: &Q,
    limits: &Limits,
    workflow: &str,
    key: &str,
    now_ms: u64,
) -> Result<Option<Wait>> {
    let keyed = !key.is_empty();
    let under_way = if limits.runs.is_some() { queue.under_way(workflow)? } else { 0 };
    let of_key = match limits.per_key {
        Some(most) if keyed => queue.holding(workflow, key, most)?,
        _ => 0,
    };
    let begun_ms = match limits.rate {
        Some(rate) if keyed || !rate.per_key => {
            queue.begun_back(workflow, if rate.per_key { key } else { "" }, rate.runs)?
        }
        _ => None,
    };
    Ok(waits_for(limits, keyed, Standing { under_way, of_key, begun_ms }, now_ms))
}

fn begin(queue: &mut dyn QueueRows, gate: &mut Gate, limits: &Limits, run: RunKey, now_ms: u64) -> Result<()> {
    let Some(entrant) = queue.entrant(run)? else { return Ok(()) };
    queue.put_entrant(&Entrant { turn: Turn::Holds, deadline_ms: None, ..entrant.clone() })?;
    line_up(queue, &entrant.workflow, &entrant.key)?;
    let rate = limits.rate.filter(|rate| (!rate.per_key || !entrant.key.is_empty()) && !planted(Fault::RateForgets));
    if let Some(rate) = rate {
        let key = if rate.per_key { entrant.key.as_str() } else { "" };
        queue.add_begun(&entrant.workflow, key, now_ms, now_ms.saturating_sub(rate.per_ms))?;
    }
    gate.begins.push(Begins::Run(run));
    Ok(())
}

/// Where a run is among those that wait; `None` where it does not wait.
pub(crate) fn in_queue<Q: QueueReads + ?Sized>(queue: &Q, run: RunKey, now_ms: u64) -> Result<Option<InQueue>> {
    let Some(entrant) = queue.entrant(run)?.filter(|entrant| entrant.turn == Turn::Waits) else { return Ok(None) };
    let limits = queue.limits(&entrant.workflow)?.unwrap_or_default();
    let wait = wait_of(queue, &limits, &entrant.workflow, &entrant.key, now_ms)?;
    let place = |with_key| queue.before(&entrant, with_key, COUNTED_TO - 1).map(|before| before + 1);
    let place_in_key = if entrant.key.is_empty() { None } else { Some(place(true)?) };
    Ok(Some(InQueue { wait, place: place(false)?, place_in_key, counted_to: COUNTED_TO }))
}

/// What the first of those that wait in a workflow waits for.
pub(crate) fn first_wait<Q: QueueReads + ?Sized>(
    queue: &Q,
    workflow: &str,
    key: &str,
    now_ms: u64,
) -> Result<Option<Wait>> {
    let limits = queue.limits(workflow)?.unwrap_or_default();
    wait_of(queue, &limits, workflow, key, now_ms)
}
