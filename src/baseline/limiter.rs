//! Keyed limiters behind one lock: one quota, or several drawn on together.

use super::DEFAULT_BUCKET_CAP;
use super::table::{Draw, KeyBuffer, Limit, Mode, Table};
use crate::key::KeyBytes;
use crate::quota::Quota;
use crate::time::{Clock, EngineClock};
use crate::word::LONE_MARK;
use crate::{Admission, ConfigError, Key, LimitName, Reason, Refusal};
use smallvec::SmallVec;
use std::marker::PhantomData;

/// [`crate::Limiter`] behind one lock: one quota, a bucket for each key.
///
/// ```
/// use tollgate::{baseline::Limiter, quota::Quota};
///
/// let limiter = Limiter::builder(Quota::per_minute(1)).bucket_cap(100).build()?;
/// assert_eq!(limiter.check("alice").unwrap().remaining, 0);
/// assert!(limiter.check("alice").is_err());
/// assert_eq!((limiter.peek("bob"), limiter.len()), (1, 1));
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
pub struct Limiter<K: ?Sized> {
    limits: LimitSet,
    key: PhantomData<fn(&K)>,
}

/// Builds a [`Limiter`].
#[must_use]
pub struct LimiterBuilder<K: ?Sized> {
    limits: LimitSetBuilder,
    key: PhantomData<fn(&K)>,
}

impl<K: Key + ?Sized> Limiter<K> {
    /// Starts with a quota and the defaults: 65,536 buckets, the monotonic clock.
    pub fn builder(quota: Quota) -> LimiterBuilder<K> {
        LimiterBuilder { limits: LimitSet::builder().limit("limit", quota), key: PhantomData }
    }

    /// Draws one token.
    ///
    /// # Errors
    /// The refusal, which changes nothing.
    pub fn check(&self, key: &K) -> Result<Admission, Refusal> {
        self.check_n(key, 1)
    }

    /// Draws `cost` tokens. A cost of 0 is a peek: admitted, and nothing changes.
    ///
    /// # Errors
    /// The refusal, which changes nothing.
    pub fn check_n(&self, key: &K, cost: u64) -> Result<Admission, Refusal> {
        let table = &self.limits.table;
        let mut draws = [Draw::new(bucket_key(0, key), 0, [cost])];
        let at = table.decide(Mode::Draw, &mut draws)?;
        let line = &table.limits()[0].line;
        let to = draws[0].marks[0];
        let units = line.units(cost).unwrap_or(0);
        Ok(Admission { at, from: to.saturating_sub(units), to, remaining: line.available(to, at) })
    }

    /// Whole tokens that `key` could draw now.
    pub fn peek(&self, key: &K) -> u64 {
        self.limits.peek(0, key)
    }

    /// Live buckets.
    pub fn len(&self) -> usize {
        self.limits.len()
    }

    /// Is there no live bucket?
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// Forgets the buckets that are full again, and returns how many.
    pub fn prune_refilled(&self) -> usize {
        self.limits.prune_refilled()
    }
}

impl<K: Key + ?Sized> LimiterBuilder<K> {
    /// The limit's name in refusals; `limit` unless set.
    pub fn name(mut self, name: impl Into<LimitName>) -> Self {
        self.limits.limits[0].0 = name.into();
        self
    }

    /// The most buckets. 65,536 unless set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.limits = self.limits.bucket_cap(buckets);
        self
    }

    /// The clock; the monotonic one unless set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.limits = self.limits.clock(clock);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A quota whose numbers cannot be counted for five years, or a bucket cap of 0.
    pub fn build(self) -> Result<Limiter<K>, ConfigError> {
        Ok(Limiter { limits: self.limits.build()?, key: PhantomData })
    }
}

/// [`crate::LimitSet`] behind one lock: several named limits that share one table.
///
/// ```
/// use tollgate::{baseline::LimitSet, quota::Quota};
///
/// let limits = LimitSet::builder()
///     .limit("per-client", Quota::per_minute(2))
///     .limit("everybody", Quota::per_minute(100))
///     .build()?;
/// limits.draw(&[(0, "alice", 2), (1, "", 1)]).unwrap();
/// let refusal = limits.draw(&[(0, "alice", 1), (1, "", 1)]).unwrap_err();
/// assert_eq!(refusal.limit.as_str(), "per-client");
/// assert_eq!(limits.peek(1, ""), 99);
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
pub struct LimitSet {
    table: Table<1>,
}

/// Builds a [`LimitSet`].
#[must_use]
pub struct LimitSetBuilder {
    limits: Vec<(LimitName, Quota)>,
    bucket_cap: usize,
    clock: EngineClock,
}

impl LimitSet {
    /// Starts without limits: 65,536 buckets, the monotonic clock.
    pub fn builder() -> LimitSetBuilder {
        LimitSetBuilder { limits: Vec::new(), bucket_cap: DEFAULT_BUCKET_CAP, clock: EngineClock::default() }
    }

