//! Budgets in use: hold before dispatch, settle after it.

use super::account::{Account as Front, Accounts, NoAccount};
use super::amount::{AmountError, Amounts, Dimension, Quantities};
use super::call::Call;
use super::clock::{Forward, SystemClock, WallClock};
use super::engine::Limits;
use super::error::{OpenError, SpendError};
use super::event::{SpendEvent, Subscribers};
use super::group::GroupCommit;
use super::hold::{Hold, HoldRef};
use super::holds::{Cell, Holds, Live};
use super::judge::{Asked, Gauged, Granted, force, judge, ones};
use super::memory::MemoryStore;
use super::policy::{Grant, ReducedProfile, SpendPolicy};
use super::record::{Account, FAMILY, HoldState, Kind, Millis, Move, Phase, Record, Settlement, Step};
use super::refusal::{Decision, Reason, Refusal, Tier};
use super::store::{AccountBooks, Store};
use super::tab::{self, Effects};
use super::window::Window;
use crate::gauge::{Posting, post};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// How many holds that outlived their time one caller deals with before its own.
const DUE_AT_ONCE: usize = 256;
/// How many grants are remembered besides those of the policy; the store has them all.
const GRANTS_KEPT: usize = 65_536;

/// The most charges and extensions of one hold that have ids of their own.
const STEPS: usize = 1_024;

/// Spend budgets in use: any number of threads hold and settle through one of these; clones are the same.
///
/// ```
/// use std::time::Duration;
/// use tollgate::spend::{Amounts, Call, Limit, Scope, Spend, SpendPolicy, Window};
///
/// let policy = SpendPolicy::new()
///     .scope(Scope::keyed("run").limit(Limit::tokens(120_000, Window::Lifetime)))
///     .scope(Scope::keyed("user").limit(Limit::cost(3_000_000, Window::rolling(Duration::from_secs(3_600))?)));
/// let spend = Spend::open(policy)?;
///
/// let call = Call::new().scope("run", "r-17").scope("user", "alice");
/// let hold = spend.hold(&call, &Amounts::new().cost(40_000).tokens(9_000))?;
/// // ... the call is dispatched, and turns out to have used less
/// let settlement = hold.settle(&Amounts::new().cost(31_500).tokens(7_120))?;
/// assert_eq!(settlement.released[tollgate::spend::Dimension::Cost], 8_500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Spend(pub(super) Arc<Inner>);

/// Opens budgets: with a store, a clock, subscribers.
#[must_use]
pub struct SpendBuilder {
    policy: SpendPolicy,
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn WallClock>,
    subscribers: Subscribers,
}

pub(super) struct Inner {
    pub(super) limits: Limits,
    pub(super) group: GroupCommit,
    accounts: Accounts,
    pub(super) holds: Holds,
    clock: Forward,
    generation: AtomicU64,
    /// Makes ids of calls without one unlike those of other processes.
    token: u64,
    grants: RwLock<HashMap<String, Arc<Resolved>>>,
    pub(super) subscribers: Subscribers,
}

