//! Requests per agent and per session.

use super::{Guard, GuardContext, GuardDecision, Planned, Refill, AgentVelocityConfig};
use crate::kernel::KernelError;
use crate::time::Clock;
use crate::{ConfigError, Plan};

/// Limits requests per agent and per session.
pub struct AgentVelocityGuard(());

/// Builds a [`AgentVelocityGuard`].
pub struct AgentVelocityGuardBuilder(());

/// Whole tokens left per configured limit; `None` where the limit is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentVelocityRemaining {
    /// Requests of the agent.
    pub agent: Option<u64>,
    /// Requests of the session.
    pub session: Option<u64>,
}

impl AgentVelocityGuard {
    /// A guard that answers every evaluation with the configuration's error if it has one.
    pub fn new(_config: AgentVelocityConfig) -> Self {
        todo!()
    }
    /// A guard, or what is wrong with the configuration.
    pub fn try_new(_config: AgentVelocityConfig) -> Result<Self, ConfigError> {
        todo!()
    }
    /// A guard of at most so many buckets.
    pub fn with_bucket_cap(_config: AgentVelocityConfig, _buckets: usize) -> Result<Self, ConfigError> {
        todo!()
    }
    /// A guard with the bucket cap of a memory budget.
    pub fn from_memory_budget(_config: AgentVelocityConfig, _budget: &super::MemoryBudgetConfig) -> Result<Self, ConfigError> {
        todo!()
    }
    /// Forgets the buckets that are full again, and returns how many.
    pub fn prune_refilled(&self) -> usize {
        todo!()
    }
    /// Starts from a configuration.
    pub fn builder(_config: AgentVelocityConfig) -> AgentVelocityGuardBuilder {
        todo!()
    }
    /// Whole tokens left for the call's grant; a limit without a bucket shows its capacity.
    pub fn remaining(&self, _ctx: &GuardContext<'_>) -> AgentVelocityRemaining {
        todo!()
    }
    /// Live buckets.
    pub fn bucket_count(&self) -> usize {
        todo!()
    }
}
impl AgentVelocityGuardBuilder {
    /// The most buckets; a call takes one for each configured limit.
    #[must_use]
    pub fn bucket_cap(self, _buckets: usize) -> Self {
        todo!()
    }
    /// Milli-token (documented, default) or exact.
    #[must_use]
    pub fn refill(self, _refill: Refill) -> Self {
        todo!()
    }
    /// The clock.
    #[must_use]
    pub fn clock<C: Clock>(self, _clock: C) -> Self {
        todo!()
    }
    /// Builds it.
    pub fn build(self) -> Result<AgentVelocityGuard, ConfigError> {
        todo!()
    }
}
impl Guard for AgentVelocityGuard {
    fn name(&self) -> &str {
        "agent-velocity"
    }
    fn evaluate(&self, _ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        todo!()
    }
    fn plan<'g>(&'g self, _ctx: &GuardContext<'_>, _plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        todo!()
    }
}
