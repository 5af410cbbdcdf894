//! Several limits in one table, drawn on together.

use super::{BucketSnapshot, Keep, Shared, snapshot};
use crate::key::{Key, KeyBytes, encoded};
use crate::plan::Plan;
use crate::quota::Quota;
use crate::table::Table;
use crate::table::limits::Limits;
use crate::time::{Clock, EngineClock};
use crate::{ConfigError, LimitName};
use std::fmt;

/// Several named limits that share one table of buckets; a call draws on those that apply, all or nothing.
///
/// A limit is named by its number, in the order in which limits were added. Each may have keys of its own type.
///
/// ```
/// use tollgate::{LimitSet, Plan, quota::Quota, time::ManualClock};
///
/// let limits = LimitSet::builder()
///     .limit("tokens-per-model", Quota::per_minute(90_000))
///     .limit("calls", Quota::per_second(10))
///     .clock(ManualClock::new())
///     .build()?;
///
/// let mut plan = Plan::new();
/// limits.plan(0, "small-model", 1_200, &mut plan);
/// limits.plan(1, &(), 1, &mut plan);
/// let admissions = plan.commit().unwrap();
/// assert_eq!(admissions[0].remaining, 88_800);
/// assert_eq!(limits.peek(1, &()), 9);
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
pub struct LimitSet {
    table: Box<Table>,
}

/// Builds a [`LimitSet`].
#[derive(Debug, Default)]
#[must_use]
pub struct LimitSetBuilder {
    limits: Vec<(LimitName, Quota)>,
    shared: Shared,
}

impl LimitSet {
    /// Starts without limits, with the defaults: 65,536 buckets, the monotonic clock.
    pub fn builder() -> LimitSetBuilder {
        LimitSetBuilder::default()
    }

    /// Adds a draw of `cost` tokens of limit number `limit` for `key` to `plan`. A cost of 0 adds nothing.
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn plan<'t, K: Key + ?Sized>(&'t self, limit: usize, key: &K, cost: u64, plan: &mut Plan<'t>) {
        let limit = self.number(limit);
        let mut buffer = KeyBytes::default();
        let bytes = encoded(key, &mut buffer);
        plan.draw(&self.table, limit, limit, [cost, 0], |key| key.raw(bytes));
    }

    /// Whole tokens that `key` could draw now from limit number `limit`.
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn peek<K: Key + ?Sized>(&self, limit: usize, key: &K) -> u64 {
        let limit = self.number(limit);
        let mut buffer = KeyBytes::default();
        let key = self.table.pack(limit, encoded(key, &mut buffer));
        let (buckets, now) = self.table.peek(&key, limit);
        buckets.available(0, now)
    }

    /// Replaces one limit's quota: see [`Limiter::reconfigure`](super::Limiter::reconfigure).
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If there is no such limit.
    pub fn reconfigure(&self, limit: usize, quota: Quota, keep: Keep) -> Result<(), ConfigError> {
        self.table.reconfigure(self.number(limit), quota, keep)
    }

    /// The clock's time.
    pub(crate) fn now(&self) -> u64 {
        self.table.clock.now()
    }

    fn number(&self, limit: usize) -> u32 {
        let limits = self.table.limits.count();
        assert!(limit < limits, "limit number {limit} of a set of {limits}");
        limit as u32
    }

    /// How many limits there are.
    pub fn limit_count(&self) -> usize {
        self.table.limits.count()
    }

    /// Buckets in use, at most [`capacity`](Self::capacity). A weak snapshot: exact when nobody draws.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Is no bucket in use?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most buckets of all limits together: the `bucket_cap`.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Forgets every bucket that is full again and returns how many.
    pub fn prune_refilled(&self) -> usize {
        self.table.prune_refilled()
    }

    /// The live buckets, as [`Limiter::iter`](super::Limiter::iter).
    pub fn iter(&self) -> impl Iterator<Item = BucketSnapshot> {
        snapshot(&self.table)
    }

    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn table_for_models(&self) -> &crate::table::Table {
        &self.table
    }

    /// Bytes reserved; pages that no key has touched cost nothing yet.
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }
}

impl LimitSetBuilder {
    /// Adds a limit; the first is number 0.
    pub fn limit(mut self, name: impl Into<LimitName>, quota: Quota) -> Self {
        self.limits.push((name.into(), quota));
        self
    }

    /// The most buckets of all limits together, 1 to 16,777,216; 65,536 if not set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.shared.bucket_cap = buckets;
        self
    }

    /// The clock; a [`MonotonicClock`](crate::time::MonotonicClock) if not set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.shared.clock = EngineClock::new(clock);
        self
    }

    pub(crate) fn engine_clock(mut self, clock: EngineClock) -> Self {
        self.shared.clock = clock;
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// As [`LimiterBuilder::build`](super::LimiterBuilder::build), or more than 1,048,576 limits.
    pub fn build(self) -> Result<LimitSet, ConfigError> {
        let limits = Limits::lone(self.limits)?;
        Ok(LimitSet { table: Table::new(limits, self.shared.clock, self.shared.bucket_cap)? })
    }
}

impl fmt::Debug for LimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LimitSet")
            .field("limits", &self.table.limits.count())
            .field("buckets", &self.table.len())
            .field("bucket_cap", &self.table.capacity())
            .finish_non_exhaustive()
    }
}
