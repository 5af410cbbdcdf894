//! A quota as integers: units, ticks, and the pure decision function.

use super::{Kind, NANOS_PER_SEC, Quota};
use crate::ConfigError;

/// Five years of 365.25 days in nanoseconds: the shortest horizon a limit may have. (The model checker's narrow
/// words count small times.)
const MIN_HORIZON: u64 = if crate::sync::MODEL { 1_000 } else { 5 * YEAR };
const YEAR: u64 = 31_557_600 * NANOS_PER_SEC;
/// The ticks tried, finest first.
const TICKS: [u64; 3] = [1, 1_000, 1_000_000];

/// A quota in integers, for a mark of a fixed width. Built by [`Quota::arithmetic`].
///
/// Time is cut into *steps* (a tick of 1 ns, 1 us or 1 ms for a bucket, the period for a window); each step
/// releases `units_per_step` units, and a token is `units_per_token` units. Both are reduced, so the rate is
/// exact: only the instants at which it is released lie on the grid of steps.
///
/// ```
/// use tollgate::quota::{Decision, Quota};
///
/// let line = Quota::per_minute(100).burst(150).arithmetic(64)?;
/// let Decision::Admit { mark } = line.decide(0, 0, 150) else { panic!("a fresh bucket is full") };
/// assert_eq!(line.decide(mark, 599_999_999, 1), Decision::Exhausted { available: 0, retry_at: Some(600_000_000) });
/// assert!(matches!(line.decide(mark, 600_000_000, 1), Decision::Admit { .. }));
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arithmetic {
    /// Nanoseconds of one step.
    step: u64,
    /// Nanoseconds added to the time before it is cut into steps (a window's anchor).
    phase: u64,
    units_per_step: u64,
    units_per_token: u64,
    capacity_units: u64,
    /// The last nanosecond that can be decided: `accrued + capacity` still fits the mark.
    horizon: u64,
}

/// The answer of [`Arithmetic::decide`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Admitted; the bucket's mark is now `mark`. The call owns the `cost` units that end there.
    Admit {
        /// The new mark, in units of the line.
        mark: u64,
    },
    /// Not now.
    Exhausted {
        /// Whole tokens in the bucket, rounded down.
        available: u64,
        /// The first nanosecond at which the same draw is admitted if nobody else draws. `None` when that
        /// lies past the horizon.
        retry_at: Option<u64>,
    },
    /// Never: the cost is above the capacity.
    Impossible,
    /// The time is past the horizon.
    PastHorizon,
}

