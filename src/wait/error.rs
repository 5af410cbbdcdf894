//! Why a call is not admitted after all, and what its caller can do next.

use crate::refusal::Refusal;
use std::time::Duration;

/// A call that waited, or would have to, and is refused. Nothing was drawn, and it waits no longer.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{AcquireError, Limiter, Reason, quota::Quota, time::ManualClock};
///
/// let limiter = Limiter::<str>::builder(Quota::per_second(2).burst(3)).clock(ManualClock::new()).build()?;
/// let AcquireError::Refused(refusal) = limiter.acquire("k").cost(4).blocking().unwrap_err() else { panic!() };
/// assert_eq!(refusal.reason, Reason::Impossible);
///
/// limiter.check_n("k", 3).unwrap();
/// let error = limiter.acquire("k").within(Duration::from_millis(499)).blocking().unwrap_err();
/// assert_eq!(error, AcquireError::DeadlineTooEarly { earliest: 500_000_000, deadline: 499_000_000 });
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// No wait helps, or none can be foretold: a cost above the capacity, a limit that never refills or is past its
    /// horizon, a table without room for the key.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// As many calls wait at this key as may: ask for less, or raise
    /// [`queue_cap`](crate::limiter::LimiterBuilder::queue_cap).
    #[error("{cap} calls wait at this key already: slow down, or raise queue_cap")]
    QueueFull {
        /// The `queue_cap`.
        cap: usize,
    },
    /// As many calls wait at all keys together as may: ask for less, or raise
    /// [`waiter_cap`](crate::limiter::LimiterBuilder::waiter_cap).
    #[error("{cap} calls wait at this limiter already: slow down, or raise waiter_cap")]
    WaitersFull {
        /// The `waiter_cap`.
        cap: usize,
    },
    /// The call's turn comes after its deadline. Known at once from those that wait before it; later, if calls that do
    /// not wait ([`check`](crate::Limiter::check)), a penalty or a new quota put it off.
    #[error("the earliest admission is at {:?} of the clock, after the deadline at {:?}", at(.earliest), at(.deadline))]
    DeadlineTooEarly {
        /// The nanosecond of the limiter's clock at which it would be admitted, if nobody but those before it draws: a
        /// deadline from then on can be met.
        earliest: u64,
        /// The nanosecond of the limiter's clock that it must not be later than.
        deadline: u64,
    },
}

fn at(nanos: &u64) -> Duration {
    Duration::from_nanos(*nanos)
}
