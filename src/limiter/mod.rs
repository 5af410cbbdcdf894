//! Keyed limiters for anybody: one quota ([`Limiter`]), or several drawn on together ([`LimitSet`]).

mod in_flight;
mod penalties;
mod pools;
mod set;

pub use crate::table::limits::Keep;
pub use in_flight::{InFlight, InFlightBuilder, InFlightPermit};
pub use pools::{Pooled, Pools, PoolsBuilder, Share};
pub use set::{LimitSet, LimitSetBuilder};

use crate::key::{Key, KeyBytes, encoded};
use crate::quota::Quota;
use crate::refusal::Refusal;
use crate::table::cell::PackedKey;
use crate::table::draw::Admission;
use crate::table::limits::Limits;
use crate::table::{DEFAULT_BUCKET_CAP, Table};
use crate::time::{Clock, EngineClock};
use crate::wait::{self, Waiters};
use crate::{ConfigError, LimitName};
use penalties::Penalties;
use std::fmt;
use std::marker::PhantomData;

/// One quota, with a bucket for each key.
///
/// A key without a bucket has a full one; its first draw makes it. There are never more than `bucket_cap`
/// buckets: when all are in use, refilled ones make room, live ones are never evicted, and a newcomer for whom
/// there is no room is refused. Checks take `&self` and no lock.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Limiter, quota::Quota, time::ManualClock};
///
/// let clock = ManualClock::new();
/// let limiter = Limiter::<str>::builder(Quota::per_minute(100).burst(3))
///     .bucket_cap(10_000)
///     .clock(clock.clone())
///     .build()?;
///
/// assert_eq!(limiter.check_n("alice", 3).unwrap().remaining, 0);
/// let refusal = limiter.check("alice").unwrap_err();
/// assert_eq!(refusal.retry_after, Some(Duration::from_millis(600)));
/// clock.advance(Duration::from_millis(600));
/// assert!(limiter.check("alice").is_ok());
/// assert_eq!(limiter.peek("bob"), 3);
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
pub struct Limiter<K: ?Sized> {
    pub(crate) table: Box<Table>,
    pub(crate) penalties: Penalties,
    pub(crate) waiters: Waiters,
    key: PhantomData<fn(&K)>,
}

/// Builds a [`Limiter`].
#[derive(Debug)]
#[must_use]
pub struct LimiterBuilder<K: ?Sized> {
    quota: Quota,
    name: LimitName,
    shared: Shared,
    queue_cap: usize,
    waiter_cap: usize,
    key: PhantomData<fn(&K)>,
}

/// The settings that every builder of a table has.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bucket_cap: usize,
    pub(crate) clock: EngineClock,
}

impl Default for Shared {
    fn default() -> Self {
        Self { bucket_cap: DEFAULT_BUCKET_CAP, clock: EngineClock::default() }
    }
}

/// One live bucket, as iteration sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketSnapshot {
    /// The number of the limit: 0 in a [`Limiter`].
    pub limit: usize,
    /// The key's encoding (see [`Key::encode`]).
    pub key: Vec<u8>,
    /// Whole tokens available, rounded down.
    pub available: u64,
}

impl<K: Key + ?Sized> Limiter<K> {
    /// Starts with a quota and the defaults: 65,536 buckets, the monotonic clock.
    pub fn builder(quota: Quota) -> LimiterBuilder<K> {
        LimiterBuilder {
            quota,
            name: "limit".into(),
            shared: Shared::default(),
            queue_cap: wait::DEFAULT_QUEUE_CAP,
            waiter_cap: wait::DEFAULT_WAITER_CAP,
            key: PhantomData,
        }
    }

    /// Draws one token for `key`.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was drawn; it says what was missing and when to retry.
    #[inline]
    pub fn check(&self, key: &K) -> Result<Admission, Refusal> {
        self.check_n(key, 1)
    }

    /// Draws `cost` tokens for `key`. A cost of 0 is a peek: always admitted, and it makes no bucket.
    ///
    /// # Errors
    /// As [`check`](Self::check). A cost above the capacity is refused as impossible.
    #[inline]
    pub fn check_n(&self, key: &K, cost: u64) -> Result<Admission, Refusal> {
        let table = &*self.table;
        let mut buffer = KeyBytes::default();
        let key = table.pack(0, encoded(key, &mut buffer));
        if cost == 0 {
            let (buckets, now) = table.peek(&key, 0);
            return Ok(Admission::peek(buckets.available(0, now), buckets.mark(0), now));
        }
        self.draw(&key, cost)
    }

    /// Draws a cost above 0: first the penalty is looked at, then the bucket.
    #[inline(always)]
    pub(crate) fn draw(&self, key: &PackedKey<'_>, cost: u64) -> Result<Admission, Refusal> {
        if let Some(until) = self.penalties.until(key.bytes()) {
            return Err(self.penalized(key, cost, until));
        }
        Ok(self.table.draw(key, 0, [cost, 0])?.admission(0))
    }

