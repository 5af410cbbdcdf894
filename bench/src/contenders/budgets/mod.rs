//! Budgets over four scopes: a run, a user, a team, everybody. Runs are the workload's capabilities, users its agents.
//!
//! Every call holds [`COST`], and all limits together admit exactly as many calls as a round makes.

pub mod immediate;
pub mod locked;

use crate::call::{COST, Call};
use crate::subject::{Build, Capacity};
use std::time::Duration;
use tollgate::ConfigError;
use tollgate::spend::record::{HoldState, Record};
use tollgate::spend::store::{Opened, Usage};
use tollgate::spend::{
    self, AccountBooks, Amounts, Grant, Limit, MemoryStore, Millis, OpenError, Scope, Spend, SpendPolicy,
    SqliteStore, Store, StoreError, Window,
};

/// Where the engine keeps what was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// In memory.
    InMemory,
    /// In memory, and each write takes as long as a sync.
    Slowly(Duration),
    /// In a file in the system's folder for temporary ones, synchronised at every write.
    InFile,
}

/// What a call does after it was held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It stays open, and counts.
    Held,
    /// It is settled, with what was held.
    Settled,
}

/// More holds than a round makes.
const HOLDS: usize = 1 << 22;
/// More accounts than a round has.
const ACCOUNTS: usize = 1 << 18;

/// The engine.
pub fn engine(kept: Kept, after: After) -> Build {
    Box::new(move |capacity| {
        let (spend, folder) = open(kept, policy(capacity))?;
        let amounts = Amounts::new().cost(COST as i64).calls(1);
        Ok(Box::new(move |call: &Call| {
            let _alive = &folder;
            let call = spend::Call::new()
                .scope("run", call.id().as_str())
                .scope("user", call.request.agent_id.as_str());
            let Ok(hold) = spend.hold(&call.scope("team", "t"), &amounts) else { return false };
            match after {
                After::Held => {
                    hold.detach();
                    true
                }
                After::Settled => hold.settle(&amounts).is_ok(),
            }
        }))
    })
}

fn policy(capacity: Capacity) -> SpendPolicy {
    let of_key = |calls: u64| calls.saturating_mul(COST);
    // As long as a round may last at most, and with the work of a rolling window.
    let hour = Window::rolling(Duration::from_secs(3_600)).expect("a length that has slots");
    let run = Scope::keyed("run")
        .limit(Limit::cost(of_key(capacity.key), Window::Lifetime))
        .limit(Limit::calls(capacity.key, Window::Lifetime));
    let user = Scope::keyed("user").limit(Limit::cost(of_key(capacity.agent), hour.clone()));
    let most = 1 << 50;
    let team = Scope::keyed("team").limit(Limit::cost(most, hour.clone()));
    let global = Scope::shared("global").limit(Limit::cost(most, hour));
    let policy = SpendPolicy::new().scope(run).scope(user).scope(team).scope(global);
    policy.hold_cap(HOLDS).account_cap(ACCOUNTS).ttl(Duration::from_secs(86_400))
}

fn open(kept: Kept, policy: SpendPolicy) -> Result<(Spend, Option<tempfile::TempDir>), ConfigError> {
    let mut folder = None;
    let builder = Spend::builder(policy);
    let builder = match kept {
        Kept::InMemory => builder,
        Kept::Slowly(sync) => builder.store(Slow { store: MemoryStore::new(), sync }),
        Kept::InFile => {
            let place = folder.insert(tempfile::tempdir().map_err(failed)?);
            builder.store(SqliteStore::at(place.path().join("budgets.db")).map_err(failed)?)
        }
    };
    Ok((builder.open().map_err(|error: OpenError| failed(error))?, folder))
}

pub(crate) fn failed(error: impl std::fmt::Display) -> ConfigError {
    ConfigError { field: "budgets", value: error.to_string(), accepted: "a place for a store".to_owned() }
}

/// A store whose every write takes as long as a sync, whatever the disk does.
#[derive(Debug)]
struct Slow {
    store: MemoryStore,
    sync: Duration,
}

impl Store for Slow {
    fn open(&self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError> {
        self.store.open(policy, now)
    }
    fn close(&self) {
        self.store.close();
    }
    fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        self.store.redefine(policy, now)
    }
    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        std::thread::sleep(self.sync);
        self.store.write(records)
    }
    fn usage(&self, scope: &str, key: &str, at: Millis) -> Result<Vec<Usage>, StoreError> {
        self.store.usage(scope, key, at)
    }
    fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError> {
        self.store.hold(id)
    }
    fn books(&self) -> Result<Vec<AccountBooks>, StoreError> {
        self.store.books()
    }
    fn open_holds(&self) -> Result<Vec<HoldState>, StoreError> {
        self.store.open_holds()
    }
    fn delegate(&self, grant: &Grant) -> Result<(), StoreError> {
        self.store.delegate(grant)
    }
    fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        self.store.grant(id)
    }
}
