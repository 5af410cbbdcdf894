//! Effects that cannot be emitted unpaid.

mod hours;
mod rule;

pub use hours::{AllowedHours, Day, HoursError};
pub use rule::{EffectPolicy, EffectRule, OnExhausted, QuotaRule, UnknownOnExhausted};
