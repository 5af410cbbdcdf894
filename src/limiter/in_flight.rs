//! How many things are under way at once, apart from any rate.

use super::Shared;
use crate::key::{Key, KeyBytes, encoded};
use crate::plan::{Committed, Plan, PlanRefused};
use crate::quota::Quota;
use crate::refund::{Receipt, refund};
use crate::refusal::Refusal;
use crate::table::Table;
use crate::table::limits::Limits;
use crate::time::{EngineClock, ManualClock};
use crate::{ConfigError, LimitName};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// A limit on how much is under way at once, for each key. Clones share one state.
///
/// Whoever enters holds an [`InFlightPermit`] until the work is over. The table of keys is bounded, as a
/// [`Limiter`](super::Limiter)'s is: a key with anything under way is never forgotten, and a newcomer for whom there is no
/// room is refused.
///
/// It composes with rates: [`enter_with`](Self::enter_with) enters and commits a plan of draws together, or neither.
///
/// ```
/// use tollgate::limiter::InFlight;
///
/// let in_flight = InFlight::<str>::builder(2).build()?;
/// let one = in_flight.enter("alice").unwrap();
/// let two = in_flight.enter("alice").unwrap();
/// assert!(in_flight.enter("alice").is_err());
/// drop(one);
/// assert_eq!(in_flight.free("alice"), 1);
/// # drop(two);
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
pub struct InFlight<K: ?Sized> {
    table: Arc<Table>,
    key: PhantomData<fn(&K)>,
}

/// Builds an [`InFlight`].
#[derive(Debug)]
#[must_use]
pub struct InFlightBuilder<K: ?Sized> {
    limit: u64,
    name: LimitName,
    bucket_cap: usize,
    key: PhantomData<fn(&K)>,
}

/// Something that is under way: dropped, it is over.
///
/// ```
/// use tollgate::limiter::InFlight;
/// let in_flight = InFlight::<str>::builder(8).build()?;
/// let batch = in_flight.enter_n("alice", 5).unwrap();
/// assert_eq!((batch.units(), in_flight.free("alice")), (5, 3));
/// std::thread::spawn(move || drop(batch)).join().unwrap(); // it may end in another thread
/// assert_eq!(in_flight.free("alice"), 8);
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[must_use = "it is released when it is dropped"]
pub struct InFlightPermit {
    table: Arc<Table>,
    receipt: Option<Receipt>,
}

impl<K: Key + ?Sized> InFlight<K> {
    /// Starts with the most that may be under way at once for each key, and room for 65,536 keys.
    pub fn builder(limit: u64) -> InFlightBuilder<K> {
        let bucket_cap = Shared::default().bucket_cap;
        InFlightBuilder { limit, name: "in-flight".into(), bucket_cap, key: PhantomData }
    }

    /// Enters for `key`.
    ///
    /// # Errors
    /// As much is under way as may be: [`Reason::Exhausted`](crate::Reason::Exhausted), without a wait, since nobody knows
    /// when the others end. Or there is no room for a new key.
    pub fn enter(&self, key: &K) -> Result<InFlightPermit, Refusal> {
        self.enter_n(key, 1)
    }

    /// Enters with `units` at once, or not at all. None are always admitted.
    ///
    /// # Errors
    /// As [`enter`](Self::enter); more than the limit is [impossible](crate::Reason::Impossible).
    pub fn enter_n(&self, key: &K, units: u64) -> Result<InFlightPermit, Refusal> {
        self.enter_with(key, units, Plan::new()).map(|(permit, _)| permit).map_err(|refused| refused.refusal)
    }

    /// Enters with `units` and commits `plan`, both or neither. The plan's draws come first in what is admitted.
    ///
    /// # Errors
    /// The first stage that refuses; this limit belongs to the plan's last one.
    ///
    /// ```
    /// use tollgate::{LimitSet, Plan, limiter::InFlight, quota::Quota};
    ///
    /// let rates = LimitSet::builder().limit("calls", Quota::per_minute(1)).build()?;
    /// let in_flight = InFlight::<str>::builder(1).build()?;
    /// let call = || {
    ///     let mut plan = Plan::new();
    ///     rates.plan(0, "alice", 1, &mut plan);
    ///     in_flight.enter_with("alice", 1, plan)
    /// };
    /// let (running, admissions) = call().unwrap();
    /// assert_eq!(admissions[0].remaining, 0);
    /// drop(running);
    /// assert_eq!(call().unwrap_err().refusal.limit.as_str(), "calls");
    /// assert_eq!(in_flight.free("alice"), 1, "what the rate refused did not enter");
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn enter_with<'t>(
        &'t self,
        key: &K,
        units: u64,
        mut plan: Plan<'t>,
    ) -> Result<(InFlightPermit, Committed), PlanRefused> {
        let mut buffer = KeyBytes::default();
        let bytes = encoded(key, &mut buffer);
        plan.draw(&self.table, 0, 0, [units, 0], |key| key.raw(bytes));
        plan.take_all()?;
        let receipt = if units > 0 { plan.receipts().last() } else { None };
        Ok((InFlightPermit { table: self.table.clone(), receipt }, plan.admissions()))
    }

    /// How many more may enter for `key` now.
    pub fn free(&self, key: &K) -> u64 {
        let mut buffer = KeyBytes::default();
        let (buckets, now) = self.table.peek(&self.table.pack(0, encoded(key, &mut buffer)), 0);
        buckets.available(0, now)
    }

    /// Keys that something is or was under way for, at most [`capacity`](Self::capacity). A weak snapshot.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Is there no such key?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most keys with anything under way.
    pub fn capacity(&self) -> usize {
        self.table.capacity()
    }

    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn table_for_models(&self) -> &Table {
        &self.table
    }
}

impl<K: Key + ?Sized> InFlightBuilder<K> {
    /// The limit's name in refusals; `in-flight` if not set.
    pub fn name(mut self, name: impl Into<LimitName>) -> Self {
        self.name = name.into();
        self
    }

    /// The most keys with anything under way, 1 to 16,777,216; 65,536 if not set.
    pub fn bucket_cap(mut self, keys: usize) -> Self {
        self.bucket_cap = keys;
        self
    }

    /// Builds it.
    ///
    /// # Errors
    /// A limit of 2^46 or more, or a `bucket_cap` out of range.
    pub fn build(self) -> Result<InFlight<K>, ConfigError> {
        // A bucket that time never refills, and whose draws come back whole.
        let quota = Quota::tokens_per(0, Duration::from_secs(1)).burst(self.limit);
        let limits = Limits::refundable(self.name, quota, |_| 0)
            .map_err(|_| ConfigError::new("limit", self.limit, "less than 2^46"))?;
        // No time passes for it.
        let table = Table::new(limits, EngineClock::new(ManualClock::new()), self.bucket_cap)?;
        Ok(InFlight { table: Arc::from(table), key: PhantomData })
    }
}

impl InFlightPermit {
    /// How many units are under way.
    pub fn units(&self) -> u64 {
        self.receipt.map_or(0, |receipt| receipt.to - receipt.from)
    }
}

impl Drop for InFlightPermit {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            refund(&[(&self.table, receipt)]);
        }
    }
}

impl<K: ?Sized> Clone for InFlight<K> {
    fn clone(&self) -> Self {
        Self { table: self.table.clone(), key: PhantomData }
    }
}

impl<K: ?Sized> fmt::Debug for InFlight<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlight")
            .field("keys", &self.table.len())
            .field("bucket_cap", &self.table.capacity())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for InFlightPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InFlightPermit").field("units", &self.units()).finish_non_exhaustive()
    }
}
