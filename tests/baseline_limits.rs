//! The limiters behind one lock: their own rules, apart from the guards.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tollgate::Reason;
use tollgate::baseline::{LimitSet, Limiter};
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};

fn two_limits(clock: &ManualClock, bucket_cap: usize) -> LimitSet {
    LimitSet::builder()
        .limit("client", Quota::per_second(10))
        .limit("everybody", Quota::per_second(4))
        .bucket_cap(bucket_cap)
        .clock(clock.clone())
        .build()
        .unwrap()
}

#[test]
fn an_admission_owns_an_interval_that_starts_where_the_last_one_ended() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(3)).clock(clock.clone()).build().unwrap();
    clock.advance(Duration::from_secs(2));
    let first = limiter.check_n("alice", 2).unwrap();
    let second = limiter.check("alice").unwrap();
    assert_eq!((first.at, first.remaining, second.remaining), (2_000_000_000, 1, 0));
    assert_eq!((first.to - first.from, second.from), (2 * (second.to - second.from), first.to));
    assert_eq!((limiter.peek("alice"), limiter.peek("bob"), limiter.len()), (0, 3, 1));
}

#[test]
fn a_cost_of_zero_is_admitted_from_an_empty_bucket_and_makes_none() {
    let limiter = Limiter::builder(Quota::per_second(1)).clock(ManualClock::new()).build().unwrap();
    let peek = limiter.check_n("alice", 0).unwrap();
    assert_eq!((peek.from, peek.remaining, limiter.is_empty()), (peek.to, 1, true));
    limiter.check("alice").unwrap();
    assert_eq!(limiter.check_n("alice", 0).unwrap().remaining, 0);
}

#[test]
fn a_set_takes_all_draws_or_none() {
    let limits = two_limits(&ManualClock::new(), 100);
    let admissions = limits.draw(&[(0, "alice", 3), (1, "", 4)]).unwrap();
    assert_eq!(admissions.iter().map(|a| a.remaining).collect::<Vec<_>>(), [7, 0]);
    let refusal = limits.draw(&[(0, "bob", 1), (1, "", 1)]).unwrap_err();
    assert_eq!((refusal.limit.as_str(), refusal.reason), ("everybody", Reason::Exhausted));
    assert_eq!((limits.peek(0, "bob"), limits.len()), (10, 2), "no bucket for bob");
}

#[test]
fn draws_on_one_bucket_are_summed() {
    let limits = two_limits(&ManualClock::new(), 100);
    let refusal = limits.draw(&[(0, "alice", 6), (0, "alice", 5)]).unwrap_err();
    assert_eq!((refusal.reason, refusal.needed), (Reason::Impossible, 11));
    let overflow = limits.draw(&[(0, "alice", u64::MAX), (0, "alice", 1)]).unwrap_err();
    assert_eq!(overflow.reason, Reason::Impossible);
    assert!(limits.is_empty());
    let parts = limits.draw(&[(0, "alice", 6), (0, "bob", 1), (0, "alice", 0), (0, "alice", 4)]).unwrap();
    assert_eq!(parts.len(), 3, "a cost of 0 owns nothing");
    assert_eq!((parts[0].to, parts[0].remaining, parts[2].remaining), (parts[2].from, 4, 0));
    assert_eq!((limits.peek(0, "alice"), limits.peek(0, "bob")), (0, 9));
}

#[test]
fn impossible_comes_before_exhausted_and_exhausted_before_a_full_table() {
    let limits = two_limits(&ManualClock::new(), 1);
    limits.draw(&[(1, "", 4)]).unwrap();
    let reason = |draws: &[(usize, &str, u64)]| limits.draw(draws).unwrap_err().reason;
    assert_eq!(reason(&[(1, "", 1), (0, "alice", 11)]), Reason::Impossible);
    assert_eq!(reason(&[(0, "alice", 1), (1, "", 1)]), Reason::Exhausted);
    assert_eq!(reason(&[(0, "alice", 1)]), Reason::TableFull);
    assert!(limits.draw(&[(0, "alice", 0)]).is_ok(), "a peek needs no room");
}

