//! Wakers to be woken at set times: what a clock needs for calls that wait.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// No alarm is set.
const NEVER: u64 = u64::MAX;

/// The alarms set on one clock: for clocks of one's own whose time is not real time. Clones share one list.
///
/// Wakers are woken, and dropped, while no lock is held.
///
/// ```
/// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
/// use std::task::Waker;
/// use tollgate::time::{Alarm, Alarms, Clock};
///
/// /// Simulated time, which the simulation moves on.
/// #[derive(Clone, Default)]
/// struct Simulated { now: Arc<AtomicU64>, alarms: Alarms }
///
/// impl Simulated {
///     fn move_to(&self, now: u64) {
///         self.now.fetch_max(now, Ordering::SeqCst);
///         self.alarms.ring(now);
///     }
/// }
/// impl Clock for Simulated {
///     fn now(&self) -> u64 {
///         self.now.load(Ordering::SeqCst)
///     }
///     fn wake_at(&self, at: u64, waker: &Waker) -> Alarm {
///         self.alarms.set(at, waker, || self.now())
///     }
/// }
///
/// let clock = Simulated::default();
/// let alarm = clock.wake_at(5, Waker::noop());
/// assert_eq!(clock.alarms.next(), Some(5));
/// drop(alarm);
/// assert_eq!(clock.alarms.next(), None);
/// ```
#[derive(Clone, Default)]
pub struct Alarms(Arc<List>);

struct List {
    set: Mutex<Set>,
    /// The time of the first alarm, or [`NEVER`]: so that moving a clock on which nobody waits takes no lock.
    earliest: AtomicU64,
    /// An alarm was set before all others.
    sooner: Condvar,
}

#[derive(Default)]
struct Set {
    /// By time, and then in the order in which they were set.
    wakers: BTreeMap<(u64, u64), Waker>,
    last: u64,
}

impl Default for List {
    fn default() -> Self {
        Self { set: Mutex::default(), earliest: AtomicU64::new(NEVER), sooner: Condvar::new() }
    }
}

/// One alarm that was set. Dropping it takes it back: its waker is then neither woken nor kept.
#[must_use = "dropping an alarm takes it back"]
pub struct Alarm {
    list: Alarms,
    key: (u64, u64),
}

impl Alarms {
    /// No alarms.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an alarm for time `at`, or rings at once if `now` says that it is that late already.
    ///
    /// `now` is called after the alarm was set, so that a clock that is moved meanwhile cannot pass it by.
    pub fn set(&self, at: u64, waker: &Waker, now: impl FnOnce() -> u64) -> Alarm {
        // Before the lock: a waker is somebody else's code.
        let waker = waker.clone();
        let mut set = self.lock();
        set.last += 1;
        let key = (at, set.last);
        set.wakers.insert(key, waker);
        let first = self.note_earliest(&set);
        drop(set);
        if first == at {
            self.0.sooner.notify_all();
        }
        let alarm = Alarm { list: self.clone(), key };
        // Pairs with the fence in `ring`: either that sees this alarm, or the time it was called with is seen here.
        fence(Ordering::SeqCst);
        let now = now();
        if now >= at {
            self.ring(now);
        }
        alarm
    }

    /// Wakes all whose time is `now` or earlier, the earliest first. To be called after the clock shows `now`.
    pub fn ring(&self, now: u64) {
        // Pairs with the fence in `set`.
        fence(Ordering::SeqCst);
        if self.0.earliest.load(Ordering::Relaxed) > now {
            return;
        }
        // One at a time: if a waker panics, the others are still there for the next call.
        while let Some(waker) = self.pop(now) {
            waker.wake();
        }
    }

    /// The time of the first alarm, if any is set.
    pub fn next(&self) -> Option<u64> {
        self.lock().wakers.first_key_value().map(|(&(at, _), _)| at)
    }

    /// How many alarms are set.
    pub fn len(&self) -> usize {
        self.lock().wakers.len()
    }

