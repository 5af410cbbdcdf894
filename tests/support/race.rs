//! Threads that start together, and what they were told.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use crate::intervals::Record;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use tollgate::Admission;
use tollgate::time::{Clock, ManualClock};

/// What one thread, or all together, were told: the admissions, the tokens by bucket, and how many refusals.
#[derive(Debug, Clone)]
pub struct Told<B> {
    pub records: Vec<Record<B>>,
    pub tokens: BTreeMap<B, u64>,
    pub refused: usize,
    clock: ManualClock,
    /// The time of this thread's last admission.
    last: u64,
}

impl<B: Ord + Clone> Told<B> {
    /// One thread that was told nothing so far, on a limit with this clock.
    pub fn on(clock: &ManualClock) -> Self {
        Self {
            records: Vec::new(),
            tokens: BTreeMap::new(),
            refused: 0,
            clock: clock.clone(),
            last: clock.now(),
        }
    }

    /// Notes that `cost` tokens of `bucket` were admitted, which must be at a time between this thread's last
    /// admission and now: the interval proof takes the times at their word.
    pub fn admitted(&mut self, bucket: B, cost: u64, admission: &Admission) {
        let Admission { at, from, to, .. } = *admission;
        let now = self.clock.now();
        assert!((self.last..=now).contains(&at), "decided at {at}, which is not in {}..={now}", self.last);
        self.last = at;
        self.records.push(Record { bucket: bucket.clone(), at, from, to });
        *self.tokens.entry(bucket).or_default() += cost;
    }

    pub fn tokens_of(&self, bucket: &B) -> u64 {
        self.tokens.get(bucket).copied().unwrap_or(0)
    }

    /// Everything that any of them was told.
    pub fn together(all: Vec<Self>) -> Self {
        all.into_iter()
            .reduce(|mut sum, one| {
                sum.records.extend(one.records);
                for (bucket, tokens) in one.tokens {
                    *sum.tokens.entry(bucket).or_default() += tokens;
                }
                sum.refused += one.refused;
                sum
            })
            .expect("a race of at least one thread")
    }
}

/// Runs `work(0)`, `work(1)`, ... each on its own thread, all let loose at once.
pub fn race<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let (start, work) = (&start, &work);
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    start.wait();
                    work(thread)
                })
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("a thread of the race")).collect()
    })
}

/// Runs `work` while another thread calls `meanwhile` again and again, and at least once.
pub fn while_watching<T>(meanwhile: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            loop {
                meanwhile();
                if done.load(Ordering::Relaxed) {
                    break;
                }
                std::thread::yield_now();
            }
        });
        // The watcher is told to stop even if the work fails, or the scope would wait for ever.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        let watched = watcher.join();
        match (result, watched) {
            (Ok(result), Ok(())) => result,
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}
