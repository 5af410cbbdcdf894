//! The two guards, alone, in series and in an atomic pipeline, against the table model and the exact oracle: random
//! calls, one after another. Runs on the engine's guards and on those behind one lock.

#[path = "support/guard_model.rs"]
mod guard_model;
#[path = "support/oracle.rs"]
mod oracle;
mod support;
#[path = "support/table_model.rs"]
mod table_model;
#[path = "support/traces.rs"]
mod traces;

use guard_model::{Answer, GuardModel};
use oracle::Line;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use support::shared::Shared;
use support::{AgentVelocity, Call, SERVER, Setup, TOOL, Velocity};
use table_model::Layout;
use tollgate::baseline;
use tollgate::guard::{
    self, AgentVelocityConfig, Details, Guard, GuardDecision, GuardPipeline, MonetaryAmount, Refill,
    ToolGrant, VelocityConfig, Verdict,
};
use tollgate::kernel::KernelError;
use tollgate::time::{Clock, ManualClock};
use traces::{assert_same_refusal, pause};

/// The configurations of both guards and what their tables hold.
#[derive(Debug, Clone)]
struct Configured {
    velocity: VelocityConfig,
    agent: AgentVelocityConfig,
    refill: Refill,
    currency: Option<&'static str>,
    caps: (usize, usize),
}

#[derive(Debug, Clone)]
struct Step {
    pause: Duration,
    agent: u8,
    capability: u8,
    grant: Option<usize>,
    prune: bool,
}

/// Limits whose tokens come at whole milliseconds under an exact refill, so that every grid gives the same waits.
fn per_window() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0, 1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 500, 1_000])
}

fn configured() -> impl Strategy<Value = Configured> {
    let limits = || (prop::option::weighted(0.8, per_window()), prop::option::weighted(0.8, per_window()));
    let window = || prop_oneof![3 => 1..4u64, 1 => 1..100u64];
    let burst = || prop_oneof![3 => Just(1.0), 1 => Just(1.5), 1 => 0.01..4.0f64];
    let caps = || prop_oneof![2 => 2..6usize, 1 => 2..=64usize];
    let refill = prop_oneof![Just(Refill::MilliToken), Just(Refill::Exact)];
    let currency = prop::option::of(Just("USD"));
    (limits(), limits(), (window(), window()), (burst(), burst()), refill, currency, (caps(), caps()))
        .prop_map(|(velocity, agent, windows, bursts, refill, currency, caps)| Configured {
            velocity: VelocityConfig {
                max_invocations_per_window: velocity.0,
                max_spend_per_window: velocity.1.map(u64::from),
                window_secs: windows.0,
                burst_factor: bursts.0,
            },
            agent: AgentVelocityConfig {
                max_requests_per_agent: agent.0,
                max_requests_per_session: agent.1,
                window_secs: windows.1,
                burst_factor: bursts.1,
            },
            refill,
            currency,
            caps,
        })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let grant =
        prop_oneof![12 => (0..3usize).prop_map(Some), 2 => (3..9usize).prop_map(Some), 1 => Just(None)];
    let step = (pause(), 0..4u8, 0..6u8, grant, prop::bool::weighted(0.05))
        .prop_map(|(pause, agent, capability, grant, prune)| Step { pause, agent, capability, grant, prune });
    prop::collection::vec(step, 1..90)
}

/// Grants that cost a little, much and nothing, one in another currency, one that declares no cost.
fn grants() -> Vec<ToolGrant> {
    let grant = || ToolGrant::new(SERVER, TOOL);
    let euros = MonetaryAmount { units: 2, currency: "EUR".into() };
    vec![
        grant().costing(1, "USD"),
        grant().costing(7, "USD"),
        grant().costing(90, "USD"),
        grant().costing(0, "USD"),
        ToolGrant { max_cost_per_invocation: Some(euros), ..grant() },
        grant(),
        grant().costing(u64::MAX, "USD"),
    ]
}

