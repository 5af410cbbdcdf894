//! `tollgate::quota` against an exact oracle, over the whole range of every number that goes in.

#[path = "support/oracle.rs"]
mod oracle;

use num_bigint::BigInt;
use oracle::{Answer, Line};
use proptest::prelude::*;
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::quota::{Arithmetic, Decision, Quota};

/// A quota as a test states it, so that the library and the oracle each build their own.
#[derive(Debug, Clone, Copy)]
enum Stated {
    Bucket { tokens: u64, period: u64, burst: u64 },
    Window { limit: u64, period: u64, anchor: u64 },
    Milli { per_window: u64, window_secs: u64, burst_factor: f64 },
    Exact { per_window: u64, window_secs: u64, burst_factor: f64 },
}

impl Stated {
    fn arithmetic(self, bits: u32) -> Result<Arithmetic, ConfigError> {
        match self {
            Stated::Bucket { tokens, period, burst } => {
                Quota::tokens_per(tokens, Duration::from_nanos(period)).burst(burst)
            }
            Stated::Window { limit, period, anchor } => {
                Quota::window(limit, Duration::from_nanos(period)).anchored_at(Duration::from_nanos(anchor))
            }
            Stated::Milli { per_window, window_secs, burst_factor } => {
                Quota::milli_token(per_window, window_secs, burst_factor)?
            }
            Stated::Exact { per_window, window_secs, burst_factor } => {
                Quota::exact_burst(per_window, window_secs, burst_factor)?
            }
        }
        .arithmetic(bits)
    }

    fn line(self, bits: u32) -> Option<Line> {
        match self {
            Stated::Bucket { tokens, period, burst } => Line::bucket(tokens, period, burst, bits),
            Stated::Window { limit, period, anchor } => Line::window(limit, period, anchor.into(), bits),
            Stated::Milli { per_window, window_secs, burst_factor } => {
                Line::milli_token(per_window, window_secs, burst_factor, bits)
            }
            Stated::Exact { per_window, window_secs, burst_factor } => {
                Line::exact_burst(per_window, window_secs, burst_factor, bits)
            }
        }
    }

    /// Both readings, or a check that both refuse and the error says which number is wrong.
    fn both(self, bits: u32) -> Option<(Arithmetic, Line)> {
        match (self.arithmetic(bits), self.line(bits)) {
            (Ok(arithmetic), Some(line)) => Some((arithmetic, line)),
            (Err(error), None) => {
                self.assert_named(&error);
                None
            }
            (ours, exact) => {
                panic!("{self:?} in {bits} bits: the library says {ours:?}, the oracle {exact:?}")
            }
        }
    }

    /// The error's field is one that this statement has, and its texts carry the value and the range.
    fn assert_named(self, error: &ConfigError) {
        let fields: &[&str] = match self {
            Stated::Bucket { period: 0 | u64::MAX, .. } | Stated::Window { period: 0 | u64::MAX, .. } => {
                &["period"]
            }
            Stated::Milli { burst_factor, .. } | Stated::Exact { burst_factor, .. }
                if !burst_factor.is_finite() || burst_factor <= 0.0 =>
            {
                &["burst_factor"]
            }
            Stated::Milli { window_secs, .. } | Stated::Exact { window_secs, .. }
                if window_secs == 0 || window_secs > 18_446_744_073 =>
            {
                &["window_secs", "burst_factor", "per_window"]
            }
            Stated::Milli { .. } | Stated::Exact { .. } => {
                &["rate", "capacity", "burst_factor", "per_window"]
            }
            Stated::Bucket { .. } | Stated::Window { .. } => &["rate", "capacity"],
        };
        assert!(fields.contains(&error.field), "{self:?}: {error}");
        assert!(!error.value.is_empty() && !error.accepted.is_empty(), "{self:?}: {error}");
    }
}

// ---- strategies ----

