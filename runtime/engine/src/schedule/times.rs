//! When a schedule fires: a cron expression on the clocks of a time zone, as instants. Pure.
//!
//! Where clocks are put forward or back it depends on whether the expression names hours. One that does (`30 2 * * *`) fires once for
//! each time of day: at the end of the gap where its time does not exist, and at the first where it comes twice. One that does not
//! (`*/15 * * * *`) follows time as it passes: it fires whenever the clocks show such a time, twice where they do, and not where they
//! do not.

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, CronPattern};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};
use stepwell_core::policy::schedule::Come;

/// Times are counted so far, and no further.
pub(super) const MAX_COUNTED: u64 = 10_000;

/// A cron expression in a time zone.
#[derive(Debug, Clone)]
pub struct Timetable {
    cron: Cron,
    zone: TimeZone,
    /// It fires in every hour of a day.
    hourly: bool,
}

impl Timetable {
    /// `cron` has five fields, or six with seconds before them; `zone` is a name of the time zone database, `Europe/Berlin`.
    ///
    /// # Errors
    /// What is wrong with one of them, in words.
    pub fn new(cron: &str, zone: &str) -> Result<Self, String> {
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed).build();
        let parsed = parser.parse(cron).map_err(|error| format!("cron {cron:?}: {error}"))?;
        let zone = TimeZone::get(zone).map_err(|error| format!("timeZone {zone:?}: {error}"))?;
        let hourly = names_no_hours(&parsed.pattern);
        Ok(Self { cron: parsed, zone, hourly })
    }

    /// The first time after this one, both in ms since the Unix epoch. None where there is none, as on 30 February.
    #[must_use]
    pub fn after(&self, after_ms: u64) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(after_ms).ok()?).ok()?;
        let at = if self.hourly { self.as_time_passes(after) } else { self.once_a_day(after) };
        u64::try_from(at?.as_millisecond()).ok()
    }

    /// Between two changes of the clocks local times follow one another like instants, so each such stretch is looked at by itself.
    fn as_time_passes(&self, after: Timestamp) -> Option<Timestamp> {
        // The first instant of a stretch is one of its times; the one that was given is not.
        let (mut from, mut inclusive) = (after, false);
        loop {
            let offset = self.zone.to_offset(from);
            let local = self.cron.find_next_occurrence(&offset.to_datetime(from), inclusive).ok()?;
            let at = offset.to_timestamp(local).ok()?;
            match self.zone.following(from).next() {
                Some(change) if change.timestamp() <= at => (from, inclusive) = (change.timestamp(), true),
                _ => return Some(at),
            }
        }
    }

    fn once_a_day(&self, after: Timestamp) -> Option<Timestamp> {
        // No earlier local time leads to a later instant than this one does.
        let mut local = self.zone.to_datetime(after);
        loop {
            local = self.cron.find_next_occurrence(&local, false).ok()?;
            let at = self.first_of(local)?;
            // A local time that comes twice may lie before it, by its first coming.
            if at > after {
                return Some(at);
            }
        }
    }

    /// When a local time comes for the first time; one that does not, at the end of the gap.
    fn first_of(&self, local: DateTime) -> Option<Timestamp> {
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(local).ok(),
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(local).ok(),
            AmbiguousOffset::Gap { before, .. } => {
                let beyond = before.to_timestamp(local).ok()?.checked_add(1.nanosecond()).ok()?;
                self.zone.preceding(beyond).next().map(|transition| transition.timestamp())
            }
        }
    }

    /// The times from one to another, both included: at most so many of the latest, and one at least.
    #[must_use]
    pub fn come(&self, from_ms: u64, to_ms: u64, at_most: u32) -> Come {
        let latest_ms = self.last(from_ms, to_ms, at_most.max(1) as usize);
        let earlier = match latest_ms.first() {
            Some(first) if *first > from_ms => self.count(from_ms, first - 1),
            _ => 0,
        };
        Come { latest_ms, earlier }
    }

    /// The last time from one to another, both included.
    #[must_use]
    pub fn latest(&self, from_ms: u64, to_ms: u64) -> Option<u64> {
        self.last(from_ms, to_ms, 1).pop()
    }

    /// How many times there are from one to another, both included; the first [`MAX_COUNTED`] are counted.
    #[must_use]
    pub fn count(&self, from_ms: u64, to_ms: u64) -> u64 {
        self.between(from_ms, to_ms).take(MAX_COUNTED as usize).count() as u64
    }

    fn last(&self, from_ms: u64, to_ms: u64, at_most: usize) -> Vec<u64> {
        // Looked for from ever further back, so that a long rest of a schedule with many times costs no more than a short one.
        let mut back_ms = 60_000_u64;
        loop {
            let begin_ms = from_ms.max(to_ms.saturating_sub(back_ms));
            let mut found: Vec<u64> = self.between(begin_ms, to_ms).collect();
            if found.len() >= at_most || begin_ms == from_ms {
                return found.split_off(found.len().saturating_sub(at_most));
            }
            back_ms = back_ms.saturating_mul(2);
        }
    }

    fn between(&self, from_ms: u64, to_ms: u64) -> impl Iterator<Item = u64> {
        let first = self.after(from_ms.saturating_sub(1));
        std::iter::successors(first, move |at_ms| self.after(*at_ms)).take_while(move |at_ms| *at_ms <= to_ms)
    }
}

