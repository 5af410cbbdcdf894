//! Real threads on the real engine. Every run is checked with the interval proof: no unit of any bucket has two
//! owners, none is lost, and no admission ends above what its time allowed.

#[path = "support/intervals.rs"]
mod intervals;
#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/race.rs"]
mod race;

use intervals::{assert_proved, left_after};
use oracle::Line;
use race::{Told, race, while_time_passes, while_watching};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate::guard::{
    Capability, Guard, GuardContext, Planned, Scope, ToolCallRequest, ToolGrant, VelocityConfig,
    VelocityGuard,
};
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{LimitSet, Limiter, Plan, Reason};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

fn per_day(tokens: u64) -> (Quota, Line) {
    (Quota::per_day(tokens), Line::bucket(tokens, DAY, tokens, 64).unwrap())
}

fn limiter(quota: Quota, cap: usize, clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(quota).bucket_cap(cap).clock(clock.clone()).build().unwrap()
}

// ---- one bucket ----

#[test]
fn exactly_as_many_callers_are_admitted_as_the_bucket_holds() {
    for capacity in [1, 7, 100, 399] {
        let (quota, line) = per_day(capacity);
        let limiter = limiter(quota, 4, &ManualClock::new());
        let told = Told::together(race(8, |_| {
            let mut told = Told::nothing();
            for _ in 0..50 {
                match limiter.check("k") {
                    Ok(admission) => told.admitted((), 1, &admission),
                    Err(refusal) => {
                        assert_eq!((refusal.reason, refusal.available), (Reason::Exhausted, 0));
                        told.refused += 1;
                    }
                }
            }
            told
        }));
        assert_eq!((told.tokens_of(&()), told.refused as u64), (capacity, 400 - capacity));
        assert_proved(told.records, &told.tokens, |()| &line);
        assert_eq!(limiter.len(), 1);
    }
}

#[test]
fn every_unit_has_one_owner_while_the_bucket_refills() {
    let (quota, line) = (Quota::per_second(1_000).burst(20), Line::bucket(1_000, SECOND, 20, 64).unwrap());
    let clock = ManualClock::new();
    let limiter = limiter(quota, 4, &clock);
    let told = while_time_passes(&clock, Duration::from_micros(130), || {
        Told::together(race(4, |thread| {
            let mut told = Told::nothing();
            for call in 0..2_000 {
                let cost = (thread + call) as u64 % 5;
                match limiter.check_n("k", cost) {
                    Ok(admission) if cost > 0 => told.admitted((), cost, &admission),
                    Ok(_) => {}
                    Err(_) => told.refused += 1,
                }
            }
            told
        }))
    });
    assert!(told.tokens_of(&()) >= 20);
    let left = left_after(&told.records, &(), &line, clock.now());
    assert_proved(told.records, &told.tokens, |()| &line);
    assert_eq!(limiter.peek("k"), left);
}

#[test]
fn a_window_admits_its_limit_in_every_period_to_all_threads_together() {
    let quota = Quota::window(10, Duration::from_millis(1)).anchored_at(Duration::from_micros(300));
    let line = Line::window(10, 1_000_000, 300_000, 64).unwrap();
    let clock = ManualClock::new();
    let limiter = limiter(quota, 4, &clock);
    let told = while_time_passes(&clock, Duration::from_micros(70), || {
        Told::together(race(4, |_| {
            let mut told = Told::nothing();
            for _ in 0..2_000 {
                match limiter.check_n("k", 3) {
                    Ok(admission) => told.admitted((), 3, &admission),
                    Err(_) => told.refused += 1,
                }
            }
            told
        }))
    });
    assert!(told.tokens_of(&()) >= 9);
    assert_proved(told.records, &told.tokens, |()| &line);
}

// ---- two buckets in one cell ----

fn request(capability: &str, cost: u64) -> ToolCallRequest {
    let scope = Scope { grants: vec![ToolGrant::new("srv", "tool").costing(cost, "USD")] };
    ToolCallRequest { capability: Capability { id: capability.into(), scope }, ..ToolCallRequest::default() }
}

fn context(request: &ToolCallRequest) -> GuardContext<'_> {
    GuardContext {
        request,
        scope: &request.capability.scope,
        agent_id: "agent",
        server_id: "srv",
        matched_grant_index: Some(0),
    }
}

