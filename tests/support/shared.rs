//! One guard in two hands.

use std::sync::Arc;
use tollgate::Plan;
use tollgate::guard::{Guard, GuardContext, GuardDecision, Planned};
use tollgate::kernel::KernelError;

/// A guard that stays readable while a pipeline owns it.
pub struct Shared<G>(pub Arc<G>);

impl<G: Guard> Guard for Shared<G> {
    fn name(&self) -> &str {
        self.0.name()
    }
    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        self.0.evaluate(ctx)
    }
    fn plan<'g>(&'g self, ctx: &GuardContext<'_>, plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        self.0.plan(ctx, plan)
    }
}
