//! The ends of every range that a quota has: what is refused, under which name, and what still works.

#[path = "support/oracle.rs"]
mod oracle;

use oracle::Line;
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::quota::{Arithmetic, Decision, Quota};

const SECOND: u64 = 1_000_000_000;
/// The longest period that a quota takes.
const LONGEST: u64 = u64::MAX - 1;

fn line(quota: Quota) -> Arithmetic {
    quota.arithmetic(64).unwrap_or_else(|error| panic!("{quota:?}: {error}"))
}

fn refused(quota: Quota) -> ConfigError {
    quota.arithmetic(64).expect_err("this quota must be refused")
}

/// The mark after `cost` tokens were drawn at `now`.
fn drawn(line: &Arithmetic, mark: u64, now: u64, cost: u64) -> u64 {
    match line.decide(mark, now, cost) {
        Decision::Admit { mark } => mark,
        other => panic!("cost {cost} at {now}: {other:?}"),
    }
}

#[test]
fn a_limit_of_0_admits_only_what_costs_nothing() {
    let quotas = [
        Quota::per_second(0),
        Quota::window(0, Duration::from_secs(1)),
        Quota::per_second(10).burst(0),
        Quota::milli_token(0, 60, 2.0).unwrap(),
        Quota::exact_burst(0, 60, 2.0).unwrap(),
    ];
    for quota in quotas {
        let line = line(quota);
        assert_eq!(quota.capacity(), 0, "{quota:?}");
        for now in [0, SECOND, line.horizon()] {
            assert_eq!(line.decide(0, now, 1), Decision::Impossible, "{quota:?}");
            assert_eq!(line.decide(0, now, u64::MAX), Decision::Impossible, "{quota:?}");
            assert_eq!(line.decide(0, now, 0), Decision::Admit { mark: 0 }, "{quota:?}");
        }
        assert_eq!(line.time_to_fill(), Some(0), "{quota:?}");
    }
}

#[test]
fn the_rate_asked_for_is_told_in_tokens_a_second_before_any_rounding() {
    let ten_seconds = Duration::from_secs(10);
    assert_eq!(Quota::tokens_per(5, ten_seconds).asked_tokens_per_second(), 0.5);
    assert_eq!(Quota::window(30, ten_seconds).asked_tokens_per_second(), 3.0);
    let rounded = Quota::milli_token(15, 10, 2.0).unwrap();
    assert_eq!(rounded.asked_tokens_per_second(), 1.5);
    assert_eq!(line(rounded).tokens_per_second(), 1.0);
    let exact = Quota::exact_burst(15, 10, 2.0).unwrap();
    assert_eq!((exact.asked_tokens_per_second(), line(exact).tokens_per_second()), (1.5, 1.5));
}

#[test]
fn the_horizon_is_told_in_years_of_365_and_a_quarter_days() {
    let line = line(Quota::tokens_per(1_000_003, Duration::from_secs(1)));
    let years = line.horizon() as f64 / (365.25 * 86_400.0 * SECOND as f64);
    assert!((years - line.horizon_years()).abs() < 1e-9, "{years}, not {}", line.horizon_years());
    assert!(line.horizon_years() > 5.0);
}

#[test]
fn what_does_not_fit_a_mark_is_refused_with_what_would() {
    let fast = refused(Quota::tokens_per(u64::MAX, Duration::from_nanos(1)).burst(1));
    assert_eq!(
        (fast.field, fast.accepted.as_str()),
        (
            "rate",
            "a rate whose counter lasts 5 years (0.000 here): fewer tokens, or amounts in a coarser unit"
        )
    );
    // The rate is the burst: a smaller one is slower too, so there is no bound to tell.
    let both = refused(Quota::per_hour(u64::MAX));
    assert_eq!(
        (both.field, both.accepted.as_str()),
        ("capacity", "fewer tokens, or amounts in a coarser unit")
    );
    let deep = refused(Quota::per_second(1).burst(u64::MAX));
    let bound =
        deep.accepted.strip_prefix("0 to ").and_then(|rest| rest.strip_suffix(" tokens at this rate"));
    let bound: u64 = bound.unwrap_or_else(|| panic!("{deep}")).parse().unwrap();
    assert_eq!(line(Quota::per_second(1).burst(bound)).capacity(), bound);
    refused(Quota::per_second(1).burst(bound + 1));
}

