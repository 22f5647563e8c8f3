//! How SQLite goes about the queries that must not become slower as runs gather: by an index, in its order, without a sort.

use rusqlite::{Connection, ToSql, params_from_iter};
use stepwell_core::ids::RunId;

use super::lists::{self, Lead, query_of};
use super::outcome::OUTCOME;
use super::rows::{ADD_RUN, CHANGE_RUN};
use super::{client_reads, forget, queue, schedules, schema};
use crate::rows::RunFilter;
use crate::status::Status;

fn database() -> Connection {
    let mut database = Connection::open_in_memory().unwrap();
    schema::migrate(&mut database).unwrap();
    database
}

/// The steps of a query's plan.
fn plan(database: &Connection, sql: &str, values: &[Box<dyn ToSql>]) -> Vec<String> {
    let mut statement = database.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
    steps.map(Result::unwrap).collect()
}

fn goes_by(database: &Connection, sql: &str, values: &[Box<dyn ToSql>], index: &str) {
    let steps = plan(database, sql, values);
    assert!(steps.iter().any(|step| step.contains(index)), "{sql}: no {index} in {steps:#?}");
    is_bounded(database, sql, values);
}

/// Nothing is gone through from its beginning to its end, and nothing sorted.
fn is_bounded(database: &Connection, sql: &str, values: &[Box<dyn ToSql>]) {
    let steps = plan(database, sql, values);
    for step in &steps {
        let of_rows = !step.starts_with("SCAN (subquery") && step != "SCAN CONSTANT ROW";
        let scans = step.starts_with("SCAN") && of_rows;
        assert!(!scans && !step.contains("TEMP B-TREE"), "{sql}: {steps:#?}");
    }
}

fn values(n: usize) -> Vec<Box<dyn ToSql>> {
    (0..n).map(|_| Box::new(1) as Box<dyn ToSql>).collect()
}

#[test]
fn lists_of_runs_go_by_an_index_whatever_the_filter() {
    let database = database();
    let tags = |n: usize| (0..n).map(|n| (format!("t{n}"), "v".to_owned())).collect::<Vec<_>>();
    let tagged = |filter: RunFilter| RunFilter { tags: tags(2), ..filter };
    let none = RunFilter::default;
    let of_status = || RunFilter { status: Some(Status::Failed), ..none() };
    let of_workflow = || RunFilter { workflow: Some("w".into()), ..none() };
    let of_both = || RunFilter { status: Some(Status::Failed), ..of_workflow() };
    let of_parent = |filter: RunFilter| RunFilter { parent: Some(RunId::new("run_1")), ..filter };
    let by_parent = "of USING COVERING INDEX links_by_parent (parent=? AND rowid>? AND rowid<?)";
    let all = "runs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)";
    let by_tag = "lead USING PRIMARY KEY (name=? AND value=? AND run>? AND run<?)";
    for (index, lead, filter) in [
        (all, Lead::Run, none()),
        ("runs_by_status (status=? AND id>? AND id<?)", Lead::Run, of_status()),
        ("runs_by_workflow (workflow=? AND id>? AND id<?)", Lead::Run, of_workflow()),
        ("runs_by_workflow_and_status (workflow=? AND status=? AND id>? AND id<?)", Lead::Run, of_both()),
        ("(run_key=?)", Lead::Run, RunFilter { run_key: Some("k".into()), ..none() }),
        ("runs_with_unknown (id>? AND id<?)", Lead::Run, RunFilter { unknown: true, ..none() }),
        ("runs_with_unknown (id>? AND id<?)", Lead::Run, RunFilter { unknown: true, open: true, ..of_workflow() }),
        (by_parent, Lead::Parent, of_parent(none())),
        (by_parent, Lead::Parent, of_parent(RunFilter { open: true, ..none() })),
        (by_parent, Lead::Parent, of_parent(tagged(of_both()))),
        (by_tag, Lead::Tag(0), RunFilter { tags: tags(1), ..none() }),
        (by_tag, Lead::Tag(1), tagged(none())),
        (by_tag, Lead::Tag(1), tagged(of_both())),
        ("runs_by_status (status=? AND id>? AND id<?)", Lead::Run, tagged(of_status())),
        ("runs_by_workflow (workflow=? AND id>? AND id<?)", Lead::Run, tagged(of_workflow())),
        ("runs_by_workflow_and_status", Lead::Run, tagged(of_both())),
    ] {
        for (since_ms, until_ms) in [(None, None), (Some(1), Some(2))] {
            let filter = RunFilter { since_ms, until_ms, ..filter.clone() };
            let (sql, values) = query_of(&filter, (5, 9), lead);
            goes_by(&database, &sql, &values, index);
        }
    }
}

