//! An exact model of one limit, in rational tokens.
//!
//! Written from the definition of the refill line alone: what is released by `t`, what is spoken for, and the
//! rule that a draw is admitted while it ends at or below `released(t) + capacity`. It knows units and ticks
//! only because they decide on which instants tokens appear and how long a mark lasts. It shares no code with
//! `tollgate::quota`, and it is free to be slow.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use num_bigint::BigInt;
use num_rational::BigRational;

/// The instants at which a token bucket may release something, finest first, in nanoseconds.
const GRIDS: [u64; 3] = [1, 1_000, 1_000_000];

/// Five years of 365.25 days, the least that a mark must last, in nanoseconds.
pub fn five_years() -> BigInt {
    BigInt::from(5u8) * BigInt::from(36_525u32) * BigInt::from(864u32) * BigInt::from(1_000_000_000u64)
}

/// One limit: what it releases and how much of that it keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Nanoseconds between two releases.
    pub grid: u64,
    /// An instant of the grid, which may lie anywhere on it.
    origin: BigInt,
    /// Tokens of one release.
    release: BigRational,
    /// Tokens kept at most.
    pub capacity: u64,
    /// The marks' unit, as a part of a token: the smallest number of units that makes every release whole.
    pub units_per_token: BigInt,
    /// The largest mark, in units.
    largest_mark: BigInt,
}

/// What the rule says of one draw. Amounts are tokens; times are nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The bucket's new mark.
    Admit(BigRational),
    /// Whole tokens there, and the first instant at which the draw fits if nobody else draws.
    Exhausted { available: u64, retry_at: Option<u64> },
    /// Above the capacity.
    Impossible,
    /// The mark could not hold the answer.
    PastHorizon,
}

fn whole(n: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(n.into())
}

/// The largest whole number at or below `r`, as a `u64`; 0 for a negative one.
fn floor_u64(r: &BigRational) -> u64 {
    let floor = r.floor().to_integer();
    if floor < BigInt::from(0) { 0 } else { u64::try_from(floor).expect("an amount within u64") }
}

/// The capacity that the guards' documentation gives to a limit: `max(1, round(per_window * burst_factor))`, the
/// product as a double, halves rounded up; 0 for a limit of 0; `None` where it is not accepted.
pub fn burst_capacity(per_window: u64, burst_factor: f64) -> Option<u64> {
    if burst_factor.is_nan() || burst_factor.is_infinite() || burst_factor <= 0.0 {
        return None;
    }
    let product = if burst_factor == 1.0 {
        whole(per_window) // without a detour through a double, which has 53 bits
    } else {
        BigRational::from_float(per_window as f64 * burst_factor)?
    };
    let half = BigRational::new(1.into(), 2.into());
    let rounded = (product + half).floor().to_integer();
    let most = BigInt::from(1) << 63;
    let least = BigInt::from(u8::from(per_window > 0));
    if rounded > most { None } else { u64::try_from(rounded.max(least)).ok() }
}

impl Line {
    /// A token bucket of `tokens` per `period`, on the finest grid on which a mark of `bits` bits lasts five
    /// years; `None` if none does or the period is 0.
    pub fn bucket(tokens: u64, period: u64, burst: u64, bits: u32) -> Option<Self> {
        GRIDS.iter().find_map(|&grid| Self::bucket_on(grid, tokens, period, burst, bits))
    }

    /// A token bucket on a given grid; `None` if a mark of `bits` bits does not last five years on it.
    pub fn bucket_on(grid: u64, tokens: u64, period: u64, burst: u64, bits: u32) -> Option<Self> {
        if period == 0 || period == u64::MAX {
            return None; // the largest stands for all that no u64 holds
        }
        let release = whole(tokens) * whole(grid) / whole(period);
        let units_per_token = release.denom().clone();
        Self::lasting(grid, BigInt::from(0), release, units_per_token, burst, bits)
    }

    /// `limit` tokens at `anchor` and at every multiple of `period` before and after it.
    pub fn window(limit: u64, period: u64, anchor: u128, bits: u32) -> Option<Self> {
        if period == 0 || period == u64::MAX {
            return None; // the largest stands for all that no u64 holds
        }
        Self::lasting(period, BigInt::from(anchor), whole(limit), BigInt::from(1), limit, bits)
    }

    /// The guards' documented arithmetic: `max(1, floor(per_window * 1000 / (window_secs * 1000)))` thousandths
    /// of a token each millisecond.
    pub fn milli_token(per_window: u64, window_secs: u64, burst_factor: f64, bits: u32) -> Option<Self> {
        let capacity = burst_capacity(per_window, burst_factor)?;
        if !seconds_fit(window_secs) {
            return None;
        }
        let thousandths = (whole(per_window) * whole(1_000) / (whole(window_secs) * whole(1_000))).floor();
        let thousandths = if per_window == 0 { whole(0) } else { thousandths.max(whole(1)) };
        let release = thousandths / whole(1_000);
        let units_per_token = release.denom().clone();
        Self::lasting(1_000_000, BigInt::from(0), release, units_per_token, capacity, bits)
    }

    /// The guards' limit with an exact refill.
    pub fn exact_burst(per_window: u64, window_secs: u64, burst_factor: f64, bits: u32) -> Option<Self> {
        let capacity = burst_capacity(per_window, burst_factor)?;
        if !seconds_fit(window_secs) {
            return None;
        }
        Self::bucket(per_window, window_secs * 1_000_000_000, capacity, bits)
    }