impl Step {
    fn call(&self) -> Call {
        // Some capabilities have ids too long for a cell.
        let long = if self.capability % 2 == 0 { "" } else { "-0123456789-0123456789-0123456789-0123456789" };
        Call::with_grants(&format!("capability-{}{long}", self.capability), grants())
            .by(&format!("agent-{}", self.agent))
            .matching(self.grant)
    }
}

impl Configured {
    fn line(&self, per_window: u64, window_secs: u64, burst_factor: f64) -> Line {
        match self.refill {
            Refill::MilliToken => Line::milli_token(per_window, window_secs, burst_factor, 64),
            Refill::Exact => Line::exact_burst(per_window, window_secs, burst_factor, 64),
        }
        .expect("small numbers can be counted")
    }

    fn setup(&self, bucket_cap: usize, clock: &ManualClock) -> Setup {
        Setup { bucket_cap, refill: self.refill, ..Setup::new(clock) }
    }

    fn build_velocity<V: Velocity>(&self, clock: &ManualClock) -> V {
        V::build(self.velocity, Setup { currency: self.currency, ..self.setup(self.caps.0, clock) }).unwrap()
    }

    fn build_agent<A: AgentVelocity>(&self, clock: &ManualClock) -> A {
        A::build(self.agent, self.setup(self.caps.1, clock)).unwrap()
    }

    fn velocity_model(&self) -> GuardModel {
        let VelocityConfig { max_invocations_per_window, max_spend_per_window, window_secs, burst_factor } =
            self.velocity;
        let line = |per_window| self.line(per_window, window_secs, burst_factor);
        GuardModel::new(
            [
                ("velocity.invocations", max_invocations_per_window.map(|n| line(n.into()))),
                ("velocity.spend", max_spend_per_window.map(line)),
            ],
            Layout::Together,
            self.caps.0,
        )
    }

    fn agent_model(&self) -> GuardModel {
        let AgentVelocityConfig {
            max_requests_per_agent,
            max_requests_per_session,
            window_secs,
            burst_factor,
        } = self.agent;
        let line = |per_window: u32| self.line(per_window.into(), window_secs, burst_factor);
        GuardModel::new(
            [
                ("agent_velocity.agent", max_requests_per_agent.map(line)),
                ("agent_velocity.session", max_requests_per_session.map(line)),
            ],
            Layout::Apart,
            self.caps.1,
        )
    }

    /// What the call draws on the velocity guard's limits, or `None` where the guard cannot judge it.
    fn velocity_draws(&self, call: &Call) -> Option<[(String, u64); 2]> {
        let config = self.velocity;
        if config.max_invocations_per_window.is_none() && config.max_spend_per_window.is_none() {
            return Some([(String::new(), 0), (String::new(), 0)]);
        }
        let grant = call.grant?;
        let key = format!("{grant} of {}", call.request.capability.id);
        let mut cost = 0;
        if config.max_spend_per_window.is_some() {
            let declared =
                call.request.capability.scope.grants.get(grant)?.max_cost_per_invocation.as_ref()?;
            if self.currency.is_some_and(|currency| currency != declared.currency) {
                return None;
            }
            cost = declared.units;
        }
        Some([(key.clone(), 1), (key, cost)])
    }

    fn agent_draws(&self, call: &Call) -> Option<[(String, u64); 2]> {
        let (agent, capability) = (&call.request.agent_id, &call.request.capability.id);
        Some([(agent.clone(), 1), (format!("{agent} with {capability}"), 1)])
    }
}

/// The decision must be the model's answer; `name` is the guard that the evidence must name.
fn assert_same(decision: &GuardDecision, answer: &Answer, model: &GuardModel, name: &str, place: &str) {
    match answer {
        Answer::Allow => assert_eq!(*decision, GuardDecision::allow(), "{place}"),
        Answer::Error => {
            assert_eq!(*decision, Verdict::Deny, "{place}");
            assert!(
                matches!(&decision.evidence[0].details, Some(Details::FailedClosed(_))),
                "{place}: {decision:?}"
            );
        }
        Answer::Refused(exact) => {
            assert_eq!(*decision, Verdict::Deny, "{place}: the model says {exact:?}");
            let ours = decision.refusal().unwrap_or_else(|| panic!("{place}: {decision:?}"));
            assert_same_refusal(ours, exact, &model.names(), place);
        }
    }
    let named: Vec<_> = decision.evidence.iter().map(|piece| (&*piece.guard_name, piece.verdict)).collect();
    let expected = if *answer == Answer::Allow { vec![] } else { vec![(name, Verdict::Deny)] };
    assert_eq!(named, expected, "{place}");
}

