//! Tiers: when a caller is to do with less, and with what.

use super::{Fault, Part, SpendPolicyError};
use crate::spend::amount::{DIMENSIONS, Dimension};
use crate::spend::record::Millis;
use crate::spend::window::show_time;
use serde::{Deserialize, Serialize};

/// When callers are to do with less, and when they are blocked: in millionths of the fullest limit that counts.
///
/// ```
/// use tollgate::spend::{Dimension, Tiers};
///
/// let early = Tiers::new().reduced_at(500_000).blocked_at(950_000).counting([Dimension::Cost]);
/// # let _ = early;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct Tiers {
    pub(crate) reduced: u32,
    pub(crate) blocked: u32,
    pub(crate) dimensions: Vec<Dimension>,
}

impl Default for Tiers {
    fn default() -> Self {
        Self::new()
    }
}

impl Tiers {
    /// Reduced from 0.7 on, blocked from 1 on, by money and tokens.
    pub fn new() -> Self {
        Self { reduced: 700_000, blocked: 1_000_000, dimensions: vec![Dimension::Cost, Dimension::Tokens] }
    }

    /// Reduced from so many millionths on.
    pub fn reduced_at(mut self, millionths: u32) -> Self {
        self.reduced = millionths;
        self
    }

    /// Blocked from so many millionths on: at most a million, since nothing goes beyond a limit.
    pub fn blocked_at(mut self, millionths: u32) -> Self {
        self.blocked = millionths;
        self
    }

    /// By the limits of these dimensions.
    pub fn counting(mut self, dimensions: impl IntoIterator<Item = Dimension>) -> Self {
        let counted: Vec<_> = dimensions.into_iter().collect();
        self.dimensions = DIMENSIONS.into_iter().filter(|dimension| counted.contains(dimension)).collect();
        self
    }

    pub(super) fn check(&self) -> Result<(), Fault> {
        let Self { reduced, blocked, .. } = *self;
        let key = if blocked > 1_000_000 { "blocked" } else { "reduced" };
        match 0 < reduced && reduced <= blocked && blocked <= 1_000_000 {
            true => Ok(()),
            false => Err(Fault::new(Part::Tiers, key, SpendPolicyError::Tiers { reduced, blocked })),
        }
    }
}

/// With what a caller is to make do whose budget is nearly used. The engine hands it over; the caller acts by it.
///
/// ```
/// use tollgate::spend::ReducedProfile;
///
/// let profile = ReducedProfile {
///     max_steps: Some(5),
///     subagents: Some(false),
///     model: Some("small".into()),
///     banner: Some("Nearly used up: less until {reset}.".into()),
/// };
/// assert_eq!(profile.banner_at(Some(0)).as_deref(), Some("Nearly used up: less until 1970-01-01T00:00:00Z."));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReducedProfile {
    /// The most steps that the run may still take.
    pub max_steps: Option<u64>,
    /// May it start others?
    pub subagents: Option<bool>,
    /// The cheaper model to use.
    pub model: Option<String>,
    /// What to tell the user; `{reset}` stands for the time at which there is room again.
    pub banner: Option<String>,
}

impl ReducedProfile {
    /// The banner with its time filled in.
    pub fn banner_at(&self, reset: Option<Millis>) -> Option<String> {
        let time = reset.map_or_else(|| "the budget is raised".to_owned(), show_time);
        self.banner.as_ref().map(|banner| banner.replace("{reset}", &time))
    }
}