/// Eight threads on a few capabilities, each call drawing one invocation and its cost.
fn race_on_pairs(max_invocations: u32, max_spend: u64) -> Told<(u8, &'static str)> {
    let clock = ManualClock::new();
    let config = VelocityConfig {
        max_invocations_per_window: Some(max_invocations),
        max_spend_per_window: Some(max_spend),
        window_secs: 1,
        burst_factor: 1.0,
    };
    let guard = VelocityGuard::builder(config).bucket_cap(8).clock(clock.clone()).build().unwrap();
    let requests: Vec<Vec<_>> =
        (0..3).map(|n| (0..4).map(|cost| request(&format!("cap-{n}"), cost)).collect()).collect();
    let told = while_time_passes(&clock, Duration::from_micros(700), || {
        Told::together(race(8, |thread| {
            let mut told = Told::nothing();
            for call in 0..600 {
                let (n, cost) = ((thread + call) % 3, (thread * 7 + call) % 4);
                let mut plan = Plan::new();
                let planned = guard.plan(&context(&requests[n][cost]), &mut plan).unwrap();
                assert_eq!(planned, Planned::InPlan);
                match plan.commit() {
                    Ok(admissions) => {
                        assert_eq!(
                            admissions.len(),
                            if cost > 0 { 2 } else { 1 },
                            "both, or the one that costs"
                        );
                        told.admitted((n as u8, "invocations"), 1, &admissions[0]);
                        if let Some(spend) = admissions.get(1) {
                            told.admitted((n as u8, "spend"), cost as u64, spend);
                        }
                    }
                    Err(_) => told.refused += 1,
                }
            }
            told
        }))
    });
    let invocations = Line::milli_token(max_invocations.into(), 1, 1.0, 64).unwrap();
    let spend = Line::milli_token(max_spend, 1, 1.0, 64).unwrap();
    let line_of = |&(_, lane): &(u8, &str)| if lane == "spend" { &spend } else { &invocations };
    let proved = assert_proved(told.records.clone(), &told.tokens, line_of);
    assert_eq!(proved.buckets, 6);
    for n in 0..3u8 {
        let remaining = guard.remaining(&context(&requests[usize::from(n)][0]));
        let left = |lane, line| left_after(&told.records, &(n, lane), line, clock.now());
        assert_eq!(remaining.invocations, Some(left("invocations", &invocations)));
        assert_eq!(remaining.spend, Some(left("spend", &spend)));
    }
    assert!(guard.bucket_count() <= 8);
    told
}

#[test]
fn a_pair_moves_both_its_buckets_or_neither_when_calls_are_scarce() {
    let told = race_on_pairs(40, 1_000_000);
    assert!(told.refused > 0);
}

#[test]
fn a_pair_moves_both_its_buckets_or_neither_when_money_is_scarce() {
    let told = race_on_pairs(1_000_000, 60);
    assert!(told.refused > 0);
}

#[test]
fn a_pair_moves_both_its_buckets_or_neither_when_both_are_scarce() {
    let told = race_on_pairs(40, 60);
    assert!(told.refused > 0);
}

// ---- several cells ----

type Bucket = (usize, u8);

