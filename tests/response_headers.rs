//! What responses of real servers, and of hostile ones, are understood to say.
#![cfg(feature = "headers")]

use proptest::prelude::*;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tollgate::headers::{Budget, Expected, Family, Hint};
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{AcquireError, Limiter, Reason};

/// 1994-11-06 08:49:07 UTC: half a minute before the example of RFC 9110.
fn then() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(784_111_747)
}

/// 2023-11-14 22:13:20 UTC.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn read(headers: &[(&str, &str)]) -> Hint {
    Hint::from_headers(headers.iter().copied(), now())
}

/// Limit, remainder, reset.
fn parts(budget: &Budget) -> (&str, Option<u64>, Option<u64>, Option<Duration>) {
    (&budget.name, budget.limit, budget.remaining, budget.reset)
}

#[test]
fn retry_after_is_read_as_seconds_and_in_all_three_forms_of_a_date() {
    for (value, wait) in [
        ("120", 120),
        (" 120\t", 120),
        ("0", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 30),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 30),
        ("Sun Nov  6 08:49:37 1994", 30),
        ("Sun, 06 Nov 1994 08:00:00 GMT", 0),
    ] {
        let hint = Hint::from_headers([("Retry-After", value)], then());
        assert_eq!((hint.retry_after, hint.ignored), (Some(secs(wait)), vec![]), "{value}");
    }
}

#[test]
fn a_wait_without_end_is_as_long_as_there_is() {
    let hint = read(&[("retry-after", &"9".repeat(40))]);
    assert_eq!(hint.retry_after, Some(Duration::MAX));
    let limiter = Limiter::builder(Quota::per_second(1)).clock(ManualClock::at(9)).build().unwrap();
    limiter.heed("k", &hint).unwrap();
    assert_eq!(limiter.penalized_until("k"), Some((1 << 62) + 9));
}

#[test]
fn milliseconds_are_read_too_and_the_longest_wait_wins() {
    assert_eq!(read(&[("retry-after-ms", "1500")]).retry_after, Some(Duration::from_millis(1_500)));
    for headers in [
        [("retry-after", "1"), ("retry-after-ms", "1500")],
        [("retry-after-ms", "1500"), ("retry-after", "1")],
        [("RETRY-AFTER", "1"), ("Retry-After-Ms", "1500")],
    ] {
        assert_eq!(read(&headers).retry_after, Some(Duration::from_millis(1_500)));
    }
}

#[test]
fn a_response_without_such_headers_asks_for_nothing() {
    let hint =
        read(&[("content-type", "text/plain"), ("x-ratelimit-used", "5"), ("x-ratelimit-resource", "core")]);
    assert_eq!(hint, Hint::default());
}

