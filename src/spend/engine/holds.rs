//! Open holds: by id, and by when they expire.

use super::accounts::Front;
use crate::spend::error::SpendError;
use crate::spend::record::{HoldState, Millis, Phase};
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 64;

/// One hold. Whoever changes it has its lock until the change is durable, so operations on one hold come one after the other.
#[derive(Debug, Default)]
pub(crate) struct Cell(Mutex<Option<Live>>);

/// A hold in memory. `None` in its cell: it was refused, or nobody knows it any more; look again.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) state: HoldState,
    pub(crate) accounts: Vec<Arc<Front>>,
    /// Handles that give it back when the last of them is dropped.
    pub(crate) handles: usize,
    /// Somebody keeps only its name, to settle it later: no handle's end gives it back.
    pub(crate) detached: bool,
    /// When it is looked at, to see whether its time is over: its deadline, or one that it had before.
    pub(crate) looked_at: Millis,
}

impl Cell {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        // A panic in a store's or a clock's code leaves the state as it was before the operation.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Option<Live>>> {
        match self.0.try_lock() {
            Ok(live) => Some(live),
            Err(std::sync::TryLockError::Poisoned(live)) => Some(live.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

impl Live {
    pub(crate) fn new(state: HoldState, accounts: Vec<Arc<Front>>) -> Self {
        Self { looked_at: state.deadline, state, accounts, handles: 1, detached: false }
    }

    pub(crate) fn over(&self, asked: &'static str, phase: &'static str) -> SpendError {
        SpendError::Over { id: self.state.id.clone(), phase, asked }
    }

    pub(crate) fn must_not_be_over(&self, asked: &'static str) -> Result<(), SpendError> {
        match self.state.phase {
            Phase::Open | Phase::Expired => Ok(()),
            Phase::Settled(_) => Err(self.over(asked, "settled")),
            Phase::Released(_) => Err(self.over(asked, "released")),
            Phase::Denied(_) => Err(self.over(asked, "refused")),
        }
    }

    pub(crate) fn must_be_open(&self, asked: &'static str) -> Result<(), SpendError> {
        self.must_not_be_over(asked)?;
        match self.state.phase {
            Phase::Expired => Err(self.over(asked, "expired")),
            _ => Ok(()),
        }
    }
}

/// What a claim needs room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// A new hold.
    Needed,
    /// Perhaps only an answer that the store has: there may be no room for a new hold.
    Hoped,
    /// A hold that was open when the store was opened.
    Due,
    /// Nothing that is open: a hold that is looked for by its name, or settled late.
    Unneeded,
}

/// What came of a claim.
pub(crate) enum Claim {
    /// The id is the caller's.
    Taken,
    /// It is, but there is no room for a new hold.
    TakenBeyondCap,
    /// It is nobody's, since there is no room.
    Full,
    /// Somebody else has it.
    Known(Arc<Cell>),
}

/// A cell's place under an id. It is given up unless it is kept, whatever happens: a store and a clock may panic.
#[must_use]
pub(crate) struct Place<'a> {
    holds: &'a Holds,
    id: &'a str,
    cell: &'a Arc<Cell>,
    kept: bool,
}

impl Place<'_> {
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.holds.remove(self.id, self.cell);
        }
    }
}

#[derive(Debug)]
struct Slot {
    cell: Arc<Cell>,
    /// Does it take up room? Callers that are about to be refused take none from those that find some.
    counts: bool,
}

type Shard = HashMap<String, Slot, ahash::RandomState>;

/// All holds that somebody may change.
#[derive(Debug)]
pub(crate) struct Holds {
    shards: Box<[Mutex<Shard>]>,
    hasher: ahash::RandomState,
    /// Relaxed: it is a budget; holds themselves are handed over by their shard's lock.
    count: AtomicUsize,
    cap: usize,
    /// When each expires at the earliest: ids by deadline and generation.
    deadlines: Mutex<BTreeMap<(Millis, u64), String>>,
    /// The first of them, so that looking costs a load.
    next: AtomicU64,
}

impl Holds {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: ahash::RandomState::new(),
            count: AtomicUsize::new(0),
            cap,
            deadlines: Mutex::default(),
            next: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn cap(&self) -> usize {
        self.cap
    }

    fn shard(&self, id: &str) -> MutexGuard<'_, Shard> {
        let shard = &self.shards[self.hasher.hash_one(id) as usize % SHARDS];
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Cell>> {
        self.shard(id).get(id).map(|slot| Arc::clone(&slot.cell))
    }

    /// Puts `cell`, whose lock the caller has, under `id`, unless another is there.
    pub(crate) fn claim(&self, id: &str, cell: &Arc<Cell>, room: Room) -> Claim {
        match self.shard(id).entry(id.to_owned()) {
            Entry::Occupied(known) => Claim::Known(Arc::clone(&known.get().cell)),
            Entry::Vacant(place) => {
                let below_cap = |count| (count < self.cap || room == Room::Due).then_some(count + 1);
                let counts = room != Room::Unneeded
                    && self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_cap).is_ok();
                if !counts && room == Room::Needed {
                    return Claim::Full;
                }
                place.insert(Slot { cell: Arc::clone(cell), counts });
                if counts { Claim::Taken } else { Claim::TakenBeyondCap }
            }
        }
    }

    /// What was claimed.
    pub(crate) fn place<'a>(&'a self, id: &'a str, cell: &'a Arc<Cell>) -> Place<'a> {
        Place { holds: self, id, cell, kept: false }
    }

    /// Takes `cell` away from `id`, if it is still there.
    pub(crate) fn remove(&self, id: &str, cell: &Arc<Cell>) {
        let mut shard = self.shard(id);
        if shard.get(id).is_some_and(|known| Arc::ptr_eq(&known.cell, cell)) {
            let counted = shard.remove(id).is_some_and(|known| known.counts);
            self.count.fetch_sub(usize::from(counted), Ordering::Relaxed);
        }
    }

    /// Looks at the hold of that generation at `deadline`.
    pub(crate) fn expires(&self, deadline: Millis, generation: u64, id: &str) {
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        deadlines.insert((deadline, generation), id.to_owned());
        self.next.fetch_min(deadline, Ordering::Release);
    }

    /// Does not look at the hold of that generation at `deadline`.
    pub(crate) fn ended(&self, deadline: Millis, generation: u64) {
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        // `next` may be too early then, which costs the next caller a look.
        deadlines.remove(&(deadline, generation));
    }

    /// Up to `most` holds to look at, since their time may be over at `now`.
    pub(crate) fn due(&self, now: Millis, most: usize) -> Vec<(u64, String)> {
        // Acquire: pairs with the release in `expires`; a deadline that this thread knows of is seen.
        if now < self.next.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut deadlines = self.deadlines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut due = Vec::new();
        while due.len() < most
            && deadlines.first_key_value().is_some_and(|(&(deadline, _), _)| deadline <= now)
        {
            due.extend(deadlines.pop_first().map(|((_, generation), id)| (generation, id)));
        }
        let next = deadlines.first_key_value().map_or(u64::MAX, |(&(deadline, _), _)| deadline);
        self.next.store(next, Ordering::Release);
        due
    }
}
