//! Keys, table sizes and configuration changes that went wrong elsewhere, as reported in public: each report by
//! its numbers, and by its kind. The reports are in `tests/data/key_config_cases.json`.
//!
//! X03 (a negative cost) cannot be written down here: a cost is a `u64`.

#[path = "support/oracle.rs"]
mod oracle;

use proptest::prelude::*;
use serde_json::Value;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tollgate::guard::{AgentVelocityConfig, AgentVelocityGuard, VelocityConfig, VelocityGuard};
use tollgate::key::IpPrefix;
use tollgate::limiter::Keep;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Admission, Key, LimitSet, Limiter, Reason, Refusal};

const HOUR: u64 = 3_600_000_000_000;

/// The reported case called `id`.
fn case(id: &str) -> Value {
    let all: Vec<Value> = serde_json::from_str(include_str!("data/key_config_cases.json")).unwrap();
    all.into_iter().find(|case| case["id"] == id).unwrap_or_else(|| panic!("no case {id}"))
}

/// The case's calls as `(time, key, cost)`, its steps that are not calls left out.
fn calls(case: &Value) -> Vec<(u64, Value, u64)> {
    let steps = case["calls"].as_array().unwrap().iter();
    steps.filter_map(|step| Some((step[0].as_u64()?, step[1].clone(), step[2].as_u64()?))).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

/// The case's answers, each cut to its first word.
fn expected(case: &Value) -> Vec<String> {
    let answers = case["expect"].as_array().unwrap().iter().map(text);
    answers.filter(|answer| !answer.is_empty()).map(str::to_owned).collect()
}

fn answer(result: Result<Admission, Refusal>) -> &'static str {
    match result.map_err(|refusal| refusal.reason) {
        Ok(_) => "A",
        Err(Reason::Exhausted) => "D",
        Err(Reason::TableFull) => "REFUSE table-full",
        Err(other) => panic!("{other}"),
    }
}

/// One draw of one token a key, forever.
fn one_each<K: Key + ?Sized>(cap: usize) -> Limiter<K> {
    let once = Quota::tokens_per(0, Duration::from_secs(1)).burst(1);
    Limiter::builder(once).bucket_cap(cap).clock(ManualClock::new()).build().unwrap()
}

fn limiter(quota: Quota, cap: usize, clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(quota).bucket_cap(cap).clock(clock.clone()).build().unwrap()
}

#[test]
fn a_full_table_refuses_a_newcomer_and_resets_nobody() {
    let case = case("K01-full-table-fail-closed");
    let config = &case["config"];
    let number = |name: &str| config[name].as_u64().unwrap();
    let quota = Quota::tokens_per(number("refill"), Duration::from_nanos(number("period_ns")))
        .burst(number("capacity"));
    let clock = ManualClock::new();
    let limiter = limiter(quota, number("max_keys") as usize, &clock);
    for ((at, key, cost), right) in calls(&case).into_iter().zip(expected(&case)) {
        clock.set(at);
        assert_eq!(answer(limiter.check_n(text(&key), cost)), right, "{key} at {at}");
        assert!(limiter.len() <= 2);
    }
}

#[test]
fn composite_keys_that_concatenate_alike_have_two_buckets() {
    let case = case("K03-concat-collision");
    let calls = calls(&case);
    let limiter: Limiter<(&str, &str)> = one_each(8);
    for ((_, key, cost), right) in calls.iter().zip(expected(&case)) {
        assert_eq!(answer(limiter.check_n(&(text(&key[0]), text(&key[1])), *cost)), right, "{key}");
    }
    assert_eq!(limiter.len(), 2);
}

#[test]
fn keys_that_differ_in_their_last_byte_have_two_buckets() {
    let case = case("K05-prefix-truncation");
    let limiter: Limiter<str> = one_each(8);
    for ((_, key, cost), right) in calls(&case).into_iter().zip(expected(&case)) {
        assert_eq!(answer(limiter.check_n(text(&key), cost)), right, "{key}");
    }
}

#[test]
fn an_address_is_one_key_however_it_is_written() {
    let case = case("K07-v6-canonical");
    let limiter: Limiter<IpPrefix> = one_each(8);
    for ((_, key, cost), right) in calls(&case).into_iter().zip(expected(&case)) {
        let address: IpAddr = text(&key).parse().unwrap();
        assert_eq!(answer(limiter.check_n(&IpPrefix::new(address, 64), cost)), right, "{address}");
    }
    assert_eq!(limiter.len(), 2);
}

