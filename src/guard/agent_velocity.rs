//! Requests per agent and per session: two buckets in two cells, drawn on together.

use super::config::limit_names::{AGENT, SESSION};
use super::config::log_rate_gap;
use super::{
    AgentVelocityConfig, Details, Guard, GuardContext, GuardDecision, MemoryBudgetConfig, Planned, Refill,
};
use crate::kernel::KernelError;
use crate::key::KeyBytes;
use crate::limiter::Shared;
use crate::plan::Plan;
use crate::quota::Arithmetic;
use crate::table::limits::Limits;
use crate::table::{Table, check_bucket_cap};
use crate::time::{Clock, EngineClock};
use crate::{ConfigError, LimitName};
use std::fmt;

const NAME: &str = "agent-velocity";

/// Limits requests per agent, and per session: an agent's use of one capability.
///
/// A call draws one request of each configured limit, both or neither: a session that is refused takes nothing
/// from its agent, and a new session of a refused agent leaves no bucket behind.
///
/// ```
/// use tollgate::guard::{AgentVelocityConfig, AgentVelocityGuard, Capability, Guard, GuardContext};
/// use tollgate::guard::{Scope, ToolCallRequest, Verdict};
///
/// let guard = AgentVelocityGuard::new(AgentVelocityConfig {
///     max_requests_per_agent: Some(10),
///     max_requests_per_session: Some(1),
///     window_secs: 60,
///     burst_factor: 1.0,
/// });
/// let request = ToolCallRequest { capability: Capability { id: "cap".into(), ..Default::default() }, ..Default::default() };
/// let scope = Scope::default();
/// let context = GuardContext {
///     request: &request, scope: &scope, agent_id: "agent-7", server_id: "srv", matched_grant_index: None,
/// };
/// assert_eq!(guard.evaluate(&context)?, Verdict::Allow);
/// let decision = guard.evaluate(&context)?;
/// assert_eq!(decision.refusal().unwrap().limit.as_str(), "agent_velocity.session");
/// assert_eq!(guard.remaining(&context).agent, Some(9));
/// # Ok::<(), tollgate::kernel::KernelError>(())
/// ```
pub struct AgentVelocityGuard {
    limits: Result<Configured, ConfigError>,
}

/// Which limits there are, as numbers in the table.
struct Configured {
    table: Option<Box<Table>>,
    agent: Option<u32>,
    session: Option<u32>,
}

/// Builds an [`AgentVelocityGuard`].
#[derive(Debug)]
#[must_use]
pub struct AgentVelocityGuardBuilder {
    config: AgentVelocityConfig,
    refill: Refill,
    shared: Shared,
}

/// Whole tokens left per limit, rounded down; `None` where the limit is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentVelocityRemaining {
    /// Requests of the agent.
    pub agent: Option<u64>,
    /// Requests of the session.
    pub session: Option<u64>,
}

/// The arithmetic in force per limit; `None` where the limit is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentVelocityArithmetic {
    /// Requests of an agent.
    pub agent: Option<Arithmetic>,
    /// Requests of a session.
    pub session: Option<Arithmetic>,
}

impl AgentVelocityGuard {
    /// A guard with the default table and clock. If the configuration cannot be built, every evaluation returns
    /// that error; [`try_new`](Self::try_new) says so at once.
    pub fn new(config: AgentVelocityConfig) -> Self {
        let limits = Self::builder(config).configured();
        if let Err(error) = &limits {
            tracing::error!(target: "tollgate::guard", guard = NAME, %error, "guard refuses every call");
        }
        Self { limits }
    }

    /// A guard with the default table and clock.
    ///
    /// # Errors
    /// As [`AgentVelocityGuardBuilder::build`].
    pub fn try_new(config: AgentVelocityConfig) -> Result<Self, ConfigError> {
        Self::builder(config).build()
    }

    /// A guard with at most `bucket_cap` buckets.
    ///
    /// # Errors
    /// As [`AgentVelocityGuardBuilder::build`].
    pub fn with_bucket_cap(config: AgentVelocityConfig, bucket_cap: usize) -> Result<Self, ConfigError> {
        Self::builder(config).bucket_cap(bucket_cap).build()
    }

    /// A guard with as many buckets as the memory budget allows.
    ///
    /// # Errors
    /// As [`AgentVelocityGuardBuilder::build`].
    pub fn from_memory_budget(
        config: AgentVelocityConfig,
        budget: &MemoryBudgetConfig,
    ) -> Result<Self, ConfigError> {
        Self::with_bucket_cap(config, budget.velocity_bucket_cap)
    }

    /// Starts from a configuration and the defaults: 65,536 buckets, milli-token refill, the monotonic clock.
    pub fn builder(config: AgentVelocityConfig) -> AgentVelocityGuardBuilder {
        AgentVelocityGuardBuilder { config, refill: Refill::default(), shared: Shared::default() }
    }

