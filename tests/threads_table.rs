//! Real threads on one table: floods at the cap, keys that come and go, and plans that are refused. Every run is
//! checked with the interval proof, so that no bucket lost a debit or gave a unit twice on the way.

#[path = "support/intervals.rs"]
mod intervals;
#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/race.rs"]
mod race;

use intervals::assert_proved;
use oracle::Line;
use race::{Told, race, while_watching};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Limiter, Plan, Reason};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

fn per_day(tokens: u64) -> (Quota, Line) {
    (Quota::per_day(tokens), Line::bucket(tokens, DAY, tokens, 64).unwrap())
}

fn limiter(quota: Quota, cap: usize, clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(quota).bucket_cap(cap).clock(clock.clone()).build().unwrap()
}

fn limit_set(limits: &[Quota], cap: usize, clock: &ManualClock) -> LimitSet {
    let named = limits.iter().enumerate();
    named
        .fold(LimitSet::builder(), |builder, (n, &quota)| builder.limit(format!("limit {n}"), quota))
        .bucket_cap(cap)
        .clock(clock.clone())
        .build()
        .unwrap()
}

// ---- the table ----

#[test]
fn a_flood_of_newcomers_never_exceeds_the_cap_and_fills_it() {
    for cap in [1, 2, 16, 100] {
        let (quota, line) = per_day(2);
        let clock = ManualClock::new();
        let limiter = limiter(quota, cap, &clock);
        let most = AtomicUsize::new(0);
        let watch = || {
            let len = limiter.len();
            assert!(len <= cap, "{len} buckets, the cap is {cap}");
            most.fetch_max(len, Ordering::Relaxed);
        };
        let told = while_watching(watch, || {
            Told::together(race(4, |thread| {
                let mut told = Told::on(&clock);
                for call in 0..300u32 {
                    let key = (thread as u32) << 16 | call;
                    match limiter.check(&format!("newcomer {key}")) {
                        Ok(admission) => told.admitted(key, 1, &admission),
                        Err(refusal) => {
                            assert_eq!(refusal.reason, Reason::TableFull);
                            told.refused += 1;
                        }
                    }
                }
                told
            }))
        });
        assert_eq!(told.records.len(), cap, "every bucket was given out, and none twice");
        assert_eq!(limiter.len(), cap);
        assert!(most.load(Ordering::Relaxed) <= cap);
        assert_proved(told.records, &told.tokens, |_| &line);
    }
}

#[test]
fn one_key_from_many_newcomers_has_one_bucket() {
    // Keys on both sides of what fits in a cell.
    for tail in ["", "-0123456789-0123456789-0123456789-0123456789-0123456789"] {
        let (quota, line) = per_day(3);
        let clock = ManualClock::new();
        let limiter = limiter(quota, 1_024, &clock);
        let told = Told::together(race(8, |_| {
            let mut told = Told::on(&clock);
            for key in 0..150u32 {
                match limiter.check(&format!("{key}{tail}")) {
                    Ok(admission) => told.admitted(key, 1, &admission),
                    Err(refusal) => {
                        assert_eq!(refusal.reason, Reason::Exhausted);
                        told.refused += 1;
                    }
                }
            }
            told
        }));
        assert!((0..150).all(|key| told.tokens_of(&key) == 3), "{:?}", told.tokens);
        assert_eq!((told.refused, limiter.len()), (150 * 5, 150));
        assert_proved(told.records, &told.tokens, |_| &line);
    }
}

/// Short-lived keys come and go in a small table, so that it is pruned and rebuilt all the time, while a few keys
/// hold a debt that must survive it.
fn churn(tail: &str) {
    const CAP: usize = 24;
    // Limit 0 is back to full within 2 ms; limit 1 does not refill while the test runs.
    let quotas =
        [Quota::per_second(1_000).burst(2), Quota::tokens_per(0, Duration::from_secs(1)).burst(1_000_000)];
    let lines =
        [Line::bucket(1_000, SECOND, 2, 64).unwrap(), Line::bucket(0, SECOND, 1_000_000, 64).unwrap()];
    let clock = ManualClock::new();
    let set = limit_set(&quotas, CAP, &clock);
    let watch = || {
        let len = set.len();
        assert!(len <= CAP, "{len} buckets, the cap is {CAP}");
    };
    let told = while_watching(watch, || {
        Told::together(race(4, |thread| {
            let mut told = Told::on(&clock);
            for call in 0..1_500u64 {
                clock.advance(Duration::from_micros(150));
                let debtor = call % 8;
                let newcomer = 1_000 + (thread as u64) * 1_000_000 + call / 2;
                let buckets: &[(usize, u64)] = match call % 3 {
                    0 => &[(0, newcomer)],
                    1 => &[(1, debtor)],
                    _ => &[(0, newcomer), (1, debtor)],
                };
                let mut plan = Plan::new();
                for (limit, key) in buckets {
                    set.plan(*limit, format!("{key}{tail}").as_str(), 1, &mut plan);
                }
                match plan.commit() {
                    Ok(admissions) => {
                        for (bucket, admission) in buckets.iter().zip(admissions.iter()) {
                            told.admitted(*bucket, 1, admission);
                        }
                    }
                    Err(_) => told.refused += 1,
                }
            }
            told
        }))
    });
    let proved = assert_proved(told.records.clone(), &told.tokens, |&(limit, _)| &lines[limit]);
    assert!(
        proved.buckets > 4 * CAP,
        "only {} keys were let in: the table was not under load",
        proved.buckets
    );
    for debtor in 0..8 {
        let owed = told.tokens_of(&(1, debtor));
        assert!(owed > 0);
        assert_eq!(set.peek(1, format!("{debtor}{tail}").as_str()), 1_000_000 - owed, "debtor {debtor}");
    }
}

