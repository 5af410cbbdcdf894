//! Rate limits that went wrong elsewhere, as reported in public: each report by its numbers, and by its kind.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/table_model.rs"]
mod table_model;

use cases::{Answer, Case};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use table_model::{Draw, Layout, TableModel};
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{LimitSet, Limiter, Plan, Reason, Refusal};

const SECOND: u64 = 1_000_000_000;

fn answer(result: Result<(), Refusal>) -> Answer {
    match result {
        Ok(()) => Answer::A,
        Err(refusal) if refusal.reason == Reason::Impossible => Answer::N,
        Err(refusal) => {
            assert_eq!(refusal.reason, Reason::Exhausted);
            Answer::D
        }
    }
}

fn limiter(quota: Quota, clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(quota).bucket_cap(4).clock(clock.clone()).build().expect("a quota that fits")
}

fn limit_set(quotas: &[Quota], clock: &ManualClock) -> LimitSet {
    let named = quotas.iter().enumerate();
    named
        .fold(LimitSet::builder(), |builder, (n, &quota)| builder.limit(format!("limit {n}"), quota))
        .bucket_cap(4)
        .clock(clock.clone())
        .build()
        .expect("quotas that fit")
}

/// Draws `cost` on every limit of the set, all or nothing.
fn draw_all(set: &LimitSet, limits: usize, cost: u64) -> Result<(), Refusal> {
    let mut plan = Plan::new();
    for limit in 0..limits {
        set.plan(limit, "k", cost, &mut plan);
    }
    plan.commit().map(|_| ()).map_err(|refused| refused.refusal)
}

/// The case through a limit set, through a limiter where it has one limit, and through the oracle; all must give
/// the case's answers, and the two engines the oracle's waits.
fn run(case: &Case) {
    let quotas: Vec<Quota> = case.limits.iter().map(|limit| limit.quota()).collect();
    let lines = case.limits.iter().map(|limit| limit.line().expect("a line that fits")).collect();
    let mut model = TableModel::new(lines, Layout::Apart, 4);
    let clock = ManualClock::new();
    let set = limit_set(&quotas, &clock);
    let alone = (quotas.len() == 1).then(|| limiter(quotas[0], &clock));
    for ((at, cost), right) in case.each_call().into_iter().zip(case.each_answer()) {
        clock.set(at);
        let draws: Vec<_> = (0..quotas.len()).map(|limit| Draw { limit, key: "k", cost }).collect();
        let exact = model.call(clock.now(), &draws);
        let wait = exact.as_ref().err().map(|refused| refused.retry_after.map(Duration::from_nanos));
        let by_set = draw_all(&set, quotas.len(), cost);
        let place = format!("{} at {at}, cost {cost} ({})", case.id, case.source);
        assert_eq!(by_set.as_ref().err().map(|refusal| refusal.retry_after), wait, "{place}");
        assert_eq!(answer(by_set), right, "{place}");
        assert_eq!(exact.is_ok(), right == Answer::A, "{place}: the oracle says {exact:?}");
        if let Some(limiter) = &alone {
            let by_limiter = limiter.check_n("k", cost).map(|_| ());
            assert_eq!(by_limiter.as_ref().err().map(|refusal| refusal.retry_after), wait, "{place}");
            assert_eq!(answer(by_limiter), right, "{place}");
            assert_eq!(limiter.peek("k"), model.available(0, &"k", clock.now()), "{place}");
        }
    }
    if let Some(remaining) = case.remaining {
        assert_eq!(set.peek(0, "k"), remaining, "{}", case.id);
    }
}

