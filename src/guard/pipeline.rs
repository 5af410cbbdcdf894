//! Several guards as one.

use super::{Details, Guard, GuardContext, GuardDecision, GuardEvidence, Planned, Verdict, contained};
use crate::kernel::KernelError;
use crate::plan::{Plan, PlanRefused};
use smallvec::SmallVec;
use std::fmt;

/// Guards in the order they were added, as one guard.
///
/// In both kinds of pipeline the first guard that denies decides and later guards are not asked; a guard that
/// fails, by an error or a panic, denies (fail-closed), with evidence that names it; a guard that holds the
/// call for approval is remembered, the later ones are asked, and a later deny wins. A pipeline without guards
/// allows. The evidence of every guard that did not simply allow is kept, in order.
///
/// # Series
///
/// [`new`](Self::new): guards are independent. Each one that allows has taken its tokens, so a call that
/// clears one guard and is refused by the next has drained the first.
///
/// # Atomic
///
/// [`atomic`](Self::atomic): a refusal anywhere drains nothing anywhere. Each guard in turn adds its draws to
/// one [`Plan`] or, if it has none to plan ([`Planned::Evaluate`]), is evaluated at once; then one commit takes
/// all draws, or none. So guards that are evaluated, and guards that cannot judge the call, decide before any
/// limit does, wherever they stand; of several limits that refuse, that of the earliest guard is named.
///
/// A call that is held for approval draws nothing: held is refused for now, and the call draws when it comes
/// again. The limits are not consulted for it, so it can still be refused then.
///
/// What a guard does while it is evaluated cannot be taken back. That includes a series pipeline inside an
/// atomic one, whose guards draw on their own. An atomic pipeline inside an atomic one shares its commit if
/// all its guards plan; otherwise it is evaluated too, and commits on its own.
///
/// ```
/// use tollgate::guard::{AgentVelocityConfig, AgentVelocityGuard, GuardPipeline, VelocityConfig, VelocityGuard};
///
/// let mut pipeline = GuardPipeline::new();
/// pipeline.add(Box::new(AgentVelocityGuard::new(AgentVelocityConfig {
///     max_requests_per_agent: Some(600),
///     ..AgentVelocityConfig::default()
/// })));
/// pipeline.add(Box::new(VelocityGuard::new(VelocityConfig {
///     max_spend_per_window: Some(1_000),
///     ..VelocityConfig::default()
/// })));
/// assert_eq!(pipeline.len(), 2);
/// ```
#[derive(Default)]
pub struct GuardPipeline {
    guards: Vec<Box<dyn Guard>>,
    atomic: bool,
}

/// The guards that put draws into a plan: for each the first of its stages, in ascending order.
type Owners<'g> = SmallVec<[(usize, &'g dyn Guard); 4]>;

impl GuardPipeline {
    /// An empty pipeline in series.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty atomic pipeline.
    pub fn atomic() -> Self {
        Self { guards: Vec::new(), atomic: true }
    }

    /// Adds a guard behind those already there.
    pub fn add(&mut self, guard: Box<dyn Guard>) {
        self.guards.push(guard);
    }

    /// How many guards it has. A pipeline inside counts as one.
    pub fn len(&self) -> usize {
        self.guards.len()
    }

    /// Has it no guards?
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty()
    }

    fn evaluate_in_series(&self, ctx: &GuardContext<'_>) -> GuardDecision {
        let mut tally = Tally::new();
        for guard in &self.guards {
            tally.add_or_fail(guard.name(), contained::evaluate(guard.as_ref(), ctx));
            if tally.verdict() == Verdict::Deny {
                break;
            }
        }
        tally.into_decision()
    }

    fn evaluate_atomically(&self, ctx: &GuardContext<'_>) -> GuardDecision {
        let mut tally = Tally::new();
        let mut plan = Plan::new();
        let mut owners = Owners::new();
        for guard in &self.guards {
            match plan_stage(guard.as_ref(), ctx, &mut plan, &mut owners) {
                Ok(Planned::InPlan) => {}
                Ok(Planned::Evaluate) => {
                    tally.add_or_fail(guard.name(), contained::evaluate(guard.as_ref(), ctx));
                }
                Err(error) => tally.add_or_fail(guard.name(), Err(error)),
            }
            if tally.verdict() == Verdict::Deny {
                return tally.into_decision();
            }
        }
        if tally.verdict() == Verdict::Allow {
            if let Err(PlanRefused { stage, refusal }) = plan.take_all() {
                let owner = owners.iter().rev().find(|(first, _)| *first <= stage);
                // Every stage was opened for some guard; a refusal from nowhere would still be one.
                let name = owner.map_or(self.name(), |(_, guard)| guard.name());
                tally.add(name, GuardDecision::deny(name.to_owned(), Details::Refused(refusal)));
            }
        }
        tally.into_decision()
    }
}

