//! The two guards, alone, in series and in an atomic pipeline, against the table model: sequences of calls.

mod input;

pub use input::Input;

use crate::guard_model::{Answer, GuardModel};
use crate::oracle::Line;
use crate::support::shared::Shared;
use crate::support::{AgentVelocity, Call, Setup, Velocity};
use crate::table_model::Layout;
use input::{Alone, Config};
use std::sync::Arc;
use std::time::Duration;
use tollgate::guard::{
    AgentVelocityGuard, Details, Guard, GuardDecision, GuardPipeline, Refill, VelocityGuard, Verdict,
};
use tollgate::kernel::KernelError;
use tollgate::quota::Arithmetic;
use tollgate::time::{Clock, ManualClock};

const VELOCITY: &str = "velocity";
const AGENT: &str = "agent-velocity";

/// # Panics
/// When a guard and its model disagree.
pub fn check(input: &Input) {
    let clock = ManualClock::new();
    let Some(agent) = Tested::agent(&input.config, &clock) else { return };
    let Some(velocity) = Tested::velocity(&input.config, &clock) else { return };
    let mut run = Run { clock, config: &input.config, agent, velocity };
    let steps = input.steps.iter().take(160);
    match input.alone {
        Alone::Agent => steps.for_each(|step| run.step(step, Run::ask_agent)),
        Alone::Velocity => steps.for_each(|step| run.step(step, Run::ask_velocity)),
        Alone::Series => {
            let pipeline = run.pipeline(GuardPipeline::new());
            steps.for_each(|step| run.step(step, |run, call| run.ask_series(&pipeline, call)));
        }
        Alone::Atomic => {
            let pipeline = run.pipeline(GuardPipeline::atomic());
            steps.for_each(|step| run.step(step, |run, call| run.ask_atomic(&pipeline, call)));
        }
    }
}

/// A guard and its model.
struct Tested<G> {
    guard: Arc<G>,
    model: GuardModel,
    cap: usize,
}

/// The model's line of a limit whose guard has chosen `ours`. The tick and the width that two marks in one word leave
/// room for are the guard's own choice.
fn line(ours: &Arithmetic, refill: Refill, per_window: u64, window_secs: u64, burst_factor: f64) -> Line {
    let line = match refill {
        Refill::MilliToken => Line::milli_token(per_window, window_secs, burst_factor, 64),
        Refill::Exact => Line::bucket_on(
            ours.resolution(),
            per_window,
            window_secs * 1_000_000_000,
            crate::oracle::burst_capacity(per_window, burst_factor).expect("the guard was built"),
            64,
        ),
    };
    let line = line.expect("what a lane can count, a mark of 64 bits can");
    assert_eq!(ours.capacity(), line.capacity);
    line.lasting_until(ours.horizon())
}

impl Tested<AgentVelocityGuard> {
    /// `None` where the numbers are too large for the guard.
    fn agent(config: &Config, clock: &ManualClock) -> Option<Self> {
        let (agent, cap) = (config.agent(), config.agent_cap());
        let setup = Setup { refill: config.refill(), ..Setup::cap(clock, cap) };
        let guard = match AgentVelocityGuard::build(agent, setup) {
            Ok(guard) => guard,
            Err(error) => return config.may_be_refused(&error),
        };
        let ours = guard.arithmetic();
        let line = |per_window: Option<u32>, ours: Option<Arithmetic>| {
            let line = |per_window: u32| {
                let ours = ours.expect("a configured limit has its arithmetic");
                line(&ours, config.refill(), per_window.into(), agent.window_secs, agent.burst_factor)
            };
            per_window.map(line)
        };
        let limits = [
            ("agent_velocity.agent", line(agent.max_requests_per_agent, ours.agent)),
            ("agent_velocity.session", line(agent.max_requests_per_session, ours.session)),
        ];
        Some(Self { guard: Arc::new(guard), model: GuardModel::new(limits, Layout::Apart, cap), cap })
    }

    fn assert_state(&mut self, call: &Call, prune: bool, now: u64) {
        let left = self.guard.left(call);
        let [(agent, _), (session, _)] = agent_draws(call);
        let exact = (self.model.available(0, &agent, now), self.model.available(1, &session, now));
        assert_eq!((left.agent, left.session), exact);
        if prune {
            self.guard.prune_refilled();
            self.model.forget_refilled(now);
        }
        self.model.assert_count(self.guard.bucket_count(), self.cap, now);
    }
}

