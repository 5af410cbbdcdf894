//! What the fuzzer makes: configurations of both guards, and calls.

use crate::numbers::Wide;
use crate::support::{Call, SERVER, TOOL};
use arbitrary::Arbitrary;
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::guard::{AgentVelocityConfig, MonetaryAmount, Refill, ToolGrant, VelocityConfig};

#[derive(Debug, Arbitrary)]
pub struct Input {
    pub alone: Alone,
    pub config: Config,
    pub steps: Vec<Step>,
}

/// Who is asked.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Alone {
    Agent,
    Velocity,
    Series,
    Atomic,
}

#[derive(Debug, Arbitrary)]
pub struct Config {
    per_agent: Option<PerWindow>,
    per_session: Option<PerWindow>,
    invocations: Option<PerWindow>,
    spend: Option<PerWindow>,
    windows: [Window; 2],
    bursts: [Burst; 2],
    exact: bool,
    dollars: bool,
    caps: [u8; 2],
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum PerWindow {
    Few(u8),
    Many(u16),
    Any(Wide),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Window {
    Second,
    Seconds(u8),
    Long(u32),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Burst {
    One,
    Hundredths(u16),
}

impl PerWindow {
    fn get(self) -> u64 {
        match self {
            PerWindow::Few(n) => n.into(),
            PerWindow::Many(n) => n.into(),
            PerWindow::Any(n) => n.get(),
        }
    }

    fn count(self) -> u32 {
        u32::try_from(self.get()).unwrap_or(u32::MAX)
    }
}

impl Window {
    fn get(self) -> u64 {
        match self {
            Window::Second => 1,
            Window::Seconds(secs) => u64::from(secs).max(1),
            Window::Long(secs) => u64::from(secs).max(1),
        }
    }
}

impl Burst {
    fn get(self) -> f64 {
        match self {
            Burst::One => 1.0,
            Burst::Hundredths(n) => f64::from(n.max(1)) / 100.0,
        }
    }
}

impl Config {
    pub fn agent(&self) -> AgentVelocityConfig {
        AgentVelocityConfig {
            max_requests_per_agent: self.per_agent.map(PerWindow::count),
            max_requests_per_session: self.per_session.map(PerWindow::count),
            window_secs: self.windows[0].get(),
            burst_factor: self.bursts[0].get(),
        }
    }

    pub fn velocity(&self) -> VelocityConfig {
        VelocityConfig {
            max_invocations_per_window: self.invocations.map(PerWindow::count),
            max_spend_per_window: self.spend.map(PerWindow::get),
            window_secs: self.windows[1].get(),
            burst_factor: self.bursts[1].get(),
        }
    }

    pub fn refill(&self) -> Refill {
        if self.exact { Refill::Exact } else { Refill::MilliToken }
    }

    pub fn currency(&self) -> Option<&'static str> {
        self.dollars.then_some("USD")
    }

    /// A table holds at least the buckets of one call.
    pub fn agent_cap(&self) -> usize {
        2 + usize::from(self.caps[0] % 48)
    }

    pub fn velocity_cap(&self) -> usize {
        2 + usize::from(self.caps[1] % 48)
    }

    /// Numbers that everybody would call small must be accepted.
    pub fn may_be_refused<T>(&self, error: &ConfigError) -> Option<T> {
        let limits = [self.per_agent, self.per_session, self.invocations, self.spend];
        let small = |limit: PerWindow| limit.get() <= 1 << 16;
        let short = self.windows.iter().all(|window| window.get() <= 1 << 16);
        assert!(!(short && limits.into_iter().flatten().all(small)), "{error}: {self:?}");
        None
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Step {
    pause: Pause,
    agent: u8,
    capability: u8,
    /// One of the grants, one that does not exist, or none.
    grant: u8,
    cost: Wide,
    pub prune: bool,
    /// Afterwards wait for as long as a refusal says.
    pub await_hint: bool,
    pub early: bool,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Pause {
    None,
    Millis(u16),
    Nanos(u32),
    Minutes(u16),
}

impl Step {
    pub fn pause(&self) -> Duration {
        match self.pause {
            Pause::None => Duration::ZERO,
            Pause::Millis(n) => Duration::from_millis(n.into()),
            Pause::Nanos(n) => Duration::from_nanos(n.into()),
            Pause::Minutes(n) => Duration::from_secs(u64::from(n) * 60),
        }
    }

    pub fn call(&self) -> Call {
        // Some ids are empty, some too long for a cell.
        let id = |prefix: &str, n: u8| match n % 6 {
            0 => String::new(),
            n @ 1..4 => format!("{prefix}-{n}"),
            n => format!("{prefix}-{n:0>0$}", 40),
        };
        let grant = match self.grant {
            0..240 => Some(usize::from(self.grant % 6)),
            240..250 => Some(usize::from(self.grant)),
            250.. => None,
        };
        Call::with_grants(&id("capability", self.capability), self.grants())
            .by(&id("agent", self.agent))
            .matching(grant)
    }

    /// Grants that cost a little, nothing and something, one in another currency, one that declares no cost.
    fn grants(&self) -> Vec<ToolGrant> {
        let grant = || ToolGrant::new(SERVER, TOOL);
        let euros = MonetaryAmount { units: 2, currency: "EUR".into() };
        vec![
            grant().costing(1, "USD"),
            grant().costing(7, "USD"),
            grant().costing(0, "USD"),
            grant().costing(self.cost.get(), "USD"),
            ToolGrant { max_cost_per_invocation: Some(euros), ..grant() },
            grant(),
        ]
    }
}
