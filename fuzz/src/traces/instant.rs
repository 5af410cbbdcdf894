//! Dates and times, slowly: the calendar is walked year by year.

/// RFC 3339, or the same with a blank for the T and without an offset.
pub fn timestamp(text: &str) -> Option<u64> {
    let head = text.get(..19)?.as_bytes();
    let shape = head.iter().zip(b"dddd-dd-ddTdd:dd:dd").all(|(byte, kind)| match kind {
        b'd' => byte.is_ascii_digit(),
        b'T' => b"Tt ".contains(byte),
        _ => byte == kind,
    });
    if !shape {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect("digits");
    let (mut nanos, mut rest) = (0, &text[19..]);
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits: String = fraction.chars().take_while(char::is_ascii_digit).collect();
        if digits.is_empty() {
            return None;
        }
        rest = &fraction[digits.len()..];
        nanos = format!("{digits:0<9}")[..9].parse().expect("digits");
    }
    let offset = match rest {
        "" | "Z" | "z" => 0,
        _ => {
            let (hours, minutes) = rest.get(1..)?.split_once(':')?;
            offset(rest, hours, minutes)?
        }
    };
    let date = (number(0, 4), number(5, 7), number(8, 10));
    instant(date, (number(11, 13), number(14, 16), number(17, 19)), nanos, offset)
}

/// `17/May/2015:10:05:03 +0000`.
pub fn log_time(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let month = MONTHS.find(text.get(3..6)?).filter(|at| at % 3 == 0)? / 3 + 1;
    let same = format!("{}-{month:02}-{}T{}", text.get(7..11)?, text.get(..2)?, text.get(12..20)?);
    let marks = [(2, "/"), (6, "/"), (11, ":"), (20, " ")];
    if marks.iter().any(|&(at, mark)| text.get(at..at + 1) != Some(mark)) || text.len() != 26 {
        return None;
    }
    timestamp(&format!("{same}{}:{}", text.get(21..24)?, text.get(24..26)?))
}

fn offset(text: &str, hours: &str, minutes: &str) -> Option<i64> {
    let two_digits = |text: &str| {
        (text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| text.parse::<i64>().ok())?
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    if hours > 23 || minutes > 59 {
        return None;
    }
    match text.as_bytes()[0] {
        b'+' => Some(hours * 60 + minutes),
        b'-' => Some(-(hours * 60 + minutes)),
        _ => None,
    }
}

fn instant(
    (year, month, day): (i64, i64, i64),
    (hour, minute, second): (i64, i64, i64),
    nanos: i128,
    offset: i64,
) -> Option<u64> {
    let leap = |year: i64| year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let lengths = |year| [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let length = *lengths(year).get(usize::try_from(month - 1).ok()?)?;
    if day < 1 || day > length || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let days_of = |year| lengths(year).iter().sum::<i64>();
    let whole_years: i64 =
        if year >= 1970 { (1970..year).map(days_of).sum() } else { -(year..1970).map(days_of).sum::<i64>() };
    let whole_months: i64 = lengths(year).iter().take(usize::try_from(month - 1).ok()?).sum();
    let minutes = (whole_years + whole_months + day - 1) * 1_440 + hour * 60 + minute - offset;
    // Leap seconds are inserted at the end of a UTC day.
    if second == 60 && minutes.rem_euclid(1_440) != 1_439 {
        return None;
    }
    u64::try_from((i128::from(minutes) * 60 + i128::from(second)) * 1_000_000_000 + nanos).ok()
}