    /// Takes all draws, or none. Each is a limit's number (in the order of [`LimitSetBuilder::limit`]), a key
    /// and a cost in tokens. Draws on one bucket are summed; a cost of 0 changes nothing.
    ///
    /// Returns one admission for each draw with a cost above 0, in the order given.
    ///
    /// # Errors
    /// Why not, of the limit that comes first in the [order of reasons](super#rules).
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn draw<K: Key + ?Sized>(&self, draws: &[(usize, &K, u64)]) -> Result<Vec<Admission>, Refusal> {
        let mut sums = SmallVec::<[Draw<1>; 4]>::new();
        // The first sum above u64.
        let mut overflowed = None;
        // For each draw that costs something: the sum it is part of, and how much of it was there before.
        let mut parts = SmallVec::<[(usize, u64); 4]>::new();
        for &(limit, key, cost) in draws {
            self.number(limit);
            if cost == 0 {
                continue;
            }
            let key = bucket_key(limit, key);
            let sum = sums.iter().position(|sum| sum.key == key).unwrap_or_else(|| {
                sums.push(Draw::new(key, limit, [0]));
                sums.len() - 1
            });
            let before = sums[sum].costs[0];
            sums[sum].costs[0] = before.checked_add(cost).unwrap_or_else(|| {
                overflowed = Some(overflowed.map_or(sum, |first: usize| first.min(sum)));
                u64::MAX
            });
            parts.push((sum, before));
        }
        if let Some(last) = overflowed {
            // More than any bucket holds, but an earlier limit may be the first to say so.
            let impossible = |sum: &Draw<1>| self.number(sum.limit).line.units(sum.costs[0]).is_none();
            let first = sums[..last].iter().find(|sum| impossible(sum)).unwrap_or(&sums[last]);
            return Err(self.number(first.limit).refuse(Reason::Impossible, first.costs[0]));
        }
        let at = self.table.decide(Mode::Draw, &mut sums)?;
        let admissions = draws.iter().filter(|draw| draw.2 > 0).zip(parts);
        let admissions = admissions.map(|(&(limit, _, cost), (sum, before))| {
            let line = &self.number(limit).line;
            let (mark, total) = (sums[sum].marks[0], sums[sum].costs[0]);
            // An admitted total is within the capacity, so no part of it overflows.
            let start = mark - line.units(total).unwrap_or(0);
            let from = start + before * line.units_per_token();
            let to = from + cost * line.units_per_token();
            Admission { at, from, to, remaining: line.available(to, at) }
        });
        Ok(admissions.collect())
    }

    /// Whole tokens that `key` could draw now from limit number `limit`.
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn peek<K: Key + ?Sized>(&self, limit: usize, key: &K) -> u64 {
        self.number(limit);
        self.table.available(&bucket_key(limit, key), limit)[0]
    }

    fn number(&self, limit: usize) -> &Limit {
        let limits = self.table.limits();
        limits.get(limit).unwrap_or_else(|| panic!("limit number {limit} of a set of {}", limits.len()))
    }

    /// Live buckets.
    pub fn len(&self) -> usize {
        self.table.buckets()
    }

    /// Is there no live bucket?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the buckets that are full again, and returns how many.
    pub fn prune_refilled(&self) -> usize {
        self.table.prune_refilled()
    }
}

/// The limit's number has a fixed width, so limits never share a bucket.
fn bucket_key<K: Key + ?Sized>(limit: usize, key: &K) -> KeyBuffer {
    let mut bytes = KeyBytes::default();
    key.encode(&mut bytes);
    let mut bucket = KeyBuffer::from_slice(&limit.to_le_bytes());
    bucket.extend_from_slice(bytes.as_slice());
    bucket
}

impl LimitSetBuilder {
    /// Adds a limit; the first is number 0.
    pub fn limit(mut self, name: impl Into<LimitName>, quota: Quota) -> Self {
        self.limits.push((name.into(), quota));
        self
    }

    /// The most buckets of all limits together. 65,536 unless set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.bucket_cap = buckets;
        self
    }

    /// The clock; the monotonic one unless set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.clock = EngineClock::new(clock);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A quota whose numbers cannot be counted for five years, or a bucket cap of 0.
    pub fn build(self) -> Result<LimitSet, ConfigError> {
        let limit = |(name, quota): (LimitName, Quota)| -> Result<Limit, ConfigError> {
            Ok(Limit { name, line: quota.arithmetic(LONE_MARK)? })
        };
        let limits = self.limits.into_iter().map(limit).collect::<Result<Vec<_>, _>>()?;
        // A call need not draw on every limit, so one bucket is of use already.
        Ok(LimitSet { table: Table::new(limits, self.bucket_cap, 1, self.clock)? })
    }
}