/// Commits draws of `cost` on `buckets` and notes them.
fn draw(set: &LimitSet, buckets: &[Bucket], cost: u64, told: &mut Told<Bucket>) -> bool {
    let mut plan = Plan::new();
    for (limit, key) in buckets {
        set.plan(*limit, &[*key][..], cost, &mut plan);
    }
    match plan.commit() {
        Ok(admissions) => {
            assert_eq!(admissions.len(), buckets.len());
            for (bucket, admission) in buckets.iter().zip(admissions.iter()) {
                told.admitted(*bucket, cost, admission);
            }
            true
        }
        Err(_) => {
            told.refused += 1;
            false
        }
    }
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

#[test]
fn plans_over_the_same_cells_in_any_order_are_all_or_nothing() {
    let lines = [per_day(300), per_day(400), per_day(250)];
    let set = limit_set(&lines.each_ref().map(|(quota, _)| *quota), 8, &ManualClock::new());
    let (a, b, c) = ((0, 0), (1, 0), (2, 0));
    let plans: [&[Bucket]; 4] = [&[a, b], &[b, a], &[c, a, b], &[b, c]];
    let all = race(4, |thread| {
        let (mut told, mut admitted) = (Told::nothing(), 0u64);
        for _ in 0..400 {
            admitted += u64::from(draw(&set, plans[thread], 1, &mut told));
        }
        (told, admitted)
    });
    let admitted: Vec<u64> = all.iter().map(|(_, admitted)| *admitted).collect();
    let told = Told::together(all.into_iter().map(|(told, _)| told).collect());
    // Every bucket lost what the plans that name it won.
    assert_eq!(told.tokens_of(&a), admitted[0] + admitted[1] + admitted[2]);
    assert_eq!(told.tokens_of(&b), admitted.iter().sum::<u64>());
    assert_eq!(told.tokens_of(&c), admitted[2] + admitted[3]);
    assert_proved(told.records.clone(), &told.tokens, |&(limit, _)| &lines[limit].1);
    for (limit, (_, line)) in lines.iter().enumerate() {
        assert_eq!(set.peek(limit, &[0u8][..]), left_after(&told.records, &(limit, 0), line, 0));
    }
    // The last token of some bucket of each plan is gone, or the plan would still be admitted.
    for plan in plans {
        assert!(plan.iter().any(|(limit, _)| set.peek(*limit, &[0u8][..]) == 0), "{plan:?}");
    }
    assert_eq!(set.len(), 3);
}

#[test]
fn plans_that_meet_in_one_shared_cell_balance_while_everything_refills() {
    // Limit 0 is one bucket for everybody; limit 1 has one for each thread.
    let quotas = [Quota::per_second(5_000).burst(50), Quota::per_second(2_000).burst(20)];
    let lines = [Line::bucket(5_000, SECOND, 50, 64).unwrap(), Line::bucket(2_000, SECOND, 20, 64).unwrap()];
    let clock = ManualClock::new();
    let set = limit_set(&quotas, 16, &clock);
    let told = while_time_passes(&clock, Duration::from_micros(90), || {
        Told::together(race(6, |thread| {
            let mut told = Told::nothing();
            let own = (1, thread as u8);
            for call in 0..600 {
                let cost = 1 + (call + thread) as u64 % 3;
                match call % 3 {
                    0 => draw(&set, &[(0, 0), own], cost, &mut told),
                    1 => draw(&set, &[own, (0, 0)], cost, &mut told),
                    _ => draw(&set, &[own, (0, 0), (1, (thread as u8 + 1) % 6)], cost, &mut told),
                };
            }
            told
        }))
    });
    assert!(told.refused > 0, "a race in which nothing was scarce proves little");
    let proved = assert_proved(told.records.clone(), &told.tokens, |&(limit, _)| &lines[limit]);
    assert_eq!(proved.buckets, 7);
    for key in 0..6 {
        let left = left_after(&told.records, &(1, key), &lines[1], clock.now());
        assert_eq!(set.peek(1, &[key][..]), left);
    }
}

#[test]
fn two_draws_of_one_plan_on_one_bucket_own_two_intervals() {
    let (quota, line) = per_day(500);
    let set = limit_set(&[quota], 4, &ManualClock::new());
    let told = Told::together(race(4, |_| {
        let mut told = Told::nothing();
        for _ in 0..150 {
            draw(&set, &[(0, 0), (0, 0)], 1, &mut told);
        }
        told
    }));
    assert_eq!(told.tokens_of(&(0, 0)), 500, "250 plans of two");
    assert_proved(told.records, &told.tokens, |_| &line);
}

// ---- the table ----

#[test]
fn a_flood_of_newcomers_never_exceeds_the_cap_and_fills_it() {
    for cap in [1, 2, 16, 100] {
        let (quota, line) = per_day(2);
        let limiter = limiter(quota, cap, &ManualClock::new());
        let most = AtomicUsize::new(0);
        let watch = || {
            let len = limiter.len();
            assert!(len <= cap, "{len} buckets, the cap is {cap}");
            most.fetch_max(len, Ordering::Relaxed);
        };
        let told = while_watching(watch, || {
            Told::together(race(4, |thread| {
                let mut told = Told::nothing();
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
        let limiter = limiter(quota, 1_024, &ManualClock::new());
        let told = Told::together(race(8, |_| {
            let mut told = Told::nothing();
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
        clock.advance(Duration::from_micros(400));
        let len = set.len();
        assert!(len <= CAP, "{len} buckets, the cap is {CAP}");
    };
    let told = while_watching(watch, || {
        Told::together(race(4, |thread| {
            let mut told = Told::nothing();
            for call in 0..1_500u64 {
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
fn long_keys_that_come_and_go_cost_no_other_key_its_debt() {
    churn("-0123456789-0123456789-0123456789-0123456789-0123456789");
}

#[test]
fn keys_that_return_after_they_were_pruned_continue_on_the_same_line() {
    let (quota, line) = (Quota::per_second(10_000).burst(3), Line::bucket(10_000, SECOND, 3, 64).unwrap());
    let clock = ManualClock::new();
    let limiter = limiter(quota, 4, &clock);
    let told = while_time_passes(&clock, Duration::from_micros(50), || {
        Told::together(race(4, |thread| {
            let mut told = Told::nothing();
            for call in 0..2_000 {
                // Sixteen keys for four places, each used by all threads.
                let key = (call * 7 + thread * 3) % 16;
                match limiter.check(&key.to_string()) {
                    Ok(admission) => told.admitted(key, 1, &admission),
                    Err(_) => told.refused += 1,
                }
            }
            told
        }))
    });
    let proved = assert_proved(told.records, &told.tokens, |_| &line);
    assert_eq!(proved.buckets, 16);
}

// ---- refused plans ----

#[test]
fn a_plan_that_was_refused_leaves_no_bucket_and_no_debit() {
    const SHARED: u64 = 40;
    let ((shared, shared_line), (own, own_line)) = (per_day(SHARED), per_day(5));
    let set = limit_set(&[shared, own], 2_048, &ManualClock::new());
    let told = Told::together(race(4, |thread| {
        let mut told = Told::nothing();
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
    let set = limit_set(&[quota, quota], 31, &ManualClock::new());
    let told = while_watching(
        || assert!(set.len() <= 31),
        || {
            Told::together(race(4, |thread| {
                let mut told = Told::nothing();
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
