//! Small policies, and a store that can be made to fail.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tollgate::spend::record::{HoldState, Record};
use tollgate::spend::store::{Opened, Usage};
use tollgate::spend::*;

pub const MINUTE: Millis = 60_000;
pub const HOUR: Millis = 60 * MINUTE;
pub const DAY: Millis = 24 * HOUR;
/// 2026-06-01T00:00:00Z, a Monday.
pub const START: Millis = 1_780_272_000_000;

pub fn cost(amount: i64) -> Amounts {
    Amounts::new().cost(amount)
}

pub fn tokens(amount: i64) -> Amounts {
    Amounts::new().tokens(amount)
}

pub fn rolling(length: Millis) -> Window {
    Window::rolling(Duration::from_millis(length)).expect("a length that has slots")
}

/// One account for everybody, with these limits.
pub fn shared(limits: impl IntoIterator<Item = Limit>) -> SpendPolicy {
    let scope = limits.into_iter().fold(Scope::shared("all"), Scope::limit);
    SpendPolicy::new().scope(scope)
}

/// One lifetime limit of money for everybody.
pub fn money(limit: u64) -> SpendPolicy {
    shared([Limit::cost(limit, Window::Lifetime)])
}

pub fn open(policy: SpendPolicy, clock: &ManualWallClock) -> Spend {
    Spend::builder(policy).clock(clock.clone()).open().expect("a policy that makes sense")
}

pub fn open_on(store: &(impl Store + Clone), policy: SpendPolicy, clock: &ManualWallClock) -> Spend {
    Spend::builder(policy)
        .store(store.clone())
        .clock(clock.clone())
        .open()
        .expect("a policy that makes sense")
}

/// The four scopes of the documentation, at their numbers.
pub fn four_scopes() -> SpendPolicy {
    let run = Scope::keyed("run")
        .limit(Limit::tokens(120_000, Window::Lifetime))
        .limit(Limit::calls(25, Window::Lifetime))
        .limit(Limit::seconds(180, Window::Lifetime))
        .limit(Limit::cost(500_000, Window::Lifetime));
    let user = Scope::keyed("user")
        .limit(Limit::cost(3_000_000, rolling(HOUR)))
        .limit(Limit::cost(15_000_000, Window::day("UTC").expect("a zone")));
    let team = Scope::keyed("team").limit(Limit::cost(120_000_000, Window::day("UTC").expect("a zone")));
    let global = Scope::shared("global")
        .limit(Limit::cost(40_000_000, rolling(HOUR)))
        .limit(Limit::concurrent_runs(30));
    SpendPolicy::new().scope(run).scope(user).scope(team).scope(global)
}

pub fn refusal(result: Result<Hold, SpendError>) -> Refusal {
    match result {
        Err(SpendError::Refused(refusal)) => *refusal,
        other => panic!("not refused by a limit: {other:?}"),
    }
}

/// (spent, held) of one limit of an account.
pub fn used(spend: &Spend, scope: &str, key: &str, limit: usize) -> (u64, u64) {
    let status = &spend.status(scope, key).expect("a known scope")[limit];
    (status.spent, status.held)
}

/// Every account balances, with what is outstanding counted from the holds that are open.
pub fn balances(store: &dyn Store) {
    let open = store.open_holds().expect("readable");
    for account in store.books().expect("readable") {
        for (dimension, entry) in account.books.iter() {
            let out: u64 = open
                .iter()
                .filter(|hold| hold.path.iter().any(|on| on.scope == account.scope && on.key == account.key))
                .map(|hold| hold.left()[dimension])
                .sum();
            let right = entry.settled + entry.released + entry.expired + i128::from(out);
            assert_eq!(
                entry.reserved + entry.overrun,
                right,
                "{account:?} in {dimension}, {out} outstanding"
            );
            for part in [entry.reserved, entry.overrun, entry.settled, entry.released, entry.expired] {
                assert!(part >= 0, "{account:?} in {dimension}");
            }
        }
    }
}

/// Somewhere to keep budgets: each use of it opens what the use before left.
pub enum Place {
    Memory(MemoryStore),
    #[cfg(feature = "sqlite")]
    File(tempfile::TempDir),
}

