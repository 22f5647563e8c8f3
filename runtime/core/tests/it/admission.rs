//! Whether a run may begin: the limits one by one, their ranges, and the rate over any window.

use proptest::prelude::*;
use stepwell_core::policy::admission::{
    Limits, MAX_RATE_MS, MAX_RATE_RUNS, MAX_RUNS, Rate, Standing, Wait, checked_priority, waits_for,
};

fn rate(runs: u32, per_ms: u64, per_key: bool) -> Limits {
    Limits { rate: Some(Rate { runs, per_ms, per_key }), ..Limits::default() }
}

#[test]
pub(crate) fn each_limit_holds_by_itself_and_the_first_is_named() {
    let runs = |runs| Limits { runs: Some(runs), ..Limits::default() };
    let per_key = |runs| Limits { per_key: Some(runs), ..Limits::default() };
    let all = Limits { per_key: Some(1), ..rate(1, 100, false) };
    let standing = |under_way, of_key, begun_ms| Standing { under_way, of_key, begun_ms };
    for (limits, keyed, standing, waits) in [
        (Limits::default(), true, standing(u64::MAX, u32::MAX, Some(1_000)), None),
        (runs(2), false, standing(1, 0, None), None),
        (runs(2), false, standing(2, 0, None), Some(Wait::Runs(2))),
        (runs(2), true, standing(9, 0, None), Some(Wait::Runs(2))),
        (runs(0), false, standing(0, 0, None), Some(Wait::Runs(0))),
        (per_key(1), true, standing(5, 0, None), None),
        (per_key(1), true, standing(5, 1, None), Some(Wait::PerKey(1))),
        (per_key(1), false, standing(5, 9, None), None),
        (rate(3, 100, false), true, standing(0, 0, None), None),
        (rate(3, 100, false), true, standing(0, 0, Some(901)), Some(Wait::Rate { until_ms: 1_001 })),
        (rate(3, 100, false), false, standing(0, 0, Some(901)), Some(Wait::Rate { until_ms: 1_001 })),
        (rate(3, 100, false), true, standing(0, 0, Some(900)), None),
        (rate(3, 100, true), true, standing(0, 0, Some(950)), Some(Wait::KeyRate { until_ms: 1_050 })),
        (rate(3, 100, true), false, standing(0, 0, Some(950)), None),
        (Limits { runs: Some(4), ..all }, true, standing(4, 1, Some(950)), Some(Wait::Runs(4))),
        (Limits { runs: Some(4), ..all }, true, standing(3, 1, Some(950)), Some(Wait::PerKey(1))),
        (Limits { runs: Some(4), ..all }, true, standing(3, 0, Some(950)), Some(Wait::Rate { until_ms: 1_050 })),
    ] {
        assert_eq!(waits_for(&limits, keyed, standing, 1_000), waits, "{limits:?} {keyed} {standing:?}");
    }
}

#[test]
fn limits_and_priorities_have_their_ranges() {
    let refused = |limits: Limits| limits.checked().unwrap_err().field;
    assert_eq!(refused(Limits { runs: Some(MAX_RUNS + 1), ..Limits::default() }), "concurrency.runs");
    assert_eq!(refused(Limits { per_key: Some(0), ..Limits::default() }), "concurrency.perKey");
    for (runs, per_ms, field) in [
        (0, 1, "rate.runs"),
        (MAX_RATE_RUNS + 1, 1, "rate.runs"),
        (1, 0, "rate.perMs"),
        (1, MAX_RATE_MS + 1, "rate.perMs"),
        (1, u64::MAX, "rate.perMs"),
    ] {
        assert_eq!(refused(rate(runs, per_ms, false)), field);
    }
    let most = Limits { runs: Some(0), per_key: Some(MAX_RUNS), ..rate(MAX_RATE_RUNS, MAX_RATE_MS, true) };
    assert_eq!(most.checked(), Ok(most));
    assert!(Limits::default().is_empty() && !most.is_empty());
    for (priority, taken) in [(-101, false), (-100, true), (0, true), (100, true), (101, false), (i32::MIN, false)] {
        assert_eq!(checked_priority(priority).is_ok(), taken, "{priority}");
    }
}

proptest! {
    #[test]
    fn in_no_window_do_more_begin_and_none_waits_without_need(
        runs in 1_u32..6,
        per_ms in 1_u64..50,
        asked in proptest::collection::vec(0_u64..20, 1..60),
    ) {
        let limits = rate(runs, per_ms, false);
        let (mut now_ms, mut begun) = (0, Vec::<u64>::new());
        for pause_ms in asked {
            now_ms += pause_ms;
            let back = begun.len().checked_sub(runs as usize).map(|at| begun[at]);
            let standing = Standing { begun_ms: back, ..Standing::default() };
            match waits_for(&limits, false, standing, now_ms) {
                None => begun.push(now_ms),
                Some(wait) => {
                    let until_ms = wait.until_ms().unwrap();
                    prop_assert!(until_ms > now_ms);
                    // One ms before that there is a window with as many as may begin.
                    let lately = begun.iter().filter(|at_ms| **at_ms + per_ms > until_ms - 1).count();
                    prop_assert_eq!(lately, runs as usize);
                    prop_assert_eq!(waits_for(&limits, false, standing, until_ms), None);
                }
            }
        }
        for first in &begun {
            let window = begun.iter().filter(|at_ms| (*first..first + per_ms).contains(at_ms)).count();
            prop_assert!(window <= runs as usize, "{} begin from {} on", window, first);
        }
    }
}