impl Arithmetic {
    pub(super) fn new(quota: &Quota, bits: u32) -> Result<Self, ConfigError> {
        if !(1..=64).contains(&bits) {
            return Err(ConfigError::new("bits", bits, "1 to 64"));
        }
        let mut refused = None;
        for shape in shapes(quota)? {
            match shape.within(mask(bits), quota) {
                Ok(line) => return Ok(line),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.expect("every quota has a shape"))
    }

    /// Units released from time 0 to `now`. Saturates at the horizon.
    #[inline(always)]
    pub fn accrued(&self, now: u64) -> u64 {
        // The product fits up to the horizon, which was chosen for that.
        self.step_at(now.min(self.horizon)) * self.units_per_step
    }

    #[inline(always)]
    fn step_at(&self, now: u64) -> u64 {
        let Some(t) = now.checked_add(self.phase) else {
            // The last period that the clock can tell, which ends past its largest time.
            let t = u128::from(now) + u128::from(self.phase);
            return (t / u128::from(self.step)) as u64;
        };
        // Division by a constant is several times cheaper than by a variable.
        match self.step {
            1 => t,
            1_000 => t / 1_000,
            1_000_000 => t / 1_000_000,
            step => t / step,
        }
    }

    /// `cost` tokens in units, or `None` when that is above the capacity.
    #[inline(always)]
    pub fn units(&self, cost: u64) -> Option<u64> {
        cost.checked_mul(self.units_per_token).filter(|&units| units <= self.capacity_units)
    }

    /// Decides a draw of `cost` tokens at `now` on a bucket with `mark`. Pure: same input, same answer.
    ///
    /// A cost of 0 is a peek: admitted from any bucket, and the mark stays as it was.
    #[inline]
    pub fn decide(&self, mark: u64, now: u64, cost: u64) -> Decision {
        match self.units(cost) {
            Some(units) => self.decide_units(mark, now, units),
            None => Decision::Impossible,
        }
    }

    /// [`decide`](Self::decide) with the cost already in units, which must be at or below the capacity.
    #[inline(always)]
    pub(crate) fn decide_units(&self, mark: u64, now: u64, units: u64) -> Decision {
        if units == 0 {
            return Decision::Admit { mark };
        }
        if now > self.horizon {
            return Decision::PastHorizon;
        }
        let accrued = self.step_at(now) * self.units_per_step;
        let base = mark.max(accrued);
        // `accrued + capacity` fits by the horizon, so comparing differences cannot wrap.
        if base - accrued > self.capacity_units - units {
            return self.exhausted(mark, accrued, units);
        }
        Decision::Admit { mark: base + units }
    }

    /// Apart, so that what admits stays small.
    #[inline(never)]
    fn exhausted(&self, mark: u64, accrued: u64, units: u64) -> Decision {
        Decision::Exhausted {
            available: self.available_at(mark, accrued),
            retry_at: self.admissible_at(mark, units),
        }
    }

    /// Whole tokens that a bucket with `mark` holds at `now`, rounded down.
    pub fn available(&self, mark: u64, now: u64) -> u64 {
        self.available_at(mark, self.accrued(now))
    }

    fn available_at(&self, mark: u64, accrued: u64) -> u64 {
        self.capacity_units.saturating_sub(mark.saturating_sub(accrued)) / self.units_per_token
    }

    /// The first nanosecond at which a draw of `units` on a bucket with `mark` is admitted, if that is
    /// within the horizon.
    fn admissible_at(&self, mark: u64, units: u64) -> Option<u64> {
        // accrued(t) must reach mark + units - capacity.
        let needed = (u128::from(mark) + u128::from(units)).saturating_sub(u128::from(self.capacity_units));
        self.reached_at(u64::try_from(needed).ok()?)
    }

    /// The first nanosecond at which `accrued` is at or above `units`; `None` past the horizon.
    pub(crate) fn reached_at(&self, units: u64) -> Option<u64> {
        if units == 0 {
            return Some(0);
        }
        if self.units_per_step == 0 {
            return None;
        }
        let step = u128::from(units.div_ceil(self.units_per_step));
        let at = (step * u128::from(self.step)).saturating_sub(u128::from(self.phase));
        u64::try_from(at).ok().filter(|&at| at <= self.horizon)
    }

    /// The capacity in whole tokens.
    pub fn capacity(&self) -> u64 {
        self.capacity_units / self.units_per_token
    }

    /// Units that were surely released in the `span` nanoseconds that end at `now`, on a line that went on before the clock's
    /// start. Saturates.
    #[cfg(feature = "effects")]
    pub(crate) fn released_before(&self, now: u64, span: u64) -> u64 {
        let steps = if TICKS.contains(&self.step) {
            // Where the ticks of another clock lay is not known.
            i128::from(span / self.step)
        } else {
            // A window's grid goes on.
            let (step, end) = (i128::from(self.step), i128::from(now) + i128::from(self.phase));
            end.div_euclid(step) - (end - i128::from(span)).div_euclid(step)
        };
        u64::try_from(steps).unwrap_or(0).saturating_mul(self.units_per_step)
    }

    /// Does time ever release anything?
    pub(crate) fn refills(&self) -> bool {
        self.units_per_step > 0
    }

    /// Nanoseconds of one step of the line.
    #[cfg(feature = "effects")]
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Nanoseconds added to the time before it is cut into steps.
    #[cfg(feature = "effects")]
    pub(crate) fn phase(&self) -> u64 {
        self.phase
    }

    /// Units that each step releases.
    #[cfg(feature = "effects")]
    pub(crate) fn units_per_step(&self) -> u64 {
        self.units_per_step
    }

    /// The capacity in units of the line: how far past `accrued` a mark may lie.
    pub fn capacity_units(&self) -> u64 {
        self.capacity_units
    }

    /// Units that make one token.
    pub fn units_per_token(&self) -> u64 {
        self.units_per_token
    }

    /// Nanoseconds between two refills: the resolution in time.
    pub fn resolution(&self) -> u64 {
        self.step
    }

    /// The rate achieved, in tokens a second. For display only.
    pub fn tokens_per_second(&self) -> f64 {
        self.units_per_step as f64 / self.units_per_token as f64 * (NANOS_PER_SEC as f64 / self.step as f64)
    }

    /// Nanoseconds from empty to full; `None` for a limit that never refills.
    pub fn time_to_fill(&self) -> Option<u64> {
        match (self.capacity_units, self.units_per_step) {
            (0, _) => Some(0),
            (_, 0) => None,
            (capacity, units) => Some(capacity.div_ceil(units).saturating_mul(self.step)),
        }
    }

    /// The last nanosecond at which this limit can decide; later calls get [`Decision::PastHorizon`].
    pub fn horizon(&self) -> u64 {
        self.horizon
    }

    /// [`horizon`](Self::horizon) in years of 365.25 days. For display only.
    pub fn horizon_years(&self) -> f64 {
        self.horizon() as f64 / YEAR as f64
    }
}

/// A quota's integers before the mark's width is known.
struct Shape {
    step: u64,
    phase: u64,
    units_per_step: u128,
    units_per_token: u128,
    capacity: u64,
}

impl Shape {
    fn capacity_units(&self) -> u128 {
        u128::from(self.capacity).saturating_mul(self.units_per_token)
    }

