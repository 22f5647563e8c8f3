//! What the guest is told, as a line of a golden file.

use stepwell_core::contract::{Answer, Attempt, Event};
use stepwell_core::run::Errand;

use super::START_MS;

pub(super) fn event_text(event: &Event) -> String {
    match event {
        Event::Attempt(Attempt { id, idempotency_key, deadline_ms, .. }) => {
            let deadline = deadline_ms.map(|at| format!(", until +{}", at - START_MS)).unwrap_or_default();
            format!("attempt {} of operation {}: {idempotency_key}{deadline}", id.number, id.operation)
        }
        Event::Expired(id) => format!("expired: attempt {} of operation {}", id.number, id.operation),
        Event::Answered(_, Ok(Answer::Response(response))) => {
            let recorded = if response.recorded { ", recorded" } else { "" };
            format!("answered {} {:?}{recorded}", response.status, String::from_utf8_lossy(&response.body))
        }
        Event::Answered(_, Ok(Answer::Elapsed)) => "elapsed".to_owned(),
        Event::Answered(_, Err(error)) => format!("answered {error}"),
        Event::Completed(op, value) => format!("completed {op} {value}"),
        Event::Failed(op, error) => {
            let unknown = if error.outcome_unknown { " (outcome unknown)" } else { "" };
            format!("failed {op} {error}{unknown}")
        }
        Event::Cancelled => "cancelled".to_owned(),
    }
}

/// What is done on Stepwell's own database with the entry before it.
pub(super) fn errand_text(errand: &Errand) -> String {
    match errand {
        Errand::Send { op, to, name, payload } => format!("operation {op}: event {name:?} to {to} {payload}"),
        Errand::Start(child) => {
            format!("operation {}: {:?} as {} {}", child.op, child.workflow, child.run, child.input)
        }
        Errand::Cancel { op } => format!("operation {op}: its child is to cancel"),
        Errand::Continue(next) => {
            format!("{} goes on with {}, events {:?} and all after {}", next.run, next.input, next.events, next.seen)
        }
        other => format!("{other:?}"),
    }
}
