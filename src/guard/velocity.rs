//! Calls and spend per grant: two limits whose marks share one word.

use super::config::limit_names::{INVOCATIONS, SPEND};
use super::config::{log_rate_gap, too_big_together};
use super::{
    Details, Guard, GuardContext, GuardDecision, MemoryBudgetConfig, Planned, Refill, VelocityConfig,
};
use crate::kernel::KernelError;
use crate::key::{Key, KeyBytes};
use crate::limiter::Shared;
use crate::plan::Plan;
use crate::quota::Arithmetic;
use crate::table::cell::TAG;
use crate::table::limits::{Costs, Limits};
use crate::table::{Table, check_bucket_cap};
use crate::time::{Clock, EngineClock};
use crate::{ConfigError, LimitName};
use std::fmt;

const NAME: &str = "velocity";

/// Limits calls and spend for each `(capability, grant)`.
///
/// A call draws one invocation, and of the spend what its grant declares as `max_cost_per_invocation`; both or
/// neither, by one exchange of one word. A limit reached is `Ok` with [`Verdict::Deny`](super::Verdict::Deny);
/// what cannot be judged is an error, which a kernel takes as a refusal.
///
/// ```
/// use tollgate::guard::{Capability, Guard, GuardContext, Scope, ToolCallRequest, ToolGrant};
/// use tollgate::guard::{Verdict, VelocityConfig, VelocityGuard};
///
/// let guard = VelocityGuard::new(VelocityConfig {
///     max_invocations_per_window: Some(2),
///     max_spend_per_window: Some(1_000),
///     window_secs: 60,
///     burst_factor: 1.0,
/// });
/// let scope = Scope { grants: vec![ToolGrant::new("srv", "search").costing(600, "USD")] };
/// let request = ToolCallRequest { capability: Capability { id: "cap".into(), scope: scope.clone() }, ..Default::default() };
/// let context = GuardContext {
///     request: &request, scope: &scope, agent_id: "a", server_id: "srv", matched_grant_index: Some(0),
/// };
/// assert_eq!(guard.evaluate(&context)?, Verdict::Allow);
/// let decision = guard.evaluate(&context)?;
/// assert_eq!(decision, Verdict::Deny);
/// assert_eq!(decision.refusal().unwrap().limit.as_str(), "velocity.spend");
/// # Ok::<(), tollgate::kernel::KernelError>(())
/// ```
pub struct VelocityGuard {
    limits: Result<Configured, ConfigError>,
    currency: Option<String>,
}

/// Which limits there are, and their table.
enum Configured {
    Neither,
    /// Lane 0.
    Invocations(Box<Table>),
    /// Lane 0.
    Spend(Box<Table>),
    /// Lanes 0 and 1.
    Both(Box<Table>),
}

/// Builds a [`VelocityGuard`].
#[derive(Debug)]
#[must_use]
pub struct VelocityGuardBuilder {
    config: VelocityConfig,
    refill: Refill,
    currency: Option<String>,
    shared: Shared,
}

/// Whole tokens left per limit, rounded down; `None` where the limit is not configured or the call has no grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VelocityRemaining {
    /// Invocations.
    pub invocations: Option<u64>,
    /// Spend.
    pub spend: Option<u64>,
}

/// The arithmetic in force per limit; `None` where the limit is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VelocityArithmetic {
    /// Invocations.
    pub invocations: Option<Arithmetic>,
    /// Spend.
    pub spend: Option<Arithmetic>,
}

/// What one call draws.
struct Draw<'g> {
    owner: &'g Table,
    grant: usize,
    costs: Costs,
}

impl VelocityGuard {
    /// A guard with the default table and clock. If the configuration cannot be built, every evaluation returns
    /// that error; [`try_new`](Self::try_new) says so at once.
    pub fn new(config: VelocityConfig) -> Self {
        let limits = Self::builder(config).configured();
        if let Err(error) = &limits {
            tracing::error!(target: "tollgate::guard", guard = NAME, %error, "guard refuses every call");
        }
        Self { limits, currency: None }
    }

    /// A guard with the default table and clock.
    ///
    /// # Errors
    /// As [`VelocityGuardBuilder::build`].
    pub fn try_new(config: VelocityConfig) -> Result<Self, ConfigError> {
        Self::builder(config).build()
    }

    /// A guard with at most `bucket_cap` buckets.
    ///
    /// # Errors
    /// As [`VelocityGuardBuilder::build`].
    pub fn with_bucket_cap(config: VelocityConfig, bucket_cap: usize) -> Result<Self, ConfigError> {
        Self::builder(config).bucket_cap(bucket_cap).build()
    }

    /// A guard with as many buckets as the memory budget allows.
    ///
    /// # Errors
    /// As [`VelocityGuardBuilder::build`].
    pub fn from_memory_budget(
        config: VelocityConfig,
        budget: &MemoryBudgetConfig,
    ) -> Result<Self, ConfigError> {
        Self::with_bucket_cap(config, budget.velocity_bucket_cap)
    }

