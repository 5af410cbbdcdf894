//! Windows: over which time a limit adds up.
//!
//! | window | slots | counts at a time |
//! |---|---|---|
//! | lifetime | one | everything ever |
//! | rolling | 60ths of its length, on a grid from 1970 | the current slot and the 60 before it |
//! | fixed | lengths, on a grid from its anchor | the current slot |
//! | calendar | days, weeks or months of a place | the current slot |
//!
//! What is used at an instant belongs to the slot in which it lies. A rolling window so counts what was used for its whole
//! length, and for at most a 60th longer: it errs to refuse.

use super::record::Millis;
use crate::duration;
use jiff::civil::{Date, date};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How many slots a rolling window has, besides the current one.
pub const SLOTS: u32 = 60;
/// The shortest rolling window: its slots, of a second, are numbered until the year 2106.
pub const SHORTEST_ROLLING: Millis = 60_000;
/// The shortest fixed window, for the same reason.
pub const SHORTEST_FIXED: Millis = 1_000;
/// The longest window: a hundred years.
pub const LONGEST: Millis = 36_525 * 86_400_000;
/// As late as calendars are reckoned: the year 9998.
const LATEST: Millis = 253_370_764_800_000;

/// Over which time a limit adds up. Times are Unix milliseconds.
///
/// ```
/// use std::time::Duration;
/// use tollgate::spend::Window;
///
/// let hour = Window::rolling(Duration::from_secs(3_600))?;
/// assert_eq!(hour.to_string(), "rolling 1h");
/// assert_eq!("calendar day in Europe/Berlin".parse::<Window>()?, Window::day("Europe/Berlin")?);
/// assert!(Window::day("Europe/Atlantis").is_err());
/// # Ok::<(), tollgate::spend::WindowError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[non_exhaustive]
pub enum Window {
    /// Everything ever.
    Lifetime,
    /// The time just past.
    Rolling(Rolling),
    /// Lengths of time, one after the other.
    Fixed(Fixed),
    /// Days, weeks or months of a place.
    Calendar(Calendar),
}

/// The time just past: see [`Window::rolling`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rolling {
    /// A 60th of its length.
    slot: Millis,
}

/// Lengths of time from an anchor: see [`Window::fixed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    length: Millis,
    anchor: Millis,
}

/// Days, weeks or months of a place: see [`Window::day`]. Each begins at its first midnight there, or where that does not
/// exist at the first instant after it, so they have the lengths that daylight saving gives them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calendar {
    period: Period,
    zone: TimeZone,
    zone_name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Day,
    Week,
    Month,
}

/// A window that cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// A length of a rolling window.
    #[error(
        "{0} ms is no length of a rolling window, accepted: 1m to 36525d, in steps of 60 ms, so that its 60ths are whole milliseconds"
    )]
    Rolling(u128),
    /// A length of a fixed window.
    #[error("{0} ms is no length of a fixed window, accepted: 1s to 36525d, in whole milliseconds")]
    Fixed(u128),
    /// Not a time zone.
    #[error(
        "{0:?} is not a known time zone, accepted: a name of the IANA database such as \"Europe/Berlin\", or \"UTC\""
    )]
    Zone(String),
    /// Not a window.
    #[error("{0:?} is no window, accepted: {ACCEPTED}")]
    Text(String),
}

/// The forms of windows, for messages.
pub const ACCEPTED: &str = "\"lifetime\", \"rolling 1h\", \"fixed 1d from 2026-01-01T00:00:00Z\", \"calendar day in Europe/Berlin\" (or week, month)";

impl Window {
    /// The time just past, of this length: 1 minute to 100 years, a multiple of 60 ms.
    ///
    /// # Errors
    /// Another length.
    pub fn rolling(length: Duration) -> Result<Self, WindowError> {
        let millis = length.as_millis();
        let whole = length.subsec_nanos() % 1_000_000 == 0 && millis % u128::from(SLOTS) == 0;
        match Millis::try_from(millis) {
            Ok(length) if whole && (SHORTEST_ROLLING..=LONGEST).contains(&length) => {
                Ok(Window::Rolling(Rolling { slot: length / Millis::from(SLOTS) }))
            }
            _ => Err(WindowError::Rolling(millis)),
        }
    }

