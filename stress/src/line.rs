//! A refill line in machine integers, for runs that check millions of records. It is taken from the oracle, which
//! is exact and slow, and compared with it again at the times of each run.

use crate::intervals::Refill;
use crate::oracle::Line;
use crate::random::Random;

/// One limit's line.
#[derive(Debug, Clone)]
pub struct Fast {
    oracle: Line,
    grid: u64,
    units_per_release: u128,
    units_per_token: u128,
}

impl Fast {
    /// The line must have an instant of its grid at time 0.
    pub fn of(oracle: Line) -> Self {
        let grid = oracle.grid;
        let units_per_release = oracle.released_units(grid);
        Self { grid, units_per_release, units_per_token: oracle.units(1), oracle }
    }

    /// Panics if the oracle disagrees at one of some times up to `latest`.
    pub fn compare(&self, latest: u64, random: &mut Random) {
        for _ in 0..20 {
            let t = random.next() % latest.max(1);
            assert_eq!(self.released_units(t), self.oracle.released_units(t), "at {t} of {:?}", self.oracle);
        }
    }

    /// Whole tokens that a bucket with `mark` has at `t`.
    pub fn left(&self, mark: u64, t: u64) -> u64 {
        let debt = u128::from(mark).saturating_sub(self.released_units(t));
        let left = self.units(self.capacity()).saturating_sub(debt) / self.units_per_token;
        u64::try_from(left).expect("at most the capacity")
    }
}

impl Refill for Fast {
    fn released_units(&self, t: u64) -> u128 {
        u128::from(t / self.grid) * self.units_per_release
    }
    fn units(&self, tokens: u64) -> u128 {
        u128::from(tokens) * self.units_per_token
    }
    fn capacity(&self) -> u64 {
        self.oracle.capacity
    }
}
