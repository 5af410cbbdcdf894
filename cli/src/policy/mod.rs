//! A policy: which limits there are, what they apply to, and in which order they decide.

mod meter;
mod parse;
mod quotas;

pub use meter::{Meter, Metered};
pub use quotas::Shift;
pub use tollgate::duration;
pub use tollgate::file::section::{Places, closest};

use crate::failure::Failure;
use std::path::Path;
use tollgate::effect::EffectPolicy;
use tollgate::guard::{AgentVelocityConfig, Refill, VelocityConfig};
use tollgate::spend::SpendPolicy;

/// Names of the guards' limits, as decisions and summaries spell them.
pub mod names {
    pub const AGENT: &str = "agent_velocity.agent";
    pub const SESSION: &str = "agent_velocity.session";
    pub const INVOCATIONS: &str = "velocity.invocations";
    pub const SPEND: &str = "velocity.spend";
    pub const ALL: [&str; 4] = [AGENT, SESSION, INVOCATIONS, SPEND];
}

/// How the stages of a pipeline commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipeline {
    /// One after another: what an earlier stage admitted stays drawn when a later one refuses.
    Series,
    /// All together: a refusal anywhere draws nothing anywhere.
    Atomic,
}

/// A guard's table.
#[derive(Debug, Clone)]
pub struct GuardSection<C> {
    pub config: C,
    pub refill: Refill,
    pub places: Places,
}

/// How much a `[[limit]]` releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Continuous refill of `tokens` per `per` nanoseconds, up to `burst`.
    Rate { tokens: u64, per: u64, burst: u64 },
    /// `tokens` in each `per` nanoseconds, on a grid through `anchor` nanoseconds of trace time.
    Window { tokens: u64, per: u64, anchor: u64 },
}

/// What one event costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cost {
    Constant(u64),
    /// The event field that says it.
    Field(String),
}

/// One `[[limit]]`.
#[derive(Debug, Clone)]
pub struct LimitRule {
    pub name: String,
    /// The fields that make the key; none is one bucket for everybody.
    pub key: Vec<String>,
    pub amount: Amount,
    pub cost: Cost,
    /// Fields and the texts they must have for the limit to apply.
    pub when: Vec<(String, String)>,
    /// Places of the keys of `rate` or `window`.
    pub places: Places,
}

/// A policy file, checked: every quota in it can be built.
#[derive(Debug, Clone)]
pub struct Policy {
    /// The file's name, for messages.
    pub file: String,
    pub bucket_cap: usize,
    pub pipeline: Pipeline,
    pub velocity: Option<GuardSection<VelocityConfig>>,
    pub agent_velocity: Option<GuardSection<AgentVelocityConfig>>,
    pub limits: Vec<LimitRule>,
    pub effects: EffectPolicy,
    /// Budgets, if there are any.
    pub spend: Option<SpendPolicy>,
    /// How a trace's events become amounts of the budgets.
    pub meter: Meter,
    /// Places of the top-level keys.
    pub places: Places,
}

impl Policy {
    /// Reads and checks a policy file.
    ///
    /// # Errors
    /// With file and line, what is wrong and what is accepted there.
    pub fn load(path: &Path) -> Result<Self, Failure> {
        let bytes = std::fs::read(path).map_err(|cause| Failure::open(path, &cause))?;
        Self::read(&path.display().to_string(), &bytes)
    }

    /// [`load`](Self::load) from a file's bytes; `name` is the file's name in messages.
    ///
    /// # Errors
    /// As there.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, Failure> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let valid = &bytes[..error.valid_up_to()];
            let line = 1 + valid.iter().filter(|&&byte| byte == b'\n').count();
            Failure::Mend(format!("{name}:{line}: not UTF-8, accepted: a TOML file in UTF-8"))
        })?;
        Self::parse(name, text)
    }

    /// [`load`](Self::load) from text; `name` is the file's name in messages.
    ///
    /// # Errors
    /// As there.
    pub fn parse(name: &str, text: &str) -> Result<Self, Failure> {
        let policy = parse::parse(name, text)?;
        policy.check_quotas()?;
        Ok(policy)
    }

    /// Refuses a policy with effects, for a command that would pass them over.
    ///
    /// # Errors
    /// If there are any.
    pub fn no_effects(&self) -> Result<(), Failure> {
        if self.effects.rules().is_empty() {
            return Ok(());
        }
        let (file, line) = (&self.file, self.places.line("effect"));
        let text = "effects are not replayed from traces, accepted: a policy without [[effect]] (`tollgate verify` checks the journal of effects)";
        Err(Failure::Mend(format!("{file}:{line}: {text}")))
    }

    /// Refuses limits beside budgets: a trace is replayed through the one or the other.
    ///
    /// # Errors
    /// If there are any.
    pub fn no_limits_beside_spend(&self) -> Result<(), Failure> {
        let Some(key) = ["velocity", "agent_velocity", "limit"].into_iter().find(|key| self.places.has(key))
        else {
            return Ok(());
        };
        let (file, line) = (&self.file, self.places.line(key));
        let text =
            format!("`{key}` is not replayed beside [spend], accepted: a policy file for each of them");
        Err(Failure::Mend(format!("{file}:{line}: {text}")))
    }
}
