//! Double entry: what was set aside, and what became of it.

use super::amount::{DIMENSIONS, Dimension, Quantities};
use serde::{Deserialize, Serialize};

/// What was set aside in one dimension, and what became of it. They balance when
/// `reserved + overrun = settled + released + expired + outstanding`, where what is outstanding is counted from the open
/// holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Entry {
    /// Held before dispatch.
    pub reserved: i64,
    /// Used beyond the hold.
    pub overrun: i64,
    /// Really used.
    pub settled: i64,
    /// Given back.
    pub released: i64,
    /// Of holds that outlived their time to live, and count as used.
    pub expired: i64,
}

impl Entry {
    /// What counts against limits: everything that was set aside or used, less what was given back.
    pub fn used(&self) -> i64 {
        self.reserved + self.overrun - self.released
    }

    /// What must still be out in open holds.
    pub fn outstanding(&self) -> i64 {
        self.reserved + self.overrun - self.settled - self.released - self.expired
    }

    /// Part by part; `None` where one overflows.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        Some(Self {
            reserved: self.reserved.checked_add(other.reserved)?,
            overrun: self.overrun.checked_add(other.overrun)?,
            settled: self.settled.checked_add(other.settled)?,
            released: self.released.checked_add(other.released)?,
            expired: self.expired.checked_add(other.expired)?,
        })
    }
}

/// An [`Entry`] of every dimension, in the order of [`DIMENSIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Books([Entry; 5]);

impl Books {
    /// One dimension's.
    pub fn entry(&self, dimension: Dimension) -> &Entry {
        &self.0[dimension as usize]
    }

    /// One dimension's, to change.
    pub fn entry_mut(&mut self, dimension: Dimension) -> &mut Entry {
        &mut self.0[dimension as usize]
    }

    /// Each dimension with its entry.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, &Entry)> {
        DIMENSIONS.into_iter().zip(&self.0)
    }

    /// Nothing was ever entered?
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Entry by entry; the dimension that overflows as the error.
    ///
    /// # Errors
    /// The dimension whose sums no longer fit.
    pub fn checked_add(&self, other: &Self) -> Result<Self, Dimension> {
        let mut sum = *self;
        for dimension in DIMENSIONS {
            let added = self.entry(dimension).checked_add(other.entry(dimension));
            *sum.entry_mut(dimension) = added.ok_or(dimension)?;
        }
        Ok(sum)
    }

    /// What must still be out in open holds, by these books.
    pub fn outstanding(&self) -> [i64; 5] {
        self.0.map(|entry| entry.outstanding())
    }

    /// What undoes these.
    pub(crate) fn negated(&self) -> Self {
        Self(self.0.map(|entry| Entry {
            reserved: -entry.reserved,
            overrun: -entry.overrun,
            settled: -entry.settled,
            released: -entry.released,
            expired: -entry.expired,
        }))
    }

    /// Adds `amounts` to one part of every entry: `books.add(&held, |entry| &mut entry.reserved)`.
    pub(crate) fn add(&mut self, amounts: &Quantities, part: impl Fn(&mut Entry) -> &mut i64) {
        self.change(amounts, part, 1);
    }

    /// Takes `amounts` from one part of every entry.
    pub(crate) fn take(&mut self, amounts: &Quantities, part: impl Fn(&mut Entry) -> &mut i64) {
        self.change(amounts, part, -1);
    }

    fn change(&mut self, amounts: &Quantities, part: impl Fn(&mut Entry) -> &mut i64, sign: i64) {
        for (dimension, amount) in amounts.iter() {
            // Amounts of one operation are sums of at most a few times 2^53.
            *part(self.entry_mut(dimension)) += sign * i64::try_from(amount).unwrap_or(i64::MAX / 4);
        }
    }
}
