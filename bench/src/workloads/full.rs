//! A table full of live buckets, and every call a newcomer, who must be refused.
//!
//! Refusals leave the table as it is, so it is filled once for all rounds: its buckets refill in a day. After each
//! round the keys that fill it must still be refused, as many buckets must be live as before, and the newcomers must
//! have had none.

use crate::call::{Call, Calls};
use crate::contenders::Clock;
use crate::contenders::guards::Whose;
use crate::contenders::limiters;
use crate::error::BenchError;
use crate::expect::{Checked, Expected, Phase};
use crate::ids::Kind;
use crate::options::Sizes;
use crate::rounds::Contender;
use crate::subject::Bounded;
use crate::timing::{Sample, timed};
use crate::workload::Workload;
use std::rc::Rc;
use tollgate::quota::Quota;

const WORKLOAD: Workload = Workload::Full;
/// Newcomers of each thread before they come again; none gets a bucket, so they stay newcomers.
const NEWCOMERS: u64 = 4_096;
/// Of the keys that fill a table, how many are asked after a round.
const ASKED: u64 = 1_024;

/// A contender's name with the size of its table.
pub fn name(contender: &str, buckets: usize) -> String {
    format!("{contender}@{buckets}")
}

/// A full table.
struct Full {
    name: String,
    table: Bounded,
    buckets: u64,
    newcomers: Rc<Calls>,
    /// Where a call takes about a millisecond, a round is short.
    most_calls: u64,
}

/// The engine at three sizes, with its default clock at one, and the baseline there.
///
/// # Errors
/// If one cannot be built, or does not take exactly as many keys as its table has buckets.
pub fn contenders(sizes: &Sizes, threads: usize) -> Result<Vec<Box<dyn Contender>>, BenchError> {
    let newcomers = Rc::new(Calls::distinct(threads, NEWCOMERS, Kind::Newcomer));
    let [small, middle, large] = sizes.full;
    let wanted = [
        ("tollgate-coarse", Whose::Engine, Clock::Coarse, small),
        ("tollgate-coarse", Whose::Engine, Clock::Coarse, middle),
        ("tollgate-coarse", Whose::Engine, Clock::Coarse, large),
        ("tollgate-std", Whose::Engine, Clock::Std, middle),
        ("baseline-std", Whose::Baseline, Clock::Std, middle),
    ];
    let mut all = Vec::<Box<dyn Contender>>::new();
    for (contender, whose, clock, buckets) in wanted {
        let name = name(contender, buckets);
        let table = limiters::bounded(whose, clock, buckets, Quota::per_day(1))
            .map_err(|cause| BenchError::Setup { workload: WORKLOAD, contender: name.clone(), cause })?;
        // The baseline sweeps its whole map at every refusal.
        let most_calls = if whose == Whose::Baseline { 64 } else { u64::MAX };
        let mut full =
            Full { name, table, buckets: buckets as u64, newcomers: Rc::clone(&newcomers), most_calls };
        full.fill()?;
        all.push(Box::new(full));
    }
    Ok(all)
}

impl Full {
    fn checked(&self, threads: usize) -> Checked<'_> {
        Checked { workload: WORKLOAD, contender: &self.name, threads }
    }

    fn fill(&mut self) -> Result<(), BenchError> {
        let admitted = self.ask(0..self.buckets);
        self.checked(1).admitted(Phase::Opening, Expected::exactly(self.buckets), admitted)?;
        // The first newcomer looks everywhere, and finds out when to look again.
        let found = self.table.subject.run(&self.newcomers.per_thread[0][..1]);
        self.checked(1).admitted(Phase::Opening, Expected::exactly(0), found)
    }

    /// Calls under the capabilities of these numbers. One request for all of them: a million would not fit a cache.
    fn ask(&self, numbers: impl Iterator<Item = u64>) -> u64 {
        let mut call = Call::new(String::new(), String::new());
        numbers
            .map(|number| {
                call.rename(Kind::Capability, number);
                self.table.subject.run(std::slice::from_ref(&call))
            })
            .sum()
    }
}

impl Contender for Full {
    fn name(&self) -> &str {
        &self.name
    }

    fn least_calls(&self) -> u64 {
        8
    }

    fn most_calls(&self) -> u64 {
        self.most_calls
    }

    fn round(&mut self, threads: usize, calls: u64) -> Result<Sample, BenchError> {
        let sample = timed(self.table.subject.as_ref(), &self.newcomers.per_thread[..threads], calls);
        let checked = self.checked(threads);
        checked.admitted(Phase::Timed, Expected::exactly(0), sample.admitted)?;
        let apart = (self.buckets / ASKED).max(1) as usize;
        let settled = self.ask((0..self.buckets).step_by(apart));
        checked.admitted(Phase::Settled, Expected::exactly(0), settled)?;
        checked.buckets(Expected::exactly(self.buckets), (self.table.live)() as u64)?;
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex};

    /// A set of keys that admits each once, and takes up to `bound` of them.
    fn full(bound: usize, buckets: u64) -> Full {
        let keys = Arc::new(Mutex::new(HashSet::<String>::new()));
        let counted = Arc::clone(&keys);
        let admit = move |call: &Call| {
            let mut keys = keys.lock().unwrap();
            keys.len() < bound && keys.insert(call.id().clone())
        };
        let table =
            Bounded { subject: Box::new(admit), live: Box::new(move || counted.lock().unwrap().len()) };
        let newcomers = Rc::new(Calls::distinct(1, 4, Kind::Newcomer));
        Full { name: "fake".into(), table, buckets, newcomers, most_calls: 64 }
    }

    #[test]
    fn a_table_that_holds_exactly_its_buckets_passes() {
        let mut exact = full(8, 8);
        exact.fill().unwrap();
        assert_eq!(exact.round(1, 10).unwrap().admitted, 0);
    }

    #[test]
    fn a_table_with_room_for_one_newcomer_fails() {
        let error = full(9, 8).fill().unwrap_err();
        assert!(matches!(error, BenchError::WrongCount { phase: Phase::Opening, got: 1, .. }), "{error}");
    }

    #[test]
    fn a_table_that_cannot_be_filled_fails() {
        let error = full(7, 8).fill().unwrap_err();
        assert!(matches!(error, BenchError::WrongCount { phase: Phase::Opening, got: 7, .. }), "{error}");
    }

    #[test]
    fn a_table_that_lets_a_newcomer_in_later_fails_its_round() {
        let mut loose = full(8, 8);
        loose.fill().unwrap();
        loose.table.subject = Box::new(|call: &Call| call.id().ends_with("0000"));
        assert!(matches!(loose.round(1, 8), Err(BenchError::WrongCount { phase: Phase::Timed, .. })));
    }
}
