//! Families: grants that were delegated from one root, and share its cap.

use crate::spend::amount::Dimension;
use serde::{Deserialize, Serialize};

/// Grants that were delegated from one root, which share its cap for good. Nobody but the policy can raise it.
///
/// A total of money needs a ceiling of a call: it is what is held for a call that states no cost of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct Family {
    pub(crate) root: String,
    pub(crate) cost: Option<u64>,
    pub(crate) calls: Option<u64>,
    pub(crate) ceiling: Option<u64>,
}

impl Family {
    /// The family of a root grant, without a cap yet.
    pub fn new(root: impl Into<String>) -> Self {
        Self { root: root.into(), cost: None, calls: None, ceiling: None }
    }

    /// The most money of all its calls ever, in the policy's unit.
    pub fn cost(mut self, total: u64) -> Self {
        self.cost = Some(total);
        self
    }

    /// The most calls ever.
    pub fn calls(mut self, total: u64) -> Self {
        self.calls = Some(total);
        self
    }

    /// The most that one call may cost.
    pub fn ceiling(mut self, cost: u64) -> Self {
        self.ceiling = Some(cost);
        self
    }

    /// The root grant.
    pub fn root(&self) -> &str {
        &self.root
    }

    /// The most of a dimension that all its calls may use together, if it is capped.
    pub fn total(&self, dimension: Dimension) -> Option<u64> {
        match dimension {
            Dimension::Cost => self.cost,
            Dimension::Calls => self.calls,
            _ => None,
        }
    }
}

/// A grant that was delegated from another. It draws on the cap of its family's root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct Grant {
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) ceiling: Option<u64>,
}

impl Grant {
    /// `id`, delegated from `parent`.
    pub fn new(id: impl Into<String>, parent: impl Into<String>) -> Self {
        Self { id: id.into(), parent: parent.into(), ceiling: None }
    }

    /// The most that one of its calls may cost: at most its parent's.
    pub fn ceiling(mut self, cost: u64) -> Self {
        self.ceiling = Some(cost);
        self
    }
}