#[test]
fn budgets_of_requests_and_of_tokens_with_resets_in_units_are_read() {
    let hint = read(&[
        ("x-ratelimit-limit-requests", "60"),
        ("x-ratelimit-limit-tokens", "150000"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-remaining-tokens", "149984"),
        ("x-ratelimit-reset-requests", "1s"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ]);
    assert_eq!(hint.retry_after, None, "something remains of both");
    let budgets: Vec<_> = hint.budgets.iter().map(parts).collect();
    assert_eq!(
        budgets,
        [
            ("requests", Some(60), Some(59), Some(secs(1))),
            ("tokens", Some(150_000), Some(149_984), Some(secs(360)))
        ]
    );
}

#[test]
fn a_budget_of_which_nothing_remains_asks_to_wait_for_its_reset() {
    let hint = read(&[
        ("x-ratelimit-remaining-requests", "0"),
        ("x-ratelimit-reset-requests", "20ms"),
        ("x-ratelimit-remaining-tokens", "7"),
        ("x-ratelimit-reset-tokens", "6m0s"),
    ]);
    assert_eq!(hint.retry_after, Some(Duration::from_millis(20)));
    assert_eq!(read(&[("x-ratelimit-remaining", "0")]).retry_after, None, "nobody says until when");
    assert_eq!(read(&[("x-ratelimit-reset", "30")]).retry_after, None, "nobody says that nothing remains");
}

#[test]
fn resets_in_seconds_since_1970_and_in_seconds_from_now_are_told_apart() {
    let reset = |value| read(&[("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", value)]).retry_after;
    assert_eq!(reset("1700003600"), Some(secs(3_600)));
    assert_eq!(reset("1700000000123"), Some(Duration::from_millis(123)));
    assert_eq!(reset("1699999999"), Some(Duration::ZERO));
    assert_eq!(reset("3600"), Some(secs(3_600)));
}

#[test]
fn budgets_with_rfc_3339_resets_are_read() {
    let hint = read(&[
        ("anthropic-ratelimit-requests-limit", "50"),
        ("anthropic-ratelimit-requests-remaining", "49"),
        ("anthropic-ratelimit-requests-reset", "2023-11-14T22:13:21Z"),
        ("anthropic-ratelimit-tokens-limit", "40000"),
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2023-11-14T22:14:20Z"),
        ("anthropic-ratelimit-input-tokens-limit", "20000"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2023-11-14T22:13:50.25Z"),
        ("anthropic-ratelimit-output-tokens-remaining", "8000"),
    ]);
    assert_eq!(hint.retry_after, Some(secs(60)));
    let budgets: Vec<_> = hint.budgets.iter().map(parts).collect();
    assert_eq!(
        budgets,
        [
            ("requests", Some(50), Some(49), Some(secs(1))),
            ("tokens", Some(40_000), Some(0), Some(secs(60))),
            ("input-tokens", Some(20_000), Some(0), Some(Duration::from_millis(30_250))),
            ("output-tokens", None, Some(8_000), None),
        ]
    );
    assert!(hint.budgets.iter().all(|budget| budget.family == Family::Anthropic));
}

#[test]
fn the_structured_fields_of_the_draft_are_read() {
    let hint = read(&[
        ("RateLimit-Policy", r#""burst";q=100;w=60,"daily";q=1000;w=86400;qu="requests";pk=:cHk=:"#),
        ("RateLimit", r#""burst";r=0;t=30, "daily";r=900;t=4000"#),
        ("RateLimit", r#""other";r=3"#),
    ]);
    assert_eq!(hint.ignored, []);
    assert_eq!(hint.retry_after, Some(secs(30)));
    let budgets: Vec<_> = hint.budgets.iter().map(parts).collect();
    assert_eq!(
        budgets,
        [
            ("burst", Some(100), Some(0), Some(secs(30))),
            ("daily", Some(1_000), Some(900), Some(secs(4_000))),
            ("other", None, Some(3), None),
        ]
    );
    assert_eq!(hint.budgets[0].window, Some(secs(60)));
}

#[test]
fn the_earlier_forms_of_the_draft_are_read() {
    let fields = read(&[
        ("RateLimit-Limit", "100, 100;w=60"),
        ("RateLimit-Remaining", "0"),
        ("RateLimit-Reset", "50"),
        ("RateLimit-Policy", "100;w=60"),
    ]);
    assert_eq!((fields.retry_after, fields.ignored.len()), (Some(secs(50)), 0));
    assert_eq!(parts(&fields.budgets[0]), ("", Some(100), Some(0), Some(secs(50))));
    let dictionary = read(&[("RateLimit", "limit=100, remaining=0, reset=5")]);
    assert_eq!((dictionary.retry_after, dictionary.ignored.len()), (Some(secs(5)), 0));
    assert_eq!(parts(&dictionary.budgets[0]), ("", Some(100), Some(0), Some(secs(5))));
}

#[test]
fn of_two_values_for_one_budget_the_stricter_counts() {
    let hint = read(&[
        ("x-ratelimit-limit", "10"),
        ("x-ratelimit-limit", "20"),
        ("x-ratelimit-remaining", "5"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "9"),
        ("x-ratelimit-reset", "3"),
    ]);
    assert_eq!(parts(&hint.budgets[0]), ("", Some(10), Some(0), Some(secs(9))));
    assert_eq!(hint.retry_after, Some(secs(9)));
}

#[test]
fn what_cannot_be_read_is_listed_with_the_reason_and_the_rest_is_read_all_the_same() {
    let cases = [
        ("Retry-After", "-5", Expected::RetryAfter),
        ("Retry-After", "", Expected::RetryAfter),
        ("Retry-After", "Sun, 31 Feb 2023 08:49:37 GMT", Expected::RetryAfter),
        ("retry-after-ms", "1s", Expected::Milliseconds),
        ("x-ratelimit-limit", "unlimited", Expected::Count),
        ("x-ratelimit-remaining-tokens", "-1", Expected::Count),
        ("X-RateLimit-Reset", "soon", Expected::Reset),
        ("anthropic-ratelimit-tokens-reset", "yesterday", Expected::Reset),
        ("RateLimit", "\"default", Expected::StructuredField),
        ("RateLimit", "\"default\";t=5", Expected::StructuredField),
        ("RateLimit", "\"default\";r=-1;t=5", Expected::StructuredField),
        ("RateLimit", "(\"a\" \"b\");r=1", Expected::StructuredField),
        ("RateLimit-Policy", "\"default\";w=5", Expected::StructuredField),
    ];
    let mut headers: Vec<_> = cases.iter().map(|&(name, value, _)| (name, value)).collect();
    headers.push(("retry-after", "7"));
    let hint = read(&headers);
    assert_eq!(hint.retry_after, Some(secs(7)));
    let ignored: Vec<_> = hint
        .ignored
        .iter()
        .map(|ignored| (ignored.name.as_str(), ignored.value.as_str(), ignored.expected))
        .collect();
    assert_eq!(ignored, cases);
}

#[test]
fn one_bad_item_of_a_list_does_not_hide_the_others() {
    let hint = read(&[("RateLimit", r#""a";r=0, "b";r=0;t=9"#), ("RateLimit", r#"17, "c";r=0;t=11"#)]);
    assert_eq!((hint.retry_after, hint.ignored.len()), (Some(secs(11)), 1));
}

#[test]
fn what_is_kept_of_a_hostile_response_is_bounded() {
    let many = (0..1_000).map(|n| (format!("x-ratelimit-remaining-{n}"), "0".to_owned()));
    let hint = Hint::from_headers(many, now());
    assert_eq!((hint.budgets.len(), hint.ignored.len()), (32, 64));
    assert_eq!(hint.ignored[0].expected, Expected::FewerBudgets);
    let long = "é".repeat(100_000);
    let hint = Hint::from_headers([("retry-after", long.as_str()), (long.as_str(), "5")], now());
    assert_eq!((hint.ignored.len(), hint.ignored[0].value.chars().count()), (1, 128));
}

#[test]
fn a_limiter_heeds_what_a_response_asks_for_and_callers_that_wait_do_too() {
    let clock = ManualClock::new();
    let limiter = Limiter::<str>::builder(Quota::per_second(10)).clock(clock.clone()).build().unwrap();
    limiter.heed("api", &read(&[("content-type", "text/plain")])).unwrap();
    limiter.check("api").unwrap();
    limiter.heed("api", &read(&[("retry-after", "30")])).unwrap();
    limiter.heed("api", &read(&[("retry-after", "3")])).unwrap();
    let refusal = limiter.check("api").unwrap_err();
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Penalized, Some(secs(30))));
    let refused = limiter.acquire("api").within(secs(29)).blocking().unwrap_err();
    assert_eq!(
        refused,
        AcquireError::DeadlineTooEarly { earliest: 30_000_000_000, deadline: 29_000_000_000 }
    );
    clock.advance(secs(30));
    limiter.acquire("api").blocking().unwrap();
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "Retry-After",
            "retry-after-ms",
            "x-ratelimit-limit",
            "x-ratelimit-remaining-tokens",
            "x-ratelimit-reset",
            "x-ratelimit-",
            "anthropic-ratelimit-reset",
            "anthropic-ratelimit-tokens-reset",
            "RateLimit",
            "RateLimit-Policy",
            "ratelimit-limit",
            "ratelimit-reset",
        ])
        .prop_map(str::to_owned),
        "(x-|anthropic-)?rate-?limit-[a-z-]{0,12}",
        ".{0,20}",
    ]
}

fn values() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,40}(\\.[0-9]{0,30})?",
        "[0-9]{0,12}(ns|us|µs|ms|s|m|h|d|w|y| ago){0,4}",
        "([0-9]{1,20}(h|m|s|ms)){1,4}",
        "[0-9]{1,6}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,12})?(Z|[+-][0-9]{2}:[0-9]{2})",
        "(Sun|Mon)(day)?,? [0-9]{2}[ -](Jan|Feb)[ -][0-9]{2,5} [0-9]{2}:[0-9]{2}:[0-9]{2}( GMT)?",
        "(\"[a-z]{0,3}\"(;(r|t|q|w)=-?[0-9]{1,16}){0,3},? ?){1,3}",
        "(limit|remaining|reset)=[0-9]{1,16}(, (limit|remaining|reset)=[0-9]{1,16}){0,2}",
        ".{0,60}",
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_headers_make_it_panic_and_what_is_asked_for_can_be_heeded(
        headers in prop::collection::vec((names(), values()), 0..12),
        seconds in 0u64..1 << 40,
    ) {
        let hint = Hint::from_headers(headers.iter().map(|(n, v)| (n, v)), UNIX_EPOCH + secs(seconds));
        prop_assert!(hint.budgets.len() + hint.ignored.len() <= 12 * 30);
        for budget in &hint.budgets {
            if let (Some(0), Some(reset)) = (budget.remaining, budget.reset) {
                prop_assert!(hint.retry_after >= Some(reset));
            }
        }
        let clock = ManualClock::new();
        let limiter = Limiter::builder(Quota::per_second(10)).bucket_cap(2).clock(clock.clone()).build().unwrap();
        limiter.heed("k", &hint).unwrap();
        let waits = hint.retry_after.is_some_and(|wait| !wait.is_zero());
        prop_assert_eq!(limiter.check("k").is_err(), waits);
    }

    #[test]
    fn seconds_and_dates_come_back_as_the_wait_that_was_written(wait in 0u64..1 << 32) {
        let at = now() + secs(wait);
        let date = httpdate::fmt_http_date(at);
        prop_assert_eq!(read(&[("retry-after", &wait.to_string())]).retry_after, Some(secs(wait)));
        prop_assert_eq!(read(&[("retry-after", &date)]).retry_after, Some(secs(wait)));
    }
}
