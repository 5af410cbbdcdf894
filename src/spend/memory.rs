//! A store in memory: budgets that end with the process.

use super::books::Books;
use super::engine::limits::FAMILY_LIMITS;
use super::policy::{Grant, Limit, SpendPolicy};
use super::record::{FAMILY, HoldState, Kind, Millis, Move, Phase, Record};
use super::store::{AccountBooks, Opened, Store, StoreError, Usage};
use super::window::Window;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most accounts that it keeps unless told otherwise.
const ACCOUNT_CAP: usize = 1 << 20;

/// Keeps budgets in memory. Clones share what they keep, so an engine can be opened again on it; the process's end loses it.
///
/// It keeps totals, not a ledger: a policy with a window that was not counted before is refused where something was spent.
///
/// ```
/// use tollgate::spend::{MemoryStore, Spend, SpendPolicy, Scope, Limit, Window};
///
/// let store = MemoryStore::new();
/// let policy = SpendPolicy::new().scope(Scope::keyed("user").limit(Limit::calls(25, Window::Lifetime)));
/// let spend = Spend::builder(policy).store(store.clone()).open()?;
/// # Ok::<(), tollgate::spend::OpenError>(())
/// ```
#[derive(Debug, Clone)]
pub struct MemoryStore {
    kept: Arc<Mutex<Kept>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug, Default)]
struct Kept {
    policy: Option<SpendPolicy>,
    account_cap: usize,
    accounts: BTreeMap<(String, String), Totals>,
    holds: HashMap<String, HoldState>,
    /// Ended holds that are remembered, in the order in which they may be forgotten.
    ended: VecDeque<(Millis, String, u64)>,
    grants: HashMap<String, Grant>,
    next_generation: u64,
    latest: Millis,
}

/// What is kept of one account.
#[derive(Debug, Clone, Default)]
struct Totals {
    books: Books,
    /// Of each limit of its scope: what was used in the slots that may still count.
    used: Vec<BTreeMap<u32, i64>>,
}

impl MemoryStore {
    /// An empty one, for up to a million accounts.
    pub fn new() -> Self {
        Self::with_account_cap(ACCOUNT_CAP)
    }

