//! Every call a new key, and each bucket full again a millisecond later.
//!
//! A round is made of passes of half as many keys as the table has buckets. Before each pass the clocks are waited for
//! until all buckets of the one before have refilled, and the prepared requests get keys that never were. So the
//! table is at its bound all the time, a pass makes room for itself out of twice as many refilled buckets, and every
//! call must be admitted, however fast it comes and however coarse the clock is. Waits and new names are not timed.

use crate::call::Calls;
use crate::contenders::guards::Whose;
use crate::contenders::{Clock, limiters};
use crate::error::BenchError;
use crate::expect::{Checked, Expected, Phase};
use crate::ids::Kind;
use crate::latency::Recorder;
use crate::options::Sizes;
use crate::rounds::Contender;
use crate::subject::Bounded;
use crate::timing::{Sample, timed};
use crate::workload::Workload;
use std::sync::Arc;
use std::time::Duration;
use tollgate::quota::Quota;
use tollgate::time::{Clock as _, CoarseClock};

const WORKLOAD: Workload = Workload::Churn;
const PER_SECOND: u64 = 1_000;
const REFILL: Duration = Duration::from_millis(1);

/// A contender that takes in new keys for ever.
pub struct Churn {
    name: &'static str,
    whose: Whose,
    clock: Clock,
    buckets: usize,
    most_threads: usize,
    /// Times single calls, if somebody asks.
    recorder: Option<Arc<Recorder>>,
}

/// Engine and baseline. governor and the DashMap keep every key for ever.
pub fn contenders(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let all = churning(sizes, threads);
    all.into_iter().map(|contender| Box::new(contender) as Box<dyn Contender>).collect()
}

/// The same, for those who record single calls.
pub fn churning(sizes: &Sizes, most_threads: usize) -> Vec<Churn> {
    let wanted = [
        ("tollgate-coarse", Whose::Engine, Clock::Coarse),
        ("tollgate-std", Whose::Engine, Clock::Std),
        ("baseline-std", Whose::Baseline, Clock::Std),
        ("baseline-coarse", Whose::Baseline, Clock::Coarse),
    ];
    let buckets = sizes.churn;
    let churn = |(name, whose, clock)| Churn { name, whose, clock, buckets, most_threads, recorder: None };
    wanted.into_iter().map(churn).collect()
}

impl Churn {
    /// From now on single calls are timed, which makes the whole slower.
    pub fn record(&mut self) -> Arc<Recorder> {
        Arc::clone(self.recorder.insert(Arc::default()))
    }

    /// Calls of each thread in one pass.
    fn pass(&self, threads: usize) -> u64 {
        (self.buckets / 2 / threads).max(1) as u64
    }

    fn table(&self) -> Result<Bounded, BenchError> {
        let quota = Quota::per_second(PER_SECOND).burst(1);
        let built = limiters::bounded(self.whose, self.clock, self.buckets, quota);
        let table = built.map_err(|cause| BenchError::Setup {
            workload: WORKLOAD,
            contender: self.name.into(),
            cause,
        })?;
        Ok(match &self.recorder {
            Some(recorder) => Bounded { subject: Recorder::around(recorder, table.subject), ..table },
            None => table,
        })
    }
}

impl Contender for Churn {
    fn name(&self) -> &str {
        self.name
    }

    fn least_calls(&self) -> u64 {
        2 * self.pass(self.most_threads)
    }

    fn round(&mut self, threads: usize, calls: u64) -> Result<Sample, BenchError> {
        let checked = Checked { workload: WORKLOAD, contender: self.name, threads };
        let table = self.table()?;
        let pass = self.pass(threads);
        let each = pass * threads as u64;
        let mut prepared = Calls::distinct(threads, pass, Kind::Capability).per_thread;
        let mut next = each;
        let mut one = |phase: Phase| -> Result<Sample, BenchError> {
            let sample = timed(table.subject.as_ref(), &prepared, pass);
            checked.admitted(phase, Expected::exactly(each), sample.admitted)?;
            checked.buckets(Expected::at_most(self.buckets as u64), (table.live)() as u64)?;
            wait_for_refill();
            for (call, number) in prepared.iter_mut().flatten().zip(next..) {
                call.rename(Kind::Capability, number);
            }
            next += each;
            Ok(sample)
        };
        let paused = |paused| self.recorder.iter().for_each(|recorder| recorder.pause(paused));
        paused(true);
        // Two passes fill the table, the third is the first that finds it full.
        for _ in 0..3 {
            one(Phase::Opening)?;
        }
        paused(false);
        // Two at a time: a table that sweeps when it is full does so in every second pass.
        let mut total = one(Phase::Timed)?;
        for _ in 1..2 * calls.div_ceil(2 * pass) {
            total.add(one(Phase::Timed)?);
        }
        Ok(total)
    }
}

/// Until all buckets are full again by any clock: a coarse one may be behind by its granularity when it is asked for
/// the start, and when it is asked for the end.
fn wait_for_refill() {
    let clock = CoarseClock::new();
    let enough = REFILL + Duration::from_nanos(clock.granularity()) + Duration::from_micros(100);
    while u128::from(clock.now()) < enough.as_nanos() {
        std::thread::sleep(Duration::from_micros(500));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn churn(buckets: usize) -> Churn {
        let sizes = Sizes { churn: buckets, ..Sizes::default() };
        churning(&sizes, 2).swap_remove(0)
    }

    #[test]
    fn a_round_has_an_even_number_of_passes_and_every_new_key_is_admitted() {
        let sample = churn(1_024).round(2, 700).unwrap();
        assert_eq!((sample.calls, sample.admitted), (2_048, 2_048), "four passes of 512");
    }

    #[test]
    fn only_the_timed_calls_are_recorded() {
        let mut churn = churn(256);
        let recorder = churn.record();
        let sample = churn.round(1, 1).unwrap();
        assert_eq!(recorder.latency("fake", 1).calls, sample.calls);
    }
}
