//! Where budgets are kept: one trait, of which memory and SQLite are two implementations.

use super::books::Books;
use super::policy::SpendPolicy;
use super::record::{HoldState, Millis, Record};
use std::fmt;

/// Keeps what was held and spent.
///
/// The engine reads from many threads, and writes from one at a time unless writes [do not wait](Self::waits).
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Takes what is kept into use under `policy`, as the only writer until it is [closed](Self::close): checks that it is whole,
    /// remembers the policy, and adds up again what a changed policy asks for. What was spent stays spent.
    ///
    /// # Errors
    /// Another writer, also one of this process: two would each grant what the other has granted. A file that is torn, altered, of a later version or in another currency, a window that reaches
    /// back further than what is kept.
    fn open(&self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError>;

    /// The engine that opened it is gone: another may open it. An engine goes with its last handle, holds' too.
    fn close(&self);

    /// Keeps `policy` instead of the one that it was opened with. Only amounts and what is no limit differ.
    ///
    /// # Errors
    /// It cannot be kept; the one before counts.
    fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError>;

    /// Makes all records durable, in this order, or none of them. On return they survive the end of the process and
    /// of the machine's power, as far as the store can promise it.
    ///
    /// # Errors
    /// None of them is kept, as far as is known: the engine then refuses the calls. (A failed sync can leave records behind that
    /// come back after a crash. They are holds that nobody uses, or settlements that are asked for again.)
    fn write(&self, records: &[Record]) -> Result<(), StoreError>;

    /// Do writes wait for a device? Then callers that come during one write share the next. Otherwise each caller writes by
    /// itself, and several may at once.
    fn waits(&self) -> bool {
        true
    }

    /// What counts against the limits of one account at `at`: of each limit of its scope in the policy's order, the slots that its
    /// window then adds up, and later ones, with what was used in them. Slots without use may be left out. For
    /// [`FAMILY`](super::record::FAMILY) the limits are cost and calls over the lifetime.
    ///
    /// # Errors
    /// It cannot be read.
    fn usage(&self, scope: &str, key: &str, at: Millis) -> Result<Vec<Usage>, StoreError>;

    /// The hold of that id, whatever became of it; `None` where there is none, or it was forgotten.
    ///
    /// # Errors
    /// It cannot be read.
    fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError>;

    /// The books of all accounts, in the order of their scopes in the policy and of their keys.
    ///
    /// # Errors
    /// They cannot be read.
    fn books(&self) -> Result<Vec<AccountBooks>, StoreError>;

    /// All holds that are open, oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    fn open_holds(&self) -> Result<Vec<HoldState>, StoreError>;

    /// Remembers that `grant` was delegated. A grant that is known keeps its parent and ceiling.
    ///
    /// # Errors
    /// It cannot be kept.
    fn delegate(&self, grant: &super::policy::Grant) -> Result<(), StoreError>;

    /// The delegated grant of that id.
    ///
    /// # Errors
    /// It cannot be read.
    fn grant(&self, id: &str) -> Result<Option<super::policy::Grant>, StoreError>;
}

/// What a store knew when it was opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Opened {
    /// Holds that are open.
    pub holds: Vec<HoldState>,
    /// The generation of the next hold: above every one that is kept.
    pub next_generation: u64,
    /// The latest time in any record. Time goes on from there, even where the machine's clock was set back.
    pub latest: Millis,
}

/// What was used of one limit in one slot of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Which limit of the scope, counted from 0.
    pub limit: usize,
    /// The slot.
    pub slot: u32,
    /// What was used in it: never below 0; `u64::MAX` for more than that.
    pub used: u64,
}

/// The books of one account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountBooks {
    /// Its scope.
    pub scope: String,
    /// Whose.
    pub key: String,
    /// All of them.
    pub books: Books,
}

/// Why a store cannot do what it was asked. The engine refuses what it cannot keep.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process, or another engine of this one, writes to it.
    #[error("{path} is in use by another writer{}: stop it first, or read beside it", holder.as_ref().map_or(String::new(), |pid| format!(" (process {pid})")))]
    InUse {
        /// The file.
        path: String,
        /// Whoever holds it, if it said so.
        holder: Option<u32>,
    },
    /// It is not whole.
    #[error(
        "{path} was torn or altered: {what}; restore it from a copy, or run `tollgate budget audit` for all that is wrong"
    )]
    Corrupt {
        /// The file.
        path: String,
        /// What is wrong, and where.
        what: String,
    },
    /// It was written by a later version.
    #[error("{path} has schema {found}, and this version knows up to {known}: use a newer tollgate")]
    Schema {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
        /// The latest that is known.
        known: u32,
    },
    /// Its amounts are in another unit.
    #[error(
        "the store counts {kept} and the policy {asked}: amounts of different units do not add up; use another store"
    )]
    Unit {
        /// The store's, as `USD/6`.
        kept: String,
        /// The policy's.
        asked: String,
    },
    /// A limit's window reaches back further than what is kept.
    #[error(
        "{limit} adds up more than what is kept (since {since} ms): wait until then plus the window, or restore what was archived"
    )]
    NoHistory {
        /// The limit.
        limit: String,
        /// Since when everything is kept.
        since: Millis,
    },
    /// A cap that bounds the store's memory is reached.
    #[error("no room for another {what}: {cap} are kept; raise the cap")]
    Full {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        cap: usize,
    },
    /// The disk, the file system or the database failed.
    #[error(
        "cannot {doing} {path}: {cause}; nothing was changed, and calls are refused until it works again"
    )]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: String,
        /// What was said.
        cause: String,
    },
    /// The store cannot do that.
    #[error("{0}")]
    Other(String),
}
