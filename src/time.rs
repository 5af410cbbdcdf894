//! Time as the engine sees it: nanoseconds since the engine's start, from a [`Clock`].
//!
//! | clock | cost of a read | error | for |
//! |---|---|---|---|
//! | [`MonotonicClock`] | a vDSO call (35 to 45 ns measured) | none | the default |
//! | [`CoarseClock`] | about 6 ns | late by up to one kernel tick (1 to 4 ms), never early | kernels that decide millions of calls |
//! | [`ManualClock`] | one atomic load | none | tests and replay |
//!
//! A clock that runs late never credits time that has not passed, so it can refuse a little early but not
//! admit too much. Wait hints add [`Clock::granularity`] to make up for it.
//!
//! Calls that wait set an [`Alarm`] on the clock. Those of clocks that count real time are kept by one thread, started
//! at the first of them; a [`ManualClock`] keeps its own and rings them when it is moved.

mod alarms;
mod timer;

pub use alarms::{Alarm, Alarms};

use crate::sync::{AtomicTime, Ordering};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

/// A source of time that only moves forward.
///
/// Implementations must never return a value smaller than one already returned to any thread that has
/// since communicated with the caller. A clock that breaks this makes limits refuse more than they need
/// to; it cannot make them admit more than their line released by the latest time seen.
///
/// ```
/// use tollgate::time::{Clock, MonotonicClock};
///
/// let clock = MonotonicClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// ```
pub trait Clock: Send + Sync + 'static {
    /// Nanoseconds since this clock's start.
    fn now(&self) -> u64;

    /// By how many nanoseconds [`now`](Clock::now) may lag behind real time. Wait hints add it.
    fn granularity(&self) -> u64 {
        0
    }

    /// Wakes `waker` once this clock shows `at` nanoseconds or more, unless the alarm is dropped before. Waking early
    /// does no harm: whoever waits looks at the clock, and sets another alarm.
    ///
    /// The default suits clocks that count real time: it waits for the difference to [`now`](Clock::now) on the
    /// library's timer thread. A clock that passes otherwise must do it itself, with [`Alarms`], or calls that wait
    /// on it wake at the wrong times.
    fn wake_at(&self, at: u64, waker: &Waker) -> Alarm {
        timer::wake_after(Duration::from_nanos(at.saturating_sub(self.now())), waker)
    }
}

/// Saturating conversion: a `u64` of nanoseconds lasts 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The standard library's monotonic clock, counted from its creation.
///
/// ```
/// use tollgate::time::{Clock, MonotonicClock};
/// assert!(MonotonicClock::new().now() < 1_000_000_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MonotonicClock {
    start: Instant,
}

impl MonotonicClock {
    /// A clock that starts at 0 now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}
impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}
impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }
}

/// The operating system's coarse monotonic clock: several times cheaper to read, late by up to one tick.
///
/// On Linux this is `CLOCK_MONOTONIC_COARSE`; elsewhere it reads [`MonotonicClock`] and has no tick.
///
/// ```
/// use tollgate::time::{Clock, CoarseClock};
/// let clock = CoarseClock::new();
/// let earlier = clock.now();
/// assert!(clock.now() >= earlier);
/// assert!(clock.granularity() < 1_000_000_000);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoarseClock {
    start: CoarseStart,
    granularity: u64,
}

#[cfg(target_os = "linux")]
type CoarseStart = u64;
#[cfg(not(target_os = "linux"))]
type CoarseStart = MonotonicClock;

#[cfg(target_os = "linux")]
fn coarse_nanos(t: rustix::time::Timespec) -> u64 {
    // Both fields of a monotonic reading are non-negative, and 2^64 ns are 584 years.
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

impl CoarseClock {
    /// A clock that starts at 0 now.
    #[cfg(target_os = "linux")]
    pub fn new() -> Self {
        use rustix::time::{ClockId, clock_getres, clock_gettime};
        Self {
            start: coarse_nanos(clock_gettime(ClockId::MonotonicCoarse)),
            granularity: coarse_nanos(clock_getres(ClockId::MonotonicCoarse)),
        }
    }

    /// A clock that starts at 0 now.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> Self {
        Self { start: MonotonicClock::new(), granularity: 0 }
    }
}
impl Default for CoarseClock {
    fn default() -> Self {
        Self::new()
    }
}
impl Clock for CoarseClock {
    #[inline]
    #[cfg(target_os = "linux")]
    fn now(&self) -> u64 {
        use rustix::time::{ClockId, clock_gettime};
        coarse_nanos(clock_gettime(ClockId::MonotonicCoarse)).saturating_sub(self.start)
    }

