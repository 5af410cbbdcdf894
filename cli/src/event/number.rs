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

/// Up to here every whole number is a floating-point number of its own, so `2e3` can be taken at its word.
const EXACT: f64 = 9_007_199_254_740_992.0;

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
    match text.parse::<f64>() {
        Ok(value) if value.fract() == 0.0 && (0.0..EXACT).contains(&value) => Whole::Is(value as u64),
        _ => Whole::Bad,
    }
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
