//! What a status says: whether it is worth another attempt, and what is known of an unsafe request so answered.

use proptest::prelude::*;
use stepwell_core::contract::Evidence::{Answered, NotSent, Sent};
use stepwell_core::policy::effect::Outcome::{self, Done, NotDone, Unknown};
use stepwell_core::policy::effect::{carries_key_by_default, is_retried_status, is_safe_method, merged, outcome_of};

use crate::vectors;

#[test]
fn the_shared_statuses_hold() {
    let file = vectors::read("retry.json");
    for case in vectors::list(&file, "http") {
        let status = u16::try_from(case["status"].as_u64().unwrap()).unwrap();
        assert_eq!(case["retry"], is_retried_status(status, false), "{case}");
        let outcome = serde_json::to_value(outcome_of(&Answered(status), &[])).unwrap();
        assert_eq!(case["unsafe_outcome"], outcome, "{case}");
    }
}

#[test]
fn every_status_has_an_outcome() {
    for status in 0..=999_u16 {
        let expected = match status {
            307 | 308 | 429 | 503 => NotDone,
            408 | 409 | 425 => Unknown,
            200..=399 => Done,
            400..=499 => NotDone,
            // 1xx is no complete answer, and 6xx nobody has defined.
            _ => Unknown,
        };
        assert_eq!(outcome_of(&Answered(status), &[]), expected, "{status}");
        let retried = [408, 429, 500, 502, 503, 504].contains(&status);
        assert_eq!(is_retried_status(status, false), retried, "{status}");
        let under_unknown = retried || [409, 425].contains(&status);
        assert_eq!(is_retried_status(status, true), under_unknown, "{status} under an unknown key");
    }
}

#[test]
fn statuses_beside_the_shared_ones() {
    for (status, outcome) in [
        (100, Unknown),
        (103, Unknown),
        (200, Done),
        (201, Done),
        (202, Done),
        (204, Done),
        (299, Done),
        (301, Done),
        (302, Done),
        (303, Done),
        (304, Done),
        (307, NotDone),
        (308, NotDone),
        (402, NotDone),
        (418, NotDone),
        (451, NotDone),
        (499, NotDone),
        (501, Unknown),
        (505, Unknown),
        (507, Unknown),
        (520, Unknown),
        (599, Unknown),
    ] {
        assert_eq!(outcome_of(&Answered(status), &[]), outcome, "{status}");
        assert!(!is_retried_status(status, true), "{status}");
    }
}

#[test]
fn the_wire_alone_says_as_much() {
    assert_eq!(outcome_of(&NotSent, &[]), NotDone);
    assert_eq!(outcome_of(&Sent, &[]), Unknown);
    assert_eq!(outcome_of(&Sent, &[500]), Unknown);
}

#[test]
fn renew_on_turns_an_unknown_into_not_done_and_never_a_done() {
    assert_eq!(outcome_of(&Answered(500), &[500]), NotDone);
    assert_eq!(outcome_of(&Answered(502), &[500]), Unknown);
    assert_eq!(outcome_of(&Answered(409), &[409, 500]), NotDone);
    assert_eq!(outcome_of(&Answered(201), &[201]), Done);
    assert_eq!(outcome_of(&Answered(304), &[304]), Done);
}

#[test]
fn methods_are_safe_by_their_exact_name() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        assert!(is_safe_method(method) && !carries_key_by_default(method), "{method}");
    }
    for method in ["POST", "PATCH"] {
        assert!(!is_safe_method(method) && carries_key_by_default(method), "{method}");
    }
    // What is not known to be safe is not: other spellings are other methods.
    for method in ["PUT", "DELETE", "CONNECT", "QUERY", "PROPFIND", "get", "Get", " GET", "GET ", ""] {
        assert!(!is_safe_method(method) && !carries_key_by_default(method), "{method:?}");
    }
}

const ALL: [Outcome; 3] = [NotDone, Done, Unknown];

#[test]
fn only_a_done_ends_an_unknown() {
    for (before, sent, expected) in [
        (Unknown, NotDone, Unknown),
        (Unknown, Unknown, Unknown),
        (Unknown, Done, Done),
        (NotDone, NotDone, NotDone),
        (NotDone, Unknown, Unknown),
        (NotDone, Done, Done),
        (Done, NotDone, Done),
        (Done, Done, Done),
    ] {
        assert_eq!(merged(before, sent), expected, "{before:?} then {sent:?}");
    }
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    proptest::collection::vec(proptest::sample::select(&ALL[..]), 0..8)
}

proptest! {
    #[test]
    fn what_is_known_of_a_key_is_sticky(sends in outcomes()) {
        let known = sends.iter().fold(NotDone, |known, sent| merged(known, *sent));
        let last_done = sends.iter().rposition(|sent| *sent == Done);
        let unknown_after = sends[last_done.map_or(0, |at| at + 1)..].contains(&Unknown);
        // Not done only where every send under the key is known to have done nothing.
        prop_assert_eq!(known == NotDone, sends.iter().all(|sent| *sent == NotDone));
        if last_done.is_none() {
            prop_assert_eq!(known == Unknown, unknown_after);
        }
    }

    #[test]
    fn sends_fold_in_any_grouping(before in outcomes(), after in outcomes()) {
        let fold = |start, sends: &[Outcome]| sends.iter().fold(start, |known, sent| merged(known, *sent));
        let whole: Vec<Outcome> = before.iter().chain(&after).copied().collect();
        prop_assert_eq!(fold(NotDone, &whole), fold(fold(NotDone, &before), &after));
        for outcome in ALL {
            prop_assert_eq!(merged(outcome, outcome), outcome);
            prop_assert_eq!(merged(outcome, Done), Done);
            prop_assert_eq!(merged(NotDone, outcome), outcome);
        }
    }
}
