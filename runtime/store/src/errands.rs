//! The rules of what runs do to each other. All of it is in the transaction of the batch that says so; a part that cannot be done is
//! replied to, and is no reason to refuse the batch.

use stepwell_core::ids::RunId;

use crate::apply::{Heads, add, add_successor};
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
            Errand::Start { op, run: child, awaited, stays, again } => {
                let link = Link { parent: Some((run, *op)), awaited: *awaited, stays: *stays, ..Link::default() };
                let earlier = if *again { earlier_child(rows, run, &link)? } else { None };
                match earlier {
                    Some(reply) => (*op, reply),
                    None => (*op, start(rows, heads, child, link)?),
                }
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

/// What the parent's operation has of a child that it began before: a reply, or none yet. Nothing where another is to be started.
#[allow(clippy::option_option, reason = "whether there is one, and whether it has ended")]
fn earlier_child(rows: &mut dyn Rows, run: RunKey, link: &Link) -> Result<Option<Option<(Reply, String)>>> {
    for child in rows.children(run)? {
        let of = rows.link(child.run)?;
        // Of those that went on for one another the last one counts.
        if of.parent != link.parent || of.continued_as.is_some() {
            continue;
        }
        match child.status {
            Status::Succeeded => {
                return Ok(Some(Some((Reply::Succeeded, child.outcome.unwrap_or_else(|| "null".to_owned())))));
            }
            status if status.is_finished() => rows.release_run_key(child.run)?,
            _ if of.cancel => {}
            _ => {
                rows.put_link(child.run, &Link { awaited: link.awaited, ..of })?;
                return Ok(Some(None));
            }
        }
    }
    Ok(None)
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
    // Once: a failed one may be taken up again, and end again.
    rows.put_link(run, &Link { awaited: false, ..link })?;
    answer(rows, parent, op, reply, change.outcome.as_deref().unwrap_or("null"))
}

/// A failed run is taken up again by a person: what its parent asked of it before counts no more.
pub(crate) fn reopened(rows: &mut dyn Rows, run: RunKey) -> Result<()> {
    let link = rows.link(run)?;
    if link.cancel { rows.put_link(run, &Link { cancel: false, ..link }) } else { Ok(()) }
}

/// Whether a run that has ended may be taken away: others may need its row. With the run itself, all that go with it.
///
/// A child stays for as long as its parent may be taken up again and look for it. Of runs that went on for one another the first stays
/// for as long as the last: by its name people ask for what became of all. They go together, once none is left between them; those
/// go at their time.
pub(crate) fn goes(rows: &mut dyn Rows, heads: &mut Heads, run: RunKey) -> Result<Option<Vec<RunKey>>> {
    let link = rows.link(run)?;
    if let Some((parent, _)) = link.parent
        && heads.get(rows, parent)?.is_some_and(|head| !head.status.is_finished() || head.status == Status::Failed)
    {
        return Ok(None);
    }
    match (link.continued_from, link.continued_as) {
        (None, None) => Ok(Some(vec![run])),
        // The first.
        (None, Some(_)) => Ok(None),
        (Some(before), Some(after)) => {
            let (of_before, of_after) = (rows.link(before)?, rows.link(after)?);
            rows.put_link(before, &Link { continued_as: Some(after), ..of_before })?;
            rows.put_link(after, &Link { continued_from: Some(before), ..of_after })?;
            Ok(Some(vec![run]))
        }
        (Some(before), None) => {
            let first = rows.link(before)?.continued_from.is_none();
            let keeps = rows.ended(before)?.is_none_or(|before| before.has_unknown);
            Ok((first && !keeps).then(|| vec![before, run]))
        }
    }
}

fn succeed(rows: &mut dyn Rows, heads: &mut Heads, run: RunKey, link: Link, successor: &Successor) -> Result<()> {
    rows.release_run_key(run)?;
    let key = add_successor(rows, heads, &successor.run, run)?;
    if let Some(schedule) = rows.schedule_of(run)? {
        rows.put_scheduled(key, &schedule)?;
    }
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
