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

/// Whole numbers of up to 64 bits in any decimal notation without a sign.
fn whole(text: &str) -> Whole {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_or(Whole::Bad, Whole::Is);
    }
    let numeric = text.bytes().all(|byte| b"0123456789.eE+-".contains(&byte));
    let signed = text.starts_with(['-', '+']);
    if signed || !numeric || !text.contains(['.', 'e', 'E']) || text.parse::<f64>().is_err() {
        return Whole::Bad;
    }
    let Some(exact) = decimal(text) else { return Whole::Bad };
    if !exact.is_integer() {
        return Whole::Bad;
    }
    u64::try_from(exact.to_integer()).map_or(Whole::Bad, Whole::Is)
}

/// The value of a decimal number without a sign; `None` for one too far from 1 to be a whole number of 64 bits in a
/// line of the fuzzer's length.
fn decimal(text: &str) -> Option<BigRational> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let value: BigInt = format!("{whole}{fraction}").parse().ok()?;
    if value == BigInt::from(0) {
        return Some(BigRational::from_integer(value));
    }
    let exponent = exponent.parse::<i64>().ok().filter(|e| e.unsigned_abs() <= 20_000)?;
    let places = exponent - i64::try_from(fraction.len()).ok()?;
    let power = BigInt::from(10).pow(u32::try_from(places.unsigned_abs()).ok()?);
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
