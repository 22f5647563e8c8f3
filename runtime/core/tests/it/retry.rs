//! The retry policy: delays, ranges, what follows a failure.

use proptest::prelude::*;
use serde_json::{Value, json};
use stepwell_core::contract::RetryFields;
use stepwell_core::error::Retryability;
use stepwell_core::policy::retry::{InvalidField, MAX_DELAY_MS, RetryPolicy, Verdict, parse_fields};
use stepwell_core::policy::timeout::{checked, step_timeout_ms};

use crate::vectors;

fn policy(value: &Value) -> RetryPolicy {
    let fields = parse_fields(value).unwrap_or_else(|e| panic!("{value}: {e}"));
    RetryPolicy::default().overridden(&fields).unwrap_or_else(|e| panic!("{value}: {e}"))
}

/// The delays after failure 1, 2, ... with jitter 0, up to the one that is the last.
fn delays(value: &Value) -> Vec<Option<u64>> {
    let policy = RetryPolicy { jitter: 0.0, ..policy(value) };
    let mut delays = Vec::new();
    for failure in 1..=1_000 {
        match policy.after_failure(failure, Retryability::Retry, u64::MAX) {
            Verdict::RetryIn(ms) => delays.push(Some(ms)),
            Verdict::GiveUp => {
                delays.push(None);
                return delays;
            }
        }
    }
    panic!("{value}: attempts without end");
}

#[test]
fn the_shared_delays_hold() {
    let file = vectors::read("retry.json");
    for case in vectors::list(&file, "cases") {
        let expected: Vec<Option<u64>> = vectors::list(case, "delays").iter().map(Value::as_u64).collect();
        assert_eq!(delays(&case["policy"]), expected, "{}", case["policy"]);
    }
}

#[test]
fn the_shared_refusals_name_their_field() {
    let file = vectors::read("retry.json");
    for case in vectors::list(&file, "invalid") {
        let error = parse_fields(&case["policy"]).expect_err(&case["policy"].to_string());
        assert_eq!(case["field"], error.field, "{}", case["policy"]);
        assert!(error.to_string().contains(&error.value) && !error.range.is_empty(), "{error}");
    }
}

#[test]
fn further_delays() {
    for (given, expected) in [
        (json!({"maxAttempts": 2}), vec![Some(1_000), None]),
        (json!({"maxAttempts": 2, "initialMs": 1, "maxMs": 1}), vec![Some(1), None]),
        (json!({"maxAttempts": 4, "initialMs": 10, "maxMs": 25}), vec![Some(10), Some(20), Some(25), None]),
        (json!({"maxAttempts": 4, "initialMs": 1, "multiplier": 1.5}), vec![Some(1), Some(1), Some(2), None]),
        (json!({"maxAttempts": 4, "initialMs": 7, "multiplier": 2.5}), vec![Some(7), Some(17), Some(43), None]),
        (json!({"maxAttempts": 3, "initialMs": 600_001}), vec![Some(600_000), Some(600_000), None]),
        (json!({"maxAttempts": 3, "initialMs": 0, "multiplier": 10}), vec![Some(0), Some(0), None]),
        (json!({"maxAttempts": 3, "initialMs": u64::MAX}), vec![Some(600_000), Some(600_000), None]),
        (json!({"maxAttempts": 4, "initialMs": 1, "multiplier": 10}), vec![Some(1), Some(10), Some(100), None]),
        (json!({"maxAttempts": 2, "initialMs": 1e3}), vec![Some(1_000), None]),
    ] {
        assert_eq!(delays(&given), expected, "{given}");
    }
}