#[test]
fn a_bucket_that_never_refills_gives_its_burst_once_and_foretells_no_retry() {
    for burst in [1, 7, u64::MAX] {
        let line = line(Quota::tokens_per(0, Duration::from_secs(60)).burst(burst));
        let empty = drawn(&line, 0, 0, burst);
        for now in [0, SECOND, u64::MAX] {
            assert_eq!(line.decide(empty, now, 1), Decision::Exhausted { available: 0, retry_at: None });
        }
        assert_eq!((line.horizon(), line.time_to_fill()), (u64::MAX, None));
    }
}

#[test]
fn a_burst_below_the_rate_still_passes_the_whole_rate_one_at_a_time() {
    let line = line(Quota::per_second(1_000).burst(1));
    let mut mark = 0;
    for call in 0..5_000 {
        let now = call * 1_000_000;
        mark = drawn(&line, mark, now, 1);
        assert_eq!(
            line.decide(mark, now + 999_999, 1),
            Decision::Exhausted { available: 0, retry_at: Some(now + 1_000_000) }
        );
    }
}

#[test]
fn the_largest_numbers_are_refused_by_name_or_decided() {
    let longest = Duration::from_nanos(LONGEST);
    assert_eq!(refused(Quota::per_second(u64::MAX)).field, "capacity");
    assert_eq!(refused(Quota::per_second(u64::MAX).burst(1)).field, "rate");
    assert_eq!(refused(Quota::tokens_per(1, longest).burst(u64::MAX)).field, "capacity");
    assert_eq!(refused(Quota::window(u64::MAX, Duration::from_secs(1))).field, "rate");
    // So long a window that the mark holds the only period there is time for.
    let once = line(Quota::window(u64::MAX, longest));
    let spent = drawn(&once, 0, 0, u64::MAX);
    assert_eq!(once.decide(spent, LONGEST - 1, 1), Decision::Exhausted { available: 0, retry_at: None });
    assert_eq!(once.decide(spent, LONGEST, 1), Decision::PastHorizon);
}

#[test]
fn one_token_in_584_years_is_spent_once() {
    let line = line(Quota::tokens_per(1, Duration::from_nanos(LONGEST)).burst(1));
    // On the grid of nanoseconds the capacity alone fills the mark; on that of microseconds units are larger.
    assert_eq!(line.resolution(), 1_000);
    let empty = drawn(&line, 0, 0, 1);
    let last = LONGEST / 1_000 * 1_000;
    assert_eq!(line.decide(empty, last, 1), Decision::Exhausted { available: 0, retry_at: None });
    assert_eq!(line.horizon(), u64::MAX);
}

#[test]
fn a_period_of_0_and_one_that_no_clock_can_tell_are_refused() {
    for period in [Duration::ZERO, Duration::from_nanos(u64::MAX), Duration::MAX] {
        for quota in [Quota::tokens_per(1, period), Quota::window(1, period), Quota::tokens_per(0, period)] {
            let error = refused(quota);
            assert_eq!(
                (error.field, error.accepted.as_str()),
                ("period", "1 ns to about 584 years"),
                "{quota:?}"
            );
        }
    }
}

#[test]
fn a_period_too_long_for_the_clock_is_never_shortened_into_a_faster_rate() {
    // One token a second, said in a roundabout way: cut to 584 years it would be one a nanosecond.
    let quota = Quota::tokens_per(u64::MAX, Duration::from_secs(u64::MAX)).burst(1_000);
    assert_eq!(refused(quota).field, "period");
}

#[test]
fn an_anchor_of_any_distance_keeps_its_place_on_the_grid() {
    // 2^64 ns and a half second: the part that a u64 of nanoseconds loses must not shift the grid.
    let far = Duration::from_nanos(u64::MAX) + Duration::from_nanos(1) + Duration::from_millis(500);
    for anchor in [far, Duration::MAX, Duration::from_nanos(u64::MAX), Duration::from_millis(2_500)] {
        let quota = Quota::window(3, Duration::from_secs(7)).anchored_at(anchor);
        let (ours, exact) = (line(quota), Line::window(3, 7 * SECOND, anchor.as_nanos(), 64).unwrap());
        for now in (0..60).map(|n| n * SECOND / 2) {
            assert_eq!(exact.tokens_of(ours.accrued(now)), exact.released(now), "{anchor:?} at {now}");
        }
    }
}

#[test]
fn an_anchored_window_opens_its_last_period_too() {
    let line = line(Quota::window(2, Duration::from_secs(1)).anchored_at(Duration::from_nanos(1)));
    let last_opening = u64::MAX - u64::MAX % SECOND + 1;
    let spent = drawn(&line, 0, last_opening - 1, 2);
    assert_eq!(
        line.decide(spent, last_opening - 1, 1),
        Decision::Exhausted { available: 0, retry_at: Some(last_opening) }
    );
    let reopened = drawn(&line, spent, last_opening, 2);
    assert_eq!(line.decide(reopened, u64::MAX, 1), Decision::Exhausted { available: 0, retry_at: None });
    assert_eq!(line.horizon(), u64::MAX);
}