/// What a grant comes to.
#[derive(Debug, Clone)]
struct Resolved {
    root: String,
    ceiling: Option<u64>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spend")
            .field("accounts", &self.accounts.len())
            .field("open_holds", &self.holds.len())
            .field("store", self.group.store())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SpendBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpendBuilder")
            .field("policy", &self.policy)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl SpendBuilder {
    /// Keeps budgets in `store`, so that they outlive this value, and the process if the store does. A
    /// [`MemoryStore`] of its own if not set.
    pub fn store(self, store: impl Store) -> Self {
        self.shared_store(Arc::new(store))
    }

    /// The same, for a store that others read too.
    pub fn shared_store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Lives by this clock instead of the machine's.
    pub fn clock(mut self, clock: impl WallClock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Tells `subscriber` of everything that happens, on the thread on which it does, after it is durable. It should be quick,
    /// and may call back.
    pub fn subscribe(mut self, subscriber: impl Fn(&SpendEvent) + Send + Sync + 'static) -> Self {
        self.subscribers.0.push(Arc::new(subscriber));
        self
    }

    /// Takes the store into use.
    ///
    /// # Errors
    /// A policy that makes no sense, or a store that cannot be used.
    pub fn open(self) -> Result<Spend, OpenError> {
        self.policy.validate()?;
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        let opened = store.open(&self.policy, self.clock.unix_millis())?;
        let inner = Inner {
            accounts: Accounts::new(self.policy.account_cap),
            holds: Holds::new(self.policy.hold_cap),
            clock: Forward::new(self.clock, opened.latest),
            generation: AtomicU64::new(opened.next_generation),
            token: ahash::RandomState::new().hash_one(opened.latest),
            grants: RwLock::default(),
            subscribers: self.subscribers,
            group: GroupCommit::new(store),
            limits: Limits::new(self.policy),
        };
        for state in opened.holds {
            inner.reopen(state).map_err(|error| match error {
                SpendError::Store(error) => OpenError::Store(error),
                other => OpenError::Store(super::store::StoreError::Other(other.to_string())),
            })?;
        }
        Ok(Spend(Arc::new(inner)))
    }
}

impl Spend {
    /// Budgets of `policy` that last as long as this value.
    ///
    /// # Errors
    /// A policy that makes no sense.
    pub fn open(policy: SpendPolicy) -> Result<Self, OpenError> {
        Self::builder(policy).open()
    }

    /// Budgets with a store, a clock, subscribers.
    pub fn builder(policy: SpendPolicy) -> SpendBuilder {
        SpendBuilder {
            policy,
            store: None,
            clock: Arc::new(SystemClock),
            subscribers: Subscribers::default(),
        }
    }

    /// Sets `estimate` aside in every scope and dimension at once, or nowhere. On return it is durable, so the call may be
    /// dispatched.
    ///
    /// A call with a [grant](Call::grant) whose estimate has no cost is held at the grant's ceiling.
    ///
    /// # Errors
    /// A limit without room ([`SpendError::Refused`]), amounts or scopes that the policy does not budget, an id that was used for
    /// another call, no room, a store that fails.
    pub fn hold(&self, call: &Call, estimate: &Amounts) -> Result<Hold, SpendError> {
        self.0.hold(call, estimate, None).map(|(cell, name)| Hold::new(self, cell, name))
    }

    /// Sets aside as much of `most` as there is room for, at least `least`: for callers who can shrink their request. What was
    /// granted is in the hold's [`decision`](Hold::decision). Where `least` is nothing of a dimension that is asked for, at
    /// least 1 of it is granted.
    ///
    /// ```
    /// use tollgate::spend::{Amounts, Call, Dimension, Limit, Scope, Spend, SpendPolicy, Window};
    ///
    /// let spend = Spend::open(SpendPolicy::new().scope(Scope::shared("all").limit(Limit::tokens(1_000, Window::Lifetime))))?;
    /// let hold = spend.hold_up_to(&Call::new(), &Amounts::new().tokens(4_096), &Amounts::new())?;
    /// assert_eq!(hold.decision().granted[Dimension::Tokens], 1_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`hold`](Self::hold), where not even `least` fits.
    pub fn hold_up_to(&self, call: &Call, most: &Amounts, least: &Amounts) -> Result<Hold, SpendError> {
        self.0.hold(call, most, Some(least)).map(|(cell, name)| Hold::new(self, cell, name))
    }

    /// The hold of that name, to go on with it: after a restart, or in another task. It is given back when the last handle is
    /// dropped, unless it is [detached](Hold::detach) again.
    ///
    /// # Errors
    /// There is no such hold any more.
    pub fn resume(&self, name: &HoldRef) -> Result<Hold, SpendError> {
        let cell = self.0.cell(name)?;
        {
            let mut live = cell.lock();
            let live = live.as_mut().ok_or_else(|| name.unknown())?;
            live.handles += 1;
            live.detached = false;
        }
        Ok(Hold::new(self, cell, Named { name: name.clone(), replayed: true }))
    }

    /// Settles a hold by its name: see [`Hold::settle`].
    ///
    /// # Errors
    /// As [`Hold::settle`], and a hold that is not known any more.
    pub fn settle(&self, name: &HoldRef, actual: &Amounts) -> Result<Settlement, SpendError> {
        self.by_name(name, |cell| self.0.settle(cell, name, actual, ""))
    }

    /// Releases a hold by its name: see [`Hold::release`].
    ///
    /// # Errors
    /// As [`Hold::release`], and a hold that is not known any more.
    pub fn release(&self, name: &HoldRef) -> Result<Settlement, SpendError> {
        self.by_name(name, |cell| self.0.release(cell, name, ""))
    }

    /// Settles by hand, with a note of who did it and why, which is kept in the ledger.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub fn repair_settle(
        &self,
        name: &HoldRef,
        actual: &Amounts,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        self.by_name(name, |cell| self.0.settle(cell, name, actual, note))
    }

    /// Releases by hand, with a note of who did it and why, which is kept in the ledger.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn repair_release(&self, name: &HoldRef, note: &str) -> Result<Settlement, SpendError> {
        self.by_name(name, |cell| self.0.release(cell, name, note))
    }

    /// Ends a hold without a handle.
    fn by_name(
        &self,
        name: &HoldRef,
        end: impl Fn(&Arc<Cell>) -> Result<Settlement, SpendError>,
    ) -> Result<Settlement, SpendError> {
        let mut cell = self.0.cell(name)?;
        let mut ended = end(&cell);
        if matches!(ended, Err(SpendError::NoHold { .. })) {
            // It may have outlived its time just now, and was put away: the store has it.
            cell = self.0.cell(name)?;
            ended = end(&cell);
        }
        ended
    }

    /// The name of the hold under `id`, open or over, as far as it is remembered.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn find(&self, id: &str) -> Result<Option<HoldRef>, SpendError> {
        if let Some(cell) = self.0.holds.find(id) {
            if let Some(live) = &*cell.lock() {
                return Ok(Some(HoldRef::of(&live.state)));
            }
        }
        let kept = self.0.group.store().hold(id)?;
        Ok(kept.filter(|state| !matches!(state.phase, Phase::Denied(_))).map(|state| HoldRef::of(&state)))
    }

    /// Delegates a grant from another: it shares the cap of the family's root, whatever it is given itself. Under a `ceiling` of
    /// its own, at most its parent's, each of its calls may cost less.
    ///
    /// Delegating the same again changes nothing.
    ///
    /// # Errors
    /// A parent that is not known, a ceiling above the parent's, a grant that has another parent already.
    pub fn delegate(&self, grant: &Grant) -> Result<(), SpendError> {
        self.0.delegate(grant)
    }

    /// Gives a limit another amount, from now on. What was spent stays spent.
    ///
    /// # Errors
    /// A limit that there is not, an amount that cannot be, a store that fails.
    pub fn set_limit(
        &self,
        scope: &str,
        dimension: Dimension,
        window: &Window,
        amount: u64,
    ) -> Result<(), SpendError> {
        self.0.set_limit(scope, dimension, window, amount)
    }

    /// How full the limits of one account are. A key that nobody used has everything left.
    ///
    /// # Errors
    /// A scope that there is not, a store that fails.
    pub fn status(&self, scope: &str, key: &str) -> Result<Vec<LimitStatus>, SpendError> {
        self.0.sweep();
        self.0.status(scope, key)
    }

    /// The books of all accounts. They are what the store has.
    ///
    /// # Errors
    /// A store that fails.
    pub fn books(&self) -> Result<Vec<AccountBooks>, SpendError> {
        Ok(self.0.group.store().books()?)
    }

    /// The policy, with the limits as they are now.
    pub fn policy(&self) -> SpendPolicy {
        self.0.limits.current_policy()
    }

    /// What a caller in the [reduced](Tier::Reduced) tier is to do.
    pub fn reduced_profile(&self) -> &ReducedProfile {
        &self.0.limits.policy().reduced
    }

    /// Deals with holds whose time is over, as every hold does before it is judged. For processes that may not hold for long.
    pub fn expire_due(&self) {
        self.0.sweep();
    }

    /// Holds that are open, or being made.
    pub fn open_holds(&self) -> usize {
        self.0.holds.len()
    }

    /// Accounts in memory: at most the policy's cap.
    pub fn accounts_in_memory(&self) -> usize {
        self.0.accounts.len()
    }
}