#[test]
fn no_delay_is_0_or_above_a_day_at_any_attempt() {
    for initial_ms in [1, 1_000, 86_399_999, (1 << 53) - 1, u64::MAX] {
        for (multiplier, jitter) in [(1.0, 0.0), (10.0, 0.0), (10.0, 0.2), (10.0, 1.0)] {
            let fields = RetryFields {
                max_attempts: Some(100),
                initial_ms: Some(initial_ms),
                max_ms: Some(MAX_DELAY_MS),
                multiplier: Some(multiplier),
                jitter: Some(jitter),
            };
            let policy = RetryPolicy::default().overridden(&fields).unwrap();
            for failure in (1..=100).chain([1_000, u32::MAX]) {
                for random in [0, 1, u64::MAX / 2, u64::MAX] {
                    let delay = policy.delay_ms(failure, random);
                    assert!((1..=MAX_DELAY_MS).contains(&delay), "{policy:?} failure {failure}: {delay}");
                }
            }
            assert_eq!(policy.after_failure(100, Retryability::Retry, 0), Verdict::GiveUp);
            assert_ne!(policy.after_failure(99, Retryability::Retry, 0), Verdict::GiveUp);
        }
    }
}

#[test]
fn one_attempt_is_exactly_one_and_a_hundred_exactly_a_hundred() {
    for attempts in [1, 2, 99, 100] {
        let given = json!({"maxAttempts": attempts, "initialMs": 0});
        assert_eq!(delays(&given).len(), attempts, "the last of them is the end");
    }
}

#[test]
fn what_is_out_of_range_is_named() {
    for (given, field) in [
        (json!({"maxAttempts": -1}), "maxAttempts"),
        (json!({"maxAttempts": 2.5}), "maxAttempts"),
        (json!({"maxAttempts": "3"}), "maxAttempts"),
        (json!({"maxAttempts": null}), "maxAttempts"),
        (json!({"maxAttempts": true}), "maxAttempts"),
        (json!({"maxAttempts": 4_294_967_297_u64}), "maxAttempts"),
        (json!({"maxAttempts": 1e300}), "maxAttempts"),
        (json!({"initialMs": -1}), "initialMs"),
        (json!({"initialMs": 0.5}), "initialMs"),
        (json!({"initialMs": "1s"}), "initialMs"),
        (json!({"initialMs": 1e300}), "initialMs"),
        (json!({"maxMs": 0}), "maxMs"),
        (json!({"maxMs": -1}), "maxMs"),
        (json!({"maxMs": 1.5}), "maxMs"),
        (json!({"maxMs": u64::MAX}), "maxMs"),
        (json!({"multiplier": 0}), "multiplier"),
        (json!({"multiplier": 0.999_999}), "multiplier"),
        (json!({"multiplier": -2}), "multiplier"),
        (json!({"multiplier": 10.000_001}), "multiplier"),
        (json!({"multiplier": "Infinity"}), "multiplier"),
        (json!({"multiplier": [2]}), "multiplier"),
        (json!({"jitter": -0.000_001}), "jitter"),
        (json!({"jitter": 1.000_001}), "jitter"),
        (json!({"jitter": "NaN"}), "jitter"),
        (json!({"jitter": {}}), "jitter"),
        (json!({"max_attempts": 3}), "max_attempts"),
        (json!({"maxattempts": 3}), "maxattempts"),
        (json!({"": 3}), ""),
        (json!(3), "retry"),
        (json!([]), "retry"),
        (json!(null), "retry"),
    ] {
        let error = parse_fields(&given).expect_err(&given.to_string());
        assert_eq!(error.field, field, "{given}");
    }
}

#[test]
fn floats_of_a_guest_that_are_no_numbers_are_refused() {
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN, 1e308, f64::MIN] {
        let multiplier = RetryFields { multiplier: Some(float), ..RetryFields::default() };
        let jitter = RetryFields { jitter: Some(float), ..RetryFields::default() };
        for (fields, field) in [(multiplier, "multiplier"), (jitter, "jitter")] {
            let InvalidField { field: named, range, .. } = RetryPolicy::default().overridden(&fields).unwrap_err();
            assert_eq!(named, field, "{float}");
            assert!(!range.is_empty());
        }
    }
}

