//! Dates and times as nanoseconds since 1970-01-01 UTC, fully checked.

const NANOS: i128 = 1_000_000_000;

/// What [`timestamp`] accepts, for error messages.
pub const TIMESTAMP: &str = "a date and time from 1970 to 2554, RFC 3339 (2023-11-16T18:15:46.68Z) or `YYYY-MM-DD HH:MM:SS.fffffff`, which is UTC";
/// What [`log_time`] accepts, for error messages.
pub const LOG_TIME: &str = "a log's time such as [17/May/2015:10:05:03 +0000]";

/// Reads RFC 3339 and `YYYY-MM-DD HH:MM:SS[.fraction]`. Without an offset the time is UTC. Digits of the
/// fraction past the ninth are below a nanosecond and dropped.
pub fn timestamp(text: &[u8]) -> Option<u64> {
    let mut at = Cursor { rest: text };
    let year = at.number(4)?;
    at.expect(b'-')?;
    let month = at.number(2)?;
    at.expect(b'-')?;
    let day = at.number(2)?;
    let separator = at.next()?;
    if !matches!(separator, b' ' | b'T' | b't') {
        return None;
    }
    let clock = at.clock()?;
    let nanos = at.fraction()?;
    let offset = if at.rest.is_empty() { 0 } else { at.offset()? };
    if !at.rest.is_empty() {
        return None;
    }
    assemble((year, month, day), clock, nanos, offset)
}

/// Reads `17/May/2015:10:05:03 +0000`, the time of a web server's log line.
pub fn log_time(text: &[u8]) -> Option<u64> {
    const MONTHS: [&[u8; 3]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let mut at = Cursor { rest: text };
    let day = at.number(2)?;
    at.expect(b'/')?;
    let (name, rest) = at.rest.split_at_checked(3)?;
    at.rest = rest;
    let month = 1 + MONTHS.iter().position(|month| month.as_slice() == name)?;
    at.expect(b'/')?;
    let year = at.number(4)?;
    at.expect(b':')?;
    let clock = at.clock()?;
    at.expect(b' ')?;
    let sign = at.next()?;
    let (hours, minutes) = (at.number(2)?, at.number(2)?);
    if !at.rest.is_empty() {
        return None;
    }
    let offset = signed(sign, hours, minutes)?;
    assemble((year, u32::try_from(month).ok()?, day), clock, 0, offset)
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    #[inline]
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    #[inline]
    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Exactly `width` digits.
    #[inline]
    fn number(&mut self, width: usize) -> Option<u32> {
        let (digits, rest) = self.rest.split_at_checked(width)?;
        self.rest = rest;
        digits.iter().try_fold(0, |number, byte| {
            let digit = byte.wrapping_sub(b'0');
            (digit <= 9).then(|| number * 10 + u32::from(digit))
        })
    }

    /// `HH:MM:SS`; a second of 60 is checked later, against UTC.
    #[inline]
    fn clock(&mut self) -> Option<(u32, u32, u32)> {
        let hour = self.number(2)?;
        self.expect(b':')?;
        let minute = self.number(2)?;
        self.expect(b':')?;
        let second = self.number(2)?;
        (hour <= 23 && minute <= 59 && second <= 60).then_some((hour, minute, second))
    }

    /// An optional fraction of a second, in nanoseconds.
    #[inline]
    fn fraction(&mut self) -> Option<u32> {
        if self.rest.first() != Some(&b'.') {
            return Some(0);
        }
        self.rest = &self.rest[1..];
        let width = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if width == 0 {
            return None;
        }
        let mut nanos = 0;
        for place in 0..9 {
            let digit = if place < width { self.rest[place] - b'0' } else { 0 };
            nanos = nanos * 10 + u32::from(digit);
        }
        self.rest = &self.rest[width..];
        Some(nanos)
    }

    /// `Z` or `+HH:MM`, in minutes east of UTC.
    #[inline]
    fn offset(&mut self) -> Option<i32> {
        match self.next()? {
            b'Z' | b'z' => Some(0),
            sign => {
                let hours = self.number(2)?;
                self.expect(b':')?;
                signed(sign, hours, self.number(2)?)
            }
        }
    }
}

fn signed(sign: u8, hours: u32, minutes: u32) -> Option<i32> {
    if hours > 23 || minutes > 59 {
        return None;
    }
    let total = i32::try_from(hours * 60 + minutes).ok()?;
    match sign {
        b'+' => Some(total),
        b'-' => Some(-total),
        _ => None,
    }
}

#[inline]
fn assemble(
    (year, month, day): (u32, u32, u32),
    (hour, minute, second): (u32, u32, u32),
    nanos: u32,
    offset: i32,
) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_in_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day == 0 || day > days_in_month {
        return None;
    }
    let minutes = days_before(year, month, day) * 1_440 + i64::from(hour * 60 + minute) - i64::from(offset);
    // A leap second ends a day of UTC; it counts as the first second of the next day.
    if second == 60 && minutes.rem_euclid(1_440) != 1_439 {
        return None;
    }
    let seconds = i128::from(minutes) * 60 + i128::from(second);
    u64::try_from(seconds * NANOS + i128::from(nanos)).ok()
}