#[test]
fn a_burst_factor_that_is_not_a_number_above_0_is_refused() {
    for factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.5, -f64::MIN_POSITIVE] {
        for per_window in [0, 1, 100, u64::MAX] {
            for quota in
                [Quota::milli_token(per_window, 60, factor), Quota::exact_burst(per_window, 60, factor)]
            {
                let error = quota.expect_err("a factor without a meaning");
                assert_eq!(
                    (error.field, error.accepted.as_str()),
                    ("burst_factor", "a finite number above 0")
                );
                assert_eq!(error.value, factor.to_string());
            }
        }
    }
}

#[test]
fn a_capacity_above_2_to_the_63_is_refused_in_the_name_of_the_number_that_is_too_big() {
    let cases = [
        (1, f64::MAX, "burst_factor"),
        (1 << 62, 2.5, "burst_factor"),
        (u64::MAX, 1.0, "per_window"),
        ((1 << 63) + 1, 1.0, "per_window"),
        (u64::MAX, 0.75, "per_window"),
    ];
    for (per_window, factor, field) in cases {
        for quota in [Quota::milli_token(per_window, 60, factor), Quota::exact_burst(per_window, 60, factor)]
        {
            assert_eq!(quota.expect_err("too many tokens").field, field, "{per_window} * {factor}");
        }
    }
    assert_eq!(Quota::exact_burst(1 << 63, 60, 1.0).unwrap().capacity(), 1 << 63);
    assert_eq!(
        Quota::exact_burst((1 << 53) + 1, 60, 1.0).unwrap().capacity(),
        (1 << 53) + 1,
        "1 changes nothing"
    );
}

#[test]
fn the_smallest_burst_factor_leaves_one_token() {
    for factor in [f64::MIN_POSITIVE, 1e-300, 0.000_1] {
        assert_eq!(Quota::milli_token(100, 60, factor).unwrap().capacity(), 1);
    }
    assert_eq!(Quota::milli_token(5, 60, 0.5).unwrap().capacity(), 3, "halves round up");
}

#[test]
fn a_window_of_0_seconds_and_one_beyond_the_clock_are_refused() {
    for secs in [0, 18_446_744_074, u64::MAX] {
        for quota in [Quota::milli_token(1, secs, 1.0), Quota::exact_burst(1, secs, 1.0)] {
            let error = quota.expect_err("no such window");
            assert_eq!((error.field, error.value), ("window_secs", secs.to_string()));
            assert_eq!(error.accepted, "1 to 18446744073");
        }
    }
    assert!(Quota::milli_token(1, 18_446_744_073, 1.0).unwrap().arithmetic(64).is_ok());
}

#[test]
fn a_width_that_no_mark_has_is_refused() {
    for bits in [0, 65, u32::MAX] {
        let error = Quota::per_minute(1).arithmetic(bits).expect_err("no such width");
        assert_eq!((error.field, error.accepted.as_str()), ("bits", "1 to 64"));
    }
}

#[test]
fn milli_token_arithmetic_rounds_rates_as_documented() {
    for (per_window, window_secs, per_second) in
        [(100, 60, 1.0), (1, 60, 1.0), (59, 60, 1.0), (120, 60, 2.0), (179, 60, 2.0)]
    {
        let line = line(Quota::milli_token(per_window, window_secs, 1.0).unwrap());
        assert_eq!(line.tokens_per_second(), per_second, "{per_window} in {window_secs} s");
        assert_eq!(line.resolution(), 1_000_000);
    }
}

#[test]
fn money_in_small_units_takes_a_coarser_grid_and_stays_exact() {
    // Micro-dollars: 25 $ a minute, 60.000001 $ a minute, 1000.01 $ an hour, 3 $ in a prime number of seconds.
    for (tokens, secs) in [(25_000_000u64, 60u64), (60_000_001, 60), (1_000_010_000, 3_600), (3_000_000, 61)]
    {
        let quota = Quota::tokens_per(tokens, Duration::from_secs(secs));
        let (ours, exact) = (line(quota), Line::bucket(tokens, secs * SECOND, tokens, 64).unwrap());
        assert_eq!(ours.resolution(), exact.grid, "{tokens} per {secs} s");
        let empty = drawn(&ours, 0, 0, tokens);
        assert_eq!(
            ours.decide(empty, 0, tokens),
            Decision::Exhausted { available: 0, retry_at: Some(secs * SECOND) },
            "the whole amount is back after exactly one period"
        );
    }
}

