//! A store in memory: budgets that end with the process.

use super::amount::Dimension;
use super::books::Books;
use super::engine::limits::FAMILY_LIMITS;
use super::policy::{Grant, SpendPolicy, limit_id};
use super::record::{Account, FAMILY, HoldState, Millis, Move, Phase, Record};
use super::store::{AccountBooks, Opened, Store, StoreError, Usage};
use super::window::Window;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most accounts that it keeps unless told otherwise.
const ACCOUNT_CAP: usize = 1 << 20;
/// The most holds that are open or remembered, unless told otherwise.
const HOLD_CAP: usize = 1 << 22;

/// Keeps budgets in memory. Clones share what they keep, so an engine can be opened again on it once the one before and its holds
/// are gone; the process's end loses it.
///
/// Four million holds are open or remembered at the most, unless it is [told otherwise](Self::with_caps). Beyond them the oldest
/// refusals are forgotten early, and newcomers are refused when there are none. It keeps totals, not a ledger: a policy with a
/// window that was not counted before is refused where something was spent.
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
    /// Does an engine use it?
    is_open: bool,
    policy: Option<SpendPolicy>,
    account_cap: usize,
    scopes: HashMap<String, ScopeTotals, ahash::RandomState>,
    hold_cap: usize,
    holds: HashMap<String, Remembered, ahash::RandomState>,
    /// Ended holds that are remembered, in the order in which they may be forgotten.
    ended: Ends,
    /// The same of calls that were refused. They make room for others: asked again, such a call is judged again.
    denied: Ends,
    grants: HashMap<String, Grant>,
    next_generation: u64,
    latest: Millis,
}

/// A hold, and when it ended if it did: a hold that expired ends once more when it is settled late.
#[derive(Debug)]
struct Remembered {
    state: HoldState,
    ended: Millis,
}

/// Ids by when their hold ended, and its generation.
type Ends = BTreeMap<(Millis, u64), String>;

/// What is kept of one scope. One that the policy has no longer keeps its books, and has no limits.
#[derive(Debug, Clone, Default)]
struct ScopeTotals {
    limits: Vec<(Dimension, Window)>,
    accounts: HashMap<String, Totals, ahash::RandomState>,
}

/// What is kept of one account.
#[derive(Debug, Clone, Default)]
struct Totals {
    books: Books,
    /// Of each limit of its scope: what was used in the slots that may still count.
    used: Vec<BTreeMap<u32, i128>>,
}

impl MemoryStore {
    /// An empty one, for up to a million accounts.
    pub fn new() -> Self {
        Self::with_account_cap(ACCOUNT_CAP)
    }

    /// An empty one for up to `account_cap` accounts. Newcomers beyond it are refused.
    pub fn with_account_cap(account_cap: usize) -> Self {
        Self::with_caps(account_cap, HOLD_CAP)
    }

