//! Lists of runs: which index a filter is to go by. Each query goes through runs in the order of an index that has them by their
//! numbers, and ends with the page: it must not become slower as runs gather.

use rusqlite::{Connection, OptionalExtension as _, ToSql, params, params_from_iter};

use super::reads::{RUN_COLUMNS, run_row};
use super::rows::signed;
use crate::error::Result;
use crate::rows::{RunFilter, RunKey, RunList, UnreadableRun};
use crate::status::{FIRST_FINISHED_CODE, LAST_FINISHED_CODE};

/// Runs that can be looked at one by one.
const FEW: u32 = 5_000;

/// What a query goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lead {
    /// The index of its workflow and status, or all runs.
    Run,
    /// The index of this one of its tags.
    Tag(usize),
    /// The index of its parent's children.
    Parent,
}

/// The runs that a filter wants; one that cannot be read is set aside.
pub(super) fn runs(connection: &Connection, filter: &RunFilter) -> Result<RunList> {
    let Some(range) = range(connection, filter)? else { return Ok(RunList::default()) };
    let (sql, values) = query_of(filter, range, lead(connection, filter)?);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(values))?;
    let mut list = RunList::default();
    while let Some(row) = rows.next()? {
        match run_row(row) {
            Ok(run) => list.runs.push(run),
            Err(error) => list.unreadable.push(UnreadableRun { key: row.get(0)?, reason: error.to_string() }),
        }
    }
    Ok(list)
}

/// The numbers between which runs of the filter's time are, both exclusive; none where there are no such runs. Wider by what was started
/// in the same minutes, and by what a clock gave that was far ahead once, or behind: times are compared besides.
fn range(connection: &Connection, filter: &RunFilter) -> Result<Option<(RunKey, RunKey)>> {
    let bound = |sql: &str, ms: u64| -> Result<Option<RunKey>> {
        Ok(connection.prepare_cached(sql)?.query_row([signed(ms / 60_000)], |row| row.get(0)).optional()?)
    };
    let (mut after, mut before) = (0, filter.before.unwrap_or(RunKey::MAX));
    if let Some(since_ms) = filter.since_ms {
        let Some(first) = bound(SINCE, since_ms)? else { return Ok(None) };
        after = first - 1;
    }
    if let Some(until_ms) = filter.until_ms {
        let Some(last) = bound(UNTIL, until_ms)? else { return Ok(None) };
        before = before.min(last + 1);
    }
    Ok(Some((after, before)))
}

pub(super) const SINCE: &str = "SELECT first FROM minutes WHERE minute >= ?1 ORDER BY minute LIMIT 1";
pub(super) const UNTIL: &str = "SELECT last FROM minutes WHERE minute <= ?1 ORDER BY minute DESC LIMIT 1";

/// The parent, whose children are as many as its journal has room for. Else the rarest tag; but where all are of very many runs, and few are of that status and workflow, these.
fn lead(connection: &Connection, filter: &RunFilter) -> Result<Lead> {
    if filter.parent.is_some() {
        return Ok(Lead::Parent);
    }
    let mut rarest: Option<(u32, usize)> = None;
    for (at, (name, value)) in filter.tags.iter().enumerate() {
        let runs: u32 =
            connection.prepare_cached(TAGGED)?.query_row(params![name, value, FEW + 1], |row| row.get(0))?;
        rarest = Some(rarest.map_or((runs, at), |other| other.min((runs, at))));
    }
    let Some((runs, at)) = rarest else { return Ok(Lead::Run) };
    if runs > FEW && (filter.status.is_some() || filter.workflow.is_some()) {
        let values = params![filter.status.map(|status| status.code()), filter.workflow];
        let runs: i64 = connection.prepare_cached(COUNTED)?.query_row(values, |row| row.get(0))?;
        if runs <= i64::from(FEW) {
            return Ok(Lead::Run);
        }
    }
    Ok(Lead::Tag(at))
}

pub(super) const TAGGED: &str = "SELECT count(*) FROM (SELECT 1 FROM tags WHERE name = ?1 AND value = ?2 LIMIT ?3)";
/// There are few rows of counts.
const COUNTED: &str = "SELECT ifnull(sum(n), 0) FROM counts
    WHERE status = coalesce(?1, status) AND workflow = coalesce(?2, workflow)";

/// The query of a filter, with its values.
pub(super) fn query_of(
    filter: &RunFilter,
    (after, before): (RunKey, RunKey),
    lead: Lead,
) -> (String, Vec<Box<dyn ToSql>>) {
    let mut values: Vec<Box<dyn ToSql>> = vec![Box::new(before), Box::new(after), Box::new(filter.limit)];
    // Left to itself, SQLite would go by the status alone, or by the numbers.
    let mut from = match filter {
        RunFilter { run_key: Some(_), .. } => "runs",
        RunFilter { unknown: true, .. } => "runs INDEXED BY runs_with_unknown",
        RunFilter { workflow: Some(_), status: Some(_), .. } => "runs INDEXED BY runs_by_workflow_and_status",
        RunFilter { workflow: Some(_), .. } => "runs INDEXED BY runs_by_workflow",
        RunFilter { status: Some(_), .. } => "runs INDEXED BY runs_by_status",
        _ => "runs",
    };
    let mut number = "id";
    if matches!(lead, Lead::Tag(_)) {
        // A cross join keeps the order in which the tables are named.
        (from, number) = ("tags AS lead CROSS JOIN runs ON id = lead.run", "lead.run");
    }
    if lead == Lead::Parent {
        (from, number) = ("links AS of INDEXED BY links_by_parent CROSS JOIN runs ON id = of.run", "of.run");
    }
    let mut conditions = format!("{number} < ?1 AND {number} > ?2");
    let mut and = |condition: &str, value: Box<dyn ToSql>| {
        values.push(value);
        conditions += &format!(" AND {condition} ?{}", values.len());
    };
    if let Some(status) = filter.status {
        and("status =", Box::new(status.code()));
    }
    if let Some(workflow) = &filter.workflow {
        and("workflow =", Box::new(workflow.clone()));
    }
    if let Some(run_key) = &filter.run_key {
        and("run_key =", Box::new(run_key.clone()));
    }
    if let Some(since_ms) = filter.since_ms {
        and("created_at_ms >=", Box::new(signed(since_ms)));
    }
    if let Some(until_ms) = filter.until_ms {
        and("created_at_ms <", Box::new(signed(until_ms)));
    }
    if let Some(parent) = &filter.parent {
        values.push(Box::new(parent.as_str().to_owned()));
        conditions += &format!(" AND of.parent = (SELECT id FROM runs WHERE run = ?{})", values.len());
    }
    if filter.open {
        conditions += &format!(" AND (status < {FIRST_FINISHED_CODE} OR status > {LAST_FINISHED_CODE})");
    }
    if filter.unknown {
        conditions += " AND unknown > 0";
    }
    for (at, (name, value)) in filter.tags.iter().enumerate() {
        values.extend([Box::new(name.clone()) as Box<dyn ToSql>, Box::new(value.clone())]);
        let (name, value) = (values.len() - 1, values.len());
        conditions += &if lead == Lead::Tag(at) {
            format!(" AND lead.name = ?{name} AND lead.value = ?{value}")
        } else {
            format!(" AND EXISTS (SELECT 1 FROM tags WHERE name = ?{name} AND value = ?{value} AND run = id)")
        };
    }
    (format!("SELECT {RUN_COLUMNS}, NULL FROM {from} WHERE {conditions} ORDER BY {number} DESC LIMIT ?3"), values)
}
