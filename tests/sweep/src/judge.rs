//! Whether a run that died is as good as one that did not: its result, its journal, and what the other side saw.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use stepwell_core::contract::EffectClass;
use stepwell_core::ids::Digest;
use stepwell_core::journal::entry::{AttemptOutcome, Entry, Record};
use stepwell_core::policy::effect::is_safe_method;
use stepwell_engine::Verdict;
use stepwell_engine::store::RunRow;
use stepwell_sim::invariants::Ledger;
use stepwell_sim::step::Known;
use stepwell_store::Status;

use crate::gate::Arrival;
use crate::life::{Life, entries};

/// What is left of a run.
#[derive(Debug)]
pub struct Remains {
    /// Its row.
    pub row: RunRow,
    /// Its journal.
    pub journal: Vec<Vec<u8>>,
    /// What its workflow code logged.
    pub lines: Vec<String>,
    /// What came to the other side.
    pub arrivals: Vec<Arrival>,
    /// What the other side did, as far as it is the same with and without deaths.
    pub done: Done,
}

/// What the other side says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Operations that it did, by what they were.
    pub operations: Vec<String>,
    /// Keys under which something was done, and what.
    pub keys: Vec<(String, String)>,
    /// What must not have happened.
    pub faults: Vec<String>,
}

/// What must hold of any run, whatever it went through.
///
/// # Errors
/// What does not.
pub fn holds(remains: &Remains, lives: &[Life]) -> anyhow::Result<()> {
    // The rules, read from the journal by a reader that shares nothing with the machine.
    let ledger = Ledger::read(&remains.journal).map_err(anyhow::Error::msg).context("the journal breaks a rule")?;
    let journal = entries(&remains.journal)?;
    for life in lives {
        for (seq, entry) in &life.shown {
            let recorded = journal.get(usize::try_from(*seq)?);
            ensure!(recorded == Some(entry), "entry {seq} was shown and is not recorded: {entry:?}, but {recorded:?}");
        }
    }
    let last = lives.last().context("there was a life")?;
    if let Some(Verdict::Differs(mismatch)) = &last.verdict {
        bail!("the replay of the ended run differs: {mismatch}");
    }
    if remains.row.status == Status::Blocked {
        // Only what may have happened and must not happen twice stops a run: it is not known whether it did, or it did and its step could
        // not come to an end by what is recorded of it.
        let unknown = ledger.steps().find(|step| step.unknown).context("the run is blocked, and no step is unknown")?;
        let may_have = unknown.effects.iter().any(|effect| effect.known != Known::NotDone);
        ensure!(may_have, "step {} is unknown, and nothing of it was done", unknown.begun.step);
    } else {
        ensure!(ledger.ended(), "the run is {} and its journal has no end", remains.row.status);
    }
    requests(&journal, &remains.arrivals)?;
    for (key, what) in &remains.done.keys {
        // One key may stand for several requests of a step that says so.
        let mut of_key =
            ledger.steps().flat_map(|step| &step.effects).filter(|effect| effect.key() == Some(key)).peekable();
        if of_key.peek().is_some() && of_key.all(|effect| effect.known == Known::NotDone) {
            bail!("{what} was done under key {key}, and is taken for not done");
        }
    }
    ensure!(remains.done.faults.is_empty(), "the other side: {:?}", remains.done.faults);
    Ok(())
}

/// A request by all that tells it from others: key, method, URL, body.
type Sent = (Option<String>, String, String, Option<Digest>);

/// What left, held against what was recorded: a dispatch is one request, and nothing leaves without one.
pub(crate) fn requests(journal: &[Entry], arrivals: &[Arrival]) -> anyhow::Result<()> {
    let mut allowed: BTreeMap<Sent, u32> = BTreeMap::new();
    for entry in journal {
        if let Record::Dispatched(sent) = &entry.record {
            // From the path on.
            let path = sent.what.url.splitn(4, '/').nth(3).unwrap_or("");
            let sent = (sent.key.clone(), sent.what.method.clone(), format!("/{path}"), sent.what.body.clone());
            *allowed.entry(sent).or_default() += 1;
        }
    }
    for arrival in arrivals.iter().filter(|arrival| !is_safe_method(&arrival.method)) {
        let body = (!arrival.body.is_empty()).then(|| Digest::of(&arrival.body));
        let sent = (arrival.key.clone(), arrival.method.clone(), arrival.path.clone(), body);
        match allowed.get_mut(&sent) {
            Some(left @ 1..) => *left -= 1,
            _ => bail!("a request came more often than its dispatch is recorded: {arrival:?} of {arrivals:#?}"),
        }
    }
    Ok(())
}

