//! Asking a guard without trusting it: an error names the guard, and a panic is an error.

use super::{Guard, GuardContext, GuardDecision, Planned};
use crate::Plan;
use crate::kernel::KernelError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// [`Guard::evaluate`], where a panic is [`KernelError::Internal`] and an error
/// [`KernelError::GuardFailed`]; both name the guard.
pub(crate) fn evaluate(guard: &dyn Guard, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
    contain(guard, || guard.evaluate(ctx))
}

/// [`Guard::plan`], likewise. After an error `plan` may hold some of the guard's draws: do not commit it.
pub(crate) fn plan<'g>(
    guard: &'g dyn Guard,
    ctx: &GuardContext<'_>,
    plan: &mut Plan<'g>,
) -> Result<Planned, KernelError> {
    contain(guard, || guard.plan(ctx, plan))
}

fn contain<T>(guard: &dyn Guard, ask: impl FnOnce() -> Result<T, KernelError>) -> Result<T, KernelError> {
    // Unwind safety: the guard is shared, so what it leaves behind when it panics is between it and its next
    // caller, as with any other thread; a plan is dropped.
    match catch_unwind(AssertUnwindSafe(ask)) {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            Err(KernelError::GuardFailed { guard: guard.name().to_owned(), error: Box::new(error) })
        }
        Err(panic) => Err(KernelError::Internal(format!(
            "guard {} panicked, so the call was refused: {}",
            guard.name(),
            message(panic.as_ref())
        ))),
    }
}

fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}
