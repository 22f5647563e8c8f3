//! What a client's request is to be answered with when its `Idempotency-Key` has been seen before. One function decides for all
//! requests; who holds a key now, and what was answered under it, are arguments.

use crate::limits::MAX_KEY_CHARS;

/// How long an answer is kept, in ms.
pub const ANSWER_KEPT_MS: u64 = 86_400_000;
/// How long a repetition waits for the first of its kind, in ms.
pub const WAIT_MS: u64 = 10_000;

/// Who asks, and for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked<'a> {
    /// The principal, not its token: a token that was renewed repeats safely.
    pub principal: &'a str,
    /// A digest of method, path and body.
    pub fingerprint: &'a str,
}

/// What was answered under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered<'a> {
    /// To whom, and to what.
    pub asked: Asked<'a>,
    /// When, in ms since the Unix epoch.
    pub at_ms: u64,
    /// It started runs: the key is theirs for as long as they exist.
    pub kept: bool,
}

/// What is to be done with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Nobody has used the key: carry it out.
    Proceed,
    /// Give the first answer again.
    Replay,
    /// The first answer is too old to be true; what it started is there. Answer from that as it is now.
    CurrentState,
    /// The first is being carried out: wait for it, for up to [`WAIT_MS`].
    Wait,
    /// The key belongs to another request. Said before anything else, and in the same words whoever holds it.
    Reuse,
}

/// Decides. `answered` is what is stored under the key, `claimed` who is being answered under it now.
#[must_use]
pub fn decide(asked: Asked<'_>, answered: Option<Answered<'_>>, claimed: Option<Asked<'_>>, now_ms: u64) -> Decision {
    if let Some(first) = answered.filter(|first| holds(first.at_ms, first.kept, now_ms)) {
        return match first.asked == asked {
            false => Decision::Reuse,
            true if is_fresh(first.at_ms, now_ms) => Decision::Replay,
            true => Decision::CurrentState,
        };
    }
    match claimed {
        None => Decision::Proceed,
        Some(first) if first == asked => Decision::Wait,
        Some(_) => Decision::Reuse,
    }
}

/// Whether an answer of that time still holds its key.
#[must_use]
pub fn holds(at_ms: u64, kept: bool, now_ms: u64) -> bool {
    kept || is_fresh(at_ms, now_ms)
}

fn is_fresh(at_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(at_ms) < ANSWER_KEPT_MS
}

/// Why a client's key is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidKey {
    /// Nothing, or blanks alone.
    Empty,
    /// More than [`MAX_KEY_CHARS`] characters.
    TooLong,
    /// A control character.
    Unprintable,
    /// A quotation that does not end where the value does.
    Quotation,
}

impl std::fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty or blank"),
            Self::TooLong => write!(f, "it has more than {MAX_KEY_CHARS} characters"),
            Self::Unprintable => f.write_str("it has a control character"),
            Self::Quotation => f.write_str("its quotation does not end where it does"),
        }
    }
}

/// Checks an idempotency key or run key of a client's: 1 to 255 characters, none of them a control character, not all blank.
/// Characters are compared as they are: a composed and a decomposed letter make two keys.
///
/// # Errors
/// What is wrong with it.
pub fn check_key(text: &str) -> Result<(), InvalidKey> {
    if text.trim().is_empty() {
        // A lone control character is trimmed away too, and deserves the more exact word.
        let unprintable = text.chars().any(char::is_control);
        return Err(if unprintable { InvalidKey::Unprintable } else { InvalidKey::Empty });
    }
    if text.chars().any(char::is_control) {
        return Err(InvalidKey::Unprintable);
    }
    if text.chars().nth(MAX_KEY_CHARS).is_some() { Err(InvalidKey::TooLong) } else { Ok(()) }
}

/// The key that a header's value names. `"a"` and `a` are the same key; within quotation marks `\` escapes a mark and itself.
///
/// # Errors
/// What is wrong with it.
pub fn header_key(value: &str) -> Result<String, InvalidKey> {
    let value = value.trim_matches([' ', '\t']);
    let key = match value.strip_prefix('"') {
        Some(rest) => unquoted(rest).ok_or(InvalidKey::Quotation)?,
        None => value.to_owned(),
    };
    check_key(&key).map(|()| key)
}

/// What stands before the closing mark, which must be the last character.
fn unquoted(text: &str) -> Option<String> {
    let mut key = String::with_capacity(text.len());
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return chars.next().is_none().then_some(key),
            '\\' => key.push(chars.next().filter(|c| ['"', '\\'].contains(c))?),
            other => key.push(other),
        }
    }
}
