//! Real threads on the real engine. Every run is checked with the interval proof: no unit of any bucket has two
//! owners, none is lost, and no admission ends above what its time allowed.

#[path = "support/costed.rs"]
mod costed;
#[path = "support/intervals.rs"]
mod intervals;
#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/race.rs"]
mod race;

use costed::{context, request};
use intervals::{assert_proved, left_after};
use oracle::Line;
use race::{Told, race};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tollgate::guard::{Guard, Planned, VelocityConfig, VelocityGuard};
use tollgate::limiter::Keep;
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
        let clock = ManualClock::new();
        let limiter = limiter(quota, 4, &clock);
        let told = Told::together(race(8, |_| {
            let mut told = Told::on(&clock);
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
    let told = Told::together(race(4, |thread| {
        let mut told = Told::on(&clock);
        for call in 0..2_000 {
            clock.advance(Duration::from_micros(300));
            let cost = (thread + call) as u64 % 5;
            match limiter.check_n("k", cost) {
                Ok(admission) if cost > 0 => told.admitted((), cost, &admission),
                Ok(_) => {}
                Err(_) => told.refused += 1,
            }
        }
        told
    }));
    // 8,000 steps of 300 us at 1,000 a second: 2,400 tokens, less what a full bucket threw away.
    assert!((1_000..=2_420).contains(&told.tokens_of(&())), "{}", told.tokens_of(&()));
    assert!(told.refused > 1_000);
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
    let told = Told::together(race(4, |_| {
        let mut told = Told::on(&clock);
        for _ in 0..2_000 {
            clock.advance(Duration::from_micros(70));
            match limiter.check_n("k", 3) {
                Ok(admission) => told.admitted((), 3, &admission),
                Err(_) => told.refused += 1,
            }
        }
        told
    }));
    // 560 periods, in each of which three draws of three fit.
    assert!((4_000..=5_060).contains(&told.tokens_of(&())), "{}", told.tokens_of(&()));
    assert_proved(told.records, &told.tokens, |()| &line);
}

// ---- two buckets in one cell ----

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
        (0..3).map(|n| (0..4).map(|cost| request(format!("cap-{n}"), cost)).collect()).collect();
    let told = Told::together(race(8, |thread| {
        let mut told = Told::on(&clock);
        for call in 0..600 {
            clock.advance(Duration::from_micros(700));
            let (n, cost) = ((thread + call) % 3, (thread * 7 + call) % 4);
            let mut plan = Plan::new();
            let planned = guard.plan(&context(&requests[n][cost]), &mut plan).unwrap();
            assert_eq!(planned, Planned::InPlan);
            match plan.commit() {
                Ok(admissions) => {
                    assert_eq!(admissions.len(), if cost > 0 { 2 } else { 1 }, "both, or the one that costs");
                    told.admitted((n as u8, "invocations"), 1, &admissions[0]);
                    if let Some(spend) = admissions.get(1) {
                        told.admitted((n as u8, "spend"), cost as u64, spend);
                    }
                }
                Err(_) => told.refused += 1,
            }
        }
        told
    }));
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
    let clock = ManualClock::new();
    let set = limit_set(&lines.each_ref().map(|(quota, _)| *quota), 8, &clock);
    let (a, b, c) = ((0, 0), (1, 0), (2, 0));
    let plans: [&[Bucket]; 4] = [&[a, b], &[b, a], &[c, a, b], &[b, c]];
    let all = race(4, |thread| {
        let (mut told, mut admitted) = (Told::on(&clock), 0u64);
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
    let told = Told::together(race(6, |thread| {
        let mut told = Told::on(&clock);
        let own = (1, thread as u8);
        for call in 0..600 {
            clock.advance(Duration::from_micros(90));
            let cost = 1 + (call + thread) as u64 % 3;
            match call % 3 {
                0 => draw(&set, &[(0, 0), own], cost, &mut told),
                1 => draw(&set, &[own, (0, 0)], cost, &mut told),
                _ => draw(&set, &[own, (0, 0), (1, (thread as u8 + 1) % 6)], cost, &mut told),
            };
        }
        told
    }));
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
    let clock = ManualClock::new();
    let set = limit_set(&[quota], 4, &clock);
    let told = Told::together(race(4, |_| {
        let mut told = Told::on(&clock);
        for _ in 0..150 {
            draw(&set, &[(0, 0), (0, 0)], 1, &mut told);
        }
        told
    }));
    assert_eq!(told.tokens_of(&(0, 0)), 500, "250 plans of two");
    assert_proved(told.records, &told.tokens, |_| &line);
}

// ---- reloads ----

/// Three threads call `work` while a fourth reloads one quota and the other in turn. Returns the sum of what the
/// workers return.
fn race_against_reloads(limiter: &Limiter<str>, quotas: [Quota; 2], work: impl Fn() -> u64 + Sync) -> u64 {
    let running = AtomicUsize::new(3);
    let done = race(4, |thread| {
        if thread > 0 {
            let done = work();
            running.fetch_sub(1, Ordering::Relaxed);
            return done;
        }
        // A bucket that nobody draws on is read through all changes since, so a race of thousands is enough.
        for change in 1..5_000 {
            if running.load(Ordering::Relaxed) == 0 {
                break;
            }
            limiter.reconfigure(quotas[change % 2], Keep::AsIs).unwrap();
            std::thread::yield_now();
        }
        0
    });
    done.into_iter().sum()
}

#[test]
fn a_reload_under_load_forgives_no_debt_and_invents_none() {
    // Two quotas in different units, neither of which refills while the clock stands.
    let quotas = [Quota::per_day(200), Quota::tokens_per(1, Duration::from_secs(7)).burst(250)];
    let limiter = limiter(quotas[0], 4, &ManualClock::new());
    let admitted = race_against_reloads(&limiter, quotas, || {
        (0..1_000).filter(|_| limiter.check("k").is_ok()).count() as u64
    });
    assert!((200..=250).contains(&admitted), "3,000 calls, {admitted} admitted");
    limiter.reconfigure(quotas[1], Keep::AsIs).unwrap();
    assert_eq!(limiter.peek("k"), 250 - admitted);
}

#[test]
fn a_reload_under_load_releases_no_more_than_the_larger_quota() {
    // The same rate in different units and with different bursts: callers meet both at their edge all the time.
    let quotas =
        [Quota::per_second(1_000).burst(20), Quota::tokens_per(7, Duration::from_millis(7)).burst(30)];
    let clock = ManualClock::new();
    let limiter = limiter(quotas[0], 4, &clock);
    let admitted = race_against_reloads(&limiter, quotas, || {
        let call = |_: &u32| {
            clock.advance(Duration::from_micros(250));
            limiter.check("k").is_ok()
        };
        (0..2_000).filter(call).count() as u64
    });
    // 6,000 steps of 250 us.
    assert!((500..=30 + 1_500).contains(&admitted), "{admitted} admitted");
}
