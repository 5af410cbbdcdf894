//! What the scenario tests share: calls to judge, and one trait over the engine's guards and the baseline's.
#![allow(dead_code)] // each test binary uses a part of this

pub mod scripted;
pub mod shared;

use std::time::Duration;
use tollgate::guard::{
    AgentVelocityConfig, AgentVelocityRemaining, Capability, Guard, GuardContext, MemoryBudgetConfig, Refill,
    Scope, ToolCallRequest, ToolGrant, VelocityConfig, VelocityRemaining, Verdict,
};
use tollgate::time::ManualClock;
use tollgate::{ConfigError, Refusal, baseline, guard};

pub const SERVER: &str = "srv";
pub const TOOL: &str = "search";

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A call to judge: its request, and which of the capability's grants covers it.
#[derive(Clone)]
pub struct Call {
    pub request: ToolCallRequest,
    pub grant: Option<usize>,
}

impl Call {
    /// A call under `capability`, whose only grant, without a declared cost, covers it.
    pub fn of(capability: &str) -> Self {
        Self::with_grants(capability, vec![ToolGrant::new(SERVER, TOOL)])
    }

    /// A call under `capability`, whose only grant declares `cost`.
    pub fn costing(capability: &str, cost: u64) -> Self {
        Self::with_grants(capability, vec![ToolGrant::new(SERVER, TOOL).costing(cost, "USD")])
    }

    /// A call under `capability`, of whose grants the first covers it.
    pub fn with_grants(capability: &str, grants: Vec<ToolGrant>) -> Self {
        let request = ToolCallRequest {
            request_id: "call".into(),
            capability: Capability { id: capability.into(), scope: Scope { grants } },
            tool_name: TOOL.into(),
            server_id: SERVER.into(),
            agent_id: "agent".into(),
            arguments: String::new(),
        };
        Self { request, grant: Some(0) }
    }

    pub fn by(mut self, agent: &str) -> Self {
        self.request.agent_id = agent.into();
        self
    }

    pub fn matching(mut self, grant: Option<usize>) -> Self {
        self.grant = grant;
        self
    }

    pub fn context(&self) -> GuardContext<'_> {
        GuardContext {
            request: &self.request,
            scope: &self.request.capability.scope,
            agent_id: &self.request.agent_id,
            server_id: &self.request.server_id,
            matched_grant_index: self.grant,
        }
    }
}

/// The verdict on `call`, which the guard must be able to judge.
pub fn verdict(guard: &impl Guard, call: &Call) -> Verdict {
    guard.evaluate(&call.context()).expect("the guard can judge this call").verdict
}

pub fn allows(guard: &impl Guard, call: &Call) -> bool {
    verdict(guard, call) == Verdict::Allow
}

/// How many of `attempts` at `call` are allowed.
pub fn count_allowed(guard: &impl Guard, call: &Call, attempts: usize) -> usize {
    (0..attempts).filter(|_| allows(guard, call)).count()
}

/// The refusal of `call`, which must be a deny by a limit.
pub fn refusal(guard: &impl Guard, call: &Call) -> Refusal {
    let decision = guard.evaluate(&call.context()).expect("the guard can judge this call");
    assert_eq!(decision, Verdict::Deny);
    decision.refusal().expect("a limit denied the call").clone()
}

/// The text of the error with which the guard answers `call`.
pub fn error(guard: &impl Guard, call: &Call) -> String {
    guard.evaluate(&call.context()).expect_err("the guard cannot judge this call").to_string()
}

/// Everything that a builder sets.
pub struct Setup {
    pub clock: ManualClock,
    pub bucket_cap: usize,
    pub refill: Refill,
    pub currency: Option<&'static str>,
}

impl Setup {
    pub fn new(clock: &ManualClock) -> Self {
        Self { clock: clock.clone(), bucket_cap: 65_536, refill: Refill::MilliToken, currency: None }
    }

    pub fn cap(clock: &ManualClock, bucket_cap: usize) -> Self {
        Self { bucket_cap, ..Self::new(clock) }
    }
}

