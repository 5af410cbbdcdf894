//! A quota's line, computed here and not by the engine: in integers that cannot overflow unseen.

/// How a quota releases units over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Nanoseconds of a step, at least 1.
    pub step: u64,
    /// Nanoseconds added to the time before it is cut into steps, below a step.
    pub phase: u64,
    pub units_per_step: u64,
    pub units_per_token: u64,
    /// In units.
    pub capacity: u64,
}

impl Release {
    /// Units released up to `t`.
    pub fn accrued(&self, t: u64) -> u128 {
        // Below 2^128: the phase is below the step, so there are at most 2^64 - 1 steps.
        (u128::from(t) + u128::from(self.phase)) / u128::from(self.step) * u128::from(self.units_per_step)
    }

    /// `cost` tokens in units; `None` if that is above the capacity.
    pub fn units(&self, cost: u64) -> Option<u64> {
        let units = u128::from(cost) * u128::from(self.units_per_token);
        u64::try_from(units).ok().filter(|&units| units <= self.capacity)
    }

    /// Do `units` fit at `t` behind `mark`?
    pub fn fits(&self, mark: u64, units: u64, t: u64) -> bool {
        let accrued = self.accrued(t);
        u128::from(mark).max(accrued) + u128::from(units) <= accrued + u128::from(self.capacity)
    }

    /// The first instant at which `units` fit behind `mark`; `None` if that is beyond 64 bits.
    pub fn first_fit(&self, mark: u64, units: u64) -> Option<u64> {
        let needed = (u128::from(mark) + u128::from(units)).saturating_sub(u128::from(self.capacity));
        if needed == 0 {
            return Some(0);
        }
        if self.units_per_step == 0 {
            return None;
        }
        let steps = needed.div_ceil(u128::from(self.units_per_step));
        let t = steps.checked_mul(u128::from(self.step))?.saturating_sub(u128::from(self.phase));
        u64::try_from(t).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_fit_fits_and_a_nanosecond_earlier_does_not(
            step in prop::sample::select(vec![1u64, 1_000, 1_000_000, 86_400_000_000_000]),
            phase in 0u64..86_400_000_000_000, units_per_step in 1u64..1_000_000, capacity in 1u64..u64::MAX,
            mark: u64, part in 1u64..1_000
        ) {
            let phase = phase % step;
            let line = Release { step, phase, units_per_step, units_per_token: 1, capacity };
            let units = (capacity / 1_000 * part).max(1);
            if let Some(t) = line.first_fit(mark, units) {
                prop_assert!(line.fits(mark, units, t));
                prop_assert!(t == 0 || !line.fits(mark, units, t - 1));
            }
        }
    }
}
