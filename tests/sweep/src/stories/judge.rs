//! Whether all runs of a database are as good as those of a story without a death.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use stepwell_core::journal::entry::{Entry, Record};
use stepwell_core::journal::print::{Printer, Times};
use stepwell_engine::store::Reads as _;
use stepwell_sim::invariants::Ledger;
use stepwell_sim::step::Known;
use stepwell_store::{RunFilter, RunRow};

use super::client::Desk;
use crate::gate::Arrival;
use crate::judge::{essence, requests};
use crate::life::entries;

/// What is left of a story.
pub(super) struct Remains {
    runs: Vec<(RunRow, Vec<Vec<u8>>)>,
    pub(super) arrivals: Vec<Arrival>,
    /// What the other side did: under which key, and what.
    done: Vec<(Option<String>, String)>,
}

impl Remains {
    pub(super) fn of(data_dir: &Path, arrivals: Vec<Arrival>, desk: &Desk) -> anyhow::Result<Self> {
        let done = desk.world.done().into_iter().map(|done| (done.key, format!("{:?}", done.what))).collect();
        Ok(Self { runs: written(data_dir)?, arrivals, done })
    }
}

/// All runs and what is written in their journals, the earliest start first.
fn written(data_dir: &Path) -> anyhow::Result<Vec<(RunRow, Vec<Vec<u8>>)>> {
    let reads = stepwell_store::read_only(data_dir)?;
    let mut rows = reads.runs(&RunFilter { limit: u32::MAX, ..RunFilter::default() })?.runs;
    rows.reverse();
    let journal = |row: RunRow| {
        let row = reads.run_by_number(row.key)?.context("the run is there")?;
        let journal = reads.journal(row.key)?.into_iter().map(|(_, bytes)| bytes).collect();
        Ok((row, journal))
    };
    rows.into_iter().map(journal).collect()
}

/// All runs and their entries.
pub(super) fn runs(data_dir: &Path) -> anyhow::Result<Vec<(RunRow, Vec<Entry>)>> {
    written(data_dir)?.into_iter().map(|(row, journal)| Ok((row, entries(&journal)?))).collect()
}

/// All journals, for people.
pub(super) fn print(data_dir: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for (row, journal) in runs(data_dir)? {
        let entries = journal;
        let (run, status) = (&row.run, row.status);
        text += &format!("{run} ({}, {status}):\n{}\n", row.workflow, Printer::print(&entries, Times::Relative));
    }
    Ok(text)
}

/// What must hold of any story that is over.
pub(super) fn holds(remains: &Remains, desk: &Desk) -> anyhow::Result<()> {
    let state = desk.state();
    let mut of_all: Vec<Entry> = state.lost.clone();
    let mut ledgers = Vec::new();
    for (row, journal) in &remains.runs {
        let run = &row.run;
        let ledger = Ledger::read(journal).map_err(anyhow::Error::msg);
        let ledger = ledger.with_context(|| format!("the journal of {run} breaks a rule"))?;
        ensure!(ledger.ended() && row.status.is_finished(), "{run} is {}, and the story is over", row.status);
        let journal = entries(journal)?;
        for (_, seq, entry) in state.shown.iter().filter(|(key, ..)| *key == row.key) {
            let recorded = journal.get(usize::try_from(*seq)?);
            ensure!(recorded == Some(entry), "entry {seq} of {run} was shown and is not recorded: {entry:?}");
        }
        for (_, what, is_on_record) in state.granted.iter().filter(|(of, ..)| of == run) {
            ensure!(journal.iter().any(|entry| is_on_record(&entry.record)), "{what}: granted to {run}, and lost");
        }
        // What a rerun has of the other run was sent by that one.
        let own = journal.iter().rposition(|entry| matches!(entry.record, Record::Reran(_))).unwrap_or(0);
        of_all.extend(journal.into_iter().skip(own));
        ledgers.push(ledger);
    }
    requests(&of_all, &remains.arrivals)?;
    for (key, what) in &remains.done {
        let Some(key) = key else { bail!("{what} was done without a key") };
        let steps = ledgers.iter().flat_map(Ledger::steps);
        let mut of_key = steps.flat_map(|step| &step.effects).filter(|effect| effect.key() == Some(key)).peekable();
        if of_key.peek().is_some() && of_key.all(|effect| effect.known == Known::NotDone) {
            bail!("{what} was done under key {key}, and is taken for not done");
        }
    }
    Ok(())
}

/// Whether a story came out as the one without a death.
pub(super) fn same(remains: &Remains, whole: &Remains) -> anyhow::Result<()> {
    let (died, lived) = (ends(remains), ends(whole));
    ensure!(died == lived, "the runs are {died:#?}, without a death {lived:#?}");
    let (died, lived) = (texts(remains)?, texts(whole)?);
    ensure!(died == lived, "the journals say\n{died:#?}\nwithout a death\n{lived:#?}");
    let done = |remains: &Remains| {
        let mut done: Vec<String> = remains.done.iter().map(|(_, what)| what.clone()).collect();
        done.sort_unstable();
        done
    };
    let (died, lived) = (done(remains), done(whole));
    ensure!(died == lived, "the other side has done {died:?}, without a death {lived:?}");
    Ok(())
}

/// How the runs of each workflow have ended.
fn ends(remains: &Remains) -> Vec<String> {
    let outcome = |row: &RunRow| {
        let mut outcome = row.outcome.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        outcome.iter_mut().for_each(without_details);
        outcome
    };
    let names = names(remains);
    let end = |(row, _): &(RunRow, _)| {
        let end = format!("{} {:?} {} {:?}", row.workflow, row.run_key, row.status, outcome(row));
        without_ids(end, &names)
    };
    let mut ends: Vec<String> = remains.runs.iter().map(end).collect();
    ends.sort_unstable();
    ends
}

/// Takes out who asked for an end, and when.
fn without_details(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("details");
        fields.values_mut().for_each(without_details);
    }
}

/// The essence of all journals, by workflow. Names of runs are replaced.
fn texts(remains: &Remains) -> anyhow::Result<Vec<String>> {
    let names = names(remains);
    let mut lines = Vec::new();
    for (row, journal) in &remains.runs {
        lines
            .extend(essence(journal)?.into_iter().map(|line| without_ids(format!("{}: {line}", row.workflow), &names)));
    }
    lines.sort_unstable();
    Ok(lines)
}

/// The ids of all runs, and what stands in their place.
fn names(remains: &Remains) -> BTreeMap<String, String> {
    remains.runs.iter().map(|(row, _)| (row.run.to_string(), format!("<a run of {}>", row.workflow))).collect()
}

fn without_ids(text: String, names: &BTreeMap<String, String>) -> String {
    names.iter().fold(text, |text, (id, name)| text.replace(id, name))
}
