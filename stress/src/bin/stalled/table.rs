//! A thread stops in the middle of an insert, a prune, a rebuild or a reconfiguration.

use crate::Scenario;
use crate::ledger::{Bucket, Ledger};
use crate::limit::{Limit, bucket, window};
use crate::random::Random;
use crate::stop::{for_ever, others, stop_after, stop_at};
use std::time::Duration;
use tollgate::limiter::Keep;
use tollgate::stall::Point;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Limiter, Plan, Reason};

const CAP: usize = 6;
const KEYS: usize = 40;
/// A key that only a stopped thread draws on.
const STOPPED: u32 = 1_000;
/// A window of [`limit`].
const TURN: Duration = Duration::from_millis(1);

fn limit() -> Limit {
    window(2, 1_000_000)
}

type Buckets = Limiter<u32>;

fn buckets(clock: &ManualClock) -> &'static Buckets {
    for_ever(Limiter::builder(limit().quota).bucket_cap(CAP).clock(clock.clone()).build().expect("a limiter"))
}

pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    for point in [Point::InHand, Point::Written, Point::Published] {
        all.push(Scenario::new(format!("newcomer stops at {point:?}"), move || newcomer(point)));
    }
    all.push(Scenario::new(
        "newcomer stops at Published, and others draw on its bucket",
        published_and_drawn_on,
    ));
    for point in [Point::GivingBack, Point::GivenBack] {
        all.push(Scenario::new(format!("refused newcomer stops at {point:?}"), move || given_back(point)));
    }
    for (point, nth, stuck) in
        [(Point::Refilled, 1, 0), (Point::Refilled, 3, 0), (Point::Reclaimed, 1, 1), (Point::Reclaimed, 3, 1)]
    {
        let name = format!("pruner stops at {point:?} {nth}");
        all.push(Scenario::new(name, move || pruner(point, nth, stuck)));
    }
    for (point, nth) in [
        (Point::Passed, 1),
        (Point::Passed, 7),
        (Point::Passed, 16),
        (Point::Copied, 1),
        (Point::Replaced, 1),
        (Point::Copied, 3),
        (Point::Replaced, 3),
    ] {
        let name = format!("rebuilder stops at {point:?} {nth}");
        all.push(Scenario::new(name, move || rebuilder(point, nth)));
    }
    all.push(Scenario::new("reconfiguration stops at Linked", reconfiguration));
    all
}

/// Three threads flood the table with keys while time goes on, and all come to their end. The proof then judges what
/// they were told; the cap held all the while.
fn others_finish(buckets: &Buckets, clock: &ManualClock, also: Option<u32>) {
    let ledger = Ledger::together(others(3, |thread| {
        let mut random = Random::new(thread as u64);
        let mut ledger = Ledger::default();
        for call in 0..600 {
            let key = match also {
                Some(key) if random.one_in(4) => key,
                _ => random.below(KEYS) as u32,
            };
            match buckets.check(&key) {
                Ok(admission) => ledger.admitted(&[((0, 0, key), 1)], &[admission]),
                Err(_) => ledger.refused += 1,
            }
            if call % 5 == 0 {
                clock.advance(Duration::from_micros(300));
            }
            if call % 50 == 0 {
                buckets.prune_refilled();
            }
            let len = buckets.len();
            assert!(len <= CAP, "{len} buckets, the cap is {CAP}");
        }
        ledger
    }));
    assert!(ledger.len() > 300, "only {} admissions", ledger.len());
    let peek = |bucket: &Bucket| buckets.peek(&bucket.2);
    let limit = limit();
    ledger
        .check(|_| &limit.line, |_| clock, peek, &mut Random::new(1))
        .unwrap_or_else(|wrong| panic!("{wrong}"));
}

/// At rest, with every bucket refilled: how many newcomers find room before the table is full.
fn room(buckets: &Buckets, clock: &ManualClock) -> usize {
    clock.advance(3 * TURN);
    for newcomer in 0..=CAP {
        if let Err(refusal) = buckets.check(&(2_000 + newcomer as u32)) {
            assert_eq!(refusal.reason, Reason::TableFull);
            assert!(buckets.len() <= CAP);
            return newcomer;
        }
    }
    panic!("more buckets than the cap");
}

fn newcomer(point: Point) {
    let clock = ManualClock::new();
    let buckets = buckets(&clock);
    stop_at(point, 1, move || drop(buckets.check(&STOPPED)));
    others_finish(buckets, &clock, None);
    assert_eq!(room(buckets, &clock), CAP - 1, "all but the cell in the stopped thread's hands");
}

