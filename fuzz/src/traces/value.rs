//! What a field means, by exact sums.

use super::decoded::Value;
use super::instant::timestamp;
use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate_cli::event::{Kind, Schema, Whole};

impl Value {
    pub fn absent() -> Self {
        Self { kind: Kind::Absent, text: None, whole: Whole::Absent }
    }

    pub fn new(kind: Kind, text: &str) -> Self {
        let whole = match kind {
            Kind::Number | Kind::Plain => whole(text),
            Kind::Absent => Whole::Absent,
            Kind::Text | Kind::Bool | Kind::Composite => Whole::Bad,
        };
        let text = (!matches!(kind, Kind::Absent | Kind::Composite)).then(|| text.to_owned());
        Self { kind, text, whole }
    }
}

/// Digits up to 64 bits; in any other notation whole numbers below 2^53.
fn whole(text: &str) -> Whole {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_or(Whole::Bad, Whole::Is);
    }
    let numeric = text.bytes().all(|byte| b"0123456789.eE+-".contains(&byte));
    if !numeric || !text.contains(['.', 'e', 'E']) || text.parse::<f64>().is_err() {
        return Whole::Bad;
    }
    let Some(exact) = decimal(text) else { return Whole::Bad };
    let most = BigRational::from_integer(BigInt::from(1u64 << 53));
    if !exact.is_integer() || exact < BigRational::from_integer(BigInt::from(0)) || exact >= most {
        return Whole::Bad;
    }
    u64::try_from(exact.to_integer()).map_or(Whole::Bad, Whole::Is)
}

/// The value of a decimal number; `None` for one too far from 1 to be a whole number below 2^53.
fn decimal(text: &str) -> Option<BigRational> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let negative = whole.starts_with('-');
    let digits = format!("{}{fraction}", whole.trim_start_matches(['-', '+']));
    let value: BigInt = digits.parse().ok()?;
    if value == BigInt::from(0) {
        return Some(BigRational::from_integer(value));
    }
    let exponent = exponent.parse::<i64>().ok().filter(|e| e.unsigned_abs() <= 5_000)?;
    let places = exponent - i64::try_from(fraction.len()).ok()?;
    let power = BigInt::from(10).pow(u32::try_from(places.unsigned_abs()).ok()?);
    let value = if negative { -value } else { value };
    Some(if places < 0 { BigRational::new(value, power) } else { BigRational::from_integer(value * power) })
}

/// The event's time, if its fields have one; `field` looks a slot up.
pub fn time<'v>(schema: &Schema, field: impl Fn(tollgate_cli::event::FieldId) -> &'v Value) -> Option<u64> {
    let [t_ns, t_ms, time] = schema.times();
    for (slot, unit) in [(t_ns, 1), (t_ms, 1_000_000)] {
        match slot.map(|slot| field(slot).whole) {
            None | Some(Whole::Absent) => {}
            Some(Whole::Is(n)) => return n.checked_mul(unit),
            Some(Whole::Bad) => return None,
        }
    }
    let value = field(time?);
    if !matches!(value.kind, Kind::Text | Kind::Plain) {
        return None;
    }
    timestamp(value.text.as_ref()?)
}