#[test]
fn a_reload_of_the_same_quota_refills_nothing() {
    let case = case("G01-reload-same-config");
    let clock = ManualClock::new();
    let quota = Quota::tokens_per(1, Duration::from_nanos(HOUR)).burst(2);
    let limiter = limiter(quota, 4, &clock);
    let calls = calls(&case);
    let mut answers = vec![answer(limiter.check_n("k", calls[0].2))];
    limiter.reconfigure(quota, Keep::AsIs).unwrap();
    answers.push(answer(limiter.check_n("k", calls[1].2)));
    assert_eq!(answers, expected(&case));
}

#[test]
fn a_larger_burst_adds_the_difference_and_no_refill() {
    let case = case("G03-burst-change-not-refill");
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_day(10), 4, &clock);
    let calls = calls(&case);
    let mut answers = vec![answer(limiter.check_n("k", calls[0].2))];
    limiter.reconfigure(Quota::per_day(10).burst(11), Keep::AsIs).unwrap();
    answers.push(answer(limiter.check_n("k", calls[1].2)));
    assert_eq!(answers, expected(&case));
    assert_eq!(limiter.peek("k"), 1);
    assert_eq!(answer(limiter.check("k")), "A");
}

#[test]
fn a_cost_whose_sum_with_the_used_part_wraps_is_refused() {
    let case = case("X01-u64-sum-wrap");
    let clock = ManualClock::new();
    let limiter = limiter(Quota::window(10, Duration::from_secs(60)), 4, &clock);
    let calls = calls(&case);
    limiter.check_n("k", calls[0].2).unwrap();
    let refusal = limiter.check_n("k", calls[1].2).unwrap_err();
    assert_eq!((refusal.reason, refusal.needed), (Reason::Impossible, 18_446_744_073_709_551_613));
    assert_eq!(limiter.peek("k"), 5);
}

#[test]
fn a_burst_factor_that_is_not_a_number_builds_no_guard() {
    assert_eq!(case("X02-nan-config")["config"]["burst_factor"], "NaN");
    for burst_factor in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0] {
        let velocity =
            VelocityConfig { max_invocations_per_window: Some(5), burst_factor, ..VelocityConfig::default() };
        let agent = AgentVelocityConfig {
            max_requests_per_agent: Some(5),
            burst_factor,
            ..AgentVelocityConfig::default()
        };
        let errors = [
            VelocityGuard::builder(velocity).build().map(|_| ()).unwrap_err(),
            AgentVelocityGuard::builder(agent).build().map(|_| ()).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(
                (error.field, error.value.clone()),
                ("burst_factor", burst_factor.to_string()),
                "{error}"
            );
        }
    }
}

#[test]
fn what_is_left_is_told_in_64_bits() {
    let capacity = case("X05-remaining-u32")["config"]["capacity"].as_u64().unwrap();
    assert_eq!(capacity as u32, 5, "what a careless caller would tell");
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_day(1).burst(capacity), 4, &clock);
    assert_eq!(limiter.peek("k"), capacity);
    assert_eq!(limiter.check("k").unwrap().remaining, capacity - 1);
    assert_eq!(limiter.check_n("k", capacity).unwrap_err().available, capacity - 1);
}

#[test]
fn a_limiter_and_a_limit_set_pass_a_quotas_error_on() {
    let no_period = Quota::tokens_per(5, Duration::ZERO);
    assert_eq!(Limiter::<str>::builder(no_period).build().map(|_| ()).unwrap_err().field, "period");
    let set = LimitSet::builder().limit("good", Quota::per_second(1)).limit("bad", no_period).build();
    assert_eq!(set.map(|_| ()).unwrap_err().field, "period");
}

#[test]
fn an_empty_key_is_a_key() {
    let limiter: Limiter<str> = one_each(4);
    assert_eq!(
        [answer(limiter.check("")), answer(limiter.check("")), answer(limiter.check(" "))],
        ["A", "D", "A"]
    );
}

