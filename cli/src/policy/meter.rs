//! `[meter]`: how an event of a trace becomes amounts of a budget. Only `tollgate replay` reads it.
//!
//! ```toml
//! [meter]
//! tokens = ["ContextTokens", "GeneratedTokens"]   # fields, added up; or one field; or a whole number for every event
//! calls = 1                                       # 1 if left out
//! cost = [                                        # or a field with whole units, or "0.01" for every event
//!   { field = "ContextTokens", per_million = "2.50" },
//!   { field = "GeneratedTokens", per_million = "10.00" },
//! ]
//! ```
//! A dimension that is left out is the event's field of that name, and nothing where an event has none.

use tollgate::file::section::{Section, whole};
use tollgate::file::{Found, PolicyFileError as Mistake};
use tollgate::spend::{DIMENSIONS, Dimension, MoneyUnit};
use toml::de::DeValue;

const FIELDS: &str = "a field's name, a list of fields that are added up, or a whole number";
const COST: &str = "a list of prices such as [{ field = \"tokens\", per_million = \"2.50\" }], a field with whole units, an amount such as \"0.01\", or a whole number of units";

/// How much of one dimension an event uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Metered {
    /// The same of every event.
    Constant(u64),
    /// A field that may be missing, and is nothing then.
    Optional(String),
    /// Fields that are added up, and must be there.
    Fields(Vec<String>),
    /// Fields with a price each, in units of money for a million of what the field counts.
    Priced(Vec<(String, u64)>),
}

/// What an event uses, by dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    by_dimension: [Metered; DIMENSIONS.len()],
}

impl Default for Meter {
    fn default() -> Self {
        Self { by_dimension: DIMENSIONS.map(unstated) }
    }
}

fn unstated(dimension: Dimension) -> Metered {
    match dimension {
        Dimension::Calls => Metered::Constant(1),
        // A trace does not say when a run ends.
        Dimension::Runs => Metered::Constant(0),
        other => Metered::Optional(other.name().to_owned()),
    }
}

impl Meter {
    /// How much of `dimension`.
    pub fn of(&self, dimension: Dimension) -> &Metered {
        &self.by_dimension[dimension as usize]
    }

    /// From the table, in a policy that counts money in `unit`.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn read(section: &Section<'_>, unit: &MoneyUnit) -> Result<Self, Mistake> {
        section.only(&["cost", "tokens", "calls", "seconds"])?;
        let mut meter = Self::default();
        for dimension in [Dimension::Cost, Dimension::Tokens, Dimension::Calls, Dimension::Seconds] {
            if let Some(value) = section.get(dimension.name()) {
                meter.by_dimension[dimension as usize] = match dimension {
                    Dimension::Cost => cost(section, value.get_ref(), unit)?,
                    _ => amount(section, dimension.name(), value.get_ref(), FIELDS)?,
                };
            }
        }
        Ok(meter)
    }
}

fn amount(section: &Section<'_>, key: &str, value: &DeValue<'_>, accepted: &str) -> Result<Metered, Mistake> {
    match value {
        DeValue::String(field) if !field.is_empty() => Ok(Metered::Fields(vec![field.to_string()])),
        DeValue::Array(_) => match section.texts(key, accepted)? {
            Some(fields) if !fields.is_empty() => Ok(Metered::Fields(fields)),
            _ => Err(section.wrong(key, accepted)),
        },
        other => whole(other).map(Metered::Constant).ok_or_else(|| section.wrong(key, accepted)),
    }
}

fn cost(section: &Section<'_>, value: &DeValue<'_>, unit: &MoneyUnit) -> Result<Metered, Mistake> {
    match value {
        DeValue::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => {
            money(section, "cost", text, unit).map(Metered::Constant)
        }
        DeValue::Array(items) if !items.is_empty() && items.iter().all(|item| item.get_ref().is_table()) => {
            let price = |price: Section<'_>| {
                price.only(&["field", "per_million"])?;
                let accepted = "the name of an event's field";
                let field = price.text("field", accepted)?.filter(|field| !field.is_empty());
                let field = field.ok_or_else(|| price.wrong("field", accepted))?;
                let accepted = "an amount of money for a million, as text, such as \"2.50\"";
                let text = price.text("per_million", accepted)?;
                let text = text.ok_or_else(|| price.missing("per_million", accepted))?;
                Ok((field.to_owned(), money(&price, "per_million", text, unit)?))
            };
            section.tables("cost")?.into_iter().map(price).collect::<Result<_, _>>().map(Metered::Priced)
        }
        other => amount(section, "cost", other, COST),
    }
}

fn money(section: &Section<'_>, key: &str, text: &str, unit: &MoneyUnit) -> Result<u64, Mistake> {
    let accepted =
        format!("an amount of {} with at most {} decimal places", unit.currency(), unit.decimals());
    unit.parse(text).map_err(|error| section.found(key, Found::Words(error.to_string()), accepted))
}