    /// Units released in five years.
    fn released(&self) -> u128 {
        let steps = (u128::from(MIN_HORIZON) + u128::from(self.phase)) / u128::from(self.step);
        steps.saturating_mul(self.units_per_step)
    }

    /// Bits of a mark that lasts five years.
    fn bits(&self) -> u32 {
        128 - self.released().saturating_add(self.capacity_units()).leading_zeros()
    }

    fn within(&self, max_mark: u64, quota: &Quota) -> Result<Arithmetic, ConfigError> {
        let max = u128::from(max_mark);
        let capacity_units = self.capacity_units();
        if capacity_units > max {
            return Err(self.too_large(quota, max));
        }
        // The last step whose line and capacity fit the mark ends just before the next one begins.
        let horizon = match self.units_per_step {
            0 => u64::MAX,
            units => {
                let last_step = (max - capacity_units) / units;
                let end = (last_step + 1) * u128::from(self.step) - 1 - u128::from(self.phase);
                u64::try_from(end).unwrap_or(u64::MAX)
            }
        };
        let line = Arithmetic {
            step: self.step,
            phase: self.phase,
            // Above u64 the horizon is within the first step, which is refused below.
            units_per_step: u64::try_from(self.units_per_step).unwrap_or(u64::MAX),
            units_per_token: u64::try_from(self.units_per_token).unwrap_or(u64::MAX),
            capacity_units: capacity_units as u64,
            horizon,
        };
        if line.horizon() < MIN_HORIZON {
            let years = f64::from(u32::try_from(MIN_HORIZON / YEAR).unwrap_or(u32::MAX));
            return Err(ConfigError::new(
                "rate",
                format!("{} tokens a second", quota.asked_tokens_per_second()),
                format!(
                    "a rate whose counter lasts {years} years ({:.3} here): fewer tokens, or amounts in a coarser unit",
                    line.horizon_years()
                ),
            ));
        }
        Ok(line)
    }

