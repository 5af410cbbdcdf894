//! Time as budgets see it: the time of day, in milliseconds.

use super::record::Millis;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Tells Unix time. Windows of calendars lie in it, and budgets outlive a process, so it is the time of day and not that
/// since some start.
///
/// A clock may be set back: budgets then stay at the latest time they have seen until it has caught up, so that nothing lapses
/// twice.
///
/// ```
/// use tollgate::spend::{SystemClock, WallClock};
/// assert!(SystemClock.unix_millis() > 1_700_000_000_000);
/// ```
pub trait WallClock: Send + Sync + 'static {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn unix_millis(&self) -> Millis;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn unix_millis(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX))
    }
}

/// A clock that is moved by hand, for tests and replays. Clones show the same time.
///
/// ```
/// use tollgate::spend::{ManualWallClock, WallClock};
///
/// let clock = ManualWallClock::at(1_000);
/// clock.advance(500);
/// assert_eq!(clock.unix_millis(), 1_500);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ManualWallClock(Arc<AtomicU64>);

impl ManualWallClock {
    /// A clock that shows `millis`.
    pub fn at(millis: Millis) -> Self {
        Self(Arc::new(AtomicU64::new(millis)))
    }

    /// Sets it, forward or back.
    pub fn set(&self, millis: Millis) {
        // Release: pairs with the acquire of whoever reads this time, so that what was done before it is seen.
        self.0.store(millis, Ordering::Release);
    }

    /// Moves it forward.
    pub fn advance(&self, millis: Millis) {
        self.0.fetch_add(millis, Ordering::AcqRel);
    }
}

impl WallClock for ManualWallClock {
    fn unix_millis(&self) -> Millis {
        self.0.load(Ordering::Acquire)
    }
}

/// The last instant there is: stores count signed milliseconds, and deadlines lie behind it.
pub(crate) const END: Millis = i64::MAX as Millis;

/// A clock that does not go back, and ends at [`END`].
pub(crate) struct Forward {
    clock: Arc<dyn WallClock>,
    latest: AtomicU64,
}

impl Forward {
    /// Goes on from `latest`.
    pub(crate) fn new(clock: Arc<dyn WallClock>, latest: Millis) -> Self {
        Self { clock, latest: AtomicU64::new(latest.min(END)) }
    }

    /// The clock's time, or the latest that any thread saw whose work this one has seen.
    pub(crate) fn now(&self) -> Millis {
        let now = self.clock.unix_millis().min(END);
        // Relaxed: whoever saw a later time wrote it here before it released the word that this thread read before it asks.
        let latest = self.latest.load(Ordering::Relaxed);
        if now <= latest {
            return latest;
        }
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }
}
