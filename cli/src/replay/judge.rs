//! The pipeline: agent guard, grant guard, limits, in series or as one commit.

use super::call::Call;
use super::decision::{Reason, Refused};
use super::layout::Layout;
use super::limits::Limits;
use crate::event::{Record, Whole};
use crate::failure::Failure;
use crate::policy::{Pipeline, Policy, Shift, names};
use std::time::Duration;
use tollgate::guard::{AgentVelocityGuard, Guard, GuardDecision, Planned, VelocityGuard, Verdict};
use tollgate::kernel::KernelError;
use tollgate::quota::{Arithmetic, Quota};
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Plan, PlanRefused, Refusal};

/// The policy's guards and limits on one clock.
pub struct Judge {
    clock: ManualClock,
    /// Trace time at which the clock starts.
    start: u64,
    pipeline: Pipeline,
    stages: Vec<Stage>,
    /// The limits' names by their place.
    names: Vec<String>,
    places: GuardPlaces,
    /// The limits' capacities in whole tokens, by their place.
    capacities: Vec<u64>,
    call: Call,
    agent_velocity: Option<AgentVelocityGuard>,
    velocity: Option<VelocityGuard>,
    limits: Option<Limits>,
    /// A limit that refuses everything: as the last stage of a plan it makes the plan say whether an earlier
    /// stage refuses, without drawing anything.
    barrier: LimitSet,
}

/// The places of the guards' limits; `None` where a limit is not configured.
#[derive(Debug, Clone, Copy)]
struct GuardPlaces {
    agent: Option<usize>,
    session: Option<usize>,
    invocations: Option<usize>,
    spend: Option<usize>,
}