impl Tested<VelocityGuard> {
    /// `None` where the numbers are too large for the guard.
    fn velocity(config: &Config, clock: &ManualClock) -> Option<Self> {
        let (velocity, cap) = (config.velocity(), config.velocity_cap());
        let setup = Setup { refill: config.refill(), currency: config.currency(), ..Setup::cap(clock, cap) };
        let guard = match VelocityGuard::build(velocity, setup) {
            Ok(guard) => guard,
            Err(error) => return config.may_be_refused(&error),
        };
        let ours = guard.arithmetic();
        let line = |per_window: Option<u64>, ours: Option<Arithmetic>| {
            let line = |per_window| {
                let ours = ours.expect("a configured limit has its arithmetic");
                line(&ours, config.refill(), per_window, velocity.window_secs, velocity.burst_factor)
            };
            per_window.map(line)
        };
        let limits = [
            (
                "velocity.invocations",
                line(velocity.max_invocations_per_window.map(u64::from), ours.invocations),
            ),
            ("velocity.spend", line(velocity.max_spend_per_window, ours.spend)),
        ];
        Some(Self { guard: Arc::new(guard), model: GuardModel::new(limits, Layout::Together, cap), cap })
    }

    fn assert_state(&mut self, call: &Call, prune: bool, now: u64) {
        let left = self.guard.left(call);
        let exact =
            |limit| call.grant.and_then(|grant| self.model.available(limit, &grant_key(call, grant), now));
        assert_eq!((left.invocations, left.spend), (exact(0), exact(1)));
        if prune {
            self.guard.prune_refilled();
            self.model.forget_refilled(now);
        }
        self.model.assert_count(self.guard.bucket_count(), self.cap, now);
    }
}

struct Run<'c> {
    clock: ManualClock,
    config: &'c Config,
    agent: Tested<AgentVelocityGuard>,
    velocity: Tested<VelocityGuard>,
}

impl Run<'_> {
    fn step(&mut self, step: &input::Step, ask: impl FnOnce(&mut Self, &Call) -> GuardDecision) {
        self.clock.advance(step.pause());
        if self.clock.now() > 4 * 31_557_600 * 1_000_000_000 {
            return; // near the horizon of the coarsest lane
        }
        let call = step.call();
        let decision = ask(self, &call);
        let now = self.clock.now();
        self.agent.assert_state(&call, step.prune, now);
        self.velocity.assert_state(&call, step.prune, now);
        if step.await_hint
            && let Some(wait) = decision.refusal().and_then(|refusal| refusal.retry_after)
        {
            // Or a nanosecond before it.
            self.clock.advance(wait.saturating_sub(Duration::from_nanos(step.early.into())));
        }
    }

    fn ask_agent(&mut self, call: &Call) -> GuardDecision {
        let answer = self.agent.model.call(self.clock.now(), Some(agent_draws(call)));
        let decision = closed(AGENT, self.agent.guard.evaluate(&call.context()));
        assert_same(&decision, &answer, &self.agent.model, AGENT);
        decision
    }

    fn ask_velocity(&mut self, call: &Call) -> GuardDecision {
        let answer = self.velocity.model.call(self.clock.now(), self.velocity_draws(call));
        let decision = closed(VELOCITY, self.velocity.guard.evaluate(&call.context()));
        assert_same(&decision, &answer, &self.velocity.model, VELOCITY);
        decision
    }

    /// Both guards, the agent's first.
    fn pipeline(&self, mut pipeline: GuardPipeline) -> GuardPipeline {
        pipeline.add(Box::new(Shared(self.agent.guard.clone())));
        pipeline.add(Box::new(Shared(self.velocity.guard.clone())));
        pipeline
    }

    fn ask_series(&mut self, pipeline: &GuardPipeline, call: &Call) -> GuardDecision {
        let (now, draws) = (self.clock.now(), self.velocity_draws(call));
        let decision = pipeline.evaluate(&call.context()).expect("a pipeline turns errors into denies");
        match self.agent.model.call(now, Some(agent_draws(call))) {
            Answer::Allow => {
                let answer = self.velocity.model.call(now, draws);
                assert_same(&decision, &answer, &self.velocity.model, VELOCITY);
            }
            refused => assert_same(&decision, &refused, &self.agent.model, AGENT),
        }
        decision
    }

    fn ask_atomic(&mut self, pipeline: &GuardPipeline, call: &Call) -> GuardDecision {
        let (now, draws) = (self.clock.now(), self.velocity_draws(call));
        let decision = pipeline.evaluate(&call.context()).expect("a pipeline turns errors into denies");
        let (agent, velocity) = (&mut self.agent.model, &mut self.velocity.model);
        let answers = (agent.judge(now, Some(agent_draws(call))), velocity.judge(now, draws.clone()));
        match answers {
            // What cannot be judged stops the call before anything is judged.
            (_, Answer::Error) => assert_same(&decision, &Answer::Error, velocity, VELOCITY),
            (Answer::Allow, Answer::Allow) => {
                assert_same(&decision, &Answer::Allow, agent, AGENT);
                agent.call(now, Some(agent_draws(call)));
                velocity.call(now, draws);
            }
            (Answer::Allow, later) => assert_same(&decision, &later, velocity, VELOCITY),
            (earlier, _) => assert_same(&decision, &earlier, agent, AGENT),
        }
        decision
    }

    /// What the call draws on the velocity guard's limits, or `None` where the guard cannot judge it.
    fn velocity_draws(&self, call: &Call) -> Option<[(String, u64); 2]> {
        let config = self.config.velocity();
        if config.max_invocations_per_window.is_none() && config.max_spend_per_window.is_none() {
            return Some([(String::new(), 0), (String::new(), 0)]);
        }
        let grant = call.grant?;
        let mut cost = 0;
        if config.max_spend_per_window.is_some() {
            let grants = &call.request.capability.scope.grants;
            let declared = grants.get(grant)?.max_cost_per_invocation.as_ref()?;
            if self.config.currency().is_some_and(|currency| currency != declared.currency) {
                return None;
            }
            cost = declared.units;
        }
        Some([(grant_key(call, grant), 1), (grant_key(call, grant), cost)])
    }
}