/// An error as a pipeline takes it, so that guards and pipelines compare alike.
fn closed(name: &'static str, answer: Result<GuardDecision, KernelError>) -> GuardDecision {
    answer.unwrap_or_else(|error| {
        assert!(matches!(error, KernelError::Internal(_)), "{error:?}");
        GuardDecision::deny(name, Details::FailedClosed(error))
    })
}

fn assert_velocity_state<V: Velocity>(
    guard: &V,
    config: &Configured,
    model: &mut GuardModel,
    call: &Call,
    prune: bool,
    now: u64,
) {
    let left = guard.left(call);
    let key = |grant: usize| format!("{grant} of {}", call.request.capability.id);
    let exact = |limit| call.grant.and_then(|grant| model.available(limit, &key(grant), now));
    assert_eq!((left.invocations, left.spend), (exact(0), exact(1)));
    if prune {
        guard.prune_refilled();
        model.forget_refilled(now);
    }
    model.assert_count(guard.bucket_count(), config.caps.0, now);
}

fn assert_agent_state<A: AgentVelocity>(
    guard: &A,
    config: &Configured,
    model: &mut GuardModel,
    call: &Call,
    prune: bool,
    now: u64,
) {
    let left = guard.left(call);
    let [(agent, _), (session, _)] = config.agent_draws(call).unwrap();
    assert_eq!(
        (left.agent, left.session),
        (model.available(0, &agent, now), model.available(1, &session, now))
    );
    if prune {
        guard.prune_refilled();
        model.forget_refilled(now);
    }
    model.assert_count(guard.bucket_count(), config.caps.1, now);
}

/// How often each kind of answer was given.
type Kinds = BTreeMap<&'static str, usize>;

fn kind(answer: &Answer) -> &'static str {
    match answer {
        Answer::Allow => "allow",
        Answer::Error => "error",
        Answer::Refused(refused) => refused.reason.as_str(),
    }
}

fn run_velocity<V: Velocity>(config: &Configured, trace: &[Step], kinds: &mut Kinds) {
    let clock = ManualClock::new();
    let (guard, mut model) = (config.build_velocity::<V>(&clock), config.velocity_model());
    for (number, step) in trace.iter().enumerate() {
        clock.advance(step.pause);
        let (call, now) = (step.call(), clock.now());
        let answer = model.call(now, config.velocity_draws(&call));
        *kinds.entry(kind(&answer)).or_default() += 1;
        let decision = closed("velocity", guard.evaluate(&call.context()));
        assert_same(&decision, &answer, &model, "velocity", &format!("step {number} at {now}: {step:?}"));
        assert_velocity_state(&guard, config, &mut model, &call, step.prune, now);
    }
}

fn run_agent<A: AgentVelocity>(config: &Configured, trace: &[Step], kinds: &mut Kinds) {
    let clock = ManualClock::new();
    let (guard, mut model) = (config.build_agent::<A>(&clock), config.agent_model());
    for (number, step) in trace.iter().enumerate() {
        clock.advance(step.pause);
        let (call, now) = (step.call(), clock.now());
        let answer = model.call(now, config.agent_draws(&call));
        *kinds.entry(kind(&answer)).or_default() += 1;
        let decision = closed("agent-velocity", guard.evaluate(&call.context()));
        assert_same(
            &decision,
            &answer,
            &model,
            "agent-velocity",
            &format!("step {number} at {now}: {step:?}"),
        );
        assert_agent_state(&guard, config, &mut model, &call, step.prune, now);
    }
}

