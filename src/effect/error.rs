//! What keeps an effect from being declared, granted or emitted.

use super::hours::HoursError;
use super::journal::JournalError;
use super::ledger::{LedgerError, Ticket};
use crate::ConfigError;
use std::fmt;

/// Rules from which no [`Effects`](super::Effects) can be built. Nothing unknown is skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EffectsError {
    /// A rule names a tool that nobody declared.
    #[error(
        "the policy limits {tool:?}, which is no declared effect ({}): declare it, or correct the name",
        Names(known)
    )]
    UnknownTool {
        /// The name.
        tool: String,
        /// The declared ones.
        known: Vec<String>,
    },
    /// A declared effect has no rule.
    #[error("effect {tool:?} has no rule in the policy: give it one with at least one quota")]
    NoRule {
        /// The effect.
        tool: String,
    },
    /// A rule has no quota.
    #[error("effect {tool:?} has no quota, accepted: at least one `rate` or `max`")]
    NoQuota {
        /// The effect.
        tool: String,
    },
    /// Two rules for one effect.
    #[error("effect {tool:?} has two rules, accepted: one with all its quotas")]
    TwoRules {
        /// The effect.
        tool: String,
    },
    /// The same quota twice.
    #[error("effect {tool:?} has the quota \"{quota}\" twice, accepted: quotas that differ")]
    TwiceTheSameQuota {
        /// The effect.
        tool: String,
        /// The quota's definition.
        quota: String,
    },
    /// A quota that allows nothing.
    #[error("effect {tool:?} has the quota \"{quota}\", accepted: a limit and a burst of at least 1")]
    ZeroLimit {
        /// The effect.
        tool: String,
        /// The quota's definition.
        quota: String,
    },
    /// Permits that are expired when they are made.
    #[error("effect {tool:?} has permits with a ttl of 0, accepted: at least 1 ns")]
    ZeroTtl {
        /// The effect.
        tool: String,
    },
    /// A quota that the engine cannot count, or a table that it cannot build.
    #[error("effect {tool:?}, quota \"{quota}\": {error}")]
    Quota {
        /// The effect.
        tool: String,
        /// The quota's definition.
        quota: String,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// Hours that never come.
    #[error("effect {tool:?}: {error}")]
    Hours {
        /// The effect.
        tool: String,
        /// What is wrong with them.
        error: HoursError,
    },
    /// More saved buckets than the quota has room for.
    #[error(
        "effect {tool:?}, quota \"{quota}\": the saved state has more buckets than there is room for; raise bucket_cap"
    )]
    StateTooLarge {
        /// The effect.
        tool: String,
        /// The quota's definition.
        quota: String,
    },
    /// The journal cannot be begun.
    #[error("{0}")]
    Journal(#[from] JournalError),
    /// The ledger of deferred calls cannot be opened.
    #[error("{0}")]
    Ledger(#[from] LedgerError),
}

struct Names<'a>(&'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("there are none"),
            names => write!(f, "those are {}", names.join(", ")),
        }
    }
}

/// Why no permit was made. Nothing was drawn on any quota.
///
/// Times are nanoseconds of the engine's clock, rounded up: at `retry_at` the same call is granted if nobody came before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EffectError {
    /// A quota has too little left, or the hours are not the allowed ones, and the call is blocked.
    #[error("{effect}: {quota} is exhausted{}", At(*retry_at))]
    EffectQuotaExhausted {
        /// The effect.
        effect: String,
        /// The definition of the quota that refused with the longest wait, or the allowed hours.
        quota: String,
        /// When to try again; `None` where no wait helps.
        retry_at: Option<u64>,
    },
    /// The same, and the call was kept: it is emitted when it is due, by whoever runs what is due.
    #[error("{effect}: deferred as {ticket}{}", At(*retry_at))]
    EffectDeferred {
        /// The effect.
        effect: String,
        /// Names the kept call.
        ticket: Ticket,
        /// When it is due.
        retry_at: Option<u64>,
    },
    /// The call should have been deferred, and could not be kept.
    #[error("{effect}: the call cannot be deferred: {error}")]
    NotDeferred {
        /// The effect.
        effect: String,
        /// Why.
        error: LedgerError,
        /// When to try again.
        retry_at: Option<u64>,
    },
    /// The cost is above a quota's capacity: no wait helps.
    #[error("{effect}: a cost of {cost} is above the capacity of \"{quota}\"; no wait helps")]
    Impossible {
        /// The effect.
        effect: String,
        /// The quota's definition.
        quota: String,
        /// The cost.
        cost: u64,
    },
    /// A cost of 0 pays for nothing.
    #[error("{effect}: a cost of 0 pays for nothing, accepted: at least 1")]
    ZeroCost {
        /// The effect.
        effect: String,
    },
    /// The key is new to a quota, and there is no bucket for it.
    #[error("{effect}: no bucket of \"{quota}\" is free for this key; raise bucket_cap or retry later")]
    TableFull {
        /// The effect.
        effect: String,
        /// The quota's definition.
        quota: String,
    },
    /// The clock is past what a quota can count.
    #[error("{effect}: \"{quota}\" is past its horizon; build the effects anew")]
    PastHorizon {
        /// The effect.
        effect: String,
        /// The quota's definition.
        quota: String,
    },
    /// The decision could not be recorded, so there was none.
    #[error("{effect}: {error}")]
    Unrecorded {
        /// The effect.
        effect: String,
        /// Why.
        error: JournalError,
    },
}

impl EffectError {
    /// When to try again, if it is known and helps.
    pub fn retry_at(&self) -> Option<u64> {
        match self {
            Self::EffectQuotaExhausted { retry_at, .. }
            | Self::EffectDeferred { retry_at, .. }
            | Self::NotDeferred { retry_at, .. } => *retry_at,
            _ => None,
        }
    }
}

/// "retry at ...", where that is known.
struct At(Option<u64>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(at) => write!(f, ", retry at {at} ns"),
            None => f.write_str("; no wait helps"),
        }
    }
}
