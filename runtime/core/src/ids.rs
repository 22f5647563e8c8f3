//! Names of things: runs, module digests, steps within a run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A run's name outside: `run_` and a time-ordered id. Made by the engine; here only a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

impl RunId {
    /// Takes a text as it is.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id of a run that `by` starts at that time, in ms since the Unix epoch, by `what` of its own: the same each time it is made.
    /// It is ordered among others by its time, as they are.
    #[must_use]
    pub fn derived(by: &Self, what: &str, at_ms: u64) -> Self {
        let digest = Digest::of(format!("{by}/{what}").as_bytes());
        let digits = digest.as_str();
        // As a UUID of version 7: 48 bits of time, then what would be random.
        Self(format!("run_{:012x}7{}8{}", at_ms & 0xffff_ffff_ffff, &digits[..3], &digits[3..18]))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A module: the SHA-256 of its bytes, in lower-case hex.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digest(String);

impl Digest {
    /// Of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(hex(&sha2::Sha256::digest(bytes)))
    }

    /// From text that was a digest before.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Enough of it for people.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Lower-case hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A step within its run: its name, and which one of that name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepId {
    /// As the workflow gives it.
    pub name: String,
    /// From 1.
    pub occurrence: u32,
}

impl fmt::Display for StepId {
    /// `name`, `name#2`. A `#` or `%` of the name's own is written `%23` or `%25`, so that no two steps look alike.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.name.split_inclusive(['#', '%']) {
            match part.strip_suffix(['#', '%']) {
                Some(before) => write!(f, "{before}{}", if part.ends_with('#') { "%23" } else { "%25" })?,
                None => f.write_str(part)?,
            }
        }
        if self.occurrence > 1 { write!(f, "#{}", self.occurrence) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_ids_never_look_alike() {
        let id = |name: &str, occurrence| StepId { name: name.into(), occurrence }.to_string();
        assert_eq!(id("a", 1), "a");
        assert_eq!(id("a", 2), "a#2");
        assert_eq!(id("a#2", 1), "a%232");
        assert_eq!(id("a%232", 1), "a%25232");
        assert_eq!(id("支払い", 3), "支払い#3");
    }

    #[test]
    fn a_derived_id_is_the_same_each_time_and_ordered_by_time() {
        let parent = RunId::new("run_1");
        let id = |what: &str, at_ms| RunId::derived(&parent, what, at_ms);
        assert_eq!(id("0", 1_700_000_000_000), id("0", 1_700_000_000_000));
        assert_eq!(id("0", 1_700_000_000_000).as_str().len(), "run_".len() + 32);
        assert!(id("0", 1_700_000_000_000).as_str().starts_with("run_018bcfe568007"));
        assert_ne!(id("0", 5), id("1", 5));
        assert!(id("1", 5) < id("0", 6));
    }

    #[test]
    fn a_digest_is_sha_256() {
        assert_eq!(Digest::of(b"").short(), "e3b0c44298fc");
        assert_eq!(Digest::of(b"").as_str().len(), 64);
    }
}
