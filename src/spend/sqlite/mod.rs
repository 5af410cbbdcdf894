//! Budgets in a file: an SQLite database in write-ahead mode, with one writer and any number of readers.
//!
//! # What is promised
//!
//! A batch of records is one transaction: all of it, or nothing. What [`write`](Store::write) returned `Ok` for survives a kill
//! of the process, and the loss of power as far as the disk does what it says. After an error the store
//! works on as soon as its cause is gone.
//!
//! The ledger is a chain: each row has the SHA-256 of the row before and of itself, and rows are only added. Usage, books and
//! open holds follow from it. [`open`](Store::open) adds all of it up again and refuses a file in which anything differs;
//! [`audit()`] lists all that does. The chain finds damage and edits, but not those of somebody who writes the whole
//! chain anew, and not the loss of its last rows together with what they did: a log that is cut is a store as it was earlier.
//!
//! # Time to open
//!
//! Opening reads every row that is not archived. [`SqliteStore::archive`] keeps their number bounded.

mod archive;
mod audit;
mod base;
mod connect;
mod crash;
mod fault;
mod finding;
mod limits;
mod lock;
mod migrate;
mod open;
mod queries;
mod reader;
mod row;
mod schema;
mod status;
mod tally;
mod verify;
mod wide;
mod writer;

#[cfg(test)]
mod tests;

pub use archive::Archived;
pub use audit::{Audit, audit};
pub use finding::{Check, Finding};
pub use reader::{Ledger, SqliteReader, UsageRow};
pub use row::{LedgerEntry, LedgerRow};
pub use status::AccountStatus;
pub use verify::Counts;

use super::policy::{Grant, SpendPolicy};
use super::record::{HoldState, Millis, Record};
use super::store::{AccountBooks, Opened, Store, StoreError, Usage};
use fault::Named;
use lock::WriterLock;
use rusqlite::Connection;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use writer::{InUse, Writer};

/// How many idle connections are kept to read with.
const READERS: usize = 4;

/// Keeps budgets in a file, as its only writer.
///
/// ```no_run
/// use tollgate::spend::SqliteStore;
/// let store = SqliteStore::at("budgets.db")?;
/// # Ok::<_, tollgate::spend::StoreError>(())
/// ```
#[derive(Debug)]
pub struct SqliteStore {
    file: Named,
    in_use: RwLock<Option<Arc<InUse>>>,
    // Dropped in this order: the writer is the last connection and folds its log into the file, and only then the lock is free.
    readers: Mutex<Vec<Connection>>,
    writer: Mutex<Writer>,
    _lock: WriterLock,
}

impl SqliteStore {
    /// Opens or creates the file, whose folder must be there, and on Linux keeps other writers out until this is dropped. A file
    /// of an earlier version is brought up to date.
    ///
    /// Beside it there are `FILE-wal` and `FILE-shm`, which belong to it, and `FILE.lock`.
    ///
    /// # Errors
    /// Another writer has it, it is something else or of a later version, or it cannot be written.
    pub fn at(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let file = Named::new(resolved(path.as_ref())?);
        file.is_plain("open")?;
        let lock = WriterLock::take(&file)?;
        let connection = connect::writer(&file)?;
        let writer = Writer { connection, file: file.clone(), state: None, is_open: false };
        let (in_use, readers, writer) = (RwLock::default(), Mutex::default(), Mutex::new(writer));
        Ok(Self { file, in_use, readers, writer, _lock: lock })
    }