    /// A capacity that does not fit the mark. Where the rate is the same number, changing it changes the rate
    /// too, so no bound can be told.
    fn too_large(&self, quota: &Quota, max: u128) -> ConfigError {
        let accepted = match quota.0 {
            Kind::Bucket { tokens, burst, .. } if tokens == burst => {
                "fewer tokens, or amounts in a coarser unit".to_owned()
            }
            _ => {
                let room = max.saturating_sub(self.released());
                format!("0 to {} tokens at this rate", room / self.units_per_token.max(1))
            }
        };
        ConfigError::new("capacity", quota.capacity(), accepted)
    }
}

/// The shapes to try, finest first.
fn shapes(quota: &Quota) -> Result<Vec<Shape>, ConfigError> {
    Ok(match quota.0 {
        Kind::Bucket { tokens, period, burst } => {
            check_period(period)?;
            TICKS
                .iter()
                .map(|&tick| {
                    // tokens per tick, as a reduced fraction.
                    let (up, down) = (u128::from(tokens) * u128::from(tick), u128::from(period));
                    let divisor = gcd(up, down);
                    Shape {
                        step: tick,
                        phase: 0,
                        units_per_step: up / divisor,
                        units_per_token: down / divisor,
                        capacity: burst,
                    }
                })
                .collect()
        }
        Kind::Window { limit, period, anchor } => {
            check_period(period)?;
            vec![Shape {
                step: period,
                phase: (period - anchor) % period,
                units_per_step: u128::from(limit),
                units_per_token: 1,
                capacity: limit,
            }]
        }
        Kind::MilliToken { capacity, milli_per_ms, .. } => {
            // Thousandths per millisecond, reduced: the same instants, and a longer horizon.
            let (up, down) = (u128::from(milli_per_ms), 1_000);
            let divisor = gcd(up, down);
            vec![Shape {
                step: 1_000_000,
                phase: 0,
                units_per_step: up / divisor,
                units_per_token: down / divisor,
                capacity,
            }]
        }
    })
}

/// Two quotas that share one word: splits `bits` between their marks. Returns the arithmetic of lane 0 and
/// lane 1 and the width of lane 0.
///
/// Takes the finest pair of ticks under which both marks last five years, then shares what is left evenly.
pub(crate) fn pair_arithmetic(
    lane0: &Quota,
    lane1: &Quota,
    bits: u32,
) -> Result<([Arithmetic; 2], u32), ConfigError> {
    let (first, second) = (shapes(lane0)?, shapes(lane1)?);
    let mut choices: Vec<(usize, usize)> =
        (0..first.len()).flat_map(|i| (0..second.len()).map(move |j| (i, j))).collect();
    // The coarser of the two ticks as fine as it can be, then the other.
    choices.sort_by_key(|&(i, j)| (i.max(j), i.min(j), i));
    for (i, j) in choices {
        let (a, b) = (&first[i], &second[j]);
        let (need0, need1) = (a.bits(), b.bits());
        if need0 + need1 > bits {
            continue;
        }
        let spare = bits - need0 - need1;
        let width0 = (need0 + spare / 2).min(64).max(bits.saturating_sub(64));
        let width1 = (bits - width0).min(64);
        // One that needs more than 64 bits does not fit them.
        if let (Ok(a), Ok(b)) = (a.within(mask(width0), lane0), b.within(mask(width1), lane1)) {
            return Ok(([a, b], width0));
        }
    }
    // Not together: say which one is too big alone, or that the two are.
    lane0.arithmetic(64)?;
    lane1.arithmetic(64)?;
    Err(ConfigError::new(
        "rate",
        format!(
            "{} and {} tokens a second",
            lane0.asked_tokens_per_second(),
            lane1.asked_tokens_per_second()
        ),
        format!("two rates whose counters last 5 years in {bits} bits together: use a coarser unit for one"),
    ))
}

/// The widths of a refundable word's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RefundableWidths {
    pub(crate) mark: u32,
    pub(crate) refunded: u32,
}

/// A quota whose draws can be refunded: splits `bits` between its mark, the count of refunded units and whatever else
/// the word holds. Takes the finest tick under which the mark lasts five years and the count 65,536 refunds of the
/// whole capacity (256, where no tick has room for that), then shares what is left evenly among the three.
pub(crate) fn refundable_arithmetic(
    quota: &Quota,
    bits: u32,
) -> Result<(Arithmetic, RefundableWidths), ConfigError> {
    const MODEL: bool = crate::sync::MODEL;
    const LEAST: u32 = if MODEL { 8 } else { 32 };
    const REFUNDS: [u32; 2] = if MODEL { [4, 4] } else { [16, 8] };
    let shapes = shapes(quota)?;
    for (refunds, shape) in
        REFUNDS.iter().flat_map(|refunds| shapes.iter().map(move |shape| (refunds, shape)))
    {
        let capacity_bits = 128 - shape.capacity_units().leading_zeros();
        let (mark, refunded) = (shape.bits(), LEAST.max(capacity_bits + refunds));
        if mark + refunded > bits || mark.max(refunded) > 64 {
            continue;
        }
        let share = (bits - mark - refunded) / 3;
        let widths = RefundableWidths { mark: (mark + share).min(64), refunded: (refunded + share).min(64) };
        return Ok((shape.within(mask(widths.mark), quota)?, widths));
    }
    // Too big in any case, or only if its draws can be refunded.
    quota.arithmetic(64)?;
    Err(ConfigError::new(
        "capacity",
        quota.capacity(),
        format!(
            "a quota whose counter of five years and 256 refunds of the whole capacity fit {bits} bits: fewer tokens, or amounts in a coarser unit"
        ),
    ))
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

fn check_period(period: u64) -> Result<(), ConfigError> {
    const ACCEPTED: &str = "1 ns to about 584 years";
    match period {
        0 => Err(ConfigError::new("period", "0ns", ACCEPTED)),
        // Where a longer `Duration` saturates: taken for a period, it would refill faster than asked.
        u64::MAX => Err(ConfigError::new("period", format!("{period}ns or more"), ACCEPTED)),
        _ => Ok(()),
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}