/// One test a case, and a test that no case was forgotten.
macro_rules! each_case {
    ($($name:ident: $id:literal,)*) => {
        $(#[test] fn $name() { run(&Case::named($id)); })*

        #[test]
        fn every_case_in_the_file_has_its_test() {
            let tested = [$($id,)* "C03-huge"];
            let all: Vec<String> = Case::all().into_iter().map(|case| case.id).collect();
            assert_eq!(all.iter().filter(|id| !tested.contains(&id.as_str())).count(), 0, "{all:?}");
            assert_eq!(all.len(), tested.len());
        }
    };
}

each_case! {
    a_clock_that_steps_back_neither_refills_nor_refuses: "T01-clock-back",
    a_limit_works_before_its_first_period_is_over: "T03-near-process-start",
    a_long_idle_time_does_not_overflow_the_refill: "T04-long-idle-overflow",
    an_admission_does_not_drop_the_fraction_refilled_so_far: "R01-carry-remainder-on-admit",
    polling_each_millisecond_does_not_stop_the_refill: "R02-poll-1ms",
    one_an_hour_is_one_an_hour: "R03-slow-rate",
    a_hundred_a_minute_is_a_hundred_a_minute: "R04-fast-rate-exact",
    a_rate_below_one_a_second_still_admits: "R06-rate-below-cost",
    steady_calls_do_not_stop_the_refill: "R07-steady-hits-still-leak",
    a_period_below_a_millisecond_is_kept: "R10-sub-ms-period",
    a_cost_of_0_drains_nothing: "C01-cost-zero",
    a_cost_above_the_capacity_never_fits_and_drains_nothing: "C02-cost-over-capacity",
    a_capacity_of_2_to_the_32_is_not_0: "C04-2pow32",
    a_burst_within_a_millisecond_is_counted_at_once: "B03-no-eventual-consistency",
    a_call_that_one_limit_refuses_costs_the_other_nothing: "M01-rejected-must-not-consume",
    two_windows_meet_at_their_seam: "W01-fixed-window-2L",
    a_token_bucket_has_no_seam: "W02-same-trace-bucket",
    a_caller_slower_than_the_window_is_never_refused: "W03-slow-caller-never-denied",
    a_budget_window_gives_nothing_back_before_its_end: "W05-budget-window-not-bucket",
}

#[test]
fn a_limit_too_large_for_any_counter_is_refused_at_construction_by_name() {
    let case = Case::named("C03-huge");
    let quota = case.limits[0].quota();
    assert!(case.limits[0].line().is_none(), "the oracle agrees that no mark lasts five years");
    let error = Limiter::<str>::builder(quota).build().map(|_| ()).unwrap_err();
    assert_eq!(error.field, "capacity");
    assert_eq!(error.value, (1u64 << 63).to_string());
}

#[test]
fn a_clock_that_steps_back_leaves_what_is_left_as_it_was() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(1).burst(10), &clock);
    let left = [100, 40, 100, 101].map(|secs| {
        clock.set(secs * SECOND);
        limiter.check("k").map(|_| limiter.peek("k"))
    });
    assert_eq!(left, [Ok(9), Ok(8), Ok(7), Ok(7)]);
}

/// A clock that breaks its promise.
#[derive(Clone, Default)]
struct Unsteady(Arc<AtomicU64>);

