//! Allowed hours: when an effect may be emitted, in the civil time of a place.

use super::rule::OnExhausted;
use jiff::civil::{Date, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use std::fmt;

/// The hours of a day, on some days of the week, in a time zone, in which an effect may be emitted.
///
/// From the first minute to before the last. Where the last is not after the first, the hours go on to the next day, and
/// belong to the day on which they began; equal ones are 24 hours. Daylight-saving changes are honoured: hours that begin
/// in a gap begin when it ends, and hours that begin at a time which comes twice begin at the first of the two.
///
/// ```
/// use tollgate::effect::{AllowedHours, Day, OnExhausted};
///
/// let office = AllowedHours::new("09:00", "17:30", "Europe/Berlin")?
///     .on([Day::Monday, Day::Tuesday, Day::Wednesday, Day::Thursday, Day::Friday])
///     .outside(OnExhausted::Defer);
/// let night = AllowedHours::new("22:00", "06:00", "UTC")?;
///
/// let second = 1_000_000_000;
/// let midday = 1_750_672_800 * second; // Monday, 2025-06-23, 12:00 in Berlin
/// assert_eq!(office.next_open(midday), Some(midday));
/// let evening = midday + 8 * 3_600 * second;
/// assert_eq!(office.next_open(evening), Some(evening + 13 * 3_600 * second));
/// assert_eq!(night.to_string(), "22:00-06:00 UTC mon,tue,wed,thu,fri,sat,sun");
/// assert!(AllowedHours::new("9 o'clock", "17:00", "UTC").is_err());
/// # Ok::<(), tollgate::effect::HoursError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedHours {
    from: Time,
    to: Time,
    /// Monday first.
    days: [bool; 7],
    zone: TimeZone,
    zone_name: String,
    outside: OnExhausted,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the days of the week")]
pub enum Day {
    Monday,
    Tuesday,
    Wednesday,
    Thursday,
    Friday,
    Saturday,
    Sunday,
}

/// As policy files spell the days, Monday first.
const DAYS: [(&str, Day); 7] = [
    ("mon", Day::Monday),
    ("tue", Day::Tuesday),
    ("wed", Day::Wednesday),
    ("thu", Day::Thursday),
    ("fri", Day::Friday),
    ("sat", Day::Saturday),
    ("sun", Day::Sunday),
];

/// Allowed hours that cannot be built.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HoursError {
    /// Not a time of day.
    #[error("{0:?} is not a time of day, accepted: hours and minutes from \"00:00\" to \"23:59\"")]
    Time(String),
    /// Not a time zone.
    #[error(
        "{0:?} is not a known time zone, accepted: a name of the IANA database such as \"Europe/Berlin\", or \"UTC\""
    )]
    Zone(String),
    /// Not a day.
    #[error("{0:?} is not a day, accepted: mon, tue, wed, thu, fri, sat, sun")]
    Day(String),
    /// No day at all.
    #[error("no day is allowed, accepted: at least one of mon, tue, wed, thu, fri, sat, sun")]
    NoDay,
}

impl std::str::FromStr for Day {
    type Err = HoursError;
    fn from_str(word: &str) -> Result<Self, HoursError> {
        let known = DAYS.iter().find(|(name, _)| *name == word);
        known.map(|&(_, day)| day).ok_or_else(|| HoursError::Day(word.to_owned()))
    }
}

impl AllowedHours {
    /// Every day from `from` to `to` (as `09:00`) in the time zone of that name.
    ///
    /// # Errors
    /// A text that is not a time of day, or a zone that is not known.
    pub fn new(from: &str, to: &str, zone: &str) -> Result<Self, HoursError> {
        let known = TimeZone::get(zone).map_err(|_| HoursError::Zone(zone.to_owned()))?;
        Ok(Self {
            from: time_of_day(from)?,
            to: time_of_day(to)?,
            days: [true; 7],
            zone: known,
            zone_name: zone.to_owned(),
            outside: OnExhausted::Block,
        })
    }

