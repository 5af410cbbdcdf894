//! Durations as people write them: `500us`, `60s`, `1h30m`.
//!
//! ```
//! use tollgate::duration;
//! assert_eq!(duration::parse("1h30m"), Some(5_400_000_000_000));
//! assert_eq!(duration::parse("30m1h"), None);
//! assert_eq!(duration::show(5_400_000_000_000), "1h30m");
//! ```

/// The units, largest first, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("w", 604_800_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// What [`parse`] accepts, for error messages.
pub const ACCEPTED: &str = "a whole number and a unit (ns, us, ms, s, m, h, d, w), such as \"500us\", \"60s\" or \"1h30m\", up to 584 years";

/// Nanoseconds of `text`, or `None` when it is not a duration or too long for 64 bits.
///
/// Several parts add up; each must have a smaller unit than the one before, so `1h30m` is a duration and
/// `30m1h` a slip.
pub fn parse(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total: u64 = 0;
    let mut smallest = None;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (count, tail) = rest.split_at(digits);
        let letters = tail.len() - tail.trim_start_matches(char::is_alphabetic).len();
        let (unit, tail) = tail.split_at(letters);
        let unit = match unit {
            "\u{b5}s" | "\u{3bc}s" => "us", // both code points that print as a micro sign
            unit => unit,
        };
        let place = UNITS.iter().position(|&(name, _)| name == unit)?;
        if smallest.is_some_and(|previous| place <= previous) {
            return None;
        }
        smallest = Some(place);
        let part = count.parse::<u64>().ok()?.checked_mul(UNITS[place].1)?;
        total = total.checked_add(part)?;
        rest = tail.trim_start();
    }
    smallest.map(|_| total)
}

/// `nanos` as a person would say it, exactly, with the largest units that are not zero.
pub fn show(nanos: u64) -> String {
    if nanos == 0 {
        return "0s".into();
    }
    let mut rest = nanos;
    let mut text = String::new();
    for (unit, size) in UNITS.into_iter().filter(|&(unit, _)| unit != "w") {
        if rest >= size {
            text.push_str(&format!("{}{unit}", rest / size));
            rest %= size;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_forms_of_the_documentation_are_durations() {
        let cases = [
            ("0s", 0),
            ("1ns", 1),
            ("500us", 500_000),
            ("500\u{b5}s", 500_000),
            ("100ms", 100_000_000),
            ("60s", 60_000_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h 30m", 5_400_000_000_000),
            ("30d", 2_592_000_000_000_000),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text), Some(nanos), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            " ",
            "60",
            "s",
            "-1s",
            "1.5s",
            "1 s",
            "1month",
            "30m1h",
            "1s1s",
            "600000000d",
            "9".repeat(30).as_str(),
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_longest_duration_is_the_last_nanosecond_of_64_bits() {
        assert_eq!(parse("18446744073709551615ns"), Some(u64::MAX));
        assert_eq!(parse("18446744073709551616ns"), None);
        assert_eq!(parse("18446744073s709551616ns"), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_as_the_same_duration(nanos: u64) {
            prop_assert_eq!(parse(&show(nanos)), Some(nanos));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = parse(&text);
        }
    }
}
