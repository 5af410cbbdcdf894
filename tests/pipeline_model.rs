//! Pipelines of the engine's guards against pipelines of the baseline's, on random calls one after another:
//! the same decision every time, down to the evidence and the wait.

mod support;

use proptest::prelude::*;
use std::sync::Arc;
use support::shared::Shared;
use support::{AgentVelocity, Call, SERVER, Setup, TOOL, Velocity, millis};
use tollgate::baseline;
use tollgate::guard::{
    AgentVelocityConfig, AgentVelocityGuard, Details, Guard, GuardContext, GuardDecision, GuardPipeline,
    Refill, ToolGrant, VelocityConfig, VelocityGuard, Verdict,
};
use tollgate::time::ManualClock;

/// Limits low enough that every kind of refusal is common.
#[derive(Debug, Clone, Copy)]
struct Limits {
    agent: AgentVelocityConfig,
    grant: VelocityConfig,
    agent_cap: usize,
    grant_cap: usize,
    refill: Refill,
}

#[derive(Debug, Clone)]
struct Step {
    wait_ms: u64,
    agent: u8,
    capability: u8,
    grant: usize,
    /// `None`: the grant declares no cost, so that a spend limit cannot judge the call.
    cost: Option<u64>,
}

fn limits() -> impl Strategy<Value = Limits> {
    let agent = (
        proptest::option::of(0u32..5),
        proptest::option::of(0u32..4),
        1u64..3,
        prop_oneof![Just(0.5), Just(1.0), Just(2.0)],
    );
    let grant = (
        proptest::option::of(0u32..4),
        proptest::option::of(0u64..8),
        1u64..3,
        prop_oneof![Just(0.5), Just(1.0), Just(1.5)],
    );
    let refill = prop_oneof![Just(Refill::MilliToken), Just(Refill::Exact)];
    (agent, grant, 2usize..8, 2usize..8, refill).prop_map(|(agent, grant, agent_cap, grant_cap, refill)| {
        let agent = AgentVelocityConfig {
            max_requests_per_agent: agent.0,
            max_requests_per_session: agent.1,
            window_secs: agent.2,
            burst_factor: agent.3,
        };
        let grant = VelocityConfig {
            max_invocations_per_window: grant.0,
            max_spend_per_window: grant.1,
            window_secs: grant.2,
            burst_factor: grant.3,
        };
        Limits { agent, grant, agent_cap, grant_cap, refill }
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![4 => Just(0u64), 2 => 1u64..400, 1 => 400u64..3_000];
    let cost = prop_oneof![1 => Just(None), 20 => (0u64..9).prop_map(Some)];
    let step =
        (wait, 0u8..3, 0u8..3, 0usize..2, cost).prop_map(|(wait_ms, agent, capability, grant, cost)| Step {
            wait_ms,
            agent,
            capability,
            grant,
            cost,
        });
    proptest::collection::vec(step, 1..80)
}

impl Step {
    fn call(&self) -> Call {
        let mut grant = ToolGrant::new(SERVER, TOOL);
        if let Some(cost) = self.cost {
            grant = grant.costing(cost, "USD");
        }
        let capability = format!("capability-{}", self.capability);
        let call = Call::with_grants(&capability, vec![grant.clone(), grant]);
        call.by(&format!("agent-{}", self.agent)).matching(Some(self.grant))
    }
}

fn guards<A: AgentVelocity, V: Velocity>(limits: Limits, clock: &ManualClock) -> (Arc<A>, Arc<V>) {
    let setup = |bucket_cap| Setup { refill: limits.refill, ..Setup::cap(clock, bucket_cap) };
    let agent = A::build(limits.agent, setup(limits.agent_cap)).expect("small numbers can be counted");
    let grant = V::build(limits.grant, setup(limits.grant_cap)).expect("small numbers can be counted");
    (Arc::new(agent), Arc::new(grant))
}

/// A decision without what the two may say differently: the words of an error.
fn comparable(mut decision: GuardDecision) -> GuardDecision {
    for piece in &mut decision.evidence {
        if let Some(Details::FailedClosed(_)) = &piece.details {
            piece.details = Some(Details::Text("failed closed".into()));
        }
    }
    decision
}

fn failed(name: &'static str) -> GuardDecision {
    GuardDecision::deny(name, Details::Text("failed closed".into()))
}

/// An atomic pipeline by the plainest means: whoever cannot judge the call decides, then whoever would deny it,
/// and only if nobody does are the tokens taken.
fn decide_atomically(
    agent: &baseline::AgentVelocityGuard,
    grant: &baseline::VelocityGuard,
    ctx: &GuardContext<'_>,
) -> GuardDecision {
    let Ok(first) = agent.preview(ctx) else { return failed("agent-velocity") };
    let Ok(second) = grant.preview(ctx) else { return failed("velocity") };
    if let Some(deny) = [first, second].into_iter().find(|decision| *decision == Verdict::Deny) {
        return deny;
    }
    for guard in [agent as &dyn Guard, grant] {
        assert_eq!(guard.evaluate(ctx), Ok(GuardDecision::allow()), "as it said a moment ago");
    }
    GuardDecision::allow()
}

type Engine = (Arc<AgentVelocityGuard>, Arc<VelocityGuard>);
type Plain = (Arc<baseline::AgentVelocityGuard>, Arc<baseline::VelocityGuard>);

fn in_a_pipeline<A: Guard + 'static, V: Guard + 'static>(
    (agent, grant): &(Arc<A>, Arc<V>),
    mut pipeline: GuardPipeline,
) -> GuardPipeline {
    pipeline.add(Box::new(Shared(agent.clone())));
    pipeline.add(Box::new(Shared(grant.clone())));
    pipeline
}

/// Both make the same decisions, have the same tokens left, and stay below their caps. Returns how many calls
/// were allowed.
fn compare(limits: Limits, steps: &[Step], atomic: bool) -> Result<usize, TestCaseError> {
    let clock = ManualClock::new();
    let engine: Engine = guards(limits, &clock);
    let plain: Plain = guards(limits, &clock);
    let kind = if atomic { GuardPipeline::atomic() } else { GuardPipeline::new() };
    let pipeline = in_a_pipeline(&engine, kind);
    let series = in_a_pipeline(&plain, GuardPipeline::new());
    let mut allowed = 0;
    for (number, step) in steps.iter().enumerate() {
        clock.advance(millis(step.wait_ms));
        let call = step.call();
        let ctx = call.context();
        let expected = match atomic {
            true => decide_atomically(&plain.0, &plain.1, &ctx),
            false => series.evaluate(&ctx).expect("a pipeline turns errors into denies"),
        };
        let decision = pipeline.evaluate(&ctx).expect("a pipeline turns errors into denies");
        allowed += usize::from(decision == Verdict::Allow);
        let (decision, expected) = (comparable(decision), comparable(expected));
        prop_assert_eq!(decision, expected, "call {}: {:?}", number, step);
        prop_assert_eq!(engine.0.left(&call), plain.0.left(&call), "call {}: {:?}", number, step);
        prop_assert_eq!(engine.1.left(&call), plain.1.left(&call), "call {}: {:?}", number, step);
        prop_assert!(engine.0.bucket_count() <= limits.agent_cap);
        prop_assert!(engine.1.bucket_count() <= limits.grant_cap);
    }
    Ok(allowed)
}

proptest! {
    // A failure is printed as its smallest case; nothing is written beside the sources.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_series_decides_as_one_behind_locks_does(limits in limits(), steps in steps()) {
        compare(limits, &steps, false)?;
    }

    #[test]
    fn an_atomic_pipeline_decides_as_one_that_asks_first_and_takes_later(
        limits in limits(), steps in steps()
    ) {
        compare(limits, &steps, true)?;
    }
}
