//! Why a run ended early.

use crate::expect::{Expected, Phase};
use crate::workload::Workload;
use tollgate::ConfigError;

/// A reason to stop. Each names what to look at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A contender answered wrongly; how fast does not matter then.
    #[error(
        "{workload}, threads {threads}: {contender} admitted {got} calls {phase}, expected {expected}: a wrong \
         answer has no speed, so mend the contender or leave the workload out"
    )]
    WrongCount {
        /// What was measured.
        workload: Workload,
        /// Who answered.
        contender: String,
        /// With how many threads.
        threads: usize,
        /// In which part of the round.
        phase: Phase,
        /// What a right answer would have been.
        expected: Expected,
        /// What it was.
        got: u64,
    },
    /// A contender keeps another number of buckets than its table must.
    #[error("{workload}: {contender} has {got} live buckets, expected {expected}: its bound does not hold")]
    WrongBuckets {
        /// What was measured.
        workload: Workload,
        /// Who holds the buckets.
        contender: String,
        /// What a right number would have been.
        expected: Expected,
        /// How many it has.
        got: u64,
    },
    /// A contender could not be built.
    #[error("{workload}: {contender} cannot be built: {cause}")]
    Setup {
        /// What was to be measured.
        workload: Workload,
        /// Who was to be built.
        contender: String,
        /// Why not.
        cause: ConfigError,
    },
    /// The options ask for nothing that could be measured.
    #[error("{option} must be {accepted}")]
    Option {
        /// Which.
        option: &'static str,
        /// What is accepted.
        accepted: &'static str,
    },
}
