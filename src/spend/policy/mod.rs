//! Budgets: which limits there are in which scopes, and what happens near them.

mod family;
mod fault;
mod limit;
mod tiers;

pub use family::{Family, Grant};
pub use fault::SpendPolicyError;
pub(crate) use fault::{Fault, Part};
pub(crate) use limit::limit_id;
pub use limit::{Limit, Scope};
pub use tiers::{ReducedProfile, Tiers};

use super::amount::MOST;
use super::record::{FAMILY, Millis};
use super::unit::{MOST_DECIMALS, MoneyUnit};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// All budgets: scopes with their limits, families of grants, tiers, and what happens to holds that nobody settles.
///
/// ```
/// use std::time::Duration;
/// use tollgate::spend::{Limit, OnExpiry, Scope, SpendPolicy, Window};
///
/// let hour = Window::rolling(Duration::from_secs(3_600))?;
/// let policy = SpendPolicy::new() // amounts of money are in micro-dollars
///     .scope(Scope::keyed("run").limit(Limit::tokens(120_000, Window::Lifetime)).limit(Limit::cost(500_000, Window::Lifetime)))
///     .scope(Scope::keyed("user").limit(Limit::cost(3_000_000, hour.clone())))
///     .scope(Scope::shared("global").limit(Limit::cost(40_000_000, hour)).limit(Limit::concurrent_runs(30)))
///     .ttl(Duration::from_secs(600))
///     .on_expiry(OnExpiry::Spent);
/// assert!(policy.validate().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[must_use]
pub struct SpendPolicy {
    pub(crate) unit: MoneyUnit,
    pub(crate) scopes: Vec<Scope>,
    #[serde(default)]
    pub(crate) families: Vec<Family>,
    #[serde(default)]
    pub(crate) grants: Vec<Grant>,
    pub(crate) ttl: Millis,
    pub(crate) on_expiry: OnExpiry,
    pub(crate) tiers: Tiers,
    #[serde(default)]
    pub(crate) reduced: ReducedProfile,
    pub(crate) account_cap: usize,
    pub(crate) hold_cap: usize,
    #[serde(default = "grant_cap")]
    pub(crate) grant_cap: usize,
    pub(crate) answers_for: Millis,
}

impl Default for SpendPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl SpendPolicy {
    /// No budgets yet, in micro-dollars. Holds live for 10 minutes; 65,536 accounts are kept in memory and as many holds may
    /// be open; a million grants may be delegated; answers are remembered for a day.
    pub fn new() -> Self {
        Self {
            unit: MoneyUnit::default(),
            scopes: Vec::new(),
            families: Vec::new(),
            grants: Vec::new(),
            ttl: 600_000,
            on_expiry: OnExpiry::default(),
            tiers: Tiers::new(),
            reduced: ReducedProfile::default(),
            account_cap: 65_536,
            hold_cap: 65_536,
            grant_cap: grant_cap(),
            answers_for: 86_400_000,
        }
    }

    /// Counts money in so many decimal places of `currency`.
    pub fn unit(mut self, currency: impl Into<String>, decimals: u8) -> Self {
        self.unit = MoneyUnit::new(currency, decimals);
        self
    }

