//! What the threads of an execution were told, and whether it adds up.

use crate::intervals::{Record, assert_proved, left_after};
use crate::oracle::Line;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tollgate::Admission;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};

/// A quota, and the oracle's line of it. The narrow words count nanoseconds, on which the engine also settles.
#[derive(Clone)]
pub struct Limit {
    pub quota: Quota,
    pub line: Line,
}

/// `tokens` in each window of `nanos`.
pub fn window(tokens: u64, nanos: u64) -> Limit {
    let quota = Quota::window(tokens, Duration::from_nanos(nanos));
    Limit { quota, line: Line::window(tokens, nanos, 0, 64).expect("a line") }
}

/// `tokens` each `nanos`, flowing in, and at most `burst`.
pub fn bucket(tokens: u64, nanos: u64, burst: u64) -> Limit {
    let quota = Quota::tokens_per(tokens, Duration::from_nanos(nanos)).burst(burst);
    Limit { quota, line: Line::bucket_on(1, tokens, nanos, burst, 64).expect("a line") }
}

/// One thread's book.
pub struct Book<B> {
    clock: ManualClock,
    last: u64,
    pub records: Vec<Record<B>>,
    pub told: BTreeMap<B, u64>,
    pub operations: usize,
    pub refused: usize,
}

impl<B: Ord + Copy + Debug> Book<B> {
    pub fn on(clock: &ManualClock) -> Self {
        Self {
            clock: clock.clone(),
            last: clock.now(),
            records: Vec::new(),
            told: BTreeMap::new(),
            operations: 0,
            refused: 0,
        }
    }

    /// Notes the admissions of one call, each of which must have been decided between this thread's last call and
    /// now. (Tables have clocks of their own, so those of one call need not be in order.)
    pub fn admitted(&mut self, draws: &[(B, u64)], admissions: &[Admission]) {
        assert_eq!(admissions.len(), draws.len(), "all or nothing");
        let (now, mut latest) = (self.clock.now(), self.last);
        for (&(bucket, cost), &Admission { at, from, to, .. }) in draws.iter().zip(admissions) {
            assert!(
                (self.last..=now).contains(&at),
                "decided at {at}, which is not in {}..={now}",
                self.last
            );
            latest = latest.max(at);
            self.records.push(Record { bucket, at, from, to });
            *self.told.entry(bucket).or_default() += cost;
        }
        self.last = latest;
    }

    /// All threads' books as one.
    pub fn together(books: Vec<Self>) -> Self {
        let together = books.into_iter().reduce(|mut sum, one| {
            sum.records.extend(one.records);
            for (bucket, tokens) in one.told {
                *sum.told.entry(bucket).or_default() += tokens;
            }
            sum.operations += one.operations;
            sum.refused += one.refused;
            sum
        });
        together.expect("at least one thread")
    }

    /// The interval proof, and what must be left in each bucket that was drawn on.
    pub fn check<'l>(&self, line_of: impl Fn(&B) -> &'l Line, peek: impl Fn(&B) -> u64) {
        let proved = assert_proved(self.records.clone(), &self.told, &line_of);
        assert_eq!(proved.buckets, self.told.len());
        let now = self.clock.now();
        for bucket in self.told.keys() {
            let left = left_after(&self.records, bucket, line_of(bucket), now);
            assert_eq!(peek(bucket), left, "left in {bucket:?} at {now}");
        }
    }
}

/// Runs `work(0)`, `work(1)`, ... each on a thread of the scheduler's, and collects what they return.
///
/// Not scoped threads: of those shuttle takes for finished which still run the destructors of their thread locals.
pub fn threads<T: Send + 'static>(count: usize, work: impl Fn(usize) -> T + Send + Sync + 'static) -> Vec<T> {
    let work = Arc::new(work);
    let running: Vec<_> = (0..count)
        .map(|thread| {
            let work = work.clone();
            shuttle::thread::spawn(move || work(thread))
        })
        .collect();
    let joined = running.into_iter().map(|thread| thread.join());
    joined.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
}
