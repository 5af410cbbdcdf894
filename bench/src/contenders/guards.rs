//! The guards and pipelines, of the engine and of the baseline.

use super::{Clock, built};
use crate::call::{COST, Call, scope};
use crate::subject::{Build, Capacity, Subject};
use tollgate::ConfigError;
use tollgate::guard::{AgentVelocityConfig, Guard, GuardPipeline, VelocityConfig, Verdict};
use tollgate::{baseline, guard};

/// Whose guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// `tollgate::guard`.
    Engine,
    /// `tollgate::baseline`: one mutex a guard.
    Baseline,
}

/// One token a second, and as many at once as the capacity says.
fn velocity(capacity: u64, spend: bool) -> VelocityConfig {
    VelocityConfig {
        max_invocations_per_window: Some(1),
        max_spend_per_window: spend.then_some(COST),
        window_secs: 1,
        burst_factor: capacity as f64,
    }
}

fn velocity_guard(
    whose: Whose,
    config: VelocityConfig,
    cap: usize,
    clock: Clock,
) -> Result<Box<dyn Guard>, ConfigError> {
    Ok(match whose {
        Whose::Engine => Box::new(built!(guard::VelocityGuard::builder(config).bucket_cap(cap), clock)),
        Whose::Baseline => Box::new(built!(baseline::VelocityGuard::builder(config).bucket_cap(cap), clock)),
    })
}

/// An agent's limit must hold the calls of all its sessions; the builder has one burst factor for both limits, so
/// the agent's rate is as many tokens a second as it has sessions.
fn agent_config(capacity: Capacity) -> AgentVelocityConfig {
    let sessions = (capacity.agent / capacity.key.max(1)).max(1);
    AgentVelocityConfig {
        max_requests_per_agent: Some(u32::try_from(sessions).unwrap_or(u32::MAX)),
        max_requests_per_session: Some(1),
        window_secs: 1,
        burst_factor: capacity.key as f64,
    }
}

fn subject(guard: impl Guard + 'static) -> Box<dyn Subject> {
    let scope = scope();
    Box::new(move |call: &Call| match guard.evaluate(&call.context(&scope)) {
        Ok(decision) => decision.verdict == Verdict::Allow,
        Err(_) => false,
    })
}

/// Both limits of a velocity guard.
pub fn pair(whose: Whose, clock: Clock, cap: usize) -> Build {
    typed_velocity(whose, clock, cap, true)
}

/// A velocity guard with a limit of calls alone.
pub fn calls_alone(whose: Whose, clock: Clock, cap: usize) -> Build {
    typed_velocity(whose, clock, cap, false)
}

/// Called directly, not through a pointer to some guard.
fn typed_velocity(whose: Whose, clock: Clock, cap: usize, spend: bool) -> Build {
    Box::new(move |capacity| {
        let config = velocity(capacity.key, spend);
        Ok(match whose {
            Whose::Engine => subject(built!(guard::VelocityGuard::builder(config).bucket_cap(cap), clock)),
            Whose::Baseline => {
                subject(built!(baseline::VelocityGuard::builder(config).bucket_cap(cap), clock))
            }
        })
    })
}

/// Both limits of an agent velocity guard.
pub fn agent(whose: Whose, clock: Clock, cap: usize) -> Build {
    Box::new(move |capacity| {
        let config = agent_config(capacity);
        Ok(match whose {
            Whose::Engine => {
                subject(built!(guard::AgentVelocityGuard::builder(config).bucket_cap(cap), clock))
            }
            Whose::Baseline => {
                subject(built!(baseline::AgentVelocityGuard::builder(config).bucket_cap(cap), clock))
            }
        })
    })
}

/// Both guards, in series or in one commit.
pub fn pipeline(whose: Whose, clock: Clock, cap: usize, atomic: bool) -> Build {
    Box::new(move |capacity| {
        let mut pipeline = if atomic { GuardPipeline::atomic() } else { GuardPipeline::new() };
        let config = agent_config(capacity);
        pipeline.add(match whose {
            Whose::Engine => {
                Box::new(built!(guard::AgentVelocityGuard::builder(config).bucket_cap(cap), clock))
            }
            Whose::Baseline => {
                Box::new(built!(baseline::AgentVelocityGuard::builder(config).bucket_cap(cap), clock))
            }
        });
        pipeline.add(velocity_guard(whose, velocity(capacity.key, true), cap, clock)?);
        Ok(subject(pipeline))
    })
}
