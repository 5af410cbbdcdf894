//! Quotas: how much a limit releases over time, stated as people state it, and computed exactly.
//!
//! A [`Quota`] is a statement (100 tokens a minute, bursts of 150). [`Quota::arithmetic`] turns it into
//! integers for a word of a given width ([`Arithmetic`]); every decision after that is integer arithmetic.
//!
//! # The refill line
//!
//! `accrued(t)` is what a limit has released from the start of the clock to `t`, in units. A bucket is one
//! integer, its *mark*: the point on that line up to which units are spoken for. One rule decides:
//!
//! > admit iff `max(mark, accrued(t)) + cost <= accrued(t) + capacity`, and then
//! > `mark' = max(mark, accrued(t)) + cost`.
//!
//! So each admission owns the interval `(mark' - cost, mark']` of its bucket's line, and disjoint intervals
//! prove that nothing was spent twice. This is the generic cell rate algorithm (ITU-T I.371) on a line of
//! units instead of time, which keeps every rate exact.

mod arithmetic;
#[cfg(test)]
mod pair_tests;

pub use arithmetic::{Arithmetic, Decision};
pub(crate) use arithmetic::{RefundableWidths, pair_arithmetic, refundable_arithmetic};

use crate::ConfigError;
use crate::time::nanos;
use std::time::Duration;

/// What a limit releases: a token bucket, or a fixed window.
///
/// Amounts are whole tokens. A quota of 0 tokens admits nothing that costs more than 0.
///
/// ```
/// use std::time::Duration;
/// use tollgate::quota::Quota;
///
/// let steady = Quota::per_minute(100);                            // 100 a minute, bursts of 100
/// let bursty = Quota::per_minute(100).burst(150);                 // bursts of 150
/// let slow = Quota::tokens_per(1, Duration::from_secs(7));        // one in 7 seconds
/// let monthly = Quota::window(50, Duration::from_secs(30 * 86_400)); // 50 in each 30 days
/// assert_eq!(bursty.capacity(), 150);
/// # let _ = (steady, slow, monthly);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota(pub(crate) Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Continuous refill of `tokens` per `period` nanoseconds, up to `burst` tokens.
    Bucket { tokens: u64, period: u64, burst: u64 },
    /// `limit` tokens at once at `anchor + n * period`, none in between, unused ones lost; the anchor is below
    /// the period.
    Window { limit: u64, period: u64, anchor: u64 },
    /// The guards' documented arithmetic: see [`Quota::milli_token`].
    MilliToken { capacity: u64, milli_per_ms: u64, asked: u64, window_secs: u64 },
}

impl Quota {
    /// `tokens` a second, bursts of as many.
    pub fn per_second(tokens: u64) -> Self {
        Self::tokens_per(tokens, Duration::from_secs(1))
    }

    /// `tokens` a minute, bursts of as many.
    pub fn per_minute(tokens: u64) -> Self {
        Self::tokens_per(tokens, Duration::from_secs(60))
    }

    /// `tokens` an hour, bursts of as many.
    pub fn per_hour(tokens: u64) -> Self {
        Self::tokens_per(tokens, Duration::from_secs(3_600))
    }

    /// `tokens` in 24 hours, bursts of as many.
    pub fn per_day(tokens: u64) -> Self {
        Self::tokens_per(tokens, Duration::from_secs(86_400))
    }

    /// A token bucket that refills `tokens` per `period` continuously; bursts of as many.
    pub fn tokens_per(tokens: u64, period: Duration) -> Self {
        Self(Kind::Bucket { tokens, period: nanos(period), burst: tokens })
    }

    /// A fixed window: at most `limit` tokens in each `period`, on a grid from time 0 of the clock.
    ///
    /// Two windows meet at their boundary, so a span of one period can see up to `2 * limit`; a token
    /// bucket has no such seam.
    pub fn window(limit: u64, period: Duration) -> Self {
        Self(Kind::Window { limit, period: nanos(period), anchor: 0 })
    }

    /// Sets a token bucket's capacity in tokens. A window's capacity is its limit: there this changes nothing.
    #[must_use]
    pub fn burst(self, tokens: u64) -> Self {
        match self.0 {
            Kind::Bucket { tokens: rate, period, .. } => {
                Self(Kind::Bucket { tokens: rate, period, burst: tokens })
            }
            _ => self,
        }
    }

    /// Lays a window's grid through `anchor`, counted from time 0 of the clock. A token bucket has no grid:
    /// there this changes nothing.
    #[must_use]
    pub fn anchored_at(self, anchor: Duration) -> Self {
        match self.0 {
            Kind::Window { limit, period, .. } => {
                // Only the place within a period matters, and it fits however far away the anchor is.
                let anchor = anchor.as_nanos() % u128::from(period.max(1));
                Self(Kind::Window { limit, period, anchor: anchor as u64 })
            }
            _ => self,
        }
    }