/// Days from 1970-01-01 to a date of the Gregorian calendar.
#[inline]
fn days_before(year: u32, month: u32, day: u32) -> i64 {
    // Years that begin in March put the leap day last, so that months have a fixed pattern of lengths.
    let (year, month) =
        if month <= 2 { (i64::from(year) - 1, month + 9) } else { (i64::from(year), month - 3) };
    let day_of_year = i64::from((153 * month + 2) / 5 + day - 1);
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    const TO_1970: i64 = 719_468; // from 0000-03-01
    365 * year + leap_days + day_of_year - TO_1970
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn known_instants_are_read() {
        let cases = [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01 00:00:01", S),
            ("2000-02-29T23:59:59Z", 951_868_799 * S),
            ("2023-11-16 18:15:46.6805900", 1_700_158_546 * S + 680_590_000),
            ("2023-11-16T19:15:46.68059+01:00", 1_700_158_546 * S + 680_590_000),
            ("2023-11-16t13:15:46.680590000123-05:00", 1_700_158_546 * S + 680_590_000),
            ("2023-11-16T18:15:46", 1_700_158_546 * S),
            ("2038-01-19 03:14:08Z", 2_147_483_648 * S),
            ("2016-12-31T23:59:60Z", 1_483_228_800 * S),
            ("2016-12-31T15:59:60.5-08:00", 1_483_228_800 * S + S / 2),
            ("2554-07-21T23:34:33.709551615Z", u64::MAX),
        ];
        for (text, nanos) in cases {
            assert_eq!(timestamp(text.as_bytes()), Some(nanos), "{text}");
        }
    }

    #[test]
    fn impossible_and_malformed_times_are_refused() {
        let cases = [
            "",
            "yesterday",
            "2023-11-16",
            "2023-13-01T00:00:00Z",
            "2023-00-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2023-04-31T00:00:00Z",
            "2023-01-00T00:00:00Z",
            "2023-01-01T24:00:00Z",
            "2023-01-01T00:60:00Z",
            "2023-01-01T00:00:60Z",
            "2023-01-01T00:00:61Z",
            "2023-01-01T00:00:00.Z",
            "2023-01-01T00:00:00+24:00",
            "2023-01-01T00:00:00+0100",
            "2023-01-01T00:00:00 Z",
            "2023-01-01_00:00:00Z",
            "1969-12-31T23:59:59Z",
            "1970-01-01T00:00:00+00:01",
            "2554-07-21T23:34:33.709551616Z",
            "9999-12-31T00:00:00Z",
            "2023-1-01T00:00:00Z",
            "+023-01-01T00:00:00Z",
        ];
        for text in cases {
            assert_eq!(timestamp(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn log_times_are_read() {
        assert_eq!(log_time(b"17/May/2015:10:05:03 +0000"), Some(1_431_857_103 * S));
        assert_eq!(log_time(b"17/May/2015:12:05:03 +0200"), Some(1_431_857_103 * S));
        assert_eq!(log_time(b"17/May/2015:05:35:03 -0430"), Some(1_431_857_103 * S));
        for text in [
            "17/May/2015:10:05:03",
            "31/Feb/2015:10:05:03 +0000",
            "17/may/2015:10:05:03 +0000",
            "17/May/2015:10:05:03 *0000",
            "",
        ] {
            assert_eq!(log_time(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn successive_days_are_one_day_apart(day in 0u32..200_000) {
            // The calendar, walked a day at a time by its own rules, agrees with the closed form.
            let (y, m, d) = date(day);
            prop_assert_eq!(days_before(y, m, d), i64::from(day));
        }

        #[test]
        fn no_bytes_make_a_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (timestamp(&text), log_time(&text));
        }

        #[test]
        fn a_changed_digit_never_panics(at in 0usize..27, byte: u8) {
            let mut text = *b"2023-11-16T18:15:46.680590Z";
            text[at] = byte;
            let _ = timestamp(&text);
        }
    }

    /// The date `days` days after 1970-01-01, by counting years and months.
    fn date(mut days: u32) -> (u32, u32, u32) {
        let leap =
            |year: u32| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let mut year = 1970;
        while days >= 365 + u32::from(leap(year)) {
            days -= 365 + u32::from(leap(year));
            year += 1;
        }
        let lengths = [31, 28 + u32::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while days >= lengths[month] {
            days -= lengths[month];
            month += 1;
        }
        (year, month as u32 + 1, days + 1)
    }
}
