//! The rules of what runs do to each other. All of it is in the transaction of the batch that says so; a part that cannot be done is
//! replied to, and is no reason to refuse the batch.

use stepwell_core::ids::RunId;

use crate::apply::{Heads, add};
use crate::error::Result;
use crate::ledger::Rows;
use crate::links::{Errand, Link, Reply, Successor};
use crate::rows::{NewEvent, NewRun, RunChange, RunKey};
use crate::status::Status;

/// Does what the run's batch says of others.
pub(crate) fn run(rows: &mut dyn Rows, heads: &mut Heads, run: RunKey, errands: &[Errand]) -> Result<()> {
    for errand in errands {
        let (op, reply) = match errand {
            Errand::Send { op, to, name, payload } => (*op, Some(send(rows, heads, to, name, payload)?)),
            Errand::Start { op, run: child, awaited, stays } => {
                let link = Link { parent: Some((run, *op)), awaited: *awaited, stays: *stays, ..Link::default() };
                (*op, start(rows, heads, child, link)?)
            }
            Errand::Refuse { op, error } => (*op, Some((Reply::Refused, error.clone()))),
            Errand::Cancel { op } => {
                ask_to_cancel(rows, run, Some(*op))?;
                (*op, None)
            }
        };
        if let Some((reply, payload)) = reply {
            answer(rows, run, op, reply, &payload)?;
        }
    }
    Ok(())
}

fn answer(rows: &mut dyn Rows, run: RunKey, op: u32, reply: Reply, payload: &str) -> Result<()> {
    let number = rows.last_event(run)? + 1;
    rows.add_reply(run, number, op, reply, payload)
}

fn send(rows: &mut dyn Rows, heads: &mut Heads, to: &RunId, name: &str, payload: &str) -> Result<(Reply, String)> {
    let Some(key) = rows.run_by_id(to)? else { return Ok((Reply::NoSuchRun, text(to.as_str()))) };
    let key = current(rows, heads, key)?;
    let Some(head) = heads.get(rows, key)? else { return Ok((Reply::NoSuchRun, "null".to_owned())) };
    if head.status.is_finished() {
        return Ok((Reply::Finished, text(head.status.as_str())));
    }
    let number = rows.last_event(key)? + 1;
    rows.add_event(number, &NewEvent { run: key, name: name.to_owned(), payload: payload.to_owned(), dedup: None })?;
    Ok((Reply::Done, "null".to_owned()))
}

fn start(rows: &mut dyn Rows, heads: &mut Heads, run: &NewRun, link: Link) -> Result<Option<(Reply, String)>> {
    if let Some(run_key) = &run.run_key
        && let Some((holder, _)) = rows.run_by_run_key(run_key)?
    {
        return Ok(Some((Reply::KeyTaken, text(holder.as_str()))));
    }
    if !rows.has_module(&run.digest)? {
        return Ok(Some((Reply::NoSuchModule, text(run.digest.as_str()))));
    }
    let key = add(rows, heads, run)?;
    rows.put_link(key, &link)?;
    Ok((!link.awaited).then(|| (Reply::Done, text(run.run.as_str()))))
}

/// The run itself, or where it has ended the last that goes on for it.
pub(crate) fn current(rows: &mut dyn Rows, heads: &mut Heads, run: RunKey) -> Result<RunKey> {
    if heads.get(rows, run)?.is_none_or(|head| !head.status.is_finished()) {
        return Ok(run);
    }
    let link = rows.link(run)?;
    if link.continued_as.is_none() {
        return Ok(run);
    }
    // However many there are in between.
    Ok(rows.last_after(link.first.unwrap_or(run))?.unwrap_or(run))
}

/// Asks the run's children to cancel that are not to stay: all, or that of an operation. Each does it by itself; here it is noted.
fn ask_to_cancel(rows: &mut dyn Rows, run: RunKey, of: Option<u32>) -> Result<()> {
    for child in rows.open_children(run)? {
        let link = rows.link(child)?;
        let meant = of.is_none_or(|op| link.parent.is_some_and(|(_, by)| by == op));
        if meant && !link.stays && !link.cancel {
            rows.put_link(child, &Link { cancel: true, ..link })?;
        }
    }
    Ok(())
}

/// What a run's end means for others: its children are asked to cancel; its parent is told, or another goes on in its place.
pub(crate) fn ended(
    rows: &mut dyn Rows,
    heads: &mut Heads,
    run: RunKey,
    change: &RunChange,
    successor: Option<&Successor>,
) -> Result<()> {
    ask_to_cancel(rows, run, None)?;
    let link = rows.link(run)?;
    if let Some(successor) = successor {
        return succeed(rows, heads, run, link, successor);
    }
    let Some((parent, op)) = link.parent.filter(|_| link.awaited) else { return Ok(()) };
    // One that has failed may be taken up again, and still waits for it then.
    let over = |status: Status| status.is_finished() && status != Status::Failed;
    if heads.get(rows, parent)?.is_none_or(|head| over(head.status)) {
        return Ok(());
    }
    let reply = match change.status {
        Status::Succeeded => Reply::Succeeded,
        Status::Cancelled => Reply::Cancelled,
        Status::Terminated => Reply::Terminated,
        _ => Reply::Failed,
    };
    answer(rows, parent, op, reply, change.outcome.as_deref().unwrap_or("null"))
}

fn succeed(rows: &mut dyn Rows, heads: &mut Heads, run: RunKey, link: Link, successor: &Successor) -> Result<()> {
    rows.release_run_key(run)?;
    let key = add(rows, heads, &successor.run)?;
    let mut number = rows.last_event(key)?;
    for mut event in rows.events_left(run, &successor.events, successor.seen)? {
        number += 1;
        event.run = key;
        rows.add_event(number, &event)?;
    }
    let first = Some(link.first.unwrap_or(run));
    rows.put_link(key, &Link { continued_from: Some(run), continued_as: None, first, ..link })?;
    rows.put_link(run, &Link { continued_as: Some(key), ..link })
}

/// A text as JSON.
fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
