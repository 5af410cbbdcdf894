//! One call that waits: a future that draws when it is polled, and not otherwise.

use super::AcquireError;
use super::blocking::block_on;
use super::queues::{Asks, Place, Waiters};
use crate::key::{Key, KeyBytes, encoded};
use crate::refusal::{Reason, Refusal};
use crate::sync::seeded_bug;
use crate::table::cell::PackedKey;
use crate::time::{Alarm, nanos};
use crate::{Admission, Limiter};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A call that waits until it is admitted: a future for any runtime, or [`blocking`](Self::blocking). Made by
/// [`Limiter::acquire`].
///
/// It takes its place in the key's queue when it is first polled, draws in the poll that returns the [`Admission`],
/// and gives its place up when it is dropped: then nothing was drawn, and the next one is woken.
#[must_use = "a call that is neither awaited nor blocked on does not wait"]
pub struct Acquire<'a, K: Key + ?Sized> {
    limiter: &'a Limiter<K>,
    key: &'a K,
    cost: u64,
    deadline: Option<u64>,
    /// Boxed, so that a call that need not wait is small.
    waiting: Option<Box<Waiting>>,
}

struct Waiting {
    place: Place,
    alarm: Option<Alarm>,
}

type Answer = Result<Admission, AcquireError>;

impl<K: Key + ?Sized> Limiter<K> {
    /// Waits until one token can be drawn for `key`.
    ///
    /// Calls that wait at one key are admitted in the order in which they came: who comes later goes behind them, even
    /// if there are tokens. Where nobody waits, this costs what a [`check`](Self::check) does. `check` does not queue,
    /// and may take what a call waits for; that call then waits on.
    ///
    /// The first of a queue must be polled when it is woken, since those behind it wait for it. A task that is not
    /// holds up its key's queue (no other key, and no `check`), until it is dropped. One that is leaked
    /// ([`std::mem::forget`]) without having been dropped holds it up for good.
    ///
    /// # Errors
    /// [`AcquireError`], at once where waiting does not help or is not allowed: see there.
    ///
    /// ```
    /// use std::thread;
    /// use std::time::Duration;
    /// use tollgate::{Limiter, quota::Quota, time::ManualClock};
    ///
    /// let clock = ManualClock::new();
    /// let limiter = Limiter::<str>::builder(Quota::per_second(2).burst(3)).clock(clock.clone()).build()?;
    /// limiter.check_n("alice", 3).unwrap();
    /// thread::scope(|scope| {
    ///     let fourth = scope.spawn(|| limiter.acquire("alice").within(Duration::from_secs(1)).blocking());
    ///     while limiter.waiting() == 0 {
    ///         thread::yield_now();
    ///     }
    ///     clock.advance(Duration::from_millis(500));
    ///     assert_eq!(fourth.join().unwrap().unwrap().at, 500_000_000);
    /// });
    /// // In a task: limiter.acquire("alice").await?;
    /// # Ok::<(), tollgate::ConfigError>(())
    /// ```
    #[inline]
    pub fn acquire<'a>(&'a self, key: &'a K) -> Acquire<'a, K> {
        Acquire { limiter: self, key, cost: 1, deadline: None, waiting: None }
    }

    /// How many calls wait, on all keys together. A weak snapshot: exact when none comes or goes.
    pub fn waiting(&self) -> usize {
        self.waiters.len()
    }
}

