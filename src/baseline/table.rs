//! One lock, one map: where the baseline keeps its buckets.

use crate::quota::{Arithmetic, Decision};
use crate::table::check_bucket_cap;
use crate::time::EngineClock;
use crate::{ConfigError, LimitName, Reason, Refusal};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A key while it is looked up: only a new key is copied to the heap.
pub(super) type KeyBuffer = SmallVec<[u8; 88]>;

/// A limit's name and arithmetic.
pub(super) struct Limit {
    pub(super) name: LimitName,
    pub(super) line: Arithmetic,
}

/// What one call takes from the entry of one key: a cost for each of its `L` lanes.
pub(super) struct Draw<const L: usize> {
    pub(super) key: KeyBuffer,
    /// The limit of lane 0; lane `n` is under limit `limit + n`.
    pub(super) limit: usize,
    pub(super) costs: [u64; L],
    /// Set by an admission: the entry's marks after it.
    pub(super) marks: [u64; L],
}

impl<const L: usize> Draw<L> {
    pub(super) fn new(key: KeyBuffer, limit: usize, costs: [u64; L]) -> Self {
        Self { key, limit, costs, marks: [0; L] }
    }

    /// A draw of nothing is a peek: it makes no bucket.
    fn is_peek(&self) -> bool {
        self.costs.iter().all(|&cost| cost == 0)
    }
}

/// Whether a decision takes what it allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Draw,
    Preview,
}

/// The buckets of one key: one mark for each lane. A mark of 0 is a full bucket.
struct Entry<const L: usize> {
    limit: usize,
    marks: [u64; L],
}

struct State<const L: usize> {
    /// The latest time used. A clock that steps back is held here, so that a forgotten bucket is never
    /// remade at a time before the one at which it was found refilled.
    latest: u64,
    entries: HashMap<Box<[u8]>, Entry<L>, ahash::RandomState>,
}

/// Entries of `L` buckets each, under one lock.
pub(super) struct Table<const L: usize> {
    limits: Vec<Limit>,
    clock: EngineClock,
    /// `bucket_cap / L`: an entry fits whole or not at all.
    most_entries: usize,
    state: Mutex<State<L>>,
}

impl<const L: usize> Table<L> {
    /// A table for draws on `limits`, with room for at least `entries_per_call` entries.
    pub(super) fn new(
        limits: Vec<Limit>,
        bucket_cap: usize,
        entries_per_call: usize,
        clock: EngineClock,
    ) -> Result<Self, ConfigError> {
        check_bucket_cap(bucket_cap, L * entries_per_call)?;
        let state = State { latest: 0, entries: HashMap::with_hasher(ahash::RandomState::new()) };
        Ok(Self { limits, clock, most_entries: bucket_cap / L, state: Mutex::new(state) })
    }

    /// Finds whether all of `draws` can be taken, and in [`Mode::Draw`] takes them; returns the time of the
    /// decision. No two draws may have one key.
    pub(super) fn decide(&self, mode: Mode, draws: &mut [Draw<L>]) -> Result<u64, Refusal> {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        self.judge(&state, now, draws)?;
        self.make_room(&mut state, now, draws)?;
        if mode == Mode::Draw {
            state.take(draws);
        }
        Ok(now)
    }

    /// Refuses what the buckets cannot pay; otherwise sets each draw's marks.
    fn judge(&self, state: &State<L>, now: u64, draws: &mut [Draw<L>]) -> Result<(), Refusal> {
        for draw in draws.iter() {
            for (limit, &cost) in self.limits[draw.limit..].iter().zip(&draw.costs) {
                if limit.line.units(cost).is_none() {
                    return Err(limit.refuse(Reason::Impossible, cost));
                }
            }
        }
        let mut longest: Option<(u64, Refusal)> = None;
        for draw in draws {
            draw.marks = state.entries.get(&draw.key[..]).map_or([0; L], |entry| entry.marks);
            let lanes = self.limits[draw.limit..].iter().zip(&draw.costs).zip(&mut draw.marks);
            for ((limit, &cost), mark) in lanes {
                match limit.line.decide(*mark, now, cost) {
                    Decision::Admit { mark: after } => *mark = after,
                    Decision::Impossible => return Err(limit.refuse(Reason::Impossible, cost)),
                    Decision::PastHorizon => {
                        return Err(Refusal { available: 0, ..limit.refuse(Reason::PastHorizon, cost) });
                    }
                    Decision::Exhausted { available, retry_at } => {
                        // A wait that ends past the horizon is longer than any other.
                        let until = retry_at.unwrap_or(u64::MAX);
                        if longest.as_ref().is_none_or(|(other, _)| until > *other) {
                            let wait = retry_at
                                .map(|at| at.saturating_sub(now).saturating_add(self.clock.granularity()));
                            let refusal = Refusal {
                                available,
                                retry_after: wait.map(Duration::from_nanos),
                                ..limit.refuse(Reason::Exhausted, cost)
                            };
                            longest = Some((until, refusal));
                        }
                    }
                }
            }
        }
        longest.map_or(Ok(()), |(_, refusal)| Err(refusal))
    }

