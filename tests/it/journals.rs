//! Reading journals as `stepwell runs journal --json` and `stepwell run --json` print them.

use serde_json::Value;
use stepwell_tests::Running;

/// The entries of a kind, each with `seq` and `atMs`.
pub(crate) fn rows<'a>(journal: &'a [Value], kind: &'a str) -> Vec<&'a Value> {
    journal.iter().filter(|row| row["entry"].get(kind).is_some() || row["entry"] == kind).collect()
}

/// What the entries of a kind say.
pub(crate) fn entries<'a>(journal: &'a [Value], kind: &'a str) -> Vec<&'a Value> {
    rows(journal, kind).into_iter().map(|row| &row["entry"][kind]).collect()
}

/// The recorded time of an entry, in ms since the Unix epoch.
pub(crate) fn at_ms(row: &Value) -> u64 {
    row["atMs"].as_u64().expect("an entry has its time")
}

/// When the attempt after this failed one is due, in ms since the Unix epoch.
pub(crate) fn due_ms(ended: &Value) -> u64 {
    let next = &ended["entry"]["attempt_ended"]["outcome"]["failed"]["next"];
    next["retry"]["due_ms"].as_u64().unwrap_or_else(|| panic!("no attempt follows: {ended}"))
}

/// Reads on until the run waits without an instance. What it waits for.
pub(crate) fn until_waiting(running: &mut Running) -> Value {
    running.until(|event| (event["event"] == "waiting").then(|| event.clone()))
}

/// The code of the error that each failed attempt ended with.
pub(crate) fn failures(journal: &[Value]) -> Vec<&str> {
    let ended = entries(journal, "attempt_ended");
    ended.into_iter().filter_map(|ended| ended["outcome"]["failed"]["error"]["code"].as_str()).collect()
}
