//! The names by which the other side can tell a repetition from a new request.
//!
//! In a key, bytes of a step's name outside `A-Z a-z 0-9 . _ ~ -` are percent-encoded, so `#` only ever separates the occurrence
//! and `:` only ever the parts.
//!
//! A run of a restored database is in another epoch than before, whose name stands in its keys: what the run did after the copy is
//! not known, and no key of that is given to anything else.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::ids::{Digest, RunId, StepId};
use crate::limits::MAX_KEY_CHARS;

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'~').remove(b'-');

/// `<runId>:<stepId>:<attempt>`, with `:r<epoch>` before the attempt in a later epoch: names one attempt, and is never issued twice.
#[must_use]
pub fn idempotency_key(run: &RunId, step: &StepId, epoch: Option<&str>, attempt: u32) -> String {
    bounded(format!("{}:{attempt}", stem(run, step, epoch)))
}

/// `<runId>:<stepId>`, with `:r<epoch>` behind it where the step began in a later epoch: the same for every attempt.
#[must_use]
pub fn operation_key(run: &RunId, step: &StepId, epoch: Option<&str>) -> String {
    bounded(stem(run, step, epoch))
}

/// `<runId>:<stepId>:e<k>`, with `:r<epoch>` before the last part in a later epoch: the k-th key of the step's effects.
#[must_use]
pub fn effect_key(run: &RunId, step: &StepId, epoch: Option<&str>, k: u32) -> String {
    bounded(format!("{}:e{k}", stem(run, step, epoch)))
}

/// Whether a caller's own text may be a key: 1 to 255 printable ASCII characters, the first and last no blank.
#[must_use]
pub fn is_valid_custom(text: &str) -> bool {
    (1..=MAX_KEY_CHARS).contains(&text.len()) && text.bytes().all(|b| (b' '..=b'~').contains(&b)) && text.trim() == text
}

fn stem(run: &RunId, step: &StepId, epoch: Option<&str>) -> String {
    let name = utf8_percent_encode(&step.name, ENCODED);
    let mut stem = format!("{run}:{name}");
    if step.occurrence > 1 {
        stem += &format!("#{}", step.occurrence);
    }
    if let Some(epoch) = epoch {
        stem += &format!(":r{}", utf8_percent_encode(epoch, ENCODED));
    }
    stem
}

/// The key, or its beginning and a digest of the whole where it is too long for a header that others accept.
fn bounded(key: String) -> String {
    if key.len() <= MAX_KEY_CHARS {
        return key;
    }
    let digest = Digest::of(key.as_bytes());
    // A key is ASCII, so any index is a character boundary. No name is written with a `!`, so that no other step's key looks
    // like this one.
    let head = &key[..MAX_KEY_CHARS - digest.as_str().len() - 1];
    format!("{head}!{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(name: &str, occurrence: u32) -> StepId {
        StepId { name: name.into(), occurrence }
    }

    #[test]
    fn keys_have_the_documented_form() {
        let run = RunId::new("run_1");
        for (key, expected) in [
            (operation_key(&run, &step("charge", 1), None), "run_1:charge"),
            (idempotency_key(&run, &step("charge", 2), None, 3), "run_1:charge#2:3"),
            (effect_key(&run, &step("a#2", 1), None, 1), "run_1:a%232:e1"),
            (operation_key(&run, &step("charge", 2), Some("7f")), "run_1:charge#2:r7f"),
            (idempotency_key(&run, &step("charge", 1), Some("7f"), 3), "run_1:charge:r7f:3"),
            (effect_key(&run, &step("charge", 1), Some("7f"), 3), "run_1:charge:r7f:e3"),
            (operation_key(&run, &step("é:/ ~", 1), None), "run_1:%C3%A9%3A%2F%20~"),
        ] {
            assert_eq!(key, expected);
        }
    }

    #[test]
    fn composed_and_decomposed_are_two_keys() {
        let run = RunId::new("run_1");
        assert_ne!(operation_key(&run, &step("\u{e9}", 1), None), operation_key(&run, &step("e\u{301}", 1), None));
    }

    #[test]
    fn a_long_name_keeps_keys_apart_and_within_255() {
        let run = RunId::new("run_0198c1a2b3c4d5e6f708192a3b4c5d6e");
        let keys: std::collections::BTreeSet<_> = (1..=3)
            .flat_map(|n| {
                let long = step(&"支".repeat(66), n);
                [
                    operation_key(&run, &long, None),
                    idempotency_key(&run, &long, None, 1),
                    effect_key(&run, &long, None, 1),
                ]
            })
            .collect();
        assert_eq!(keys.len(), 9);
        assert!(keys.iter().all(|k| k.len() == MAX_KEY_CHARS));
    }

    #[test]
    fn own_keys_are_printable_and_of_length_1_to_255() {
        for text in ["", " ", "a\u{0}", "😀", &"k".repeat(256), "a ", "é"] {
            assert!(!is_valid_custom(text), "{text:?}");
        }
        for text in ["a/b", "order 7", &"k".repeat(255)] {
            assert!(is_valid_custom(text), "{text:?}");
        }
    }
}
