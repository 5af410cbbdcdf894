//! Guards: what decides a call before a kernel dispatches it.

mod agent_velocity;
mod config;
pub(crate) mod contained;
mod context;
mod decision;
mod pipeline;
mod velocity;

pub use agent_velocity::{
    AgentVelocityArithmetic, AgentVelocityGuard, AgentVelocityGuardBuilder, AgentVelocityRemaining,
};
pub(crate) use config::limit_names;
pub use config::{AgentVelocityConfig, MemoryBudgetConfig, Refill, VelocityConfig};
pub use context::{Capability, GuardContext, MonetaryAmount, Scope, ToolCallRequest, ToolGrant};
pub use decision::{Details, GuardDecision, GuardEvidence, Verdict};
pub use pipeline::GuardPipeline;
pub(crate) use pipeline::Tally;
pub use velocity::{VelocityArithmetic, VelocityGuard, VelocityGuardBuilder, VelocityRemaining};

use crate::Plan;
use crate::kernel::KernelError;

/// Judges calls before they are dispatched.
pub trait Guard: Send + Sync {
    /// The guard's name, as evidence spells it.
    fn name(&self) -> &str;

    /// Decides a call.
    ///
    /// # Errors
    /// When the guard cannot judge the call; a kernel and a pipeline take that as a deny.
    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError>;

    /// Adds the draws that this guard would commit to `plan`, as draws of the plan's current stage, so that
    /// an atomic pipeline can commit them with those of other guards. A guard that does not draw (the
    /// default) is evaluated instead.
    ///
    /// # Errors
    /// As [`evaluate`](Guard::evaluate).
    fn plan<'g>(&'g self, _ctx: &GuardContext<'_>, _plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        Ok(Planned::Evaluate)
    }
}

/// Whether a guard put its decision into a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planned {
    /// Its draws (none at all, if no limit applies) are in the plan; committing them is its decision.
    InPlan,
    /// It has no plan: call [`Guard::evaluate`].
    Evaluate,
}
