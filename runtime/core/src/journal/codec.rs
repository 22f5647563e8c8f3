//! How entries are written: a version digit and JSON, so that a journal can be read with any SQLite shell.
//!
//! Fields are only ever added, with a default. A change that this cannot hold gets a new version, and the old one stays readable.

use std::fmt;

use super::entry::Entry;

const VERSION: u8 = b'1';

/// An entry that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its place in the journal.
    pub seq: u64,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {} of the journal cannot be read: {}", self.seq, self.reason)
    }
}

impl std::error::Error for Unreadable {}

/// Writes an entry.
#[must_use]
pub fn encode(entry: &Entry) -> Vec<u8> {
    /// Most entries have less: it is grown seldom.
    const USUAL_BYTES: usize = 256;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    // Entries are structs, strings and numbers: writing them to memory cannot fail, and if a change ever made it do so, an empty
    // text would be refused by `decode` and by every test that reads its journal back.
    if serde_json::to_writer(&mut bytes, entry).is_err() {
        bytes.truncate(1);
    }
    bytes
}

/// Reads the entry at `seq`.
///
/// # Errors
/// When the bytes are no entry, or one of a newer version.
pub fn decode(seq: u64, bytes: &[u8]) -> Result<Entry, Unreadable> {
    let unreadable = |reason: String| Unreadable { seq, reason };
    match bytes.split_first() {
        Some((&VERSION, json)) => serde_json::from_slice(json).map_err(|e| unreadable(e.to_string())),
        Some((version, _)) => {
            Err(unreadable(format!("it has version {:?}, this program reads version 1", char::from(*version))))
        }
        None => Err(unreadable("it is empty".to_owned())),
    }
}

/// Bytes as text: as they are where they are UTF-8, else in base64 behind a NUL, which no such text begins with.
pub(crate) mod bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.starts_with('\0') => serializer.serialize_str(text),
            _ => serializer.serialize_str(&format!("\0{}", STANDARD.encode(bytes))),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.strip_prefix('\0') {
            Some(encoded) => STANDARD.decode(encoded).map_err(D::Error::custom),
            None => Ok(text.into_bytes()),
        }
    }
}