    /// Is no alarm set?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn pop(&self, now: u64) -> Option<Waker> {
        let mut set = self.lock();
        let first = set.wakers.first_entry().filter(|first| first.key().0 <= now)?;
        let waker = first.remove();
        self.note_earliest(&set);
        Some(waker)
    }

    /// Blocks this thread until an alarm is set before all others, but no longer than until the first one's time, given
    /// what the time is.
    pub(super) fn sleep(&self, now: impl FnOnce() -> u64) {
        let set = self.lock();
        // Whoever sets an earlier one does so under the lock, so it is seen here or notifies.
        match set.wakers.first_key_value().map(|(&(at, _), _)| at) {
            None => drop(self.0.sooner.wait(set)),
            Some(at) => {
                let rest = Duration::from_nanos(at.saturating_sub(now()));
                if !rest.is_zero() {
                    drop(self.0.sooner.wait_timeout(set, rest));
                }
            }
        }
    }

    fn note_earliest(&self, set: &Set) -> u64 {
        let earliest = set.wakers.first_key_value().map_or(NEVER, |(&(at, _), _)| at);
        // Relaxed: stored under the lock, and ordered by the fences otherwise.
        self.0.earliest.store(earliest, Ordering::Relaxed);
        earliest
    }

    fn lock(&self) -> MutexGuard<'_, Set> {
        // Nothing that can panic runs under the lock but the map itself.
        self.0.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Alarm {
    /// When it rings or rang, in nanoseconds of the clock that keeps it.
    pub fn at(&self) -> u64 {
        self.key.0
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        let mut set = self.list.lock();
        let waker = set.wakers.remove(&self.key);
        if waker.is_some() {
            self.list.note_earliest(&set);
        }
        drop(set);
        // After the lock: it may be the last reference to a task, with alarms of its own.
        drop(waker);
    }
}

impl fmt::Debug for Alarms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarms").field("len", &self.len()).field("next", &self.next()).finish()
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alarm").field("at", &self.at()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Counter(AtomicUsize);
    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn counter() -> (Arc<Counter>, Waker) {
        let counter = Arc::new(Counter::default());
        (counter.clone(), counter.into())
    }

    #[test]
    fn an_alarm_rings_once_at_its_time_and_not_before() {
        let (count, waker) = counter();
        let alarms = Alarms::new();
        let _alarm = alarms.set(5, &waker, || 0);
        alarms.ring(4);
        assert_eq!((count.0.load(Ordering::SeqCst), alarms.len()), (0, 1));
        alarms.ring(5);
        alarms.ring(6);
        assert_eq!((count.0.load(Ordering::SeqCst), alarms.len()), (1, 0));
    }

    #[test]
    fn an_alarm_for_the_past_rings_at_once() {
        let (count, waker) = counter();
        let alarms = Alarms::new();
        let _alarm = alarms.set(5, &waker, || 5);
        assert_eq!((count.0.load(Ordering::SeqCst), alarms.next()), (1, None));
    }

    #[test]
    fn a_dropped_alarm_leaves_no_waker_behind() {
        let (count, waker) = counter();
        let alarms = Alarms::new();
        let alarm = alarms.set(5, &waker, || 0);
        let later = alarms.set(7, &waker, || 0);
        drop(waker);
        drop(alarm);
        assert_eq!(alarms.next(), Some(7));
        drop(later);
        assert_eq!(Arc::strong_count(&count), 1);
        alarms.ring(NEVER);
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_waker_that_drops_alarms_of_its_own_does_not_lock_up() {
        struct Holder(#[expect(dead_code, reason = "held to be dropped")] Mutex<Vec<Alarm>>);
        impl Wake for Holder {
            fn wake(self: Arc<Self>) {}
        }
        let alarms = Alarms::new();
        let inner = alarms.set(9, Waker::noop(), || 0);
        let waker: Waker = Arc::new(Holder(Mutex::new(vec![inner]))).into();
        let outer = alarms.set(8, &waker, || 0);
        drop(waker);
        drop(outer);
        assert!(alarms.is_empty());
    }

    #[test]
    fn no_alarm_is_passed_by_while_the_clock_moves() {
        const ROUNDS: u64 = 20_000;
        let (now, turn, moved) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let alarms = Alarms::new();
        let wait_for = |counter: &AtomicU64, round| {
            for spins in 0u64.. {
                if counter.load(Ordering::Acquire) >= round {
                    break;
                }
                // Another thread may need this core.
                if spins % 1_024 == 1_023 { std::thread::yield_now() } else { std::hint::spin_loop() }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    wait_for(&turn, round);
                    (0..round % 61).for_each(|_| std::hint::spin_loop());
                    now.store(round, Ordering::Release);
                    alarms.ring(round);
                    moved.store(round, Ordering::Release);
                }
            });
            let (count, waker) = counter();
            for round in 1..=ROUNDS {
                turn.store(round, Ordering::Release);
                let alarm = alarms.set(round, &waker, || now.load(Ordering::Acquire));
                wait_for(&moved, round);
                let rung = count.0.load(Ordering::SeqCst) as u64;
                // The other thread must end, whatever happened.
                if rung != round {
                    turn.store(ROUNDS, Ordering::Release);
                }
                assert_eq!(rung, round, "an alarm was passed by");
                drop(alarm);
            }
        });
    }
}
