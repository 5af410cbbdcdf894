//! Double entry: what was set aside, and what became of it.

use super::amount::{DIMENSIONS, Dimension, Quantities};
use serde::{Deserialize, Serialize};

/// What was set aside in one dimension, and what became of it: in all, so it only grows. No number of operations of amounts up to
/// [`MOST`](super::amount::MOST) fills 128 bits. They balance when
/// `reserved + overrun = settled + released + expired + outstanding`, where what is outstanding is counted from the open
/// holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Entry {
    /// Held before dispatch.
    pub reserved: i128,
    /// Used beyond the hold.
    pub overrun: i128,
    /// Really used.
    pub settled: i128,
    /// Given back.
    pub released: i128,
    /// Of holds that outlived their time to live, and count as used.
    pub expired: i128,
}

impl Entry {
    /// What counts against limits: everything that was set aside or used, less what was given back.
    pub fn used(&self) -> i128 {
        self.reserved.saturating_add(self.overrun).saturating_sub(self.released)
    }

    /// What must still be out in open holds.
    pub fn outstanding(&self) -> i128 {
        self.used().saturating_sub(self.settled).saturating_sub(self.expired)
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

    /// Adds `other` entry by entry, or nothing of it.
    ///
    /// # Errors
    /// The dimension whose sums no longer fit.
    pub fn add_books(&mut self, other: &Self) -> Result<(), Dimension> {
        // Most moves are of one or two dimensions.
        let moved = || other.iter().filter(|(_, entry)| **entry != Entry::default());
        for (dimension, entry) in moved() {
            self.entry(dimension).checked_add(entry).ok_or(dimension)?;
        }
        for (dimension, entry) in moved() {
            let sum = self.entry(dimension).checked_add(entry).ok_or(dimension)?;
            *self.entry_mut(dimension) = sum;
        }
        Ok(())
    }

    /// What must still be out in open holds, by these books.
    pub fn outstanding(&self) -> [i128; 5] {
        self.0.map(|entry| entry.outstanding())
    }

    /// What undoes these.
    pub(crate) fn negated(&self) -> Self {
        Self(self.0.map(|entry| Entry {
            reserved: entry.reserved.saturating_neg(),
            overrun: entry.overrun.saturating_neg(),
            settled: entry.settled.saturating_neg(),
            released: entry.released.saturating_neg(),
            expired: entry.expired.saturating_neg(),
        }))
    }

    /// Adds `amounts` to one part of every entry: `books.add(&held, |entry| &mut entry.reserved)`.
    pub(crate) fn add(&mut self, amounts: &Quantities, part: impl Fn(&mut Entry) -> &mut i128) {
        self.change(amounts, part, 1);
    }

    /// Takes `amounts` from one part of every entry.
    pub(crate) fn take(&mut self, amounts: &Quantities, part: impl Fn(&mut Entry) -> &mut i128) {
        self.change(amounts, part, -1);
    }

    fn change(&mut self, amounts: &Quantities, part: impl Fn(&mut Entry) -> &mut i128, sign: i128) {
        for (dimension, amount) in amounts.iter() {
            *part(self.entry_mut(dimension)) += sign * i128::from(amount);
        }
    }
}
