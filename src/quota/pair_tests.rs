//! Two marks in one word: whatever the two quotas, both fit, both last, and neither changes what it decides.

use super::{Quota, pair_arithmetic};
use proptest::prelude::*;
use std::time::Duration;

const FIVE_YEARS: u64 = 5 * 31_557_600 * super::NANOS_PER_SEC;

fn quota() -> impl Strategy<Value = Quota> {
    let period = prop_oneof![Just(60_000u64), 1..100_000u64, Just(3_600_000)];
    prop_oneof![
        (0..5_000_000u64, period.clone(), 0..5_000_000u64).prop_map(|(tokens, ms, burst)| Quota::tokens_per(
            tokens,
            Duration::from_millis(ms)
        )
        .burst(burst)),
        (0..5_000_000u64, period, any::<u64>()).prop_map(|(limit, ms, anchor)| {
            Quota::window(limit, Duration::from_millis(ms)).anchored_at(Duration::from_nanos(anchor))
        }),
        (0..u64::from(u32::MAX), 1..10_000u64)
            .prop_map(|(n, secs)| Quota::milli_token(n, secs, 1.0).unwrap()),
        any::<u64>().prop_map(Quota::per_second),
    ]
}

/// What a quota needs at least, on the grid that needs least.
fn least(quota: &Quota) -> Option<u32> {
    (1..=64).find(|&bits| quota.arithmetic(bits).is_ok())
}

#[test]
fn a_window_that_began_before_the_clock_has_room_for_the_release_that_comes_early() {
    let years = |halves: u64| Duration::from_nanos(FIVE_YEARS / 10 * halves);
    let other = Quota::per_second(1_000);
    for anchor in 0..8 {
        let window = Quota::window(1 << 40, years(8)).anchored_at(years(anchor));
        let bits = least(&window).unwrap() + least(&other).unwrap();
        assert!(pair_arithmetic(&window, &other, bits).is_ok(), "{anchor}");
        assert!(pair_arithmetic(&window, &other, bits - 1).is_err(), "{anchor}");
    }
}

#[test]
fn bits_that_neither_mark_needs_are_shared_evenly() {
    for quota in [
        Quota::milli_token(60, 60, 1.0).unwrap(),
        Quota::window(7, Duration::from_secs(60)),
        Quota::per_day(0),
    ] {
        for bits in [108, 110] {
            assert_eq!(pair_arithmetic(&quota, &quota, bits).unwrap().1, bits / 2, "{quota:?} in {bits}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_marks_fit_their_lanes_and_last_five_years(first in quota(), second in quota(), bits in 90..=112u32) {
        match pair_arithmetic(&first, &second, bits) {
            Ok(([a, b], width0)) => {
                let width1 = bits - width0;
                prop_assert!(width0 <= 64 && width1 <= 64, "{} and {} bits", width0, width1);
                for (line, width) in [(a, width0), (b, width1)] {
                    let last = line.accrued(line.horizon()) + line.capacity_units();
                    prop_assert!(line.horizon() >= FIVE_YEARS);
                    prop_assert!(width == 64 || last >> width == 0, "{} in {} bits: {:?}", last, width, line);
                }
            }
            Err(error) => prop_assert!(["rate", "capacity"].contains(&error.field), "{}", error),
        }
    }

    /// Ticks may be coarser than alone, so that a release is late by less than a tick, but never early or lost.
    #[test]
    fn a_lane_releases_what_the_quota_releases_alone(first in quota(), second in quota(), ms in 0..100_000_000u64) {
        if let Ok((lanes, _)) = pair_arithmetic(&first, &second, 108) {
            for (lane, quota) in lanes.iter().zip([first, second]) {
                let alone = quota.arithmetic(64).unwrap();
                let now = ms * 1_000_000;
                let tokens = |line: &super::Arithmetic| {
                    u128::from(line.accrued(now)) * u128::from(lane.units_per_token()) * u128::from(alone.units_per_token())
                        / u128::from(line.units_per_token())
                };
                prop_assert_eq!(tokens(lane), tokens(&alone), "{:?}", quota);
            }
        }
    }

    #[test]
    fn a_pair_is_refused_only_where_the_coarsest_grids_do_not_fit(first in quota(), second in quota()) {
        let bits = 108;
        if let (Some(a), Some(b)) = (least(&first), least(&second)) {
            prop_assert_eq!(pair_arithmetic(&first, &second, bits).is_ok(), a + b <= bits);
        }
    }
}