impl Clock for Unsteady {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// `(tokens, period in nanoseconds, burst)`: any period for few tokens, whole milliseconds for many.
fn rate() -> impl Strategy<Value = (u64, u64, u64)> {
    let usual = prop_oneof![Just(SECOND), Just(60 * SECOND), Just(86_400 * SECOND)];
    prop_oneof![
        (1..100u64, 1..50_000_000_000u64, 1..2_000u64),
        (1..2_000u64, prop_oneof![(1..50_000u64).prop_map(|ms| ms * 1_000_000), usual], 1..2_000u64),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// The kind of T01: however a clock jumps, no unit is given out twice, not even to a key whose bucket was
    /// pruned at a later time than it came back; and no key gets more than the latest time ever seen has released.
    #[test]
    fn a_clock_that_runs_backwards_never_admits_too_much(
        (tokens, period, burst) in rate(), cap in 1..4usize,
        calls in prop::collection::vec((0..100_000_000_000u64, 0..5usize), 1..80),
    ) {
        let quota = Quota::tokens_per(tokens, Duration::from_nanos(period)).burst(burst);
        let line = oracle::Line::bucket(tokens, period, burst, 64).unwrap();
        let clock = Unsteady::default();
        let limiter: Limiter<usize> = Limiter::builder(quota).bucket_cap(cap).clock(clock.clone()).build().unwrap();
        let (mut latest, mut admitted, mut owned) = (0, [0; 5], [const { Vec::new() }; 5]);
        for (time, key) in calls {
            clock.0.store(time, Ordering::Relaxed);
            latest = latest.max(time);
            for cost in [1, burst.div_ceil(3)] {
                if let Ok(admission) = limiter.check_n(&key, cost) {
                    admitted[key] += cost;
                    owned[key].push((admission.from, admission.to));
                }
            }
            let allowed = line.released_units(latest) + line.units(burst);
            prop_assert!(u128::from(admitted[key]) * line.units(1) <= allowed, "{} at {}", key, time);
        }
        prop_assert!(admitted.iter().sum::<u64>() > 0);
        for owned in &mut owned {
            owned.sort_unstable();
            prop_assert!(owned.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{:?}", owned);
        }
    }

    /// The kind of T03 and T04: at any time, from the clock's first nanosecond on, a fresh key has exactly its
    /// capacity, and after any pause again.
    #[test]
    fn a_key_has_exactly_its_capacity_when_new_and_after_any_long_pause(
        (tokens, period, burst) in rate(), start in prop_oneof![0..10u64, any::<u64>()], pause in any::<u64>(),
    ) {
        let quota = Quota::tokens_per(tokens, Duration::from_nanos(period)).burst(burst);
        let line = quota.arithmetic(64).unwrap();
        let latest = line.horizon() - line.time_to_fill().unwrap();
        let clock = ManualClock::at(start.min(latest));
        let limiter = limiter(quota, &clock);
        prop_assert!(limiter.check_n("k", burst).is_ok());
        prop_assert!(limiter.check_n("k", 1).is_err());
        let filled = clock.now() + line.time_to_fill().unwrap();
        clock.set(filled.max(pause.min(line.horizon())));
        prop_assert_eq!(limiter.peek("k"), burst);
        prop_assert!(limiter.check_n("k", burst).is_ok());
        prop_assert!(limiter.check_n("k", 1).is_err());
    }

    /// The kind of R01 to R10: whenever and however often a drained bucket is polled, it admits at the first poll
    /// at or after the exact instant, and never before.
    #[test]
    fn polling_neither_delays_nor_hastens_the_next_admission(
        (tokens, period, burst) in rate(), gaps in prop::collection::vec(1..2_000_000_000u64, 1..120),
    ) {
        let quota = Quota::tokens_per(tokens, Duration::from_nanos(period)).burst(burst);
        let line = oracle::Line::bucket(tokens, period, burst, 64).unwrap();
        let clock = ManualClock::new();
        let limiter = limiter(quota, &clock);
        limiter.check_n("k", burst).unwrap();
        let mut drawn = burst;
        for gap in gaps {
            clock.set(clock.now() + gap);
            // Never full in this span or else the exact amount is not simply what was released.
            if line.released_units(clock.now()) >= line.units(drawn) {
                break;
            }
            let fits = line.units(drawn + 1) <= line.released_units(clock.now()) + line.units(burst);
            prop_assert_eq!(limiter.check("k").is_ok(), fits, "at {}", clock.now());
            drawn += u64::from(fits);
        }
    }

    /// The kind of C01, C02 and C04: any cost on any capacity, and what a refusal leaves behind, which is nothing.
    #[test]
    fn a_refused_cost_of_any_size_leaves_every_token(
        capacity in prop_oneof![1..100u64, Just(1 << 32), 1..1u64 << 33], costs in prop::collection::vec(any::<u64>(), 1..20),
        shift in 0..64u32,
    ) {
        let clock = ManualClock::new();
        let limiter = limiter(Quota::tokens_per(1, Duration::from_secs(1)).burst(capacity), &clock);
        let mut left = capacity;
        for cost in costs.into_iter().map(|cost| cost >> shift) {
            match limiter.check_n("k", cost) {
                Ok(_) => left = left.checked_sub(cost).expect("no more than there is"),
                Err(refusal) => {
                    prop_assert!(cost > left);
                    prop_assert_eq!(refusal.reason == Reason::Impossible, cost > capacity);
                    prop_assert_eq!(refusal.retry_after.is_none(), cost > capacity);
                    prop_assert_eq!(refusal.needed, cost);
                }
            }
            prop_assert_eq!(limiter.peek("k"), left);
        }
        prop_assert_eq!(limiter.len(), usize::from(left < capacity), "no slot for what was never drawn on");
    }

    /// The kind of M01: a limit that refuses protects every other limit of the call.
    #[test]
    fn a_call_is_charged_to_all_its_limits_or_to_none(
        capacities in prop::collection::vec(1..30u64, 1..5), costs in prop::collection::vec(1..8u64, 1..40),
    ) {
        let clock = ManualClock::new();
        let quotas: Vec<Quota> = capacities.iter().map(|&n| Quota::per_day(n)).collect();
        let set = limit_set(&quotas, &clock);
        let (mut drawn, scarcest) = (0, *capacities.iter().min().unwrap());
        for cost in costs {
            prop_assert_eq!(draw_all(&set, quotas.len(), cost).is_ok(), drawn + cost <= scarcest);
            drawn += if drawn + cost <= scarcest { cost } else { 0 };
            for (limit, capacity) in capacities.iter().enumerate() {
                prop_assert_eq!(set.peek(limit, "k"), capacity - drawn);
            }
        }
    }

    /// The kind of W01, W03 and W05: within a window exactly its limit, whatever the pace; nothing in between, and
    /// nothing saved up.
    #[test]
    fn a_window_admits_its_limit_in_each_period_and_nothing_else(
        limit in 1..40u64, period in 1..10_000_000_000u64, anchor in any::<u64>(),
        steps in prop::collection::vec((0..6_000u64, 1..50u64), 1..60),
    ) {
        let clock = ManualClock::at(1_000 * SECOND);
        let quota = Quota::window(limit, Duration::from_nanos(period)).anchored_at(Duration::from_nanos(anchor));
        let limiter = limiter(quota, &clock);
        let line = oracle::Line::window(limit, period, anchor.into(), 64).unwrap();
        let (mut window, mut used) = (line.released_units(clock.now()), 0);
        for (part, cost) in steps {
            clock.set(clock.now() + period * part / 5_000);
            let now_in = line.released_units(clock.now());
            if now_in != window {
                (window, used) = (now_in, 0);
            }
            prop_assert_eq!(limiter.check_n("k", cost).is_ok(), used + cost <= limit, "{} used", used);
            used += if used + cost <= limit { cost } else { 0 };
        }
    }
}