    /// Lengths of time one after the other, one of which begins at `anchor`: 1 second to 100 years, in whole milliseconds.
    ///
    /// # Errors
    /// Another length.
    pub fn fixed(length: Duration, anchor: Millis) -> Result<Self, WindowError> {
        let millis = length.as_millis();
        match Millis::try_from(millis) {
            Ok(length_)
                if length.subsec_nanos() % 1_000_000 == 0
                    && (SHORTEST_FIXED..=LONGEST).contains(&length_) =>
            {
                Ok(Window::Fixed(Fixed { length: length_, anchor }))
            }
            _ => Err(WindowError::Fixed(millis)),
        }
    }

    /// Days in the time zone of that name.
    ///
    /// # Errors
    /// A zone that is not known.
    pub fn day(zone: &str) -> Result<Self, WindowError> {
        Self::calendar(Period::Day, zone)
    }

    /// Weeks from Monday in the time zone of that name.
    ///
    /// # Errors
    /// A zone that is not known.
    pub fn week(zone: &str) -> Result<Self, WindowError> {
        Self::calendar(Period::Week, zone)
    }

    /// Months in the time zone of that name.
    ///
    /// # Errors
    /// A zone that is not known.
    pub fn month(zone: &str) -> Result<Self, WindowError> {
        Self::calendar(Period::Month, zone)
    }

    fn calendar(period: Period, zone: &str) -> Result<Self, WindowError> {
        let known = TimeZone::get(zone).map_err(|_| WindowError::Zone(zone.to_owned()))?;
        Ok(Window::Calendar(Calendar { period, zone: known, zone_name: zone.to_owned() }))
    }

    /// The slot in which `at` lies. A later time never lies in an earlier slot.
    pub fn slot(&self, at: Millis) -> u32 {
        let whole = |slot: Millis| u32::try_from(slot).unwrap_or(u32::MAX);
        match self {
            Window::Lifetime => 0,
            Window::Rolling(Rolling { slot }) => whole(at / slot),
            Window::Fixed(fixed) => whole(at.saturating_add(fixed.before_1970()) / fixed.length),
            Window::Calendar(calendar) => calendar.slot(at),
        }
    }

    /// The first instant of a slot, or the time's beginning.
    pub fn starts(&self, slot: u32) -> Millis {
        let slots = Millis::from(slot);
        match self {
            Window::Lifetime => 0,
            Window::Rolling(Rolling { slot }) => slots.saturating_mul(*slot),
            Window::Fixed(fixed) => slots.saturating_mul(fixed.length).saturating_sub(fixed.before_1970()),
            Window::Calendar(calendar) => calendar.starts(slot),
        }
    }

    /// The first instant at which what was used in `slot` counts no more; `None` for never.
    pub fn lapses(&self, slot: u32) -> Option<Millis> {
        match self {
            Window::Lifetime => None,
            _ => Some(self.starts(slot.saturating_add(self.reach()).saturating_add(1))),
        }
    }

    /// How many slots before the current one count too.
    pub fn reach(&self) -> u32 {
        match self {
            Window::Rolling(_) => SLOTS,
            _ => 0,
        }
    }
}

impl Fixed {
    /// How far before 1970 the slot begins in which that year begins.
    fn before_1970(&self) -> Millis {
        match self.anchor % self.length {
            0 => 0,
            into => self.length - into,
        }
    }
}

impl Calendar {
    /// Counted from 1 for the period in which 1970 begins; the end of 1969 in the west of it is 0.
    fn slot(&self, at: Millis) -> u32 {
        let at = at.min(LATEST);
        let day = self.zone.to_datetime(timestamp(at)).date();
        let mut slot = self.number(day);
        // Not by the date alone: where clocks are set back over midnight a date comes twice, and the first one counts.
        while self.starts(slot + 1) <= at {
            slot += 1;
        }
        slot
    }

    fn number(&self, day: Date) -> u32 {
        let days = day.duration_since(EPOCH).as_hours() / 24;
        let number = match self.period {
            Period::Day => days,
            Period::Week => (days + 3).div_euclid(7), // 1970 began on a Thursday
            Period::Month => (i64::from(day.year()) - 1970) * 12 + i64::from(day.month()) - 1,
        };
        u32::try_from(number + 1).unwrap_or(0)
    }

