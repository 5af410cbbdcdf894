//! Calls that find their bucket and are admitted.
//!
//! Each round sets its contender up with limits that hold exactly the calls of the round: one pass before timing, in
//! which every key gets its bucket, and the timed passes. So every call must be admitted, and a pass after timing
//! must be refused: a contender that admits too much fails there, one that admits too little fails before.

use crate::call::Calls;
use crate::contenders::budgets::{self, After, Kept};
use crate::contenders::guards::{self, Whose};
use crate::contenders::{Clock, dashmap, effects, governor, limiters};
use crate::error::BenchError;
use crate::expect::{Checked, Expected, Phase};
use crate::options::Sizes;
use crate::rounds::Contender;
use crate::subject::{Build, Capacity};
use crate::timing::{Sample, timed};
use crate::workload::Workload;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tollgate::time::{Clock as _, CoarseClock};

/// A contender that is set up for each round.
pub struct Hit {
    /// What is measured.
    pub workload: Workload,
    /// Its name in the report.
    pub name: String,
    /// The calls of all threads, shared by all contenders of a workload.
    pub calls: Rc<Calls>,
    /// Sets it up.
    pub build: Build,
}

impl Contender for Hit {
    fn name(&self) -> &str {
        &self.name
    }

    fn least_calls(&self) -> u64 {
        self.calls.per_thread[0].len() as u64
    }

    fn round(&mut self, threads: usize, calls: u64) -> Result<Sample, BenchError> {
        let checked = Checked { workload: self.workload, contender: &self.name, threads };
        let pass = self.least_calls();
        // Whole passes only: then every key gets as many calls as every other.
        let passes = calls.div_ceil(pass).max(1);
        let key = self.calls.repeats * (1 + passes * threads as u64);
        let capacity = Capacity { key, agent: key * (self.calls.keys / self.calls.agents) };
        let opened = Instant::now();
        let subject = (self.build)(capacity).map_err(|cause| BenchError::Setup {
            workload: self.workload,
            contender: self.name.clone(),
            cause,
        })?;
        let opening = subject.run(&self.calls.per_thread[0]);
        checked.admitted(Phase::Opening, Expected::exactly(pass), opening)?;
        let sample = timed(subject.as_ref(), &self.calls.per_thread[..threads], passes * pass);
        checked.admitted(Phase::Timed, Expected::exactly(sample.calls), sample.admitted)?;
        let settled = subject.run(&self.calls.per_thread[0]);
        // Every key has one token more for each second since its first draw, and nothing before the first second.
        let refilled = self.calls.keys * (opened.elapsed() + clock_slack()).as_secs();
        checked.admitted(Phase::Settled, Expected::at_most(refilled), settled)?;
        Ok(sample)
    }
}

/// A coarse clock may show the first draw earlier than it was, by its granularity.
fn clock_slack() -> Duration {
    Duration::from_nanos(CoarseClock::new().granularity())
}

pub(super) fn listed(
    workload: Workload,
    calls: Calls,
    builds: Vec<(&str, Build)>,
) -> Vec<Box<dyn Contender>> {
    let calls = Rc::new(calls);
    let hit = |(name, build): (&str, Build)| -> Box<dyn Contender> {
        Box::new(Hit { workload, name: name.into(), calls: Rc::clone(&calls), build })
    };
    builds.into_iter().map(hit).collect()
}

use Clock::{Coarse, Std};
use Whose::{Baseline, Engine};

/// Both limits of `VelocityGuard`.
pub fn pair(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let calls = Calls::random(threads, sizes.keys, sizes.agents);
    listed(
        Workload::Pair,
        calls,
        vec![
            ("tollgate-coarse", guards::pair(Engine, Coarse, sizes.table)),
            ("tollgate-std", guards::pair(Engine, Std, sizes.table)),
            ("baseline-std", guards::pair(Baseline, Std, sizes.table)),
            ("baseline-coarse", guards::pair(Baseline, Coarse, sizes.table)),
            ("dashmap-std", dashmap::pair(Std)),
            ("dashmap-coarse", dashmap::pair(Coarse)),
        ],
    )
}

/// One limit: a `Limiter`, which is what governor is, and a `VelocityGuard` with one limit.
pub fn single(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let calls = Calls::random(threads, sizes.keys, sizes.agents);
    listed(
        Workload::Single,
        calls,
        vec![
            ("tollgate-coarse", limiters::single(Engine, Coarse, sizes.table)),
            ("tollgate-std", limiters::single(Engine, Std, sizes.table)),
            ("guard-coarse", guards::calls_alone(Engine, Coarse, sizes.table)),
            ("baseline-std", limiters::single(Baseline, Std, sizes.table)),
            ("baseline-coarse", limiters::single(Baseline, Coarse, sizes.table)),
            ("governor-quanta", governor::quanta()),
            ("governor-std", governor::std()),
            ("dashmap-std", dashmap::single(Std)),
            ("dashmap-coarse", dashmap::single(Coarse)),
        ],
    )
}

/// Calls under the one hot capability before they repeat.
const HOT: u64 = 1_024;

/// Both limits, one key; governor has its single limit.
pub fn hot(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    listed(
        Workload::Hot,
        Calls::hot(threads, HOT),
        vec![
            ("tollgate-coarse", guards::pair(Engine, Coarse, sizes.table)),
            ("tollgate-std", guards::pair(Engine, Std, sizes.table)),
            ("baseline-std", guards::pair(Baseline, Std, sizes.table)),
            ("baseline-coarse", guards::pair(Baseline, Coarse, sizes.table)),
            ("governor-quanta", governor::quanta()),
            ("governor-std", governor::std()),
            ("dashmap-std", dashmap::pair(Std)),
            ("dashmap-coarse", dashmap::pair(Coarse)),
        ],
    )
}

