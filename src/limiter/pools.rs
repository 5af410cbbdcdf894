//! Quota pools: one provider's quota, split by shares, so that one kind of work cannot starve another.

use super::penalties::Penalties;
use super::{LimitSet, Shared};
use crate::key::{Key, KeyBytes, encoded};
use crate::plan::Plan;
use crate::quota::{Kind, Quota};
use crate::refusal::{Reason, Refusal};
use crate::sync::seeded_bug;
use crate::time::{Clock, EngineClock, nanos};
use crate::{ConfigError, LimitName};
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// A share of a whole, as a fraction.
///
/// ```
/// use tollgate::limiter::Share;
/// assert_eq!(Share::percent(70), Share::of(7, 10));
/// assert_eq!(Share::of(1, 0), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Share {
    part: u32,
    whole: NonZeroU32,
}

impl Share {
    /// `part` of `whole`; `None` if the whole is nothing.
    pub fn of(part: u32, whole: u32) -> Option<Self> {
        let divisor = gcd(part, whole);
        let whole = NonZeroU32::new(whole.checked_div(divisor)?)?;
        Some(Self { part: part / divisor, whole })
    }

    /// So many hundredths.
    pub fn percent(hundredths: u32) -> Option<Self> {
        Self::of(hundredths, 100)
    }

    fn of_tokens(self, tokens: u64) -> u64 {
        let share = u128::from(tokens) * u128::from(self.part) / u128::from(self.whole.get());
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// One quota in named pools, for each key. Each pool is sure of its share, whatever the others do.
///
/// Pools are named by their number, in the order in which they were added; that is also their priority, the first one
/// highest. A pool's capacity is its share of the quota's, rounded down; its rate is its exact share. So all pools together
/// never exceed the quota.
///
/// With [`lending`](PoolsBuilder::lending) a call for which its own pool has too little takes the rest from others that have
/// it idle, those of the lowest priority first. A lender is never taken below empty: its owner waits for `cost / (share * rate)` at
/// most. While a pool of higher priority was refused for a key, and the wait that it was told is not over, those
/// below it do not borrow for that key.
///
/// ```
/// use tollgate::limiter::{Pools, Share};
/// use tollgate::{quota::Quota, time::ManualClock};
///
/// const INTERACTIVE: usize = 0;
/// const BACKGROUND: usize = 1;
/// let pools = Pools::<str>::builder(Quota::per_minute(100))
///     .pool("interactive", Share::percent(70).unwrap())
///     .pool("background", Share::percent(20).unwrap())
///     .pool("evaluation", Share::percent(10).unwrap())
///     .clock(ManualClock::new())
///     .build()?;
/// assert!(pools.check_n(BACKGROUND, "provider", 21).is_err());
/// assert!(pools.check_n(BACKGROUND, "provider", 20).is_ok());
/// assert!(pools.check_n(INTERACTIVE, "provider", 70).is_ok(), "untouched by the background");
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
pub struct Pools<K: ?Sized> {
    set: LimitSet,
    lending: bool,
    /// For each pool, which keys wait for tokens until when: those below it do not borrow for them meanwhile.
    waits: Vec<Penalties>,
    key: PhantomData<fn(&K)>,
}

/// Builds [`Pools`].
#[derive(Debug)]
#[must_use]
pub struct PoolsBuilder<K: ?Sized> {
    quota: Quota,
    pools: Vec<(LimitName, Share)>,
    lending: bool,
    shared: Shared,
    key: PhantomData<fn(&K)>,
}

/// What a call took from the pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pooled {
    /// Tokens of its own pool.
    pub own: u64,
    /// Tokens that others lent.
    pub borrowed: u64,
}

impl<K: Key + ?Sized> Pools<K> {
    /// Starts with the quota to be split, without pools, with the defaults: no lending, 65,536 buckets (one a pool and key),
    /// the monotonic clock.
    pub fn builder(quota: Quota) -> PoolsBuilder<K> {
        PoolsBuilder { quota, pools: Vec::new(), lending: false, shared: Shared::default(), key: PhantomData }
    }