    /// Starts from a configuration and the defaults: 65,536 buckets, milli-token refill, any currency, the
    /// monotonic clock.
    pub fn builder(config: VelocityConfig) -> VelocityGuardBuilder {
        VelocityGuardBuilder { config, refill: Refill::default(), currency: None, shared: Shared::default() }
    }

    #[inline(always)]
    fn configured(&self) -> Result<&Configured, KernelError> {
        self.limits.as_ref().map_err(|error| internal(error.to_string()))
    }

    /// What a call draws; `None` when no limit applies.
    #[inline(always)]
    fn draw(&self, ctx: &GuardContext<'_>) -> Result<Option<Draw<'_>>, KernelError> {
        let configured = self.configured()?;
        let Some(owner) = configured.table() else { return Ok(None) };
        let grant = ctx.matched_grant_index.ok_or_else(|| {
            internal("matched_grant_index is missing: this guard's limits belong to grants".into())
        })?;
        let costs = match configured {
            Configured::Neither | Configured::Invocations(_) => [1, 0],
            Configured::Spend(_) => [self.planned_cost(ctx, grant)?, 0],
            Configured::Both(_) => [1, self.planned_cost(ctx, grant)?],
        };
        Ok(Some(Draw { owner, grant, costs }))
    }

    /// What the grant declares as the most that one invocation may cost.
    #[inline(always)]
    fn planned_cost(&self, ctx: &GuardContext<'_>, grant: usize) -> Result<u64, KernelError> {
        let grants = ctx.scope.grants.len();
        let declared = ctx.scope.grants.get(grant).ok_or_else(|| {
            internal(format!("matched_grant_index {grant} is out of range: the scope has {grants} grants"))
        })?;
        let cost = declared.max_cost_per_invocation.as_ref().ok_or_else(|| {
            internal(format!(
                "grant {grant} declares no max_cost_per_invocation, which a spend limit needs to plan with"
            ))
        })?;
        match &self.currency {
            Some(currency) if *currency != cost.currency => Err(internal(format!(
                "grant {grant} declares its cost in {:?}, the spend limit is in {currency:?}",
                cost.currency
            ))),
            _ => Ok(cost.units),
        }
    }

    /// Whole tokens left for the call's grant; a limit without a bucket shows its capacity.
    pub fn remaining(&self, ctx: &GuardContext<'_>) -> VelocityRemaining {
        let Ok(configured) = &self.limits else { return VelocityRemaining::default() };
        let (Some(owner), Some(grant)) = (configured.table(), ctx.matched_grant_index) else {
            return VelocityRemaining::default();
        };
        let mut buffer = KeyBytes::default();
        let (tag, bytes) = key(ctx, grant, &mut buffer);
        let (buckets, now) = owner.peek(&owner.pack(tag, bytes), 0);
        let [invocations, spend] = configured.by_limit(|lane| buckets.available(lane, now));
        VelocityRemaining { invocations, spend }
    }

    /// The arithmetic in force: capacity, rate, resolution and horizon of each limit.
    pub fn arithmetic(&self) -> VelocityArithmetic {
        let Ok(configured) = &self.limits else { return VelocityArithmetic::default() };
        let Some(owner) = configured.table() else { return VelocityArithmetic::default() };
        let [invocations, spend] = configured.by_limit(|lane| *owner.limits.arithmetic(0, lane));
        VelocityArithmetic { invocations, spend }
    }

    /// Buckets in use, at most the `bucket_cap`; a grant has one for each configured limit.
    pub fn bucket_count(&self) -> usize {
        self.table().map_or(0, |table| table.len())
    }

    /// Forgets every bucket that is full again and returns how many.
    pub fn prune_refilled(&self) -> usize {
        self.table().map_or(0, |table| table.prune_refilled())
    }

    /// Bytes reserved; pages that no grant has touched cost nothing yet.
    pub fn memory_bytes(&self) -> usize {
        self.table().map_or(0, |table| table.memory_bytes())
    }

    fn table(&self) -> Option<&Table> {
        self.limits.as_ref().ok().and_then(Configured::table)
    }
}

impl Configured {
    fn table(&self) -> Option<&Table> {
        match self {
            Configured::Neither => None,
            Configured::Invocations(owner) | Configured::Spend(owner) | Configured::Both(owner) => {
                Some(owner)
            }
        }
    }

