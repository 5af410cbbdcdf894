//! Single values: counts, spans and times, in the forms in which servers write them.

use super::Expected;
use jiff::{SignedDuration, Timestamp};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Numbers from here on are seconds since 1970, and no spans.
const FIRST_EPOCH_SECOND: u64 = 1_000_000_000;
/// Numbers from here on are milliseconds since 1970.
const FIRST_EPOCH_MILLI: u64 = 1_000_000_000_000;

/// `Retry-After`: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Result<Duration, Expected> {
    seconds(value).or_else(|| until(http_date(value)?, now)).ok_or(Expected::RetryAfter)
}

/// `retry-after-ms`.
pub(super) fn milliseconds(value: &str) -> Result<Duration, Expected> {
    decimal(value, 1_000_000).ok_or(Expected::Milliseconds)
}

/// A whole number.
pub(super) fn count(value: &str) -> Result<u64, Expected> {
    // No sign: the standard library would take a plus.
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| digits).ok_or(Expected::Count)
}

/// The time to a reset, in whichever form: see the module's table.
pub(super) fn reset(value: &str, now: SystemTime) -> Result<Duration, Expected> {
    numeric(value, now)
        .or_else(|| span(value))
        .or_else(|| until(timestamp(value)?, now))
        .or_else(|| until(http_date(value)?, now))
        .ok_or(Expected::Reset)
}

fn numeric(value: &str, now: SystemTime) -> Option<Duration> {
    let span = seconds(value)?;
    if span.as_secs() < FIRST_EPOCH_SECOND {
        return Some(span);
    }
    let in_seconds = span.as_secs() < FIRST_EPOCH_MILLI;
    let since_1970 = if in_seconds { span } else { decimal(value, 1_000_000)? };
    match UNIX_EPOCH.checked_add(since_1970) {
        Some(at) => until(at, now),
        // Later than the system can say.
        None => Some(Duration::MAX),
    }
}

/// Numbers with units.
fn span(value: &str) -> Option<Duration> {
    // Spans that servers write begin with a digit and are in lower case; jiff reads more than those.
    if !value.starts_with(|first: char| first.is_ascii_digit()) || value.contains("ago") {
        return None;
    }
    value.parse::<SignedDuration>().ok()?.try_into().ok()
}

/// RFC 3339. Times before 1970 are past, and how long is all the same.
fn timestamp(value: &str) -> Option<SystemTime> {
    let at: Timestamp = value.parse().ok()?;
    let since_1970 = u64::try_from(at.as_millisecond().max(0)).ok()?;
    let rest = u64::try_from(at.subsec_nanosecond().max(0)).ok()? % 1_000_000;
    UNIX_EPOCH.checked_add(Duration::from_millis(since_1970) + Duration::from_nanos(rest))
}

fn http_date(value: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(value).ok()
}

/// How long it is until then; nothing, if it is past.
fn until(at: SystemTime, now: SystemTime) -> Option<Duration> {
    Some(at.duration_since(now).unwrap_or_default())
}

fn seconds(value: &str) -> Option<Duration> {
    decimal(value, 1_000_000_000)
}

/// Digits with or without a fraction, in units of so many nanoseconds. Rounded up, and too much is as much as there is:
/// a wait must not become shorter than it was asked for.
fn decimal(value: &str, nanos_per_unit: u64) -> Option<Duration> {
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let all_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let unit = u128::from(nanos_per_unit);
    // Eighteen digits fit; of those after them it only matters whether they are all 0.
    let (digits, rest) = fraction.split_at(fraction.len().min(18));
    let scale = 10u128.pow(digits.len() as u32);
    let rest = u128::from(rest.bytes().any(|byte| byte != b'0'));
    let part = (digits.parse::<u128>().ok()? * unit + rest).div_ceil(scale);
    // All digits, so it can only be too large.
    let nanos = whole.parse::<u128>().ok().and_then(|whole| whole.checked_mul(unit)?.checked_add(part));
    let Some(nanos) = nanos else { return Some(Duration::MAX) };
    let seconds = u64::try_from(nanos / 1_000_000_000);
    Some(seconds.map_or(Duration::MAX, |seconds| Duration::new(seconds, (nanos % 1_000_000_000) as u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000)
    }

    #[test]
    fn decimals_are_read_exactly_rounded_up_and_never_wrap() {
        let nanos = |value| decimal(value, 1_000_000_000).map(|span| span.as_nanos());
        assert_eq!(nanos("0"), Some(0));
        assert_eq!(nanos("007"), Some(7_000_000_000));
        assert_eq!(nanos("1.5"), Some(1_500_000_000));
        assert_eq!(nanos("0.0000000001"), Some(1));
        assert_eq!(nanos("0.0000000010000000000000000001"), Some(2));
        assert_eq!(nanos("0.000000001000000000000000000000"), Some(1));
        for most in ["18446744073709551616", &"9".repeat(500)] {
            assert_eq!(decimal(most, 1_000_000_000), Some(Duration::MAX));
        }
        assert_eq!(decimal("18446744073709551615.1", 1_000_000_000).unwrap().as_secs(), u64::MAX);
        assert_eq!(decimal("250", 1_000_000), Some(Duration::from_millis(250)));
        for none in ["", ".", "1.", ".5", "-1", "+1", "1e3", "1,5", "0x10", "١", "1 2", "NaN", "inf"] {
            assert_eq!(nanos(none), None, "{none:?}");
        }
    }

    #[test]
    fn resets_are_told_apart_by_their_form_and_size() {
        let seconds = |value| reset(value, now()).map(|span| span.as_secs_f64());
        assert_eq!(seconds("0"), Ok(0.0));
        assert_eq!(seconds("59"), Ok(59.0));
        assert_eq!(seconds("999999999"), Ok(999_999_999.0));
        assert_eq!(seconds("1000000000"), Ok(0.0), "in 2001");
        assert_eq!(seconds("1700000030"), Ok(30.0));
        assert_eq!(seconds("1700000030.25"), Ok(30.25));
        assert_eq!(seconds("999999999999"), Ok(998_299_999_999.0));
        assert_eq!(seconds("1700000030500"), Ok(30.5));
        assert_eq!(seconds("1s"), Ok(1.0));
        assert_eq!(seconds("6m0s"), Ok(360.0));
        assert_eq!(seconds("20ms"), Ok(0.02));
        assert_eq!(seconds("1h2m3.5s"), Ok(3_723.5));
        assert_eq!(seconds("2023-11-14T22:14:20Z"), Ok(60.0));
        assert_eq!(seconds("2023-11-14T23:14:20.5+01:00"), Ok(60.5));
        assert_eq!(seconds("2001-01-01T00:00:00Z"), Ok(0.0));
        assert_eq!(seconds("Tue, 14 Nov 2023 22:14:20 GMT"), Ok(60.0));
        assert_eq!(reset(&"9".repeat(60), now()), Ok(Duration::MAX));
        for none in ["", "soon", "-5s", "1 hour ago", "2023-11-14T22:14:20", "1d", "s", "1x", "P1D"] {
            assert_eq!(reset(none, now()), Err(Expected::Reset), "{none:?}");
        }
    }

    #[test]
    fn counts_are_whole_numbers_and_nothing_else() {
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for none in ["", "-1", "+1", "1.0", "18446744073709551616", "1 000"] {
            assert_eq!(count(none), Err(Expected::Count), "{none:?}");
        }
    }

    #[test]
    fn seconds_to_wait_are_never_taken_for_a_time() {
        assert_eq!(retry_after("1700000030", now()), Ok(Duration::from_secs(1_700_000_030)));
    }
}