/// How full one limit of one account is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStatus {
    /// What it counts.
    pub dimension: Dimension,
    /// Over which time.
    pub window: Window,
    /// The most; `None` where a family has no such cap.
    pub limit: Option<u64>,
    /// Used and settled.
    pub spent: u64,
    /// Set aside by open holds.
    pub held: u64,
    /// When the current window ends, or the oldest part of a rolling one lapses; `None` for a lifetime.
    pub resets_at: Option<Millis>,
}

impl LimitStatus {
    /// What is left; below 0 for debt. `None` without a limit.
    pub fn remaining(&self) -> Option<i128> {
        self.limit.map(|limit| i128::from(limit) - i128::from(self.spent) - i128::from(self.held))
    }
}

/// A hold's name, and whether it was there before.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) name: HoldRef,
    pub(super) replayed: bool,
}

impl Inner {
    pub(super) fn now(&self) -> Millis {
        self.clock.now()
    }

    // ---- whose budgets

    fn path(&self, call: &Call) -> Result<(Arc<[Account]>, Option<Arc<Resolved>>), SpendError> {
        let scopes = &self.limits.policy().scopes;
        for (name, _) in &call.scopes {
            if !scopes.iter().any(|scope| scope.name == *name && !scope.shared) {
                let known: Vec<_> =
                    scopes.iter().filter(|scope| !scope.shared).map(|scope| scope.name.as_str()).collect();
                return Err(SpendError::UnknownScope { scope: name.clone(), known: known.join(", ") });
            }
        }
        let mut path = Vec::with_capacity(scopes.len() + 1);
        for scope in scopes {
            let key = if scope.shared {
                String::new()
            } else {
                let named = call.scopes.iter().find(|(name, _)| *name == scope.name);
                let missing = || SpendError::MissingScope { scope: scope.name.clone() };
                named.map(|(_, key)| key.clone()).ok_or_else(missing)?
            };
            path.push(Account { scope: scope.name.clone(), key });
        }
        let grant = call.grant.as_deref().map(|grant| self.resolve(grant)).transpose()?;
        if let Some(grant) = &grant {
            path.push(Account { scope: FAMILY.to_owned(), key: grant.root.clone() });
        }
        Ok((path.into(), grant))
    }

    fn accounts(&self, path: &[Account]) -> Result<Vec<Arc<Front>>, SpendError> {
        path.iter().map(|account| self.account(&account.scope, &account.key)).collect()
    }

    fn account(&self, scope: &str, key: &str) -> Result<Arc<Front>, SpendError> {
        let scopes = &self.limits.policy().scopes;
        let place = match scopes.iter().position(|known| known.name == scope) {
            Some(place) => place,
            None if scope == FAMILY => self.limits.family(),
            None => {
                let known: Vec<_> = scopes.iter().map(|scope| scope.name.as_str()).collect();
                return Err(SpendError::UnknownScope { scope: scope.to_owned(), known: known.join(", ") });
            }
        };
        let load = || self.limits.load(place, key, &**self.group.store(), self.now());
        self.accounts.get(place, key, load).map_err(|none| match none {
            NoAccount::Full(cap) => SpendError::Full { what: "account", cap },
            NoAccount::Store(error) => SpendError::Store(error),
        })
    }

    fn resolve(&self, grant: &str) -> Result<Arc<Resolved>, SpendError> {
        let kept = self.grants.read().unwrap_or_else(PoisonError::into_inner).get(grant).cloned();
        if let Some(resolved) = kept {
            return Ok(resolved);
        }
        let resolved = if let Some((family, ceiling)) = self.limits.policy().resolve(grant) {
            Resolved { root: family.root.clone(), ceiling }
        } else {
            // Each delegation was checked when it was made: its parent was known then, so there are no rings.
            let unknown = || SpendError::UnknownGrant { grant: grant.to_owned() };
            let kept = self.group.store().grant(grant)?.ok_or_else(unknown)?;
            let mut ceiling = kept.ceiling;
            let mut parent = kept.parent;
            loop {
                if let Some((family, above)) = self.limits.policy().resolve(&parent) {
                    let ceiling = [ceiling, above].into_iter().flatten().min();
                    break Resolved { root: family.root.clone(), ceiling };
                }
                let above = self.group.store().grant(&parent)?.ok_or_else(unknown)?;
                ceiling = [ceiling, above.ceiling].into_iter().flatten().min();
                parent = above.parent;
            }
        };
        let resolved = Arc::new(resolved);
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        if grants.len() >= GRANTS_KEPT {
            grants.clear();
        }
        grants.insert(grant.to_owned(), Arc::clone(&resolved));
        Ok(resolved)
    }

    fn delegate(&self, grant: &Grant) -> Result<(), SpendError> {
        let refused = |why: String| SpendError::Delegation { grant: grant.id.clone(), why };
        let parent = self.resolve(&grant.parent)?;
        if let (Some(own), Some(above)) = (grant.ceiling, parent.ceiling) {
            if own > above {
                let why = format!("its ceiling of {own} is above the {above} of {:?}", grant.parent);
                return Err(refused(why));
            }
        }
        if let Some((family, _)) = self.limits.policy().resolve(&grant.id) {
            return match self.limits.policy().grants.iter().any(|known| known == grant) {
                true => Ok(()),
                false => Err(refused(format!("the policy has it in the family of {:?}", family.root))),
            };
        }
        match self.group.store().grant(&grant.id)? {
            Some(known) if known == *grant => Ok(()),
            Some(known) => Err(refused(format!("{:?} delegated it already, with other terms", known.parent))),
            None => Ok(self.group.store().delegate(grant)?),
        }
    }