    /// Whole tokens that `key` could draw now.
    pub fn peek(&self, key: &K) -> u64 {
        let mut buffer = KeyBytes::default();
        let (buckets, now) = self.table.peek(&self.table.pack(0, encoded(key, &mut buffer)), 0);
        buckets.available(0, now)
    }

    /// Replaces the quota, now and for every bucket, by a stated policy; calls go on meanwhile.
    ///
    /// Each bucket changes over at its next draw, in the exchange that makes the draw, as of the time of this
    /// call. A quota equal to the present one changes nothing. Calls that wait ([`acquire`](Self::acquire)) are
    /// woken, so that those that the new quota admits sooner go on sooner.
    ///
    /// # Errors
    /// As [`LimiterBuilder::build`]; or the millionth change of one limiter. The present quota stays then.
    ///
    /// ```
    /// use tollgate::{Limiter, limiter::Keep, quota::Quota, time::ManualClock};
    ///
    /// let limiter = Limiter::builder(Quota::per_hour(10)).clock(ManualClock::new()).build()?;
    /// limiter.check_n("k", 10).unwrap();
    /// limiter.reconfigure(Quota::per_hour(11), Keep::AsIs)?;
    /// assert_eq!(limiter.peek("k"), 1, "a raised burst is no refill");
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn reconfigure(&self, quota: Quota, keep: Keep) -> Result<(), ConfigError> {
        self.table.reconfigure(0, quota, keep)?;
        // Whoever waits does so for the time that the former quota told.
        self.waiters.wake_all_heads();
        Ok(())
    }

    /// Buckets in use, at most [`capacity`](Self::capacity). A weak snapshot: exact when nobody draws.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Is no bucket in use?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most buckets: the `bucket_cap`.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Forgets every bucket that is full again and returns how many: they are forgotten anyway when room is
    /// needed.
    pub fn prune_refilled(&self) -> usize {
        self.table.prune_refilled()
    }

    /// The live buckets: a weak snapshot, in which a key that is reclaimed and returns meanwhile may appear
    /// twice or not at all.
    pub fn iter(&self) -> impl Iterator<Item = BucketSnapshot> {
        snapshot(&self.table)
    }

    /// Are the engine's words exchanged without a lock here? Always, once a limiter was built.
    pub fn is_lock_free(&self) -> bool {
        crate::table::is_lock_free()
    }

    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn table_for_models(&self) -> &crate::table::Table {
        &self.table
    }

    /// Bytes reserved for buckets and, once there was one, for penalties; pages that no key has touched cost nothing yet.
    /// What calls that wait take comes on top.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes() + self.penalties.memory_bytes()
    }
}

fn snapshot(table: &crate::table::Table) -> std::vec::IntoIter<BucketSnapshot> {
    let mut all = Vec::new();
    // In the tables that can be iterated a key's tag is its limit's number.
    table.for_each_live(|limit, key, word| {
        let available = table.limits.read(word).available(0, table.clock.now());
        all.push(BucketSnapshot { limit: limit as usize, key, available });
    });
    all.into_iter()
}

impl<K: Key + ?Sized> LimiterBuilder<K> {
    /// The limit's name in refusals; `limit` if not set.
    pub fn name(mut self, name: impl Into<LimitName>) -> Self {
        self.name = name.into();
        self
    }

    /// The most buckets, 1 to 16,777,216; 65,536 if not set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.shared.bucket_cap = buckets;
        self
    }

    /// The most calls that wait on one key at once ([`Limiter::acquire`]); 1,024 if not set. With 0 none waits.
    pub fn queue_cap(mut self, calls: usize) -> Self {
        self.queue_cap = calls;
        self
    }

    /// The most calls that wait at once, on all keys together; 65,536 if not set. With 0 none waits.
    pub fn waiter_cap(mut self, calls: usize) -> Self {
        self.waiter_cap = calls;
        self
    }

    /// The clock; a [`MonotonicClock`](crate::time::MonotonicClock) if not set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.shared.clock = EngineClock::new(clock);
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// Names the field, the value and what is accepted: a period of 0, a rate or capacity whose counter would
    /// not last five years, a `bucket_cap` out of range.
    pub fn build(self) -> Result<Limiter<K>, ConfigError> {
        let limits = Limits::lone(vec![(self.name, self.quota)])?;
        let Shared { bucket_cap, clock } = self.shared;
        let table = Table::new(limits, clock.clone(), bucket_cap)?;
        let penalties = Penalties::new(clock, bucket_cap);
        Ok(Limiter {
            table,
            penalties,
            waiters: Waiters::new(self.queue_cap, self.waiter_cap),
            key: PhantomData,
        })
    }
}

impl<K: ?Sized> fmt::Debug for Limiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("buckets", &self.table.len())
            .field("bucket_cap", &self.table.capacity())
            .finish_non_exhaustive()
    }
}