    /// Another scope. Calls draw on all of them.
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scopes.push(scope);
        self
    }

    /// A family of grants that share one cap.
    pub fn family(mut self, family: Family) -> Self {
        self.families.push(family);
        self
    }

    /// A grant that was delegated. More can be while the budgets are in use: [`Spend::delegate`](super::Spend::delegate).
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grants.push(grant);
        self
    }

    /// How long a hold may stay open without being extended or charged; in milliseconds, at least one.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = millis(ttl);
        self
    }

    /// What becomes of a hold that outlives its time.
    pub fn on_expiry(mut self, on_expiry: OnExpiry) -> Self {
        self.on_expiry = on_expiry;
        self
    }

    /// When callers are to do with less, and when they are blocked.
    pub fn tiers(mut self, tiers: Tiers) -> Self {
        self.tiers = tiers;
        self
    }

    /// With what callers in the reduced tier are to make do.
    pub fn reduced(mut self, profile: ReducedProfile) -> Self {
        self.reduced = profile;
        self
    }

    /// The most accounts in memory; at least as many as one call has.
    pub fn account_cap(mut self, cap: usize) -> Self {
        self.account_cap = cap;
        self
    }

    /// The most holds that are open at once.
    pub fn hold_cap(mut self, cap: usize) -> Self {
        self.hold_cap = cap;
        self
    }

    /// The most grants that may be delegated while the budgets are in use. They are kept for good.
    pub fn grant_cap(mut self, cap: usize) -> Self {
        self.grant_cap = cap;
        self
    }

    /// How long the answers of calls with an id are remembered after they are over.
    pub fn answers_for(mut self, time: Duration) -> Self {
        self.answers_for = millis(time);
        self
    }

    /// What money is counted in.
    pub fn money(&self) -> &MoneyUnit {
        &self.unit
    }

    /// The scopes, in the order in which they were added.
    pub fn scopes(&self) -> &[Scope] {
        &self.scopes
    }

    /// The families.
    pub fn families(&self) -> &[Family] {
        &self.families
    }

    /// The grants that were delegated from the start.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The tiers' thresholds.
    pub fn thresholds(&self) -> &Tiers {
        &self.tiers
    }

    /// With what callers in the reduced tier are to make do.
    pub fn profile(&self) -> &ReducedProfile {
        &self.reduced
    }

    /// The root and the ceiling of a grant: the least of its own and those above it.
    pub(crate) fn resolve(&self, id: &str) -> Option<(&Family, Option<u64>)> {
        let mut id = id;
        let mut ceiling = None;
        // Each step is another grant, unless they go round, which validation refuses.
        for _ in 0..=self.grants.len() {
            if let Some(family) = self.families.iter().find(|family| family.root == id) {
                return Some((family, least(ceiling, family.ceiling)));
            }
            let grant = self.grants.iter().find(|grant| grant.id == id)?;
            ceiling = least(ceiling, grant.ceiling);
            id = &grant.parent;
        }
        None
    }

    /// Do amounts of both mean the same?
    pub(crate) fn same_unit(&self, other: &Self) -> bool {
        self.unit == other.unit
    }

    /// Checks that the policy makes sense.
    ///
    /// # Errors
    /// The first thing that does not, and what is accepted.
    pub fn validate(&self) -> Result<(), SpendPolicyError> {
        self.check().map_err(|fault| fault.error)
    }

    /// [`validate`](Self::validate), with the place of what is wrong.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        self.check_unit()?;
        let mut names = BTreeSet::new();
        for (number, scope) in self.scopes.iter().enumerate() {
            if scope.name.is_empty() || scope.name == FAMILY || !names.insert(&scope.name) {
                let error = SpendPolicyError::ScopeName(scope.name.clone());
                return Err(Fault::new(Part::Scope(number), "name", error));
            }
            scope.check(number)?;
        }
        if self.scopes.is_empty() {
            return Err(Fault::new(Part::Policy, "scope", SpendPolicyError::NoScope));
        }
        self.check_families()?;
        self.check_grants()?;
        self.tiers.check()?;
        let positive = [
            ("ttl", self.ttl),
            ("account_cap", self.account_cap as u64),
            ("hold_cap", self.hold_cap as u64),
            ("grant_cap", self.grant_cap as u64),
            ("answers_for", self.answers_for),
        ];
        match positive.into_iter().find(|&(_, value)| value == 0) {
            Some((field, _)) => Err(Fault::new(Part::Policy, field, SpendPolicyError::Zero(field))),
            None => Ok(()),
        }
    }

    fn check_unit(&self) -> Result<(), Fault> {
        let currency = self.unit.currency();
        let known =
            (1..=12).contains(&currency.len()) && currency.bytes().all(|byte| byte.is_ascii_uppercase());
        let key = if known { "decimals" } else { "currency" };
        match known && self.unit.decimals() <= MOST_DECIMALS {
            true => Ok(()),
            false => Err(Fault::new(Part::Policy, key, SpendPolicyError::Unit(self.unit.to_string()))),
        }
    }

    fn check_families(&self) -> Result<(), Fault> {
        let mut roots = BTreeSet::new();
        for (number, family) in self.families.iter().enumerate() {
            let refused = |key: &'static str, why: &str| {
                let error = SpendPolicyError::Family { root: family.root.clone(), why: why.to_owned() };
                Err(Fault::new(Part::Family(number), key, error))
            };
            if !roots.insert(&family.root) {
                return refused("root", "is there a second time, accepted: one family of each root");
            }
            if family.cost.is_none() && family.calls.is_none() {
                return refused("", "has no cap, accepted: a total of money, of calls, or both");
            }
            if family.cost.is_some() && family.ceiling.is_none() {
                return refused(
                    "cost",
                    "has a total of money and no ceiling of a call, so nothing could be held for a call, accepted: a ceiling beside the total",
                );
            }
            if let (Some(total), Some(ceiling)) = (family.cost, family.ceiling) {
                if ceiling > total {
                    return refused("ceiling", "has a ceiling above its total, accepted: at most the total");
                }
            }
            let amounts = [("cost", family.cost), ("calls", family.calls), ("ceiling", family.ceiling)];
            if let Some((key, _)) =
                amounts.into_iter().find(|(_, amount)| amount.is_some_and(|amount| amount > MOST))
            {
                return refused(key, "has an amount above 2^53, accepted: 0 to 9007199254740992");
            }
        }
        Ok(())
    }

    fn check_grants(&self) -> Result<(), Fault> {
        let mut ids: BTreeSet<_> = self.families.iter().map(|family| &family.root).collect();
        let parents: BTreeMap<&str, &Grant> =
            self.grants.iter().map(|grant| (grant.id.as_str(), grant)).collect();
        for (number, grant) in self.grants.iter().enumerate() {
            let refused = |key: &'static str, why: String| {
                let error = SpendPolicyError::Grant { id: grant.id.clone(), why };
                Err(Fault::new(Part::Grant(number), key, error))
            };
            if !ids.insert(&grant.id) {
                return refused("id", "is there a second time, accepted: an id of its own".to_owned());
            }
            let known = parents.contains_key(grant.parent.as_str())
                || self.families.iter().any(|family| family.root == grant.parent);
            if !known {
                return refused(
                    "parent",
                    format!(
                        "has a parent that there is not, {:?}, accepted: the root of a family, or the id of another grant",
                        grant.parent
                    ),
                );
            }
            let Some((_, above)) = self.resolve(&grant.parent) else {
                return refused(
                    "parent",
                    "is its own ancestor, accepted: parents that lead to a family's root".to_owned(),
                );
            };
            if let (Some(own), Some(above)) = (grant.ceiling, above) {
                if own > above {
                    return refused(
                        "ceiling",
                        format!(
                            "has a ceiling of {own}, accepted: at most the {above} of {:?}",
                            grant.parent
                        ),
                    );
                }
            }
        }
        Ok(())
    }
}

fn grant_cap() -> usize {
    1 << 20
}

/// The lesser ceiling, where there is one.
pub(crate) fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

/// In whole milliseconds, rounded down.
fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

/// What becomes of a hold that outlives its time to live. A late settlement corrects it in either case, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExpiry {
    /// It counts as used, at its worst: whoever made it may have spent it all.
    #[default]
    Spent,
    /// It is given back; what it turns out to have used is debt.
    Released,
}

impl OnExpiry {
    /// As policy files and tables spell it.
    pub fn name(self) -> &'static str {
        match self {
            OnExpiry::Spent => "spent",
            OnExpiry::Released => "released",
        }
    }

    /// What has that name.
    pub fn named(name: &str) -> Option<Self> {
        [OnExpiry::Spent, OnExpiry::Released].into_iter().find(|on_expiry| on_expiry.name() == name)
    }
}

#[cfg(test)]
mod tests;
