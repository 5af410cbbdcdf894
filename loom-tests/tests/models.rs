#![cfg(tollgate_loom)]
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Limiter, Plan};

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(std::env::var("PB").ok().and_then(|x| x.parse().ok()).unwrap_or(2));
    b.max_branches = 20_000;
    b.max_duration = Some(Duration::from_secs(std::env::var("SECS").ok().and_then(|x| x.parse().ok()).unwrap_or(60)));
    let n = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let n2 = n.clone();
    b.check(move || { n2.fetch_add(1, std::sync::atomic::Ordering::Relaxed); f() });
    eprintln!("{} executions: {}", thread_name(), n.load(std::sync::atomic::Ordering::Relaxed));
}
fn thread_name() -> String { std::thread::current().name().unwrap_or("?").to_string() }
const TURN: Duration = Duration::from_nanos(10);
fn q(limit: u64) -> Quota { Quota::window(limit, TURN) }

#[test]
fn two_newcomers_of_one_key_make_one_bucket_and_both_draws_land() {
    model(|| {
        let l = Arc::new(Limiter::<u8>::builder(q(3)).bucket_cap(2).clock(ManualClock::new()).build().unwrap());
        let l2 = l.clone();
        let t = thread::spawn(move || l2.check(&1).is_ok());
        let a = l.check(&1).is_ok();
        assert!(a && t.join().unwrap());
        assert_eq!(l.peek(&1), 1);
        assert_eq!(l.len(), 1);
    });
}

#[test]
fn the_last_token_goes_to_exactly_one() {
    model(|| {
        let l = Arc::new(Limiter::<u8>::builder(q(2)).bucket_cap(2).clock(ManualClock::new()).build().unwrap());
        l.check(&1).unwrap();
        let l2 = l.clone();
        let t = thread::spawn(move || l2.check(&1).is_ok());
        let a = l.check(&1).is_ok();
        assert!(a ^ t.join().unwrap());
        assert_eq!(l.len(), 1);
    });
}

#[test]
fn the_last_cell_goes_to_one_newcomer() {
    model(|| {
        let l = Arc::new(Limiter::<u8>::builder(q(2)).bucket_cap(1).clock(ManualClock::new()).build().unwrap());
        let l2 = l.clone();
        let t = thread::spawn(move || l2.check(&1).is_ok());
        let a = l.check(&2).is_ok();
        let b = t.join().unwrap();
        assert!(a ^ b, "{a} {b}");
        assert_eq!(l.len(), 1);
    });
}

#[test]
fn an_insert_that_prunes_does_not_revive_a_drained_bucket() {
    model(|| {
        let c = ManualClock::new();
        let l = Arc::new(Limiter::<u8>::builder(q(2)).bucket_cap(1).clock(c.clone()).build().unwrap());
        l.check_n(&1, 2).unwrap();
        c.advance(TURN);
        let l2 = l.clone();
        let t = thread::spawn(move || l2.check_n(&1, 2).is_ok());
        let b = l.check_n(&2, 2).is_ok();
        let a = t.join().unwrap();
        assert!(a ^ b, "one cell: {a} {b}");
        assert_eq!(l.len(), 1);
        assert_eq!(l.peek(&if a { 1 } else { 2 }), 0);
        assert_eq!(l.peek(&if a { 2 } else { 1 }), 2);
    });
}

fn two(order: [usize; 2]) -> impl Fn(&LimitSet) -> bool {
    move |s| {
        let mut p = Plan::new();
        for i in order { s.plan(i, &(), 1, &mut p) }
        p.commit().is_ok()
    }
}
fn set(a: u64, b: u64) -> Arc<LimitSet> {
    Arc::new(LimitSet::builder().limit("a", q(a)).limit("b", q(b)).bucket_cap(4).clock(ManualClock::new()).build().unwrap())
}
fn warm(s: &LimitSet) {
    for i in 0..2 { let mut p = Plan::new(); s.plan(i, &(), 1, &mut p); p.commit().unwrap(); }
}

#[test]
fn plans_in_opposite_order_both_commit() {
    model(|| {
        let s = set(5, 5);
        warm(&s);
        let s2 = s.clone();
        let t = thread::spawn(move || two([1, 0])(&s2));
        assert!(two([0, 1])(&s));
        assert!(t.join().unwrap());
        assert_eq!((s.peek(0, &()), s.peek(1, &())), (2, 2));
    });
}

#[test]
fn one_plan_too_many_draws_on_neither() {
    model(|| {
        let s = set(5, 2);
        warm(&s);
        let s2 = s.clone();
        let t = thread::spawn(move || two([1, 0])(&s2));
        let a = two([0, 1])(&s);
        let b = t.join().unwrap();
        assert!(a ^ b);
        assert_eq!((s.peek(0, &()), s.peek(1, &())), (3, 0));
    });
}

#[test]
fn a_plan_and_a_draw_on_its_second_cell() {
    model(|| {
        let s = set(5, 5);
        warm(&s);
        let s2 = s.clone();
        let t = thread::spawn(move || { let mut p = Plan::new(); s2.plan(1, &(), 1, &mut p); p.commit().is_ok() });
        assert!(two([0, 1])(&s));
        assert!(t.join().unwrap());
        assert_eq!((s.peek(0, &()), s.peek(1, &())), (3, 2));
    });
}

#[test]
fn newcomer_plans_share_their_buckets() {
    model(|| {
        let s = set(5, 5);
        let s2 = s.clone();
        let t = thread::spawn(move || two([1, 0])(&s2));
        assert!(two([0, 1])(&s));
        assert!(t.join().unwrap());
        assert_eq!((s.peek(0, &()), s.peek(1, &())), (3, 3));
        assert_eq!(s.len(), 2);
    });
}

#[test]
fn inserts_survive_a_rebuild() {
    model(|| {
        // 4 cells in an array of 8: 6 used slots crowd it.
        let c = ManualClock::new();
        let l = Arc::new(Limiter::<u8>::builder(q(2)).bucket_cap(4).clock(c.clone()).build().unwrap());
        for k in 10..15u8 { l.check(&k).unwrap(); c.advance(TURN); l.prune_refilled(); }
        assert_eq!(l.len(), 0);
        let l2 = l.clone();
        let t = thread::spawn(move || { l2.check(&1).unwrap(); l2.check(&2).unwrap(); });
        l.check(&1).unwrap();
        l.check(&3).unwrap();
        t.join().unwrap();
        assert_eq!((l.peek(&1), l.peek(&2), l.peek(&3)), (0, 1, 1));
        assert_eq!(l.len(), 3);
    });
}
