//! Budgets: which limits there are in which scopes, and what happens near them.

use super::amount::{DIMENSIONS, Dimension, MOST};
use super::record::{FAMILY, Millis};
use super::unit::{MOST_DECIMALS, MoneyUnit};
use super::window::{Window, show_time};
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
    pub(crate) answers_for: Millis,
}

impl Default for SpendPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl SpendPolicy {
    /// No budgets yet, in micro-dollars. Holds live for 10 minutes; 65,536 accounts are kept in memory and as many holds may
    /// be open; answers are remembered for a day.
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

fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    [one, other].into_iter().flatten().min()
}

/// In whole milliseconds, rounded down.
fn millis(time: Duration) -> Millis {
    Millis::try_from(time.as_millis()).unwrap_or(Millis::MAX)
}

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

    fn check(&self, scope: usize) -> Result<(), Fault> {
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

    fn check(&self) -> Result<(), Fault> {
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

/// What is wrong with a policy, and where.
#[derive(Debug)]
pub(crate) struct Fault {
    #[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "for the lines of policy files"))]
    pub(crate) part: Part,
    /// The part's field; empty for the part as a whole.
    #[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "for the lines of policy files"))]
    pub(crate) key: &'static str,
    pub(crate) error: SpendPolicyError,
}

impl Fault {
    fn new(part: Part, key: &'static str, error: SpendPolicyError) -> Self {
        Self { part, key, error }
    }
}

/// A part of a policy, by its number among its kind.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(feature = "policy"), expect(dead_code, reason = "for the lines of policy files"))]
pub(crate) enum Part {
    Policy,
    Scope(usize),
    /// Of a scope.
    Limit(usize, usize),
    Family(usize),
    Grant(usize),
    Tiers,
}

/// Why a policy cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpendPolicyError {
    /// No scope at all.
    #[error("it has no scope, accepted: at least one")]
    NoScope,
    /// A scope's name.
    #[error(
        "{0:?} is no name of a scope here, accepted: names that differ and are not empty, and not \"family\""
    )]
    ScopeName(String),
    /// A limit.
    #[error("the limit {limit} {why}")]
    Limit {
        /// Its id.
        limit: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// A family.
    #[error("the family of {root:?} {why}")]
    Family {
        /// Its root.
        root: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// A grant.
    #[error("the grant {id:?} {why}")]
    Grant {
        /// Its id.
        id: String,
        /// What is wrong with it, and what is accepted.
        why: String,
    },
    /// Thresholds of tiers.
    #[error(
        "tiers at {reduced} and {blocked} millionths, accepted: 1 to 1000000, reduced at or below blocked"
    )]
    Tiers {
        /// Reduced from here.
        reduced: u32,
        /// Blocked from here.
        blocked: u32,
    },
    /// Something that is 0.
    #[error("{0} is 0, accepted: at least 1 (milliseconds, where it is a time)")]
    Zero(&'static str),
    /// The unit of money.
    #[error(
        "{0} is no unit of money, accepted: a currency of capital letters such as USD, with 0 to 12 decimal places"
    )]
    Unit(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money() -> SpendPolicy {
        SpendPolicy::new().scope(Scope::shared("all").limit(Limit::cost(100, Window::Lifetime)))
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_is_accepted() {
        let day = Window::day("UTC").unwrap();
        let cases = [
            (SpendPolicy::new(), "no scope"),
            (money().scope(Scope::keyed("all")), "\"all\" is no name"),
            (money().scope(Scope::keyed("")), "\"\" is no name"),
            (money().scope(Scope::keyed("family")), "\"family\" is no name"),
            (
                money().scope(
                    Scope::keyed("u")
                        .limit(Limit::calls(1, Window::Lifetime))
                        .limit(Limit::calls(2, Window::Lifetime)),
                ),
                "u/calls/lifetime is there a second time",
            ),
            (
                money().scope(Scope::keyed("u").limit(Limit::calls(MOST + 1, Window::Lifetime))),
                "is above 2^53",
            ),
            (
                money().scope(Scope::keyed("u").limit(Limit::new(Dimension::Runs, 1, day))),
                "runs without a window",
            ),
            (money().family(Family::new("r").cost(10)), "nothing could be held for a call"),
            (money().family(Family::new("r")), "has no cap"),
            (money().family(Family::new("r").cost(10).ceiling(11)), "ceiling above its total"),
            (money().family(Family::new("r").calls(1)).family(Family::new("r").calls(2)), "a second time"),
            (money().family(Family::new("r").calls(MOST + 1)), "above 2^53"),
            (money().grant(Grant::new("a", "r")), "a parent that there is not, \"r\""),
            (money().grant(Grant::new("a", "b")).grant(Grant::new("b", "a")), "its own ancestor"),
            (money().grant(Grant::new("a", "a")), "its own ancestor"),
            (
                money().family(Family::new("r").cost(10).ceiling(5)).grant(Grant::new("a", "r").ceiling(6)),
                "at most the 5 of \"r\"",
            ),
            (
                money()
                    .family(Family::new("r").calls(1))
                    .grant(Grant::new("a", "r"))
                    .grant(Grant::new("a", "r")),
                "a second time",
            ),
            (money().family(Family::new("r").calls(1)).grant(Grant::new("r", "r")), "a second time"),
            (money().tiers(Tiers::new().reduced_at(0)), "tiers at 0"),
            (
                money().tiers(Tiers::new().reduced_at(900_000).blocked_at(800_000)),
                "reduced at or below blocked",
            ),
            (money().tiers(Tiers::new().blocked_at(1_000_001)), "1 to 1000000"),
            (money().ttl(Duration::from_micros(999)), "ttl is 0"),
            (money().account_cap(0), "account_cap is 0"),
            (money().hold_cap(0), "hold_cap is 0"),
            (money().unit("usd", 6), "usd/6 is no unit"),
            (money().unit("", 6), "is no unit"),
            (money().unit("USD", 13), "USD/13 is no unit"),
        ];
        for (policy, text) in cases {
            let error = policy.validate().unwrap_err().to_string();
            assert!(error.contains(text), "{error} does not say {text}");
        }
        money().validate().unwrap();
    }

    #[test]
    fn a_grant_resolves_to_its_root_and_the_least_ceiling_above_it() {
        let mut policy = money().family(Family::new("r").cost(1_000).ceiling(100));
        for depth in 0..10_000_u64 {
            let parent = depth.checked_sub(1).map_or("r".to_owned(), |above| format!("g{above}"));
            let grant = Grant::new(format!("g{depth}"), parent);
            policy.grants.push(if depth == 5 { grant.ceiling(40) } else { grant });
        }
        let resolved = |id: &str| policy.resolve(id).map(|(family, ceiling)| (family.root.clone(), ceiling));
        assert_eq!(resolved("r"), Some(("r".to_owned(), Some(100))));
        assert_eq!(resolved("g4"), Some(("r".to_owned(), Some(100))));
        assert_eq!(resolved("g9999"), Some(("r".to_owned(), Some(40))));
        assert_eq!(resolved("stranger"), None);
    }

    #[test]
    fn a_policy_reads_back_as_it_was_written() {
        let policy = money()
            .scope(
                Scope::keyed("user")
                    .limit(Limit::tokens(5, Window::rolling(Duration::from_secs(60)).unwrap())),
            )
            .family(Family::new("r").cost(10).ceiling(5))
            .grant(Grant::new("a", "r").ceiling(1))
            .tiers(Tiers::new().reduced_at(1).counting([Dimension::Runs, Dimension::Cost]))
            .reduced(ReducedProfile { model: Some("small".into()), ..ReducedProfile::default() });
        let json = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<SpendPolicy>(&json).unwrap(), policy);
    }
}