/// `VelocityGuard`, of the engine or of the baseline.
pub trait Velocity: Guard + Sized + 'static {
    fn build(config: VelocityConfig, setup: Setup) -> Result<Self, ConfigError>;
    fn new(config: VelocityConfig) -> Self;
    fn try_new(config: VelocityConfig) -> Result<Self, ConfigError>;
    fn with_bucket_cap(config: VelocityConfig, buckets: usize) -> Result<Self, ConfigError>;
    fn from_memory_budget(config: VelocityConfig, budget: &MemoryBudgetConfig) -> Result<Self, ConfigError>;
    fn bucket_count(&self) -> usize;
    fn prune_refilled(&self) -> usize;
    fn left(&self, call: &Call) -> VelocityRemaining;
}

/// `AgentVelocityGuard`, of the engine or of the baseline.
pub trait AgentVelocity: Guard + Sized + 'static {
    fn build(config: AgentVelocityConfig, setup: Setup) -> Result<Self, ConfigError>;
    fn new(config: AgentVelocityConfig) -> Self;
    fn try_new(config: AgentVelocityConfig) -> Result<Self, ConfigError>;
    fn with_bucket_cap(config: AgentVelocityConfig, buckets: usize) -> Result<Self, ConfigError>;
    fn from_memory_budget(
        config: AgentVelocityConfig,
        budget: &MemoryBudgetConfig,
    ) -> Result<Self, ConfigError>;
    fn bucket_count(&self) -> usize;
    fn prune_refilled(&self) -> usize;
    fn left(&self, call: &Call) -> AgentVelocityRemaining;
}

macro_rules! under_test {
    ($trait:ident for $guard:ty, $config:ty, $remaining:ty, |$builder:ident, $currency:ident| $with_currency:expr) => {
        impl $trait for $guard {
            fn build(config: $config, setup: Setup) -> Result<Self, ConfigError> {
                let $builder = <$guard>::builder(config)
                    .clock(setup.clock)
                    .bucket_cap(setup.bucket_cap)
                    .refill(setup.refill);
                let $currency = setup.currency;
                $with_currency.build()
            }
            fn new(config: $config) -> Self {
                <$guard>::new(config)
            }
            fn try_new(config: $config) -> Result<Self, ConfigError> {
                <$guard>::try_new(config)
            }
            fn with_bucket_cap(config: $config, buckets: usize) -> Result<Self, ConfigError> {
                <$guard>::with_bucket_cap(config, buckets)
            }
            fn from_memory_budget(config: $config, budget: &MemoryBudgetConfig) -> Result<Self, ConfigError> {
                <$guard>::from_memory_budget(config, budget)
            }
            fn bucket_count(&self) -> usize {
                self.bucket_count()
            }
            fn prune_refilled(&self) -> usize {
                self.prune_refilled()
            }
            fn left(&self, call: &Call) -> $remaining {
                self.remaining(&call.context())
            }
        }
    };
}

under_test!(Velocity for guard::VelocityGuard, VelocityConfig, VelocityRemaining, |builder, currency| {
    match currency {
        Some(currency) => builder.currency(currency),
        None => builder,
    }
});
under_test!(Velocity for baseline::VelocityGuard, VelocityConfig, VelocityRemaining, |builder, currency| {
    match currency {
        Some(currency) => builder.currency(currency),
        None => builder,
    }
});
under_test!(AgentVelocity for guard::AgentVelocityGuard, AgentVelocityConfig, AgentVelocityRemaining, |builder, currency| {
    assert_eq!(currency, None, "requests have no currency");
    builder
});
under_test!(AgentVelocity for baseline::AgentVelocityGuard, AgentVelocityConfig, AgentVelocityRemaining, |builder, currency| {
    assert_eq!(currency, None, "requests have no currency");
    builder
});

/// Runs every scenario named here, a function generic over the guard, on the engine and on the baseline.
#[macro_export]
macro_rules! on_engine_and_baseline {
    ($guard:ident: $($scenario:ident),* $(,)?) => {
        mod engine {
            $(#[test]
            fn $scenario() {
                super::$scenario::<tollgate::guard::$guard>()
            })*
        }
        mod baseline {
            $(#[test]
            fn $scenario() {
                super::$scenario::<tollgate::baseline::$guard>()
            })*
        }
    };
}