    /// Keeps only these days. Without any, an [`Effects`](super::Effects) cannot be built from the rule.
    #[must_use]
    pub fn on(mut self, days: impl IntoIterator<Item = Day>) -> Self {
        self.days = [false; 7];
        for day in days {
            self.days[day as usize] = true;
        }
        self
    }

    /// Sets what becomes of a call outside these hours: [`OnExhausted::Block`], if not set.
    #[must_use]
    pub fn outside(mut self, answer: OnExhausted) -> Self {
        self.outside = answer;
        self
    }

    /// What becomes of a call outside these hours.
    pub fn when_outside(&self) -> OnExhausted {
        self.outside
    }

    /// Is no day allowed?
    pub fn never_opens(&self) -> bool {
        !self.days.contains(&true)
    }

    /// The first nanosecond at or after `at` that lies within the hours. Both count from the start of 1970. `None` where
    /// there is none within the years that a calendar has.
    pub fn next_open(&self, at: u64) -> Option<u64> {
        let now = Timestamp::from_nanosecond(i128::from(at)).ok()?;
        // The hours of the day before may reach into today; a week later every day has come by, and a day more covers
        // hours that a change of the clock moved.
        let first = self.zone.to_datetime(now).date().yesterday().ok()?;
        let mut date = first;
        for _ in 0..10 {
            if let Some((opens, closes)) = self.span(date) {
                if now < closes {
                    return u64::try_from(opens.max(now).as_nanosecond()).ok();
                }
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// Does `at`, nanoseconds from the start of 1970, lie within the hours?
    pub fn is_open(&self, at: u64) -> bool {
        self.next_open(at) == Some(at)
    }

    /// The hours that begin on `date`.
    fn span(&self, date: Date) -> Option<(Timestamp, Timestamp)> {
        if !self.days[weekday(date.weekday())] {
            return None;
        }
        let last = if self.to > self.from { date } else { date.checked_add(1.day()).ok()? };
        let instant = |date: Date, time: Time| self.zone.to_timestamp(date.to_datetime(time)).ok();
        let (opens, closes) = (instant(date, self.from)?, instant(last, self.to)?);
        // Both ends can fall into one gap.
        (opens < closes).then_some((opens, closes))
    }
}

impl fmt::Display for AllowedHours {
    /// The hours in one canonical text; what becomes of a call outside them is not part of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days: Vec<&str> =
            DAYS.iter().filter(|(_, day)| self.days[*day as usize]).map(|(name, _)| *name).collect();
        let clock = |time: Time| format!("{:02}:{:02}", time.hour(), time.minute());
        write!(f, "{}-{} {} {}", clock(self.from), clock(self.to), self.zone_name, days.join(","))
    }
}

fn weekday(day: Weekday) -> usize {
    // 0 to 6.
    day.to_monday_zero_offset() as usize
}

fn time_of_day(text: &str) -> Result<Time, HoursError> {
    let wrong = || HoursError::Time(text.to_owned());
    let (hours, minutes) = text.split_once(':').ok_or_else(wrong)?;
    let two_digits = |part: &str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !two_digits(hours) || !two_digits(minutes) {
        return Err(wrong());
    }
    let number = |part: &str| part.parse::<i8>().map_err(|_| wrong());
    Time::new(number(hours)?, number(minutes)?, 0, 0).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3_600 * SECOND;

    fn at(text: &str) -> u64 {
        u64::try_from(text.parse::<Timestamp>().unwrap().as_nanosecond()).unwrap()
    }

    #[test]
    fn hours_open_at_their_first_minute_and_close_before_their_last() {
        let hours = AllowedHours::new("09:00", "17:00", "UTC").unwrap();
        assert_eq!(hours.next_open(at("2025-06-23T08:59:59Z")), Some(at("2025-06-23T09:00:00Z")));
        assert!(hours.is_open(at("2025-06-23T09:00:00Z")));
        assert!(hours.is_open(at("2025-06-23T17:00:00Z") - 1));
        assert_eq!(hours.next_open(at("2025-06-23T17:00:00Z")), Some(at("2025-06-24T09:00:00Z")));
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_on_which_they_began() {
        let hours = AllowedHours::new("22:00", "06:00", "UTC").unwrap().on([Day::Friday]);
        // 2025-06-27 is a Friday.
        assert!(hours.is_open(at("2025-06-27T22:00:00Z")));
        assert!(hours.is_open(at("2025-06-28T05:59:59Z")));
        assert!(!hours.is_open(at("2025-06-27T05:00:00Z")));
        assert_eq!(hours.next_open(at("2025-06-28T06:00:00Z")), Some(at("2025-07-04T22:00:00Z")));
    }

    #[test]
    fn a_day_of_a_clock_change_keeps_civil_time() {
        let hours = AllowedHours::new("09:00", "10:00", "Europe/Berlin").unwrap();
        // Clocks went forward on 2025-03-30 at 01:00 UTC, and back on 2025-10-26 at 01:00 UTC.
        assert_eq!(hours.next_open(at("2025-03-29T12:00:00Z")), Some(at("2025-03-30T07:00:00Z")));
        assert_eq!(hours.next_open(at("2025-10-25T12:00:00Z")), Some(at("2025-10-26T08:00:00Z")));
    }

    #[test]
    fn hours_that_begin_in_a_gap_begin_when_it_ends() {
        let hours = AllowedHours::new("02:30", "04:00", "Europe/Berlin").unwrap();
        // 02:00 to 03:00 does not exist that day; 02:30 read as if the clock had not changed is 03:30.
        assert_eq!(hours.next_open(at("2025-03-30T00:00:00Z")), Some(at("2025-03-30T01:30:00Z")));
    }

    #[test]
    fn equal_ends_are_a_whole_day() {
        let hours = AllowedHours::new("00:00", "00:00", "UTC").unwrap().on([Day::Sunday]);
        assert_eq!(hours.next_open(at("2025-06-23T00:00:00Z")), Some(at("2025-06-29T00:00:00Z")));
        assert_eq!(hours.next_open(at("2025-06-30T00:00:00Z") - 1), Some(at("2025-06-30T00:00:00Z") - 1));
    }

    #[test]
    fn no_day_never_opens() {
        let hours = AllowedHours::new("09:00", "17:00", "UTC").unwrap().on([]);
        assert!(hours.never_opens());
        assert_eq!(hours.next_open(0), None);
    }

    #[test]
    fn what_is_no_time_of_day_is_refused_by_name() {
        for text in ["9:00", "09:0", "24:00", "09:60", "0900", "", "09:00:00", "-1:00", "+9:00"] {
            let error = AllowedHours::new(text, "17:00", "UTC").unwrap_err();
            assert_eq!(error, HoursError::Time(text.to_owned()));
        }
        assert!(matches!(AllowedHours::new("09:00", "17:00", "Mars/Olympus"), Err(HoursError::Zone(_))));
    }

    proptest! {
        #[test]
        fn what_opens_next_is_open_and_nothing_before_it_is(
            start in 0u64..4_000_000_000, from in 0u32..1440, to in 0u32..1440, mask in 1u8..128,
            zone in prop::sample::select(vec!["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
        ) {
            let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
            let days = DAYS.iter().enumerate().filter(|(i, _)| mask >> i & 1 == 1).map(|(_, &(_, day))| day);
            let hours = AllowedHours::new(&clock(from), &clock(to), zone).unwrap().on(days);
            let start = start * SECOND;
            let opens = hours.next_open(start).unwrap();
            prop_assert!(opens >= start && opens - start <= 8 * 24 * HOUR);
            prop_assert!(hours.is_open(opens));
            for step in 0..16 {
                let between = start + (opens - start) / 16 * step;
                prop_assert!(between == opens || !hours.is_open(between));
            }
        }
    }
}
