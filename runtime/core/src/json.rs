//! A JSON text that has been checked once and is carried as it was written.
//!
//! Values cross the guest's border, the journal and the API as text. They are parsed into trees only where somebody looks
//! inside, so that a replayed value is the recorded bytes and no number changes its spelling on the way.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Valid JSON text. Escapes of lone surrogates are replaced by `\ufffd` when it is made, so any JSON reader can read it back.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

/// Why a text is no JSON: the reader's own words, with line and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidJson(pub String);

impl fmt::Display for InvalidJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not valid JSON: {}", self.0)
    }
}

impl std::error::Error for InvalidJson {}

impl Json {
    /// Checks `text` and takes it as it is, but for surrounding white space and lone surrogates.
    ///
    /// # Errors
    /// When the text is not one JSON value.
    pub fn parse(text: &str) -> Result<Self, InvalidJson> {
        let raw = match replace_lone_surrogates(text) {
            Some(replaced) => serde_json::from_str::<Box<RawValue>>(&replaced),
            None => serde_json::from_str::<Box<RawValue>>(text),
        };
        raw.map(Self).map_err(|e| InvalidJson(e.to_string()))
    }

    /// JSON `null`.
    #[must_use]
    pub fn null() -> Self {
        Self(RawValue::NULL.to_owned())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The text's length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.get().len()
    }

    /// Never: a JSON text has at least one character. Here because `len` is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Equal as JSON values: white space, key order and the spelling of numbers do not count.
    /// Texts nested too deeply to be read are compared as texts.
    #[must_use]
    pub fn same_value(&self, other: &Self) -> bool {
        if self.as_str() == other.as_str() {
            return true;
        }
        match (self.to_value(), other.to_value()) {
            (Some(a), Some(b)) => a == b,
            _ => false,
        }
    }

    /// The value as a tree, unless it is nested deeper than 127 levels.
    #[must_use]
    pub fn to_value(&self) -> Option<serde_json::Value> {
        serde_json::from_str(self.as_str()).ok()
    }
}

impl From<&serde_json::Value> for Json {
    fn from(value: &serde_json::Value) -> Self {
        // A tree of values has string keys only, so writing it cannot fail.
        Self(serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq for Json {
    /// The same text. See [`Json::same_value`] for equality as values.
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

/// The text with escapes of lone surrogates replaced, or `None` where it has none (nearly always).
fn replace_lone_surrogates(text: &str) -> Option<String> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return None;
    }
    let bytes = text.as_bytes();
    let unit = |at: usize| -> Option<u16> {
        let hex = text.get(at + 2..at + 6)?;
        (bytes.get(at..at + 2)? == b"\\u").then(|| u16::from_str_radix(hex, 16).ok())?
    };
    let mut out = String::with_capacity(text.len());
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match unit(at) {
            Some(0xD800..=0xDBFF) if matches!(unit(at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                at += 6;
                copied = at;
            }
            // Any other escape: its second byte is never the start of the next one.
            _ => at += 2,
        }
    }
    out.push_str(&text[copied..]);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_keeps_its_spelling() {
        let json = Json::parse(" {\"b\": 1e2, \"a\": 9007199254740993} ").unwrap();
        assert_eq!(json.as_str(), "{\"b\": 1e2, \"a\": 9007199254740993}");
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_are_kept() {
        for (text, expected) in [
            (r#""\ud800""#, r#""\ufffd""#),
            (r#""\uDC00x\ud83d\ude00""#, r#""\ufffdx\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\ud83d\ud83d\ude00\u0000""#, r#""\ufffd\ud83d\ude00\u0000""#),
        ] {
            let json = Json::parse(text).unwrap();
            assert_eq!(json.as_str(), expected);
            assert!(json.to_value().is_some());
        }
    }

    #[test]
    fn what_is_no_json_is_refused_with_the_place() {
        for text in ["", "{", "nul", "1 2", "\"\u{0}\"", "NaN"] {
            let error = Json::parse(text).unwrap_err();
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }

    #[test]
    fn values_compare_without_their_spelling() {
        let parse = |t: &str| Json::parse(t).unwrap();
        assert!(parse("{\"a\":1,\"b\":[2]}").same_value(&parse(" { \"b\" : [2], \"a\" : 1 }")));
        assert!(!parse("1").same_value(&parse("2")));
    }
}