    fn set_limit(
        &self,
        scope: &str,
        dimension: Dimension,
        window: &Window,
        amount: u64,
    ) -> Result<(), SpendError> {
        let policy = self.limits.policy();
        let place = policy.scopes.iter().position(|known| known.name == scope);
        let limit = place.and_then(|place| {
            policy.scopes[place]
                .limits
                .iter()
                .position(|limit| limit.dimension == dimension && limit.window == *window)
        });
        let (Some(place), Some(limit)) = (place, limit) else {
            let known =
                policy.scopes.iter().flat_map(|scope| scope.limits.iter().map(|limit| limit.id(&scope.name)));
            let known: Vec<_> = known.collect();
            return Err(SpendError::UnknownScope {
                scope: format!("{scope}/{dimension}/{window}"),
                known: known.join(", "),
            });
        };
        if amount > super::amount::MOST {
            return Err(AmountError::TooLarge { dimension, amount }.into());
        }
        let mut changed = self.limits.current_policy();
        changed.scopes[place].limits[limit].amount = amount;
        self.group.redefine(&changed, self.now())?;
        self.limits.set(place, limit, amount);
        Ok(())
    }

    fn status(&self, scope: &str, key: &str) -> Result<Vec<LimitStatus>, SpendError> {
        let account = self.account(scope, key)?;
        let accounts = [account];
        let gauged = Gauged::new(&self.limits, &accounts);
        let postings = self.postings(&gauged, &[]);
        let held = accounts[0].held();
        let (_, seen) = post(
            &postings,
            || self.now(),
            slots(&gauged),
            |_, seen| {
                let takes = seen.iter().map(|_| 0).collect();
                // A window that rolls is freer when the oldest of what was used has lapsed, every other when it ends.
                let first = |number: usize, seen: &crate::gauge::Seen<'_>| match gauged.line(number).window {
                    Window::Rolling(_) => seen.frees(1),
                    _ => Some(seen.slot),
                };
                let status = seen.iter().enumerate().map(|(number, seen)| (first(number, seen), seen.used));
                Ok::<_, (usize, ())>((takes, status.collect::<Vec<_>>()))
            },
        );
        let seen = seen.unwrap_or_default(); // nothing refuses
        Ok(seen
            .into_iter()
            .enumerate()
            .map(|(number, (slot, used))| {
                let line = gauged.line(number);
                let held = held[line.dimension].min(used);
                LimitStatus {
                    dimension: line.dimension,
                    window: line.window.clone(),
                    limit: (line.amount != u64::MAX).then_some(line.amount),
                    spent: used - held,
                    held,
                    resets_at: slot.and_then(|slot| line.window.lapses(slot)),
                }
            })
            .collect())
    }

    // ---- gauges

    /// One posting for each gauge, that gives back what was taken at these instants.
    fn postings<'a>(&self, gauged: &Gauged<'a>, back: &[(Millis, Quantities)]) -> Vec<Posting<'a>> {
        (0..gauged.places.len())
            .map(|number| {
                let line = gauged.line(number);
                let (at, limit) = gauged.places[number];
                let give = back
                    .iter()
                    .filter(|(_, amounts)| amounts[line.dimension] > 0)
                    .map(|(at, amounts)| (line.window.slot(*at), amounts[line.dimension]));
                Posting { gauge: gauged.accounts[at].gauges.gauge(limit), give: give.collect() }
            })
            .collect()
    }

    fn give_back(&self, accounts: &[Arc<Front>], back: &[(Millis, Quantities)]) {
        if back.is_empty() {
            return;
        }
        let gauged = Gauged::new(&self.limits, accounts);
        let postings = self.postings(&gauged, back);
        let nothing = |_: &Millis, seen: &[crate::gauge::Seen<'_>]| {
            Ok::<_, (usize, ())>((seen.iter().map(|_| 0).collect(), ()))
        };
        let _ = post(&postings, || self.now(), slots(&gauged), nothing);
    }

    /// Takes what is granted of `asked` from all gauges, or nothing.
    fn take(&self, accounts: &[Arc<Front>], asked: &Asked) -> (Millis, Result<Granted, Box<Refusal>>) {
        let gauged = Gauged::new(&self.limits, accounts);
        let postings = self.postings(&gauged, &[]);
        let tiers = &self.limits.policy().tiers;
        post(&postings, || self.now(), slots(&gauged), |&now, seen| judge(&gauged, tiers, asked, now, seen))
    }

    /// Takes an overrun from all gauges, whatever their limits. The time at which.
    fn take_overrun(&self, accounts: &[Arc<Front>], amounts: &Quantities) -> Result<Millis, AmountError> {
        if amounts.is_none() {
            return Ok(self.now());
        }
        let gauged = Gauged::new(&self.limits, accounts);
        let postings = self.postings(&gauged, &[]);
        let (now, taken) =
            post(&postings, || self.now(), slots(&gauged), |_, seen| force(&gauged, amounts, seen));
        taken.map(|()| now).map_err(|dimension| AmountError::Overflow { dimension })
    }

    fn decision(&self, granted: &Granted) -> Decision {
        let banner = match granted.tier {
            Tier::Full => None,
            _ => {
                let resets = granted.set_by.as_ref().and_then(|cause| cause.resets_at);
                self.limits.policy().reduced.banner_at(resets)
            }
        };
        Decision { granted: granted.amounts, tier: granted.tier, set_by: granted.set_by.clone(), banner }
    }

    fn enter_tiers(&self, accounts: &[Arc<Front>], tiers: &[Tier]) {
        for (account, &to) in accounts.iter().zip(tiers) {
            let from = account.enter(to);
            if from != to {
                let scope = self.limits.scope_name(account.scope).to_owned();
                let account = Account { scope, key: account.key.clone() };
                self.subscribers.tell(&SpendEvent::TierChanged { account, from, to });
            }
        }
    }

    fn refuse(&self, id: Option<&str>, refusal: Box<Refusal>) -> SpendError {
        self.subscribers.tell(&SpendEvent::Refused { id: id.map(str::to_owned), refusal: refusal.clone() });
        SpendError::Refused(refusal)
    }

    // ---- holding

    fn hold(
        &self,
        call: &Call,
        estimate: &Amounts,
        least: Option<&Amounts>,
    ) -> Result<(Arc<Cell>, Named), SpendError> {
        let currency = self.limits.policy().unit.currency();
        let mut most = estimate.checked(currency)?;
        let (path, grant) = self.path(call)?;
        let mut over_ceiling = None;
        if let Some(ceiling) = grant.as_ref().and_then(|grant| grant.ceiling) {
            if !estimate.states_cost() {
                most[Dimension::Cost] = ceiling;
            }
            if least.is_some() {
                most[Dimension::Cost] = most[Dimension::Cost].min(ceiling);
            } else if most[Dimension::Cost] > ceiling {
                over_ceiling = Some(ceiling);
            }
        }
        let asked = match least {
            None => Asked { most, least: most },
            Some(least) => {
                let stated = least.checked(currency)?;
                let mut least = ones(&most);
                for (dimension, amount) in stated.iter() {
                    least[dimension] = least[dimension].max(amount);
                    most[dimension] = most[dimension].max(amount);
                }
                Asked { most, least }
            }
        };
        self.sweep();

        let Some(id) = &call.id else {
            let generation = self.generation.fetch_add(1, Ordering::Relaxed);
            let id = format!("{:016x}-{generation}", self.token);
            let cell = Arc::new(Cell::default());
            let mut live = cell.lock();
            self.claim(&id, &cell)?
                .map_err(|_| SpendError::Conflict { id: id.clone(), what: "its id".into() })?;
            let made = self.make(&id, None, generation, String::new(), path, &asked, over_ceiling);
            match made {
                Ok(made) => *live = Some(made),
                Err(error) => {
                    self.holds.remove(&id, &cell);
                    return Err(error);
                }
            }
            drop(live);
            let name = HoldRef { id, generation };
            return Ok((cell, Named { name, replayed: false }));
        };

        let input = input(&path, call.grant.as_deref(), &asked);
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        loop {
            let Err(known) = self.claim(id, &cell)? else { break };
            if let Some(known_live) = known.lock().as_mut() {
                same_input(id, &known_live.state.input, &input)?;
                known_live.handles += 1;
                let name = HoldRef::of(&known_live.state);
                drop(live);
                return Ok((Arc::clone(&known), Named { name, replayed: true }));
            }
            // It was refused, or is over: whoever had it takes it away.
            self.holds.remove(id, &known);
        }
        let made = self.find_or_make(call, id, input, path, &asked, over_ceiling);
        let (made, replayed) = match made {
            Ok(made) => made,
            Err(error) => {
                self.holds.remove(id, &cell);
                return Err(error);
            }
        };
        let name = HoldRef::of(&made.state);
        let over = made.state.settlement().is_some();
        *live = Some(made);
        if over {
            // Nothing of it changes any more.
            self.holds.remove(id, &cell);
        }
        drop(live);
        Ok((cell, Named { name, replayed }))
    }

    fn claim(&self, id: &str, cell: &Arc<Cell>) -> Result<Result<(), Arc<Cell>>, SpendError> {
        self.holds.claim(id, cell, false).ok_or(SpendError::Full { what: "hold", cap: self.holds.cap() })
    }

    /// The hold that the store has under `id`, or a new one.
    fn find_or_make(
        &self,
        call: &Call,
        id: &str,
        input: String,
        path: Arc<[Account]>,
        asked: &Asked,
        over_ceiling: Option<u64>,
    ) -> Result<(Live, bool), SpendError> {
        if let Some(state) = self.group.store().hold(id)? {
            same_input(id, &state.input, &input)?;
            if let Phase::Denied(refusal) = state.phase {
                return Err(SpendError::Refused(refusal));
            }
            let accounts = self.accounts(&state.path)?;
            return Ok((Live::new(state, accounts), true));
        }
        let generation = self.generation.fetch_add(1, Ordering::Relaxed);
        self.make(id, call.id.as_deref(), generation, input, path, asked, over_ceiling)
            .map(|live| (live, false))
    }

    #[allow(clippy::too_many_arguments, reason = "all of one new hold")]
    fn make(
        &self,
        id: &str,
        named: Option<&str>,
        generation: u64,
        input: String,
        path: Arc<[Account]>,
        asked: &Asked,
        over_ceiling: Option<u64>,
    ) -> Result<Live, SpendError> {
        let mut state = HoldState {
            id: id.to_owned(),
            named: named.is_some(),
            generation,
            input,
            path: Arc::clone(&path),
            at: 0,
            deadline: 0,
            parts: Vec::new(),
            used: Quantities::NONE,
            overrun: Quantities::NONE,
            steps: Vec::new(),
            phase: Phase::Open,
            decision: Decision::default(),
        };
        let accounts = self.accounts(&path)?;
        let (at, taken) = match over_ceiling {
            Some(ceiling) => (self.now(), Err(self.above_ceiling(&path, asked, ceiling))),
            None => self.take(&accounts, asked),
        };
        state.at = at;
        state.deadline = at.saturating_add(self.limits.policy().ttl);
        let granted = match taken {
            Ok(granted) => granted,
            Err(refusal) => {
                if named.is_some() {
                    state.deadline = at;
                    state.phase = Phase::Denied(refusal.clone());
                    self.group.write([record(Kind::Deny, at, Vec::new(), &state, "")])?;
                }
                return Err(self.refuse(named, refusal));
            }
        };
        state.decision = self.decision(&granted);
        let reserved = state.set_aside(at, &granted.amounts, |_| false);
        for account in &accounts {
            account.set_aside(&granted.amounts);
        }
        if let Err(error) = self.group.write([record(Kind::Hold, at, vec![reserved], &state, "")]) {
            self.undo(&accounts, at, &granted.amounts);
            return Err(error.into());
        }
        self.holds.expires(state.deadline, id);
        let live = Live { looked_at: state.deadline, ..Live::new(state, accounts) };
        self.subscribers.tell(&SpendEvent::Held {
            id: id.to_owned(),
            path,
            amounts: granted.amounts,
            tier: granted.tier,
            extended: false,
        });
        self.enter_tiers(&live.accounts, &granted.tiers);
        Ok(live)
    }

    fn undo(&self, accounts: &[Arc<Front>], at: Millis, amounts: &Quantities) {
        for account in accounts {
            account.no_longer_held(amounts);
        }
        self.give_back(accounts, &[(at, *amounts)]);
    }

    fn above_ceiling(&self, path: &[Account], asked: &Asked, ceiling: u64) -> Box<Refusal> {
        let family = path.last().map_or_else(String::new, |account| account.key.clone());
        Box::new(Refusal {
            scope: FAMILY.to_owned(),
            key: family,
            dimension: Dimension::Cost,
            window: "call".to_owned(),
            reason: Reason::Ceiling,
            limit: ceiling,
            spent: 0,
            held: 0,
            needed: asked.most[Dimension::Cost],
            resets_at: None,
            retry_after: None,
        })
    }

    // ---- open holds

    /// Takes a stored hold back into memory when the store is opened.
    fn reopen(&self, state: HoldState) -> Result<(), SpendError> {
        let accounts = self.accounts(&state.path)?;
        let left = state.left();
        for account in &accounts {
            account.set_aside(&left);
        }
        let (id, deadline) = (state.id.clone(), state.deadline);
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        // There are as many as there were; the cap may be lower now.
        let _ = self.holds.claim(&id, &cell, true);
        *live = Some(Live { handles: 0, detached: true, looked_at: deadline, ..Live::new(state, accounts) });
        drop(live);
        self.holds.expires(deadline, &id);
        Ok(())
    }

    /// The cell of a hold that is open, or was and is remembered.
    pub(super) fn cell(&self, name: &HoldRef) -> Result<Arc<Cell>, SpendError> {
        loop {
            if let Some(cell) = self.holds.find(&name.id) {
                let live = cell.lock();
                match &*live {
                    Some(live) if live.state.generation == name.generation => {}
                    Some(_) => return Err(name.unknown()),
                    None => {
                        drop(live);
                        self.holds.remove(&name.id, &cell);
                        continue;
                    }
                }
                drop(live);
                return Ok(cell);
            }
            let cell = Arc::new(Cell::default());
            let mut live = cell.lock();
            match self.holds.claim(&name.id, &cell, true) {
                Some(Ok(())) => {}
                _ => continue,
            }
            let found = match self.group.store().hold(&name.id) {
                Ok(Some(state)) if state.generation == name.generation => self
                    .accounts(&state.path)
                    .map(|accounts| Live { handles: 0, detached: true, ..Live::new(state, accounts) }),
                Ok(_) => Err(name.unknown()),
                Err(error) => Err(error.into()),
            };
            match found {
                Ok(found) => {
                    let over = found.state.settlement().is_some();
                    *live = Some(found);
                    if over {
                        self.holds.remove(&name.id, &cell);
                    }
                    drop(live);
                    return Ok(cell);
                }
                Err(error) => {
                    self.holds.remove(&name.id, &cell);
                    return Err(error);
                }
            }
        }
    }

    pub(super) fn extend(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        more: &Amounts,
        step: Option<&str>,
    ) -> Result<Decision, SpendError> {
        let more = more.checked(self.limits.policy().unit.currency())?;
        self.sweep();
        let mut guard = cell.lock();
        let live = guard.as_mut().ok_or_else(|| name.unknown())?;
        if let Some(known) = known_step(live, step, Kind::Extend, &more)? {
            return match &known.refused {
                Some(refusal) => Err(SpendError::Refused(refusal.clone())),
                None => Ok(known.decision.as_deref().cloned().unwrap_or_default()),
            };
        }
        live.must_be_open("extended")?;
        if step.is_some() {
            room_for_step(&live.state)?;
        }
        let asked = Asked { most: more, least: more };
        let (at, taken) = self.take(&live.accounts, &asked);
        let mut state = live.state.clone();
        let granted = match taken {
            Ok(granted) => granted,
            Err(refusal) => {
                if let Some(id) = step {
                    let refused = Some(refusal.clone());
                    add_step(
                        &mut state,
                        Step {
                            id: id.to_owned(),
                            kind: Kind::Extend,
                            amounts: more,
                            refused,
                            decision: None,
                        },
                    )?;
                    self.group.write([record(Kind::Deny, at, Vec::new(), &state, "")])?;
                    live.state = state;
                }
                drop(guard);
                return Err(self.refuse(Some(&name.id), refusal));
            }
        };
        let decision = self.decision(&granted);
        let windows = windows(&self.limits, &live.accounts);
        let same = |other: Millis| windows.iter().all(|window| window.slot(other) == window.slot(at));
        let reserved = state.set_aside(at, &granted.amounts, same);
        state.deadline = state.deadline.max(at.saturating_add(self.limits.policy().ttl));
        state.decision = decision.clone();
        if let Some(id) = step {
            let decision = Some(Box::new(decision.clone()));
            state.steps.push(Step {
                id: id.to_owned(),
                kind: Kind::Extend,
                amounts: more,
                refused: None,
                decision,
            });
        }
        for account in &live.accounts {
            account.set_aside(&granted.amounts);
        }
        if let Err(error) = self.group.write([record(Kind::Extend, at, vec![reserved], &state, "")]) {
            self.undo(&live.accounts, at, &granted.amounts);
            return Err(error.into());
        }
        live.state = state;
        let (path, accounts) = (Arc::clone(&live.state.path), live.accounts.clone());
        drop(guard);
        let (id, amounts, tier) = (name.id.clone(), granted.amounts, granted.tier);
        self.subscribers.tell(&SpendEvent::Held { id, path, amounts, tier, extended: true });
        self.enter_tiers(&accounts, &granted.tiers);
        Ok(decision)
    }

    pub(super) fn charge(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        used: &Amounts,
        step: Option<&str>,
    ) -> Result<(), SpendError> {
        let used = used.checked(self.limits.policy().unit.currency())?;
        self.sweep();
        let mut guard = cell.lock();
        let live = guard.as_mut().ok_or_else(|| name.unknown())?;
        if known_step(live, step, Kind::Charge, &used)?.is_some() {
            return Ok(());
        }
        live.must_not_be_over("charged")?;
        let mut state = live.state.clone();
        if let Some(id) = step {
            let step =
                Step { id: id.to_owned(), kind: Kind::Charge, amounts: used, refused: None, decision: None };
            add_step(&mut state, step)?;
        }
        let effects = state.use_up(&used)?;
        let ttl = self.limits.policy().ttl;
        self.change(live, state, effects, Kind::Charge, "", |state, at| {
            if state.phase == Phase::Open {
                state.deadline = state.deadline.max(at.saturating_add(ttl));
            }
        })?;
        let path = Arc::clone(&live.state.path);
        drop(guard);
        self.subscribers.tell(&SpendEvent::Charged { id: name.id.clone(), path, amounts: used });
        Ok(())
    }

    pub(super) fn settle(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        actual: &Amounts,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        let stated = actual.checked(self.limits.policy().unit.currency())?;
        self.finish(cell, name, Some(stated), note)
    }

    pub(super) fn release(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        self.finish(cell, name, None, note)
    }

    /// Settles with what was `stated`, or releases.
    fn finish(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        stated: Option<Quantities>,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        self.sweep();
        let mut guard = cell.lock();
        let live = guard.as_mut().ok_or_else(|| name.unknown())?;
        match (&live.state.phase, stated) {
            (Phase::Settled(known), Some(stated)) if known.stated == stated => return Ok(*known),
            (Phase::Settled(known), Some(_)) => {
                let what = format!("it was settled with {}", show(&known.stated));
                return Err(SpendError::Conflict { id: name.id.clone(), what });
            }
            (Phase::Released(known), None) => return Ok(*known),
            _ => live.must_not_be_over(if stated.is_some() { "settled" } else { "released" })?,
        }
        let mut state = live.state.clone();
        let late = state.phase == Phase::Expired;
        let mut effects = match &stated {
            Some(stated) => state.use_up(stated)?,
            None => Effects::default(),
        };
        let released = state.give_back(&mut effects);
        let kind = if stated.is_some() { Kind::Settle } else { Kind::Release };
        let settle = |state: &mut HoldState, at: Millis| {
            let (used, overrun) = (state.used, state.overrun);
            let settlement =
                Settlement { stated: stated.unwrap_or_default(), used, released, overrun, late, at };
            state.phase =
                if stated.is_some() { Phase::Settled(settlement) } else { Phase::Released(settlement) };
        };
        self.change(live, state, effects, kind, note, settle)?;
        self.holds.ended(live.looked_at, &name.id);
        self.holds.remove(&name.id, cell);
        let settlement = *live.state.settlement().expect("settled above");
        let path = Arc::clone(&live.state.path);
        drop(guard);
        let id = name.id.clone();
        self.subscribers.tell(&match stated {
            Some(_) => SpendEvent::Settled { id, path, settlement },
            None => SpendEvent::Released { id, path, settlement },
        });
        Ok(settlement)
    }

    /// Makes `state` what the hold is: debt is taken first, then all is made durable, then the rest goes back. So the gauges never
    /// show more room than there would be after a crash.
    fn change(
        &self,
        live: &mut Live,
        mut state: HoldState,
        mut effects: Effects,
        kind: Kind,
        note: &str,
        finally: impl FnOnce(&mut HoldState, Millis),
    ) -> Result<(), SpendError> {
        let at = self.take_overrun(&live.accounts, &effects.overrun)?;
        if !effects.overrun.is_none() {
            effects.moves.push(tab::overrun(at, &effects.overrun));
        }
        finally(&mut state, at);
        if let Err(error) = self.group.write([record(kind, at, effects.moves, &state, note)]) {
            if !effects.overrun.is_none() {
                self.give_back(&live.accounts, &[(at, effects.overrun)]);
            }
            return Err(error.into());
        }
        for account in &live.accounts {
            account.no_longer_held(&effects.unheld);
        }
        self.give_back(&live.accounts, &effects.back);
        live.state = state;
        if !effects.overrun.is_none() {
            let (id, path) = (live.state.id.clone(), Arc::clone(&live.state.path));
            self.subscribers.tell(&SpendEvent::Overrun { id, path, amounts: effects.overrun });
        }
        Ok(())
    }

    // ---- time to live

    /// Deals with holds that have outlived their time. One that cannot be made durable stays as it is: set aside.
    fn sweep(&self) {
        let now = self.now();
        let due = self.holds.due(now, DUE_AT_ONCE);
        if due.is_empty() {
            return;
        }
        let cells: Vec<(String, Option<Arc<Cell>>)> =
            due.into_iter().map(|id| (self.holds.find(&id), id)).map(|(cell, id)| (id, cell)).collect();
        let mut expired = Vec::new();
        for (id, cell) in cells.iter().filter_map(|(id, cell)| cell.as_ref().map(|cell| (id, cell))) {
            // Somebody is at work on it: it is looked at again at the next call.
            let Some(mut guard) = cell.try_lock() else {
                self.holds.expires(now, id);
                continue;
            };
            let Some(live) = guard.as_mut().filter(|live| live.state.phase == Phase::Open) else { continue };
            if live.state.deadline > now {
                live.looked_at = live.state.deadline;
                self.holds.expires(live.looked_at, id);
                continue;
            }
            let mut state = live.state.clone();
            let effects = state.expire(self.limits.policy().on_expiry);
            expired.push((id, cell, guard, state, effects));
        }
        if expired.is_empty() {
            return;
        }
        let records = expired
            .iter_mut()
            .map(|(.., state, effects)| {
                record(Kind::Expire, now, std::mem::take(&mut effects.moves), state, "")
            })
            .collect::<Vec<_>>();
        let written = self.group.write(records);
        let mut events = Vec::new();
        for (id, cell, mut guard, state, effects) in expired {
            let Some(live) = guard.as_mut() else { continue };
            if written.is_err() {
                live.looked_at = now;
                self.holds.expires(now, id);
                continue;
            }
            for account in &live.accounts {
                account.no_longer_held(&effects.unheld);
            }
            self.give_back(&live.accounts, &effects.back);
            let path = Arc::clone(&state.path);
            live.state = state;
            if live.handles == 0 {
                // The store has it, for whoever settles it late.
                *guard = None;
                self.holds.remove(id, cell);
            }
            events.push(SpendEvent::Expired { id: id.clone(), path, amounts: effects.unheld });
        }
        if let Err(error) = written {
            tracing::error!(target: "tollgate::spend", %error, "holds that expired stay set aside");
        }
        events.iter().for_each(|event| self.subscribers.tell(event));
    }

    /// A handle is dropped: the last one gives back what nobody settled.
    pub(super) fn dropped(&self, cell: &Arc<Cell>, name: &HoldRef) {
        let (release, forget) = {
            let mut guard = cell.lock();
            let Some(live) = guard.as_mut() else { return };
            live.handles = live.handles.saturating_sub(1);
            let last = live.handles == 0;
            let open = live.state.phase == Phase::Open;
            (last && open && !live.detached, last && live.state.phase == Phase::Expired)
        };
        if release {
            if let Err(error) = self.release(cell, name, "") {
                tracing::error!(target: "tollgate::spend", id = name.id, %error, "a dropped hold stays set aside until it expires");
            }
        } else if forget {
            self.forget(cell, name);
        }
    }

    /// Takes an expired hold out of memory, unless somebody got it meanwhile.
    fn forget(&self, cell: &Arc<Cell>, name: &HoldRef) {
        let mut guard = cell.lock();
        if guard.as_ref().is_some_and(|live| live.handles == 0 && live.state.phase == Phase::Expired) {
            *guard = None;
            self.holds.remove(&name.id, cell);
        }
    }
}

