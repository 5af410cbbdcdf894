//! Newcomers, reclaimed buckets, and the gates.

use crate::explore::Model;
use crate::fixture::*;
use tollgate::time::Clock;

pub const MODELS: &[Model] = &[
    Model {
        name: "two-newcomers",
        proves: "two newcomers of one key make one bucket, and both draws land",
        bounds: [3, 3],
        execution: two_newcomers,
    },
    Model {
        name: "last-cell",
        proves: "of two newcomers who want the last cell one gets it whole, and the other leaves nothing",
        bounds: [3, 3],
        execution: last_cell,
    },
    Model {
        name: "insert-against-prune",
        proves: "a bucket that is drawn on while a newcomer prunes it is neither lost nor revived full",
        bounds: [3, 3],
        execution: insert_against_prune,
    },
    Model {
        name: "prune-against-reinsert",
        proves: "a key that is reclaimed and returns at once has one bucket and spends nothing twice",
        bounds: [2, 2],
        execution: prune_against_reinsert,
    },
    Model {
        name: "rebirth-below",
        proves: "a bucket reclaimed at a later time is not reborn full at an earlier one, whatever clocks say",
        bounds: [3, 3],
        execution: rebirth_below,
    },
    Model {
        name: "gate",
        proves: "a fruitless scan does not close the gate over a bucket that was drawn on meanwhile",
        bounds: [3, 3],
        execution: gate,
    },
    Model {
        name: "refused-newcomer",
        proves: "a refused newcomer's cell goes back, or stays if somebody else drew on it, and is not forgotten",
        bounds: [2, 2],
        execution: refused_newcomer,
    },
    Model {
        name: "free-list",
        proves: "cells that are given back and taken at once are never handed to two",
        bounds: [2, 2],
        execution: free_list,
    },
    Model {
        name: "borrowed-cell",
        proves: "shards that borrow each other's free cells never have more buckets than the cap",
        bounds: [2, 2],
        execution: borrowed_cell,
    },
];

fn two_newcomers() {
    let buckets = limiter(3, 2, &ManualClock::new());
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&1).unwrap());
    let mine = buckets.check(&1).unwrap();
    disjoint([mine, thread.join().unwrap()]);
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.len()), (1, 1));
}

fn last_cell() {
    let buckets = limiter(2, 1, &ManualClock::new());
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&2).is_ok());
    let (one, two) = (buckets.check(&1).is_ok(), thread.join().unwrap());
    assert!(one ^ two);
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.peek(&2)), if one { (1, 2) } else { (2, 1) });
}

fn insert_against_prune() {
    let clock = ManualClock::new();
    let buckets = limiter(2, 1, &clock);
    let before = buckets.check_n(&1, 2).unwrap();
    clock.advance(TURN);
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check_n(&1, 2));
    let two = buckets.check_n(&2, 2).is_ok();
    let one = thread.join().unwrap();
    assert!(one.is_ok() ^ two, "there is one cell");
    disjoint(one.into_iter().chain([before]));
    buckets.audit();
    assert_eq!(buckets.peek(&1), if two { 2 } else { 0 });
}

fn prune_against_reinsert() {
    let clock = ManualClock::new();
    let buckets = limiter(4, 2, &clock);
    let before = buckets.check_n(&1, 4).unwrap();
    clock.advance(TURN);
    let (pruning, other) = (buckets.clone(), buckets.clone());
    let pruner = thread::spawn(move || pruning.prune_refilled());
    let thread = thread::spawn(move || other.check_n(&1, 3));
    let mine = buckets.check_n(&1, 3);
    pruner.join().unwrap();
    let theirs = thread.join().unwrap();
    assert!(mine.is_ok() ^ theirs.is_ok(), "four tokens, three each");
    disjoint(mine.into_iter().chain(theirs).chain([before]));
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.len()), (1, 1));
}

/// A clock that tells one thread an earlier time than the other.
struct TornClock(std::sync::atomic::AtomicU64);
impl Clock for TornClock {
    fn now(&self) -> u64 {
        let time = self.0.load(std::sync::atomic::Ordering::Relaxed);
        if LATE.with(|late| late.get()) { time.max(20) } else { time }
    }
}
loom::thread_local! {
    static LATE: std::cell::Cell<bool> = std::cell::Cell::new(false);
}

fn rebirth_below() {
    let buckets = Limiter::<u8>::builder(per_turn(2))
        .bucket_cap(2)
        .clock(TornClock(std::sync::atomic::AtomicU64::new(0)))
        .build()
        .unwrap();
    let buckets = Arc::new(buckets);
    let before = buckets.check_n(&1, 2).unwrap();
    let pruning = buckets.clone();
    let pruner = thread::spawn(move || {
        LATE.with(|late| late.set(true));
        pruning.prune_refilled();
    });
    let after = buckets.check_n(&1, 2);
    pruner.join().unwrap();
    disjoint(after.into_iter().chain([before]));
    buckets.audit();
}

fn gate() {
    let clock = ManualClock::new();
    let buckets = limiter(4, 2, &clock);
    buckets.check_n(&1, 4).unwrap();
    clock.advance(TURN / 2);
    let other = buckets.clone();
    // Key 3 finds the table full and raises the gates, while key 2 takes the last cell.
    let thread = thread::spawn(move || other.check(&2).is_ok());
    let three = buckets.check(&3).is_ok();
    assert!(three ^ thread.join().unwrap());
    buckets.audit();
    clock.advance(TURN);
    buckets.check(&4).expect("both buckets are refilled");
    buckets.audit();
}

fn refused_newcomer() {
    let clock = ManualClock::new();
    let set = limits([1, 2], 3, &clock);
    draw(&set, &[0]).unwrap();
    // b is new, a is exhausted as soon as the plan looks closely: a is drawn on between look and commit.
    clock.advance(TURN);
    let other = set.clone();
    let thread = thread::spawn(move || draw(&other, &[0]).is_ok());
    let (drawing, mine) = (set.clone(), draw(&set, &[0, 1]));
    let third = draw(&drawing, &[1]);
    assert!(mine.is_ok() ^ thread.join().unwrap(), "a has one token");
    set.audit();
    assert_eq!(set.peek(1, &()), 2 - u64::from(mine.is_ok()) - u64::from(third.is_ok()));
}

fn free_list() {
    let clock = ManualClock::new();
    let buckets = limiter(1, 2, &clock);
    buckets.check(&1).unwrap();
    buckets.check(&2).unwrap();
    clock.advance(TURN);
    buckets.prune_refilled();
    clock.advance(TURN);
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        other.check(&1).is_ok() && {
            other.prune_refilled();
            true
        }
    });
    let (two, three) = (buckets.check(&2).is_ok(), buckets.check(&3).is_ok());
    let one = thread.join().unwrap();
    assert!([one, two, three].into_iter().filter(|ok| *ok).count() >= 2);
    buckets.audit();
}

fn borrowed_cell() {
    let clock = ManualClock::new();
    let buckets = limiter(1, 4, &clock); // two shards of two cells
    for key in 1..=3 {
        buckets.check(&key).unwrap();
    }
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&4).is_ok());
    let five = buckets.check(&5).is_ok();
    let four = thread.join().unwrap();
    assert!(four ^ five, "one cell is left, in whichever shard");
    buckets.audit();
    assert_eq!(buckets.len(), 4);
}
