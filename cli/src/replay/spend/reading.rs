//! What an event uses, and whose it is: from its fields, exactly.

use crate::event::{FieldId, Record, Schema, Whole};
use crate::policy::{Meter, Metered};
use tollgate::spend::{Amounts, Call, DIMENSIONS, Dimension, SpendPolicy};

/// A price is for so many.
const MILLION: u128 = 1_000_000;

/// The policy's fields in slots.
pub struct Reading {
    /// Scopes with keys of their own.
    keys: Vec<(String, FieldId)>,
    /// The grant, where there are families.
    grant: Option<FieldId>,
    amounts: Vec<(Dimension, Slots)>,
}

enum Slots {
    Constant(u64),
    Optional(FieldId),
    Fields(Vec<FieldId>),
    Priced(Vec<(FieldId, u64)>),
}

/// Why an event cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// A field that a scope or the meter names is not there.
    MissingField,
    /// A field is no whole number, or adds up to more than can be budgeted.
    BadAmount,
}

impl Reading {
    /// Makes slots in `schema` for everything that is read.
    pub fn new(policy: &SpendPolicy, meter: &Meter, schema: &mut Schema) -> Self {
        let keyed = policy.scopes().iter().filter(|scope| !scope.is_shared());
        let keys = keyed.map(|scope| (scope.name().to_owned(), schema.field(scope.name()))).collect();
        let grant = (!policy.families().is_empty()).then(|| schema.optional_field("grant"));
        let mut slots = |metered: &Metered| match metered {
            Metered::Constant(amount) => Slots::Constant(*amount),
            Metered::Optional(field) => Slots::Optional(schema.optional_field(field)),
            Metered::Fields(fields) => {
                Slots::Fields(fields.iter().map(|field| schema.field(field)).collect())
            }
            Metered::Priced(prices) => {
                Slots::Priced(prices.iter().map(|(field, price)| (schema.field(field), *price)).collect())
            }
        };
        let amounts =
            DIMENSIONS.into_iter().map(|dimension| (dimension, slots(meter.of(dimension)))).collect();
        Self { keys, grant, amounts }
    }

    /// Whose call an event is, and what it uses.
    pub fn read(&self, record: &Record) -> Result<(Call, Amounts), Flaw> {
        let mut call = Call::new();
        for (scope, field) in &self.keys {
            call = call.scope(scope.as_str(), record.field(*field).text().ok_or(Flaw::MissingField)?);
        }
        if let Some(grant) = self.grant.and_then(|field| record.field(field).text()) {
            call = call.grant(grant);
        }
        let mut amounts = Amounts::new();
        for (dimension, slots) in &self.amounts {
            let amount = i64::try_from(slots.amount(record)?).map_err(|_| Flaw::BadAmount)?;
            // A call of a family that states no cost is held at its ceiling.
            if amount > 0 || *dimension == Dimension::Cost {
                amounts = amounts.of(*dimension, amount);
            }
        }
        Ok((call, amounts))
    }
}

impl Slots {
    fn amount(&self, record: &Record) -> Result<u128, Flaw> {
        match self {
            Slots::Constant(amount) => Ok(u128::from(*amount)),
            Slots::Optional(field) => match record.field(*field).whole() {
                Whole::Absent => Ok(0),
                Whole::Is(amount) => Ok(u128::from(amount)),
                Whole::Bad => Err(Flaw::BadAmount),
            },
            Slots::Fields(fields) => {
                fields.iter().try_fold(0, |sum, field| Ok(sum + required(record, *field)?))
            }
            Slots::Priced(prices) => {
                // At most 2^64 * 2^64 for each: more of them than a few could overflow.
                let millionths = prices.iter().try_fold(0_u128, |sum, (field, price)| {
                    let part = required(record, *field)? * u128::from(*price);
                    sum.checked_add(part).ok_or(Flaw::BadAmount)
                })?;
                Ok(millionths.div_ceil(MILLION))
            }
        }
    }
}

fn required(record: &Record, field: FieldId) -> Result<u128, Flaw> {
    match record.field(field).whole() {
        Whole::Is(amount) => Ok(u128::from(amount)),
        Whole::Absent => Err(Flaw::MissingField),
        Whole::Bad => Err(Flaw::BadAmount),
    }
}
