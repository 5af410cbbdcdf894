//! Calls and spend per grant.

use super::{Guard, GuardContext, GuardDecision, Planned, Refill, VelocityConfig};
use crate::kernel::KernelError;
use crate::time::Clock;
use crate::{ConfigError, Plan};

/// Limits calls and spend per `(capability, grant)`.
pub struct VelocityGuard(());

/// Builds a [`VelocityGuard`].
pub struct VelocityGuardBuilder(());

/// Whole tokens left per configured limit; `None` where the limit is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VelocityRemaining {
    /// Invocations.
    pub invocations: Option<u64>,
    /// Spend.
    pub spend: Option<u64>,
}

impl VelocityGuard {
    /// A guard that answers every evaluation with the configuration's error if it has one.
    pub fn new(_config: VelocityConfig) -> Self {
        todo!()
    }
    /// A guard, or what is wrong with the configuration.
    pub fn try_new(_config: VelocityConfig) -> Result<Self, ConfigError> {
        todo!()
    }
    /// A guard of at most so many buckets.
    pub fn with_bucket_cap(_config: VelocityConfig, _buckets: usize) -> Result<Self, ConfigError> {
        todo!()
    }
    /// A guard with the bucket cap of a memory budget.
    pub fn from_memory_budget(_config: VelocityConfig, _budget: &super::MemoryBudgetConfig) -> Result<Self, ConfigError> {
        todo!()
    }
    /// Forgets the buckets that are full again, and returns how many.
    pub fn prune_refilled(&self) -> usize {
        todo!()
    }
    /// Starts from a configuration.
    pub fn builder(_config: VelocityConfig) -> VelocityGuardBuilder {
        todo!()
    }
    /// Whole tokens left for the call's grant; a limit without a bucket shows its capacity.
    pub fn remaining(&self, _ctx: &GuardContext<'_>) -> VelocityRemaining {
        todo!()
    }
    /// Live buckets.
    pub fn bucket_count(&self) -> usize {
        todo!()
    }
}
impl VelocityGuardBuilder {
    /// The most buckets; a grant takes one for each configured limit.
    #[must_use]
    pub fn bucket_cap(self, _buckets: usize) -> Self {
        todo!()
    }
    /// Milli-token (documented, default) or exact.
    #[must_use]
    pub fn refill(self, _refill: Refill) -> Self {
        todo!()
    }
    /// Accept only this currency.
    #[must_use]
    pub fn currency(self, _currency: impl Into<String>) -> Self {
        todo!()
    }
    /// The clock.
    #[must_use]
    pub fn clock<C: Clock>(self, _clock: C) -> Self {
        todo!()
    }
    /// Builds it.
    pub fn build(self) -> Result<VelocityGuard, ConfigError> {
        todo!()
    }
}
impl Guard for VelocityGuard {
    fn name(&self) -> &str {
        "velocity"
    }
    fn evaluate(&self, _ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        todo!()
    }
    fn plan<'g>(&'g self, _ctx: &GuardContext<'_>, _plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        todo!()
    }
}