#[test]
fn a_v4_mapped_address_is_the_v4_address() {
    let limiter: Limiter<IpAddr> = one_each(4);
    let v4 = Ipv4Addr::new(192, 0, 2, 1);
    assert_eq!(answer(limiter.check(&v4.into())), "A");
    assert_eq!(answer(limiter.check(&v4.to_ipv6_mapped().into())), "D");
    // Compatible addresses are other addresses: only mapped ones name the same host.
    assert_eq!(answer(limiter.check(&v4.to_ipv6_compatible().into())), "A");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The kind of K03: no two different pairs or triples of strings share a bucket.
    #[test]
    fn no_two_composite_keys_share_a_bucket(
        pairs in prop::collection::hash_set(("[a0/:\u{0}]{0,3}", "[a0/:\u{0}]{0,3}"), 1..40),
    ) {
        let limiter: Limiter<(&str, &str)> = one_each(64);
        for (a, b) in &pairs {
            prop_assert_eq!(answer(limiter.check(&(a, b))), "A", "({:?}, {:?})", a, b);
        }
        for (a, b) in &pairs {
            prop_assert_eq!(answer(limiter.check(&(a, b))), "D", "({:?}, {:?})", a, b);
        }
        prop_assert_eq!(limiter.len(), pairs.len());
    }

    #[test]
    fn no_two_triples_share_a_bucket(
        triples in prop::collection::hash_set(("[ab]{0,2}", 0..4u16, "[ab]{0,2}"), 1..40),
    ) {
        let limiter: Limiter<(&str, u16, &str)> = one_each(64);
        for (a, b, c) in &triples {
            prop_assert_eq!(answer(limiter.check(&(a, *b, c))), "A");
        }
        prop_assert_eq!(limiter.len(), triples.len());
    }

    /// The kind of K05: long keys that share any prefix or suffix, on both sides of what fits in a cell.
    #[test]
    fn no_two_long_keys_share_a_bucket(
        shared in "[a-z]{0,120}", ends in prop::collection::hash_set("[a-z]{0,6}", 2..30), tail in any::<bool>(),
    ) {
        let limiter: Limiter<str> = one_each(64);
        let keys: Vec<String> =
            ends.iter().map(|end| if tail { format!("{end}-{shared}") } else { format!("{shared}-{end}") }).collect();
        for right in ["A", "D"] {
            for key in &keys {
                prop_assert_eq!(answer(limiter.check(key)), right, "{}", key);
            }
        }
        prop_assert_eq!(limiter.len(), keys.len());
    }

    /// The kind of K07: two addresses are one key exactly if their prefixes agree.
    #[test]
    fn addresses_share_a_bucket_exactly_within_their_prefix(
        first in any::<u128>(), bit in 0..128u32, prefix in 0..=128u8,
    ) {
        let limiter: Limiter<IpPrefix> = one_each(4);
        let other = first ^ (1 << (127 - bit));
        let (first, other) = (Ipv6Addr::from(first), Ipv6Addr::from(other));
        prop_assume!(first.to_ipv4_mapped().is_none() && other.to_ipv4_mapped().is_none());
        prop_assert_eq!(answer(limiter.check(&IpPrefix::new(first.into(), prefix))), "A");
        let right = if bit < u32::from(prefix) { "A" } else { "D" };
        prop_assert_eq!(answer(limiter.check(&IpPrefix::new(other.into(), prefix))), right);
    }

    /// The kind of K01: at any size of the table, who is in keeps exactly what it has, whoever knocks.
    #[test]
    fn a_flood_of_newcomers_changes_nothing_for_those_inside(cap in 1..20usize, knocks in 0..100u32, capacity in 1..9u64) {
        let clock = ManualClock::new();
        let limiter = limiter(Quota::per_day(capacity), cap, &clock);
        for resident in 0..cap {
            limiter.check(&format!("resident {resident}")).unwrap();
        }
        for knock in 0..knocks {
            prop_assert_eq!(answer(limiter.check(&format!("newcomer {knock}"))), "REFUSE table-full");
        }
        prop_assert_eq!(limiter.len(), cap);
        for resident in 0..cap {
            prop_assert_eq!(limiter.peek(&format!("resident {resident}")), capacity - 1);
        }
    }

    /// The kind of G01 and G03: kept as it is, a bucket's debt is what it was, whatever the new capacity and rate.
    #[test]
    fn a_reload_keeps_the_debt_to_the_token(
        before in 1..50u64, after in 0..50u64, drawn in prop::collection::hash_map("[a-e]", 0..50u64, 1..5),
        rates in (0..5u64, 0..5u64), secs in 0..5_000u64,
    ) {
        let clock = ManualClock::at(secs * 1_000_000_000);
        let quota = |rate, burst| Quota::tokens_per(rate, Duration::from_nanos(HOUR)).burst(burst);
        let limiter = limiter(quota(rates.0, before), 8, &clock);
        let drawn: HashMap<String, u64> = drawn.into_iter().map(|(key, cost)| (key, cost % (before + 1))).collect();
        for (key, cost) in &drawn {
            limiter.check_n(key, *cost).unwrap();
        }
        limiter.reconfigure(quota(rates.1, after), Keep::AsIs).unwrap();
        for (key, cost) in &drawn {
            prop_assert_eq!(limiter.peek(key), after.saturating_sub(*cost), "{} owed {}", key, cost);
        }
        let again = limiter.peek("a");
        limiter.reconfigure(quota(rates.1, after), Keep::AsIs).unwrap();
        prop_assert_eq!(limiter.peek("a"), again, "the same quota changes nothing");
    }

    #[test]
    fn a_reload_with_reset_fills_every_bucket_unless_the_quota_is_the_same(
        capacity in 1..50u64, after in 1..50u64, drawn in 0..50u64,
    ) {
        let clock = ManualClock::new();
        let limiter = limiter(Quota::per_day(capacity), 8, &clock);
        let drawn = drawn % (capacity + 1);
        limiter.check_n("k", drawn).unwrap();
        limiter.reconfigure(Quota::per_day(capacity), Keep::Reset).unwrap();
        prop_assert_eq!(limiter.peek("k"), capacity - drawn);
        limiter.reconfigure(Quota::per_day(after), Keep::Reset).unwrap();
        prop_assert_eq!(limiter.peek("k"), if after == capacity { capacity - drawn } else { after });
    }

    /// A share of the capacity stays that share, rounded toward refusing by less than a token.
    #[test]
    fn a_proportional_reload_keeps_the_share(capacity in 1..1_000u64, after in 0..1_000u64, drawn in 0..1_000u64) {
        let clock = ManualClock::new();
        let limiter = limiter(Quota::per_day(capacity), 8, &clock);
        let drawn = drawn % (capacity + 1);
        limiter.check_n("k", drawn).unwrap();
        limiter.reconfigure(Quota::per_day(after), Keep::Proportional).unwrap();
        let share = (capacity - drawn) * after;
        prop_assert!(limiter.peek("k") * capacity <= share, "never more than the share");
        prop_assert!((limiter.peek("k") + 1) * capacity > share, "{} of {}", limiter.peek("k"), after);
    }

    #[test]
    fn a_reload_that_is_refused_changes_nothing(drawn in 0..10u64) {
        let clock = ManualClock::new();
        let limiter = limiter(Quota::per_day(10), 8, &clock);
        limiter.check_n("k", drawn).unwrap();
        for keep in [Keep::AsIs, Keep::Proportional, Keep::Reset] {
            let error = limiter.reconfigure(Quota::tokens_per(5, Duration::ZERO), keep).unwrap_err();
            prop_assert_eq!(error.field, "period");
        }
        prop_assert_eq!(limiter.peek("k"), 10 - drawn);
        clock.set(clock.now() + 24 * HOUR);
        prop_assert_eq!(limiter.peek("k"), 10);
    }

    /// The kind of X01: no sum of two draws in a plan or a bucket wraps.
    #[test]
    fn no_sum_of_costs_wraps(
        first in prop_oneof![any::<u64>(), 0..700u64], second in prop_oneof![any::<u64>(), 0..700u64],
        limit in 1..1_000u64,
    ) {
        let clock = ManualClock::new();
        let set = LimitSet::builder().limit("one", Quota::per_day(limit)).clock(clock).build().unwrap();
        let mut plan = tollgate::Plan::new();
        set.plan(0, "k", first, &mut plan);
        set.plan(0, "k", second, &mut plan);
        let fits = u128::from(first) + u128::from(second) <= u128::from(limit);
        prop_assert_eq!(plan.commit().is_ok(), fits);
        if !fits {
            prop_assert_eq!((set.peek(0, "k"), set.len()), (limit, 0));
        }
    }
}