    /// `[invocations, spend]`, from what `of` says of their lanes.
    fn by_limit<T>(&self, of: impl Fn(usize) -> T) -> [Option<T>; 2] {
        match self {
            Configured::Neither => [None, None],
            Configured::Invocations(_) => [Some(of(0)), None],
            Configured::Spend(_) => [None, Some(of(0))],
            Configured::Both(_) => [Some(of(0)), Some(of(1))],
        }
    }
}

/// A grant's key, as tag and bytes: limits follow the capability's id, not the token that carries it.
#[inline(always)]
fn key<'k>(ctx: &GuardContext<'k>, grant: usize, buffer: &'k mut KeyBytes) -> (u32, &'k [u8]) {
    const LAST: u32 = (1 << TAG) - 1;
    let id = ctx.request.capability.id.as_bytes();
    match u32::try_from(grant) {
        Ok(grant) if grant < LAST => (grant, id),
        // Too large for a tag: spelled before the id.
        _ => {
            (&grant, id).encode(buffer);
            (LAST, buffer.as_slice())
        }
    }
}

fn internal(text: String) -> KernelError {
    KernelError::Internal(format!("{NAME}: {text}"))
}

impl Guard for VelocityGuard {
    fn name(&self) -> &str {
        NAME
    }

    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        let Some(Draw { owner, grant, costs }) = self.draw(ctx)? else { return Ok(GuardDecision::allow()) };
        if costs == [0, 0] {
            return Ok(GuardDecision::allow());
        }
        let mut buffer = KeyBytes::default();
        let (tag, bytes) = key(ctx, grant, &mut buffer);
        Ok(match owner.draw(&owner.pack(tag, bytes), 0, costs) {
            Ok(_) => GuardDecision::allow(),
            Err(refused) => GuardDecision::deny(NAME, Details::Refused(refused)),
        })
    }

    fn plan<'g>(&'g self, ctx: &GuardContext<'_>, plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        if let Some(Draw { owner, grant, costs }) = self.draw(ctx)? {
            let mut buffer = KeyBytes::default();
            let (tag, bytes) = key(ctx, grant, &mut buffer);
            plan.draw(owner, 0, tag, costs, |key| key.raw(bytes));
        }
        Ok(Planned::InPlan)
    }
}

impl VelocityGuardBuilder {
    /// The most buckets, up to 16,777,216; 65,536 if not set. With both limits a grant takes two.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.shared.bucket_cap = buckets;
        self
    }

    /// How limits refill: [`Refill::MilliToken`] (documented, default) or [`Refill::Exact`].
    pub fn refill(mut self, refill: Refill) -> Self {
        self.refill = refill;
        self
    }

    /// The currency that grants must declare their cost in; any if not set.
    pub fn currency(mut self, currency: impl Into<String>) -> Self {
        self.currency = Some(currency.into());
        self
    }

    /// The clock; a [`MonotonicClock`](crate::time::MonotonicClock) if not set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.shared.clock = EngineClock::new(clock);
        self
    }

    /// Builds it. A limit whose achieved rate is more than 1 % off the asked one is logged once.
    ///
    /// # Errors
    /// Names the field, the value and what is accepted: `window_secs` 0, `burst_factor` not finite or not above
    /// 0, a limit whose counter would not last five years, a `bucket_cap` without room for one grant.
    pub fn build(mut self) -> Result<VelocityGuard, ConfigError> {
        let currency = self.currency.take();
        Ok(VelocityGuard { limits: Ok(self.configured()?), currency })
    }

    fn configured(self) -> Result<Configured, ConfigError> {
        let VelocityConfig { window_secs, burst_factor, .. } = self.config;
        let limit = |name: &'static str, field, per_window: Option<u64>| -> Result<_, ConfigError> {
            let Some(per_window) = per_window else { return Ok(None) };
            let quota = self.refill.limit(field, per_window, window_secs, burst_factor)?;
            log_rate_gap(name, &quota);
            Ok(Some((LimitName::from(name), quota)))
        };
        let per_window = self.config.max_invocations_per_window.map(u64::from);
        let invocations = limit(INVOCATIONS, "max_invocations_per_window", per_window)?;
        let spend = limit(SPEND, "max_spend_per_window", self.config.max_spend_per_window)?;
        let together = |error| too_big_together(&self.config, error);
        let Shared { clock, bucket_cap } = self.shared;
        let table = |limits: Limits| Table::new(limits, clock, bucket_cap);
        Ok(match (invocations, spend) {
            (None, None) => {
                // Checked all the same: a mistake should not wait until a limit is added.
                self.refill.quota(0, window_secs, burst_factor)?;
                check_bucket_cap(bucket_cap, 1)?;
                Configured::Neither
            }
            (Some(limit), None) => Configured::Invocations(table(Limits::lone(vec![limit])?)?),
            (None, Some(limit)) => Configured::Spend(table(Limits::lone(vec![limit])?)?),
            (Some(invocations), Some(spend)) => {
                Configured::Both(table(Limits::pair([invocations, spend]).map_err(together)?)?)
            }
        })
    }
}

impl fmt::Debug for VelocityGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VelocityGuard")
            .field("error", &self.limits.as_ref().err())
            .field("buckets", &self.bucket_count())
            .finish_non_exhaustive()
    }
}
