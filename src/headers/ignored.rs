//! Headers that should have been understood and were not.

use std::fmt;

/// Characters of a value that are kept.
const MOST_KEPT: usize = 128;

/// A header that was not read, and what was expected of it.
///
/// ```
/// use std::time::SystemTime;
/// use tollgate::headers::{Expected, Hint};
///
/// let hint = Hint::from_headers([("Retry-After", "soon")], SystemTime::now());
/// assert_eq!(hint.retry_after, None);
/// assert_eq!(hint.ignored[0].expected, Expected::RetryAfter);
/// assert_eq!(hint.ignored[0].to_string(), r#"Retry-After "soon" ignored: not seconds or an HTTP date"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ignored {
    /// Its name, as the response spells it.
    pub name: String,
    /// Its value without surrounding blanks; the first 128 characters of it.
    pub value: String,
    /// What it should have been.
    pub expected: Expected,
}

/// What a header's value should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Expected {
    /// Whole or decimal seconds, or a date in one of the forms of RFC 9110.
    RetryAfter,
    /// Whole or decimal milliseconds.
    Milliseconds,
    /// A whole number from 0 to 2^64 - 1.
    Count,
    /// A time or a span in one of the forms that the [module](super) lists.
    Reset,
    /// A list of structured fields, with the parameters that the draft names.
    StructuredField,
    /// A response that names no more than 32 budgets.
    FewerBudgets,
}

impl Ignored {
    pub(super) fn new(name: &str, value: &str, expected: Expected) -> Self {
        let value = value.chars().take(MOST_KEPT).collect();
        Self { name: name.to_owned(), value, expected }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expected::RetryAfter => "not seconds or an HTTP date",
            Expected::Milliseconds => "not milliseconds",
            Expected::Count => "not a whole number",
            Expected::Reset => "neither a time nor a span",
            Expected::StructuredField => "not the structured field of the draft",
            Expected::FewerBudgets => "more budgets than a response may name",
        })
    }
}

impl fmt::Display for Ignored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} ignored: {}", self.name, self.value, self.expected)
    }
}
