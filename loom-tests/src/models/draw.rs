//! Draws on buckets that exist.

use crate::explore::Model;
use crate::fixture::*;
use loom::sync::atomic::{AtomicU64, Ordering};
use tollgate::guard::{
    Capability, Guard, GuardContext, Scope, ToolCallRequest, ToolGrant, VelocityConfig, VelocityGuard,
    Verdict,
};
use tollgate::time::Clock;

pub const MODELS: &[Model] = &[
    Model {
        name: "last-token",
        proves: "of two threads at the last token exactly one draws it",
        bounds: [4, 4],
        execution: last_token,
    },
    Model {
        name: "pair",
        proves: "both lanes of a pair move or neither, as a third thread sees it",
        bounds: [3, 3],
        execution: pair,
    },
    Model {
        name: "clock-after-word",
        proves: "a draw that overlaps the turn of a window is judged by the time after the word it read",
        bounds: [3, 3],
        execution: clock_after_word,
    },
    Model {
        name: "refusal-writes-nothing",
        proves: "a refused draw leaves every word as it was, and is justified by a word that was there",
        bounds: [3, 3],
        execution: refusal_writes_nothing,
    },
    Model {
        name: "other-key",
        proves: "a reader that holds a cell's old generation never takes a later key's bucket for its own",
        bounds: [3, 3],
        execution: other_key,
    },
];

fn last_token() {
    let clock = ManualClock::new();
    let buckets = limiter(2, 2, &clock);
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || other.check(&1).is_ok());
    assert!(buckets.check(&1).is_ok() ^ thread.join().unwrap());
    buckets.audit();
    assert_eq!(buckets.peek(&1), 0);
}

fn pair() {
    let guard = VelocityGuard::builder(VelocityConfig {
        max_invocations_per_window: Some(2),
        max_spend_per_window: Some(4),
        window_secs: 1,
        burst_factor: 1.0,
    })
    .bucket_cap(2)
    .clock(ManualClock::new())
    .build()
    .unwrap();
    let guard = Arc::new(guard);
    let evaluate =
        |guard: &VelocityGuard| judged(guard, |ctx| guard.evaluate(ctx).unwrap() == Verdict::Allow);
    assert!(evaluate(&guard));
    let drawing = guard.clone();
    let drawer =
        thread::spawn(move || judged(&drawing, |ctx| drawing.evaluate(ctx).unwrap() == Verdict::Allow));
    let reading = guard.clone();
    let reader = thread::spawn(move || judged(&reading, |ctx| reading.remaining(ctx)));
    let first = evaluate(&guard);
    let seen = reader.join().unwrap();
    let second = drawer.join().unwrap();
    assert!(first ^ second, "two tokens, one of them gone");
    let left = (seen.invocations.unwrap(), seen.spend.unwrap());
    assert!(left == (1, 2) || left == (0, 0), "half a draw seen: {left:?}");
}

fn judged<T>(_: &VelocityGuard, with: impl FnOnce(&GuardContext<'_>) -> T) -> T {
    let scope = Scope { grants: vec![ToolGrant::new("s", "t").costing(2, "USD")] };
    let request = ToolCallRequest {
        capability: Capability { id: "c".into(), ..Capability::default() },
        ..ToolCallRequest::default()
    };
    with(&GuardContext {
        request: &request,
        scope: &scope,
        agent_id: "a",
        server_id: "s",
        matched_grant_index: Some(0),
    })
}

/// A clock whose reads the checker sees.
struct ModelClock(Arc<AtomicU64>);
impl Clock for ModelClock {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

fn clock_after_word() {
    let time = Arc::new(AtomicU64::new(9));
    let buckets = Arc::new(
        Limiter::<u8>::builder(per_turn(2)).bucket_cap(2).clock(ModelClock(time.clone())).build().unwrap(),
    );
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    // At 9 one token is left; from 10 on there are two. Whenever the two draws come, both find one.
    let thread = thread::spawn(move || {
        time.store(10, Ordering::Release);
        other.check(&1).unwrap()
    });
    let mine = buckets.check(&1).unwrap();
    disjoint([mine, thread.join().unwrap()]);
}

fn refusal_writes_nothing() {
    let clock = ManualClock::new();
    let buckets = limiter(2, 2, &clock);
    buckets.check(&1).unwrap();
    let other = buckets.clone();
    let thread = thread::spawn(move || {
        let refusal = other.check_n(&1, 2).unwrap_err();
        assert_eq!(refusal.reason, Reason::Exhausted);
        assert!(refusal.available <= 1);
    });
    buckets.check(&1).unwrap();
    thread.join().unwrap();
    buckets.audit();
    assert_eq!(buckets.peek(&1), 0);
}

fn other_key() {
    let clock = ManualClock::new();
    let buckets = limiter(2, 1, &clock);
    buckets.check(&1).unwrap();
    clock.advance(TURN);
    let other = buckets.clone();
    // The only cell goes from key 1 to key 2 while key 1 is looked up.
    let thread = thread::spawn(move || other.check_n(&2, 2).is_ok());
    let seen = buckets.peek(&1);
    assert_eq!(seen, 2, "key 1 is full, whether its bucket is still there or not");
    assert!(thread.join().unwrap());
    buckets.audit();
    assert_eq!((buckets.peek(&1), buckets.peek(&2)), (2, 0));
}
