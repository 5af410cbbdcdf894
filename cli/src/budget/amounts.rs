//! Amounts: money in its currency for people, integers in units as JSON.

use crate::summary::{grouped, span};
use crate::table::printable;
use serde_json::{Map, Value, json};
use tollgate::spend::record::Account;
use tollgate::spend::{Dimension, Millis, MoneyUnit, Quantities, SpendPolicy};

/// Shows amounts of a store's unit.
#[derive(Debug, Clone)]
pub struct Purse(MoneyUnit);

impl Purse {
    pub fn new(unit: &MoneyUnit) -> Self {
        Self(unit.clone())
    }

    pub fn unit(&self) -> &MoneyUnit {
        &self.0
    }

    /// An amount whose dimension is told beside it.
    pub fn show(&self, dimension: Dimension, amount: u64) -> String {
        match dimension {
            Dimension::Cost => format!("{} {}", self.0.show(amount), self.0.currency()),
            _ => grouped(amount),
        }
    }

    /// The same, below 0 too.
    pub fn show_signed(&self, dimension: Dimension, amount: i128) -> String {
        let shown = self.show(dimension, u64::try_from(amount.unsigned_abs()).unwrap_or(u64::MAX));
        if amount < 0 { format!("-{shown}") } else { shown }
    }

    /// All that is there.
    pub fn list(&self, amounts: &Quantities) -> String {
        let there = amounts.iter().filter(|&(_, amount)| amount > 0);
        let each = there.map(|(dimension, amount)| match dimension {
            Dimension::Cost => self.show(dimension, amount),
            _ => format!("{} {dimension}", self.show(dimension, amount)),
        });
        let each: Vec<String> = each.collect();
        if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
    }

    /// What JSON says of the unit, and more about `object`.
    pub fn with_unit(&self, mut object: Value) -> Value {
        object["currency"] = self.0.currency().into();
        object["decimals"] = self.0.decimals().into();
        object
    }
}

/// Every dimension in its units.
pub fn units(amounts: &Quantities) -> Value {
    let each = amounts.iter().map(|(dimension, amount)| (dimension.name().to_owned(), amount.into()));
    Value::Object(each.collect::<Map<_, _>>())
}

/// A number that JSON has in 64 bits.
pub fn signed(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

/// A length of time.
pub fn length(millis: Millis) -> String {
    // What is longer than clocks can be apart is shown as the longest that fits.
    span(millis.saturating_mul(1_000_000))
}

/// Accounts as one cell: `run=r-17 user=ann global`, where the policy says what is shared.
pub fn path(accounts: &[Account], policy: &SpendPolicy) -> String {
    let each = accounts.iter().map(|Account { scope, key }| match is_shared(scope, policy) {
        true => printable(scope),
        false => format!("{}={}", printable(scope), printable(key)),
    });
    each.collect::<Vec<_>>().join(" ")
}

pub fn is_shared(scope: &str, policy: &SpendPolicy) -> bool {
    policy.scopes().iter().any(|known| known.name() == scope && known.is_shared())
}

/// Accounts as JSON.
pub fn path_json(accounts: &[Account]) -> Value {
    accounts.iter().map(|Account { scope, key }| json!({ "scope": scope, "key": key })).collect()
}
