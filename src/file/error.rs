//! What is wrong with a policy file.

use crate::ConfigError;
use crate::effect::HoursError;
use crate::spend::{MoneyError, SpendPolicyError, WindowError};
use std::fmt;

/// A policy file that is not accepted: where, what was found there, and what is accepted.
///
/// ```
/// use tollgate::effect::{EffectPolicy, file::Found};
///
/// let error = EffectPolicy::from_toml("[[effect]]\ntool = \"Search\"\nrate = \"100/fortnight\"\n").unwrap_err();
/// assert_eq!((error.line, error.place.as_str()), (3, "effect \"Search\": rate"));
/// assert_eq!(error.found, Found::Value("\"100/fortnight\"".into()));
/// assert!(error.to_string().starts_with("line 3: effect \"Search\": rate is \"100/fortnight\", accepted: "));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFileError {
    /// The line, counted from 1.
    pub line: usize,
    /// The key, with what it belongs to; empty for the file as a whole.
    pub place: String,
    /// What is there.
    pub found: Found,
    /// What is accepted there, in words; empty for what is no TOML.
    pub accepted: String,
}

/// What was found in the place of something acceptable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found {
    /// No TOML: what its parser says.
    NotToml(String),
    /// A key that means nothing here.
    UnknownKey {
        /// The known key that it resembles.
        meant: Option<String>,
    },
    /// Nothing, where something is required.
    Missing,
    /// A value, as it stands in the file (shortened if it is long).
    Value(String),
    /// Values that do not go together, in words that follow the place.
    Words(String),
    /// Hours that cannot be.
    Hours(HoursError),
    /// A quota that cannot be counted.
    Quota(ConfigError),
    /// An amount of money that cannot be.
    Money(MoneyError),
    /// A window that cannot be.
    Window(Box<WindowError>),
    /// Budgets that make no sense.
    Spend(Box<SpendPolicyError>),
}

impl PolicyFileError {
    /// The text without the line, for who writes `file:line:` before it.
    pub fn what(&self) -> String {
        let Self { place, accepted, .. } = self;
        match &self.found {
            Found::NotToml(message) => format!("not valid TOML: {message}"),
            Found::UnknownKey { meant } => {
                let hint = meant.as_ref().map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
                format!("unknown key `{place}`: {hint}accepted: {accepted}")
            }
            Found::Missing => format!("{place} is missing, accepted: {accepted}"),
            Found::Value(value) => format!("{place} is {value}, accepted: {accepted}"),
            Found::Words(words) if place.is_empty() => format!("{words}, accepted: {accepted}"),
            Found::Words(words) => format!("{place} {words}, accepted: {accepted}"),
            // These say themselves what is accepted.
            Found::Hours(error) => format!("{place}: {error}"),
            Found::Quota(error) => format!("{place}: {error}"),
            Found::Money(error) => format!("{place}: {error}"),
            Found::Window(error) => format!("{place}: {error}"),
            Found::Spend(error) => format!("{place}: {error}"),
        }
    }
}

impl fmt::Display for PolicyFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what())
    }
}

impl std::error::Error for PolicyFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.found {
            Found::Hours(error) => Some(error),
            Found::Quota(error) => Some(error),
            Found::Money(error) => Some(error),
            Found::Window(error) => Some(error.as_ref()),
            Found::Spend(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}