    /// The policy under which it was last opened, to open it once more; `None` if it never was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn kept_policy(&self) -> Result<Option<SpendPolicy>, StoreError> {
        self.read(queries::policy)
    }

    /// Moves old rows of the ledger to the end of the file `to`, as lines of JSON: those before `before`, up to the first
    /// that a window still adds up, or that belongs to a hold which is open, or expired and not settled. No answer changes;
    /// but a limit that is added later can only add up what is still in the ledger, unless it is a lifetime.
    ///
    /// Writes wait meanwhile. Killed in between nothing is lost, and rows may be in the file twice: they have the same `seq` and `chain`.
    ///
    /// # Errors
    /// The file cannot be appended to, or the store not be written. The ledger is as it was.
    pub fn archive(&self, before: Millis, to: impl AsRef<Path>) -> Result<Archived, StoreError> {
        self.writer().archive(before, to.as_ref())
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_use(&self) -> Result<Arc<InUse>, StoreError> {
        let in_use = self.in_use.read().unwrap_or_else(PoisonError::into_inner);
        in_use.clone().ok_or_else(writer::not_open)
    }

    /// What the writer counts is what readers ask for.
    fn publish(&self, writer: &Writer) {
        let in_use = writer.state.as_ref().map(|state| Arc::clone(&state.in_use));
        *self.in_use.write().unwrap_or_else(PoisonError::into_inner) = in_use;
    }

    /// Reads by a connection of its own, so that nobody waits for a sync.
    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let idle = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let connection = kept.map_or_else(|| connect::reader(&self.file), Ok)?;
        let answer = read(&connection).map_err(self.file.sql("read"))?;
        let mut idle = idle();
        if idle.len() < READERS {
            idle.push(connection);
        }
        Ok(answer)
    }
}

impl Store for SqliteStore {
    fn open(&self, policy: &SpendPolicy, now: Millis) -> Result<Opened, StoreError> {
        let mut writer = self.writer();
        if writer.is_open {
            let (path, holder) = (self.file.text(), Some(std::process::id()));
            return Err(StoreError::InUse { path, holder });
        }
        let opened = writer.open(policy, now)?;
        writer.is_open = true;
        self.publish(&writer);
        Ok(opened)
    }

    fn close(&self) {
        self.writer().is_open = false;
    }

    fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        let mut writer = self.writer();
        writer.redefine(policy, now)?;
        self.publish(&writer);
        Ok(())
    }

    fn write(&self, records: &[Record]) -> Result<(), StoreError> {
        self.writer().write(records)
    }

    fn usage(&self, scope: &str, key: &str, at: Millis) -> Result<Vec<Usage>, StoreError> {
        let in_use = self.in_use()?;
        self.read(|connection| {
            let mut all = Vec::new();
            for (limit, &index) in in_use.limits.of_scope(scope).iter().enumerate() {
                let first = in_use.limits.all[index].reaches(at);
                let rows = queries::usage(connection, in_use.numbers[index], key, first)?;
                all.extend(rows.into_iter().map(|(slot, used)| Usage { limit, slot, used }));
            }
            Ok(all)
        })
    }

    fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError> {
        self.read(|connection| queries::hold(connection, id))
    }

    fn books(&self) -> Result<Vec<AccountBooks>, StoreError> {
        let in_use = self.in_use()?;
        self.read(|connection| queries::books(connection, Some(&in_use.policy)))
    }

    fn open_holds(&self) -> Result<Vec<HoldState>, StoreError> {
        self.read(queries::open_holds)
    }

    fn delegate(&self, grant: &Grant) -> Result<(), StoreError> {
        self.writer().delegate(grant)
    }

    fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        self.read(|connection| queries::grant(connection, id))
    }
}

/// The path without links, so that one file has one name: two locks on two names would keep nobody out. No such path is one of
/// those that SQLite takes for something else than a file.
fn resolved(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = |error| Named::new(path.to_owned()).io("open", error);
    let name = path.file_name().ok_or_else(|| Named::new(path.to_owned()).io("open", "it names no file"))?;
    match path.canonicalize() {
        Ok(path) => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize().map_err(failed)?;
            Ok(folder.join(name))
        }
        Err(error) => Err(failed(error)),
    }
}

/// The file of that name with something behind it.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The folder of a file, where folders can be synchronised.
fn folder_of(path: &Path) -> std::io::Result<Option<File>> {
    if !cfg!(unix) {
        return Ok(None);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new("."))).map(Some)
}