impl GuardPlaces {
    fn of(limits: &[String]) -> Self {
        let place = |name: &str| limits.iter().position(|known| known == name);
        Self {
            agent: place(names::AGENT),
            session: place(names::SESSION),
            invocations: place(names::INVOCATIONS),
            spend: place(names::SPEND),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    AgentVelocity,
    Velocity,
    Limits,
}

impl Judge {
    /// Builds the policy's tables, on a clock that starts at the last whole second at or before `first_t_ns`.
    /// The grids of milliseconds and windows then lie where trace time puts them.
    ///
    /// # Errors
    /// With the policy's line, figures that the library refuses.
    pub fn new(policy: &Policy, layout: &Layout, first_t_ns: u64) -> Result<Self, Failure> {
        const SECOND: u64 = 1_000_000_000;
        let start = first_t_ns - first_t_ns % SECOND;
        let clock = ManualClock::new();
        let mut stages = Vec::new();

        let mut agent_velocity = None;
        if let Some(guard) = &policy.agent_velocity {
            let builder = AgentVelocityGuard::builder(guard.config).refill(guard.refill);
            let built = builder.bucket_cap(policy.bucket_cap).clock(clock.clone()).build();
            let built =
                built.map_err(|error| policy.guard_refused("agent_velocity", &guard.places, &error))?;
            if guard.config.max_requests_per_agent.or(guard.config.max_requests_per_session).is_some() {
                stages.push(Stage::AgentVelocity);
                agent_velocity = Some(built);
            }
        }
        let mut velocity = None;
        if let Some(guard) = &policy.velocity {
            let builder = VelocityGuard::builder(guard.config).refill(guard.refill);
            let built = builder.bucket_cap(policy.bucket_cap).clock(clock.clone()).build();
            let built = built.map_err(|error| policy.guard_refused("velocity", &guard.places, &error))?;
            if guard.config.max_invocations_per_window.is_some()
                || guard.config.max_spend_per_window.is_some()
            {
                stages.push(Stage::Velocity);
                velocity = Some(built);
            }
        }
        let mut limits = None;
        if !policy.limits.is_empty() {
            let mut builder = LimitSet::builder().bucket_cap(policy.bucket_cap).clock(clock.clone());
            for limit in &policy.limits {
                builder = builder.limit(limit.name.clone(), limit.quota(Shift(start)));
            }
            let set = builder.build().map_err(|error| policy.limits_refused(&error))?;
            stages.push(Stage::Limits);
            limits = Some(Limits::new(set, layout.rules.clone(), layout.first_rule));
        }
        let nothing = Quota::tokens_per(0, Duration::from_secs(1));
        let barrier =
            LimitSet::builder().bucket_cap(1).clock(clock.clone()).limit("barrier", nothing).build();
        let guards = policy.agent_velocity_quotas()?.into_iter().chain(policy.velocity_quotas()?);
        let guards = guards.map(|limit| limit.quota.capacity());
        let own = policy.limits.iter().map(|limit| limit.quota(Shift(start)).capacity());
        Ok(Self {
            capacities: guards.chain(own).collect(),
            clock,
            start,
            pipeline: policy.pipeline,
            stages,
            places: GuardPlaces::of(&layout.names()),
            names: layout.names(),
            call: Call::new(layout.call),
            agent_velocity,
            velocity,
            limits,
            barrier: barrier.map_err(|error| policy.limits_refused(&error))?,
        })
    }

    /// Decides an event at the clamped time `t_ns`; `None` admits it. Fills `remaining` if it is asked for.
    #[inline]
    pub fn decide(
        &mut self,
        t_ns: u64,
        record: &Record,
        remaining: Option<&mut Vec<(usize, u64)>>,
    ) -> Option<Refused> {
        self.clock.set(t_ns - self.start);
        self.call.read(record);
        let (refused, stages) = match self.pipeline {
            Pipeline::Series => self.series(record),
            Pipeline::Atomic => self.atomic(record),
        };
        if let Some(out) = remaining {
            out.clear();
            self.remaining(stages, out);
        }
        refused
    }

    /// Live buckets of each table.
    pub fn live_buckets(&self) -> Vec<(&'static str, u64)> {
        let agent = self.agent_velocity.as_ref().map(|guard| ("agent_velocity", guard.bucket_count() as u64));
        let grant = self.velocity.as_ref().map(|guard| ("velocity", guard.bucket_count() as u64));
        let limits = self.limits.as_ref().map(|limits| ("limits", limits.live_buckets()));
        [agent, grant, limits].into_iter().flatten().collect()
    }

    /// The arithmetic of the guards' limits by name: two limits in one word have narrower marks than one alone.
    pub fn guard_arithmetic(&self) -> Vec<(&'static str, Arithmetic)> {
        let agent = self.agent_velocity.as_ref().map(AgentVelocityGuard::arithmetic).unwrap_or_default();
        let grant = self.velocity.as_ref().map(VelocityGuard::arithmetic).unwrap_or_default();
        let named = [
            (names::AGENT, agent.agent),
            (names::SESSION, agent.session),
            (names::INVOCATIONS, grant.invocations),
            (names::SPEND, grant.spend),
        ];
        named.into_iter().filter_map(|(name, line)| line.map(|line| (name, line))).collect()
    }

    /// Each table's name and the bytes it reserves.
    pub fn memory(&self) -> Vec<(&'static str, usize)> {
        let agent = self.agent_velocity.as_ref().map(|guard| ("agent_velocity", guard.memory_bytes()));
        let grant = self.velocity.as_ref().map(|guard| ("velocity", guard.memory_bytes()));
        let limits = self.limits.as_ref().map(|limits| ("limits", limits.memory_bytes()));
        [agent, grant, limits].into_iter().flatten().collect()
    }

    /// Stages one after another. Returns the refusal and how many stages were evaluated.
    fn series(&mut self, record: &Record) -> (Option<Refused>, usize) {
        for index in 0..self.stages.len() {
            let stage = self.stages[index];
            let refused = match self.read(stage, record) {
                Ok(()) => self.commit(stage),
                Err(flaw) => Some(flaw),
            };
            if refused.is_some() {
                return (refused, index + 1);
            }
        }
        (None, self.stages.len())
    }

    /// All stages in one commit. Returns the refusal and how many stages were evaluated.
    fn atomic(&mut self, record: &Record) -> (Option<Refused>, usize) {
        let mut flaw = None;
        let mut planned = 0;
        while planned < self.stages.len() && flaw.is_none() {
            flaw = self.read(self.stages[planned], record).err();
            planned += usize::from(flaw.is_none());
        }
        if planned == 0 {
            return (flaw, usize::from(flaw.is_some()));
        }
        let mut plan = Plan::new();
        for (index, &stage) in self.stages[..planned].iter().enumerate() {
            if index > 0 {
                plan.next_stage();
            }
            if let Err(refused) = self.plan(stage, &mut plan) {
                return (Some(refused), index + 1);
            }
        }
        if flaw.is_some() {
            plan.next_stage();
            self.barrier.plan(0, "", 1, &mut plan);
        }
        match plan.commit() {
            Ok(_) => (None, planned),
            Err(refused) if refused.stage < planned => {
                (Some(self.refused(&refused.refusal)), refused.stage + 1)
            }
            Err(_) => (flaw, planned + 1),
        }
    }

    /// Takes what a stage needs from the event.
    #[inline]
    fn read(&mut self, stage: Stage, record: &Record) -> Result<(), Refused> {
        let GuardPlaces { agent, session, invocations, spend } = self.places;
        let call = &self.call;
        let flawed = |limit: Option<usize>, reason| {
            Err(Refused { limit: limit.unwrap_or(0), reason, retry_after_ns: None })
        };
        match stage {
            Stage::AgentVelocity => {
                if !call.has_agent {
                    return flawed(agent.or(session), Reason::MissingField);
                }
                if session.is_some() && !call.has_capability {
                    return flawed(session, Reason::MissingField);
                }
                Ok(())
            }
            Stage::Velocity => {
                if !call.has_capability || call.grant.is_none() {
                    return flawed(invocations.or(spend), Reason::MissingField);
                }
                match call.cost {
                    Whole::Absent if spend.is_some() => flawed(spend, Reason::NoDeclaredCost),
                    Whole::Bad if spend.is_some() => flawed(spend, Reason::BadCost),
                    _ => Ok(()),
                }
            }
            Stage::Limits => match &mut self.limits {
                Some(limits) => limits.read(record),
                None => Ok(()),
            },
        }
    }

    /// Commits one stage by itself.
    #[inline]
    fn commit(&self, stage: Stage) -> Option<Refused> {
        match stage {
            Stage::AgentVelocity => self.evaluate(self.agent_velocity.as_ref()?),
            Stage::Velocity => self.evaluate(self.velocity.as_ref()?),
            Stage::Limits => {
                let limits = self.limits.as_ref()?;
                if limits.is_idle() {
                    return None;
                }
                let mut plan = Plan::new();
                limits.plan(&mut plan);
                plan.commit().err().map(|PlanRefused { refusal, .. }| self.refused(&refusal))
            }
        }
    }

    #[inline]
    fn evaluate<G: Guard>(&self, guard: &G) -> Option<Refused> {
        match guard.evaluate(&self.call.context()) {
            Ok(GuardDecision { verdict: Verdict::Allow, .. }) => None,
            Ok(decision) => Some(match decision.refusal() {
                Some(refusal) => self.refused(refusal),
                None => self.unjudged(guard),
            }),
            Err(_) => Some(self.unjudged(guard)),
        }
    }

    /// Adds one stage's draws to a plan.
    fn plan<'p>(&'p self, stage: Stage, plan: &mut Plan<'p>) -> Result<(), Refused> {
        fn planned<G: Guard>(
            judge: &Judge,
            guard: &G,
            planned: Result<Planned, KernelError>,
        ) -> Result<(), Refused> {
            match planned {
                Ok(Planned::InPlan) => Ok(()),
                Ok(Planned::Evaluate) | Err(_) => Err(judge.unjudged(guard)),
            }
        }
        let call = self.call.context();
        match (stage, &self.agent_velocity, &self.velocity, &self.limits) {
            (Stage::AgentVelocity, Some(guard), ..) => planned(self, guard, guard.plan(&call, plan)),
            (Stage::Velocity, _, Some(guard), _) => planned(self, guard, guard.plan(&call, plan)),
            (Stage::Limits, .., Some(limits)) => {
                limits.plan(plan);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The library's refusal in terms of places.
    #[cold]
    fn refused(&self, refusal: &Refusal) -> Refused {
        let limit = self.names.iter().position(|name| name == refusal.limit.as_str()).unwrap_or(0);
        let reason = match refusal.reason {
            tollgate::Reason::Exhausted => Reason::Exhausted,
            tollgate::Reason::Impossible => Reason::Impossible,
            tollgate::Reason::TableFull => Reason::TableFull,
            _ => Reason::PastHorizon,
        };
        let wait = refusal.retry_after.filter(|_| reason == Reason::Exhausted);
        let nanos = |wait: Duration| u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Refused { limit, reason, retry_after_ns: wait.map(nanos) }
    }

    /// A guard that could not judge a call although every field it needs is there.
    #[cold]
    fn unjudged<G: Guard>(&self, guard: &G) -> Refused {
        let GuardPlaces { agent, session, invocations, spend } = self.places;
        let limit = if guard.name() == "velocity" { invocations.or(spend) } else { agent.or(session) };
        Refused { limit: limit.unwrap_or(0), reason: Reason::MissingField, retry_after_ns: None }
    }

    /// What is left after the decision, for each limit of the first `stages` stages that applies. A limit whose
    /// key the event has not shows its capacity, as one without a bucket does.
    fn remaining(&self, stages: usize, out: &mut Vec<(usize, u64)>) {
        let mut push = |place: Option<usize>, has_key: bool, left: Option<u64>| {
            let Some(place) = place else { return };
            out.push((place, left.filter(|_| has_key).unwrap_or(self.capacities[place])));
        };
        let (places, call) = (self.places, &self.call);
        for &stage in &self.stages[..stages] {
            match (stage, &self.agent_velocity, &self.velocity) {
                (Stage::AgentVelocity, Some(guard), _) => {
                    let left = guard.remaining(&call.context());
                    push(places.agent, call.has_agent, left.agent);
                    push(places.session, call.has_agent && call.has_capability, left.session);
                }
                (Stage::Velocity, _, Some(guard)) => {
                    let left = guard.remaining(&call.context());
                    let has_key = call.has_capability && call.grant.is_some();
                    push(places.invocations, has_key, left.invocations);
                    push(places.spend, has_key, left.spend);
                }
                _ => {}
            }
        }
        if let (true, Some(limits)) = (self.stages[..stages].contains(&Stage::Limits), &self.limits) {
            limits.remaining(&self.capacities, out);
        }
    }
}