impl Live {
    fn new(state: HoldState, accounts: Vec<Arc<Front>>) -> Self {
        Self { looked_at: state.deadline, state, accounts, handles: 1, detached: false }
    }

    fn over(&self, asked: &'static str, phase: &'static str) -> SpendError {
        SpendError::Over { id: self.state.id.clone(), phase, asked }
    }

    fn must_not_be_over(&self, asked: &'static str) -> Result<(), SpendError> {
        match self.state.phase {
            Phase::Open | Phase::Expired => Ok(()),
            Phase::Settled(_) => Err(self.over(asked, "settled")),
            Phase::Released(_) => Err(self.over(asked, "released")),
            Phase::Denied(_) => Err(self.over(asked, "refused")),
        }
    }

    fn must_be_open(&self, asked: &'static str) -> Result<(), SpendError> {
        self.must_not_be_over(asked)?;
        match self.state.phase {
            Phase::Expired => Err(self.over(asked, "expired")),
            _ => Ok(()),
        }
    }
}

/// The slot of each gauge in which a time lies.
fn slots<'a>(gauged: &'a Gauged<'_>) -> impl Fn(usize, &Millis) -> u32 + 'a {
    |number, &at| gauged.line(number).window.slot(at)
}

/// All windows of the accounts that part with time.
fn windows<'a>(limits: &'a Limits, accounts: &'a [Arc<Front>]) -> Vec<&'a Window> {
    let lines = accounts
        .iter()
        .flat_map(|account| (0..account.gauges.len()).map(move |limit| limits.line(account, limit)));
    lines.map(|line| line.window).filter(|window| **window != Window::Lifetime).collect()
}