    /// An empty one for up to `account_cap` accounts, and `hold_cap` holds that are open or remembered.
    pub fn with_caps(account_cap: usize, hold_cap: usize) -> Self {
        Self { kept: Arc::new(Mutex::new(Kept { account_cap, hold_cap, ..Kept::default() })) }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Nothing panics while it is locked.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_over(hold: &HoldState) -> bool {
    !matches!(hold.phase, Phase::Open | Phase::Expired)
}

fn not_open() -> StoreError {
    StoreError::Other("the store is not open: open it under a policy first".to_owned())
}

/// Is it open, or will somebody ask for it by its id?
fn is_kept(hold: &HoldState) -> bool {
    hold.named || !is_over(hold)
}

/// The limits of a scope; those of families if there is none of the name.
fn limits(policy: &SpendPolicy, scope: &str) -> Vec<(Dimension, Window)> {
    match policy.scopes.iter().find(|known| known.name == scope) {
        Some(scope) => scope.limits.iter().map(|limit| (limit.dimension, limit.window.clone())).collect(),
        None if scope == FAMILY => FAMILY_LIMITS.map(|dimension| (dimension, Window::Lifetime)).to_vec(),
        None => Vec::new(),
    }
}

impl Totals {
    /// Enters a change, or nothing of it.
    fn enter(&mut self, change: &Move, limits: &[(Dimension, Window)]) -> Result<(), Dimension> {
        self.books.add_books(&change.books)?;
        self.used.resize_with(limits.len(), BTreeMap::new);
        for (used, (dimension, window)) in self.used.iter_mut().zip(limits) {
            // Each is at most what the books add up to, which fits.
            let delta = change.books.entry(*dimension).used();
            if delta != 0 {
                let slot = used.entry(window.slot(change.at)).or_default();
                *slot = slot.saturating_add(delta);
            }
        }
        Ok(())
    }

    /// Enters what a record moves, or nothing of it.
    fn enter_all(&mut self, record: &Record, limits: &[(Dimension, Window)]) -> Result<(), StoreError> {
        for (entered, change) in record.moves.iter().enumerate() {
            if let Err(dimension) = self.enter(change, limits) {
                record.moves[..entered].iter().for_each(|change| self.take_back(change, limits));
                return Err(StoreError::Other(format!("{dimension} adds up to more than can be counted")));
            }
        }
        self.forget(record.at, limits);
        Ok(())
    }

    /// Undoes [`enter`](Self::enter).
    fn take_back(&mut self, change: &Move, limits: &[(Dimension, Window)]) {
        let undone = Move { at: change.at, books: change.books.negated() };
        let _ = self.enter(&undone, limits); // what was there before fits
    }

    /// Forgets slots that no window adds up any more at `now`.
    fn forget(&mut self, now: Millis, limits: &[(Dimension, Window)]) {
        for (used, (_, window)) in self.used.iter_mut().zip(limits) {
            let oldest = window.slot(now).saturating_sub(window.reach());
            while used.first_key_value().is_some_and(|(&slot, _)| slot < oldest) {
                used.pop_first();
            }
        }
    }
}

impl Kept {
    /// What the totals become under another policy.
    fn counted_by(
        &self,
        policy: &SpendPolicy,
        now: Millis,
    ) -> Result<HashMap<String, ScopeTotals, ahash::RandomState>, StoreError> {
        let mut scopes = self.scopes.clone();
        for (scope, ScopeTotals { limits: old, accounts }) in &mut scopes {
            let new = limits(policy, scope);
            for (key, totals) in accounts {
                let mut used = Vec::new();
                for (dimension, window) in &new {
                    let known = old.iter().position(|limit| limit == &(*dimension, window.clone()));
                    let spent = totals.books.entry(*dimension).used();
                    used.push(match known {
                        Some(known) => totals.used.get(known).cloned().unwrap_or_default(),
                        None if spent == 0 => BTreeMap::new(),
                        None if *window == Window::Lifetime => BTreeMap::from([(window.slot(now), spent)]),
                        None => {
                            let limit = limit_id(scope, *dimension, window);
                            return Err(StoreError::NoHistory {
                                limit: format!("{limit} of {key:?}"),
                                since: now,
                            });
                        }
                    });
                }
                totals.used = used;
            }
            *old = new;
        }
        for name in policy.scopes.iter().map(|scope| scope.name.as_str()).chain([FAMILY]) {
            let scope = scopes.entry(name.to_owned()).or_default();
            scope.limits = limits(policy, name);
        }
        Ok(scopes)
    }

    fn accounts(&self) -> usize {
        self.scopes.values().map(|scope| scope.accounts.len()).sum()
    }

    /// Enters the moves of a record into the books of its accounts, or nothing of it.
    fn enter(&mut self, record: &Record) -> Result<(), StoreError> {
        for (entered, account) in record.path.iter().enumerate() {
            if let Err(error) = self.enter_into(account, record) {
                record.path[..entered].iter().for_each(|account| self.take_back(account, record));
                return Err(error);
            }
        }
        Ok(())
    }

    fn enter_into(&mut self, account: &Account, record: &Record) -> Result<(), StoreError> {
        let known = self.scopes.get_mut(&account.scope);
        if let Some(ScopeTotals { limits, accounts }) = known {
            if let Some(totals) = accounts.get_mut(&account.key) {
                return totals.enter_all(record, limits);
            }
        }
        let cap = self.account_cap;
        if self.accounts() >= cap {
            return Err(StoreError::Full { what: "account", cap });
        }
        let ScopeTotals { limits, accounts } = self.scopes.entry(account.scope.clone()).or_default();
        let mut totals = Totals::default();
        totals.enter_all(record, limits)?;
        accounts.insert(account.key.clone(), totals);
        Ok(())
    }

    /// Takes what a record moved out of an account's books again, and the account if it came with it.
    fn take_back(&mut self, account: &Account, record: &Record) {
        let Some(ScopeTotals { limits, accounts }) = self.scopes.get_mut(&account.scope) else { return };
        let Some(totals) = accounts.get_mut(&account.key) else { return };
        record.moves.iter().for_each(|change| totals.take_back(change, limits));
        if totals.books.is_empty() {
            accounts.remove(&account.key);
        }
    }

    /// Oldest first.
    fn open_holds(&self) -> Vec<HoldState> {
        let states = self.holds.values().map(|known| &known.state);
        let mut open: Vec<_> = states.filter(|hold| hold.phase == Phase::Open).cloned().collect();
        open.sort_by_key(|hold| hold.generation);
        open
    }

    /// Makes room for so many more holds, by refusals that are forgotten early.
    fn make_room(&mut self, newcomers: usize) -> Result<(), StoreError> {
        while self.holds.len() + newcomers > self.hold_cap {
            let Some((_, oldest)) = self.denied.pop_first() else {
                return Err(StoreError::Full { what: "hold or answer", cap: self.hold_cap });
            };
            self.holds.remove(&oldest);
        }
        Ok(())
    }

    fn remember(&mut self, record: &Record) {
        let (hold, at) = (&record.hold, record.at);
        self.latest = self.latest.max(at);
        self.next_generation = self.next_generation.max(hold.generation.saturating_add(1));
        let known = match is_kept(hold) {
            true => self.holds.insert(hold.id.clone(), Remembered { state: hold.clone(), ended: at }),
            false => self.holds.remove(&hold.id),
        };
        if let Some(Remembered { state, ended }) = known.filter(|known| known.state.phase != Phase::Open) {
            // It ends once more: settled late, or charged.
            self.ends(&state.phase).remove(&(ended, state.generation));
        }
        if is_kept(hold) && hold.phase != Phase::Open {
            self.ends(&hold.phase).insert((at, hold.generation), hold.id.clone());
        }
    }

    fn ends(&mut self, phase: &Phase) -> &mut Ends {
        match phase {
            Phase::Denied(_) => &mut self.denied,
            _ => &mut self.ended,
        }
    }

    /// Forgets up to `most` answers whose time is over, and as many refusals.
    fn forget_answers(&mut self, now: Millis, most: usize) {
        let Some(policy) = &self.policy else { return };
        let over = |(at, _): &(Millis, u64)| at.saturating_add(policy.answers_for) <= now;
        for ends in [&mut self.ended, &mut self.denied] {
            for _ in 0..most {
                if !ends.first_key_value().is_some_and(|(end, _)| over(end)) {
                    break;
                }
                if let Some((_, id)) = ends.pop_first() {
                    self.holds.remove(&id);
                }
            }
        }
    }
}

impl Store for MemoryStore {
    fn open(&self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError> {
        let mut kept = self.kept();
        if kept.is_open {
            return Err(StoreError::InUse {
                path: "the store in memory".to_owned(),
                holder: Some(std::process::id()),
            });
        }
        let now = now.max(kept.latest);
        if let Some(known) = &kept.policy {
            if !known.same_unit(policy) {
                return Err(StoreError::Unit {
                    kept: known.unit.to_string(),
                    asked: policy.unit.to_string(),
                });
            }
        }
        kept.scopes = kept.counted_by(policy, now)?;
        kept.policy = Some(policy.clone());
        kept.is_open = true;
        kept.forget_answers(now, usize::MAX);
        Ok(Opened { holds: kept.open_holds(), next_generation: kept.next_generation, latest: kept.latest })
    }

    fn close(&self) {
        self.kept().is_open = false;
    }

    fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let now = now.max(kept.latest);
        kept.scopes = kept.counted_by(policy, now)?;
        kept.policy = Some(policy.clone());
        Ok(())
    }

    fn waits(&self) -> bool {
        false
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let kept = &mut *kept;
        if kept.policy.is_none() {
            return Err(not_open());
        }
        for (entered, record) in records.iter().enumerate() {
            if let Err(error) = kept.enter(record) {
                for record in records[..entered].iter().rev() {
                    record.path.iter().for_each(|account| kept.take_back(account, record));
                }
                return Err(error);
            }
        }
        let newcomer = |record: &&Record| is_kept(&record.hold) && !kept.holds.contains_key(&record.hold.id);
        let newcomers = records.iter().filter(newcomer).count();
        if let Err(full) = kept.make_room(newcomers) {
            for record in records.iter().rev() {
                record.path.iter().for_each(|account| kept.take_back(account, record));
            }
            return Err(full);
        }
        // Nothing fails from here on.
        records.iter().for_each(|record| kept.remember(record));
        if let Some(latest) = records.last().map(|record| record.at) {
            // At least as fast as they come in.
            kept.forget_answers(latest, 2 * records.len() + 16);
        }
        Ok(())
    }

    fn usage(&self, scope: &str, key: &str, at: Millis) -> Result<Vec<Usage>, StoreError> {
        let kept = self.kept();
        let Some(scope) = kept.scopes.get(scope) else { return Ok(Vec::new()) };
        let Some(totals) = scope.accounts.get(key) else { return Ok(Vec::new()) };
        let mut usage = Vec::new();
        for (limit, (used, (_, window))) in totals.used.iter().zip(&scope.limits).enumerate() {
            let oldest = window.slot(at).saturating_sub(window.reach());
            for (&slot, &used) in used.range(oldest..).filter(|&(_, &used)| used > 0) {
                usage.push(Usage { limit, slot, used: u64::try_from(used).unwrap_or(u64::MAX) });
            }
        }
        Ok(usage)
    }

    fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError> {
        Ok(self.kept().holds.get(id).map(|known| known.state.clone()))
    }

    fn books(&self) -> Result<Vec<AccountBooks>, StoreError> {
        let kept = self.kept();
        let place = |scope: &str| {
            let scopes = kept.policy.iter().flat_map(|policy| &policy.scopes);
            scopes.into_iter().position(|known| known.name == scope).unwrap_or(usize::MAX)
        };
        let mut books: Vec<_> = kept
            .scopes
            .iter()
            .flat_map(|(scope, totals)| {
                totals.accounts.iter().map(move |(key, totals)| AccountBooks {
                    scope: scope.clone(),
                    key: key.clone(),
                    books: totals.books,
                })
            })
            .collect();
        books.sort_by_cached_key(|account| {
            (place(&account.scope), account.scope.clone(), account.key.clone())
        });
        Ok(books)
    }

    fn open_holds(&self) -> Result<Vec<HoldState>, StoreError> {
        Ok(self.kept().open_holds())
    }

    fn delegate(&self, grant: &Grant) -> Result<(), StoreError> {
        let mut kept = self.kept();
        let cap = kept.policy.as_ref().ok_or_else(not_open)?.grant_cap;
        let known = kept.grants.len();
        match kept.grants.entry(grant.id.clone()) {
            Entry::Occupied(_) => {}
            Entry::Vacant(_) if known >= cap => {
                return Err(StoreError::Full { what: "delegated grant", cap });
            }
            Entry::Vacant(place) => drop(place.insert(grant.clone())),
        }
        Ok(())
    }

    fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        Ok(self.kept().grants.get(id).cloned())
    }
}
