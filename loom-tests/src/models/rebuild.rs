//! Directories that are rebuilt under lookups, inserts and draws.

use crate::explore::Model;
use crate::fixture::*;

pub const MODELS: &[Model] = &[
    Model {
        name: "insert-against-rebuild",
        proves: "a key inserted while its directory is rebuilt is found afterwards, once",
        bounds: [3, 3],
        execution: insert_against_rebuild,
    },
    Model {
        name: "draw-against-rebuild",
        proves: "a draw during a rebuild is neither lost nor doubled",
        bounds: [2, 3],
        execution: draw_against_rebuild,
    },
    Model {
        name: "recycled-array",
        proves: "a lookup that sleeps through two rebuilds of its array still finds its key",
        bounds: [4, 5],
        execution: recycled_array,
    },
    Model {
        name: "two-rebuilds",
        proves: "rebuilds at once, one after the other, lose nothing and share no array",
        bounds: [2, 3],
        execution: two_rebuilds,
    },
    Model {
        name: "scan-against-rebuild",
        proves: "a scan that overlaps a rebuild does not close the gate over a bucket of the new directory",
        bounds: [3, 3],
        execution: scan_against_rebuild,
    },
    Model {
        name: "crowded",
        proves: "inserts that find the directory crowded rebuild it together, and all keys are there",
        bounds: [1, 2],
        execution: crowded,
    },
];

fn insert_against_rebuild() {
    // A third cell, so that both threads can hold one while they settle whose is published.
    let buckets = limiter(3, 3, &ManualClock::new());
    buckets.check(&2).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        other.rebuild();
        other.check(&1).unwrap()
    });
    let mine = buckets.check(&1).unwrap();
    disjoint([mine, thread.join().unwrap()]);
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.peek(&2)), (1, 2));
}

fn draw_against_rebuild() {
    let set = limits([9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let other = set.clone();
    // The draw is a plan's, so the rebuild may find its cells live or reserved.
    let thread = thread::spawn(move || {
        other.rebuild();
        other.rebuild();
        draw(&other, &[0]).unwrap()[0]
    });
    let mine = draw(&set, &[0, 1]).unwrap()[0];
    disjoint([mine, thread.join().unwrap()]);
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &()), set.len()), (6, 7, 2));
}

fn recycled_array() {
    let buckets = limiter(2, 2, &ManualClock::new());
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        other.rebuild();
        other.rebuild();
    });
    assert_eq!(buckets.peek(&1), 1, "the bucket was there all the time");
    thread.join().unwrap();
    buckets.audit();
}

fn two_rebuilds() {
    let buckets = limiter(3, 2, &ManualClock::new());
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        other.rebuild();
        other.rebuild();
    });
    buckets.rebuild();
    buckets.rebuild();
    thread.join().unwrap();
    buckets.audit();
    buckets.check(&1).unwrap();
    assert_eq!((buckets.peek(&1), buckets.len()), (1, 1));
}

fn scan_against_rebuild() {
    let clock = ManualClock::new();
    let buckets = limiter(1, 3, &clock);
    buckets.check(&1).unwrap();
    clock.advance(TURN);
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        other.rebuild();
        other.check(&2).unwrap();
    });
    buckets.prune_refilled();
    thread.join().unwrap();
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.peek(&2)), (1, 0));
}

fn crowded() {
    let clock = ManualClock::new();
    let buckets = limiter(1, 3, &clock);
    // An array of 8 slots is crowded at 6: five of them name buckets that are gone.
    for key in 10..15 {
        buckets.check(&key).unwrap();
        clock.advance(TURN);
        buckets.prune_refilled();
    }
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&1).is_ok() & other.check(&2).is_ok());
    buckets.check(&3).unwrap();
    assert!(thread.join().unwrap());
    buckets.audit();
    assert_eq!([1, 2, 3].map(|key| buckets.peek(&key)), [0, 0, 0]);
}
