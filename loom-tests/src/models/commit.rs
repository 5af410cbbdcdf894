//! The multi-word commit, through plans.

use crate::explore::Model;
use crate::fixture::*;

pub const MODELS: &[Model] = &[
    Model {
        name: "opposite-plans",
        proves: "plans (A, B) and (B, A) at once both commit, whole, helping each other",
        bounds: [3, 3],
        execution: opposite_plans,
    },
    Model {
        name: "one-plan-fits",
        proves: "of two plans for which one bucket has a single token, one commits and the other takes nothing",
        bounds: [3, 3],
        execution: one_plan_fits,
    },
    Model {
        name: "ring",
        proves: "plans (A, B), (B, C) and (C, A) at once all commit",
        bounds: [1, 2],
        execution: ring,
    },
    Model {
        name: "plan-against-draw",
        proves: "a plan and single draws on its cells lose nothing to each other",
        bounds: [3, 4],
        execution: plan_against_draw,
    },
    Model {
        name: "plan-against-two",
        proves: "a plan with a drawer on each of its cells loses nothing",
        bounds: [2, 3],
        execution: plan_against_two,
    },
    Model {
        name: "atomic-view",
        proves: "a reader never sees half a plan",
        bounds: [3, 4],
        execution: atomic_view,
    },
    Model {
        name: "late-helper",
        proves: "a helper that comes late, after its operation ended and the next began, does no harm",
        bounds: [3, 3],
        execution: late_helper,
    },
    Model {
        name: "refused-plan",
        proves: "a refused plan leaves every word as it was",
        bounds: [3, 4],
        execution: refused_plan,
    },
    Model {
        name: "plan-against-prune",
        proves: "a plan whose bucket is reclaimed under it starts again and commits whole",
        bounds: [2, 3],
        execution: plan_against_prune,
    },
    Model {
        name: "newcomer-plans",
        proves: "two plans that make the same buckets share them",
        bounds: [1, 2],
        execution: newcomer_plans,
    },
];

fn opposite_plans() {
    let set = limits([9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let other = set.clone();
    let thread = thread::spawn(move || draw(&other, &[1, 0]).unwrap());
    let mine = draw(&set, &[0, 1]).unwrap();
    let theirs = thread.join().unwrap();
    disjoint([mine[0], theirs[1]]);
    disjoint([mine[1], theirs[0]]);
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (6, 6));
}

fn one_plan_fits() {
    let set = limits([9, 2], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let other = set.clone();
    let thread = thread::spawn(move || draw(&other, &[1, 0]).is_ok());
    assert!(draw(&set, &[0, 1]).is_ok() ^ thread.join().unwrap());
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (7, 0));
}

fn ring() {
    let set = limits([9, 9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1, 2]);
    let (one, two) = (set.clone(), set.clone());
    let first = thread::spawn(move || draw(&one, &[1, 2]).unwrap());
    let second = thread::spawn(move || draw(&two, &[2, 0]).unwrap());
    draw(&set, &[0, 1]).unwrap();
    first.join().unwrap();
    second.join().unwrap();
    set.audit();
    assert_eq!([0, 1, 2].map(|limit| set.peek(limit, &())), [6, 6, 6]);
}

fn plan_against_draw() {
    let set = limits([9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let other = set.clone();
    let thread = thread::spawn(move || {
        draw(&other, &[1]).unwrap();
        draw(&other, &[0]).unwrap();
    });
    draw(&set, &[0, 1]).unwrap();
    thread.join().unwrap();
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (6, 6));
}

fn plan_against_two() {
    let set = limits([9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let (one, two) = (set.clone(), set.clone());
    let first = thread::spawn(move || draw(&one, &[0]).unwrap());
    let second = thread::spawn(move || draw(&two, &[1]).unwrap());
    draw(&set, &[0, 1]).unwrap();
    first.join().unwrap();
    second.join().unwrap();
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (6, 6));
}

fn atomic_view() {
    let set = limits([9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let other = set.clone();
    let thread = thread::spawn(move || {
        // Read in either order, what is seen second is at least as new.
        let (a, b) = (other.peek(0, &()), other.peek(1, &()));
        assert!(b <= a, "a without b: {a} {b}");
        let a = other.peek(0, &());
        assert!(a <= b, "b without a: {a} {b}");
    });
    draw(&set, &[0, 1]).unwrap();
    thread.join().unwrap();
    set.audit();
}

fn late_helper() {
    let set = limits([9, 9, 9], 3, &ManualClock::new());
    touch(&set, &[0, 1, 2]);
    let other = set.clone();
    let thread = thread::spawn(move || {
        draw(&other, &[1]).unwrap();
        draw(&other, &[0]).unwrap();
    });
    // The second plan reuses the first one's descriptor, unless a helper lingers on it.
    draw(&set, &[0, 1]).unwrap();
    draw(&set, &[1, 2]).unwrap();
    thread.join().unwrap();
    set.audit();
    assert_eq!([0, 1, 2].map(|limit| set.peek(limit, &())), [6, 5, 7]);
}

fn refused_plan() {
    let set = limits([9, 1], 3, &ManualClock::new());
    touch(&set, &[0, 1]);
    let other = set.clone();
    // a pays, b cannot: nothing is taken from a, and what others draw on it meanwhile stays drawn.
    let thread = thread::spawn(move || {
        draw(&other, &[0]).unwrap();
        assert_eq!(draw(&other, &[1, 0]).unwrap_err().limit.as_str(), "b");
        assert_eq!(other.peek(0, &()), 7);
    });
    assert_eq!(draw(&set, &[0, 1]).unwrap_err().limit.as_str(), "b");
    thread.join().unwrap();
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &())), (7, 0));
}

fn plan_against_prune() {
    let clock = ManualClock::new();
    // A third cell, because a reclaimed one is in the pruner's hands for a moment.
    let set = limits([2, 9], 3, &clock);
    draw(&set, &[0]).unwrap();
    clock.advance(TURN);
    draw(&set, &[1]).unwrap();
    let other = set.clone();
    // a is refilled and may be reclaimed at any time; b is not.
    let thread = thread::spawn(move || other.prune_refilled());
    let admissions = draw(&set, &[0, 1]).unwrap();
    assert_eq!(admissions.len(), 2);
    thread.join().unwrap();
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &()), set.len()), (1, 7, 2));
}

fn newcomer_plans() {
    let set = limits([9, 9], 4, &ManualClock::new());
    let other = set.clone();
    let thread = thread::spawn(move || draw(&other, &[1, 0]).unwrap());
    draw(&set, &[0, 1]).unwrap();
    thread.join().unwrap();
    set.audit();
    assert_eq!((set.peek(0, &()), set.peek(1, &()), set.len()), (7, 7, 2));
}
