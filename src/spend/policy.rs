//! Budgets: which limits there are in which scopes, and what happens near them.

use super::amount::Dimension;
use super::record::Millis;
use super::window::Window;
use serde::{Deserialize, Serialize};

/// All budgets: scopes with their limits, families, tiers, and what happens to holds that nobody settles.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpendPolicy {
    pub(crate) currency: String,
    /// Decimal places of the unit below the currency's own: 6 for micro-dollars.
    pub(crate) decimals: u8,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) families: Vec<Family>,
    pub(crate) grants: Vec<Grant>,
    pub(crate) ttl: Millis,
    pub(crate) on_expiry: OnExpiry,
    pub(crate) tiers: Tiers,
    pub(crate) reduced: ReducedProfile,
    pub(crate) account_cap: usize,
    pub(crate) hold_cap: usize,
    pub(crate) answers_for: Millis,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    pub(crate) name: String,
    /// Everybody shares one account.
    pub(crate) shared: bool,
    pub(crate) limits: Vec<Limit>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub(crate) dimension: Dimension,
    pub(crate) amount: u64,
    pub(crate) window: Window,
}

/// Grants delegated from one root share the root's cap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    pub(crate) root: String,
    /// over its lifetime
    pub(crate) cost: Option<u64>,
    pub(crate) calls: Option<u64>,
    /// per call
    pub(crate) ceiling: Option<u64>,
}

/// A grant delegated from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    pub(crate) id: String,
    pub(crate) parent: String,
    /// at most the parent's
    pub(crate) ceiling: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    #[default]
    Spent,
    Released,
}

/// In millionths of a limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tiers {
    pub(crate) reduced: u32,
    pub(crate) blocked: u32,
    pub(crate) dimensions: Vec<Dimension>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReducedProfile {
    pub max_steps: Option<u64>,
    pub subagents: Option<bool>,
    pub model: Option<String>,
    /// `{reset}` is replaced
    pub banner: Option<String>,
}
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("x")]
pub struct SpendPolicyError;