    fn starts(&self, slot: u32) -> Millis {
        let number = i64::from(slot) - 1;
        let first = match self.period {
            Period::Day => EPOCH.checked_add(SignedDuration::from_hours(number * 24)),
            Period::Week => EPOCH.checked_add(SignedDuration::from_hours((number * 7 - 3) * 24)),
            Period::Month => {
                let year = i16::try_from(1970 + number.div_euclid(12));
                let month = i8::try_from(number.rem_euclid(12) + 1);
                match (year, month) {
                    (Ok(year), Ok(month)) => Date::new(year, month, 1),
                    _ => return Millis::MAX,
                }
            }
        };
        match first.and_then(|day| self.midnight(day)) {
            Ok(start) => Millis::try_from(start.as_millisecond()).unwrap_or(0),
            Err(_) => Millis::MAX, // after the last day of calendars
        }
    }

    /// The first instant of a day.
    fn midnight(&self, day: Date) -> Result<Timestamp, jiff::Error> {
        let midnight = self.zone.to_ambiguous_timestamp(day.at(0, 0, 0, 0));
        let gap = matches!(midnight.offset(), AmbiguousOffset::Gap { .. });
        let midnight = midnight.compatible()?;
        // Where clocks are set forward over it, the day begins when they are.
        match self.zone.preceding(midnight.checked_add(Duration::from_nanos(1))?).next().filter(|_| gap) {
            Some(change) => Ok(change.timestamp()),
            None => Ok(midnight),
        }
    }
}

const EPOCH: Date = date(1970, 1, 1);

/// `at` must be [`LATEST`] or before.
fn timestamp(at: Millis) -> Timestamp {
    i64::try_from(at)
        .ok()
        .and_then(|at| Timestamp::from_millisecond(at).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// `at` as RFC 3339 has it, in UTC; the latest time of calendars for what is later.
pub fn show_time(at: Millis) -> String {
    timestamp(at.min(LATEST)).to_string()
}

/// The time that a text of RFC 3339 states, in whole milliseconds since 1970; `None` for anything else.
pub fn parse_time(text: &str) -> Option<Millis> {
    let time: Timestamp = text.parse().ok()?;
    Millis::try_from(time.as_millisecond()).ok().filter(|_| time.subsec_nanosecond() % 1_000_000 == 0)
}

fn show_length(millis: Millis) -> String {
    // A hundred years in nanoseconds fit.
    duration::show(millis.saturating_mul(1_000_000))
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Window::Lifetime => f.write_str("lifetime"),
            Window::Rolling(Rolling { slot }) => {
                write!(f, "rolling {}", show_length(slot * Millis::from(SLOTS)))
            }
            Window::Fixed(Fixed { length, anchor }) => {
                write!(f, "fixed {} from {}", show_length(*length), show_time(*anchor))
            }
            Window::Calendar(Calendar { period, zone_name, .. }) => {
                let period = match period {
                    Period::Day => "day",
                    Period::Week => "week",
                    Period::Month => "month",
                };
                write!(f, "calendar {period} in {zone_name}")
            }
        }
    }
}

impl FromStr for Window {
    type Err = WindowError;
    fn from_str(text: &str) -> Result<Self, WindowError> {
        let refused = || WindowError::Text(text.to_owned());
        let length = |word: &str| duration::parse(word).map(Duration::from_nanos).ok_or_else(refused);
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["lifetime"] => Ok(Window::Lifetime),
            ["rolling", word] => Self::rolling(length(word)?),
            ["fixed", word, "from", anchor] => {
                Self::fixed(length(word)?, parse_time(anchor).ok_or_else(refused)?)
            }
            ["calendar", "day", "in", zone] => Self::day(zone),
            ["calendar", "week", "in", zone] => Self::week(zone),
            ["calendar", "month", "in", zone] => Self::month(zone),
            _ => Err(refused()),
        }
    }
}

impl TryFrom<String> for Window {
    type Error = WindowError;
    fn try_from(text: String) -> Result<Self, WindowError> {
        text.parse()
    }
}