#[test]
fn limits_with_one_key_have_a_bucket_each() {
    let limits = two_limits(&ManualClock::new(), 100);
    limits.draw(&[(0, "key", 1), (1, "key", 1)]).unwrap();
    assert_eq!((limits.peek(0, "key"), limits.peek(1, "key"), limits.len()), (9, 3, 2));
}

#[test]
fn a_full_table_forgets_what_is_refilled_only_when_it_needs_room() {
    let clock = ManualClock::new();
    let limiter = Limiter::builder(Quota::per_second(1)).bucket_cap(2).clock(clock.clone()).build().unwrap();
    limiter.check("a").unwrap();
    clock.advance(Duration::from_millis(500));
    limiter.check("b").unwrap();
    assert_eq!(limiter.check("c").unwrap_err().reason, Reason::TableFull);
    clock.advance(Duration::from_millis(500));
    assert_eq!(limiter.len(), 2);
    limiter.check("c").unwrap();
    assert_eq!((limiter.len(), limiter.peek("b")), (2, 0), "a went, b stayed");
    clock.advance(Duration::from_secs(1));
    assert_eq!((limiter.prune_refilled(), limiter.len()), (2, 0));
}

/// A clock that can be set back, and can be told to panic.
#[derive(Clone, Default)]
struct Unreliable {
    now: Arc<AtomicU64>,
    broken: Arc<AtomicBool>,
}

impl Clock for Unreliable {
    fn now(&self) -> u64 {
        assert!(!self.broken.load(Ordering::Relaxed), "the clock is broken");
        self.now.load(Ordering::Relaxed)
    }
    fn granularity(&self) -> u64 {
        1_000_000
    }
}

#[test]
fn a_clock_that_panics_leaves_the_limiter_usable_and_undrained() {
    let clock = Unreliable::default();
    let limiter = Limiter::builder(Quota::per_second(2)).clock(clock.clone()).build().unwrap();
    limiter.check("alice").unwrap();
    clock.broken.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| limiter.check("alice"))).is_err());
    clock.broken.store(false, Ordering::Relaxed);
    assert_eq!(limiter.peek("alice"), 1);
    limiter.check("alice").unwrap();
}

#[test]
fn a_wait_hint_makes_up_for_a_late_clock() {
    let limiter = Limiter::builder(Quota::per_second(1)).clock(Unreliable::default()).build().unwrap();
    limiter.check("alice").unwrap();
    let wait = limiter.check("alice").unwrap_err().retry_after;
    assert_eq!(wait, Some(Duration::from_millis(1_001)));
}

#[test]
fn a_clock_that_steps_back_does_not_let_a_forgotten_bucket_pay_twice() {
    let clock = Unreliable::default();
    let limiter = Limiter::builder(Quota::per_second(1)).bucket_cap(1).clock(clock.clone()).build().unwrap();
    limiter.check("alice").unwrap();
    clock.now.store(1_000_000_000, Ordering::Relaxed);
    limiter.check("bob").unwrap(); // alice's bucket was refilled, and is forgotten
    clock.now.store(0, Ordering::Relaxed);
    assert_eq!(limiter.check("bob").unwrap_err().retry_after, Some(Duration::from_millis(1_001)));
    assert_eq!(limiter.check("alice").unwrap_err().reason, Reason::TableFull);
}

#[test]
fn what_cannot_be_built_says_what_is_accepted() {
    let no_room = Limiter::<str>::builder(Quota::per_second(1)).bucket_cap(0).build().err().unwrap();
    assert_eq!(no_room.to_string(), "bucket_cap is 0, accepted: 1 to 16777216");
    let no_period = LimitSet::builder().limit("x", Quota::tokens_per(1, Duration::ZERO)).build().err();
    assert_eq!(no_period.unwrap().field, "period");
}
