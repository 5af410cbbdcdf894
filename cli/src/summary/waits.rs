//! How long refused callers would have had to wait: percentiles in bounded memory.

use hdrhistogram::Histogram;

/// Percentiles of waits, each within a thousandth of its value; the maximum is exact.
pub struct Waits {
    histogram: Histogram<u64>,
    least: u64,
    most: u64,
}

/// What [`Waits::percentiles`] found, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentiles {
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub max: u64,
}

impl Waits {
    pub fn new() -> Self {
        // These bounds and 3 digits are constants that the histogram accepts.
        let histogram = Histogram::new_with_bounds(1, u64::MAX, 3).expect("valid bounds");
        Self { histogram, least: u64::MAX, most: 0 }
    }

    #[inline]
    pub fn record(&mut self, nanos: u64) {
        self.histogram.saturating_record(nanos);
        self.least = self.least.min(nanos);
        self.most = self.most.max(nanos);
    }

    /// `None` when nobody waited.
    pub fn percentiles(&self) -> Option<Percentiles> {
        if self.histogram.is_empty() {
            return None;
        }
        // The histogram answers with the top of a value's class, which may lie outside what was recorded.
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(self.least, self.most);
        Some(Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: self.most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nobody_waited_at_first() {
        assert_eq!(Waits::new().percentiles(), None);
    }

    #[test]
    fn one_wait_is_every_percentile_exactly() {
        let mut waits = Waits::new();
        for _ in 0..10 {
            waits.record(600_000_001);
        }
        let one = 600_000_001;
        assert_eq!(waits.percentiles(), Some(Percentiles { p50: one, p90: one, p99: one, max: one }));
    }

    proptest! {
        #[test]
        fn percentiles_are_within_a_thousandth(mut nanos in proptest::collection::vec(1u64..u64::MAX / 2, 1..200)) {
            let mut waits = Waits::new();
            nanos.iter().for_each(|&wait| waits.record(wait));
            nanos.sort_unstable();
            let found = waits.percentiles().unwrap();
            prop_assert_eq!(found.max, nanos[nanos.len() - 1]);
            for (value, percent) in [(found.p50, 50), (found.p90, 90), (found.p99, 99)] {
                let rank = (nanos.len() * percent).div_ceil(100).max(1);
                let exact = nanos[rank - 1];
                prop_assert!(value.abs_diff(exact) <= exact / 1_000 + 1, "{} for {}", value, exact);
            }
        }
    }
}