#[test]
fn keys_that_come_and_go_cost_no_other_key_its_debt() {
    churn("");
}

#[test]
fn keys_with_tails_that_come_and_go_cost_no_other_key_its_debt() {
    churn(&"-0123456789".repeat(5));
}

#[test]
fn boxed_keys_that_come_and_go_cost_no_other_key_its_debt() {
    churn(&"-0123456789".repeat(10));
}

#[test]
fn keys_that_return_after_they_were_pruned_continue_on_the_same_line() {
    let (quota, line) = (Quota::per_second(10_000).burst(3), Line::bucket(10_000, SECOND, 3, 64).unwrap());
    let clock = ManualClock::new();
    let limiter = limiter(quota, 4, &clock);
    let told = Told::together(race(4, |thread| {
        let mut told = Told::on(&clock);
        for call in 0..2_000 {
            clock.advance(Duration::from_micros(50));
            // Sixteen keys for four places, each used by all threads.
            let key = (call * 7 + thread * 3) % 16;
            match limiter.check(&key.to_string()) {
                Ok(admission) => told.admitted(key, 1, &admission),
                Err(_) => told.refused += 1,
            }
        }
        told
    }));
    let proved = assert_proved(told.records, &told.tokens, |_| &line);
    assert_eq!(proved.buckets, 16);
}

// ---- refused plans ----

#[test]
fn a_plan_that_was_refused_leaves_no_bucket_and_no_debit() {
    const SHARED: u64 = 40;
    let ((shared, shared_line), (own, own_line)) = (per_day(SHARED), per_day(5));
    let clock = ManualClock::new();
    let set = limit_set(&[shared, own], 2_048, &clock);
    let told = Told::together(race(4, |thread| {
        let mut told = Told::on(&clock);
        for call in 0..200u64 {
            let key = thread as u64 * 1_000 + call;
            let mut plan = Plan::new();
            // The newcomer first, so that its cell is taken before the shared bucket refuses.
            set.plan(1, &key.to_le_bytes()[..], 2, &mut plan);
            set.plan(0, "everybody", 1, &mut plan);
            match plan.commit() {
                Ok(admissions) => {
                    told.admitted((1, key), 2, &admissions[0]);
                    told.admitted((0, 0), 1, &admissions[1]);
                }
                Err(refused) => {
                    assert_eq!(refused.refusal.reason, Reason::Exhausted);
                    assert_eq!(refused.refusal.limit.as_str(), "limit 0");
                    told.refused += 1;
                }
            }
        }
        told
    }));
    assert_eq!((told.tokens_of(&(0, 0)), told.refused as u64), (SHARED, 800 - SHARED));
    assert_eq!(set.len() as u64, 1 + SHARED, "one bucket for each admitted newcomer");
    for key in (0..4).flat_map(|thread| (0..200).map(move |call| thread * 1_000 + call)) {
        let left = if told.tokens.contains_key(&(1, key)) { 3 } else { 5 };
        assert_eq!(set.peek(1, &u64::to_le_bytes(key)[..]), left, "newcomer {key}");
    }
    let line_of = |&(limit, _): &(usize, u64)| if limit == 0 { &shared_line } else { &own_line };
    assert_proved(told.records, &told.tokens, line_of);
}

#[test]
fn a_plan_for_which_there_is_not_room_for_all_leaves_no_bucket() {
    let (quota, line) = per_day(5);
    let clock = ManualClock::new();
    let set = limit_set(&[quota, quota], 31, &clock);
    let told = while_watching(
        || assert!(set.len() <= 31),
        || {
            Told::together(race(4, |thread| {
                let mut told = Told::on(&clock);
                for call in 0..100 {
                    let key = (thread * 100 + call) as u64;
                    let mut plan = Plan::new();
                    set.plan(0, &key.to_le_bytes()[..], 1, &mut plan);
                    set.plan(1, &key.to_le_bytes()[..], 1, &mut plan);
                    match plan.commit() {
                        Ok(admissions) => {
                            told.admitted((0, key), 1, &admissions[0]);
                            told.admitted((1, key), 1, &admissions[1]);
                        }
                        Err(refused) => {
                            assert_eq!(refused.refusal.reason, Reason::TableFull);
                            told.refused += 1;
                        }
                    }
                }
                told
            }))
        },
    );
    assert_proved(told.records.clone(), &told.tokens, |_| &line);
    assert_eq!(set.len(), told.records.len(), "no half of a pair is left");
    // Two by two into 31 places. Cells in other threads' hands count as taken, so a few may have gone unused.
    assert!((2..=30).contains(&set.len()), "{}", set.len());
    // At rest the cap is exact.
    let mut fits = Plan::new();
    let free = 31 - set.len();
    for newcomer in 0..free as u64 {
        set.plan(0, &(10_000 + newcomer).to_le_bytes()[..], 1, &mut fits);
    }
    assert!(fits.commit().is_ok(), "{free} places were free");
    assert_eq!(set.len(), 31);
}
