//! A thread stops in the middle of a commit of three cells, as its owner or as a helper, at each step.

use crate::Scenario;
use crate::random::Random;
use crate::stop::{for_ever, others, stop_after, stop_at};
use std::time::Duration;
use tollgate::quota::Quota;
use tollgate::stall::Point;
use tollgate::time::ManualClock;
use tollgate::{Admission, LimitSet, Plan};

/// Never runs dry, and never refills: the clock stands still, so a unit is a token, and a bucket's mark is what was
/// taken from it.
const CAPACITY: u64 = 1 << 40;
const LIMITS: usize = 3;

/// What the stopped plan draws on each bucket; far more than all others together.
const COST: u64 = 1 << 20;

fn set() -> &'static LimitSet {
    let quota = Quota::window(CAPACITY, Duration::from_secs(86_400 * 365));
    let names = ["a", "b", "c"].into_iter();
    let builder = names.fold(LimitSet::builder(), |builder, name| builder.limit(name, quota));
    for_ever(builder.bucket_cap(8).clock(ManualClock::new()).build().expect("a set"))
}

fn draw(set: &LimitSet, limits: &[usize], cost: u64) -> Vec<Admission> {
    let mut plan = Plan::new();
    for &limit in limits {
        set.plan(limit, &(), cost, &mut plan);
    }
    plan.commit().expect("nothing runs dry").to_vec()
}

/// Intervals by bucket.
type Book = [Vec<(u64, u64)>; LIMITS];

fn note(book: &mut Book, limits: &[usize], admissions: &[Admission]) {
    assert_eq!(limits.len(), admissions.len(), "all or nothing");
    for (&limit, admission) in limits.iter().zip(admissions) {
        book[limit].push((admission.from, admission.to));
    }
}

/// Three threads work on all buckets, some by plans in any order, and all come to their end.
fn others_finish(set: &LimitSet, book: &mut Book) {
    let told = others(3, |thread| {
        let mut random = Random::new(thread as u64);
        let mut book = Book::default();
        for _ in 0..300 {
            let first = random.below(LIMITS);
            let limits = [first, (first + 1 + random.below(2)) % LIMITS];
            let limits = &limits[..1 + random.below(2)];
            note(&mut book, limits, &draw(set, limits, 1));
        }
        book
    });
    for one in told {
        for (all, one) in book.iter_mut().zip(one) {
            all.extend(one);
        }
    }
}

/// What stopped threads took from each bucket: the same from each, or a plan was committed by half. Every other unit
/// has the one owner that was told so.
fn taken(set: &LimitSet, book: &mut Book) -> u64 {
    let mut by_bucket = [0; LIMITS];
    for (limit, intervals) in book.iter_mut().enumerate() {
        intervals.sort_unstable();
        let mut end = 0;
        for &(from, to) in intervals.iter() {
            assert!(end <= from && from < to, "bucket {limit}: ({from}, {to}] begins before {end}");
            by_bucket[limit] += from - end;
            end = to;
        }
        let mark = CAPACITY - set.peek(limit, &());
        assert!(mark >= end, "bucket {limit}: {mark} were taken, and an admission ends at {end}");
        by_bucket[limit] += mark - end;
    }
    assert!(by_bucket.iter().all(|&taken| taken == by_bucket[0]), "half a plan: {by_bucket:?}");
    by_bucket[0]
}

/// A set whose buckets exist, in address order.
fn touched() -> (&'static LimitSet, Book) {
    let (set, mut book) = (set(), Book::default());
    for limit in 0..LIMITS {
        note(&mut book, &[limit], &draw(set, &[limit], 1));
    }
    (set, book)
}

/// What may have become of a stopped plan.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Whole,
    Nothing,
    Either,
}

impl Fate {
    fn check(self, taken: u64, cost: u64) {
        let right = match self {
            Fate::Whole => taken == cost,
            Fate::Nothing => taken == 0,
            Fate::Either => taken == cost || taken == 0,
        };
        assert!(right, "{taken} were taken; expected: {self:?} of {cost}");
    }
}

