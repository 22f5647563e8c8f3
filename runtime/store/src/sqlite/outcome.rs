//! A run's outcome is written once. Where it is long, the run's row says where in the journal's last entry it stands: a result of
//! megabytes twice in one commit would keep everybody else waiting for twice as long.
//!
//! It knows nothing of what an entry means: the same bytes are looked for, and an outcome that is not found there is written out.

use crate::error::{Result, StoreError};

/// A shorter one costs less than to look for it.
const LONG: usize = 16 << 10;

/// What a place begins with, and no JSON does.
const PLACE: char = '\u{1}';

/// The outcome of a row of `runs`. A place at which nothing is stays as it is.
pub(super) const OUTCOME: &str = "CASE WHEN substr(outcome, 1, 1) = char(1) THEN coalesce(
        (SELECT CAST(substr(entry, json_extract(substr(outcome, 2), '$[1]'), json_extract(substr(outcome, 2), '$[2]')) AS TEXT)
            FROM whole_journal AS journal WHERE journal.run = runs.id AND seq = json_extract(substr(outcome, 2), '$[0]')),
        outcome) ELSE outcome END";

/// The outcome's place in an entry, if it has one.
pub(super) fn place(outcome: &str, (seq, entry): (u64, &[u8])) -> Option<String> {
    let outcome = outcome.as_bytes();
    if outcome.len() < LONG || outcome.len() > entry.len() {
        return None;
    }
    // What an entry has besides is short, so there are few places to look at.
    let before = entry.windows(outcome.len()).position(|part| part == outcome)?;
    // SQLite counts from one.
    Some(format!("{PLACE}[{seq},{},{}]", before + 1, outcome.len()))
}

/// What [`OUTCOME`] has found.
pub(super) fn found(outcome: Option<String>) -> Result<Option<String>> {
    match outcome {
        Some(place) if place.starts_with(PLACE) => Err(StoreError::Corrupt(format!(
            "a run's outcome is not where its row says: {}",
            &place[PLACE.len_utf8()..]
        ))),
        outcome => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_long_and_stands_in_the_entry_has_a_place() {
        let long = format!("\"{}\"", "é".repeat(LONG));
        let entry = format!("1{{\"succeeded\":{long}}}");
        let found = |outcome: &str, entry: &str| place(outcome, (7, entry.as_bytes()));
        assert_eq!(found(&long, &entry), Some(format!("\u{1}[7,15,{}]", long.len())));
        assert_eq!(found(&long, &long), Some(format!("\u{1}[7,1,{}]", long.len())));
        assert_eq!(found(&long, "1{}"), None);
        assert_eq!(found(&long, &entry.replace('é', "è")), None);
        assert_eq!(found("\"short\"", "1{\"succeeded\":\"short\"}"), None);
    }
}
