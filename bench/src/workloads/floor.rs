//! An uncontended hit of one key, and what no exact limiter of keys can do without: a hash of the key, a reading of
//! the clock and one exchange of a word, each measured alone.

use crate::call::{Call, Calls};
use crate::contenders::guards::{self, Whose};
use crate::contenders::{Clock, limiters};
use crate::error::BenchError;
use crate::expect::{Checked, Expected, Phase};
use crate::options::Sizes;
use crate::rounds::Contender;
use crate::subject::Subject;
use crate::timing::{Sample, timed};
use crate::workload::Workload;
use crate::workloads::hit::Hit;
use portable_atomic::{AtomicU128, Ordering};
use std::hint::black_box;
use std::rc::Rc;
use tollgate::time::{Clock as _, CoarseClock};

/// Few enough requests to stay in the first cache.
const REQUESTS: u64 = 64;

/// The parts whose sum is the floor.
pub const PARTS: [&str; 3] = ["hash", "clock", "cas"];

/// One part, which "admits" a call if it did its work.
struct Part {
    name: &'static str,
    subject: Box<dyn Subject>,
    calls: Rc<Calls>,
}

/// The parts, and the hits that are held against their sum.
pub fn contenders(sizes: &Sizes) -> Vec<Box<dyn Contender>> {
    let calls = Rc::new(Calls::hot(1, REQUESTS));
    let subjects = [hash(&calls.per_thread[0][0]), clock(), Box::new(Exchange::default())];
    let part = |(name, subject)| -> Box<dyn Contender> {
        Box::new(Part { name, subject, calls: Rc::clone(&calls) })
    };
    let hits = [
        ("limiter-coarse", limiters::single(Whose::Engine, Clock::Coarse, sizes.table)),
        ("guard-coarse", guards::pair(Whose::Engine, Clock::Coarse, sizes.table)),
    ];
    let hit = |(name, build): (&str, _)| -> Box<dyn Contender> {
        let calls = Rc::clone(&calls);
        Box::new(Hit { workload: Workload::Floor, name: name.into(), calls, build })
    };
    PARTS.into_iter().zip(subjects).map(part).chain(hits.into_iter().map(hit)).collect()
}

/// The hash of the engine's tables, over the same bytes; the same bytes must give the same hash.
fn hash(call: &Call) -> Box<dyn Subject> {
    let hasher = ahash::RandomState::new();
    let first = hasher.hash_one(call.id().as_bytes());
    Box::new(move |call: &Call| hasher.hash_one(call.id().as_bytes()) == first)
}

/// The coarse clock, which must not run backwards from its start.
fn clock() -> Box<dyn Subject> {
    let clock = CoarseClock::new();
    let start = clock.now();
    Box::new(move |_: &Call| clock.now() >= start)
}

/// A 128-bit word that is exchanged for the next number, each exchange from the word that the one before left.
#[derive(Default)]
struct Exchange(AtomicU128);

impl Subject for Exchange {
    fn run(&self, calls: &[Call]) -> u64 {
        let mut word = self.0.load(Ordering::Acquire);
        let mut exchanged = 0;
        for call in calls {
            black_box(call);
            match self.0.compare_exchange(word, word + 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    exchanged += 1;
                    word += 1;
                }
                Err(found) => word = found,
            }
        }
        exchanged
    }
}

impl Contender for Part {
    fn name(&self) -> &str {
        self.name
    }

    fn least_calls(&self) -> u64 {
        REQUESTS
    }

    fn round(&mut self, threads: usize, calls: u64) -> Result<Sample, BenchError> {
        let sample = timed(self.subject.as_ref(), &self.calls.per_thread[..threads], calls);
        let checked = Checked { workload: Workload::Floor, contender: self.name, threads };
        checked.admitted(Phase::Timed, Expected::exactly(sample.calls), sample.admitted)?;
        Ok(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_does_its_work_once_a_call() {
        let calls = Rc::new(Calls::hot(1, REQUESTS));
        let exchange = Exchange::default();
        assert_eq!(exchange.run(&calls.per_thread[0]), REQUESTS);
        assert_eq!(exchange.0.load(Ordering::Acquire), u128::from(REQUESTS));
        assert_eq!(clock().run(&calls.per_thread[0]), REQUESTS);
        let hash = hash(&calls.per_thread[0][0]);
        assert_eq!(hash.run(&calls.per_thread[0]), REQUESTS);
        assert_eq!(hash.run(&[Call::new("another".into(), String::new())]), 0);
    }
}