/// How lines begin.
fn brief(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.chars().take(20).collect()).collect()
}

/// Whether a run is as one that did not die.
///
/// # Errors
/// The first difference.
pub fn same(remains: &Remains, whole: &Remains) -> anyhow::Result<()> {
    let once = entries(&remains.journal)?
        .iter()
        .any(|entry| matches!(&entry.record, Record::StepBegun(begun) if begun.effect == EffectClass::Once));
    if once && remains.row.status == Status::Blocked {
        // `holds` has seen that something may have been done. What is recorded as done is answered from the record: no death makes that
        // unknown where the body asks for the same again.
        let ledger = Ledger::read(&remains.journal).map_err(anyhow::Error::msg)?;
        let known =
            ledger.steps().find(|step| step.unknown && step.effects.iter().all(|effect| effect.known == Known::Done));
        return known
            .map_or(Ok(()), |step| bail!("step {} is unknown, and everything is known of it", step.begun.step));
    }
    ensure!(
        remains.row.status == whole.row.status,
        "it {}, without a death it {}: {:?}",
        remains.row.status,
        whole.row.status,
        remains.row
    );
    let outcome = |row: &RunRow| row.outcome.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let (died, lived) = (outcome(&remains.row), outcome(&whole.row));
    ensure!(died == lived, "the result is {died:?}, without a death {lived:?}");
    let (died, lived) = (essence(&remains.journal)?, essence(&whole.journal)?);
    ensure!(died == lived, "the journal says\n{died:#?}\nwithout a death\n{lived:#?}");
    ensure!(
        remains.lines == whole.lines,
        "it logged {:?}, without a death {:?}",
        brief(&remains.lines),
        brief(&whole.lines)
    );
    let (died, lived) = (&remains.done.operations, &whole.done.operations);
    ensure!(died == lived, "the other side has done {died:?}, without a death {lived:?}");
    Ok(())
}

/// A journal but for times and attempts: what workflow code did and was told, and what its operations came to. What happens side by
/// side may come in any order.
pub(crate) fn essence(journal: &[Vec<u8>]) -> anyhow::Result<Vec<String>> {
    let mut lines: Vec<String> = entries(journal)?.iter().filter_map(|entry| line(&entry.record)).collect();
    lines.sort_unstable();
    Ok(lines)
}

fn line(record: &Record) -> Option<String> {
    Some(match record {
        Record::StepBegun(begun) => format!("step {} {} {:?}", begun.op, begun.step, begun.effect),
        Record::SleepBegun { op, .. } => format!("sleep {op}"),
        Record::WaitBegun { op, name, .. } => format!("wait {op} {name}"),
        Record::SendBegun { op, name, .. } => format!("send {op} {name}"),
        Record::ChildBegun(child) => format!("child {} {}", child.op, child.workflow),
        Record::ContinuedAsNew { .. } => "continued".to_owned(),
        Record::Closed { op } => format!("closed {op}"),
        Record::Delivered { op } => format!("delivered {op}"),
        Record::CancelDelivered => "cancel delivered".to_owned(),
        Record::AttemptEnded { op, outcome: AttemptOutcome::Succeeded(value), .. } => format!("result {op} {value}"),
        Record::TimerFired { op } => format!("fired {op}"),
        Record::WaitExpired { op } => format!("expired {op}"),
        Record::EventArrived { id, name, payload } => format!("event {id} {name} {payload}"),
        Record::Ended { returned, .. } => format!("ended {returned}"),
        _ => return None,
    })
}
