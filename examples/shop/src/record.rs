//! The record of every request that the shop saw, and what it says of the client: did it do anything twice?
//!
//! A request is in the record from the moment it arrives, so that one that hangs is seen too; its line goes to the file when it
//! is over. What the shop is told about itself (`/_...`, `/healthz`) is not recorded.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::faults::Point;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// From 1, in the order of arrival.
    pub seq: u64,
    /// When it arrived, in ms since the Unix epoch.
    pub at_ms: u64,
    /// Its method.
    pub method: String,
    /// Its path.
    pub path: String,
    /// The `Idempotency-Key` that it carried.
    pub key: Option<String>,
    /// SHA-256 of its body, in hex.
    pub body_digest: Option<String>,
    /// The order that its body names. With `path` it tells which operation was meant, whatever the key.
    pub order_id: Option<String>,
    /// The fault that struck it.
    pub fault: Option<String>,
    /// The last point of the exchange that was reached.
    pub reached: Option<Point>,
    /// The point at which the exchange was ended on purpose.
    pub ended_at: Option<Point>,
    /// The process that was killed during it.
    pub killed: Option<u32>,
    /// The status of the answer, if all of it was sent.
    pub answered: Option<u16>,
    /// This request did the operation.
    pub stored: bool,
    /// It was answered from an earlier request's answer.
    pub replayed: bool,
    /// What went wrong that nobody asked for, e.g. a client that is gone.
    pub problem: Option<String>,
    /// The exchange is over.
    pub over: bool,
}

impl Entry {
    fn operation(&self) -> Option<(&str, &str)> {
        Some((self.path.as_str(), self.order_id.as_deref()?))
    }
}

/// What must not happen, by the numbers of the requests that did it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// An operation (path and order) that was stored before was stored again.
    pub stored_twice: BTreeSet<u64>,
    /// A request for an operation that an earlier request stored, under another key than that request's, however it ended.
    pub second_keys: BTreeSet<u64>,
    /// A POST or PATCH without a key.
    pub without_key: BTreeSet<u64>,
}

impl Verdict {
    /// Of a whole record.
    #[must_use]
    pub fn of(entries: &[Entry]) -> Self {
        let mut verdict = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let unsafe_method = matches!(entry.method.as_str(), "POST" | "PATCH");
            if unsafe_method && entry.key.as_deref().is_none_or(str::is_empty) {
                verdict.without_key.insert(entry.seq);
            }
            if !unsafe_method || entry.operation().is_none() {
                continue;
            }
            let earlier = entries[..index].iter().filter(|e| e.stored && e.operation() == entry.operation());
            for stored in earlier {
                if entry.stored {
                    verdict.stored_twice.insert(entry.seq);
                }
                if entry.key != stored.key {
                    verdict.second_keys.insert(entry.seq);
                }
            }
        }
        verdict
    }
}

/// The requests so far, and the file that they go to.
pub(crate) struct Record {
    entries: Vec<Entry>,
    file: Option<File>,
}

impl Record {
    pub(crate) fn new(file: Option<&Path>) -> std::io::Result<Self> {
        let file = file.map(|path| File::options().create(true).append(true).open(path)).transpose()?;
        Ok(Self { entries: Vec::new(), file })
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Takes up a new request and answers its number.
    pub(crate) fn open(&mut self, entry: Entry) -> u64 {
        let seq = self.entries.len() as u64 + 1;
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_ms = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX);
        self.entries.push(Entry { seq, at_ms, ..entry });
        seq
    }

    /// Changes what is known of a request.
    pub(crate) fn note(&mut self, seq: u64, change: impl FnOnce(&mut Entry)) {
        let index = usize::try_from(seq).ok().and_then(|seq| seq.checked_sub(1));
        if let Some(entry) = index.and_then(|index| self.entries.get_mut(index)) {
            change(entry);
        }
    }

    /// The request is over: its line goes to the file.
    pub(crate) fn close(&mut self, seq: u64) -> std::io::Result<()> {
        self.note(seq, |entry| entry.over = true);
        let (Some(file), Some(entry)) = (&mut self.file, self.entries.iter().find(|entry| entry.seq == seq)) else {
            return Ok(());
        };
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        file.write_all(line.as_bytes())?;
        file.flush()
    }
}

/// SHA-256 in lower-case hex.
pub(crate) fn digest(body: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(body).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charge(seq: u64, order: &str, key: Option<&str>, stored: bool) -> Entry {
        Entry {
            seq,
            method: "POST".into(),
            path: "/charges".into(),
            order_id: Some(order.into()),
            key: key.map(str::to_owned),
            stored,
            ..Entry::default()
        }
    }

    #[test]
    fn a_new_key_after_a_refusal_and_a_repeated_key_are_right() {
        let entries = [
            charge(1, "a", Some("e1"), false),
            charge(2, "a", Some("e2"), true),
            charge(3, "a", Some("e2"), false),
            charge(4, "b", Some("x1"), true),
        ];
        assert_eq!(Verdict::of(&entries), Verdict::default());
    }

    #[test]
    fn a_second_key_is_seen_whether_it_stored_or_not() {
        let entries =
            [charge(1, "a", Some("e1"), true), charge(2, "a", Some("e2"), false), charge(3, "a", Some("e3"), true)];
        let verdict = Verdict::of(&entries);
        assert_eq!(verdict.second_keys, BTreeSet::from([2, 3]));
        assert_eq!(verdict.stored_twice, BTreeSet::from([3]));
    }

    #[test]
    fn the_operation_is_known_by_path_and_order() {
        let mut label = charge(2, "a", Some("e2"), true);
        label.path = "/labels".into();
        assert_eq!(Verdict::of(&[charge(1, "a", Some("e1"), true), label]), Verdict::default());
    }

    #[test]
    fn an_unsafe_request_without_a_key_is_seen() {
        let mut get = charge(2, "a", None, false);
        get.method = "GET".into();
        let verdict = Verdict::of(&[charge(1, "a", None, false), get]);
        assert_eq!(verdict.without_key, BTreeSet::from([1]));
    }
}
