//! What is wrong with a configuration, and what would be right.

/// A configuration that cannot be built: which field, the value it has, and what is accepted there.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, quota::Quota};
///
/// let error = Limiter::<str>::builder(Quota::tokens_per(5, Duration::ZERO)).build().unwrap_err();
/// assert_eq!(error.field, "period");
/// assert_eq!(error.to_string(), "period is 0ns, accepted: 1 ns to about 584 years");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}, accepted: {accepted}")]
pub struct ConfigError {
    /// The field's name, as its builder or struct spells it.
    pub field: &'static str,
    /// The value that was given, as text.
    pub value: String,
    /// The accepted range, in words.
    pub accepted: String,
}

impl ConfigError {
    pub(crate) fn new(field: &'static str, value: impl ToString, accepted: impl Into<String>) -> Self {
        Self { field, value: value.to_string(), accepted: accepted.into() }
    }
}
