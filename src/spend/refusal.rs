//! Answers: what was decided, and by which limit.

use super::amount::{Dimension, Quantities};
use super::policy::ReducedProfile;
use super::record::Millis;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a caller may still do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// As it likes.
    #[default]
    Full,
    /// With less: see [`ReducedProfile`].
    Reduced,
    /// Nothing that costs money.
    Blocked,
}

impl Tier {
    /// As tables and events spell it.
    pub fn name(self) -> &'static str {
        match self {
            Tier::Full => "full",
            Tier::Reduced => "reduced",
            Tier::Blocked => "blocked",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a hold or an extension was granted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Decision {
    /// How much was set aside by it.
    pub granted: Quantities,
    /// How much the caller may do from here on.
    pub tier: Tier,
    /// The limit that set the tier; `None` while it is [`Full`](Tier::Full).
    pub set_by: Option<TierCause>,
    /// What the caller is to make do with from here on, its banner's time filled in; `None` while the tier is
    /// [`Full`](Tier::Full).
    pub reduced: Option<Box<ReducedProfile>>,
}

/// The limit that set a tier: the fullest of those that count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierCause {
    /// Its scope.
    pub scope: String,
    /// Whose.
    pub key: String,
    /// What it counts.
    pub dimension: Dimension,
    /// Its window, as in `rolling 1h`.
    pub window: String,
    /// Settled and held before this call.
    pub used: u64,
    /// The most.
    pub limit: u64,
    /// When it is expected to have room again; `None` for a lifetime.
    pub resets_at: Option<Millis>,
}

/// Why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// What is left does not suffice now.
    Exhausted,
    /// More than the limit allows in all: no wait helps.
    Impossible,
    /// The tier is [`Blocked`](Tier::Blocked), and the call costs.
    Blocked,
    /// More than the grant's per-call ceiling: no wait helps.
    Ceiling,
}

/// A refusal by one limit. Nothing was set aside anywhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The limit's scope.
    pub scope: String,
    /// Whose; empty for a scope that everybody shares.
    pub key: String,
    /// What it counts.
    pub dimension: Dimension,
    /// Its window, as in `rolling 1h`.
    pub window: String,
    /// Why.
    pub reason: Reason,
    /// The most.
    pub limit: u64,
    /// Used in the window, and settled. Above `limit` where there is debt.
    pub spent: u64,
    /// Set aside in the window by holds that are open.
    pub held: u64,
    /// What the call asked for.
    pub needed: u64,
    /// The same call fits then if nothing else happens; `None` when no wait helps.
    pub resets_at: Option<Millis>,
    /// Milliseconds until then.
    pub retry_after: Option<Millis>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, key, dimension, window, limit, spent, held, needed, .. } = self;
        let whose = if key.is_empty() { String::new() } else { format!(" {key:?}") };
        let budget = format!("{scope}{whose}: {dimension} {limit} ({window})");
        match self.reason {
            Reason::Exhausted => write!(f, "{budget} has {spent} spent and {held} held, needed {needed}")?,
            Reason::Impossible => write!(f, "{budget} is less than the {needed} needed: ask for less")?,
            Reason::Blocked => {
                write!(f, "{budget} has {spent} spent and {held} held: nothing that costs goes on")?
            }
            Reason::Ceiling => {
                return write!(
                    f,
                    "{scope}{whose}: {needed} is above the ceiling of {limit} a call: ask for less"
                );
            }
        }
        match self.retry_after {
            Some(wait) => write!(f, "; retry after {}.{:03}s", wait / 1_000, wait % 1_000),
            None if self.reason == Reason::Impossible => Ok(()),
            None if *held > 0 => write!(f, "; only what others give back makes room"),
            None => write!(f, "; no wait helps"),
        }
    }
}