/// Both guards in one pipeline, the agent's first.
fn run_pipeline<A: AgentVelocity, V: Velocity>(config: &Configured, trace: &[Step], atomic: bool) {
    let clock = ManualClock::new();
    let agent = Arc::new(config.build_agent::<A>(&clock));
    let velocity = Arc::new(config.build_velocity::<V>(&clock));
    let (mut agent_model, mut velocity_model) = (config.agent_model(), config.velocity_model());
    let mut pipeline = if atomic { GuardPipeline::atomic() } else { GuardPipeline::new() };
    pipeline.add(Box::new(Shared(agent.clone())));
    pipeline.add(Box::new(Shared(velocity.clone())));
    for (number, step) in trace.iter().enumerate() {
        clock.advance(step.pause);
        let (call, now) = (step.call(), clock.now());
        let place = format!("step {number} at {now}: {step:?}");
        let (first, second) = (config.agent_draws(&call), config.velocity_draws(&call));
        let decision = pipeline.evaluate(&call.context()).expect("a pipeline turns errors into denies");
        if atomic && second.is_some() {
            let answers = (agent_model.judge(now, first.clone()), velocity_model.judge(now, second.clone()));
            match &answers {
                (Answer::Allow, Answer::Allow) => {
                    assert_same(&decision, &Answer::Allow, &agent_model, "", &place);
                    agent_model.call(now, first);
                    velocity_model.call(now, second);
                }
                (Answer::Allow, later) => assert_same(&decision, later, &velocity_model, "velocity", &place),
                (earlier, _) => assert_same(&decision, earlier, &agent_model, "agent-velocity", &place),
            }
        } else if atomic {
            assert_same(&decision, &Answer::Error, &velocity_model, "velocity", &place);
        } else {
            match agent_model.call(now, first) {
                Answer::Allow => {
                    let answer = velocity_model.call(now, second);
                    assert_same(&decision, &answer, &velocity_model, "velocity", &place);
                }
                refused => assert_same(&decision, &refused, &agent_model, "agent-velocity", &place),
            }
        }
        assert_agent_state(&*agent, config, &mut agent_model, &call, step.prune, now);
        assert_velocity_state(&*velocity, config, &mut velocity_model, &call, step.prune, now);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_velocity_guard_decides_as_the_model_does(config in configured(), trace in steps()) {
        run_velocity::<guard::VelocityGuard>(&config, &trace, &mut Kinds::new());
        run_velocity::<baseline::VelocityGuard>(&config, &trace, &mut Kinds::new());
    }

    #[test]
    fn the_agent_velocity_guard_decides_as_the_model_does(config in configured(), trace in steps()) {
        run_agent::<guard::AgentVelocityGuard>(&config, &trace, &mut Kinds::new());
        run_agent::<baseline::AgentVelocityGuard>(&config, &trace, &mut Kinds::new());
    }

    #[test]
    fn a_series_decides_as_the_models_in_series_do(config in configured(), trace in steps()) {
        run_pipeline::<guard::AgentVelocityGuard, guard::VelocityGuard>(&config, &trace, false);
        run_pipeline::<baseline::AgentVelocityGuard, baseline::VelocityGuard>(&config, &trace, false);
    }

    #[test]
    fn an_atomic_pipeline_draws_on_all_limits_or_on_none(config in configured(), trace in steps()) {
        run_pipeline::<guard::AgentVelocityGuard, guard::VelocityGuard>(&config, &trace, true);
    }
}

#[test]
fn the_traces_meet_every_kind_of_answer() {
    let mut runner = TestRunner::deterministic();
    let (mut velocity, mut agent) = (Kinds::new(), Kinds::new());
    for _ in 0..60 {
        let (config, trace) = (configured(), steps()).new_tree(&mut runner).unwrap().current();
        run_velocity::<guard::VelocityGuard>(&config, &trace, &mut velocity);
        run_agent::<guard::AgentVelocityGuard>(&config, &trace, &mut agent);
    }
    for kind in ["allow", "error", "impossible", "exhausted", "table-full"] {
        assert!(velocity.get(kind).is_some_and(|&n| n >= 20), "{kind}: {velocity:?}");
        assert!(kind == "error" || agent.get(kind).is_some_and(|&n| n >= 20), "{kind}: {agent:?}");
    }
}
