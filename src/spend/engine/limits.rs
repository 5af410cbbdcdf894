//! The limits of a policy as the engine has them, and the gauges of an account.

use super::accounts::Front;
use super::judge::Line;
use crate::gauge::{Gauges, Start};
use crate::spend::amount::Dimension;
use crate::spend::policy::SpendPolicy;
use crate::spend::record::{FAMILY, Millis};
use crate::spend::store::{Store, StoreError};
use crate::spend::window::Window;
use std::sync::atomic::{AtomicU64, Ordering};

/// A family's limits, in the order in which stores number them.
pub(crate) const FAMILY_LIMITS: [Dimension; 2] = [Dimension::Cost, Dimension::Calls];
/// The amount of a limit that there is not: more than anything that is counted.
pub(crate) const UNLIMITED: u64 = u64::MAX;
static LIFETIME: Window = Window::Lifetime;

/// All limits: those of the scopes in the policy's order, and those of families after them.
#[derive(Debug)]
pub(crate) struct Limits {
    policy: SpendPolicy,
    /// Amounts, since they may change while calls are judged. Relaxed: a call that overlaps a change is judged by either.
    amounts: Vec<Vec<AtomicU64>>,
}

impl Limits {
    pub(crate) fn new(policy: SpendPolicy) -> Self {
        let amounts = policy.scopes.iter();
        let amounts =
            amounts.map(|scope| scope.limits.iter().map(|limit| AtomicU64::new(limit.amount)).collect());
        Self { amounts: amounts.collect(), policy }
    }

    /// As it was when the engine was opened, but for amounts that were changed since.
    pub(crate) fn policy(&self) -> &SpendPolicy {
        &self.policy
    }

    /// With the amounts that count now.
    pub(crate) fn current_policy(&self) -> SpendPolicy {
        let mut policy = self.policy.clone();
        for (scope, amounts) in policy.scopes.iter_mut().zip(&self.amounts) {
            for (limit, amount) in scope.limits.iter_mut().zip(amounts) {
                limit.amount = amount.load(Ordering::Relaxed);
            }
        }
        policy
    }

    pub(crate) fn set(&self, scope: usize, limit: usize, amount: u64) {
        self.amounts[scope][limit].store(amount, Ordering::Relaxed);
    }

    /// The place of families among the scopes.
    pub(crate) fn family(&self) -> usize {
        self.policy.scopes.len()
    }

    pub(crate) fn scope_name(&self, scope: usize) -> &str {
        self.policy.scopes.get(scope).map_or(FAMILY, |scope| &scope.name)
    }

    /// A limit of `account`.
    pub(crate) fn line<'a>(&'a self, account: &'a Front, limit: usize) -> Line<'a> {
        let scope = self.scope_name(account.scope);
        match (&account.amounts, self.policy.scopes.get(account.scope)) {
            (None, Some(known)) => {
                let amount = self.amounts[account.scope][limit].load(Ordering::Relaxed);
                let limit = &known.limits[limit];
                Line { scope, account, dimension: limit.dimension, window: &limit.window, amount }
            }
            (amounts, _) => {
                let amount = amounts.as_ref().map_or(UNLIMITED, |amounts| amounts[limit]);
                Line { scope, account, dimension: FAMILY_LIMITS[limit], window: &LIFETIME, amount }
            }
        }
    }

    fn windows(&self, scope: usize) -> Vec<&Window> {
        match self.policy.scopes.get(scope) {
            Some(scope) => scope.limits.iter().map(|limit| &limit.window).collect(),
            None => vec![&LIFETIME; FAMILY_LIMITS.len()],
        }
    }

    /// The account of `key`, as the store has it at `now`.
    pub(crate) fn load(
        &self,
        scope: usize,
        key: &str,
        store: &dyn Store,
        now: Millis,
    ) -> Result<Front, StoreError> {
        let kept = store.usage(self.scope_name(scope), key, now)?;
        let gauges = self.windows(scope).into_iter().enumerate().map(|(number, window)| {
            let used: Vec<(u32, u64)> = kept
                .iter()
                .filter(|usage| usage.limit == number)
                .map(|usage| (usage.slot, usage.used))
                .collect();
            Start { reach: window.reach(), slot: window.slot(now), used }
        });
        let gauges = Gauges::new(gauges);
        let amounts = (scope == self.family()).then(|| {
            let family = self.policy.families.iter().find(|family| family.root == key);
            let of = |amount: Option<u64>| amount.unwrap_or(UNLIMITED);
            let (cost, calls) = family.map_or((0, 0), |family| (of(family.cost), of(family.calls)));
            Box::from([cost, calls])
        });
        Ok(Front::new(scope, key.to_owned(), gauges, amounts))
    }
}