    /// Draws `cost` tokens for `key` from pool number `pool`.
    ///
    /// # Errors
    /// [`Refusal`]: nothing was drawn. Its wait is that of the pool's own share: with lending it may be shorter. A cost above
    /// the pool's own capacity is impossible, with lending too.
    ///
    /// # Panics
    /// If there is no such pool.
    pub fn check_n(&self, pool: usize, key: &K, cost: u64) -> Result<Pooled, Refusal> {
        loop {
            let refusal = match self.draw(&[(pool, cost)], key) {
                Ok(()) => return Ok(Pooled { own: cost, borrowed: 0 }),
                Err(refusal) => refusal,
            };
            if !self.lending || refusal.reason != Reason::Exhausted {
                return Err(refusal);
            }
            let Some(parts) = self.parts(pool, key, cost) else {
                self.wait(pool, key, &refusal);
                return Err(refusal);
            };
            let paid = if seeded_bug!("borrowed-unpaid") { &parts[..1] } else { &parts[..] };
            match self.draw(paid, key) {
                Ok(()) => {
                    let own = parts.iter().find(|part| part.0 == pool).map_or(0, |part| part.1);
                    return Ok(Pooled { own, borrowed: cost - own });
                }
                // Somebody took it meanwhile, so somebody got on: look again.
                Err(taken) if taken.reason == Reason::Exhausted => {}
                // No room for a bucket of a lender.
                Err(_) => return Err(refusal),
            }
        }
    }

    /// What to take from whom, if all together have enough.
    fn parts(&self, pool: usize, key: &K, cost: u64) -> Option<Vec<(usize, u64)>> {
        let mut buffer = KeyBytes::default();
        let bytes = encoded(key, &mut buffer);
        if self.waits[..pool].iter().any(|waits| waits.until(bytes).is_some()) {
            return None;
        }
        let mut left = cost;
        let mut parts = Vec::new();
        let lenders = (0..self.waits.len()).rev().filter(|&lender| lender != pool);
        for lender in std::iter::once(pool).chain(lenders) {
            let part = self.set.peek(lender, key).min(left);
            if part > 0 {
                parts.push((lender, part));
                left -= part;
            }
        }
        (left == 0).then_some(parts)
    }

    fn draw(&self, parts: &[(usize, u64)], key: &K) -> Result<(), Refusal> {
        let mut plan = Plan::new();
        for &(pool, cost) in parts {
            self.set.plan(pool, key, cost, &mut plan);
        }
        plan.take_all().map_err(|refused| refused.refusal)
    }

    fn wait(&self, pool: usize, key: &K, refusal: &Refusal) {
        if let Some(wait) = refusal.retry_after {
            let until = self.set.now().saturating_add(nanos(wait));
            let mut buffer = KeyBytes::default();
            // Without room for one more that waits, those below are not held back: nothing but the order depends on it.
            let _ = self.waits[pool].raise(encoded(key, &mut buffer), until);
        }
    }

    /// Whole tokens that `key` has in pool number `pool`, without what others would lend.
    ///
    /// # Panics
    /// If there is no such pool.
    pub fn peek(&self, pool: usize, key: &K) -> u64 {
        self.set.peek(pool, key)
    }

    /// How many pools there are.
    pub fn pool_count(&self) -> usize {
        self.set.limit_count()
    }

    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn table_for_models(&self) -> &crate::table::Table {
        self.set.table_for_models()
    }
}

impl<K: Key + ?Sized> PoolsBuilder<K> {
    /// Adds a pool; the first is number 0, of the highest priority.
    pub fn pool(mut self, name: impl Into<LimitName>, share: Share) -> Self {
        self.pools.push((name.into(), share));
        self
    }

    /// Lets pools lend what they have idle.
    pub fn lending(mut self, lending: bool) -> Self {
        self.lending = lending;
        self
    }

