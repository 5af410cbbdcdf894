//! Limits on how much is under way at once.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tollgate::limiter::{InFlight, InFlightPermit};
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Plan, Reason};

#[test]
fn a_key_has_as_much_under_way_as_it_may_and_each_key_its_own() {
    let limit = InFlight::<str>::builder(3).name("running").build().unwrap();
    let running = [1, 2].map(|units| limit.enter_n("a", units).unwrap());
    let refusal = limit.enter("a").unwrap_err();
    assert_eq!(
        (refusal.limit.as_str(), refusal.reason, refusal.retry_after),
        ("running", Reason::Exhausted, None)
    );
    assert_eq!((refusal.needed, refusal.available), (1, 0));
    let _other = limit.enter_n("b", 3).unwrap();
    drop(running);
    assert_eq!(limit.free("a"), 3);
}

#[test]
fn permits_may_end_in_any_order_and_everything_comes_back() {
    let limit = InFlight::<str>::builder(10).build().unwrap();
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let mut running: Vec<Option<InFlightPermit>> =
            [1, 2, 3, 4].map(|units| limit.enter_n("a", units).ok()).into();
        assert_eq!(limit.free("a"), 0);
        let mut free = 0;
        for index in order {
            free += running[index].take().unwrap().units();
            assert_eq!(limit.free("a"), free);
        }
    }
}

#[test]
fn more_than_the_limit_never_fits_and_nothing_always_does() {
    let limit = InFlight::<str>::builder(2).bucket_cap(1).build().unwrap();
    assert_eq!(limit.enter_n("a", 3).unwrap_err().reason, Reason::Impossible);
    let _both = limit.enter_n("a", 2).unwrap();
    assert_eq!(limit.enter_n("a", 0).unwrap().units(), 0);
    assert_eq!(limit.len(), 1);
}

#[test]
fn a_key_with_anything_under_way_is_not_forgotten_and_one_without_makes_room_at_once() {
    let limit = InFlight::<str>::builder(2).bucket_cap(2).build().unwrap();
    let one = limit.enter("a").unwrap();
    let two = limit.enter("a").unwrap();
    let _b = limit.enter("b").unwrap();
    for _ in 0..10 {
        assert_eq!(limit.enter("c").unwrap_err().reason, Reason::TableFull);
        assert_eq!(limit.enter("a").unwrap_err().reason, Reason::Exhausted);
    }
    drop(one);
    assert_eq!(limit.enter("c").unwrap_err().reason, Reason::TableFull, "another one of a's is under way");
    drop(two);
    let _c = limit.enter("c").unwrap();
}

#[test]
fn a_refusal_of_the_rate_enters_nothing_and_a_refusal_to_enter_draws_nothing() {
    let rates =
        LimitSet::builder().limit("rate", Quota::per_minute(2)).clock(ManualClock::new()).build().unwrap();
    let limit = InFlight::<str>::builder(1).build().unwrap();
    let call = || {
        let mut plan = Plan::new();
        rates.plan(0, "a", 1, &mut plan);
        limit.enter_with("a", 1, plan)
    };
    let (running, admitted) = call().unwrap();
    assert_eq!((admitted.len(), admitted[0].remaining), (2, 1));
    assert_eq!(call().unwrap_err().refusal.limit.as_str(), "in-flight");
    assert_eq!(rates.peek(0, "a"), 1);
    drop(running);
    drop(call().unwrap());
    let refused = call().unwrap_err().refusal;
    assert_eq!((refused.limit.as_str(), refused.retry_after), ("rate", Some(Duration::from_secs(30))));
    assert_eq!(limit.free("a"), 1);
}

#[test]
fn threads_never_have_more_under_way_than_may_be() {
    let limit = InFlight::<str>::builder(3).bucket_cap(2).build().unwrap();
    let under_way = [AtomicU64::new(0), AtomicU64::new(0)];
    let barrier = Barrier::new(4);
    let entered: u64 = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let (limit, under_way, barrier) = (&limit, &under_way, &barrier);
            move || {
                barrier.wait();
                let mut entered = 0;
                for turn in 0..2_000 {
                    let key = (turn + thread) % 2;
                    let units = 1 + (turn % 2) as u64;
                    if let Ok(permit) = limit.enter_n(["a", "b"][key], units) {
                        let now = under_way[key].fetch_add(units, Ordering::SeqCst) + units;
                        assert!(now <= 3, "{now} under way");
                        under_way[key].fetch_sub(units, Ordering::SeqCst);
                        drop(permit);
                        entered += 1;
                    }
                }
                entered
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(entered > 0);
    assert_eq!((limit.free("a"), limit.free("b")), (3, 3));
}

#[test]
fn a_limit_in_bytes_never_runs_out_of_releases() {
    let all = 1 << 45;
    let limit = InFlight::<str>::builder(all).build().unwrap();
    for _ in 0..5_000 {
        drop(limit.enter_n("a", all).unwrap());
    }
    assert_eq!(limit.free("a"), all);
    let error = InFlight::<str>::builder(1 << 46).build().unwrap_err();
    assert_eq!((error.field, error.accepted.as_str()), ("limit", "less than 2^46"));
}