    #[inline]
    #[cfg(not(target_os = "linux"))]
    fn now(&self) -> u64 {
        self.start.now()
    }

    fn granularity(&self) -> u64 {
        self.granularity
    }
}

/// A clock that moves only when told to. Clones share one time.
///
/// Moving it wakes the calls that wait for a time at or before the new one, on the thread that moves it.
///
/// ```
/// use std::time::Duration;
/// use tollgate::time::{Clock, ManualClock};
///
/// let clock = ManualClock::new();
/// clock.advance(Duration::from_millis(5));
/// clock.set(3); // the past: ignored, time never runs backwards
/// assert_eq!(clock.clone().now(), 5_000_000);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ManualClock {
    now: Arc<AtomicTime>,
    alarms: Alarms,
}

impl ManualClock {
    /// A clock at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock at `now` nanoseconds.
    pub fn at(now: u64) -> Self {
        Self { now: Arc::new(AtomicTime::new(now)), alarms: Alarms::new() }
    }

    /// Moves forward by `step`, stopping at the largest representable time.
    pub fn advance(&self, step: Duration) {
        let step = nanos(step);
        // The closure never declines, so the update always succeeds.
        let _ = self.now.fetch_update(Ordering::AcqRel, Ordering::Acquire, |t| Some(t.saturating_add(step)));
        self.alarms.ring(self.now());
    }

    /// Moves to `now` nanoseconds; a time in the past changes nothing.
    pub fn set(&self, now: u64) {
        self.now.fetch_max(now, Ordering::AcqRel);
        self.alarms.ring(now);
    }

    /// The time of the first alarm that somebody waits for, if any: where a simulation goes next.
    pub fn next_alarm(&self) -> Option<u64> {
        self.alarms.next()
    }
}
impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> u64 {
        self.now.load(Ordering::Acquire)
    }

    fn wake_at(&self, at: u64, waker: &Waker) -> Alarm {
        self.alarms.set(at, waker, || self.now())
    }
}

/// A clock as the engine holds it: the two common ones are called directly, any other through a pointer.
#[derive(Clone)]
pub(crate) enum EngineClock {
    Monotonic(MonotonicClock),
    Coarse(CoarseClock),
    Manual(ManualClock),
    Other(Arc<dyn Clock>),
}

impl EngineClock {
    pub(crate) fn new<C: Clock>(clock: C) -> Self {
        let any: &dyn Any = &clock;
        if let Some(clock) = any.downcast_ref::<MonotonicClock>() {
            Self::Monotonic(*clock)
        } else if let Some(clock) = any.downcast_ref::<CoarseClock>() {
            Self::Coarse(*clock)
        } else if let Some(clock) = any.downcast_ref::<ManualClock>() {
            Self::Manual(clock.clone())
        } else {
            Self::Other(Arc::new(clock))
        }
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self {
            Self::Monotonic(clock) => clock.now(),
            Self::Coarse(clock) => clock.now(),
            Self::Manual(clock) => clock.now(),
            Self::Other(clock) => clock.now(),
        }
    }

    /// Do both read one clock, so that one reading serves for both?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Monotonic(a), Self::Monotonic(b)) => a == b,
            (Self::Manual(a), Self::Manual(b)) => Arc::ptr_eq(&a.now, &b.now),
            (Self::Other(a), Self::Other(b)) => std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b)),
            (Self::Coarse(a), Self::Coarse(b)) => a == b,
            _ => false,
        }
    }

    /// Does it move only when told to?
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self, Self::Manual(_))
    }

    pub(crate) fn granularity(&self) -> u64 {
        match self {
            Self::Monotonic(clock) => clock.granularity(),
            Self::Coarse(clock) => clock.granularity(),
            Self::Manual(clock) => clock.granularity(),
            Self::Other(clock) => clock.granularity(),
        }
    }

    pub(crate) fn wake_at(&self, at: u64, waker: &Waker) -> Alarm {
        match self {
            Self::Monotonic(clock) => clock.wake_at(at, waker),
            Self::Coarse(clock) => clock.wake_at(at, waker),
            Self::Manual(clock) => clock.wake_at(at, waker),
            Self::Other(clock) => clock.wake_at(at, waker),
        }
    }
}

impl Default for EngineClock {
    fn default() -> Self {
        Self::Monotonic(MonotonicClock::new())
    }
}

impl fmt::Debug for EngineClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Monotonic(_) => "MonotonicClock",
            Self::Coarse(_) => "CoarseClock",
            Self::Manual(_) => "ManualClock",
            Self::Other(_) => "Clock",
        })
    }
}