#[test]
fn five_years_to_the_nanosecond_is_enough_and_one_unit_less_is_not() {
    // A unit a nanosecond: after five years the mark must still hold the line and the capacity.
    let nanoseconds = 5 * 31_557_600 * SECOND;
    let every_nanosecond = Quota::tokens_per(1, Duration::from_nanos(1));
    for bits in [60, 63, 64] {
        let largest_mark = u64::MAX >> (64 - bits);
        let most = largest_mark - nanoseconds;
        let line = every_nanosecond.burst(most).arithmetic(bits).unwrap();
        assert_eq!((line.resolution(), line.horizon()), (1, nanoseconds));
        let error = every_nanosecond.burst(most + 1).arithmetic(bits).unwrap_err();
        assert_eq!(error.field, "rate", "{error}");
        let error = every_nanosecond.burst(largest_mark).burst(u64::MAX).arithmetic(bits - 1).unwrap_err();
        assert_eq!(error.field, "capacity", "{error}");
    }
}

#[test]
fn a_guard_that_cannot_be_built_names_the_field_of_its_configuration() {
    use tollgate::guard::{AgentVelocityConfig, AgentVelocityGuard, VelocityConfig, VelocityGuard};
    let velocity = |invocations, spend, window_secs, burst_factor| {
        let (max_invocations_per_window, max_spend_per_window) = (invocations, spend);
        let config =
            VelocityConfig { max_invocations_per_window, max_spend_per_window, window_secs, burst_factor };
        let error = VelocityGuard::try_new(config).unwrap_err();
        let same = tollgate::baseline::VelocityGuard::builder(config).build().err().unwrap();
        assert_eq!(error, same);
        error.field
    };
    assert_eq!(velocity(None, Some(u64::MAX), 60, 1.0), "max_spend_per_window");
    assert_eq!(velocity(Some(1), Some(1 << 62), 1, 1.0), "max_spend_per_window");
    assert_eq!(velocity(Some(300_000_000), Some(100_000_001), 1, 1.0), "max_spend_per_window");
    assert_eq!(velocity(Some(1), None, 0, 1.0), "window_secs");
    assert_eq!(velocity(Some(1), None, 1, f64::NAN), "burst_factor");
    assert_eq!(velocity(None, None, 1, -1.0), "burst_factor");
    let config =
        AgentVelocityConfig { max_requests_per_agent: Some(1), window_secs: 0, ..Default::default() };
    assert_eq!(AgentVelocityGuard::try_new(config).unwrap_err().field, "window_secs");
}

#[test]
fn a_bucket_cap_without_room_is_refused_with_what_is_accepted_even_without_limits() {
    use tollgate::guard::{AgentVelocityConfig, AgentVelocityGuard, VelocityConfig, VelocityGuard};
    let velocity = |invocations, spend, cap| {
        let config = VelocityConfig {
            max_invocations_per_window: invocations,
            max_spend_per_window: spend,
            ..VelocityConfig::default()
        };
        VelocityGuard::with_bucket_cap(config, cap).err().map(|error| error.to_string())
    };
    let one = |cap| Some(format!("bucket_cap is {cap}, accepted: 1 to 16777216"));
    let two =
        |cap| Some(format!("bucket_cap is {cap}, accepted: 2 (a call takes one for each limit) to 16777216"));
    assert_eq!(velocity(None, None, 0), one(0));
    assert_eq!(velocity(Some(1), None, 0), one(0));
    assert_eq!(velocity(Some(1), None, 16_777_217), one(16_777_217));
    assert_eq!(velocity(Some(1), Some(1), 1), two(1));
    assert_eq!(velocity(Some(1), Some(1), 16_777_217), two(16_777_217));
    assert_eq!(velocity(Some(1), Some(1), 2), None);
    let agent = |agent, session, cap| {
        let config = AgentVelocityConfig {
            max_requests_per_agent: agent,
            max_requests_per_session: session,
            ..AgentVelocityConfig::default()
        };
        AgentVelocityGuard::with_bucket_cap(config, cap).err().map(|error| error.to_string())
    };
    assert_eq!(agent(None, None, 0), one(0));
    assert_eq!(agent(Some(1), Some(1), 1), two(1));
    assert_eq!(agent(Some(1), Some(1), 2), None);
}
