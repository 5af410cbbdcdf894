//! Who waits at which key, in which order.
//!
//! There is a queue for each key at which somebody waits, and nothing for any other. Queues lie in shards, each behind a
//! lock that is held for a look-up and a push or a removal. No waker is woken, cloned or dropped under one, and no clock
//! is read: they are somebody else's code.

use super::AcquireError;
use crate::once::OnceBox;
use crate::sync::{AtomicU64, MODEL, Mutex, Ordering, seeded_bug};
use crossbeam_utils::CachePadded;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::task::Waker;

/// A power of two.
const SHARDS: usize = if MODEL { 2 } else { 64 };

/// All calls that wait at one limiter.
pub(crate) struct Waiters {
    queue_cap: usize,
    waiter_cap: usize,
    /// Made when somebody waits for the first time.
    shared: OnceBox<Shared>,
}

struct Shared {
    shards: [CachePadded<Shard>; SHARDS],
    total: AtomicU64,
}

struct Shard {
    /// How many wait in the queues of this shard: for those who come to see that they need not take the lock.
    waiting: AtomicU64,
    queues: Mutex<Queues>,
}

type Queues = HashMap<Arc<[u8]>, VecDeque<Call>, ahash::RandomState>;

/// One call that waits.
struct Call {
    /// Grows along a queue.
    ticket: u64,
    asks: Asks,
    waker: Waker,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asks {
    pub(crate) cost: u64,
    /// The last nanosecond at which it may be admitted, if there is one.
    pub(crate) deadline: Option<u64>,
}

impl Call {
    /// Its waker, to be woken: it registers another when it looks again.
    fn take_waker(&mut self) -> Waker {
        std::mem::replace(&mut self.waker, Waker::noop().clone())
    }
}

/// A call's place in a queue, which it must [`leave`](Waiters::leave).
#[derive(Debug)]
pub(crate) struct Place {
    key: Arc<[u8]>,
    shard: usize,
    ticket: u64,
}

impl Place {
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

/// What a call sees of its queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Is it the first?
    pub(crate) first: bool,
    /// Was another waker registered so far?
    pub(crate) new_waker: bool,
}

impl Waiters {
    pub(crate) fn new(queue_cap: usize, waiter_cap: usize) -> Self {
        Self { queue_cap, waiter_cap, shared: OnceBox::new() }
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.shared.get().map_or(0, |shared| shared.total.load(Ordering::Acquire) as usize)
    }

    /// Does somebody wait at the key of these bytes? Where nobody waits: two loads.
    #[inline]
    pub(crate) fn any_at(&self, hash: u64, key: &[u8]) -> bool {
        let Some(shared) = self.shared.get() else { return false };
        let shard = &shared.shards[shard_of(hash)];
        // Acquire: whoever was told of a call that waits (it returned `Pending`, and that was passed on) sees it here.
        shard.waiting.load(Ordering::Acquire) != 0 && shard.has(key)
    }

    /// Goes to the end of the queue.
    pub(crate) fn join(
        &self,
        hash: u64,
        key: &[u8],
        asks: Asks,
        waker: &Waker,
    ) -> Result<Place, AcquireError> {
        let (queue_cap, waiter_cap) = (self.queue_cap, self.waiter_cap);
        if queue_cap == 0 {
            return Err(AcquireError::QueueFull { cap: 0 });
        }
        let shared = self.shared.get_or_make(Shared::new);
        let one_more = |n: u64| (n < waiter_cap as u64).then_some(n + 1);
        // Relaxed: a count, which publishes nothing.
        if shared.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_err() {
            return Err(AcquireError::WaitersFull { cap: waiter_cap });
        }
        let number = shard_of(hash);
        let shard = &shared.shards[number];
        let waker = waker.clone();
        let ticket = shard.with(move |queues| {
            let (key, last) = match queues.get_key_value(key) {
                Some((_, queue)) if queue.len() >= queue_cap => return Err(waker),
                Some((key, queue)) => (key.clone(), queue.back().map_or(0, |last| last.ticket)),
                None => (Arc::from(key), 0),
            };
            let call = Call { ticket: last + 1, asks, waker };
            queues.entry(key.clone()).or_default().push_back(call);
            // Under the lock, as every change of it: it is 0 exactly when there is no queue.
            shard.waiting.fetch_add(1, Ordering::Release);
            Ok(Place { key, shard: number, ticket: last + 1 })
        });
        ticket.map_err(|waker| {
            drop(waker);
            shared.total.fetch_sub(1, Ordering::Release);
            AcquireError::QueueFull { cap: queue_cap }
        })
    }

