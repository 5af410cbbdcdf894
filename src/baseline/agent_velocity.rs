//! Requests per agent and per session, behind one lock.

use super::DEFAULT_BUCKET_CAP;
use super::table::{Draw, KeyBuffer, Limit, Mode, Table};
use crate::ConfigError;
use crate::guard::limit_names::{AGENT, SESSION};
use crate::guard::{AgentVelocityConfig, AgentVelocityRemaining, MemoryBudgetConfig, Refill};
use crate::guard::{Details, Guard, GuardContext, GuardDecision};
use crate::kernel::KernelError;
use crate::time::{Clock, EngineClock};
use crate::word::LONE_MARK;
use smallvec::SmallVec;

const NAME: &str = "agent-velocity";

/// [`crate::guard::AgentVelocityGuard`] behind one lock: same limits, same answers.
pub struct AgentVelocityGuard {
    /// A guard whose configuration is broken answers every call with what is wrong.
    buckets: Result<Buckets, ConfigError>,
}

/// Both limits' buckets, and which limit of the table is which.
struct Buckets {
    table: Table<1>,
    agent: Option<usize>,
    session: Option<usize>,
}

/// Builds an [`AgentVelocityGuard`].
#[must_use]
pub struct AgentVelocityGuardBuilder {
    config: AgentVelocityConfig,
    bucket_cap: usize,
    refill: Refill,
    clock: EngineClock,
}

impl AgentVelocityGuard {
    /// A guard with the default bucket cap and clock. If the configuration has an error, every evaluation
    /// returns it; [`try_new`](Self::try_new) says so at once.
    pub fn new(config: AgentVelocityConfig) -> Self {
        Self::try_new(config).unwrap_or_else(|error| Self { buckets: Err(error) })
    }

    /// A guard with the default bucket cap and clock.
    ///
    /// # Errors
    /// As [`AgentVelocityGuardBuilder::build`].
    pub fn try_new(config: AgentVelocityConfig) -> Result<Self, ConfigError> {
        Self::builder(config).build()
    }

    /// A guard of at most `buckets` buckets.
    ///
    /// # Errors
    /// As [`AgentVelocityGuardBuilder::build`].
    pub fn with_bucket_cap(config: AgentVelocityConfig, buckets: usize) -> Result<Self, ConfigError> {
        Self::builder(config).bucket_cap(buckets).build()
    }

    /// A guard with the bucket cap of a memory budget.
    ///
    /// # Errors
    /// As [`AgentVelocityGuardBuilder::build`].
    pub fn from_memory_budget(
        config: AgentVelocityConfig,
        budget: &MemoryBudgetConfig,
    ) -> Result<Self, ConfigError> {
        Self::with_bucket_cap(config, budget.velocity_bucket_cap)
    }

    /// Starts from a configuration.
    pub fn builder(config: AgentVelocityConfig) -> AgentVelocityGuardBuilder {
        AgentVelocityGuardBuilder {
            config,
            bucket_cap: DEFAULT_BUCKET_CAP,
            refill: Refill::default(),
            clock: EngineClock::default(),
        }
    }

    /// Whole tokens left for the call's agent and session. A limit without a bucket shows its capacity.
    pub fn remaining(&self, ctx: &GuardContext<'_>) -> AgentVelocityRemaining {
        let Ok(Buckets { table, agent, session }) = &self.buckets else {
            return AgentVelocityRemaining::default();
        };
        AgentVelocityRemaining {
            agent: agent.map(|limit| table.available(&agent_key(ctx), limit)[0]),
            session: session.map(|limit| table.available(&session_key(ctx), limit)[0]),
        }
    }

    /// Live buckets, of agents and of sessions.
    pub fn bucket_count(&self) -> usize {
        self.buckets.as_ref().map_or(0, |buckets| buckets.table.buckets())
    }

