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

/// Below this every whole number is a floating-point number of its own, so whoever wrote `2e3` had no other in mind.
const EXACT: u64 = 1 << 53;

/// Reads digits, and also a number with a point or exponent whose value is whole and exact (`5.0`, `2e3`).
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
    let numeric = |byte: u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if !text.bytes().all(numeric) || !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return Whole::Bad;
    }
    // The parser says whether it is a number; its digits say which. A double would do for neither: it takes
    // 0.99999999999999999999 for 1.
    if text.parse::<f64>().is_err() {
        return Whole::Bad;
    }
    exact(text).filter(|&number| number < EXACT).map_or(Whole::Bad, Whole::Is)
}

/// The value of a number in decimal notation, if it is whole, not negative, and below 10^18.
fn exact(text: &str) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let (negative, whole) = match whole.strip_prefix('-') {
        Some(whole) => (true, whole),
        None => (false, whole.strip_prefix('+').unwrap_or(whole)),
    };
    let fraction = fraction.trim_end_matches('0');
    let all = || whole.bytes().chain(fraction.bytes());
    let Some(leading) = all().position(|digit| digit != b'0') else { return Some(0) };
    if negative {
        return None;
    }
    let trailing = all().rev().position(|digit| digit != b'0')?;
    let significant = whole.len() + fraction.len() - leading - trailing;
    // The significant digits, read as a whole number, times ten to this.
    let places = power_of_ten(exponent)?.checked_add(trailing as i64)?.checked_sub(fraction.len() as i64)?;
    let places = usize::try_from(places).ok()?;
    if significant.checked_add(places)? > 18 {
        return None;
    }
    let digits = all().skip(leading).take(significant).chain(std::iter::repeat_n(b'0', places));
    Some(digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

/// An exponent; nothing is 0. `None` for one that is out of all proportion.
fn power_of_ten(exponent: &str) -> Option<i64> {
    if exponent.is_empty() { Some(0) } else { exponent.parse().ok() }
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
            "", "-1", "-0", "+5", "1.5", "-2.0", "1e-3", "1e400", "nan", "inf", "five", "5 ", "0x10",
            "1_000", ".",
        ] {
            assert_eq!(whole(text), Whole::Bad, "{text:?}");
        }
    }

    #[test]
    fn a_whole_value_in_floating_notation_is_taken_where_it_is_exact() {
        assert_eq!(whole("21895.0"), Whole::Is(21_895));
        assert_eq!(whole("2e3"), Whole::Is(2_000));
        assert_eq!(whole("9007199254740991.0"), Whole::Is(9_007_199_254_740_991));
        assert_eq!(whole("9007199254740993.0"), Whole::Bad);
        assert_eq!(whole("1200.00e-2"), Whole::Is(12));
        assert_eq!(whole("0.0012e+4"), Whole::Is(12));
        assert_eq!(whole("-0.0"), Whole::Is(0));
        assert_eq!(whole("0e99999999999999999999"), Whole::Is(0));
    }

    #[test]
    fn what_rounds_to_a_whole_number_is_not_one() {
        let nearly = ["0.99999999999999999999", "9007199254740991.4", "4.9e-324", "1e-400", "9999e-40098"];
        for text in nearly {
            assert_eq!(whole(text), Whole::Bad, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_number_reads_back(number: u64) {
            prop_assert_eq!(whole(&number.to_string()), Whole::Is(number));
        }

        #[test]
        fn digits_agree_with_the_standard_parser(text in "[0-9]{0,25}") {
            prop_assert_eq!(digits(text.as_bytes()), text.parse().ok());
        }
    }
}