    /// The most buckets, one a pool and key: 1 to 16,777,216; 65,536 if not set.
    pub fn bucket_cap(mut self, buckets: usize) -> Self {
        self.shared.bucket_cap = buckets;
        self
    }

    /// The clock; a [`MonotonicClock`](crate::time::MonotonicClock) if not set.
    pub fn clock<C: Clock>(mut self, clock: C) -> Self {
        self.shared.clock = EngineClock::new(clock);
        self
    }

    /// Builds them.
    ///
    /// # Errors
    /// No pool; shares that sum to more than 1; a share of less than one token; otherwise as
    /// [`LimitSetBuilder::build`](super::LimitSetBuilder::build).
    pub fn build(self) -> Result<Pools<K>, ConfigError> {
        if self.pools.is_empty() {
            return Err(ConfigError::new("pools", "none", "at least one"));
        }
        // Exactly, over one denominator.
        let product = |tried: Option<u128>, share: &Share| tried?.checked_mul(u128::from(share.whole.get()));
        let whole = self.pools.iter().map(|(_, share)| share).fold(Some(1), product);
        let sum = whole.and_then(|whole| {
            self.pools.iter().try_fold(0u128, |sum, (_, share)| {
                sum.checked_add(whole / u128::from(share.whole.get()) * u128::from(share.part))
            })
        });
        match (sum, whole) {
            (Some(sum), Some(whole)) if sum <= whole => {}
            (Some(_), Some(_)) => {
                return Err(ConfigError::new(
                    "shares",
                    "more than 1 together",
                    "shares that sum to 1 at most",
                ));
            }
            _ => return Err(ConfigError::new("shares", "too fine", "shares with smaller denominators")),
        }
        let Shared { bucket_cap, clock } = self.shared;
        let mut set = LimitSet::builder().bucket_cap(bucket_cap).engine_clock(clock.clone());
        for (name, share) in &self.pools {
            set = set.limit(name.clone(), share_of(&self.quota, *share, name)?);
        }
        Ok(Pools {
            set: set.build()?,
            lending: self.lending,
            waits: self.pools.iter().map(|_| Penalties::new(clock.clone(), bucket_cap)).collect(),
            key: PhantomData,
        })
    }
}

/// A pool's own quota: its share of the rate, exactly, and of the capacity, rounded down.
fn share_of(quota: &Quota, share: Share, name: &LimitName) -> Result<Quota, ConfigError> {
    let capacity = share.of_tokens(quota.capacity());
    if capacity == 0 {
        return Err(ConfigError::new(
            "share",
            format!("{}/{} of {} tokens for {name}", share.part, share.whole, quota.capacity()),
            "a share of at least one token",
        ));
    }
    let too_long =
        || ConfigError::new("share", format!("{}/{}", share.part, share.whole), "a coarser fraction");
    Ok(Quota(match quota.0 {
        Kind::Bucket { tokens, period, .. } => {
            // tokens * part per period * whole, reduced.
            let (up, down) = (
                u128::from(tokens) * u128::from(share.part),
                u128::from(period) * u128::from(share.whole.get()),
            );
            let divisor = gcd_wide(up, down);
            let tokens = u64::try_from(up / divisor).map_err(|_| too_long())?;
            let period = u64::try_from(down / divisor).map_err(|_| too_long())?;
            Kind::Bucket { tokens, period, burst: capacity }
        }
        Kind::Window { period, anchor, .. } => Kind::Window { limit: capacity, period, anchor },
        Kind::MilliToken { .. } => {
            return Err(ConfigError::new("quota", "milli-token arithmetic", "a quota that is exact"));
        }
    }))
}

fn gcd_wide(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { gcd_wide(b, a % b) }
}

impl<K: ?Sized> fmt::Debug for Pools<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pools").field("lending", &self.lending).field("limits", &self.set).finish()
    }
}
