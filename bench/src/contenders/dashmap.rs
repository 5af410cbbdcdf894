//! What one writes without a library: a sharded map, and in it a mutex and a token bucket for each key.

use super::{Clock, CoarseClock, MonotonicClock};
use crate::call::{COST, Call};
use crate::subject::{Build, Subject};
use dashmap::DashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tollgate::time::Clock as Time;

/// Billionths of a token, so that one token a second is one unit a nanosecond.
const UNITS: u64 = 1_000_000_000;

/// The buckets of one key, one for each limit, drawn on together.
struct Buckets<const L: usize> {
    units: [u64; L],
    /// Up to when they were refilled.
    at: u64,
}

struct Limits<C, const L: usize> {
    /// With the hasher that tollgate uses: the default one is slower.
    buckets: DashMap<String, Mutex<Buckets<L>>, ahash::RandomState>,
    clock: C,
    capacity: [u64; L],
    per_second: [u64; L],
}

impl<C: Time, const L: usize> Limits<C, L> {
    fn new(clock: C, capacity: u64, per_second: [u64; L]) -> Self {
        let capacity = per_second.map(|tokens| capacity.saturating_mul(tokens).saturating_mul(UNITS));
        Self { buckets: DashMap::default(), clock, capacity, per_second }
    }

    /// Draws what one second refills, from all limits or none.
    fn admit(&self, key: &str) -> bool {
        if let Some(buckets) = self.buckets.get(key) {
            return self.draw(buckets.lock().unwrap_or_else(PoisonError::into_inner));
        }
        // Somebody else may have made it meanwhile.
        let full = || Mutex::new(Buckets { units: self.capacity, at: self.clock.now() });
        let buckets = self.buckets.entry(key.to_owned()).or_insert_with(full);
        self.draw(buckets.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn draw(&self, mut buckets: MutexGuard<'_, Buckets<L>>) -> bool {
        let now = self.clock.now();
        let elapsed = now.saturating_sub(buckets.at);
        buckets.at = now.max(buckets.at);
        for limit in 0..L {
            let refilled =
                buckets.units[limit].saturating_add(elapsed.saturating_mul(self.per_second[limit]));
            buckets.units[limit] = refilled.min(self.capacity[limit]);
        }
        let costs = self.per_second.map(|tokens| tokens * UNITS);
        let fits = buckets.units.iter().zip(costs).all(|(&units, cost)| cost <= units);
        if fits {
            for (units, cost) in buckets.units.iter_mut().zip(costs) {
                *units -= cost;
            }
        }
        fits
    }
}

fn build<const L: usize>(clock: Clock, per_second: [u64; L]) -> Build {
    fn subject<C: Time, const L: usize>(limits: Limits<C, L>) -> Box<dyn Subject> {
        Box::new(move |call: &Call| limits.admit(call.id()))
    }
    Box::new(move |capacity| {
        Ok(match clock {
            Clock::Std => subject(Limits::new(MonotonicClock::new(), capacity.key, per_second)),
            Clock::Coarse => subject(Limits::new(CoarseClock::new(), capacity.key, per_second)),
        })
    })
}

/// A limit of calls for each capability.
pub fn single(clock: Clock) -> Build {
    build(clock, [1])
}

/// A limit of calls and one of spend.
pub fn pair(clock: Clock) -> Build {
    build(clock, [1, COST])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tollgate::time::ManualClock;

    #[test]
    fn a_bucket_holds_its_capacity_and_refills_one_token_a_second() {
        let clock = ManualClock::new();
        let limits = Limits::new(clock.clone(), 3, [1, COST]);
        let admitted = |attempts: usize| (0..attempts).filter(|_| limits.admit("key")).count();
        assert_eq!(admitted(5), 3);
        clock.advance(Duration::from_millis(999));
        assert_eq!(admitted(1), 0);
        clock.advance(Duration::from_millis(1));
        assert_eq!(admitted(2), 1);
        clock.advance(Duration::from_secs(60));
        assert_eq!(admitted(5), 3, "no more than the capacity is saved up");
    }

    #[test]
    fn keys_have_buckets_of_their_own() {
        let limits = Limits::new(ManualClock::new(), 1, [1]);
        assert!(limits.admit("a") && limits.admit("b"));
        assert!(!limits.admit("a") && !limits.admit("b"));
    }
}
