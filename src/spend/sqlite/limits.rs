//! Which limits count what: the limits of a policy, by scope.

use crate::spend::amount::Dimension;
use crate::spend::policy::{SpendPolicy, limit_id};
use crate::spend::record::{FAMILY, Millis};
use crate::spend::window::Window;
use std::collections::HashMap;

/// A limit whose use is added up.
#[derive(Debug, Clone)]
pub(super) struct Counted {
    /// As in `user/cost/rolling 1h`: the same limit has it under every policy.
    pub(super) id: String,
    pub(super) scope: String,
    pub(super) dimension: Dimension,
    pub(super) window: Window,
}

impl Counted {
    fn new(scope: &str, dimension: Dimension, window: Window) -> Self {
        let id = limit_id(scope, dimension, &window);
        Self { id, scope: scope.to_owned(), dimension, window }
    }

    /// The first slot that is wholly known if everything from `since` on is kept. Use in slots before it is not stored:
    /// no window adds them up any more. What was archived of lifetimes is known from the books.
    pub(super) fn first_slot(&self, since: Millis) -> u32 {
        match (&self.window, since.checked_sub(1)) {
            (Window::Lifetime, _) | (_, None) => 0,
            (window, Some(archived)) => window.slot(archived).saturating_add(1),
        }
    }

    /// The first slot that counts at `at`.
    pub(super) fn reaches(&self, at: Millis) -> u32 {
        self.window.slot(at).saturating_sub(self.window.reach())
    }
}

/// Limits, each once, and which of them each scope has.
#[derive(Debug, Clone, Default)]
pub(super) struct Limits {
    pub(super) all: Vec<Counted>,
    /// By scope, in the policy's order. A limit that a scope has twice is there twice.
    scopes: HashMap<String, Vec<usize>>,
}

impl Limits {
    pub(super) fn of(policy: &SpendPolicy) -> Self {
        let mut limits = Self::default();
        for scope in policy.scopes.iter().filter(|scope| scope.name != FAMILY) {
            limits.scopes.entry(scope.name.clone()).or_default();
            for limit in &scope.limits {
                limits.add(Counted::new(&scope.name, limit.dimension, limit.window.clone()));
            }
        }
        for dimension in [Dimension::Cost, Dimension::Calls] {
            limits.add(Counted::new(FAMILY, dimension, Window::Lifetime));
        }
        limits
    }

    /// These, and after them those of `more` that are not among them.
    pub(super) fn with(&self, more: &Self) -> Self {
        let mut both = self.clone();
        for counted in more.all.iter().filter(|counted| self.position(&counted.id).is_none()) {
            both.add(counted.clone());
        }
        both
    }

    fn add(&mut self, counted: Counted) {
        let known = self.position(&counted.id);
        let index = known.unwrap_or(self.all.len());
        self.scopes.entry(counted.scope.clone()).or_default().push(index);
        if known.is_none() {
            self.all.push(counted);
        }
    }

    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.all.iter().position(|counted| counted.id == id)
    }

    /// The limits of a scope, as indices into `all`.
    pub(super) fn of_scope(&self, scope: &str) -> &[usize] {
        self.scopes.get(scope).map_or(&[], Vec::as_slice)
    }
}