/// Any number, with more weight on small ones, powers of two, round numbers and both ends.
fn wide() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0..20u64,
        (0..64u32, -2..=2i64).prop_map(|(bit, off)| (1u64 << bit).wrapping_add_signed(off)),
        (0..20u32, 0..10u64).prop_map(|(exp, lead)| 10u64.pow(exp).saturating_mul(lead)),
        (0..64u32, any::<u64>()).prop_map(|(shift, n)| n >> shift),
        (0..20u64).prop_map(|off| u64::MAX - off),
    ]
}

/// Limits as people set them, which nearly all can be built.
fn usual() -> impl Strategy<Value = Stated> {
    let period = prop_oneof![
        Just(1_000_000_000u64),
        Just(60_000_000_000),
        Just(3_600_000_000_000),
        (1..100_000u64).prop_map(|ms| ms * 1_000_000),
        1..100_000_000_000u64,
        Just(7_777_777_777u64),
    ];
    let few = || prop_oneof![0..5u64, 0..2_000u64, 0..10_000_000u64];
    let factor = prop_oneof![Just(1.0), Just(1.5), 0.001..10.0f64];
    prop_oneof![
        3 => (few(), period.clone(), few())
            .prop_map(|(tokens, period, burst)| Stated::Bucket { tokens, period, burst }),
        2 => (few(), period, wide()).prop_map(|(limit, period, anchor)| Stated::Window { limit, period, anchor }),
        1 => (few(), 1..100_000u64, factor.clone())
            .prop_map(|(per_window, window_secs, burst_factor)| Stated::Milli { per_window, window_secs, burst_factor }),
        1 => (few(), 1..100_000u64, factor)
            .prop_map(|(per_window, window_secs, burst_factor)| Stated::Exact { per_window, window_secs, burst_factor }),
    ]
}

/// Any limit that can be written down.
fn any_stated() -> impl Strategy<Value = Stated> {
    let factor = || {
        prop_oneof![
            3 => Just(1.0),
            3 => 0.001..100.0f64,
            2 => any::<f64>(),
            1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0, -1.0, f64::MIN_POSITIVE, f64::MAX]),
        ]
    };
    prop_oneof![
        3 => (wide(), wide(), wide()).prop_map(|(tokens, period, burst)| Stated::Bucket { tokens, period, burst }),
        2 => (wide(), wide(), wide()).prop_map(|(limit, period, anchor)| Stated::Window { limit, period, anchor }),
        2 => (wide(), wide(), factor())
            .prop_map(|(per_window, window_secs, burst_factor)| Stated::Milli { per_window, window_secs, burst_factor }),
        2 => (wide(), wide(), factor())
            .prop_map(|(per_window, window_secs, burst_factor)| Stated::Exact { per_window, window_secs, burst_factor }),
        4 => usual(),
    ]
}

fn any_bits() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(64u32), 2 => 40..64u32, 1 => 1..=64u32]
}

/// A time: anywhere, or within a few steps of where the limit changes its mind.
#[derive(Debug, Clone, Copy)]
enum When {
    At(u64),
    NearHorizon(i64),
    Step(u64, i64),
}

fn when() -> impl Strategy<Value = When> {
    prop_oneof![
        2 => wide().prop_map(When::At),
        1 => (-3..=3i64).prop_map(When::NearHorizon),
        2 => (0..10_000u64, -2..=2i64).prop_map(|(n, off)| When::Step(n, off)),
    ]
}

impl When {
    fn of(self, arithmetic: &Arithmetic) -> u64 {
        match self {
            When::At(t) => t,
            When::NearHorizon(off) => arithmetic.horizon().saturating_add_signed(off),
            When::Step(n, off) => arithmetic.resolution().saturating_mul(n).saturating_add_signed(off),
        }
    }
}

/// A mark: anywhere, or relative to what is released at the time of the draw.
#[derive(Debug, Clone, Copy)]
enum Spoken {
    Mark(u64),
    /// `part / 1000` of the capacity past the line, and a few units more or less.
    Past(u64, i64),
    Before(u64),
}