pub fn scenarios() -> Vec<Scenario> {
    let mut all = Vec::new();
    let step = |point: Point, nth: usize| format!("{point:?} {nth}");
    // What owner and helper do alike.
    let within = [
        (Point::Installed, 1, Fate::Either),
        (Point::Installed, 2, Fate::Either),
        (Point::Installed, 3, Fate::Whole),
        (Point::Decided, 1, Fate::Whole),
        (Point::Released, 1, Fate::Whole),
        (Point::Released, 2, Fate::Whole),
        (Point::Released, 3, Fate::Whole),
    ];
    for (point, nth, fate) in [(Point::Claimed, 1, Fate::Nothing)].into_iter().chain(within) {
        all.push(Scenario::new(format!("owner stops at {}", step(point, nth)), move || {
            owner(point, nth, fate)
        }));
    }
    for (point, nth) in
        [(Point::Decided, 1), (Point::Released, 1), (Point::Released, 2), (Point::Released, 3)]
    {
        let name = format!("owner of a failing commit stops at {}", step(point, nth));
        all.push(Scenario::new(name, move || failing_owner(point, nth)));
    }
    let (first, last) = ([(Point::Joined, 1, Fate::Either)], [(Point::Leaving, 1, Fate::Whole)]);
    for (point, nth, fate) in first.into_iter().chain(within).chain(last) {
        let name = format!("owner stops at Installed 1, and its helper at {}", step(point, nth));
        all.push(Scenario::new(name, move || helper(point, nth, fate)));
    }
    for seed in 0..20 {
        all.push(Scenario::new(
            format!("twelve threads stop one after the other, choice {seed}"),
            move || pile(seed),
        ));
    }
    all
}

fn owner(point: Point, nth: usize, fate: Fate) {
    let (set, mut book) = touched();
    stop_at(point, nth, move || drop(draw(set, &[0, 1, 2], COST)));
    others_finish(set, &mut book);
    fate.check(taken(set, &mut book), COST);
}

/// The last cell changes under the owner's install, so that this attempt fails.
fn failing_owner(point: Point, nth: usize) {
    let (set, mut book) = touched();
    let mut interfered = false;
    let interfere = move |here: Point| {
        if here == Point::Installed && !interfered {
            interfered = true;
            let admissions = std::thread::spawn(move || draw(set, &[2], 1)).join().expect("a draw");
            assert_eq!(admissions.len(), 1);
        }
    };
    stop_after(point, nth, interfere, move || drop(draw(set, &[0, 1, 2], COST)));
    // Told to the thread that interfered: the second unit of the third bucket.
    book[2].push((1, 2));
    others_finish(set, &mut book);
    Fate::Nothing.check(taken(set, &mut book), COST);
}

fn helper(point: Point, nth: usize, fate: Fate) {
    let (set, mut book) = touched();
    stop_at(Point::Installed, 1, move || drop(draw(set, &[0, 1, 2], COST)));
    // Its own draw never happens.
    stop_at(point, nth, move || drop(draw(set, &[0], 2 * COST)));
    others_finish(set, &mut book);
    fate.check(taken(set, &mut book), COST);
}

/// Each of twelve threads stops at a random step of a plan of its own, or of one that it helps, among those that stopped
/// before it. Each plan's cost is a bit of its own, so that what was taken says which plans were, and a plan that was
/// taken by half from one bucket shows.
fn pile(seed: u64) {
    let (set, mut book) = touched();
    let mut random = Random::new(seed);
    let steps = [Point::Claimed, Point::Installed, Point::Decided, Point::Released];
    let mut costs = 0;
    for number in 0..12 {
        let (point, nth) = (steps[random.below(steps.len())], 1 + random.below(3));
        // A decision is made once, and descriptors are claimed once an attempt.
        let nth = if matches!(point, Point::Installed | Point::Released) { nth } else { 1 };
        let cost = COST << number;
        costs += cost;
        let order = [[0, 1, 2], [2, 1, 0], [1, 2, 0]][random.below(3)];
        stop_at(point, nth, move || drop(draw(set, &order, cost)));
    }
    others_finish(set, &mut book);
    let taken = taken(set, &mut book);
    assert_eq!(taken & !costs, 0, "{taken:#x} is no sum of whole plans' costs {costs:#x}");
}
