//! Random sequential traces, and what the table model says to every step of them.
//!
//! Times are whole milliseconds, on which all grids of the arithmetic agree.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use crate::oracle::Line;
use crate::table_model::Refused;
use proptest::prelude::*;
use std::time::Duration;
use tollgate::Refusal;
use tollgate::quota::Quota;

/// One limit, as the library and as the oracle state it.
#[derive(Debug, Clone)]
pub struct Limit {
    pub quota: Quota,
    pub line: Line,
}

/// A call after a pause. Keys are numbers, to be cut to as many as a test wants.
#[derive(Debug, Clone)]
pub struct Step {
    pub pause: Duration,
    /// `(limit, key, cost)`; the limit is to be cut to as many as there are.
    pub draws: Vec<(usize, usize, u64)>,
}

pub fn pause() -> impl Strategy<Value = Duration> {
    let millis = prop_oneof![6 => Just(0u64), 4 => 0..6u64, 3 => 0..700u64, 1 => 0..200_000u64];
    millis.prop_map(Duration::from_millis)
}

/// Limits that refill within milliseconds, within hours, at once, or never.
pub fn limit() -> impl Strategy<Value = Limit> {
    let period = prop_oneof![1..50u64, Just(1_000u64), 1..100_000u64, Just(3_600_000)];
    prop_oneof![
        5 => (0..40u64, period.clone(), 0..40u64).prop_map(|(tokens, ms, burst)| Limit {
            quota: Quota::tokens_per(tokens, Duration::from_millis(ms)).burst(burst),
            line: Line::bucket(tokens, ms * 1_000_000, burst, 64).unwrap(),
        }),
        2 => (0..40u64, period, 0..1_000_000u64).prop_map(|(limit, ms, anchor)| Limit {
            quota: Quota::window(limit, Duration::from_millis(ms)).anchored_at(Duration::from_millis(anchor)),
            line: Line::window(limit, ms * 1_000_000, u128::from(anchor) * 1_000_000, 64).unwrap(),
        }),
    ]
}

pub fn cost() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 1..4u64, 2 => 0..12u64, 1 => 0..60u64, 1 => any::<u64>()]
}

pub fn steps(draws_a_call: usize, calls: usize) -> impl Strategy<Value = Vec<Step>> {
    let draw = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), cost())
        .prop_map(|(limit, key, cost)| (limit.index(1 << 20), key.index(1 << 20), cost));
    let step = (pause(), prop::collection::vec(draw, 1..=draws_a_call))
        .prop_map(|(pause, draws)| Step { pause, draws });
    prop::collection::vec(step, 1..calls)
}

/// Caps from one bucket up, with more weight on tables that are full all the time.
pub fn bucket_cap() -> impl Strategy<Value = usize> {
    prop_oneof![2 => 1..5usize, 1 => 1..=64usize]
}

/// The library's refusal must be the model's. `names` are the limits' names, in the model's order.
pub fn assert_same_refusal(ours: &Refusal, exact: &Refused, names: &[&str], place: &str) {
    let retry_after = exact.retry_after.map(Duration::from_nanos);
    assert_eq!(ours.reason, exact.reason, "{place}: {ours:?}, the model says {exact:?}");
    assert_eq!(ours.retry_after, retry_after, "{place}: {ours:?}, the model says {exact:?}");
    assert_eq!(ours.limit.as_str(), names[exact.limit], "{place}: {ours:?}, the model says {exact:?}");
    assert_eq!((ours.needed, ours.available), (exact.needed, exact.available), "{place}: {ours:?}");
}