fn record(kind: Kind, at: Millis, moves: Vec<Move>, state: &HoldState, note: &str) -> Record {
    // What moves nothing concerns nobody's books.
    let path = if moves.is_empty() { Arc::default() } else { Arc::clone(&state.path) };
    Record { at, kind, path, moves, hold: state.clone(), note: note.to_owned() }
}

/// What was asked, as one text: equal texts are the same call.
fn input(path: &[Account], grant: Option<&str>, asked: &Asked) -> String {
    // These are strings and integers: they can always be written.
    serde_json::to_string(&(path, grant, asked.most, asked.least)).unwrap_or_default()
}

fn same_input(id: &str, known: &str, asked: &str) -> Result<(), SpendError> {
    if known == asked {
        return Ok(());
    }
    Err(SpendError::Conflict { id: id.to_owned(), what: format!("then {known}, now {asked}") })
}

/// The step under that id, if it was made before; another one under it is a conflict.
fn known_step<'a>(
    live: &'a Live,
    step: Option<&str>,
    kind: Kind,
    amounts: &Quantities,
) -> Result<Option<&'a Step>, SpendError> {
    let Some(known) = step.and_then(|id| live.state.steps.iter().find(|known| known.id == id)) else {
        return Ok(None);
    };
    if (known.kind, known.amounts) == (kind, *amounts) {
        return Ok(Some(known));
    }
    let what = format!("a step with {}", show(&known.amounts));
    Err(SpendError::Conflict { id: known.id.clone(), what })
}

/// A hold is written whole at every step, so it has only so many with ids of their own.
fn room_for_step(state: &HoldState) -> Result<(), SpendError> {
    match state.steps.len() < STEPS {
        true => Ok(()),
        false => Err(SpendError::Full { what: "step under an id of its own", cap: STEPS }),
    }
}

fn add_step(state: &mut HoldState, step: Step) -> Result<(), SpendError> {
    room_for_step(state)?;
    state.steps.push(step);
    Ok(())
}

fn show(amounts: &Quantities) -> String {
    let parts: Vec<String> = amounts
        .iter()
        .filter(|&(_, amount)| amount > 0)
        .map(|(dimension, amount)| format!("{dimension} {amount}"))
        .collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}