fn spoken() -> impl Strategy<Value = Spoken> {
    prop_oneof![
        1 => wide().prop_map(Spoken::Mark),
        4 => (0..=1_000u64, -3..=3i64).prop_map(|(part, off)| Spoken::Past(part, off)),
        1 => (0..10u64).prop_map(Spoken::Before),
    ]
}

impl Spoken {
    fn of(self, arithmetic: &Arithmetic, now: u64) -> u64 {
        let accrued = arithmetic.accrued(now);
        match self {
            Spoken::Mark(mark) => mark,
            Spoken::Past(part, off) => {
                let past = u128::from(arithmetic.capacity_units()) * u128::from(part) / 1_000;
                accrued.saturating_add(past as u64).saturating_add_signed(off)
            }
            Spoken::Before(off) => accrued.saturating_sub(off),
        }
    }
}

/// A cost: anywhere, or a part of the capacity, or the capacity and a little.
#[derive(Debug, Clone, Copy)]
enum Cost {
    Any(u64),
    Part(u64),
    Around(i64),
}

fn cost() -> impl Strategy<Value = Cost> {
    prop_oneof![
        1 => wide().prop_map(Cost::Any),
        3 => (0..=1_000u64).prop_map(Cost::Part),
        1 => (-2..=2i64).prop_map(Cost::Around),
        1 => (0..4u64).prop_map(Cost::Any),
    ]
}

impl Cost {
    fn of(self, arithmetic: &Arithmetic) -> u64 {
        let capacity = arithmetic.capacity();
        match self {
            Cost::Any(cost) => cost,
            Cost::Part(part) => (u128::from(capacity) * u128::from(part) / 1_000) as u64,
            Cost::Around(off) => capacity.saturating_add_signed(off),
        }
    }
}

// ---- comparison ----

/// The library's answer in the oracle's terms.
fn in_tokens(line: &Line, decision: Decision) -> Answer {
    match decision {
        Decision::Admit { mark } => Answer::Admit(line.tokens_of(mark)),
        Decision::Exhausted { available, retry_at } => Answer::Exhausted { available, retry_at },
        Decision::Impossible => Answer::Impossible,
        Decision::PastHorizon => Answer::PastHorizon,
    }
}

