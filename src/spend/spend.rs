//! The front door: budgets in use. Hold before dispatch, settle after it.

use super::amount::{Amounts, Dimension};
use super::call::Call;
use super::clock::{SystemClock, WallClock};
use super::engine::holds::Cell;
use super::engine::{Engine, LimitStatus, Named};
use super::error::{OpenError, SpendError};
use super::event::{SpendEvent, Subscribers};
use super::hold::{Hold, HoldRef};
use super::memory::MemoryStore;
use super::policy::{Grant, SpendPolicy};
use super::record::{Phase, Settlement};
use super::store::{AccountBooks, Store};
use super::window::Window;
use std::fmt;
use std::sync::Arc;

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
pub struct Spend(pub(super) Arc<Engine>);

/// Opens budgets: with a store, a clock, subscribers.
#[must_use]
pub struct SpendBuilder {
    policy: SpendPolicy,
    store: Option<Arc<dyn Store>>,
    clock: Arc<dyn WallClock>,
    subscribers: Subscribers,
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
        let store = self.store.unwrap_or_else(|| Arc::new(MemoryStore::new()));
        Engine::open(self.policy, store, self.clock, self.subscribers).map(|engine| Spend(Arc::new(engine)))
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
    /// A call whose id was asked for before gets [the same hold](Hold::is_replayed). If that was [detached](Hold::detach), or its
    /// handles ended with an earlier process, it stays set aside when this handle is dropped: it belongs to whoever has its name.
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
        let own = |cell: &Arc<Cell>| {
            let mut live = cell.lock();
            let live = live.as_mut().ok_or_else(|| name.unknown())?;
            live.handles += 1;
            live.detached = false;
            Ok::<_, SpendError>(())
        };
        let mut cell = self.0.cell(name)?;
        if own(&cell).is_err() {
            // It may have outlived its time just now, and was put away: the store has it.
            cell = self.0.cell(name)?;
            own(&cell)?;
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

    /// Ends a hold without a handle. What was fetched from the store for it goes again, whatever comes of it.
    fn by_name(
        &self,
        name: &HoldRef,
        end: impl Fn(&Arc<Cell>) -> Result<Settlement, SpendError>,
    ) -> Result<Settlement, SpendError> {
        let once = || {
            let fetched = Fetched { spend: self, cell: self.0.cell(name)?, name };
            end(&fetched.cell)
        };
        match once() {
            // It may have outlived its time just now, and was put away: the store has it.
            Err(SpendError::NoHold { .. }) => once(),
            ended => ended,
        }
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
    /// A parent that is not known, a ceiling above the parent's, a grant that has another parent already, more than 64 delegations
    /// one below the other, more grants than the policy's cap.
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
        self.0.accounts_in_memory()
    }
}

/// What was fetched for an operation by name: it is put away again, should the operation panic too.
struct Fetched<'a> {
    spend: &'a Spend,
    cell: Arc<Cell>,
    name: &'a HoldRef,
}

impl Drop for Fetched<'_> {
    fn drop(&mut self) {
        self.spend.0.forget(&self.cell, self.name);
    }
}