    /// Makes sure that every new key of `draws` fits, or refuses in the name of the first for which no room is
    /// left.
    fn make_room(&self, state: &mut State<L>, now: u64, draws: &[Draw<L>]) -> Result<(), Refusal> {
        if state.missing(draws).count() > self.free(state) {
            self.prune(state, now);
        }
        // Counted again: pruning may have forgotten a refilled bucket of this very call.
        match state.missing(draws).nth(self.free(state)) {
            None => Ok(()),
            Some(draw) => Err(self.limits[draw.limit].refuse(Reason::TableFull, draw.costs[0])),
        }
    }

    /// How many new entries fit.
    fn free(&self, state: &State<L>) -> usize {
        self.most_entries - state.entries.len()
    }

    fn prune(&self, state: &mut State<L>, now: u64) {
        state.entries.retain(|_, entry| {
            let mut lanes = self.limits[entry.limit..].iter().zip(&entry.marks);
            !lanes.all(|(limit, &mark)| mark <= limit.line.accrued(now))
        });
    }

    /// Forgets every refilled entry; returns how many buckets that were.
    pub(super) fn prune_refilled(&self) -> usize {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        let before = state.entries.len();
        self.prune(&mut state, now);
        (before - state.entries.len()) * L
    }

    /// Whole tokens in each bucket of `key`, whose lane 0 is under `limit`.
    pub(super) fn available(&self, key: &[u8], limit: usize) -> [u64; L] {
        let mut state = self.lock();
        let now = state.advance(&self.clock);
        let marks = state.entries.get(key).map_or([0; L], |entry| entry.marks);
        std::array::from_fn(|lane| self.limits[limit + lane].line.available(marks[lane], now))
    }

    /// The limits, in order.
    pub(super) fn limits(&self) -> &[Limit] {
        &self.limits
    }

    /// Live buckets.
    pub(super) fn buckets(&self) -> usize {
        self.lock().entries.len() * L
    }

    /// The only foreign code under the lock is the clock, which is read before anything changes: after a
    /// panic in it the map is as it was, so a poisoned lock is safe to go on with.
    fn lock(&self) -> MutexGuard<'_, State<L>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<const L: usize> State<L> {
    fn take(&mut self, draws: &[Draw<L>]) {
        for draw in draws.iter().filter(|draw| !draw.is_peek()) {
            match self.entries.get_mut(&draw.key[..]) {
                Some(entry) => entry.marks = draw.marks,
                None => {
                    let entry = Entry { limit: draw.limit, marks: draw.marks };
                    self.entries.insert(draw.key[..].into(), entry);
                }
            }
        }
    }

    /// Reads the clock, once for each decision.
    fn advance(&mut self, clock: &EngineClock) -> u64 {
        self.latest = self.latest.max(clock.now());
        self.latest
    }

    /// The draws that need an entry and have none.
    fn missing<'a>(&'a self, draws: &'a [Draw<L>]) -> impl Iterator<Item = &'a Draw<L>> {
        draws.iter().filter(|draw| !draw.is_peek() && !self.entries.contains_key(&draw.key[..]))
    }
}

impl Limit {
    /// A refusal without a wait, of a bucket that is full or may be taken as such.
    pub(super) fn refuse(&self, reason: Reason, needed: u64) -> Refusal {
        let available = self.line.capacity();
        Refusal { limit: self.name.clone(), reason, needed, available, retry_after: None }
    }
}
