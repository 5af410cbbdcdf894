//! Newcomers, reclaimed buckets, and the gates.

use crate::explore::Model;
use crate::fixture::*;
use tollgate::time::Clock;

pub const MODELS: &[Model] = &[
    Model {
        name: "two-newcomers",
        proves: "two newcomers of one key make one bucket, and both draws land",
        bounds: [3, 4],
        execution: two_newcomers,
    },
    Model {
        name: "last-cell",
        proves: "of two newcomers who want the last cell one gets it whole, and the other leaves nothing",
        bounds: [3, 4],
        execution: last_cell,
    },
    Model {
        name: "insert-against-prune",
        proves: "a bucket that is drawn on while a newcomer prunes it is neither lost nor revived full",
        bounds: [2, 4],
        execution: insert_against_prune,
    },
    Model {
        name: "prune-against-reinsert",
        proves: "a key that is reclaimed and returns at once has one bucket and spends nothing twice",
        bounds: [1, 2],
        execution: prune_against_reinsert,
    },
    Model {
        name: "void-entry",
        proves: "an entry that outlived its cell's life does not lead to the cell before its next life is published",
        bounds: [2, 3],
        execution: void_entry,
    },
    Model {
        name: "rebirth-below",
        proves: "a bucket reclaimed at a later time is not reborn full at an earlier one, whatever clocks say",
        bounds: [3, 4],
        execution: rebirth_below,
    },
    Model {
        name: "gate",
        proves: "a fruitless scan does not close the gate over a bucket that was drawn on meanwhile",
        bounds: [3, 4],
        execution: gate,
    },
    Model {
        name: "given-back",
        proves: "a cell that is given back while another newcomer searches is not overlooked for ever",
        bounds: [1, 2],
        execution: given_back,
    },
    Model {
        name: "refused-newcomer",
        proves: "a refused newcomer's cell goes back, or stays if somebody else drew on it, and is not forgotten",
        bounds: [2, 3],
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
        bounds: [3, 3],
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

fn void_entry() {
    let clock = ManualClock::new();
    let buckets = limiter(4, 2, &clock);
    buckets.check(&1).unwrap();
    clock.advance(TURN);
    // A scan of the old array reclaims what the new one has copied: there the entry stays, and is void.
    let pruning = buckets.clone();
    let pruner = thread::spawn(move || pruning.prune_refilled());
    buckets.rebuild();
    pruner.join().unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&1).unwrap());
    let mine = [buckets.check(&1).unwrap(), buckets.check(&1).unwrap()];
    disjoint(mine.into_iter().chain([thread.join().unwrap()]));
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
    // The bucket that is there already takes ten times as long to refill as the new one.
    let slow = Quota::window(4, TURN * 10);
    let set = LimitSet::builder().bucket_cap(2).clock(clock.clone()).limit("a", slow);
    let set = set.limit("b", per_turn(4)).limit("c", per_turn(4)).build().unwrap();
    let set = Arc::new(set);
    touch(&set, &[0]);
    let other = set.clone();
    // c finds the table full and raises the gates, while b takes the last cell.
    let thread = thread::spawn(move || draw(&other, &[1]).is_ok());
    let three = draw(&set, &[2]).is_ok();
    assert!(three ^ thread.join().unwrap());
    set.audit();
    clock.advance(TURN);
    draw(&set, &[if three { 1 } else { 2 }]).expect("the quick bucket is refilled");
    set.audit();
}

fn given_back() {
    let buckets = limiter(3, 2, &ManualClock::new());
    let (one, two) = (buckets.clone(), buckets.clone());
    // Whoever comes second to key 1 gives its cell back, while key 2 may find the table full; so may one of the
    // others, when the other has a cell in hand and key 2 the second.
    let first = thread::spawn(move || one.check(&1));
    let second = thread::spawn(move || two.check(&2).is_ok());
    let mine = buckets.check(&1);
    let theirs = first.join().unwrap();
    let two = second.join().unwrap();
    assert!(mine.is_ok() || theirs.is_ok());
    let drawn = u64::from(mine.is_ok()) + u64::from(theirs.is_ok());
    disjoint(mine.into_iter().chain(theirs));
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.len()), (3 - drawn, if two { 2 } else { 1 }));
}

fn refused_newcomer() {
    let set = LimitSet::builder().bucket_cap(3).clock(ManualClock::new());
    let set = set.limit("a", Quota::window(2, TURN * 10)).limit("b", per_turn(2)).build().unwrap();
    let set = Arc::new(set);
    touch(&set, &[0]);
    // b is new. Once the plan has made its bucket, a may be exhausted; and b, which refills sooner than any gate
    // knows, may be drawn on before it goes back.
    let other = set.clone();
    let thread = thread::spawn(move || {
        let a = draw(&other, &[0]).is_ok();
        draw(&other, &[1]).unwrap();
        a
    });
    let mine = draw(&set, &[0, 1]).is_ok();
    assert!(mine ^ thread.join().unwrap(), "a has one token");
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (0, if mine { 0 } else { 1 }));
}

fn free_list() {
    let set = limits([2, 2, 1], 3, &ManualClock::new());
    touch(&set, &[2]);
    // Refused for c, after it had cells for a and b in hand: they go back in the order in which they came.
    let refused = |set: &LimitSet| {
        let mut plan = Plan::new();
        set.plan(0, &(), 1, &mut plan);
        set.plan(1, &(), 1, &mut plan);
        plan.next_stage();
        set.plan(2, &(), 1, &mut plan);
        assert!(plan.commit().is_err(), "c has no token");
    };
    refused(&set);
    let other = set.clone();
    let thread = thread::spawn(move || {
        refused(&other);
        draw(&other, &[1]).unwrap();
    });
    let a = draw(&set, &[0]).is_ok();
    thread.join().unwrap();
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (if a { 1 } else { 2 }, 1));
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
