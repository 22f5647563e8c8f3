//! Whether what was to come of a guest has come of it.

use serde_json::Value;

use super::guest::Guest;
use super::house::{End, House, Seen, kind};
use crate::journals::failures;

/// A verdict's first words, and the text that the error must have.
fn parts(verdict: &str) -> (&str, Option<String>) {
    match verdict.split_once(" with ") {
        Some((words, text)) => (words, Some(serde_json::from_str(text).unwrap_or_else(|e| panic!("{verdict}: {e}")))),
        None => (verdict, None),
    }
}

/// Panics unless the run came to the end that the guest's file says.
pub(crate) fn check(house: &House, guest: &Guest, seen: &Seen) {
    let (name, verdict) = (&guest.name, guest.verdict.as_str());
    let journal = house.journal(&seen.run);
    let rows: Vec<Value> = journal.iter().map(|entry| serde_json::json!({ "entry": entry })).collect();
    let (words, text) = parts(verdict);
    let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
    match (word, &seen.end) {
        ("succeeded", End::Succeeded(value)) => match rest.strip_prefix("a text of ") {
            Some(bytes) => assert_eq!(format!("{} bytes", value.len()), bytes, "{name}"),
            None => assert_eq!(value.to_value(), serde_json::from_str(rest).ok(), "{name}: {verdict}, {value}"),
        },
        ("failed", End::Failed(error)) | ("paused", End::Paused(error)) => {
            assert!(rest.split(" or ").any(|code| code == error.code), "{name}: {verdict}, but {error:?}");
            let text = text.unwrap_or_default();
            assert!(error.message.contains(&text), "{name}: {text:?} is not in {error:?}");
            assert!(error.message.len() <= 8 << 10, "{name}: {} bytes", error.message.len());
            for bytes in guest.says("message") {
                assert_eq!(format!("{} bytes", error.message.len()), bytes, "{name}");
            }
            for causes in guest.says("causes") {
                assert_eq!(error.causes.len().to_string(), causes, "{name}");
            }
        }
        // The step's attempts fail by these codes, and the run goes on after it.
        ("attempts", End::Succeeded(value)) => {
            let codes: Vec<&str> = rest.split(' ').collect();
            assert_eq!(failures(&rows), codes, "{name}");
            assert_eq!(value.to_value(), codes.last().map(|code| Value::from(*code)), "{name}");
            let ended = rows.iter().filter(|row| !row["entry"]["attempt_ended"]["outcome"]["succeeded"].is_null());
            assert_eq!(ended.count(), 1, "{name}: the step after it ends well");
        }
        ("waiting", End::Waiting) => {}
        (_, end) => panic!("{name}: {verdict}, but {end:?}"),
    }
    for text in guest.says("journal") {
        let (count, of) = text.split_once(' ').expect("a count and a kind");
        let found = journal.iter().filter(|entry| kind(entry) == of).count();
        assert_eq!(found.to_string(), count, "{name}: entries of kind {of}");
    }
    for text in guest.says("after the replay") {
        // What other runs have answered is on record whenever it comes, before the replay or beside it.
        let kinds: Vec<String> = journal.iter().map(kind).filter(|kind| kind != "reply_arrived").collect();
        let before = kinds.iter().rposition(|kind| kind != "resumed").expect("there are entries");
        assert_eq!(kinds[before + 1..].join(" "), text, "{name}: entries after what was there before: {kinds:?}");
    }
    for bytes in guest.says("status text") {
        let row =
            house.engine.store().read().run_by_number(seen.run.key).expect("it can be read").expect("it is there");
        assert_eq!(format!("{} bytes", row.status_text.unwrap_or_default().len()), bytes, "{name}");
    }
    for bytes in guest.says("longest line") {
        let longest = house.logs(&seen.run).iter().map(|line| line.text.len()).max().unwrap_or_default();
        assert_eq!(format!("{longest} bytes"), bytes, "{name}");
    }
    for text in guest.says("log") {
        let lines = house.logs(&seen.run);
        let (count, last) = text.split_once(" lines, the last of them ").expect("a count and a text");
        let last: String = serde_json::from_str(last).expect("a text in quotes");
        assert_eq!(lines.len().to_string(), count, "{name}: lines of its log");
        assert!(lines.last().is_some_and(|line| line.text.contains(&last)), "{name}: {:?}", lines.last());
    }
}

/// Panics unless a module was refused as its guest's file says.
pub(crate) fn check_refusal(guest: &Guest, refusal: &str) {
    let (words, text) = parts(&guest.verdict);
    assert_eq!(words, "refused", "{}: {}, but refused: {refusal}", guest.name, guest.verdict);
    let text = text.unwrap_or_default();
    assert!(refusal.contains(&text), "{}: {text:?} is not in {refusal:?}", guest.name);
    assert!(refusal.len() < 9_000, "{}: a refusal is for people", guest.name);
}