    /// Forgets the buckets that are full again, and returns how many.
    pub fn prune_refilled(&self) -> usize {
        self.buckets.as_ref().map_or(0, |buckets| buckets.table.prune_refilled())
    }
}

/// The first byte keeps agents and sessions apart in their common table.
fn agent_key(ctx: &GuardContext<'_>) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(b"a");
    key.extend_from_slice(ctx.agent_id.as_bytes());
    key
}

/// The agent's length stands before it, so that no two pairs have the same bytes.
fn session_key(ctx: &GuardContext<'_>) -> KeyBuffer {
    let mut key = KeyBuffer::from_slice(b"s");
    key.extend_from_slice(&ctx.agent_id.len().to_le_bytes());
    key.extend_from_slice(ctx.agent_id.as_bytes());
    key.extend_from_slice(ctx.request.capability.id.as_bytes());
    key
}

impl AgentVelocityGuard {
    /// What [`evaluate`](Guard::evaluate) would answer now, without drawing: a model of an atomic pipeline asks
    /// every guard so before it evaluates any.
    ///
    /// # Errors
    /// As [`evaluate`](Guard::evaluate).
    pub fn preview(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        self.decide(ctx, Mode::Preview)
    }

    fn decide(&self, ctx: &GuardContext<'_>, mode: Mode) -> Result<GuardDecision, KernelError> {
        let Buckets { table, agent, session } = match &self.buckets {
            Ok(buckets) => buckets,
            Err(error) => return Err(KernelError::Internal(format!("agent-velocity guard: {error}"))),
        };
        let mut draws = SmallVec::<[Draw<1>; 2]>::new();
        if let Some(limit) = *agent {
            draws.push(Draw::new(agent_key(ctx), limit, [1]));
        }
        if let Some(limit) = *session {
            draws.push(Draw::new(session_key(ctx), limit, [1]));
        }
        if draws.is_empty() {
            return Ok(GuardDecision::allow());
        }
        Ok(match table.decide(mode, &mut draws) {
            Ok(_) => GuardDecision::allow(),
            Err(refusal) => GuardDecision::deny(NAME, Details::Refused(refusal)),
        })
    }
}

impl Guard for AgentVelocityGuard {
    fn name(&self) -> &str {
        NAME
    }

    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        self.decide(ctx, Mode::Draw)
    }
}

impl AgentVelocityGuardBuilder {
    /// The most buckets; a call takes one for each configured limit. 65,536 unless set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.bucket_cap = buckets;
        self
    }

    /// Milli-token (documented, default) or exact.
    pub fn refill(mut self, refill: Refill) -> Self {
        self.refill = refill;
        self
    }

    /// The clock; the monotonic one unless set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.clock = EngineClock::new(clock);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A window of 0 or above 18,446,744,073 seconds, a burst factor that is not finite or not above 0, a
    /// number too big to count for five years, or a bucket cap below one call's buckets.
    pub fn build(self) -> Result<AgentVelocityGuard, ConfigError> {
        let Self { config, bucket_cap, refill, clock } = self;
        // Without a limit the other fields are unused; a broken one is a mistake all the same.
        refill.quota(1, config.window_secs, config.burst_factor)?;
        let mut limits = Vec::new();
        let mut add = |name: &'static str, limit: Option<u32>| -> Result<Option<usize>, ConfigError> {
            let Some(limit) = limit else { return Ok(None) };
            let quota = refill.quota(limit.into(), config.window_secs, config.burst_factor)?;
            limits.push(Limit { name: name.into(), line: quota.arithmetic(LONE_MARK)? });
            Ok(Some(limits.len() - 1))
        };
        let agent = add(AGENT, config.max_requests_per_agent)?;
        let session = add(SESSION, config.max_requests_per_session)?;
        let entries_per_call = limits.len();
        let table = Table::new(limits, bucket_cap, entries_per_call, clock)?;
        Ok(AgentVelocityGuard { buckets: Ok(Buckets { table, agent, session }) })
    }
}
