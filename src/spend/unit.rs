//! The unit of money: a currency, and how many decimal places of it one unit is.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The most decimal places.
pub const MOST_DECIMALS: u8 = 12;

/// What amounts of money are counted in: a millionth of a dollar unless the policy says otherwise.
///
/// ```
/// use tollgate::spend::MoneyUnit;
///
/// let micro = MoneyUnit::new("USD", 6);
/// assert_eq!(micro.parse("0.50"), Ok(500_000));
/// assert_eq!(micro.show(1_250_000), "1.25");
/// assert_eq!(micro.to_string(), "USD/6");
/// assert!(micro.parse("0.0000001").is_err(), "finer than the unit");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoneyUnit {
    currency: String,
    decimals: u8,
}

impl Default for MoneyUnit {
    /// Micro-dollars.
    fn default() -> Self {
        Self::new("USD", 6)
    }
}

/// A text that is no amount of a unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoneyError {
    /// Not a decimal number.
    #[error("{0:?} is no amount of money, accepted: digits and at most one point, such as \"0.50\"")]
    NotANumber(String),
    /// Finer than the unit.
    #[error("{text:?} is finer than what is counted, accepted: at most {decimals} decimal places")]
    TooFine {
        /// The text.
        text: String,
        /// As many as there may be.
        decimals: u8,
    },
    /// More than can be counted.
    #[error("{0:?} is more than can be counted, accepted: at most 2^64 - 1 units")]
    TooLarge(String),
}

impl MoneyUnit {
    /// `currency` with so many decimal places.
    pub fn new(currency: impl Into<String>, decimals: u8) -> Self {
        Self { currency: currency.into(), decimals }
    }

    /// The currency, as in `USD`.
    pub fn currency(&self) -> &str {
        &self.currency
    }

    /// How many decimal places of the currency are counted.
    pub fn decimals(&self) -> u8 {
        self.decimals
    }

    /// The units in a decimal amount of the currency, exactly.
    ///
    /// # Errors
    /// Anything else than digits with at most one point, too many places, too much.
    pub fn parse(&self, text: &str) -> Result<u64, MoneyError> {
        let refused = || MoneyError::NotANumber(text.to_owned());
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let dangling = text.contains('.') && fraction.is_empty();
        if whole.is_empty() || dangling || !digits(whole) || !digits(fraction) {
            return Err(refused());
        }
        let significant = fraction.trim_end_matches('0');
        let places = usize::from(self.decimals);
        if significant.len() > places {
            return Err(MoneyError::TooFine { text: text.to_owned(), decimals: self.decimals });
        }
        let number = format!("{whole}{significant:0<places$}");
        number.parse().map_err(|_| MoneyError::TooLarge(text.to_owned()))
    }

    /// `amount` units in the currency, exactly: with two decimal places, or as many as it needs.
    pub fn show(&self, amount: u64) -> String {
        let places = usize::from(self.decimals);
        let digits = format!("{amount:0>width$}", width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let least = places.min(2);
        let needed = fraction.trim_end_matches('0').len().max(least);
        if needed == 0 { whole.to_owned() } else { format!("{whole}.{}", &fraction[..needed]) }
    }
}

impl fmt::Display for MoneyUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.currency, self.decimals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_read_exactly_or_not_at_all() {
        let micro = MoneyUnit::default();
        let cases = [
            ("0", 0),
            ("3", 3_000_000),
            ("3.00", 3_000_000),
            ("0.000001", 1),
            ("0.0000010", 1),
            ("007.5", 7_500_000),
        ];
        for (text, units) in cases {
            assert_eq!(micro.parse(text), Ok(units), "{text}");
        }
        for text in ["", ".", ".5", "5.", "-1", "+1", "1e3", "1,5", "1.2.3", " 1", "0x1", "\u{661}"] {
            assert!(matches!(micro.parse(text), Err(MoneyError::NotANumber(_))), "{text}");
        }
        assert!(matches!(micro.parse("0.0000001"), Err(MoneyError::TooFine { .. })));
        assert!(matches!(micro.parse("99999999999999999999"), Err(MoneyError::TooLarge(_))));
    }

    #[test]
    fn amounts_are_shown_with_two_places_or_as_many_as_they_need() {
        let cases =
            [(0, "0.00"), (1, "0.000001"), (500_000, "0.50"), (1_230_000, "1.23"), (1_234_500, "1.2345")];
        for (amount, text) in cases {
            assert_eq!(MoneyUnit::default().show(amount), text);
        }
        assert_eq!(MoneyUnit::new("JPY", 0).show(120), "120");
        assert_eq!(MoneyUnit::new("USD", 1).show(125), "12.5");
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back(amount: u64, decimals in 0..=MOST_DECIMALS) {
            let unit = MoneyUnit::new("USD", decimals);
            prop_assert_eq!(unit.parse(&unit.show(amount)), Ok(amount));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", decimals in 0..=MOST_DECIMALS) {
            let _ = MoneyUnit::new("USD", decimals).parse(&text);
        }
    }
}