fn assert_same_decision(arithmetic: &Arithmetic, line: &Line, mark: u64, now: u64, cost: u64) -> Decision {
    let ours = arithmetic.decide(mark, now, cost);
    let exact = line.decide(&line.tokens_of(mark), now, cost);
    assert_eq!(in_tokens(line, ours), exact, "mark {mark}, time {now}, cost {cost}: {arithmetic:?}");
    ours
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_quota_is_built_exactly_when_a_mark_lasts_five_years(stated in any_stated(), bits in any_bits()) {
        if let Some((arithmetic, line)) = stated.both(bits) {
            prop_assert_eq!(arithmetic.resolution(), line.grid, "the finest grid that lasts");
            prop_assert_eq!(BigInt::from(arithmetic.units_per_token()), line.units_per_token.clone(), "reduced units");
            prop_assert_eq!(arithmetic.capacity(), line.capacity);
            prop_assert_eq!(
                BigInt::from(arithmetic.capacity_units()),
                BigInt::from(line.capacity) * &line.units_per_token
            );
        }
    }

    #[test]
    fn the_horizon_is_the_last_instant_that_a_mark_can_hold(stated in any_stated(), bits in any_bits()) {
        if let Some((arithmetic, line)) = stated.both(bits) {
            let horizon = arithmetic.horizon();
            prop_assert!(BigInt::from(horizon) >= oracle::five_years());
            prop_assert!(line.decides_at(horizon));
            prop_assert!(horizon == u64::MAX || !line.decides_at(horizon + 1), "{} is not the last", horizon);
        }
    }

    #[test]
    fn accrued_is_what_the_definition_releases(stated in any_stated(), bits in any_bits(), when in when()) {
        if let Some((arithmetic, line)) = stated.both(bits) {
            let now = when.of(&arithmetic).min(arithmetic.horizon());
            prop_assert_eq!(BigInt::from(arithmetic.accrued(now)), line.units_of(&line.released(now)));
        }
    }

    #[test]
    fn every_decision_is_the_oracles(
        stated in any_stated(), bits in any_bits(), when in when(), spoken in spoken(), cost in cost(),
    ) {
        if let Some((arithmetic, line)) = stated.both(bits) {
            let now = when.of(&arithmetic);
            assert_same_decision(&arithmetic, &line, spoken.of(&arithmetic, now), now, cost.of(&arithmetic));
        }
    }

    #[test]
    fn every_decision_on_a_usual_limit_is_the_oracles(
        stated in usual(), when in when(), spoken in spoken(), cost in cost(),
    ) {
        if let Some((arithmetic, line)) = stated.both(64) {
            let now = when.of(&arithmetic);
            let mark = spoken.of(&arithmetic, now);
            assert_same_decision(&arithmetic, &line, mark, now, cost.of(&arithmetic));
            if now <= arithmetic.horizon() {
                prop_assert_eq!(arithmetic.available(mark, now), line.available(&line.tokens_of(mark), now));
            }
        }
    }

    #[test]
    fn a_retry_at_the_hint_is_admitted_and_one_nanosecond_earlier_is_not(
        stated in usual(), when in when(), part in 0..=1_000u64, off in -3..=3i64, cost in cost(),
    ) {
        if let Some((arithmetic, line)) = stated.both(64) {
            let now = when.of(&arithmetic);
            let mark = Spoken::Past(part, off).of(&arithmetic, now);
            let cost = cost.of(&arithmetic);
            if let Decision::Exhausted { retry_at, .. } = arithmetic.decide(mark, now, cost) {
                match retry_at {
                    Some(retry_at) => {
                        prop_assert!(retry_at > now);
                        let on_time = assert_same_decision(&arithmetic, &line, mark, retry_at, cost);
                        prop_assert!(matches!(on_time, Decision::Admit { .. }), "{:?}", on_time);
                        let early = assert_same_decision(&arithmetic, &line, mark, retry_at - 1, cost);
                        prop_assert_eq!(early, Decision::Exhausted {
                            available: arithmetic.available(mark, retry_at - 1),
                            retry_at: Some(retry_at),
                        });
                    }
                    None => {
                        let last = arithmetic.decide(mark, arithmetic.horizon(), cost);
                        prop_assert!(matches!(last, Decision::Exhausted { retry_at: None, .. }), "{:?}", last);
                    }
                }
            }
        }
    }

    #[test]
    fn a_cost_of_0_is_admitted_and_leaves_every_mark_as_it_was(
        stated in any_stated(), bits in any_bits(), mark in wide(), now in wide(),
    ) {
        if let Some((arithmetic, _)) = stated.both(bits) {
            prop_assert_eq!(arithmetic.decide(mark, now, 0), Decision::Admit { mark });
        }
    }

    #[test]
    fn an_admission_owns_its_cost_above_both_the_mark_and_the_line(
        stated in any_stated(), bits in any_bits(), when in when(), spoken in spoken(), cost in cost(),
    ) {
        if let Some((arithmetic, _)) = stated.both(bits) {
            let (now, cost) = (when.of(&arithmetic), cost.of(&arithmetic));
            let mark = spoken.of(&arithmetic, now);
            if let (Decision::Admit { mark: end }, true) = (arithmetic.decide(mark, now, cost), cost > 0) {
                let units = arithmetic.units(cost).expect("an admitted cost is within the capacity");
                let accrued = arithmetic.accrued(now);
                prop_assert_eq!(end - units, mark.max(accrued));
                prop_assert!(end - accrued <= arithmetic.capacity_units());
            }
        }
    }

    #[test]
    fn what_is_admitted_stays_admitted_later_cheaper_and_from_a_fuller_bucket(
        stated in usual(), when in when(), spoken in spoken(), cost in cost(),
        later in wide(), cheaper in 0..=1_000u64, fuller in wide(),
    ) {
        if let Some((arithmetic, _)) = stated.both(64) {
            let (now, cost) = (when.of(&arithmetic), cost.of(&arithmetic));
            let mark = spoken.of(&arithmetic, now);
            if matches!(arithmetic.decide(mark, now, cost), Decision::Admit { .. }) {
                let later = now.saturating_add(later).min(arithmetic.horizon()).max(now);
                let cheaper = (u128::from(cost) * u128::from(cheaper) / 1_000) as u64;
                let fuller = mark.saturating_sub(fuller);
                for (mark, now, cost) in [(mark, later, cost), (mark, now, cheaper), (fuller, now, cost)] {
                    let answer = arithmetic.decide(mark, now, cost);
                    let admitted = matches!(answer, Decision::Admit { .. });
                    prop_assert!(admitted, "mark {}, time {}, cost {}: {:?}", mark, now, cost, answer);
                    prop_assert_eq!(answer, arithmetic.decide(mark, now, cost), "the same question again");
                }
            }
        }
    }

    #[test]
    fn no_input_panics(
        stated in any_stated(), bits in any::<u32>(), mark in any::<u64>(), now in any::<u64>(), cost in any::<u64>(),
    ) {
        for bits in [bits, bits % 80] {
            if let Ok(arithmetic) = stated.arithmetic(bits) {
                let _ = (arithmetic.decide(mark, now, cost), arithmetic.available(mark, now), arithmetic.accrued(now));
                let _ = (arithmetic.time_to_fill(), arithmetic.tokens_per_second(), arithmetic.horizon_years());
                let _ = (arithmetic.units(cost), arithmetic.capacity(), arithmetic.horizon());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_of_draws_leaves_the_bucket_where_the_oracle_has_it(
        stated in usual(),
        calls in prop::collection::vec((0..5_000_000_000u64, 0..1_200u64), 1..60),
    ) {
        if let Some((arithmetic, line)) = stated.both(64) {
            let (mut now, mut mark) = (0u64, 0u64);
            for (step, part) in calls {
                now += step;
                let cost = (u128::from(arithmetic.capacity()) * u128::from(part) / 3_000) as u64;
                if let Decision::Admit { mark: end } = assert_same_decision(&arithmetic, &line, mark, now, cost) {
                    mark = end;
                }
            }
        }
    }

    #[test]
    fn no_span_admits_more_than_the_capacity_and_what_it_released(
        stated in usual(), calls in prop::collection::vec((0..2_000_000_000u64, 1..400u64), 1..80),
    ) {
        if let Some((arithmetic, line)) = stated.both(64) {
            let (mut now, mut mark) = (0u64, 0u64);
            let mut admitted: Vec<(u64, u64)> = Vec::new();
            for (step, part) in calls {
                now += step;
                let cost = 1 + (u128::from(arithmetic.capacity()) * u128::from(part) / 1_000) as u64;
                if let Decision::Admit { mark: end } = arithmetic.decide(mark, now, cost) {
                    mark = end;
                    admitted.push((now, cost));
                }
            }
            for (first, &(from, _)) in admitted.iter().enumerate() {
                let mut sum = 0u64;
                for &(to, cost) in &admitted[first..] {
                    sum += cost;
                    let released = line.units_of(&(line.released(to) - line.released(from)));
                    let allowed = released + BigInt::from(arithmetic.capacity_units());
                    prop_assert!(BigInt::from(sum) * &line.units_per_token <= allowed, "{} by {} from {}", sum, to, from);
                }
            }
        }
    }
}
