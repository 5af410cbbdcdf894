//! The workloads by name.

use crate::options::distinct;
use crate::workloads::durable;
use std::fmt;
use std::str::FromStr;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Workload {
    /// Bytes of a bucket pair, by an allocator's count and by the resident set. First, since a heap that was used
    /// already blurs the resident set.
    Memory,
    /// Both limits of `VelocityGuard`, many capabilities in random order.
    Pair,
    /// One limit, the same capabilities.
    Single,
    /// One hot capability.
    Hot,
    /// `AgentVelocityGuard`: two buckets in two cells.
    Agent,
    /// Both guards, one after the other.
    Series,
    /// Both guards, one commit.
    Atomic,
    /// A permit and its emission, with and without a journal.
    Effect,
    /// Budgets over four scopes, held and settled in memory.
    Budget,
    /// The same held and durable before the call may go ahead, by one caller and by 64.
    Durable,
    /// A table full of live buckets, and only newcomers.
    Full,
    /// Every call a new key, each refilled soon.
    Churn,
    /// An uncontended hit, and what it cannot do without.
    Floor,
}

impl Workload {
    /// All, in the order in which they run.
    pub const ALL: [Workload; 13] = [
        Workload::Memory,
        Workload::Pair,
        Workload::Single,
        Workload::Hot,
        Workload::Agent,
        Workload::Series,
        Workload::Atomic,
        Workload::Effect,
        Workload::Budget,
        Workload::Durable,
        Workload::Full,
        Workload::Churn,
        Workload::Floor,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Workload::Memory => "memory",
            Workload::Pair => "pair",
            Workload::Single => "single",
            Workload::Hot => "hot",
            Workload::Agent => "agent",
            Workload::Series => "series",
            Workload::Atomic => "atomic",
            Workload::Effect => "effect",
            Workload::Budget => "budget",
            Workload::Durable => "durable",
            Workload::Full => "full",
            Workload::Churn => "churn",
            Workload::Floor => "floor",
        }
    }

    /// Does every call find its bucket, so that any number of calls can be timed?
    pub fn is_of_hits(self) -> bool {
        !matches!(self, Workload::Memory | Workload::Durable | Workload::Full | Workload::Churn)
    }

    /// With how many threads it is run, of those that were asked for or whatever was.
    pub fn threads(self, asked: &[usize]) -> Vec<usize> {
        match self {
            Workload::Memory | Workload::Floor => vec![1],
            Workload::Durable => vec![1, durable::CALLERS],
            _ => distinct(asked.iter().copied()),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|workload| workload.name() == name);
        known.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no workload {name:?}; there are {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_back_to_its_workload_and_another_is_answered_with_all_names() {
        for workload in Workload::ALL {
            assert_eq!(workload.to_string().parse(), Ok(workload));
        }
        let text = "pairs".parse::<Workload>().unwrap_err();
        assert!(Workload::ALL.iter().all(|workload| text.contains(workload.name())), "{text}");
    }
}
