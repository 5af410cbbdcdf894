//! The two velocity guards' configuration, shared with [`crate::baseline`].

use crate::ConfigError;
use crate::quota::Quota;

/// Limits per grant for [`VelocityGuard`](super::VelocityGuard). `None` leaves a limit out.
///
/// ```
/// use tollgate::guard::VelocityConfig;
/// let config = VelocityConfig { max_invocations_per_window: Some(60), ..VelocityConfig::default() };
/// assert_eq!((config.window_secs, config.burst_factor), (60, 1.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VelocityConfig {
    /// Calls per window.
    pub max_invocations_per_window: Option<u32>,
    /// Spend per window, in the unit of the grants' amounts.
    pub max_spend_per_window: Option<u64>,
    /// The window in seconds, 1 or more.
    pub window_secs: u64,
    /// Capacity as a multiple of the limit, finite and above 0.
    pub burst_factor: f64,
}

impl Default for VelocityConfig {
    /// No limits, a window of 60 seconds, bursts of one window.
    fn default() -> Self {
        Self {
            max_invocations_per_window: None,
            max_spend_per_window: None,
            window_secs: 60,
            burst_factor: 1.0,
        }
    }
}

/// Limits per agent and per session for [`AgentVelocityGuard`](super::AgentVelocityGuard). A session is an
/// agent's use of one capability. `None` leaves a limit out.
///
/// ```
/// use tollgate::guard::AgentVelocityConfig;
/// let config = AgentVelocityConfig { max_requests_per_agent: Some(600), ..AgentVelocityConfig::default() };
/// assert_eq!(config.max_requests_per_session, None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AgentVelocityConfig {
    /// Requests per window and agent.
    pub max_requests_per_agent: Option<u32>,
    /// Requests per window, agent and capability.
    pub max_requests_per_session: Option<u32>,
    /// The window in seconds, 1 or more.
    pub window_secs: u64,
    /// Capacity as a multiple of the limit, finite and above 0.
    pub burst_factor: f64,
}

impl Default for AgentVelocityConfig {
    /// No limits, a window of 60 seconds, bursts of one window.
    fn default() -> Self {
        Self {
            max_requests_per_agent: None,
            max_requests_per_session: None,
            window_secs: 60,
            burst_factor: 1.0,
        }
    }
}

/// How a guard's limits refill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Refill {
    /// The documented milli-token arithmetic, which rounds rates down to a multiple of one token a second
    /// (and up to one): see [`Quota::milli_token`].
    #[default]
    MilliToken,
    /// The rate as stated, exactly.
    Exact,
}

impl Refill {
    /// The quota that a guard uses for a limit of `per_window`.
    ///
    /// # Errors
    /// As [`Quota::milli_token`].
    pub fn quota(self, per_window: u64, window_secs: u64, burst_factor: f64) -> Result<Quota, ConfigError> {
        match self {
            Refill::MilliToken => Quota::milli_token(per_window, window_secs, burst_factor),
            Refill::Exact => Quota::exact_burst(per_window, window_secs, burst_factor),
        }
    }

    /// The quota of a guard's limit, checked as far as it can be alone. Errors name the configuration's field.
    pub(crate) fn limit(
        self,
        field: &'static str,
        per_window: u64,
        window_secs: u64,
        burst_factor: f64,
    ) -> Result<Quota, ConfigError> {
        let named = |error: ConfigError| match error.field {
            "window_secs" | "burst_factor" => error,
            _ => ConfigError::new(field, per_window, error.accepted),
        };
        let quota = self.quota(per_window, window_secs, burst_factor).map_err(named)?;
        quota.arithmetic(64).map_err(named)?;
        Ok(quota)
    }
}

/// How much memory guards may use, as bucket counts.
///
/// ```
/// use tollgate::guard::MemoryBudgetConfig;
/// assert_eq!(MemoryBudgetConfig::defaults().velocity_bucket_cap, 65_536);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBudgetConfig {
    /// Buckets per guard table.
    pub velocity_bucket_cap: usize,
}

impl MemoryBudgetConfig {
    /// 65,536 buckets per guard table.
    pub fn defaults() -> Self {
        Self { velocity_bucket_cap: 65_536 }
    }
}
impl Default for MemoryBudgetConfig {
    fn default() -> Self {
        Self::defaults()
    }
}

/// Two limits of which each is fine, but whose marks do not fit one word together: a smaller spend will do.
pub(crate) fn too_big_together(config: &VelocityConfig, error: ConfigError) -> ConfigError {
    let spend = config.max_spend_per_window.unwrap_or_default();
    ConfigError::new("max_spend_per_window", spend, error.accepted)
}

/// The names of the guards' limits, as refusals and decision records spell them.
pub(crate) mod limit_names {
    pub(crate) const INVOCATIONS: &str = "velocity.invocations";
    pub(crate) const SPEND: &str = "velocity.spend";
    pub(crate) const AGENT: &str = "agent_velocity.agent";
    pub(crate) const SESSION: &str = "agent_velocity.session";
}

/// Says once, at start, that a limit will not refill at the rate that was asked for.
pub(crate) fn log_rate_gap(limit: &'static str, quota: &Quota) {
    let (asked, Ok(line)) = (quota.asked_tokens_per_second(), quota.arithmetic(64)) else { return };
    let achieved = line.tokens_per_second();
    if (achieved - asked).abs() > asked * 0.01 {
        tracing::warn!(
            target: "tollgate::guard",
            limit,
            asked_per_second = asked,
            achieved_per_second = achieved,
            "milli-token refill rounds this rate by more than 1 %; Refill::Exact does not"
        );
    }
}
