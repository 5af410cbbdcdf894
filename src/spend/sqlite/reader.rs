//! Reading a store that somebody else writes, or nobody.

use super::base::Base;
use super::connect;
use super::fault::Named;
use super::limits::Limits;
use super::queries;
use super::row::{LedgerEntry, LedgerRow};
use super::status::{self, AccountStatus};
use super::wide;
use crate::spend::policy::{Grant, SpendPolicy};
use crate::spend::record::{HoldState, Millis, Record};
use crate::spend::store::{AccountBooks, StoreError};
use rusqlite::{Connection, OptionalExtension};
use std::path::Path;

/// Reads a store, beside its writer or without one, and changes nothing in it. Every answer is what was committed at one
/// instant; two answers may be of two instants.
///
/// ```no_run
/// use tollgate::spend::SqliteReader;
/// for account in SqliteReader::open("budgets.db")?.books()? {
///     println!("{} {}", account.scope, account.key);
/// }
/// # Ok::<_, tollgate::spend::StoreError>(())
/// ```
#[derive(Debug)]
pub struct SqliteReader {
    file: Named,
    connection: Connection,
}

/// What was used of a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageRow {
    /// The limit's scope.
    pub scope: String,
    /// Whose.
    pub key: String,
    /// The limit, as in `user/cost/rolling 1h`.
    pub limit: String,
    /// The slot of its window.
    pub slot: u32,
    /// What was used in it; `u64::MAX` for more.
    pub used: u64,
}

impl SqliteReader {
    /// Opens a store that is there.
    ///
    /// # Errors
    /// There is none, it is of another version or something else, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let file = Named::new(super::resolved(path.as_ref())?);
        let connection = connect::reader(&file)?;
        Ok(Self { file, connection })
    }

    fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        read(&self.connection).map_err(self.file.sql("read"))
    }

    /// The policy under which it was last opened; `None` if it never was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn policy(&self) -> Result<Option<SpendPolicy>, StoreError> {
        self.read(queries::policy)
    }

    /// From here on every move is in the ledger; what was before is archived, and kept as sums.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn since(&self) -> Result<Millis, StoreError> {
        self.read(Base::since)
    }

    /// The books of all accounts, in the order of their scopes in the policy and of their keys.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn books(&self) -> Result<Vec<AccountBooks>, StoreError> {
        let policy = self.policy()?;
        self.read(|connection| queries::books(connection, policy.as_ref()))
    }

    /// How full the limits of all accounts are at `now`, in the order of scopes in the policy and of keys, families last; empty
    /// if it was never opened. Scopes that everybody shares and families are there before anybody used them.
    ///
    /// It is what the store has: a hold whose time is over counts as held until its writer deals with it. Held is what was set
    /// aside in the window that is current, where [`Spend::status`](crate::spend::Spend::status) tells what the account holds in
    /// all. Where the clock was set back, the latest time of a record counts, as it does for the writer.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn status(&self, now: Millis) -> Result<Vec<AccountStatus>, StoreError> {
        self.read(|connection| {
            // So that limits, use and holds are of one instant.
            let snapshot = connection.unchecked_transaction()?;
            status::accounts(&snapshot, now)
        })
    }

    /// The time of the last record, archived or not; 0 without any. A writer's clock goes on from there.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn latest(&self) -> Result<Millis, StoreError> {
        self.read(|connection| {
            let snapshot = connection.unchecked_transaction()?;
            status::latest(&snapshot)
        })
    }

    /// All open holds, oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn open_holds(&self) -> Result<Vec<HoldState>, StoreError> {
        self.read(queries::open_holds)
    }

    /// The hold of that id.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hold(&self, id: &str) -> Result<Option<HoldState>, StoreError> {
        self.read(|connection| queries::hold(connection, id))
    }

    /// The delegated grant of that id.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn grant(&self, id: &str) -> Result<Option<Grant>, StoreError> {
        self.read(|connection| queries::grant(connection, id))
    }

    /// What was used of every limit, by everybody, in the order of limits in the policy, keys and slots.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn usage(&self) -> Result<Vec<UsageRow>, StoreError> {
        let limits = self.policy()?.as_ref().map(Limits::of).unwrap_or_default();
        self.read(|connection| {
            let number = "SELECT n FROM counted WHERE id = ?1";
            let sql = "SELECT key, slot, used FROM usage WHERE counted = ?1 AND used > 0 ORDER BY key, slot";
            let mut select = connection.prepare_cached(sql)?;
            let mut all = Vec::new();
            for counted in &limits.all {
                let number: Option<i64> =
                    connection.query_row(number, [&counted.id], |row| row.get(0)).optional()?;
                let rows = select.query_map([number], |row| {
                    let (scope, limit) = (counted.scope.clone(), counted.id.clone());
                    let (key, slot, used) = (row.get(0)?, row.get(1)?, wide::used(row, 2)?);
                    Ok(UsageRow { scope, key, limit, slot, used })
                })?;
                for row in rows {
                    all.push(row?);
                }
            }
            Ok(all)
        })
    }

    /// The ledger's rows that are not archived, oldest first. Rows that are added meanwhile come too.
    pub fn ledger(&self) -> Ledger<'_> {
        Ledger { reader: self, seq: 0, page: Vec::new().into_iter(), over: false }
    }

    /// Records with a note: what was repaired by hand, by whom and why.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn notes(&self) -> Result<Vec<(u64, Record)>, StoreError> {
        let mut notes = Vec::new();
        for row in self.ledger() {
            match row? {
                LedgerRow { seq, entry: LedgerEntry::Record(record), .. } if !record.note.is_empty() => {
                    notes.push((seq, *record));
                }
                _ => {}
            }
        }
        Ok(notes)
    }
}

/// Rows of a ledger, read some at a time. After an error there are no more.
#[derive(Debug)]
pub struct Ledger<'r> {
    reader: &'r SqliteReader,
    /// The last row that was read.
    seq: i64,
    page: std::vec::IntoIter<LedgerRow>,
    over: bool,
}

impl Ledger<'_> {
    const PAGE: u32 = 256;
}

impl Iterator for Ledger<'_> {
    type Item = Result<LedgerRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.page.next() {
            return Some(Ok(row));
        }
        if self.over {
            return None;
        }
        match self.reader.read(|connection| queries::ledger_after(connection, self.seq, Self::PAGE)) {
            Err(error) => {
                self.over = true;
                Some(Err(error))
            }
            Ok(page) => {
                self.seq = page.last().map_or(self.seq, |row| row.seq as i64);
                self.page = page.into_iter();
                self.page.next().map(Ok)
            }
        }
    }
}
