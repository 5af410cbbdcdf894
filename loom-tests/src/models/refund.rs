//! Refunds of draws.

use crate::explore::Model;
use crate::fixture::*;
use tollgate::limiter::InFlight;
use tollgate::model::Refundable;

pub const MODELS: &[Model] = &[
    Model {
        name: "refund-against-draws",
        proves: "a refunded plan and draws on its cells lose nothing to each other, however late a helper is",
        bounds: [3, 3],
        execution: refund_against_draws,
    },
    Model {
        name: "two-refunds",
        proves: "refunds of one bucket at once give back what they say, each once",
        bounds: [3, 4],
        execution: two_refunds,
    },
    Model {
        name: "refund-after-refund",
        proves: "what one refund gave back, no later refund gives back again",
        bounds: [3, 4],
        execution: refund_after_refund,
    },
    Model {
        name: "refund-makes-room",
        proves: "a bucket that a refund filled can be reclaimed at once, whatever searches were under way",
        bounds: [2, 3],
        execution: refund_makes_room,
    },
    Model {
        name: "refund-after-life",
        proves: "a refund gives nothing to the bucket that took its own one's cell",
        bounds: [3, 3],
        execution: refund_after_life,
    },
    Model {
        name: "in-flight",
        proves: "no more is under way than may be, and when all is over everything is free, in whatever order it ends",
        bounds: [3, 3],
        execution: in_flight,
    },
];

fn table(quota: Quota, cells: usize, clock: &ManualClock) -> Arc<Refundable> {
    Arc::new(Refundable::new(quota, cells, clock.clone()))
}

fn refund_against_draws() {
    let clock = ManualClock::new();
    let a = table(per_turn(9), 2, &clock);
    a.draw(&[1, 2], 1).unwrap();
    let other = a.clone();
    let thread = thread::spawn(move || {
        other.draw(&[2], 1).unwrap();
        other.draw(&[1], 1).unwrap();
    });
    let mine = a.draw(&[1, 2], 1).unwrap();
    assert_eq!(a.refund(&mine), [1, 1]);
    thread.join().unwrap();
    a.audit();
    assert_eq!((a.peek(1), a.peek(2)), (7, 7));
}

fn two_refunds() {
    let clock = ManualClock::new();
    let a = table(per_turn(9), 1, &clock);
    let first = a.draw(&[1], 2).unwrap()[0];
    let second = a.draw(&[1], 2).unwrap()[0];
    let other = a.clone();
    let thread = thread::spawn(move || other.refund(&[first])[0]);
    let back = a.refund(&[second])[0] + thread.join().unwrap();
    a.audit();
    // The earlier draw lies below the later one: refunded after it, it has nothing left that is surely its own.
    assert!(back == 2 || back == 4, "{back} of 4 came back");
    assert_eq!(a.peek(1), 5 + back);
}

fn refund_after_refund() {
    let clock = ManualClock::new();
    // A burst of 4, one token in 5 ns: a unit a nanosecond.
    let a = table(Quota::tokens_per(2, TURN).burst(4), 1, &clock);
    let first = a.draw(&[1], 2).unwrap()[0];
    let second = a.draw(&[1], 2).unwrap()[0];
    clock.advance(Duration::from_nanos(5));
    let other = a.clone();
    let thread = thread::spawn(move || other.refund(&[first])[0]);
    // The clock is no choice of the checker's: a look at the table lets the other thread go first.
    a.peek(1);
    clock.advance(TURN);
    a.draw(&[1], 2).unwrap();
    a.refund(&[second]);
    thread.join().unwrap();
    a.audit();
    // Everything granted at this instant fits one burst.
    assert!(a.peek(1) <= 2, "2 were drawn, and {} more can be", a.peek(1));
}

fn refund_makes_room() {
    let clock = ManualClock::new();
    let a = table(per_turn(9), 1, &clock);
    let drawn = a.draw(&[1], 1).unwrap()[0];
    let other = a.clone();
    let thread = thread::spawn(move || other.draw(&[2], 1).is_ok());
    assert_eq!(a.refund(&[drawn]), [1]);
    let admitted = thread.join().unwrap();
    a.audit();
    assert_eq!(a.draw(&[3], 1).is_ok(), !admitted);
    a.audit();
}

fn refund_after_life() {
    let clock = ManualClock::new();
    let a = table(Quota::tokens_per(2, TURN).burst(4), 1, &clock);
    let first = a.draw(&[1], 2).unwrap()[0];
    let second = a.draw(&[1], 2).unwrap()[0];
    // The bucket is full sooner by this, while its second draw still ends above the line.
    assert_eq!(a.refund(&[first]), [10]);
    clock.advance(TURN);
    let other = a.clone();
    let thread = thread::spawn(move || other.draw(&[2], 1).unwrap());
    assert_eq!(a.refund(&[second]), [0]);
    thread.join().unwrap();
    a.audit();
    assert_eq!(a.peek(2), 3);
}

fn in_flight() {
    let limit = InFlight::<u8>::builder(2).bucket_cap(1).build().unwrap();
    let first = limit.enter(&1).unwrap();
    let other = limit.clone();
    let thread = thread::spawn(move || {
        let entered = other.enter(&1);
        drop(first);
        entered.is_ok()
    });
    let mine = limit.enter(&1);
    // One was under way, so at least one of the two had room.
    let entered = mine.is_ok();
    drop(mine);
    assert!(thread.join().unwrap() | entered);
    limit.audit();
    assert_eq!(limit.free(&1), 2);
    let _another = limit.enter_n(&2, 2).expect("the one cell is free again");
}