/// `AgentVelocityGuard`.
pub fn agent(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let calls = Calls::random(threads, sizes.keys, sizes.agents);
    listed(
        Workload::Agent,
        calls,
        vec![
            ("tollgate-coarse", guards::agent(Engine, Coarse, sizes.table)),
            ("tollgate-std", guards::agent(Engine, Std, sizes.table)),
            ("baseline-std", guards::agent(Baseline, Std, sizes.table)),
            ("baseline-coarse", guards::agent(Baseline, Coarse, sizes.table)),
        ],
    )
}

/// Both guards in series.
pub fn series(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let calls = Calls::random(threads, sizes.keys, sizes.agents);
    listed(
        Workload::Series,
        calls,
        vec![
            ("tollgate-coarse", guards::pipeline(Engine, Coarse, sizes.table, false)),
            ("tollgate-std", guards::pipeline(Engine, Std, sizes.table, false)),
            ("baseline-std", guards::pipeline(Baseline, Std, sizes.table, false)),
            ("baseline-coarse", guards::pipeline(Baseline, Coarse, sizes.table, false)),
        ],
    )
}

/// Both guards in one commit. The baseline has only the series: it plans nothing.
pub fn atomic(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let calls = Calls::random(threads, sizes.keys, sizes.agents);
    listed(
        Workload::Atomic,
        calls,
        vec![
            ("tollgate-coarse", guards::pipeline(Engine, Coarse, sizes.table, true)),
            ("tollgate-std", guards::pipeline(Engine, Std, sizes.table, true)),
            ("series-coarse", guards::pipeline(Engine, Coarse, sizes.table, false)),
            ("baseline-std", guards::pipeline(Baseline, Std, sizes.table, false)),
            ("baseline-coarse", guards::pipeline(Baseline, Coarse, sizes.table, false)),
        ],
    )
}

/// A permit and its emission, beside a `Limiter` that only says yes.
pub fn effect(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    let calls = Calls::random(threads, sizes.keys, sizes.agents);
    listed(
        Workload::Effect,
        calls,
        vec![
            ("tollgate-coarse", effects::emitted(Coarse, sizes.table, false)),
            ("tollgate-std", effects::emitted(Std, sizes.table, false)),
            ("journal-coarse", effects::emitted(Coarse, sizes.table, true)),
            ("journal-std", effects::emitted(Std, sizes.table, true)),
            ("limiter-coarse", limiters::single(Engine, Coarse, sizes.table)),
        ],
    )
}

/// Budgets over four scopes in memory, and sums that only say yes.
pub fn budget(sizes: &Sizes, threads: usize) -> Vec<Box<dyn Contender>> {
    listed(
        Workload::Budget,
        Calls::random(threads, sizes.keys, sizes.agents),
        vec![
            ("tollgate", budgets::engine(Kept::InMemory, After::Settled)),
            ("mutex", budgets::locked::sums()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::options::Effort;
    use crate::rounds::interleave;
    use std::collections::HashMap;
    use std::sync::Mutex;

    /// Counts exactly, but for `extra` calls more (or fewer) under one of the capabilities.
    fn fake(extra: i64, admits_all: bool) -> Hit {
        let calls = Rc::new(Calls::random(2, 8, 2));
        let odd = calls.per_thread[0][3].id().clone();
        let build: Build = Box::new(move |capacity| {
            let drawn = Mutex::new(HashMap::<String, u64>::new());
            let odd = odd.clone();
            Ok(Box::new(move |call: &Call| {
                let mut drawn = drawn.lock().unwrap();
                let drawn = drawn.entry(call.id().clone()).or_default();
                *drawn += 1;
                let extra = if *call.id() == odd { extra } else { 0 };
                admits_all || *drawn <= capacity.key.checked_add_signed(extra).unwrap()
            }))
        });
        Hit { workload: Workload::Pair, name: "fake".into(), calls, build }
    }

    #[test]
    fn an_exact_contender_passes_and_all_its_calls_are_counted() {
        let sample = fake(0, false).round(2, 20).unwrap();
        assert_eq!(
            (sample.calls, sample.admitted),
            (48, 48),
            "three whole passes of 8 for each of 2 threads"
        );
    }

    #[test]
    fn a_contender_that_admits_one_call_too_many_fails_the_round() {
        let text = fake(1, false).round(1, 8).unwrap_err().to_string();
        assert!(text.contains("fake admitted 1 calls from buckets that"), "{text}");
        assert!(text.contains("expected 0"), "{text}");
    }

    #[test]
    fn one_call_too_many_ends_the_whole_run() {
        let mut contenders: Vec<Box<dyn Contender>> =
            vec![Box::new(fake(0, false)), Box::new(fake(1, false))];
        let run = interleave(Workload::Pair, &mut contenders, 2, 3, Effort::Calls(8));
        assert!(matches!(run, Err(BenchError::WrongCount { got: 1, .. })), "{run:?}");
    }

    #[test]
    fn a_contender_that_admits_everything_fails_the_round() {
        assert!(matches!(
            fake(0, true).round(1, 8),
            Err(BenchError::WrongCount { phase: Phase::Settled, .. })
        ));
    }

    #[test]
    fn a_contender_that_admits_one_call_too_few_fails_the_round() {
        let error = fake(-1, false).round(1, 8).unwrap_err();
        assert!(matches!(error, BenchError::WrongCount { phase: Phase::Timed, got: 7, .. }), "{error}");
    }
}
