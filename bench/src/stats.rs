//! Medians and spreads.

use serde::Serialize;

/// Where the values of several rounds lie.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The least.
    pub min: f64,
    /// A quarter lies below.
    pub q1: f64,
    /// Half lies below.
    pub median: f64,
    /// Three quarters lie below.
    pub q3: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of at least one value; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        // Between two values, as far from the lower one as the quantile's place is.
        let at = |quantile: f64| {
            let place = quantile * last as f64;
            let (below, part) = (place.floor() as usize, place.fract());
            let above = (below + 1).min(last);
            values[below] + (values[above] - values[below]) * part
        };
        Some(Self { min: values[0], q1: at(0.25), median: at(0.5), q3: at(0.75), max: values[last] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_number_of_values_has_its_median_in_the_middle() {
        let spread = Spread::of([9.0, 1.0, 5.0, 7.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { min: 1.0, q1: 3.0, median: 5.0, q3: 7.0, max: 9.0 });
    }

    #[test]
    fn an_even_number_of_values_has_its_median_between_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { min: 1.0, q1: 1.75, median: 2.5, q3: 3.25, max: 4.0 });
    }

    #[test]
    fn one_value_is_its_own_spread_and_none_has_none() {
        let spread = Spread::of([2.5]).unwrap();
        assert_eq!(spread, Spread { min: 2.5, q1: 2.5, median: 2.5, q3: 2.5, max: 2.5 });
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn one_slow_round_does_not_move_the_median() {
        let quiet = Spread::of([10.0, 11.0, 12.0]).unwrap();
        let busy = Spread::of([10.0, 11.0, 12_000.0]).unwrap();
        assert_eq!(quiet.median, busy.median);
    }
}