    /// A line whose marks count `1 / units_per_token` of a token, if they last five years.
    fn lasting(
        grid: u64,
        origin: BigInt,
        release: BigRational,
        units_per_token: BigInt,
        capacity: u64,
        bits: u32,
    ) -> Option<Self> {
        let largest_mark = (BigInt::from(1) << bits) - BigInt::from(1);
        let line = Self { grid, origin, release, capacity, units_per_token, largest_mark };
        line.holds(&five_years()).then_some(line)
    }

    /// The same limit with marks that last to `horizon` and no longer, where a word has chosen how wide they are.
    ///
    /// # Panics
    /// If that is no five years, or longer than a mark of this width lasts.
    pub fn lasting_until(self, horizon: u64) -> Self {
        assert!(BigInt::from(horizon) >= five_years(), "a limit must last five years, not {horizon} ns");
        assert!(self.decides_at(horizon), "marks of this width do not last until {horizon}");
        let largest_mark = self.units_of(&(self.released(horizon) + whole(self.capacity)));
        Self { largest_mark, ..self }
    }

    /// Grid instants in `(0, t]`: those up to `t` less those up to the start of the clock.
    fn releases_by(&self, t: &BigInt) -> BigInt {
        let up_to = |t: &BigInt| BigRational::new(t - &self.origin, self.grid.into()).floor().to_integer();
        up_to(t) - up_to(&BigInt::from(0))
    }

    /// Tokens released from the start of the clock to `t`.
    pub fn released(&self, t: u64) -> BigRational {
        self.released_by(&BigInt::from(t))
    }

    fn released_by(&self, t: &BigInt) -> BigRational {
        whole(self.releases_by(t)) * &self.release
    }

    /// Can a mark hold whatever can be drawn at `t`?
    fn holds(&self, t: &BigInt) -> bool {
        self.units_of(&(self.released_by(t) + whole(self.capacity))) <= self.largest_mark
    }

    /// Can this limit decide at `t`?
    pub fn decides_at(&self, t: u64) -> bool {
        self.holds(&BigInt::from(t))
    }

    /// `tokens` in units, which must come out whole.
    pub fn units_of(&self, tokens: &BigRational) -> BigInt {
        let units = tokens * whole(self.units_per_token.clone());
        assert!(units.is_integer(), "{tokens} tokens are not whole units of 1/{}", self.units_per_token);
        units.to_integer()
    }

    /// Units released from the start of the clock to `t`.
    pub fn released_units(&self, t: u64) -> u128 {
        u128::try_from(self.units_of(&self.released(t))).expect("a line within 128 bits")
    }

    /// How many units `tokens` are.
    pub fn units(&self, tokens: u64) -> u128 {
        u128::try_from(self.units_of(&whole(tokens))).expect("an amount within 128 bits")
    }

    /// `units` in tokens.
    pub fn tokens_of(&self, units: u64) -> BigRational {
        BigRational::new(units.into(), self.units_per_token.clone())
    }

    /// Tokens that a bucket with `mark` has left at `t`, possibly a fraction.
    pub fn left(&self, mark: &BigRational, t: u64) -> BigRational {
        let debt = (mark - self.released(t)).max(whole(0));
        (whole(self.capacity) - debt).max(whole(0))
    }

    /// Whole tokens that a bucket with `mark` has left at `t`.
    pub fn available(&self, mark: &BigRational, t: u64) -> u64 {
        floor_u64(&self.left(mark, t))
    }

    /// Is a bucket with `mark` as good as one never drawn on?
    pub fn refilled(&self, mark: &BigRational, t: u64) -> bool {
        *mark <= self.released(t)
    }

    /// Judges a draw of `cost` tokens at `t`.
    pub fn decide(&self, mark: &BigRational, t: u64, cost: u64) -> Answer {
        if cost == 0 {
            return Answer::Admit(mark.clone());
        }
        if cost > self.capacity {
            return Answer::Impossible;
        }
        if !self.decides_at(t) {
            return Answer::PastHorizon;
        }
        let released = self.released(t);
        let end = mark.clone().max(released.clone()) + whole(cost);
        if end <= released + whole(self.capacity) {
            return Answer::Admit(end);
        }
        Answer::Exhausted { available: self.available(mark, t), retry_at: self.first_fit(mark, cost) }
    }

    /// The first instant by which enough is released for `cost` on top of `mark`.
    fn first_fit(&self, mark: &BigRational, cost: u64) -> Option<u64> {
        if *self.release.numer() == BigInt::from(0) {
            return None;
        }
        let missing = mark + whole(cost) - whole(self.capacity);
        let releases = (missing / &self.release).ceil().to_integer();
        let before_start = BigRational::new(-self.origin.clone(), self.grid.into()).floor().to_integer();
        let instant = &self.origin + (before_start + releases) * BigInt::from(self.grid);
        if self.holds(&instant) { u64::try_from(instant).ok() } else { None }
    }
}

fn seconds_fit(window_secs: u64) -> bool {
    window_secs > 0 && BigInt::from(window_secs) * BigInt::from(1_000_000_000) <= BigInt::from(u64::MAX)
}
