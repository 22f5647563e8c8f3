//! The decision about a repeated request, as a table; and what may be a client's key.

use stepwell_core::policy::idempotency::{
    ANSWER_KEPT_MS, Answered, Asked, Decision, InvalidKey, check_key, decide, header_key,
};

const ANA: Asked<'static> = Asked { principal: "ana", fingerprint: "start A" };

fn answered(asked: Asked<'static>, at_ms: u64, kept: bool) -> Option<Answered<'static>> {
    Some(Answered { asked, at_ms, kept })
}

#[test]
fn each_state_of_a_key_has_one_answer() {
    let other_request = Asked { fingerprint: "start B", ..ANA };
    let other_principal = Asked { principal: "ben", ..ANA };
    let (first, now) = (1_000, 1_000 + ANSWER_KEPT_MS);
    let cases = [
        (None, None, now, Decision::Proceed),
        (None, Some(ANA), now, Decision::Wait),
        // The fingerprint comes before the state, and another principal is answered like another request.
        (None, Some(other_request), now, Decision::Reuse),
        (None, Some(other_principal), now, Decision::Reuse),
        (answered(ANA, first, false), None, now - 1, Decision::Replay),
        (answered(other_request, first, false), None, now - 1, Decision::Reuse),
        (answered(other_principal, first, true), None, now - 1, Decision::Reuse),
        // After a day a key is free, unless runs hold it.
        (answered(ANA, first, false), None, now, Decision::Proceed),
        (answered(other_request, first, false), None, now, Decision::Proceed),
        (answered(ANA, first, true), None, now - 1, Decision::Replay),
        (answered(ANA, first, true), None, now, Decision::CurrentState),
        (answered(other_request, first, true), None, now, Decision::Reuse),
        (answered(other_request, first, false), Some(ANA), now, Decision::Wait),
        // A clock that was set back makes no answer older.
        (answered(ANA, first, false), None, 0, Decision::Replay),
    ];
    for (answered, claimed, now_ms, expected) in cases {
        assert_eq!(decide(ANA, answered, claimed, now_ms), expected, "{answered:?} {claimed:?} {now_ms}");
    }
}

#[test]
fn a_key_is_printable_text_of_some_length() {
    let longest = "é".repeat(255);
    for key in ["a", "a/b", " a ", "🔑", "\u{e9}", "e\u{301}", "\"", longest.as_str()] {
        assert_eq!(check_key(key), Ok(()), "{key:?}");
    }
    for (key, wrong) in [
        ("", InvalidKey::Empty),
        ("   ", InvalidKey::Empty),
        ("\u{3000}", InvalidKey::Empty),
        ("a\0", InvalidKey::Unprintable),
        ("\n", InvalidKey::Unprintable),
        ("a\u{85}", InvalidKey::Unprintable),
    ] {
        assert_eq!(check_key(key), Err(wrong), "{key:?}");
    }
    assert_eq!(check_key(&"é".repeat(256)), Err(InvalidKey::TooLong));
}

#[test]
fn a_quoted_key_and_a_bare_one_are_the_same() {
    for (value, key) in [
        ("a", "a"),
        ("\"a\"", "a"),
        ("  a\t", "a"),
        ("\" a\"", " a"),
        (r#""a\"b\\c""#, r#"a"b\c"#),
        (r#"a"b"#, r#"a"b"#),
    ] {
        assert_eq!(header_key(value).as_deref(), Ok(key), "{value}");
    }
    for (value, wrong) in [
        ("", InvalidKey::Empty),
        ("\"\"", InvalidKey::Empty),
        ("\"  \"", InvalidKey::Empty),
        ("\"a", InvalidKey::Quotation),
        ("\"", InvalidKey::Quotation),
        ("\"a\"b", InvalidKey::Quotation),
        (r#""a\n""#, InvalidKey::Quotation),
    ] {
        assert_eq!(header_key(value), Err(wrong), "{value}");
    }
    assert_ne!(header_key("\u{e9}"), header_key("e\u{301}"));
}
