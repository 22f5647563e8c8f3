//! What a schedule does when times of it have come: tables, and what holds for any times at all.

use proptest::prelude::*;
use stepwell_core::policy::schedule::{Come, Decision, ON_TIME_MS, Overlap, decide};

fn come(latest_ms: &[u64], earlier: u64) -> Come {
    Come { latest_ms: latest_ms.to_vec(), earlier }
}

fn fire(at_ms: u64, missed: u64) -> Decision {
    Decision::Fire { at_ms, missed }
}

#[test]
pub(crate) fn on_time_it_fires_and_what_was_missed_is_made_up_for_up_to_the_limit() {
    let of = |latest: &[u64], earlier, catch_up| decide(&come(latest, earlier), 15, catch_up, Overlap::Skip, false);
    assert_eq!(of(&[], 0, 1), Decision::Rest);
    assert_eq!(of(&[15], 0, 1), fire(15, 0));
    // Of 10 to 15 the last one, the last three, all.
    let all = [10, 11, 12, 13, 14, 15];
    assert_eq!((of(&[15], 5, 1), of(&[13, 14, 15], 3, 3), of(&all, 0, 100)), (fire(15, 5), fire(13, 3), fire(10, 0)));
    // More than was asked for is no more than what is made up for.
    assert_eq!(of(&all, 7, 2), fire(14, 11));
}

#[test]
pub(crate) fn where_nothing_is_made_up_for_a_time_may_be_a_minute_late() {
    let late = |late_ms| decide(&come(&[500], 4), 500 + late_ms, 0, Overlap::Allow, false);
    assert_eq!(late(ON_TIME_MS), fire(500, 4));
    assert_eq!(late(ON_TIME_MS + 1), Decision::Pass { through_ms: 500, missed: 5, overlapped: 0 });
}

#[test]
pub(crate) fn with_an_open_run_it_passes_over_waits_or_fires_as_it_is_told() {
    let open = |overlap| decide(&come(&[10, 11], 3), 12, 2, overlap, true);
    assert_eq!(open(Overlap::Skip), Decision::Pass { through_ms: 11, missed: 3, overlapped: 2 });
    assert_eq!((open(Overlap::Queue), open(Overlap::Allow)), (Decision::Wait, fire(10, 3)));
}

fn overlaps() -> impl Strategy<Value = Overlap> {
    prop_oneof![Just(Overlap::Skip), Just(Overlap::Queue), Just(Overlap::Allow)]
}

proptest! {
    /// However often it is asked, and whatever its runs do meanwhile: times are dealt with in order, each once, and each is fired or
    /// counted; and no more are fired than are made up for.
    #[test]
    fn each_time_that_has_come_is_fired_once_or_counted(
        gaps in prop::collection::vec(1_u64..100_000, 0..40),
        catch_up in 0_u32..12,
        overlap in overlaps(),
        open in prop::collection::vec(any::<bool>(), 200),
    ) {
        let mut times: Vec<u64> = Vec::new();
        gaps.iter().for_each(|gap| times.push(times.last().copied().unwrap_or(0) + gap));
        let all = times.len() as u64;
        let now_ms = times.last().copied().unwrap_or(0);
        let (mut fired, mut counted, mut last) = (0, 0, 0);
        for open in open.iter().copied().chain([false]) {
            let keep = times.len().min(catch_up.max(1) as usize);
            let earlier = times.len() - keep;
            let decision = decide(&come(&times[earlier..], earlier as u64), now_ms, catch_up, overlap, open);
            let through = match decision {
                Decision::Rest => { prop_assert!(times.is_empty()); break }
                Decision::Wait => { prop_assert!(open && overlap == Overlap::Queue); continue }
                Decision::Fire { at_ms, missed } => {
                    prop_assert!(!open || overlap == Overlap::Allow);
                    prop_assert!(at_ms > last && times.contains(&at_ms));
                    fired += 1;
                    counted += missed;
                    at_ms
                }
                Decision::Pass { through_ms, missed, overlapped } => {
                    prop_assert!(overlapped == 0 || open && overlap == Overlap::Skip);
                    counted += missed + overlapped;
                    through_ms
                }
            };
            last = through;
            times.retain(|at| *at > through);
        }
        prop_assert!(times.is_empty() || overlap == Overlap::Queue || times.len() as u64 + fired + counted == all);
        prop_assert_eq!(fired + counted + times.len() as u64, all);
        prop_assert!(fired <= u64::from(catch_up.max(1)));
    }
}