    /// The milli-token arithmetic that the two velocity guards document: capacity
    /// `max(1, round(per_window * burst_factor))` tokens, refill
    /// `max(1, floor(per_window * 1000 / (window_secs * 1000)))` thousandths of a token per whole millisecond.
    ///
    /// The floor makes some rates slow (100 a minute becomes 60 a minute) and very slow ones fast (1 a minute
    /// becomes 60 a minute); [`Quota::exact_burst`] states the same limit without rounding.
    /// `per_window` 0 has capacity 0.
    ///
    /// # Errors
    /// `window_secs` 0 or above 18,446,744,073; `burst_factor` not finite or not above 0; a capacity above
    /// 2^63 tokens.
    ///
    /// ```
    /// use tollgate::quota::Quota;
    /// let quota = Quota::milli_token(100, 60, 1.5)?;
    /// assert_eq!(quota.capacity(), 150);
    /// assert_eq!(quota.arithmetic(64)?.tokens_per_second(), 1.0); // asked: 1.67
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    pub fn milli_token(per_window: u64, window_secs: u64, burst_factor: f64) -> Result<Self, ConfigError> {
        let capacity = burst_capacity(per_window, burst_factor)?;
        check_window_secs(window_secs)?;
        // per_window * 1000 / (window_secs * 1000), floored: the thousands cancel.
        let milli_per_ms = if per_window == 0 { 0 } else { (per_window / window_secs).max(1) };
        Ok(Self(Kind::MilliToken { capacity, milli_per_ms, asked: per_window, window_secs }))
    }

    /// The same limit as [`Quota::milli_token`] (same capacity, same errors), refilled exactly.
    pub fn exact_burst(per_window: u64, window_secs: u64, burst_factor: f64) -> Result<Self, ConfigError> {
        let burst = burst_capacity(per_window, burst_factor)?;
        check_window_secs(window_secs)?;
        Ok(Self(Kind::Bucket { tokens: per_window, period: window_secs * NANOS_PER_SEC, burst }))
    }

    /// The most that one call can take, in tokens.
    pub fn capacity(&self) -> u64 {
        match self.0 {
            Kind::Bucket { burst, .. } => burst,
            Kind::Window { limit, .. } => limit,
            Kind::MilliToken { capacity, .. } => capacity,
        }
    }

    /// The rate as stated, before any rounding, in tokens a second. For display only.
    pub fn asked_tokens_per_second(&self) -> f64 {
        match self.0 {
            Kind::Bucket { tokens: n, period, .. } | Kind::Window { limit: n, period, .. } => {
                n as f64 * NANOS_PER_SEC as f64 / period as f64
            }
            Kind::MilliToken { asked, window_secs, .. } => asked as f64 / window_secs as f64,
        }
    }

    /// Integers for a mark of `bits` bits (1 to 64): the finest tick of 1 ns, 1 us and 1 ms whose horizon is
    /// at least 5 years.
    ///
    /// # Errors
    /// Names the number that is too big when no tick reaches 5 years, or a period of 0.
    pub fn arithmetic(&self, bits: u32) -> Result<Arithmetic, ConfigError> {
        Arithmetic::new(self, bits)
    }
}

pub(crate) const NANOS_PER_SEC: u64 = 1_000_000_000;

fn check_window_secs(window_secs: u64) -> Result<(), ConfigError> {
    const MOST: u64 = u64::MAX / NANOS_PER_SEC;
    if window_secs == 0 || window_secs > MOST {
        return Err(ConfigError::new("window_secs", window_secs, format!("1 to {MOST}")));
    }
    Ok(())
}

/// `max(1, round(per_window * burst_factor))`, or 0 for a limit of 0.
fn burst_capacity(per_window: u64, burst_factor: f64) -> Result<u64, ConfigError> {
    const MOST: u128 = 1 << 63;
    if !burst_factor.is_finite() || burst_factor <= 0.0 {
        return Err(ConfigError::new("burst_factor", burst_factor, "a finite number above 0"));
    }
    if per_window == 0 {
        return Ok(0);
    }
    let capacity = if burst_factor == 1.0 {
        u128::from(per_window) // exact above 2^53 too
    } else {
        (per_window as f64 * burst_factor).round() as u128
    };
    if capacity > MOST && burst_factor <= 1.0 {
        return Err(ConfigError::new(
            "per_window",
            per_window,
            format!("a number that times burst_factor {burst_factor} is at or below 2^63"),
        ));
    }
    if capacity > MOST {
        return Err(ConfigError::new(
            "burst_factor",
            burst_factor,
            format!("a number that keeps {per_window} * burst_factor at or below 2^63"),
        ));
    }
    Ok((capacity as u64).max(1))
}
