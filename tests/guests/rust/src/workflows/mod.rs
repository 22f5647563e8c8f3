//! The tests' workflows.

mod effects;
mod faults;
mod plain;

use serde_json::Value;

use crate::contract::Error;
use crate::run::{Local, Run};

/// How a workflow begins.
type Start = fn(Run, Value) -> Local<Result<Value, Error>>;

/// Each with its name.
pub(crate) const ALL: &[(&str, Start)] = &[
    ("sequential", |run, input| Box::pin(plain::sequential(run, input))),
    ("parallel", |run, input| Box::pin(plain::parallel(run, input))),
    ("sleeps", |run, input| Box::pin(plain::sleeps(run, input))),
    ("waits", |run, input| Box::pin(plain::waits(run, input))),
    ("tour", |run, input| Box::pin(plain::tour(run, input))),
    ("cleans up", |run, input| Box::pin(plain::cleans_up(run, input))),
    ("non-retriable", |run, input| Box::pin(plain::non_retriable(run, input))),
    ("retry-after", |run, input| Box::pin(plain::retry_after(run, input))),
    ("residue", |run, input| Box::pin(plain::residue(run, input))),
    ("own error", |run, input| Box::pin(plain::own_error(run, input))),
    ("posts", |run, input| Box::pin(effects::posts(run, input))),
    ("lingers", |run, input| Box::pin(effects::lingers(run, input))),
    ("misplaced", |run, input| Box::pin(effects::misplaced(run, input))),
    ("faulty body", |run, input| Box::pin(faults::body(run, input))),
    ("faulty workflow", |run, input| Box::pin(faults::workflow(run, input))),
];