#[test]
fn what_is_asked_all_the_time_goes_by_an_index() {
    let database = database();
    goes_by(&database, lists::SINCE, &values(1), "minutes USING INTEGER PRIMARY KEY (rowid>?)");
    goes_by(&database, lists::UNTIL, &values(1), "minutes USING INTEGER PRIMARY KEY (rowid<?)");
    goes_by(&database, lists::TAGGED, &values(3), "tags USING PRIMARY KEY (name=? AND value=?)");
    let ended = format!("{} WHERE status = ?1 AND id > ?2 ORDER BY id LIMIT ?3", forget::ENDED);
    goes_by(&database, &ended, &values(3), "runs_by_status (status=? AND id>?)");
    goes_by(&database, client_reads::ANSWER, &values(1), "answers");
    goes_by(&database, forget::ANSWERS, &values(2), "answers_by_time");
    goes_by(&database, schedules::DUE, &values(1), "schedules_by_time (next_ms<?)");
    goes_by(&database, schedules::NEXT, &values(1), "schedules_by_time (next_ms>?)");
    goes_by(&database, schedules::OPEN, &values(1), "scheduled_open USING PRIMARY KEY (schedule=?)");
    for (_, sql) in forget::TABLES {
        is_bounded(&database, sql, &values(2));
    }
    for (sql, n, index) in [
        (queue::FIRST, 1, "entrants_in_order (workflow=?)"),
        (queue::FIRST_IN_LINE, 2, "entrants_in_line (workflow=? AND key=?)"),
        (queue::HOLDING, 3, "entrants_with_key (workflow=? AND key=?)"),
        (queue::BEFORE, 4, "entrants_in_order (workflow=? AND rank=? AND run<?)"),
        (queue::BEFORE_WITH_KEY, 5, "entrants_in_line (workflow=? AND key=? AND rank=? AND run<?)"),
        (queue::UNDER_WAY, 1, "counts USING PRIMARY KEY (workflow=? AND status<?)"),
        (queue::NEXT_LINE, 1, "lines_open (workflow=?)"),
        (queue::NEXT_OPENING, 1, "lines_until (workflow=?"),
        (queue::BEGUN_BACK, 3, "begun USING PRIMARY KEY (workflow=? AND key=? AND n=?)"),
        (queue::NEWEST_BEGUN, 1, "begun_by_time (workflow=?)"),
        (queue::OLD_BEGUN, 2, "begun_by_time (workflow=? AND at_ms<?)"),
        (queue::DELAYED, 1, "runs_by_workflow_and_status (workflow=? AND status=?)"),
    ] {
        goes_by(&database, sql, &values(n), index);
    }
    // Parts are put in their order by a sort: that of the index is promised to nobody. They are a few megabytes at most.
    let outcome = plan(&database, &format!("SELECT {OUTCOME} FROM runs WHERE id = ?1"), &values(1));
    for index in ["journal_1 (run=? AND seq=?)", "parts_1 (run=? AND seq=? AND number<?)"] {
        assert!(outcome.iter().any(|step| step.ends_with(&format!("autoindex_{index}"))), "{outcome:#?}");
    }
    let due = "SELECT due_ms, run FROM timers WHERE due_ms <= ?1 ORDER BY due_ms, run LIMIT ?2";
    goes_by(&database, due, &values(2), "timers");
    let unfinished = plan(&database, &super::reads::unfinished_sql(), &[]);
    assert!(!unfinished.iter().any(|step| step.starts_with("SCAN runs")), "{unfinished:#?}");
}

/// A plan does not show these, nor what triggers do.
#[test]
fn what_every_run_does_makes_no_table_in_memory() {
    let database = database();
    for (sql, n) in [(ADD_RUN, 8), (CHANGE_RUN, 10)] {
        let mut statement = database.prepare(&format!("EXPLAIN {sql}")).unwrap();
        let steps = statement.query_map(params_from_iter(values(n)), |row| row.get::<_, String>(1)).unwrap();
        let steps: Vec<String> = steps.map(Result::unwrap).collect();
        assert!(
            steps.iter().filter(|step| *step == "Init").count() > 3,
            "its triggers are not among the steps of {sql}"
        );
        assert!(!steps.iter().any(|step| step == "OpenEphemeral" || step == "OpenAutoindex"), "{sql}");
    }
}
