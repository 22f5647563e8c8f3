//! How long runs are kept once they have ended.

use stepwell_core::policy::retention::{Retention, Rule, Stands};
use stepwell_core::run::RunStatus::{self, Cancelled, Failed, Succeeded, Terminated};

const DAY_MS: u64 = 86_400_000;

fn retention(rules: &[&str]) -> Retention {
    Retention::of(&rules.iter().map(|rule| rule.parse().unwrap()).collect::<Vec<Rule>>())
}

fn stands(ended: Option<RunStatus>, ended_ms: u64) -> Stands {
    Stands { ended, ended_ms, has_unknown: false }
}

#[test]
fn nothing_is_deleted_unless_somebody_says_so() {
    let off = retention(&[]);
    assert!(off.is_off());
    for status in RunStatus::ALL {
        assert!(!off.lets_go(stands(Some(status), 0), u64::MAX));
    }
}

#[test]
fn each_status_has_its_age_and_the_later_rule_wins() {
    let some = retention(&["30d", "succeeded=7d", "failed=36500d"]);
    assert!(!some.is_off());
    let now_ms = 100 * DAY_MS;
    for (status, days) in [(Succeeded, 7), (Cancelled, 30), (Terminated, 30)] {
        let ended_ms = now_ms - days * DAY_MS;
        assert!(!some.lets_go(stands(Some(status), ended_ms), now_ms), "{status:?} at its age");
        assert!(some.lets_go(stands(Some(status), ended_ms - 1), now_ms), "{status:?} beyond it");
    }
    assert!(!some.lets_go(stands(Some(Failed), 1), now_ms));
    assert!(!retention(&["failed=1d"]).lets_go(stands(Some(Succeeded), 0), now_ms));
}

#[test]
fn what_goes_on_and_what_is_unknown_is_kept() {
    let all = retention(&["0s"]);
    assert!(!all.lets_go(stands(None, 0), u64::MAX));
    assert!(!all.lets_go(Stands { has_unknown: true, ..stands(Some(Terminated), 0) }, u64::MAX));
    assert!(all.lets_go(stands(Some(Terminated), 0), 1));
}

#[test]
fn what_is_no_rule_is_refused() {
    for text in
        ["", "d", "30", "-1d", "+1d", "1.5d", "30 d", "running=1d", "=1d", "succeeded=", "1w", "300000000000d", "1é"]
    {
        assert!(text.parse::<Rule>().is_err(), "{text:?}");
    }
    for (text, ms) in [("90s", 90_000), ("15m", 900_000), ("12h", 43_200_000), ("30d", 30 * DAY_MS)] {
        let kept = retention(&[text]).ended_before_ms(Succeeded, 100 * DAY_MS);
        assert_eq!(kept, Some(100 * DAY_MS - ms), "{text}");
    }
}