/// A published bucket is everybody's: once drawn on it can be pruned, and its cell serves others.
fn published_and_drawn_on() {
    let clock = ManualClock::new();
    let buckets = buckets(&clock);
    stop_at(Point::Published, 1, move || drop(buckets.check(&STOPPED)));
    others_finish(buckets, &clock, Some(STOPPED));
    assert_eq!(room(buckets, &clock), CAP);
}

/// A plan makes a bucket, finds the other one dry meanwhile, and stops while it gives the new one back.
fn given_back(point: Point) {
    let clock = ManualClock::new();
    let names = ["a", "b"].into_iter();
    let builder = names.fold(LimitSet::builder(), |builder, name| builder.limit(name, limit().quota));
    let set: &'static LimitSet =
        for_ever(builder.bucket_cap(CAP).clock(clock.clone()).build().expect("a set"));
    let draw = move |draws: &[(usize, u32, u64)]| {
        let mut plan = Plan::new();
        draws.iter().for_each(|&(limit, key, cost)| set.plan(limit, &key, cost, &mut plan));
        plan.commit().map(|admissions| admissions.to_vec()).map_err(|refused| refused.refusal.reason)
    };
    draw(&[(1, 1, 1)]).expect("a fresh bucket");
    let drain = move |here: Point| {
        if here == Point::Published {
            std::thread::spawn(move || draw(&[(1, 1, 1)]).expect("one token is left"))
                .join()
                .expect("a draw");
        }
    };
    stop_after(point, 1, drain, move || drop(draw(&[(0, STOPPED, 1), (1, 1, 1)])));
    assert_eq!(set.peek(0, &STOPPED), 2, "nothing was taken from the bucket that was given back");
    assert_eq!(draw(&[(1, 1, 1)]), Err(Reason::Exhausted), "what was drained stays drained");
    // The bucket that was drained, the cell that is being given back, and room for the others.
    let room = (0..CAP as u32).filter(|&key| draw(&[(0, key, 1)]).is_ok()).count();
    assert_eq!(room, CAP - 2);
    assert!(set.len() <= CAP);
}

fn pruner(point: Point, nth: usize, stuck: usize) {
    let clock = ManualClock::new();
    let buckets = buckets(&clock);
    for key in 0..CAP as u32 {
        buckets.check(&(500 + key)).expect("room for as many as the cap");
    }
    clock.advance(TURN);
    stop_at(point, nth, move || {
        buckets.prune_refilled();
    });
    others_finish(buckets, &clock, None);
    assert_eq!(room(buckets, &clock), CAP - stuck);
}

/// Newcomers use up the directory's slots, and one of them stops while it replaces the directory.
fn rebuilder(point: Point, nth: usize) {
    let clock = ManualClock::new();
    let buckets = buckets(&clock);
    let time = clock.clone();
    stop_at(point, nth, move || {
        for key in 0..2_000 {
            let _ = buckets.check(&(10_000 + key));
            time.advance(TURN);
        }
    });
    // It may have stopped with a free cell in hand, for whose key it wanted the slot.
    others_finish(buckets, &clock, None);
    let room = room(buckets, &clock);
    assert!(room == CAP || room == CAP - 1, "{room}");
}

/// Whoever changes a limit holds the lock that orders changes, so other changes wait; decisions do not.
fn reconfiguration() {
    let clock = ManualClock::new();
    let (small, large) = (bucket(1, 10_000, 3), bucket(1, 10_000, 9));
    let limiter: &'static Buckets = for_ever(
        Limiter::builder(small.quota).bucket_cap(CAP).clock(clock.clone()).build().expect("a limiter"),
    );
    let before = limiter.check_n(&1, 3).expect("a fresh bucket");
    stop_at(Point::Linked, 1, move || limiter.reconfigure(large.quota, Keep::AsIs).expect("a change"));
    let mut first = Ledger::default();
    first.admitted(&[((0, 0, 1), 3)], &[before]);
    let mut ledgers = others(3, |thread| {
        let mut random = Random::new(thread as u64);
        let mut ledger = Ledger::default();
        for _ in 0..500 {
            let key = random.below(5) as u32;
            match limiter.check(&key) {
                Ok(admission) => ledger.admitted(&[((0, 0, key), 1)], &[admission]),
                Err(_) => ledger.refused += 1,
            }
            clock.advance(Duration::from_micros(2));
        }
        ledger
    });
    ledgers.push(first);
    let ledger = Ledger::together(ledgers);
    let line = bucket(1, 10_000, 9).line;
    let peek = |bucket: &Bucket| limiter.peek(&bucket.2);
    ledger.check(|_| &line, |_| &clock, peek, &mut Random::new(1)).unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(ledger.len() > 60, "only {} admissions", ledger.len());
}