impl From<Window> for String {
    fn from(window: Window) -> String {
        window.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOUR: Millis = 3_600_000;

    fn at(text: &str) -> Millis {
        parse_time(text).expect("a time")
    }

    fn is_consistent(window: &Window, at: Millis) {
        let slot = window.slot(at);
        assert!(window.starts(slot) <= at, "{window}: slot {slot} of {at} begins at {}", window.starts(slot));
        let next = window.starts(slot + 1);
        assert!(at < next, "{window}: slot {} of {at} begins at {next}", slot + 1);
        assert_eq!(window.slot(window.starts(slot)), slot, "{window} at {at}");
        assert_eq!(window.slot(next - 1), slot, "{window} at {at}");
        assert!(window.slot(next) > slot, "{window} at {at}");
    }

    #[test]
    fn a_day_is_as_long_as_its_place_makes_it() {
        let cases = [
            ("Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", 23),
            ("Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", 25),
            ("America/New_York", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", 23),
            // Midnight does not exist: the day begins at one o'clock.
            ("America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", 23),
            ("Asia/Beirut", "2022-03-27T12:00:00Z", "2022-03-26T22:00:00Z", 23),
            ("UTC", "2026-06-01T12:00:00Z", "2026-06-01T00:00:00Z", 24),
        ];
        for (zone, noon, start, hours) in cases {
            let day = Window::day(zone).unwrap();
            let slot = day.slot(at(noon));
            assert_eq!(show_time(day.starts(slot)), start.replace("+00:00", "Z"), "{zone}");
            assert_eq!(day.lapses(slot).unwrap() - day.starts(slot), hours * HOUR, "{zone}");
            is_consistent(&day, at(noon));
        }
    }

    #[test]
    fn a_date_that_a_place_skipped_takes_no_time() {
        let day = Window::day("Pacific/Apia").unwrap();
        let before = day.slot(at("2011-12-30T09:59:59Z"));
        let after = day.slot(at("2011-12-30T10:00:00Z"));
        assert_eq!(after, before + 2, "the 30th was left out");
        assert_eq!(day.lapses(before), Some(at("2011-12-30T10:00:00Z")));
    }

    #[test]
    fn where_clocks_are_set_back_over_midnight_the_day_begins_once() {
        // At 00:01 on 2010-11-07 clocks in St. John's were set back to 23:01 of the 6th.
        let day = Window::day("America/St_Johns").unwrap();
        let midnight = at("2010-11-07T02:30:00Z");
        let slot = day.slot(midnight);
        assert_eq!(day.slot(midnight - 1), slot - 1);
        for minute in 0..120 {
            assert_eq!(day.slot(midnight + minute * 60_000), slot, "minute {minute}");
        }
    }

    #[test]
    fn weeks_begin_on_monday_and_months_on_their_first() {
        let week = Window::week("Europe/Berlin").unwrap();
        assert_eq!(show_time(week.starts(week.slot(at("2026-06-03T12:00:00Z")))), "2026-05-31T22:00:00Z");
        let month = Window::month("Europe/Berlin").unwrap();
        let slot = month.slot(at("2026-06-30T21:59:59Z"));
        assert_eq!(show_time(month.starts(slot)), "2026-05-31T22:00:00Z");
        assert_eq!(month.slot(at("2026-06-30T22:00:00Z")), slot + 1);
    }

    #[test]
    fn a_fixed_window_has_slots_before_its_anchor_too() {
        let window = Window::fixed(Duration::from_secs(3_600), at("2026-01-01T00:25:00Z")).unwrap();
        assert_eq!(show_time(window.starts(window.slot(at("2020-05-05T10:24:59Z")))), "2020-05-05T09:25:00Z");
        is_consistent(&window, at("2020-05-05T10:24:59Z"));
        is_consistent(&window, 0);
    }

    #[test]
    fn where_clocks_are_set_forward_over_midnight_the_day_begins_when_they_are() {
        // At midnight before 1972-01-07 clocks in Monrovia, 44 minutes and a half behind, were set forward to UTC.
        let day = Window::day("Africa/Monrovia").unwrap();
        for noon in ["1972-01-06T12:00:00Z", "1972-01-07T12:00:00Z", "1972-01-08T12:00:00Z"] {
            is_consistent(&day, at(noon));
        }
        assert_eq!(show_time(day.starts(day.slot(at("1972-01-07T12:00:00Z")))), "1972-01-07T00:44:30Z");
        // In Toronto in 1919 from 23:30 to 00:30: the next day began there.
        let zone = TimeZone::get("America/Toronto").unwrap();
        let calendar = Calendar { period: Period::Day, zone, zone_name: String::new() };
        assert_eq!(calendar.midnight(date(1919, 3, 31)).unwrap().to_string(), "1919-03-31T04:30:00Z");
    }

    #[test]
    fn lengths_that_cannot_be_counted_exactly_are_refused() {
        for millis in [0, 59_999, 59_940, 60_001, 60_059, LONGEST + 60] {
            assert!(Window::rolling(Duration::from_millis(millis)).is_err(), "{millis}");
        }
        for millis in [60_000, 60_060, LONGEST] {
            assert!(Window::rolling(Duration::from_millis(millis)).is_ok(), "{millis}");
        }
        assert!(Window::rolling(Duration::from_nanos(60_000_000_001)).is_err());
        assert!(Window::fixed(Duration::from_millis(999), 0).is_err());
        assert!(Window::fixed(Duration::from_nanos(1_000_000_001), 0).is_err());
        assert!(Window::fixed(Duration::from_millis(1_001), u64::MAX).is_ok());
    }

    #[test]
    fn a_window_reads_back_as_it_is_shown() {
        for text in [
            "lifetime",
            "rolling 1m",
            "rolling 1h30m",
            "rolling 36525d",
            "fixed 1d from 2026-01-01T00:00:00Z",
            "fixed 1s from 1970-01-01T00:00:00.001Z",
            "calendar day in Europe/Berlin",
            "calendar week in UTC",
            "calendar month in America/New_York",
        ] {
            let window: Window = text.parse().unwrap();
            assert_eq!(window.to_string(), text);
            let json = serde_json::to_string(&window).unwrap();
            assert_eq!(serde_json::from_str::<Window>(&json).unwrap(), window);
        }
        for text in [
            "",
            "lifetime ",
            "rolling",
            "rolling 1x",
            "rolling 30s",
            "fixed 1d",
            "calendar day",
            "calendar year in UTC",
            "calendar day in Mars",
        ] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }

    fn windows() -> impl Strategy<Value = Window> {
        let zones = [
            "UTC",
            "Europe/Berlin",
            "America/Sao_Paulo",
            "America/St_Johns",
            "Pacific/Apia",
            "Asia/Kathmandu",
            "Australia/Lord_Howe",
            "Africa/Casablanca",
            "Pacific/Kiritimati",
        ];
        let zone = proptest::sample::select(zones.to_vec());
        prop_oneof![
            (1_000..50_000_000_u64)
                .prop_map(|slot| Window::rolling(Duration::from_millis(slot * 60)).unwrap()),
            (1_000..10_000_000_000_u64, any::<u64>()).prop_map(|(length, anchor)| Window::fixed(
                Duration::from_millis(length),
                anchor
            )
            .unwrap()),
            (zone, 0..3_u8).prop_map(|(zone, period)| match period {
                0 => Window::day(zone).unwrap(),
                1 => Window::week(zone).unwrap(),
                _ => Window::month(zone).unwrap(),
            }),
        ]
    }

    proptest! {
        #[test]
        fn slots_are_half_open_and_in_order(window in windows(), at in 86_400_000 * 32..4_000_000_000_000_u64) {
            is_consistent(&window, at);
        }

        #[test]
        fn a_rolling_window_counts_for_its_length_and_at_most_a_60th_longer(
            slot in 1_000..50_000_000_u64, used in 0..4_000_000_000_000_u64, later in 0..200_000_000_u64
        ) {
            let length = slot * 60;
            let window = Window::rolling(Duration::from_millis(length)).unwrap();
            let now = used + later % (2 * length);
            let counts = window.slot(used) + SLOTS >= window.slot(now);
            prop_assert!(counts || now - used >= length);
            prop_assert!(!counts || now - used < length + slot);
            prop_assert_eq!(counts, now < window.lapses(window.slot(used)).unwrap());
        }

        #[test]
        fn no_time_makes_a_window_panic(window in windows(), at: u64, slot: u32) {
            let _ = (window.slot(at), window.starts(slot), window.lapses(slot));
        }
    }
}
