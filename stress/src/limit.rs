//! Quotas with their lines.

use crate::line::Fast;
use crate::oracle::Line;
use std::time::Duration;
use tollgate::quota::Quota;

/// A quota, and what it releases.
#[derive(Debug, Clone)]
pub struct Limit {
    pub quota: Quota,
    pub line: Fast,
}

/// `tokens` each `nanos`, flowing in, and at most `burst`.
pub fn bucket(tokens: u64, nanos: u64, burst: u64) -> Limit {
    let quota = Quota::tokens_per(tokens, Duration::from_nanos(nanos)).burst(burst);
    Limit { quota, line: Fast::of(Line::bucket(tokens, nanos, burst, 64).expect("a line")) }
}

/// `tokens` in each window of `nanos`.
pub fn window(tokens: u64, nanos: u64) -> Limit {
    let quota = Quota::window(tokens, Duration::from_nanos(nanos));
    Limit { quota, line: Fast::of(Line::window(tokens, nanos, 0, 64).expect("a line")) }
}

/// What a velocity guard makes of `per_window` in `window_secs`. A mark of a pair may have fewer than 64 bits; the
/// guards' ticks are milliseconds all the same.
pub fn guarded(per_window: u64, window_secs: u64) -> Fast {
    Fast::of(Line::milli_token(per_window, window_secs, 1.0, 64).expect("a line"))
}