fn names_no_hours(pattern: &CronPattern) -> bool {
    (0..24).all(|hour| pattern.hour_match(hour).is_ok_and(|matches| matches))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> u64 {
        let at: Timestamp = text.parse().expect("a time");
        u64::try_from(at.as_millisecond()).expect("after 1970")
    }

    fn following(cron: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
        let times = Timetable::new(cron, zone).expect("a timetable");
        let mut at_ms = ms(after);
        let next = || {
            at_ms = times.after(at_ms)?;
            Some(Timestamp::from_millisecond(i64::try_from(at_ms).ok()?).ok()?.to_string())
        };
        std::iter::from_fn(next).take(n).collect()
    }

    #[test]
    fn a_time_that_does_not_exist_fires_once_at_the_end_of_the_gap() {
        // 29 March 2026, 02:00 to 03:00 in Berlin.
        assert_eq!(
            following("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00:00Z", 3),
            ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
        );
        // Several in one gap are one, and so is what fires at its end anyway.
        assert_eq!(
            following("*/15 2,3 * * *", "Europe/Berlin", "2026-03-29T00:59:00Z", 3),
            ["2026-03-29T01:00:00Z", "2026-03-29T01:15:00Z", "2026-03-29T01:30:00Z"]
        );
        assert_eq!(following("0 2 * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", 1), ["2026-03-29T01:00:00Z"]);
        // Half an hour on Lord Howe Island, 4 October 2026; a whole day in Samoa, 30 December 2011.
        assert_eq!(following("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", 1), ["2026-10-03T15:30:00Z"]);
        assert_eq!(following("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z", 1), ["2011-12-30T10:00:00Z"]);
    }

    #[test]
    fn a_time_that_comes_twice_fires_once_at_the_first() {
        // 25 October 2026, 03:00 to 02:00 in Berlin.
        assert_eq!(
            following("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        // From within the second hour: the times in that have been.
        assert_eq!(following("*/30 1-4 * * *", "Europe/Berlin", "2026-10-25T01:20:00Z", 1), ["2026-10-25T02:00:00Z"]);
        assert_eq!(following("30 1 * * *", "America/New_York", "2026-11-01T05:31:00Z", 1), ["2026-11-02T06:30:00Z"]);
    }

    #[test]
    fn one_that_names_no_hours_follows_time_as_it_passes() {
        for cron in ["*/30 * * * *", "*/30 0-23 * * *", "0 */30 * * * *"] {
            assert_eq!(
                following(cron, "Europe/Berlin", "2026-10-25T00:20:00Z", 5),
                [
                    "2026-10-25T00:30:00Z",
                    "2026-10-25T01:00:00Z",
                    "2026-10-25T01:30:00Z",
                    "2026-10-25T02:00:00Z",
                    "2026-10-25T02:30:00Z"
                ],
                "{cron}"
            );
        }
        // Half past two does not come on that day, and is not made up for: half past one and half past three are an hour apart.
        assert_eq!(
            following("@hourly", "Europe/Berlin", "2026-03-29T00:30:00Z", 2),
            ["2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"]
        );
        assert_eq!(
            following("30 * * * *", "Europe/Berlin", "2026-03-29T00:29:00Z", 2),
            ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z"]
        );
        // Clocks that are put back by half an hour show half past one twice within it.
        assert_eq!(
            following("45 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00:00Z", 3),
            ["2026-04-04T14:45:00Z", "2026-04-04T15:15:00Z", "2026-04-04T16:15:00Z"]
        );
    }

    #[test]
    fn times_follow_the_zone_and_the_calendar() {
        let utc = |cron, after| following(cron, "UTC", after, 2);
        assert_eq!(utc("0 9 * * MON", "2026-11-30T09:00:00Z"), ["2026-12-07T09:00:00Z", "2026-12-14T09:00:00Z"]);
        assert_eq!(utc("0 0 29 2 *", "2026-11-30T00:00:00Z"), ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]);
        assert_eq!(utc("0 0 L * *", "2027-02-01T00:00:00Z"), ["2027-02-28T00:00:00Z", "2027-03-31T00:00:00Z"]);
        assert_eq!(utc("*/20 * * * * *", "2026-11-30T00:00:00.5Z"), ["2026-11-30T00:00:20Z", "2026-11-30T00:00:40Z"]);
        assert_eq!(utc("@daily", "2026-11-30T00:00:00Z"), ["2026-12-01T00:00:00Z", "2026-12-02T00:00:00Z"]);
        assert_eq!(following("0 9 * * *", "Asia/Kolkata", "2026-11-30T00:00:00Z", 1), ["2026-11-30T03:30:00Z"]);
        for never in ["0 0 30 2 *", "* * 30 2 *"] {
            assert!(following(never, "UTC", "2026-11-30T00:00:00Z", 1).is_empty());
        }
        for (cron, zone) in [
            ("* * *", "UTC"),
            ("61 * * * *", "UTC"),
            ("", "UTC"),
            ("* * * * * * 2027", "UTC"),
            ("* * * * *", "Mars/Olympus"),
            ("* * * * *", ""),
        ] {
            assert!(Timetable::new(cron, zone).is_err(), "{cron} {zone}");
        }
    }

    #[test]
    fn the_last_times_are_found_however_long_it_was() {
        let (from, to) = (ms("2026-01-01T00:00:00Z"), ms("2026-11-30T12:00:00.7Z"));
        let every_second = Timetable::new("* * * * * *", "Europe/Berlin").expect("a timetable");
        let last = |n: u64| ms("2026-11-30T12:00:00Z") - n * 1_000;
        let of_late = |from, at_most| every_second.come(from, to, at_most);
        assert_eq!(of_late(from, 3), Come { latest_ms: vec![last(2), last(1), last(0)], earlier: MAX_COUNTED });
        assert_eq!(of_late(last(6), 3), Come { latest_ms: vec![last(2), last(1), last(0)], earlier: 4 });
        assert_eq!(of_late(last(1), 3), Come { latest_ms: vec![last(1), last(0)], earlier: 0 });
        assert_eq!(of_late(last(1), 0), Come { latest_ms: vec![last(0)], earlier: 1 });
        assert_eq!(of_late(from, 1_000).latest_ms.len(), 1_000);
        assert_eq!(every_second.count(last(4), to), 5);
        let yearly = Timetable::new("0 0 1 1 *", "UTC").expect("a timetable");
        assert_eq!(yearly.come(ms("2020-06-01T00:00:00Z"), to, 2).latest_ms, [ms("2025-01-01T00:00:00Z"), from]);
        assert_eq!(yearly.come(from + 1, to, 2), Come::default());
    }

    /// The same, found by looking at the clocks of every minute.
    fn by_looking(times: &Timetable, from_ms: u64, minutes: u64) -> Vec<u64> {
        let shows = |at_ms: u64| {
            let at = Timestamp::from_millisecond(i64::try_from(at_ms).expect("a time")).expect("a time");
            times.cron.is_time_matching(&times.zone.to_datetime(at)).expect("it is in range")
        };
        (0..minutes).map(|minute| from_ms + minute * 60_000).filter(|at_ms| shows(*at_ms)).collect()
    }

    #[test]
    fn what_follows_time_fires_whenever_the_clocks_show_it() {
        for (zone, from) in [
            ("Europe/Berlin", "2026-03-28T00:00:00Z"),
            ("Europe/Berlin", "2026-10-24T00:00:00Z"),
            ("Australia/Lord_Howe", "2026-04-04T00:00:00Z"),
            ("Australia/Lord_Howe", "2026-10-03T00:00:00Z"),
            ("Pacific/Apia", "2011-12-29T00:00:00Z"),
            ("UTC", "2026-01-01T00:00:00Z"),
        ] {
            let times = Timetable::new("*/7 * * * *", zone).expect("a timetable");
            let (from_ms, minutes) = (ms(from), 3 * 1_440);
            let found: Vec<u64> = times.between(from_ms, from_ms + (minutes - 1) * 60_000).collect();
            assert_eq!(found, by_looking(&times, from_ms, minutes), "{zone} {from}");
        }
    }

    #[test]
    fn no_time_is_before_the_one_that_it_follows() {
        for zone in ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"] {
            for cron in ["*/17 * * * *", "*/17 0-22 * * *"] {
                let times = Timetable::new(cron, zone).expect("a timetable");
                let mut at_ms = ms("2025-12-31T00:00:00Z");
                for _ in 0..40_000 {
                    let next_ms = times.after(at_ms).expect("there is always another");
                    assert!(next_ms > at_ms && next_ms - at_ms <= 3 * 3_600_000, "{zone}: {at_ms} {next_ms}");
                    assert_eq!(times.after(next_ms - 1), Some(next_ms), "{zone}: it is found from wherever one looks");
                    at_ms = next_ms;
                }
            }
        }
    }
}