    /// Whole requests left for the call's agent and session; a limit without a bucket shows its capacity.
    pub fn remaining(&self, ctx: &GuardContext<'_>) -> AgentVelocityRemaining {
        let Ok(Configured { table: Some(table), agent, session }) = &self.limits else {
            return AgentVelocityRemaining::default();
        };
        let left = |limit: u32, spell: Spell| {
            let mut key = KeyBytes::default();
            spell(ctx, &mut key);
            let (buckets, now) = table.peek(&table.pack(limit, key.as_slice()), limit);
            buckets.available(0, now)
        };
        AgentVelocityRemaining {
            agent: agent.map(|limit| left(limit, agent_key)),
            session: session.map(|limit| left(limit, session_key)),
        }
    }

    /// The arithmetic in force: capacity, rate, resolution and horizon of each limit.
    pub fn arithmetic(&self) -> AgentVelocityArithmetic {
        let Ok(Configured { table: Some(table), agent, session }) = &self.limits else {
            return AgentVelocityArithmetic::default();
        };
        let of = |limit: &Option<u32>| limit.map(|limit| *table.limits.arithmetic(limit, 0));
        AgentVelocityArithmetic { agent: of(agent), session: of(session) }
    }

    /// Buckets in use, at most the `bucket_cap`.
    pub fn bucket_count(&self) -> usize {
        self.table().map_or(0, |table| table.len())
    }

    /// Forgets every bucket that is full again and returns how many.
    pub fn prune_refilled(&self) -> usize {
        self.table().map_or(0, |table| table.prune_refilled())
    }

    /// Bytes reserved; pages that no agent has touched cost nothing yet.
    pub fn memory_bytes(&self) -> usize {
        self.table().map_or(0, |table| table.memory_bytes())
    }

    fn table(&self) -> Option<&Table> {
        self.limits.as_ref().ok()?.table.as_deref()
    }
}

/// Appends the key of one of a call's buckets.
type Spell = fn(&GuardContext<'_>, &mut KeyBytes);

fn agent_key(ctx: &GuardContext<'_>, key: &mut KeyBytes) {
    key.raw(ctx.agent_id.as_bytes());
}

fn session_key(ctx: &GuardContext<'_>, key: &mut KeyBytes) {
    key.part(ctx.agent_id.as_bytes());
    key.raw(ctx.request.capability.id.as_bytes());
}

impl Guard for AgentVelocityGuard {
    fn name(&self) -> &str {
        NAME
    }

    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        let mut plan = Plan::new();
        self.plan(ctx, &mut plan)?;
        Ok(match plan.take_all() {
            Ok(()) => GuardDecision::allow(),
            Err(refused) => GuardDecision::deny(NAME, Details::Refused(refused.refusal)),
        })
    }

    fn plan<'g>(&'g self, ctx: &GuardContext<'_>, plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        let configured =
            self.limits.as_ref().map_err(|error| KernelError::Internal(format!("{NAME}: {error}")))?;
        if let Configured { table: Some(table), agent, session } = configured {
            if let Some(limit) = *agent {
                plan.draw(table, limit, limit, [1, 0], |key| agent_key(ctx, key));
            }
            if let Some(limit) = *session {
                plan.draw(table, limit, limit, [1, 0], |key| session_key(ctx, key));
            }
        }
        Ok(Planned::InPlan)
    }
}

impl AgentVelocityGuardBuilder {
    /// The most buckets, up to 16,777,216; 65,536 if not set. An agent takes one, and each session one.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.shared.bucket_cap = buckets;
        self
    }

    /// How limits refill: [`Refill::MilliToken`] (documented, default) or [`Refill::Exact`].
    pub fn refill(mut self, refill: Refill) -> Self {
        self.refill = refill;
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
    /// 0, a `bucket_cap` without room for one call.
    pub fn build(self) -> Result<AgentVelocityGuard, ConfigError> {
        Ok(AgentVelocityGuard { limits: Ok(self.configured()?) })
    }

    fn configured(self) -> Result<Configured, ConfigError> {
        let AgentVelocityConfig { window_secs, burst_factor, .. } = self.config;
        let mut limits = Vec::new();
        let mut limit = |name: &'static str, field, per_window: Option<u32>| -> Result<_, ConfigError> {
            let Some(per_window) = per_window else { return Ok(None) };
            let quota = self.refill.limit(field, per_window.into(), window_secs, burst_factor)?;
            log_rate_gap(name, &quota);
            limits.push((LimitName::from(name), quota));
            Ok(Some(limits.len() as u32 - 1))
        };
        let agent = limit(AGENT, "max_requests_per_agent", self.config.max_requests_per_agent)?;
        let session = limit(SESSION, "max_requests_per_session", self.config.max_requests_per_session)?;
        let needed = limits.len();
        if needed == 0 {
            // Checked all the same: a mistake should not wait until a limit is added.
            self.refill.quota(0, window_secs, burst_factor)?;
            check_bucket_cap(self.shared.bucket_cap, 1)?;
            return Ok(Configured { table: None, agent, session });
        }
        let Shared { clock, bucket_cap } = self.shared;
        check_bucket_cap(bucket_cap, needed)?;
        let table = Table::new(Limits::lone(limits)?, clock, bucket_cap)?;
        Ok(Configured { table: Some(table), agent, session })
    }
}

impl fmt::Debug for AgentVelocityGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentVelocityGuard")
            .field("error", &self.limits.as_ref().err())
            .field("buckets", &self.bucket_count())
            .finish_non_exhaustive()
    }
}