#[test]
fn the_ends_of_the_ranges_are_allowed() {
    for given in [
        json!({}),
        json!({"maxAttempts": 1, "initialMs": 0, "maxMs": 1, "multiplier": 1, "jitter": 0}),
        json!({"maxAttempts": 100, "initialMs": u64::MAX, "maxMs": 86_400_000, "multiplier": 10, "jitter": 1}),
        json!({"multiplier": 1.0, "jitter": 1.0}),
        json!({"jitter": -0.0}),
    ] {
        policy(&given);
    }
}

#[test]
fn a_step_overrides_its_workflow_field_by_field() {
    let workflow = policy(&json!({"maxAttempts": 7, "initialMs": 50, "maxMs": 900, "multiplier": 3, "jitter": 0.5}));
    for (own, expected) in [
        (json!({}), workflow),
        (json!({"maxAttempts": 2}), RetryPolicy { max_attempts: 2, ..workflow }),
        (json!({"initialMs": 0}), RetryPolicy { initial_ms: 0, ..workflow }),
        (json!({"maxMs": 60_000}), RetryPolicy { max_ms: 60_000, ..workflow }),
        (json!({"multiplier": 1}), RetryPolicy { multiplier: 1.0, ..workflow }),
        (json!({"jitter": 0}), RetryPolicy { jitter: 0.0, ..workflow }),
    ] {
        let merged = workflow.overridden(&parse_fields(&own).unwrap()).unwrap();
        assert_eq!(merged, expected, "{own}");
    }
    let default = RetryPolicy::default();
    assert_eq!(
        (default.max_attempts, default.initial_ms, default.max_ms, default.multiplier, default.jitter),
        (5, 1_000, 600_000, 2.0, 0.2)
    );
}

#[test]
fn the_flags_of_a_failure_come_before_the_policy() {
    let policy = policy(&json!({"maxAttempts": 3, "initialMs": 1_000, "maxMs": 10_000, "jitter": 1}));
    for (failure, flag, expected) in [
        (1, Retryability::Never, Verdict::GiveUp),
        (1, Retryability::AfterMs(0), Verdict::RetryIn(0)),
        (1, Retryability::AfterMs(1), Verdict::RetryIn(1)),
        (1, Retryability::AfterMs(3_600_000), Verdict::RetryIn(3_600_000)),
        (2, Retryability::AfterMs(86_400_000), Verdict::RetryIn(86_400_000)),
        (2, Retryability::AfterMs(86_400_001), Verdict::RetryIn(86_400_000)),
        (2, Retryability::AfterMs(u64::MAX), Verdict::RetryIn(86_400_000)),
        (3, Retryability::AfterMs(1), Verdict::GiveUp),
        (3, Retryability::Retry, Verdict::GiveUp),
        (4, Retryability::Retry, Verdict::GiveUp),
    ] {
        assert_eq!(policy.after_failure(failure, flag, 7), expected, "failure {failure}, {flag:?}");
    }
}

#[test]
fn time_outs_have_a_range_and_an_order() {
    assert_eq!(step_timeout_ms(Some(5), Some(7)), Ok(5));
    assert_eq!(step_timeout_ms(None, Some(7)), Ok(7));
    assert_eq!(step_timeout_ms(None, None), Ok(600_000));
    assert_eq!(step_timeout_ms(Some(86_400_000), None), Ok(86_400_000));
    for (own, workflow) in [(Some(0), None), (Some(86_400_001), None), (Some(u64::MAX), Some(7)), (None, Some(0))] {
        let error = step_timeout_ms(own, workflow).unwrap_err();
        assert_eq!(error.field, "timeoutMs");
        assert!(error.to_string().contains("1 to 86400000"), "{error}");
    }
    assert_eq!(checked("keyTtlMs", 10, 10), Ok(10));
    assert!(checked("keyTtlMs", 11, 10).is_err());
}