impl Place {
    /// One of each kind.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Memory(MemoryStore::new()),
            #[cfg(feature = "sqlite")]
            Self::File(tempfile::tempdir().expect("a folder")),
        ]
    }

    /// Nobody else must have it open.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => Arc::new(store.clone()),
            #[cfg(feature = "sqlite")]
            Self::File(folder) => Arc::new(SqliteStore::at(folder.path().join("b.db")).expect("a file")),
        }
    }

    pub fn open(&self, policy: SpendPolicy, clock: &ManualWallClock) -> Spend {
        let opened = Spend::builder(policy).shared_store(self.store()).clock(clock.clone()).open();
        opened.expect("it can be opened")
    }
}

/// A store that fails when told to, and remembers what was written.
#[derive(Debug, Clone)]
pub struct Fragile<S> {
    pub store: S,
    pub down: Arc<AtomicBool>,
    pub writes: Arc<AtomicUsize>,
    /// All records, in the order in which they became durable.
    pub log: Arc<Mutex<Vec<Record>>>,
    /// The policy that it was last told to keep.
    pub policy: Arc<Mutex<Option<SpendPolicy>>>,
    before_write: Hook,
    before_read: ReadHook,
}

type BeforeWrite = dyn Fn(&[Record]) -> Result<(), StoreError> + Send + Sync;
type BeforeRead = dyn Fn(&str) + Send + Sync;

/// What is done before an account is read, by its key, or a hold, by its id.
#[derive(Clone)]
struct ReadHook(Arc<BeforeRead>);

impl fmt::Debug for ReadHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadHook")
    }
}

/// What is done before a write.
#[derive(Clone)]
struct Hook(Arc<BeforeWrite>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl<S> Fragile<S> {
    pub fn new(store: S) -> Self {
        Self {
            store,
            down: Arc::default(),
            writes: Arc::default(),
            log: Arc::default(),
            policy: Arc::default(),
            before_write: Hook(Arc::new(|_| Ok(()))),
            before_read: ReadHook(Arc::new(|_| ())),
        }
    }

    pub fn before_write(self, hook: impl Fn(&[Record]) + Send + Sync + 'static) -> Self {
        let hook = move |records: &[Record]| {
            hook(records);
            Ok(())
        };
        Self { before_write: Hook(Arc::new(hook)), ..self }
    }

    /// Takes no batch in which there is such a record.
    pub fn refusing(self, is_refused: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        self.refusing_batches(move |records| records.iter().any(&is_refused))
    }

    /// Takes no such batch.
    pub fn refusing_batches(self, is_refused: impl Fn(&[Record]) -> bool + Send + Sync + 'static) -> Self {
        let hook = move |records: &[Record]| match is_refused(records) {
            true => Err(StoreError::Other("that cannot be kept".into())),
            false => Ok(()),
        };
        Self { before_write: Hook(Arc::new(hook)), ..self }
    }

    pub fn before_read(self, hook: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { before_read: ReadHook(Arc::new(hook)), ..self }
    }

    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    fn up(&self) -> Result<(), StoreError> {
        match self.down.load(Ordering::SeqCst) {
            true => Err(StoreError::Other("the disk is gone".into())),
            false => Ok(()),
        }
    }
}

impl<S: Store> Store for Fragile<S> {
    fn open(&self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError> {
        self.up()?;
        self.store.open(policy, now)
    }
    fn close(&self) {
        self.store.close();
    }
    fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        self.up()?;
        std::thread::yield_now(); // for others to come in between
        self.store.redefine(policy, now)?;
        *self.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(policy.clone());
        Ok(())
    }
    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        (self.before_write.0)(records)?;
        self.up()?;
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.store.write(records)?;
        self.log.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(records);
        Ok(())
    }
    fn usage(&self, scope: &str, key: &str, at: Millis) -> Result<Vec<Usage>, StoreError> {
        self.up()?;
        (self.before_read.0)(key);
        self.store.usage(scope, key, at)
    }
    fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError> {
        self.up()?;
        (self.before_read.0)(id);
        self.store.hold(id)
    }
    fn books(&self) -> Result<Vec<AccountBooks>, StoreError> {
        self.store.books()
    }
    fn open_holds(&self) -> Result<Vec<HoldState>, StoreError> {
        self.store.open_holds()
    }
    fn delegate(&self, grant: &Grant) -> Result<(), StoreError> {
        self.up()?;
        std::thread::yield_now(); // for others to come in between
        self.store.delegate(grant)
    }
    fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        self.up()?;
        self.store.grant(id)
    }
}
