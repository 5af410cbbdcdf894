//! What to run, and how much of it.

use crate::error::BenchError;
use crate::workload::Workload;
use std::time::Duration;

/// How long one contender runs in one round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// About this long.
    Time(Duration),
    /// This many calls of each thread, rounded up to what the workload can divide, and fewer where a call takes
    /// milliseconds.
    Calls(u64),
}

/// The sizes of the workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Capabilities with a bucket.
    pub keys: u64,
    /// Agents that share them.
    pub agents: u64,
    /// Most buckets of the tables that hold them.
    pub table: usize,
    /// Tables to fill: the smallest, the one that the baseline fills too, the largest.
    pub full: [usize; 3],
    /// Most buckets of the table in which keys come and go.
    pub churn: usize,
    /// Bucket pairs whose memory is measured.
    pub pairs: usize,
}

impl Default for Sizes {
    /// The sizes that the targets are for.
    fn default() -> Self {
        Self {
            keys: 16_384,
            agents: 1_024,
            table: 65_536,
            full: [1_024, 65_536, 1_048_576],
            churn: 65_536,
            pairs: 1_048_576,
        }
    }
}

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Which workloads.
    pub workloads: Vec<Workload>,
    /// How many rounds.
    pub rounds: usize,
    /// How much of each contender in a round.
    pub effort: Effort,
    /// With how many threads; each count once.
    pub threads: Vec<usize>,
    /// How large.
    pub sizes: Sizes,
}

impl Default for Options {
    /// All workloads, seven rounds of 100 ms, at 1, 2 and as many threads as cores.
    fn default() -> Self {
        Self {
            workloads: Workload::ALL.to_vec(),
            rounds: 7,
            effort: Effort::Time(Duration::from_millis(100)),
            threads: default_threads(),
            sizes: Sizes::default(),
        }
    }
}

impl Options {
    /// A short run for continuous integration.
    pub fn quick() -> Self {
        Self { rounds: 3, effort: Effort::Time(Duration::from_millis(20)), ..Self::default() }
    }

    /// # Errors
    /// Names the option that asks for nothing, or for more than can be.
    pub fn check(&self) -> Result<(), BenchError> {
        let rule = |holds: bool, option, accepted| {
            if holds { Ok(()) } else { Err(BenchError::Option { option, accepted }) }
        };
        let effort = match self.effort {
            Effort::Time(time) => !time.is_zero() && time <= Duration::from_secs(60),
            Effort::Calls(calls) => (1..=100_000_000).contains(&calls),
        };
        rule(!self.workloads.is_empty(), "--workload", "given at least one workload")?;
        rule((1..=1_000).contains(&self.rounds), "--rounds", "1 to 1000")?;
        rule(effort, "--time or --calls", "1 to 60000 milliseconds, or 1 to 100000000 calls")?;
        rule(!self.threads.is_empty(), "--threads", "given at least one count")?;
        rule(self.threads.iter().all(|count| (1..=256).contains(count)), "--threads", "1 to 256")
    }
}

/// 1, 2 and as many as there are cores, each once.
pub fn default_threads() -> Vec<usize> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    distinct([1, 2, cores])
}

/// In ascending order, each once.
pub fn distinct(counts: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut counts: Vec<usize> = counts.into_iter().collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_asks_for_nothing_is_named() {
        let broken = [
            (Options { workloads: Vec::new(), ..Options::default() }, "--workload"),
            (Options { rounds: 0, ..Options::default() }, "--rounds"),
            (Options { effort: Effort::Calls(0), ..Options::default() }, "--calls"),
            (Options { effort: Effort::Time(Duration::ZERO), ..Options::default() }, "--time"),
            (Options { threads: vec![1, 0], ..Options::default() }, "--threads"),
        ];
        for (options, named) in broken {
            let text = options.check().unwrap_err().to_string();
            assert!(text.contains(named), "no {named} in {text}");
        }
        assert!(Options::default().check().is_ok() && Options::quick().check().is_ok());
    }

    #[test]
    fn each_thread_count_is_run_once() {
        assert_eq!(distinct([2, 1, 2, 1]), [1, 2]);
        assert!(default_threads().starts_with(&[1, 2]));
    }
}