impl<K: Key + ?Sized> Acquire<'_, K> {
    /// Draws `tokens` instead of one. To be set before the call is polled: one that waits already goes to the end of the
    /// queue. With 0 it is a peek: admitted at once, and it does not queue.
    pub fn cost(mut self, tokens: u64) -> Self {
        // Those behind it reckon with what it asked for: if it asks for something else it goes to the end.
        self.give_up();
        self.cost = tokens;
        self
    }

    /// Waits no longer than `wait` from now. See [`by`](Self::by).
    pub fn within(self, wait: Duration) -> Self {
        let now = self.limiter.table.clock.now();
        self.by(now.saturating_add(nanos(wait)))
    }

    /// Is admitted no later than when the limiter's clock shows `deadline` nanoseconds, or refused
    /// ([`DeadlineTooEarly`](AcquireError::DeadlineTooEarly)): at once when the turn of this call, behind those that
    /// wait before it, comes later than that; and as soon as it is the first and sees that it was put off, or the
    /// deadline is past.
    ///
    /// A deadline that equals the time of the admission is met in virtual time. In real time a waker is always a little
    /// late: leave room for it.
    pub fn by(mut self, deadline: u64) -> Self {
        self.give_up();
        self.deadline = Some(deadline);
        self
    }

    /// Waits by stopping this thread. Not for threads that run tasks.
    ///
    /// # Errors
    /// As the future: see [`Limiter::acquire`].
    #[inline]
    pub fn blocking(self) -> Result<Admission, AcquireError> {
        // First without what a thread needs in order to wait.
        match self.at_once() {
            Some(answer) => answer,
            None => block_on(self),
        }
    }

    /// The answer, if this call need not wait. `None`: it has to queue.
    #[inline(always)]
    fn at_once(&self) -> Option<Answer> {
        let limiter = self.limiter;
        if self.cost == 0 || self.deadline.is_some() {
            return self.at_once_if_in_time();
        }
        let mut buffer = KeyBytes::default();
        let key = limiter.table.pack(0, encoded(self.key, &mut buffer));
        if limiter.waiters.any_at(key.hash, key.bytes()) {
            return self.behind_others();
        }
        match limiter.draw(&key, self.cost) {
            Ok(admission) => Some(Ok(admission)),
            Err(refusal) => at_once_refused(refusal),
        }
    }

    /// As [`at_once`](Self::at_once), for calls with a deadline, and those that cost nothing.
    #[inline(never)]
    fn at_once_if_in_time(&self) -> Option<Answer> {
        let limiter = self.limiter;
        if self.cost == 0 {
            return Some(limiter.check_n(self.key, 0).map_err(AcquireError::Refused));
        }
        let mut buffer = KeyBytes::default();
        let key = limiter.table.pack(0, encoded(self.key, &mut buffer));
        if let Some(deadline) = self.deadline.filter(|&deadline| limiter.table.clock.now() > deadline) {
            return Some(Err(self.too_early(&key, deadline)));
        }
        if limiter.waiters.any_at(key.hash, key.bytes()) {
            return self.behind_others();
        }
        limiter.draw(&key, self.cost).map_or_else(at_once_refused, |admission| Some(Ok(admission)))
    }

    /// Others wait. Those behind a call that can never be admitted should not have to wait until it is told so.
    #[cold]
    fn behind_others(&self) -> Option<Answer> {
        self.limiter.table.impossible(0, [self.cost, 0]).map(|refusal| Err(refusal.into()))
    }

    #[cold]
    fn join(&mut self, waker: &Waker) -> Result<(), AcquireError> {
        let waiters = &self.limiter.waiters;
        let asks = Asks { cost: self.cost, deadline: self.deadline };
        let mut buffer = KeyBytes::default();
        let key = self.limiter.table.pack(0, encoded(self.key, &mut buffer));
        let place = waiters.join(key.hash, key.bytes(), asks, waker)?;
        self.waiting = Some(Box::new(Waiting { place, alarm: None }));
        Ok(())
    }

    /// A poll of a call that has a place.
    #[cold]
    fn go_on(&mut self, waker: &Waker) -> Poll<Answer> {
        let limiter = self.limiter;
        let clock = &limiter.table.clock;
        let Some(Waiting { place, alarm }) = self.waiting.as_deref_mut() else {
            unreachable!("it has joined")
        };
        // The waker is registered before the bucket is read: what changes after that wakes it.
        let registered = if seeded_bug!("waker-after-look") { Waker::noop() } else { waker };
        let look = limiter.waiters.look(place, registered);
        // Before the draw: an alarm counted from here is early, if anything, and early is harmless.
        let now = clock.now();
        let came_now = alarm.is_none();
        let deadline = self.deadline;
        let is_late = deadline.is_some_and(|deadline| now > deadline);
        let key = limiter.table.pack(0, place.key());
        let mut wake_at = None;
        if look.first && !is_late {
            match limiter.draw(&key, self.cost) {
                Ok(admission) => return self.leave(Ok(admission)),
                Err(refusal) => match wait_of(&refusal) {
                    Some(wait) => wake_at = Some(now.saturating_add(nanos(wait))),
                    None => return self.leave(Err(refusal.into())),
                },
            }
        }
        if seeded_bug!("waker-after-look") {
            limiter.waiters.look(place, waker);
        }
        if let Some(deadline) = deadline {
            if is_late || look.first || came_now {
                let before = limiter.waiters.before(key.hash, key.bytes(), Some(place));
                match limiter.earliest(&key, &before, self.cost) {
                    Ok(earliest) if is_late || earliest > deadline => {
                        return self.leave(Err(AcquireError::DeadlineTooEarly { earliest, deadline }));
                    }
                    Ok(_) => {}
                    Err(refusal) => return self.leave(Err(refusal.into())),
                }
            }
            // At the deadline itself it may still be admitted.
            let expires = deadline.saturating_add(1);
            wake_at = Some(wake_at.map_or(expires, |at| at.min(expires)));
        }
        let keep = !look.new_waker
            && alarm.as_ref().map(Alarm::at).is_some_and(|at| Some(at) == wake_at && at > now);
        if !keep {
            *alarm = None;
            *alarm = wake_at.map(|at| clock.wake_at(at, waker));
        }
        Poll::Pending
    }

    /// The answer to a call that comes after its deadline.
    #[cold]
    fn too_early(&self, key: &PackedKey<'_>, deadline: u64) -> AcquireError {
        let before = self.limiter.waiters.before(key.hash, key.bytes(), None);
        match self.limiter.earliest(key, &before, self.cost) {
            Ok(earliest) => AcquireError::DeadlineTooEarly { earliest, deadline },
            Err(refusal) => refusal.into(),
        }
    }

    /// Gives up the place with this answer.
    fn leave(&mut self, answer: Answer) -> Poll<Answer> {
        self.give_up();
        Poll::Ready(answer)
    }

    /// Gives up the place, if it has one.
    #[inline]
    fn give_up(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            leave(&self.limiter.waiters, *waiting);
        }
    }
}

