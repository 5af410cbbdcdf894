//! Accounts: the gauges of one key of one scope, as many as there is room for. What is not here is in the store.

use crate::gauge::Gauges;
use crate::spend::amount::{DIMENSIONS, Quantities};
use crate::spend::refusal::Tier;
use crate::spend::store::StoreError;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const SHARDS: usize = 64;
/// How many accounts a newcomer looks at, in each shard, for one that can go.
const LOOKS: usize = 8;

/// One key of one scope, in memory.
#[derive(Debug)]
pub(crate) struct Front {
    /// The scope's place in the policy; families come after all scopes.
    pub(crate) scope: usize,
    pub(crate) key: String,
    /// One for every limit of the scope.
    pub(crate) gauges: Gauges,
    /// The limits' amounts where they are the account's own, as a family's.
    pub(crate) amounts: Option<Box<[u64]>>,
    /// What open holds have set aside: for people to read. It follows the gauges, and never decides; so Relaxed will do.
    held: [AtomicU64; 5],
    tier: AtomicU8,
}

impl Front {
    pub(crate) fn new(scope: usize, key: String, gauges: Gauges, amounts: Option<Box<[u64]>>) -> Self {
        Self { scope, key, gauges, amounts, held: Default::default(), tier: AtomicU8::new(0) }
    }

    pub(crate) fn held(&self) -> Quantities {
        let mut held = Quantities::NONE;
        for dimension in DIMENSIONS {
            held[dimension] = self.held[dimension as usize].load(Ordering::Relaxed);
        }
        held
    }

    pub(crate) fn set_aside(&self, amounts: &Quantities) {
        for (dimension, amount) in amounts.iter().filter(|&(_, amount)| amount > 0) {
            self.held[dimension as usize].fetch_add(amount, Ordering::Relaxed);
        }
    }

    pub(crate) fn no_longer_held(&self, amounts: &Quantities) {
        for (dimension, amount) in amounts.iter().filter(|&(_, amount)| amount > 0) {
            self.held[dimension as usize].fetch_sub(amount, Ordering::Relaxed);
        }
    }

    /// Notes the tier, and returns the one before it.
    pub(crate) fn enter(&self, tier: Tier) -> Tier {
        // Read first: it seldom changes, and every call comes by. Relaxed: it orders nothing, and is only told.
        let before = self.tier.load(Ordering::Relaxed);
        let before =
            if before == tier as u8 { before } else { self.tier.swap(tier as u8, Ordering::Relaxed) };
        match before {
            0 => Tier::Full,
            1 => Tier::Reduced,
            _ => Tier::Blocked,
        }
    }
}

#[derive(Debug, Default)]
struct Shard {
    /// By scope, then by key.
    accounts: Vec<HashMap<Arc<str>, Arc<Front>, ahash::RandomState>>,
    /// All keys of `accounts`, in the order in which they are looked at for one that can go.
    round: VecDeque<(usize, Arc<str>)>,
    /// How many went so far: what was read of the store before one went may be out of date.
    gone: u64,
}

impl Shard {
    fn get(&self, scope: usize, key: &str) -> Option<&Arc<Front>> {
        self.accounts.get(scope)?.get(key)
    }
}

/// All accounts in memory.
#[derive(Debug)]
pub(crate) struct Accounts {
    shards: Box<[RwLock<Shard>]>,
    hasher: ahash::RandomState,
    /// Relaxed: it is a budget; accounts themselves are handed over by their shard's lock.
    count: AtomicUsize,
    cap: usize,
}

/// Why there is no account.
pub(crate) enum NoAccount {
    Full(usize),
    Store(StoreError),
}

impl Accounts {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: ahash::RandomState::new(),
            count: AtomicUsize::new(0),
            cap,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].read().unwrap_or_else(PoisonError::into_inner)
    }
    fn write(&self, shard: usize) -> RwLockWriteGuard<'_, Shard> {
        self.shards[shard].write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The account of `key`, made by `load` if it is not in memory: one that is `due` whether there is room or not. An account
    /// stays while somebody has it, so everything that was done to one that went is in the store.
    pub(crate) fn get(
        &self,
        scope: usize,
        key: &str,
        due: bool,
        load: impl Fn() -> Result<Front, StoreError>,
    ) -> Result<Arc<Front>, NoAccount> {
        let place = self.hasher.hash_one((scope, key)) as usize % SHARDS;
        loop {
            let look = || {
                let shard = self.read(place);
                (shard.get(scope, key).cloned(), shard.gone)
            };
            if let (Some(account), _) = look() {
                return Ok(account);
            }
            // There may be more than the cap: of holds that were due. Each newcomer takes some away, until there are not.
            let mut full = false;
            while !full && self.len() >= self.cap {
                full = !self.make_room(place) && self.len() >= self.cap;
            }
            let gone = match look() {
                (Some(account), _) => return Ok(account),
                (None, _) if full && !due => return Err(NoAccount::Full(self.cap)),
                (None, gone) => gone,
            };
            let account = Arc::new(load().map_err(NoAccount::Store)?);
            let mut shard = self.write(place);
            if let Some(known) = shard.get(scope, key) {
                return Ok(Arc::clone(known));
            }
            if shard.gone != gone {
                // It may have been this one, after it was read and before it was changed again.
                continue;
            }
            // Counted under the lock under which it comes in: two callers of one newcomer take one place.
            let below_cap = |count| (count < self.cap || due).then_some(count + 1);
            if self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_cap).is_err() {
                continue; // another newcomer had the place that there was
            }
            let key: Arc<str> = key.into();
            if shard.accounts.len() <= scope {
                shard.accounts.resize_with(scope + 1, HashMap::default);
            }
            shard.accounts[scope].insert(Arc::clone(&key), Arc::clone(&account));
            shard.round.push_back((scope, key));
            return Ok(account);
        }
    }

    /// Lets one account go that nobody has. Looks at a few in every shard, so that a newcomer is refused in the same time
    /// at any cap.
    fn make_room(&self, first: usize) -> bool {
        (0..SHARDS).any(|step| {
            let mut shard = self.write((first + step) % SHARDS);
            (0..LOOKS).any(|_| {
                let Some((scope, key)) = shard.round.pop_front() else { return false };
                // Nobody can get one while the shard is locked.
                let idle = shard.get(scope, &key).is_some_and(|account| Arc::strong_count(account) == 1);
                if idle {
                    // Acquire: pairs with the release by which the last one that had it let go, so that whatever it wrote to
                    // the store is there for the next to read.
                    fence(Ordering::Acquire);
                    shard.accounts[scope].remove(&key);
                    shard.gone += 1;
                    self.count.fetch_sub(1, Ordering::Relaxed);
                } else {
                    shard.round.push_back((scope, key));
                }
                idle
            })
        })
    }
}