/// Lets `guard` plan in a stage of its own, which may grow into several if it opens more.
fn plan_stage<'g>(
    guard: &'g dyn Guard,
    ctx: &GuardContext<'_>,
    plan: &mut Plan<'g>,
    owners: &mut Owners<'g>,
) -> Result<Planned, KernelError> {
    if !owners.is_empty() {
        plan.next_stage();
    }
    let first = plan.stage();
    let planned = contained::plan(guard, ctx, plan)?;
    if planned == Planned::InPlan {
        owners.push((first, guard));
    }
    Ok(planned)
}

impl Guard for GuardPipeline {
    fn name(&self) -> &str {
        "guard-pipeline"
    }

    /// Never an error: a guard that fails is a deny.
    fn evaluate(&self, ctx: &GuardContext<'_>) -> Result<GuardDecision, KernelError> {
        Ok(if self.atomic { self.evaluate_atomically(ctx) } else { self.evaluate_in_series(ctx) })
    }

    fn plan<'g>(&'g self, ctx: &GuardContext<'_>, plan: &mut Plan<'g>) -> Result<Planned, KernelError> {
        if !self.atomic {
            return Ok(Planned::Evaluate);
        }
        // Draws cannot be taken out of a plan again, so a plan to throw away tells whether all guards have one.
        let mut trial = Plan::new();
        for guard in &self.guards {
            if contained::plan(guard.as_ref(), ctx, &mut trial)? == Planned::Evaluate {
                return Ok(Planned::Evaluate);
            }
        }
        let mut owners = Owners::new();
        for guard in &self.guards {
            if plan_stage(guard.as_ref(), ctx, plan, &mut owners)? == Planned::Evaluate {
                return Err(KernelError::Internal(format!(
                    "guard {} planned and then would not: a guard's plan must depend on the call alone",
                    guard.name()
                )));
            }
        }
        Ok(Planned::InPlan)
    }
}

impl fmt::Debug for GuardPipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.guards.iter().map(|guard| guard.name()).collect();
        f.debug_struct("GuardPipeline").field("atomic", &self.atomic).field("guards", &names).finish()
    }
}

/// The decision of several guards while they are asked in order.
pub(crate) struct Tally(GuardDecision);

impl Tally {
    pub(crate) fn new() -> Self {
        Self(GuardDecision::allow())
    }

    pub(crate) fn verdict(&self) -> Verdict {
        self.0.verdict
    }

    pub(crate) fn into_decision(self) -> GuardDecision {
        self.0
    }

    /// Takes in one guard's decision: a deny outweighs a hold, which outweighs an allow. A guard that does
    /// not allow and gives no evidence is named all the same.
    pub(crate) fn add(&mut self, name: &str, decision: GuardDecision) {
        let GuardDecision { verdict, evidence } = decision;
        if verdict != Verdict::Allow && evidence.is_empty() {
            self.0.evidence.push(GuardEvidence {
                guard_name: name.to_owned().into(),
                verdict,
                details: None,
            });
        }
        self.0.evidence.extend(evidence);
        self.0.verdict = match (self.0.verdict, verdict) {
            (Verdict::Deny, _) | (_, Verdict::Deny) => Verdict::Deny,
            (Verdict::PendingApproval, _) | (_, Verdict::PendingApproval) => Verdict::PendingApproval,
            (Verdict::Allow, Verdict::Allow) => Verdict::Allow,
        };
    }

    /// Takes in one guard's answer, where an error is a deny. The innermost guard that failed is named.
    fn add_or_fail(&mut self, name: &str, answer: Result<GuardDecision, KernelError>) {
        let mut error = match answer {
            Ok(decision) => return self.add(name, decision),
            Err(error) => error,
        };
        let mut name = name.to_owned();
        while let KernelError::GuardFailed { guard, error: inner } = error {
            (name, error) = (guard, *inner);
        }
        self.add("", GuardDecision::deny(name, Details::FailedClosed(error)));
    }
}
