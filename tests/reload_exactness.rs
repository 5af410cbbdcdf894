//! What a reload leaves in a bucket, against exact sums: any quotas, any times, any number of reloads, with or
//! without draws in between.

#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/table_model.rs"]
mod table_model;
#[path = "support/traces.rs"]
mod traces;

use num_bigint::BigInt;
use num_rational::BigRational;
use oracle::{Answer, Line};
use proptest::prelude::*;
use std::time::Duration;
use tollgate::limiter::Keep;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{LimitSet, Limiter, Plan};
use traces::{Limit, limit, pause};

#[derive(Debug, Clone)]
enum Step {
    Draw(u64),
    Reload(Box<Limit>, Keep),
}

fn steps() -> impl Strategy<Value = Vec<(Duration, Step)>> {
    let keep = prop::sample::select(vec![Keep::AsIs, Keep::Proportional, Keep::Reset]);
    let step = prop_oneof![
        3 => (0..45u64).prop_map(Step::Draw),
        2 => (limit(), keep).prop_map(|(limit, keep)| Step::Reload(Box::new(limit), keep)),
    ];
    prop::collection::vec((pause(), step), 1..40)
}

fn whole(n: u64) -> BigRational {
    BigRational::from_integer(n.into())
}

/// The mark on `new` of a bucket whose mark on `old` is `mark`, at `t`. What is owed is rounded up to whole units.
fn converted(mark: &BigRational, old: &Line, new: &Line, keep: Keep, t: u64) -> BigRational {
    let zero = whole(0);
    let debt = (mark - old.released(t)).max(zero.clone());
    let owed = match keep {
        Keep::AsIs => debt,
        Keep::Reset => zero,
        Keep::Proportional if debt > zero && debt >= whole(old.capacity) => whole(new.capacity),
        Keep::Proportional if debt == zero => zero,
        Keep::Proportional => debt / whole(old.capacity) * whole(new.capacity),
    };
    let unit = BigRational::new(BigInt::from(1), new.units_per_token.clone());
    new.released(t) + (owed / &unit).ceil() * unit
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_reload_leaves_what_its_policy_says(first in limit(), trace in steps()) {
        let clock = ManualClock::new();
        let limiter: Limiter<str> = Limiter::builder(first.quota).clock(clock.clone()).build().unwrap();
        let (mut now_in_force, mut mark) = (first, whole(0));
        for (number, (pause, step)) in trace.into_iter().enumerate() {
            clock.advance(pause);
            let now = clock.now();
            match step {
                Step::Draw(cost) => {
                    let exact = now_in_force.line.decide(&mark, now, cost);
                    prop_assert_eq!(limiter.check_n("k", cost).is_ok(), matches!(exact, Answer::Admit(_)), "step {}", number);
                    if let Answer::Admit(end) = exact {
                        mark = end;
                    }
                }
                Step::Reload(new, keep) => {
                    limiter.reconfigure(new.quota, keep).unwrap();
                    if new.quota != now_in_force.quota {
                        mark = converted(&mark, &now_in_force.line, &new.line, keep, now);
                        now_in_force = *new;
                    }
                }
            }
            prop_assert_eq!(limiter.peek("k"), now_in_force.line.available(&mark, now), "step {} at {}", number, now);
        }
    }
}

#[test]
fn a_reload_of_one_limit_of_a_set_leaves_the_others_alone() {
    let limits = LimitSet::builder()
        .limit("first", Quota::per_day(10))
        .limit("second", Quota::per_day(10))
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let mut plan = Plan::new();
    limits.plan(0, "k", 4, &mut plan);
    limits.plan(1, "k", 4, &mut plan);
    plan.commit().unwrap();
    limits.reconfigure(1, Quota::per_day(5), Keep::AsIs).unwrap();
    assert_eq!((limits.peek(0, "k"), limits.peek(1, "k")), (6, 1));
    assert_eq!((limits.peek(0, "other"), limits.peek(1, "other")), (10, 5));
}

#[test]
fn a_proportional_reload_leaves_an_overdrawn_bucket_empty_and_no_emptier() {
    for small in [0, 1] {
        let clock = ManualClock::new();
        let limiter: Limiter<str> =
            Limiter::builder(Quota::per_second(100)).clock(clock.clone()).build().unwrap();
        limiter.check_n("k", 100).unwrap();
        // 100 owed by a bucket of 0 or 1.
        limiter.reconfigure(Quota::per_second(100).burst(small), Keep::AsIs).unwrap();
        limiter.reconfigure(Quota::per_second(100), Keep::Proportional).unwrap();
        assert_eq!(limiter.peek("k"), 0);
        clock.advance(Duration::from_secs(1));
        assert_eq!(limiter.peek("k"), 100, "full after the time that an empty bucket takes");
    }
}

#[test]
fn a_reload_that_fills_buckets_sooner_lets_newcomers_in_sooner() {
    let clock = ManualClock::new();
    let limiter: Limiter<str> =
        Limiter::builder(Quota::per_day(1)).bucket_cap(1).clock(clock.clone()).build().unwrap();
    limiter.check("resident").unwrap();
    // The table now knows that nobody can be let in for a day.
    assert!(limiter.check("newcomer").is_err());
    limiter.reconfigure(Quota::per_second(1), Keep::AsIs).unwrap();
    clock.advance(Duration::from_millis(999));
    assert!(limiter.check("newcomer").is_err());
    clock.advance(Duration::from_millis(1));
    assert!(limiter.check("newcomer").is_ok());
    // And at once, where every bucket starts full.
    assert!(limiter.check("another").is_err());
    limiter.reconfigure(Quota::per_day(1), Keep::Reset).unwrap();
    assert!(limiter.check("another").is_ok());
    assert_eq!(limiter.len(), 1);
}
