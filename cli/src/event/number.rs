//! Whole numbers of 64 bits, from text.

/// A field read as a whole number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// The field is not there.
    Absent,
    /// Negative, fractional, above 64 bits, or no number at all.
    Bad,
    Is(u64),
}

/// Reads digits, and also a number with a point or exponent whose value is whole (`5.0`, `2e3`). A sign is refused
/// even before 0.
#[inline]
pub fn whole(text: &str) -> Whole {
    match digits(text.as_bytes()) {
        Some(number) => Whole::Is(number),
        None => other_notation(text),
    }
}

/// A number of decimal digits only, up to `u64::MAX`.
#[inline]
pub fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut number: u64 = 0;
    // 19 digits always fit.
    let (sure, rest) = text.split_at(text.len().min(19));
    for &byte in sure {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    for &byte in rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
}

#[cold]
fn other_notation(text: &str) -> Whole {
    scientific(text).map_or(Whole::Bad, Whole::Is)
}

/// `digits[.digits][e[+-]digits]`, digit by digit: floating point would round a small fraction away.
fn scientific(text: &str) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa = [whole, fraction].concat();
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(&mantissa) || !is_number(power) {
        return None;
    }
    let significant = mantissa.trim_end_matches('0');
    if significant.is_empty() {
        return Some(0); // whatever the exponent
    }
    // Zeros at the end count for the exponent, digits behind the point against it. Where that leaves it below 0
    // there is a fraction; where it does not fit, the number does not either.
    let zeros = i64::try_from(mantissa.len() - significant.len()).ok()?;
    let behind = i64::try_from(fraction.len()).ok()?;
    let exponent = exponent.parse::<i64>().ok()?.checked_add(zeros)?.checked_sub(behind)?;
    let scale = 10u64.checked_pow(u32::try_from(exponent).ok()?)?;
    digits(significant.as_bytes())?.checked_mul(scale)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_whole_range_of_64_bits_is_read() {
        assert_eq!(whole("0"), Whole::Is(0));
        assert_eq!(whole("007"), Whole::Is(7));
        assert_eq!(whole("18446744073709551615"), Whole::Is(u64::MAX));
        assert_eq!(whole("18446744073709551616"), Whole::Bad);
        assert_eq!(whole("99999999999999999999999"), Whole::Bad);
    }

    #[test]
    fn negative_fractional_and_other_text_is_refused() {
        for text in [
            "", "-1", "-0", "-0.0", "+5", "1.5", "-2.0", "1e-3", "1e400", "nan", "inf", "five", "5 ", "0x10",
            "1_000", ".", "e5", ".e5", "1e", "1e+", "1e+-2", "1.2.3", "1e2e3", "1e1.0",
        ] {
            assert_eq!(whole(text), Whole::Bad, "{text:?}");
        }
    }

    #[test]
    fn a_whole_value_in_floating_notation_is_taken_at_its_word() {
        let cases = [
            ("21895.0", 21_895),
            ("2e3", 2_000),
            ("2E+3", 2_000),
            ("1.5e1", 15),
            ("2500e-2", 25),
            (".5e1", 5),
            ("5.", 5),
            ("0.0", 0),
            ("0e999999999999999999999", 0),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("1e19", 10_000_000_000_000_000_000),
            ("18446744073709551615.000", u64::MAX),
            ("1.8446744073709551615e19", u64::MAX),
        ];
        for (text, number) in cases {
            assert_eq!(whole(text), Whole::Is(number), "{text}");
        }
    }

    #[test]
    fn a_fraction_too_small_for_floating_point_is_still_one() {
        for text in [
            "0.99999999999999999999",
            "1.0000000000000000000001",
            "1e-400",
            "9007199254740993.00000000000000001",
            "18446744073709551616.0",
            "1e20",
            "1e99999999999999999999",
            "1e-99999999999999999999",
        ] {
            assert_eq!(whole(text), Whole::Bad, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_number_reads_back(number: u64) {
            prop_assert_eq!(whole(&number.to_string()), Whole::Is(number));
        }

        #[test]
        fn the_point_may_stand_anywhere(number: u64, zeros in 0usize..30, places in 0usize..50) {
            // number * 10^zeros, its point moved left by `places`, and the exponent that moves it back.
            let digits = format!("{number:0>60}{}", "0".repeat(zeros));
            let (before, after) = digits.split_at(digits.len() - places);
            let exponent = places as i64 - zeros as i64;
            prop_assert_eq!(whole(&format!("{before}.{after}e{exponent}")), Whole::Is(number));
        }

        #[test]
        fn a_digit_behind_the_point_is_a_fraction(number: u64, zeros in 0usize..60, digit in 1u8..10) {
            prop_assert_eq!(whole(&format!("{number}.{}{digit}", "0".repeat(zeros))), Whole::Bad);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9.eE+-]{0,40}") {
            let _ = whole(&text);
        }

        #[test]
        fn digits_agree_with_the_standard_parser(text in "[0-9]{0,25}") {
            prop_assert_eq!(digits(text.as_bytes()), text.parse().ok());
        }
    }
}
