//! Keys: their form, and that no two of them are the same.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use stepwell_core::ids::{RunId, StepId};
use stepwell_core::policy::key::{effect_key, idempotency_key, is_valid_custom, operation_key};

fn step(name: &str, occurrence: u32) -> StepId {
    StepId { name: name.into(), occurrence }
}

/// All keys of a step that its attempts and effects 1 to 3 have.
fn keys_of(run: &RunId, id: &StepId) -> Vec<String> {
    let mut keys = vec![operation_key(run, id, None)];
    keys.extend((1..=3).flat_map(|n| [idempotency_key(run, id, None, n), effect_key(run, id, None, n)]));
    keys
}

#[test]
fn keys_have_the_documented_form() {
    let run = RunId::new("run_7");
    for (name, occurrence, operation) in [
        ("charge", 1, "run_7:charge"),
        ("charge", 2, "run_7:charge#2"),
        ("a#2", 1, "run_7:a%232"),
        ("a:1", 1, "run_7:a%3A1"),
        ("100%", 1, "run_7:100%25"),
        ("two words", 1, "run_7:two%20words"),
        ("A.b_c~d-e", 1, "run_7:A.b_c~d-e"),
        ("支", 3, "run_7:%E6%94%AF#3"),
        ("\u{e9}", 1, "run_7:%C3%A9"),
        ("e\u{301}", 1, "run_7:e%CC%81"),
        ("😀", 1, "run_7:%F0%9F%98%80"),
        ("a\"/\\", 1, "run_7:a%22%2F%5C"),
    ] {
        let id = step(name, occurrence);
        assert_eq!(operation_key(&run, &id, None), operation);
        assert_eq!(idempotency_key(&run, &id, None, 12), format!("{operation}:12"));
        assert_eq!(effect_key(&run, &id, None, 12), format!("{operation}:e12"));
    }
}

#[test]
fn steps_that_nearly_have_one_name_have_different_keys() {
    let run = RunId::new("run_7");
    let ids = [
        step("a", 1),
        step("a", 2),
        step("a#2", 1),
        step("a#2", 2),
        step("a%232", 1),
        step("a:1", 1),
        step("a:e1", 1),
        step("e1", 1),
        step("1", 1),
        step("A", 1),
        step("a ", 1),
        step(" a", 1),
    ];
    let keys: BTreeSet<String> = ids.iter().flat_map(|id| keys_of(&run, id)).collect();
    assert_eq!(keys.len(), ids.len() * 7);
}

#[test]
fn the_bound_is_255_and_what_is_cut_is_told_apart() {
    let run = RunId::new("run_0198c1a2b3c4d5e6f708192a3b4c5d6e");
    let fixed = run.as_str().len() + 1;
    for length in [254, 255, 256, 257] {
        let key = operation_key(&run, &step(&"k".repeat(length - fixed), 1), None);
        assert_eq!(key.len(), length.min(255));
        assert_eq!(key.ends_with('k'), length <= 255, "{key}");
    }
    let long = "支".repeat(66);
    let cut = operation_key(&run, &step(&long, 1), None);
    assert_eq!(cut.len(), 255);
    // A step that is called what another's cut key looks like.
    let own = &cut[fixed..];
    assert_ne!(operation_key(&run, &step(own, 1), None), cut);
}

#[test]
fn a_step_cannot_take_the_name_of_another_step_s_cut_key() {
    let run = RunId::new("run_7");
    let cut = operation_key(&run, &step(&"%".repeat(200), 1), None);
    let text = percent_encoding::percent_decode_str(&cut["run_7:".len()..]).decode_utf8().unwrap().into_owned();
    assert_ne!(operation_key(&run, &step(&text, 1), None), cut);
}

#[test]
fn an_own_key_is_1_to_255_printable_ascii_characters() {
    for text in ["", " ", "   ", "a ", " a", "a\u{0}", "a\n", "a\u{7f}", "\t", "😀", "\u{e9}", "e\u{301}"] {
        assert!(!is_valid_custom(text), "{text:?}");
    }
    assert!(!is_valid_custom(&"k".repeat(256)));
    for text in ["a", "a/b", "order 7", "\"quoted\"", "~", "!", "run_7:a:e1"] {
        assert!(is_valid_custom(text), "{text:?}");
    }
    assert!(is_valid_custom(&"k".repeat(255)));
}

/// Names that a run may use, many of them short and alike, some of the full 200 bytes.
fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a#:%e1~!]{1,4}", "[ -~é支😀]{1,12}", "[a支%]{20,66}"]
}

/// The same name, occurrence, epoch, attempt and run or others: what makes a key one of a kind.
fn places() -> impl Strategy<Value = (String, String, u32, Option<String>, u32)> {
    ("run_[0-9a-f]{1,4}", names(), 1..4_u32, proptest::option::of("[0-9a-f]{1,2}"), 1..4_u32)
}

proptest! {
    #[test]
    fn a_key_names_one_thing_alone(places in proptest::collection::vec(places(), 2..40)) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for (run, name, occurrence, epoch, n) in places {
            let epoch = epoch.as_deref();
            let (id, run) = (step(&name, occurrence), RunId::new(run));
            for (key, what) in [
                (operation_key(&run, &id, epoch), format!("operation {run} {id:?} {epoch:?}")),
                (idempotency_key(&run, &id, epoch, n), format!("attempt {run} {id:?} {epoch:?} {n}")),
                (effect_key(&run, &id, epoch, n), format!("effect {run} {id:?} {epoch:?} {n}")),
            ] {
                prop_assert!((1..=255).contains(&key.len()), "{}", key);
                prop_assert!(key.bytes().all(|b| (b'!'..=b'~').contains(&b)), "{}", key);
                prop_assert!(is_valid_custom(&key));
                prop_assert_eq!(seen.entry(key).or_insert_with(|| what.clone()), &what);
            }
        }
    }

    #[test]
    fn step_ids_are_told_apart(a in (names(), 1..4_u32), b in (names(), 1..4_u32)) {
        let (first, second) = (step(&a.0, a.1), step(&b.0, b.1));
        prop_assert_eq!(first.to_string() == second.to_string(), first == second);
    }

    #[test]
    fn any_name_makes_a_key(name in any::<String>(), occurrence: u32, n: u32) {
        let id = step(&name, occurrence);
        for key in [idempotency_key(&RunId::new("run_7"), &id, None, n), effect_key(&RunId::new("run_7"), &id, None, n)] {
            prop_assert!(key.len() <= 255 && key.is_ascii());
        }
    }
}
