//! Quotas in plain integers, on trace time. Written apart from the library: a bucket is the line of units that its
//! quota has released, and a mark on it.

/// What a limit releases.
#[derive(Debug, Clone, Copy)]
pub enum Release {
    /// `tokens` in each `per` nanoseconds, continuously.
    Rate { tokens: i128, per: i128 },
    /// `tokens` at each `anchor + n * per`.
    Window { tokens: i128, per: i128, anchor: i128 },
    /// `milli` thousandths of a token on each whole millisecond.
    Milli { milli: i128 },
}

#[derive(Debug, Clone, Copy)]
pub struct Quota {
    pub release: Release,
    /// In tokens.
    pub capacity: i128,
}

impl Quota {
    /// A guard's limit under the milli-token rounding.
    pub fn milli(per_window: i128, window_secs: i128, capacity: i128) -> Self {
        let milli = if per_window == 0 { 0 } else { (per_window / window_secs).max(1) };
        Self { release: Release::Milli { milli }, capacity }
    }

    pub fn units_per_token(&self) -> i128 {
        match self.release {
            Release::Rate { per, .. } => per,
            Release::Window { .. } => 1,
            Release::Milli { .. } => 1_000,
        }
    }

    /// Units released by time `t`.
    pub fn accrued(&self, t: i128) -> i128 {
        match self.release {
            Release::Rate { tokens, .. } => tokens * t,
            Release::Window { tokens, per, anchor } => tokens * (t - anchor).div_euclid(per),
            Release::Milli { milli } => milli * t.div_euclid(1_000_000),
        }
    }

    /// The first time at which `units` are released; `None` if never.
    fn reached(&self, units: i128) -> Option<i128> {
        let ceil = |a: i128, b: i128| if b == 0 { None } else { Some(-(-a).div_euclid(b)) };
        match self.release {
            Release::Rate { tokens, .. } => ceil(units, tokens),
            Release::Window { tokens, per, anchor } => Some(anchor + ceil(units, tokens)? * per),
            Release::Milli { milli } => Some(ceil(units, milli)? * 1_000_000),
        }
    }

    /// Where a bucket's mark is after a draw of `cost` tokens at `t`, or how long the draw must wait.
    pub fn draw(&self, mark: Option<i128>, t: i128, cost: i128) -> Result<i128, Option<i128>> {
        let line = self.accrued(t);
        let mark = mark.map_or(line, |mark| mark.max(line)) + cost * self.units_per_token();
        let full = self.capacity * self.units_per_token();
        if mark <= line + full {
            return Ok(mark);
        }
        Err(self.reached(mark - full).map(|at| at - t))
    }

    /// Whole tokens left at `t`.
    pub fn left(&self, mark: Option<i128>, t: i128) -> i128 {
        let debt = mark.map_or(0, |mark| (mark - self.accrued(t)).max(0));
        (self.capacity * self.units_per_token() - debt) / self.units_per_token()
    }

    pub fn is_full(&self, mark: i128, t: i128) -> bool {
        mark <= self.accrued(t)
    }
}
