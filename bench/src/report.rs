//! The result of a run, as JSON and as text.

use crate::latency::Latency;
use crate::machine::Machine;
use crate::rounds::Series;
use crate::stats::Spread;
use crate::targets::{Comparison, Target};
use crate::workloads::memory::Memory;
use serde::Serialize;

/// Everything that a run found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Where it was made.
    pub machine: Machine,
    /// How many rounds.
    pub rounds: usize,
    /// One of each contender, workload and thread count.
    pub rows: Vec<Row>,
    /// What the ratios should be, and are.
    pub targets: Vec<Target>,
    /// Pairs side by side, without a target.
    pub comparisons: Vec<Comparison>,
    /// Single calls of the churn.
    pub latencies: Vec<Latency>,
    /// Bytes, if memory was measured.
    pub memory: Option<Memory>,
}

/// One contender in one workload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub workload: &'static str,
    /// With how many threads.
    pub threads: usize,
    /// Who.
    pub contender: String,
    /// What a caller waits for one call: the median of the rounds.
    pub ns_per_op: f64,
    /// Millions of calls a second, of all threads.
    pub mops: f64,
    /// Admitted calls of all rounds.
    pub admitted: u64,
    /// Calls of all rounds.
    pub calls: u64,
    /// The rounds' `ns_per_op`.
    pub spread: Spread,
}

impl Row {
    /// The medians of a series; `None` if there was no round.
    pub fn of(series: &Series) -> Option<Self> {
        let spread = series.spread()?;
        Some(Self {
            workload: series.workload.name(),
            threads: series.threads,
            contender: series.contender.clone(),
            ns_per_op: spread.median,
            mops: series.threads as f64 * 1e3 / spread.median,
            admitted: series.samples.iter().map(|sample| sample.admitted).sum(),
            calls: series.samples.iter().map(|sample| sample.calls).sum(),
            spread,
        })
    }
}

impl Report {
    /// One JSON object.
    ///
    /// # Errors
    /// None that a report can have: all its numbers are finite and its keys are text.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// The figures that are worse than what they are held to by more than a factor of two.
    pub fn fell_by_half(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().filter(|target| target.fell_by_half())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Sample;
    use crate::workload::Workload;
    use std::time::Duration;

    #[test]
    fn a_row_tells_the_wait_of_a_caller_and_the_calls_of_all_threads() {
        let (elapsed, waited) = (Duration::from_nanos, Duration::ZERO);
        let sample = |ns| Sample { threads: 2, elapsed: elapsed(ns), calls: 20, admitted: 15, waited };
        let samples = [1_000, 2_000, 9_000].map(sample).to_vec();
        let series = Series { workload: Workload::Hot, threads: 2, contender: "x".into(), samples };
        let row = Row::of(&series).unwrap();
        assert_eq!((row.ns_per_op, row.mops), (200.0, 10.0));
        assert_eq!((row.admitted, row.calls, row.workload), (45, 60, "hot"));
        assert_eq!(Row::of(&Series { samples: Vec::new(), ..series }), None);
    }
}