/// Any policy within the ranges.
fn policies() -> impl Strategy<Value = RetryPolicy> {
    let initial = prop_oneof![0..100_u64, 0..100_000_u64, any::<u64>()];
    let max = prop_oneof![1..100_u64, 1..=MAX_DELAY_MS];
    (1..=100_u32, initial, max, 1.0..=10.0_f64, prop_oneof![Just(0.0), Just(1.0), 0.0..=1.0_f64]).prop_map(
        |(max_attempts, initial_ms, max_ms, multiplier, jitter)| RetryPolicy {
            max_attempts,
            initial_ms,
            max_ms,
            multiplier,
            jitter,
        },
    )
}

proptest! {
    #[test]
    fn a_delay_lies_in_its_interval(policy in policies(), failure in 1..=200_u32, random: u64) {
        let base = policy.base_delay_ms(failure);
        let delay = policy.delay_ms(failure, random);
        prop_assert!(delay <= base && base <= policy.max_ms);
        // Not below the interval but for what a float cannot hold.
        prop_assert!(delay as f64 >= base as f64 * (1.0 - policy.jitter) * (1.0 - 1e-12), "{delay} of {base}");
        prop_assert_eq!(delay == 0, policy.initial_ms == 0);
        prop_assert_eq!(base == 0, policy.initial_ms == 0);
        if policy.jitter == 0.0 {
            prop_assert_eq!(delay, base);
        }
    }

    #[test]
    fn the_base_never_shrinks(policy in policies(), failure in 1..=200_u32) {
        prop_assert!(policy.base_delay_ms(failure) <= policy.base_delay_ms(failure + 1));
        prop_assert_eq!(policy.base_delay_ms(1), policy.initial_ms.min(policy.max_ms));
    }

    #[test]
    fn jitter_reaches_both_ends(policy in policies(), failure in 1..=20_u32) {
        let base = policy.base_delay_ms(failure);
        prop_assume!(base > 0);
        let lowest = policy.delay_ms(failure, 0);
        let span = base - lowest + 1;
        prop_assert_eq!(policy.delay_ms(failure, span - 1), base);
        prop_assert_eq!(policy.delay_ms(failure, span), lowest);
        prop_assert!(lowest as f64 <= base as f64 * (1.0 - policy.jitter) + 1.0 + 1e-6);
    }

    #[test]
    fn a_policy_survives_json(policy in policies()) {
        let text = serde_json::to_string(&policy).unwrap();
        prop_assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), policy);
        let fields = parse_fields(&serde_json::to_value(policy).unwrap()).unwrap();
        prop_assert_eq!(RetryPolicy::default().overridden(&fields).unwrap(), policy);
    }

    #[test]
    fn overriding_never_yields_a_policy_out_of_range(
        max_attempts: Option<u32>, initial_ms: Option<u64>, max_ms: Option<u64>,
        multiplier: Option<f64>, jitter: Option<f64>, below in policies(),
    ) {
        let fields = RetryFields { max_attempts, initial_ms, max_ms, multiplier, jitter };
        if let Ok(policy) = below.overridden(&fields) {
            prop_assert!((1..=100).contains(&policy.max_attempts) && (1..=MAX_DELAY_MS).contains(&policy.max_ms));
            prop_assert!((1.0..=10.0).contains(&policy.multiplier) && (0.0..=1.0).contains(&policy.jitter));
        }
    }

    #[test]
    fn attempts_end_at_their_number(policy in policies(), failure: u32, after: u64, random: u64) {
        for flag in [Retryability::Retry, Retryability::Never, Retryability::AfterMs(after)] {
            let verdict = policy.after_failure(failure, flag, random);
            let over = failure >= policy.max_attempts || flag == Retryability::Never;
            prop_assert_eq!(verdict == Verdict::GiveUp, over);
        }
    }
}
