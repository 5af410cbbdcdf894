//! Keys that may draw nothing until a set time.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;
use tollgate::limiter::Keep;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Limiter, Reason};

fn limiter(quota: Quota, clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(quota).bucket_cap(16).clock(clock.clone()).build().unwrap()
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_penalized_key_draws_nothing_until_the_very_nanosecond_at_which_the_penalty_ends() {
    let clock = ManualClock::at(7);
    let limiter = limiter(Quota::per_second(10), &clock);
    limiter.penalize_until("k", SECOND).unwrap();
    assert_eq!(limiter.penalized_until("k"), Some(SECOND));
    let refusal = limiter.check_n("k", 2).unwrap_err();
    assert_eq!((refusal.reason, refusal.needed, refusal.available), (Reason::Penalized, 2, 10));
    assert_eq!(refusal.retry_after, Some(Duration::from_nanos(SECOND - 7)));
    assert!(refusal.is_temporary());
    assert_eq!(
        refusal.to_string(),
        "limit penalized: this key may draw nothing yet, retry after 999.999993ms"
    );
    clock.set(SECOND - 1);
    assert_eq!(limiter.check("k").unwrap_err().retry_after, Some(Duration::from_nanos(1)));
    clock.set(SECOND);
    assert_eq!(limiter.check("k").unwrap().remaining, 9);
    assert_eq!(limiter.penalized_until("k"), None);
}

#[test]
fn a_penalty_on_one_key_leaves_others_alone() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(10), &clock);
    limiter.penalize_for("k", Duration::from_secs(1)).unwrap();
    limiter.check("other").unwrap();
    assert_eq!(limiter.penalized_until("other"), None);
}

#[test]
fn a_penalty_is_never_shortened() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(10), &clock);
    limiter.penalize_until("k", 5 * SECOND).unwrap();
    limiter.penalize_until("k", 4 * SECOND).unwrap();
    limiter.penalize_for("k", Duration::from_secs(1)).unwrap();
    assert_eq!(limiter.penalized_until("k"), Some(5 * SECOND));
    limiter.penalize_until("k", 6 * SECOND).unwrap();
    assert_eq!(limiter.penalized_until("k"), Some(6 * SECOND));
}

#[test]
fn a_time_that_is_past_or_now_is_no_penalty_and_takes_no_memory() {
    let clock = ManualClock::at(SECOND);
    let limiter = limiter(Quota::per_second(10), &clock);
    let memory = limiter.memory_bytes();
    limiter.penalize_until("k", SECOND - 1).unwrap();
    limiter.penalize_until("k", SECOND).unwrap();
    limiter.penalize_for("k", Duration::ZERO).unwrap();
    limiter.check("k").unwrap();
    assert_eq!(limiter.memory_bytes(), memory);
    limiter.penalize_until("k", SECOND + 1).unwrap();
    assert!(limiter.memory_bytes() > memory);
}

#[test]
fn the_wait_is_the_longer_of_the_penalty_and_the_buckets_own() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(1).burst(4), &clock);
    limiter.check_n("k", 4).unwrap();
    limiter.penalize_for("k", Duration::from_secs(2)).unwrap();
    let wait = |cost| limiter.check_n("k", cost).unwrap_err();
    assert_eq!((wait(1).reason, wait(1).retry_after), (Reason::Penalized, Some(Duration::from_secs(2))));
    assert_eq!((wait(3).reason, wait(3).retry_after), (Reason::Penalized, Some(Duration::from_secs(3))));
    assert_eq!(wait(5).reason, Reason::Impossible);
    clock.advance(Duration::from_secs(2));
    assert_eq!(limiter.peek("k"), 2, "the bucket refills under a penalty");
    assert_eq!((wait(3).reason, wait(3).retry_after), (Reason::Exhausted, Some(Duration::from_secs(1))));
}

#[test]
fn a_limit_that_never_refills_promises_nothing_after_the_penalty() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::tokens_per(0, Duration::from_secs(1)).burst(1), &clock);
    limiter.check("k").unwrap();
    limiter.penalize_for("k", Duration::from_secs(2)).unwrap();
    let refusal = limiter.check("k").unwrap_err();
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Penalized, None));
    assert_eq!(refusal.to_string(), "limit penalized: this key may draw nothing yet");
}

#[test]
fn a_peek_goes_on_under_a_penalty() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(10), &clock);
    limiter.penalize_for("k", Duration::from_secs(2)).unwrap();
    assert_eq!(limiter.check_n("k", 0).unwrap().remaining, 10);
    assert_eq!(limiter.peek("k"), 10);
    assert_eq!(limiter.len(), 0, "a penalty makes no bucket of the limit");
}

