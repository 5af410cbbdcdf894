//! Amounts: what a call may use, or did, in five dimensions of integers.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Index, IndexMut};

/// What is counted. Each has its own unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// Money, in the unit of the [`SpendPolicy`](super::SpendPolicy): micro-dollars by default.
    Cost,
    /// Tokens of a model.
    Tokens,
    /// Calls of tools.
    Calls,
    /// Seconds of work.
    Seconds,
    /// Runs under way at once: held while a hold is open, and always given back.
    Runs,
}

/// All dimensions, in the order in which amounts list them.
pub const DIMENSIONS: [Dimension; 5] =
    [Dimension::Cost, Dimension::Tokens, Dimension::Calls, Dimension::Seconds, Dimension::Runs];

impl Dimension {
    /// As policy files, tables and events spell it.
    pub fn name(self) -> &'static str {
        match self {
            Dimension::Cost => "cost",
            Dimension::Tokens => "tokens",
            Dimension::Calls => "calls",
            Dimension::Seconds => "seconds",
            Dimension::Runs => "runs",
        }
    }

    /// The dimension of that name.
    pub fn named(name: &str) -> Option<Self> {
        DIMENSIONS.into_iter().find(|dimension| dimension.name() == name)
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The largest amount that is accepted in one place: 2^53, which every reader of JSON has exactly.
pub const MOST: u64 = 1 << 53;

/// A checked amount of every dimension: 0 to [`MOST`] each when it comes from a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Quantities([u64; 5]);

impl Quantities {
    /// Nothing of anything.
    pub const NONE: Self = Self([0; 5]);

    /// Only `amount` of `dimension`.
    #[must_use]
    pub fn only(dimension: Dimension, amount: u64) -> Self {
        let mut only = Self::NONE;
        only[dimension] = amount;
        only
    }

    /// Is there nothing of anything?
    pub fn is_none(&self) -> bool {
        self.0 == [0; 5]
    }

    /// Each dimension with its amount.
    pub fn iter(&self) -> impl Iterator<Item = (Dimension, u64)> {
        DIMENSIONS.into_iter().zip(self.0)
    }

    /// Dimension by dimension; `None` where one overflows.
    pub(crate) fn checked_add(&self, other: &Self) -> Option<Self> {
        let mut sum = *self;
        for (dimension, amount) in other.iter() {
            sum[dimension] = sum[dimension].checked_add(amount)?;
        }
        Some(sum)
    }

    /// What is left of `self` without `other`, at least 0 each.
    pub(crate) fn saturating_sub(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    /// The lesser of each.
    pub(crate) fn min(&self, other: &Self) -> Self {
        self.zip(other, u64::min)
    }

    fn zip(&self, other: &Self, with: impl Fn(u64, u64) -> u64) -> Self {
        let mut all = *self;
        all.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine = with(*mine, theirs));
        all
    }
}

impl Index<Dimension> for Quantities {
    type Output = u64;
    fn index(&self, dimension: Dimension) -> &u64 {
        &self.0[dimension as usize]
    }
}
impl IndexMut<Dimension> for Quantities {
    fn index_mut(&mut self, dimension: Dimension) -> &mut u64 {
        &mut self.0[dimension as usize]
    }
}

/// What a caller states: an estimate to hold, or what was really used. Checked when it is used, so that a negative number
/// out of somebody's price table is an error and not a credit.
///
/// ```
/// use tollgate::spend::Amounts;
///
/// let step = Amounts::new().cost(12_000).tokens(4_000).calls(1);
/// assert!(step.checked("USD").is_ok());
/// assert!(Amounts::new().cost(-1).checked("USD").is_err());
/// assert!(Amounts::new().cost_in("EUR", 12_000).checked("USD").is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use]
pub struct Amounts {
    amounts: [Option<i64>; 5],
    currency: Option<String>,
}

impl Amounts {
    /// Nothing of anything.
    pub fn new() -> Self {
        Self::default()
    }

    fn with(mut self, dimension: Dimension, amount: i64) -> Self {
        self.amounts[dimension as usize] = Some(amount);
        self
    }

    /// Money, in the unit and the currency of the policy.
    pub fn cost(self, amount: i64) -> Self {
        self.with(Dimension::Cost, amount)
    }

    /// Money in this currency, in the policy's unit. Another currency than the policy's is an error.
    pub fn cost_in(mut self, currency: impl Into<String>, amount: i64) -> Self {
        self.currency = Some(currency.into());
        self.cost(amount)
    }

    /// Tokens of a model.
    pub fn tokens(self, amount: i64) -> Self {
        self.with(Dimension::Tokens, amount)
    }

    /// Calls of tools.
    pub fn calls(self, amount: i64) -> Self {
        self.with(Dimension::Calls, amount)
    }

    /// Seconds of work.
    pub fn seconds(self, amount: i64) -> Self {
        self.with(Dimension::Seconds, amount)
    }

    /// Runs under way. Whatever a settlement says of them, they are given back by it.
    pub fn runs(self, amount: i64) -> Self {
        self.with(Dimension::Runs, amount)
    }

    /// This amount of `dimension`.
    pub fn of(self, dimension: Dimension, amount: i64) -> Self {
        self.with(dimension, amount)
    }

    /// Is a cost stated, even one of 0?
    pub fn states_cost(&self) -> bool {
        self.amounts[Dimension::Cost as usize].is_some()
    }

    /// The amounts, if they can be budgeted under a policy in `currency`.
    ///
    /// # Errors
    /// A negative amount, one above [`MOST`], or another currency.
    pub fn checked(&self, currency: &str) -> Result<Quantities, AmountError> {
        if let Some(stated) = self.currency.as_deref().filter(|&stated| stated != currency) {
            let (stated, budgeted) = (stated.to_owned(), currency.to_owned());
            return Err(AmountError::Currency { stated, budgeted });
        }
        let mut checked = Quantities::NONE;
        for dimension in DIMENSIONS {
            let amount = self.amounts[dimension as usize].unwrap_or(0);
            checked[dimension] = match u64::try_from(amount) {
                Err(_) => return Err(AmountError::Negative { dimension, amount }),
                Ok(amount) if amount > MOST => return Err(AmountError::TooLarge { dimension, amount }),
                Ok(amount) => amount,
            };
        }
        Ok(checked)
    }
}

impl From<Quantities> for Amounts {
    fn from(quantities: Quantities) -> Self {
        let mut amounts = Self::new();
        for (dimension, amount) in quantities.iter().filter(|&(_, amount)| amount > 0) {
            amounts = amounts.of(dimension, i64::try_from(amount).unwrap_or(i64::MAX));
        }
        amounts
    }
}

/// Amounts that cannot be budgeted. Nothing was held or recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AmountError {
    /// Below 0.
    #[error("{dimension} is {amount}, accepted: 0 to {MOST}; a negative amount would be a credit")]
    Negative {
        /// Of what.
        dimension: Dimension,
        /// How much.
        amount: i64,
    },
    /// More than is accepted in one place.
    #[error("{dimension} is {amount}, accepted: 0 to {MOST}")]
    TooLarge {
        /// Of what.
        dimension: Dimension,
        /// How much.
        amount: u64,
    },
    /// Sums that no longer fit.
    #[error("{dimension} adds up to more than can be counted")]
    Overflow {
        /// Of what.
        dimension: Dimension,
    },
    /// Money of another currency.
    #[error("the cost is in {stated} and the budget in {budgeted}: convert it before it is held")]
    Currency {
        /// What the caller stated.
        stated: String,
        /// The policy's.
        budgeted: String,
    },
}
