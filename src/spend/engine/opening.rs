//! Taking a store into use: what is open in it is open again.

use super::Engine;
use super::accounts::Accounts;
use super::group::GroupCommit;
use super::holds::{Cell, Holds, Live, Room};
use super::limits::Limits;
use crate::spend::clock::{END, Forward, WallClock};
use crate::spend::error::{OpenError, SpendError};
use crate::spend::event::Subscribers;
use crate::spend::policy::SpendPolicy;
use crate::spend::record::HoldState;
use crate::spend::store::{Store, StoreError};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

impl Engine {
    pub(crate) fn open(
        policy: SpendPolicy,
        store: Arc<dyn Store>,
        clock: Arc<dyn WallClock>,
        subscribers: Subscribers,
    ) -> Result<Self, OpenError> {
        policy.validate()?;
        let opened = store.open(&policy, clock.unix_millis().min(END))?;
        let engine = Self {
            accounts: Accounts::new(policy.account_cap),
            holds: Holds::new(policy.hold_cap),
            clock: Forward::new(clock, opened.latest),
            generation: AtomicU64::new(opened.next_generation),
            prefix: format!("{:016x}-", ahash::RandomState::new().hash_one(opened.latest)),
            grants: RwLock::default(),
            settings: Mutex::default(),
            subscribers,
            group: GroupCommit::new(store),
            limits: Limits::new(policy),
        };
        for state in opened.holds {
            engine.reopen(state).map_err(|error| match error {
                SpendError::Store(error) => OpenError::Store(error),
                other => OpenError::Store(StoreError::Other(other.to_string())),
            })?;
        }
        Ok(engine)
    }

    /// Takes a stored hold back into memory when the store is opened. The policy may have changed meanwhile: there is room for
    /// it, and its scopes that are gone have no limits.
    pub(crate) fn reopen(&self, state: HoldState) -> Result<(), SpendError> {
        let accounts = self.accounts_of(&state)?;
        let left = state.left();
        for account in &accounts {
            account.set_aside(&left);
        }
        let (id, generation, deadline) = (state.id.clone(), state.generation, state.deadline);
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        // There are as many as there were; the cap may be lower now.
        let _ = self.holds.claim(&id, &cell, Room::Due);
        *live = Some(Live { handles: 0, detached: true, looked_at: deadline, ..Live::new(state, accounts) });
        drop(live);
        self.holds.expires(deadline, generation, &id);
        Ok(())
    }
}