#[test]
fn a_penalty_in_force_is_not_dropped_for_another_and_one_that_is_over_makes_room() {
    let clock = ManualClock::new();
    let limiter = Limiter::<u32>::builder(Quota::per_second(10)).bucket_cap(2).clock(clock.clone());
    let limiter = limiter.name("calls").build().unwrap();
    limiter.penalize_until(&1, 10).unwrap();
    limiter.penalize_until(&2, 20).unwrap();
    let full = limiter.penalize_until(&3, 30).unwrap_err();
    assert_eq!((full.reason, full.limit.as_str()), (Reason::TableFull, "calls"));
    assert!(limiter.check(&3).is_ok(), "the third is not penalized");
    limiter.penalize_until(&1, 15).unwrap();
    clock.set(14);
    assert!(limiter.penalize_until(&3, 30).is_err());
    assert_eq!([1, 2, 3].map(|key| limiter.penalized_until(&key)), [Some(15), Some(20), None]);
    clock.set(15);
    limiter.penalize_until(&3, 30).unwrap();
    assert_eq!([1, 2, 3].map(|key| limiter.penalized_until(&key)), [None, Some(20), Some(30)]);
}

#[test]
fn a_penalty_outlives_a_change_of_the_quota() {
    let clock = ManualClock::new();
    let limiter = limiter(Quota::per_second(10), &clock);
    limiter.penalize_until("k", SECOND).unwrap();
    limiter.reconfigure(Quota::per_second(100), Keep::Reset).unwrap();
    assert_eq!(limiter.check("k").unwrap_err().reason, Reason::Penalized);
}

#[test]
fn a_penalty_for_ever_is_cut_to_146_years_and_a_clock_past_all_lines_is_told_so() {
    let clock = ManualClock::at(5);
    let limiter = limiter(Quota::per_second(10), &clock);
    limiter.penalize_until("k", u64::MAX).unwrap();
    assert_eq!(limiter.penalized_until("k"), Some(5 + (1 << 62)));
    limiter.penalize_for("other", Duration::MAX).unwrap();
    assert_eq!(limiter.penalized_until("other"), Some(5 + (1 << 62)));
    clock.set(u64::MAX - 1);
    assert_eq!(limiter.penalized_until("k"), None);
    assert_eq!(limiter.penalize_until("k", u64::MAX).unwrap_err().reason, Reason::PastHorizon);
}

#[test]
fn of_penalties_that_come_together_the_latest_end_counts_and_is_not_passed() {
    for round in 0..200 {
        let clock = ManualClock::at(1_000);
        let limiter = limiter(Quota::per_second(10), &clock);
        thread::scope(|scope| {
            for thread in 0..4u64 {
                let (limiter, clock) = (&limiter, &clock);
                scope.spawn(move || {
                    for step in 0..50 {
                        limiter.penalize_until("k", 2_000 + (step * 7 + thread * 13) % 300).unwrap();
                        clock.advance(Duration::from_nanos(1));
                    }
                });
            }
        });
        let latest = (0..4).flat_map(|t| (0..50).map(move |s| 2_000 + (s * 7 + t * 13) % 300)).max();
        assert_eq!(limiter.penalized_until("k"), latest, "round {round}");
    }
}

#[derive(Debug, Clone)]
enum Step {
    Penalize(u8, u64),
    Draw(u8, u64),
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0u8..6;
    prop::collection::vec(
        prop_oneof![
            (key.clone(), 0u64..4_000).prop_map(|(key, until)| Step::Penalize(key, until)),
            (key, 1u64..5).prop_map(|(key, cost)| Step::Draw(key, cost)),
            (0u64..300).prop_map(Step::Advance),
        ],
        1..120,
    )
}

proptest! {
    /// Against a map of ends, and a limiter without penalties that sees only the draws that no penalty stops.
    #[test]
    fn any_history_of_penalties_refuses_as_a_map_of_their_ends_does(steps in steps(), cap in 2usize..8) {
        let clock = ManualClock::new();
        let quota = Quota::tokens_per(1, Duration::from_nanos(50)).burst(4);
        let limiter = Limiter::<u8>::builder(quota).bucket_cap(cap).clock(clock.clone()).build().unwrap();
        let plain = Limiter::<u8>::builder(quota).bucket_cap(cap).clock(clock.clone()).build().unwrap();
        let mut ends: BTreeMap<u8, u64> = BTreeMap::new();
        for step in steps {
            let now = clock.now();
            ends.retain(|_, end| *end > now);
            match step {
                Step::Advance(by) => clock.advance(Duration::from_nanos(by)),
                Step::Penalize(key, until) => {
                    let answer = limiter.penalize_until(&key, until);
                    let room = until <= now || ends.contains_key(&key) || ends.len() < cap;
                    prop_assert_eq!(answer.is_ok(), room);
                    if room && until > now {
                        let end = ends.entry(key).or_default();
                        *end = until.max(*end);
                    }
                }
                Step::Draw(key, cost) => match ends.get(&key) {
                    None => prop_assert_eq!(limiter.check_n(&key, cost), plain.check_n(&key, cost)),
                    Some(end) => {
                        let refusal = limiter.check_n(&key, cost).unwrap_err();
                        if cost > 4 {
                            prop_assert_eq!(refusal.reason, Reason::Impossible);
                        } else {
                            prop_assert_eq!(refusal.reason, Reason::Penalized);
                            prop_assert!(refusal.retry_after >= Some(Duration::from_nanos(end - now)));
                        }
                    }
                },
            }
            for key in 0..6 {
                let end = ends.get(&key).copied().filter(|&end| end > clock.now());
                prop_assert_eq!(limiter.penalized_until(&key), end);
            }
        }
    }
}
