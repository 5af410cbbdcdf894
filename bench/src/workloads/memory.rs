//! What a bucket pair costs in bytes, and what a table costs that nobody has used.

use crate::allocator::Count;
use crate::call::{COST, Call, scope};
use crate::error::BenchError;
use crate::expect::{Checked, Expected, Phase};
use crate::ids::Kind;
use crate::options::Sizes;
use crate::rounds::Contender;
use crate::timing::Sample;
use crate::workload::Workload;
use serde::Serialize;
use std::time::{Duration, Instant};
use tollgate::guard::{Guard, Refill, VelocityConfig, VelocityGuard, Verdict};

/// What one table of bucket pairs took. A number is absent where it cannot be told.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Memory {
    /// Bucket pairs, all in use at the end.
    pub pairs: u64,
    /// Bytes that the table says it has reserved.
    pub reserved: u64,
    /// Bytes allocated and not freed, with all pairs in use: needs the counting allocator.
    pub allocated: Option<u64>,
    /// Bytes by which the resident set grew when the table was built: needs Linux.
    pub untouched: Option<u64>,
    /// And with all pairs in use.
    pub resident: Option<u64>,
}

/// A table of pairs, filled once a round.
pub struct Filled {
    pairs: usize,
}

impl Filled {
    /// As large as the sizes say.
    pub fn new(sizes: &Sizes) -> Self {
        Self { pairs: sizes.pairs }
    }

    /// Builds a table, and gives every pair to a capability of 36 characters.
    ///
    /// # Errors
    /// If a capability does not get one.
    pub fn measure(&self) -> Result<(Sample, Memory), BenchError> {
        let pairs = self.pairs as u64;
        // One call a day, exactly: a bucket that refilled while others are made would be taken for them.
        let config = VelocityConfig {
            max_invocations_per_window: Some(1),
            max_spend_per_window: Some(COST),
            window_secs: 86_400,
            burst_factor: 1.0,
        };
        let scope = scope();
        let mut call = Call::new(String::new(), String::new());
        call.rename(Kind::Capability, 0);

        let before = resident_bytes();
        let grown = || Some(resident_bytes()?.saturating_sub(before?));
        let count = Count::start();
        let builder = VelocityGuard::builder(config).refill(Refill::Exact).bucket_cap(2 * self.pairs);
        let guard = builder.build().map_err(|cause| BenchError::Setup {
            workload: Workload::Memory,
            contender: self.name().into(),
            cause,
        })?;
        let untouched = grown();
        let start = Instant::now();
        let mut admitted = 0;
        for number in 0..pairs {
            call.rename(Kind::Capability, number);
            let allowed = guard.evaluate(&call.context(&scope)).is_ok_and(|it| it.verdict == Verdict::Allow);
            admitted += u64::from(allowed);
        }
        let elapsed = start.elapsed();
        let resident = grown();
        let allocated = count.map(|count| u64::try_from(count.live_bytes()).unwrap_or(0));

        let checked = Checked { workload: Workload::Memory, contender: self.name(), threads: 1 };
        checked.admitted(Phase::Timed, Expected::exactly(pairs), admitted)?;
        checked.buckets(Expected::exactly(2 * pairs), guard.bucket_count() as u64)?;
        let reserved = guard.memory_bytes() as u64;
        let sample = Sample { threads: 1, elapsed, calls: pairs, admitted, waited: Duration::ZERO };
        Ok((sample, Memory { pairs, reserved, allocated, untouched, resident }))
    }
}

impl Contender for Filled {
    fn name(&self) -> &str {
        "tollgate-std"
    }

    fn least_calls(&self) -> u64 {
        self.pairs as u64
    }

    fn round(&mut self, _threads: usize, _calls: u64) -> Result<Sample, BenchError> {
        Ok(self.measure()?.0)
    }
}

/// Linux's `VmRSS`.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_used_and_its_bytes_are_reserved() {
        let (sample, memory) = Filled { pairs: 2_048 }.measure().unwrap();
        assert_eq!((sample.admitted, memory.pairs), (2_048, 2_048));
        assert!(memory.reserved >= 64 * 2_048, "{memory:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_resident_set_is_told_where_there_is_one() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
