//! Scopes, and the limits of their accounts.

use super::{Fault, Part, SpendPolicyError};
use crate::spend::amount::{Dimension, MOST};
use crate::spend::window::Window;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What has budgets of its own: runs, users, teams, or everybody together.
///
/// ```
/// use tollgate::spend::{Limit, Scope, Window};
///
/// let run = Scope::keyed("run").limit(Limit::calls(25, Window::Lifetime)).limit(Limit::seconds(180, Window::Lifetime));
/// assert_eq!(run.limits()[0].id("run"), "run/calls/lifetime");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct Scope {
    pub(crate) name: String,
    /// Everybody shares one account.
    pub(crate) shared: bool,
    pub(crate) limits: Vec<Limit>,
}

impl Scope {
    /// A scope in which each key has an account: calls state their key.
    pub fn keyed(name: impl Into<String>) -> Self {
        Self { name: name.into(), shared: false, limits: Vec::new() }
    }

    /// A scope of one account that all calls draw on.
    pub fn shared(name: impl Into<String>) -> Self {
        Self { shared: true, ..Self::keyed(name) }
    }

    /// Another limit. A scope without any only keeps books.
    pub fn limit(mut self, limit: Limit) -> Self {
        self.limits.push(limit);
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Does everybody share one account?
    pub fn is_shared(&self) -> bool {
        self.shared
    }

    /// Its limits, in the order in which they were added.
    pub fn limits(&self) -> &[Limit] {
        &self.limits
    }

    pub(super) fn check(&self, scope: usize) -> Result<(), Fault> {
        let mut known = BTreeSet::new();
        for (number, limit) in self.limits.iter().enumerate() {
            let refused = |key: &'static str, why: &str| {
                let error = SpendPolicyError::Limit { limit: limit.id(&self.name), why: why.to_owned() };
                Err(Fault::new(Part::Limit(scope, number), key, error))
            };
            if !known.insert(limit.id(&self.name)) {
                return refused("", "is there a second time, accepted: one limit of a dimension in a window");
            }
            if limit.amount > MOST {
                return refused(limit.dimension.name(), "is above 2^53, accepted: 0 to 9007199254740992");
            }
            if limit.dimension == Dimension::Runs && limit.window != Window::Lifetime {
                return refused(
                    "window",
                    "counts what is under way at once, accepted: runs without a window",
                );
            }
        }
        Ok(())
    }
}

/// The most of one dimension in one window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub(crate) dimension: Dimension,
    pub(crate) amount: u64,
    pub(crate) window: Window,
}

impl Limit {
    /// Of `dimension`, at most `amount` in `window`: 0 to 2^53.
    pub fn new(dimension: Dimension, amount: u64, window: Window) -> Self {
        Self { dimension, amount, window }
    }

    /// Money, in the policy's unit.
    pub fn cost(amount: u64, window: Window) -> Self {
        Self::new(Dimension::Cost, amount, window)
    }

    /// Tokens of a model.
    pub fn tokens(amount: u64, window: Window) -> Self {
        Self::new(Dimension::Tokens, amount, window)
    }

    /// Calls of tools.
    pub fn calls(amount: u64, window: Window) -> Self {
        Self::new(Dimension::Calls, amount, window)
    }

    /// Seconds of work.
    pub fn seconds(amount: u64, window: Window) -> Self {
        Self::new(Dimension::Seconds, amount, window)
    }

    /// Runs under way at once.
    pub fn concurrent_runs(amount: u64) -> Self {
        Self::new(Dimension::Runs, amount, Window::Lifetime)
    }

    /// What it counts.
    pub fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// The most.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Over which time.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// What it is known by in stores: as long as this is the same, what was spent stays with it, whatever its amount.
    pub fn id(&self, scope: &str) -> String {
        limit_id(scope, self.dimension, &self.window)
    }
}

/// See [`Limit::id`].
pub(crate) fn limit_id(scope: &str, dimension: Dimension, window: &Window) -> String {
    format!("{scope}/{dimension}/{window}")
}