    /// Registers a call's waker, and says whether the call is the first.
    pub(crate) fn look(&self, place: &Place, waker: &Waker) -> Look {
        let mut waker = waker.clone();
        self.shard(place).with(|queues| {
            let queue = queues.get_mut(place.key()).expect("a place is in a queue");
            let index = index(queue, place.ticket);
            let call = &mut queue[index];
            let new_waker = !call.waker.will_wake(&waker);
            if new_waker {
                std::mem::swap(&mut call.waker, &mut waker);
            }
            Look { first: index == 0, new_waker }
        })
    }

    /// What those that wait at a key ask for, in their order: all of them, or those before a place.
    pub(crate) fn before(&self, hash: u64, key: &[u8], place: Option<&Place>) -> Vec<Asks> {
        let Some(shared) = self.shared.get() else { return Vec::new() };
        let end = place.map_or(u64::MAX, |place| place.ticket);
        shared.shards[shard_of(hash)].with(|queues| {
            let calls = queues.get(key).into_iter().flatten();
            calls.take_while(|call| call.ticket < end).map(|call| call.asks).collect()
        })
    }

    /// Gives up a place, and wakes whoever is the first now because of that.
    pub(crate) fn leave(&self, place: &Place) {
        let shard = self.shard(place);
        let (left, next) = shard.with(|queues| {
            let queue = queues.get_mut(place.key()).expect("a place is in a queue");
            let index = index(queue, place.ticket);
            let left = queue.remove(index);
            shard.waiting.fetch_sub(1, Ordering::Release);
            if queue.is_empty() {
                // Its key goes with it. Not dropped here, since the place holds the other reference.
                queues.remove(place.key());
                return (left, None);
            }
            (left, (index == 0).then(|| queue[0].take_waker()))
        });
        self.shared.get().expect("somebody waited").total.fetch_sub(1, Ordering::Release);
        drop(left);
        if !seeded_bug!("next-not-woken") {
            next.into_iter().for_each(wake);
        }
    }

    /// Wakes the first of each queue: what it waits for may have changed.
    pub(crate) fn wake_all_heads(&self) {
        let Some(shared) = self.shared.get() else { return };
        for shard in &shared.shards {
            // Not the count first: a call that is just joining must be found, or find what changed.
            let heads: Vec<Waker> = shard.with(|queues| {
                queues.values_mut().filter_map(|queue| queue.front_mut()).map(Call::take_waker).collect()
            });
            heads.into_iter().for_each(wake);
        }
    }

    fn shard(&self, place: &Place) -> &Shard {
        &self.shared.get().expect("somebody waits").shards[place.shard]
    }
}

/// A task's waker that panics is no business of the call that happens to wake it.
fn wake(waker: Waker) {
    let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
}

fn shard_of(hash: u64) -> usize {
    hash as usize % SHARDS
}

/// Where in its queue the call with this ticket is.
fn index(queue: &VecDeque<Call>, ticket: u64) -> usize {
    queue.partition_point(|call| call.ticket < ticket)
}

impl Shared {
    fn new() -> Self {
        Self { shards: std::array::from_fn(|_| CachePadded::new(Shard::new())), total: AtomicU64::new(0) }
    }
}

impl Shard {
    fn new() -> Self {
        Self { waiting: AtomicU64::new(0), queues: Mutex::new(Queues::default()) }
    }

    #[cold]
    fn has(&self, key: &[u8]) -> bool {
        self.with(|queues| queues.contains_key(key))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Queues) -> T) -> T {
        // What runs under the lock leaves the queues whole wherever it might panic (it allocates).
        act(&mut self.queues.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