fn grant_key(call: &Call, grant: usize) -> String {
    format!("{grant} of {}", call.request.capability.id)
}

fn agent_draws(call: &Call) -> [(String, u64); 2] {
    let (agent, capability) = (&call.request.agent_id, &call.request.capability.id);
    [(agent.clone(), 1), (format!("{} {agent} with {capability}", agent.len()), 1)]
}

/// An error as a pipeline takes it, so that guards and pipelines compare alike.
fn closed(name: &'static str, answer: Result<GuardDecision, KernelError>) -> GuardDecision {
    answer.unwrap_or_else(|error| {
        assert!(matches!(error, KernelError::Internal(_)), "{error:?}");
        GuardDecision::deny(name, Details::FailedClosed(error))
    })
}

/// The decision must be the model's answer; `name` is the guard that the evidence must name.
fn assert_same(decision: &GuardDecision, answer: &Answer, model: &GuardModel, name: &str) {
    match answer {
        Answer::Allow => {
            assert_eq!(*decision, GuardDecision::allow());
            return;
        }
        Answer::Error => {
            assert_eq!(*decision, Verdict::Deny);
            let details = &decision.evidence[0].details;
            assert!(matches!(details, Some(Details::FailedClosed(_))), "{decision:?}");
        }
        Answer::Refused(exact) => {
            assert_eq!(*decision, Verdict::Deny, "the model says {exact:?}");
            let ours = decision.refusal().unwrap_or_else(|| panic!("{decision:?}"));
            assert_eq!(ours.reason, exact.reason, "{ours:?}, the model says {exact:?}");
            assert_eq!(ours.retry_after, exact.retry_after.map(Duration::from_nanos), "{ours:?}, {exact:?}");
            assert_eq!(ours.limit.as_str(), model.names()[exact.limit], "{ours:?}, {exact:?}");
            assert_eq!((ours.needed, ours.available), (exact.needed, exact.available), "{ours:?}");
        }
    }
    let named: Vec<_> = decision.evidence.iter().map(|piece| (&*piece.guard_name, piece.verdict)).collect();
    assert_eq!(named, [(name, Verdict::Deny)]);
}
