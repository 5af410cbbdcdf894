//! Gauges of budgets.

use crate::explore::Model;
use crate::fixture::*;
use tollgate::model::Meters;

pub const MODELS: &[Model] = &[
    Model {
        name: "gauges",
        proves: "what is taken from several gauges is taken from all or none, and never more than there may be",
        bounds: [3, 3],
        execution: gauges,
    },
    Model {
        name: "gauge-lapse",
        proves: "while slots lapse a gauge neither forgets what counts nor counts what lapsed",
        bounds: [3, 3],
        execution: lapse,
    },
    Model {
        name: "gauge-give-back",
        proves: "what is given back to a slot that may just lapse is given back once or not at all",
        bounds: [3, 3],
        execution: give_back,
    },
    Model {
        name: "gauge-refusal",
        proves: "a refusal rests on a total and a ring of one instant",
        bounds: [3, 3],
        execution: refusal,
    },
    Model {
        name: "gauge-pinned",
        proves: "a gauge that was used beyond what it counts shows no less until that lapses, and then what is left",
        bounds: [3, 3],
        execution: pinned,
    },
];

const SLOT: Duration = Duration::from_nanos(10);

fn meters(count: usize, reach: u32, most: u64, clock: &ManualClock) -> Arc<Meters<ManualClock>> {
    Arc::new(Meters::new(count, reach, most, clock.clone()))
}

fn gauges() {
    let clock = ManualClock::new();
    let all = meters(2, 1, 3, &clock);
    let other = all.clone();
    let thread = thread::spawn(move || other.take(&[(1, 2), (0, 2)]).is_some());
    let mine = all.take(&[(0, 2), (1, 2)]).is_some();
    let theirs = thread.join().unwrap();
    all.audit();
    assert!(mine != theirs, "one of two that take 2 of 3: {mine}, {theirs}");
    assert_eq!((all.used(0), all.used(1)), (2, 2));
}

fn lapse() {
    let clock = ManualClock::new();
    let all = meters(1, 1, 3, &clock);
    assert_eq!(all.take(&[(0, 2)]), Some(0));
    clock.advance(SLOT);
    let other = all.clone();
    let thread = thread::spawn(move || other.take(&[(0, 1)]));
    // The clock is no choice of the checker's: a look lets the other thread go first.
    all.used(0);
    clock.advance(SLOT);
    let mine = all.take(&[(0, 2)]);
    let theirs = thread.join().unwrap();
    all.audit();
    assert_eq!(mine, Some(2), "2 lapsed, and 1 at most counts");
    assert!(matches!(theirs, Some(1 | 2)), "there was room at any time: {theirs:?}");
    assert_eq!(all.used(0), 3);
    clock.advance(SLOT);
    assert_eq!(all.used(0), 2 + u64::from(theirs == Some(2)));
    clock.advance(SLOT);
    assert_eq!(all.take(&[(0, 3)]), Some(4), "everything lapsed");
    all.audit();
}

fn give_back() {
    let clock = ManualClock::new();
    let all = meters(1, 1, 3, &clock);
    assert_eq!(all.take(&[(0, 2)]), Some(0));
    clock.advance(SLOT);
    assert_eq!(all.take(&[(0, 1)]), Some(1));
    let other = all.clone();
    let thread = thread::spawn(move || other.give(&[(0, 2)], 0));
    all.used(0);
    clock.advance(SLOT);
    let mine = all.take(&[(0, 2)]);
    thread.join().unwrap();
    all.audit();
    assert_eq!(mine, Some(2), "the 2 of slot 0 count no more, given back or not");
    assert_eq!(all.used(0), 3);
}

fn refusal() {
    let clock = ManualClock::new();
    let all = meters(1, 1, 3, &clock);
    all.take(&[(0, 2)]);
    clock.advance(SLOT);
    all.take(&[(0, 1)]);
    clock.advance(SLOT);
    // 1 of slot 1 counts; both of these fit.
    let other = all.clone();
    let thread = thread::spawn(move || other.take(&[(0, 1)]).is_some());
    let mine = all.take(&[(0, 1)]).is_some();
    assert!(mine && thread.join().unwrap(), "there was room for both");
    all.audit();
    assert_eq!(all.used(0), 3);
}

fn pinned() {
    let clock = ManualClock::new();
    let counted = Meters::<ManualClock>::COUNTED;
    let all = meters(1, 1, u64::MAX, &clock);
    assert_eq!(all.take(&[(0, counted)]), Some(0));
    clock.advance(SLOT);
    assert_eq!(all.take(&[(0, 5)]), Some(1));
    let other = all.clone();
    let thread = thread::spawn(move || {
        other.give(&[(0, 3)], 1);
        other.give(&[(0, 9)], 0); // comes too late, or is of a slot in which there was more
    });
    assert_eq!(all.used(0), counted, "slot 0 counts as long as the clock says so");
    clock.advance(SLOT);
    assert_eq!(all.take(&[(0, 2)]), Some(2));
    thread.join().unwrap();
    all.audit();
    assert_eq!(all.used(0), 4, "5 less 3, and 2");
    clock.advance(SLOT);
    assert_eq!(all.used(0), 2);
}