#[cold]
fn leave(waiters: &Waiters, Waiting { place, alarm }: Waiting) {
    drop(alarm);
    waiters.leave(&place);
}

/// The answer to a call that was refused, unless it may wait.
#[cold]
fn at_once_refused(refusal: Refusal) -> Option<Answer> {
    match wait_of(&refusal) {
        Some(_) => None,
        None => Some(Err(refusal.into())),
    }
}

/// How long until the same call may be admitted, if waiting for that makes sense.
fn wait_of(refusal: &Refusal) -> Option<Duration> {
    refusal.retry_after.filter(|_| matches!(refusal.reason, Reason::Exhausted | Reason::Penalized))
}

impl<K: Key + ?Sized> Future for Acquire<'_, K> {
    type Output = Result<Admission, AcquireError>;

    /// A call that was answered and is polled again asks anew.
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.waiting.is_none() {
            if let Some(answer) = this.at_once() {
                return Poll::Ready(answer);
            }
            if let Err(full) = this.join(context.waker()) {
                return Poll::Ready(Err(full));
            }
        }
        this.go_on(context.waker())
    }
}

impl<K: Key + ?Sized> Drop for Acquire<'_, K> {
    #[inline]
    fn drop(&mut self) {
        self.give_up();
    }
}

impl<K: Key + ?Sized> fmt::Debug for Acquire<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("cost", &self.cost)
            .field("deadline", &self.deadline)
            .field("waiting", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}