    /// An empty one for up to `account_cap` accounts. Newcomers beyond it are refused.
    pub fn with_account_cap(account_cap: usize) -> Self {
        Self { kept: Arc::new(Mutex::new(Kept { account_cap, ..Kept::default() })) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Writes change copies and put them in place at the end.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The limits of a scope; those of families if there is none of the name.
fn limits<'a>(policy: &'a SpendPolicy, scope: &str) -> Vec<(super::Dimension, &'a Window)> {
    static LIFETIME: Window = Window::Lifetime;
    match policy.scopes.iter().find(|known| known.name == scope) {
        Some(scope) => scope.limits.iter().map(|limit| (limit.dimension, &limit.window)).collect(),
        None if scope == FAMILY => FAMILY_LIMITS.map(|dimension| (dimension, &LIFETIME)).to_vec(),
        None => Vec::new(),
    }
}

impl Totals {
    fn apply(&self, change: &Move, limits: &[(super::Dimension, &Window)]) -> Result<Self, StoreError> {
        let mut changed = self.clone();
        let overflow =
            |dimension| StoreError::Other(format!("{dimension} adds up to more than can be counted"));
        changed.books = changed.books.checked_add(&change.books).map_err(overflow)?;
        changed.used.resize_with(limits.len(), BTreeMap::new);
        for (used, (dimension, window)) in changed.used.iter_mut().zip(limits) {
            let delta = change.books.entry(*dimension).used();
            if delta == 0 {
                continue;
            }
            let slot = used.entry(window.slot(change.at)).or_default();
            *slot = slot.checked_add(delta).ok_or_else(|| overflow(*dimension))?;
        }
        Ok(changed)
    }

    /// Forgets slots that no window adds up any more at `now`.
    fn forget(&mut self, now: Millis, limits: &[(super::Dimension, &Window)]) {
        for (used, (_, window)) in self.used.iter_mut().zip(limits) {
            let oldest = window.slot(now).saturating_sub(window.reach());
            *used = used.split_off(&oldest);
        }
    }
}

impl Kept {
    /// What the totals become under another policy.
    fn counted_by(
        &self,
        policy: &SpendPolicy,
        now: Millis,
    ) -> Result<BTreeMap<(String, String), Totals>, StoreError> {
        let Some(before) = &self.policy else { return Ok(BTreeMap::new()) };
        let mut accounts = self.accounts.clone();
        for ((scope, key), totals) in &mut accounts {
            let old = limits(before, scope);
            let mut used = Vec::new();
            for (dimension, window) in limits(policy, scope) {
                let known = old.iter().position(|limit| *limit == (dimension, window));
                let spent = totals.books.entry(dimension).used();
                used.push(match known {
                    Some(known) => totals.used.get(known).cloned().unwrap_or_default(),
                    None if spent == 0 => BTreeMap::new(),
                    None if *window == Window::Lifetime => BTreeMap::from([(window.slot(now), spent)]),
                    None => {
                        let limit = Limit { dimension, amount: 0, window: window.clone() }.id(scope);
                        return Err(StoreError::NoHistory {
                            limit: format!("{limit} of {key:?}"),
                            since: now,
                        });
                    }
                });
            }
            totals.used = used;
        }
        Ok(accounts)
    }

    fn forget_answers(&mut self, now: Millis) {
        let Some(policy) = &self.policy else { return };
        while let Some((at, id, generation)) = self.ended.front() {
            if at.saturating_add(policy.answers_for) > now {
                break;
            }
            if self.holds.get(id).is_some_and(|hold| hold.generation == *generation) {
                self.holds.remove(id);
            }
            self.ended.pop_front();
        }
    }
}

impl Store for MemoryStore {
    fn open(&self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError> {
        let mut kept = self.kept();
        let now = now.max(kept.latest);
        if let Some(known) = &kept.policy {
            if !known.same_unit(policy) {
                return Err(StoreError::Unit {
                    kept: known.unit.to_string(),
                    asked: policy.unit.to_string(),
                });
            }
        }
        kept.accounts = kept.counted_by(policy, now)?;
        kept.policy = Some(policy.clone());
        kept.forget_answers(now);
        let mut holds: Vec<_> =
            kept.holds.values().filter(|hold| hold.phase == Phase::Open).cloned().collect();
        holds.sort_by_key(|hold| hold.generation);
        Ok(Opened { holds, next_generation: kept.next_generation, latest: kept.latest })
    }

    fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let now = now.max(kept.latest);
        kept.accounts = kept.counted_by(policy, now)?;
        kept.policy = Some(policy.clone());
        Ok(())
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let kept = &mut *kept;
        let Some(policy) = &kept.policy else {
            return Err(StoreError::Other("the store was not opened".into()));
        };
        let mut changed: BTreeMap<(String, String), Totals> = BTreeMap::new();
        for record in records {
            for account in record.path.iter() {
                let name = (account.scope.clone(), account.key.clone());
                let limits = limits(policy, &account.scope);
                let known = changed.get(&name).or_else(|| kept.accounts.get(&name)).cloned();
                let mut totals = known.unwrap_or_default();
                for change in &record.moves {
                    totals = totals.apply(change, &limits)?;
                }
                totals.forget(record.at, &limits);
                changed.insert(name, totals);
            }
        }
        let newcomers = changed.keys().filter(|name| !kept.accounts.contains_key(*name)).count();
        if kept.accounts.len() + newcomers > kept.account_cap {
            return Err(StoreError::Full { what: "account", cap: kept.account_cap });
        }
        // Nothing fails from here on.
        kept.accounts.extend(changed);
        for record in records {
            let hold = &record.hold;
            kept.latest = kept.latest.max(record.at);
            kept.next_generation = kept.next_generation.max(hold.generation.saturating_add(1));
            let over = !matches!(hold.phase, Phase::Open | Phase::Expired);
            if over && !hold.named {
                kept.holds.remove(&hold.id);
                continue;
            }
            if over || record.kind == Kind::Expire {
                kept.ended.push_back((record.at, hold.id.clone(), hold.generation));
            }
            kept.holds.insert(hold.id.clone(), hold.clone());
        }
        if let Some(latest) = records.last().map(|record| record.at) {
            kept.forget_answers(latest);
        }
        Ok(())
    }

    fn usage(&self, scope: &str, key: &str, at: Millis) -> Result<Vec<Usage>, StoreError> {
        let kept = self.kept();
        let Some(policy) = &kept.policy else { return Ok(Vec::new()) };
        let Some(totals) = kept.accounts.get(&(scope.to_owned(), key.to_owned())) else {
            return Ok(Vec::new());
        };
        let mut usage = Vec::new();
        for (limit, (used, (_, window))) in totals.used.iter().zip(limits(policy, scope)).enumerate() {
            let oldest = window.slot(at).saturating_sub(window.reach());
            for (&slot, &used) in used.range(oldest..).filter(|&(_, &used)| used > 0) {
                usage.push(Usage { limit, slot, used: used.unsigned_abs() });
            }
        }
        Ok(usage)
    }

    fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError> {
        Ok(self.kept().holds.get(id).cloned())
    }

    fn books(&self) -> Result<Vec<AccountBooks>, StoreError> {
        let kept = self.kept();
        let place = |scope: &str| {
            let scopes = kept.policy.iter().flat_map(|policy| &policy.scopes);
            scopes.into_iter().position(|known| known.name == scope).unwrap_or(usize::MAX)
        };
        let mut books: Vec<_> = kept
            .accounts
            .iter()
            .map(|((scope, key), totals)| AccountBooks {
                scope: scope.clone(),
                key: key.clone(),
                books: totals.books,
            })
            .collect();
        books.sort_by_cached_key(|account| {
            (place(&account.scope), account.scope.clone(), account.key.clone())
        });
        Ok(books)
    }

    fn open_holds(&self) -> Result<Vec<HoldState>, StoreError> {
        let mut holds: Vec<_> =
            self.kept().holds.values().filter(|hold| hold.phase == Phase::Open).cloned().collect();
        holds.sort_by_key(|hold| hold.generation);
        Ok(holds)
    }

    fn delegate(&self, grant: &Grant) -> Result<(), StoreError> {
        self.kept().grants.entry(grant.id.clone()).or_insert_with(|| grant.clone());
        Ok(())
    }

    fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        Ok(self.kept().grants.get(id).cloned())
    }
}
