//! A store that is there, opened to read.

use super::amounts::Purse;
use crate::failure::Failure;
use crate::table::quiet;
use std::io;
use std::path::Path;
use tollgate::spend::{Millis, SpendPolicy, SqliteReader, StoreError, SystemClock, WallClock};

/// A store with its policy.
pub struct Seen {
    pub reader: SqliteReader,
    pub policy: SpendPolicy,
    pub purse: Purse,
    /// The time by which the store is read: the machine's, or the last record's if the clock was set back since.
    pub now: Millis,
}

/// Opens a store to read. Nothing is created.
pub fn read(path: &Path) -> Result<Seen, Failure> {
    let reader = reader(path)?;
    let policy = reader.policy().map_err(unread)?.ok_or_else(|| no_policy(path))?;
    let now = SystemClock.unix_millis().max(reader.latest().map_err(unread)?);
    Ok(Seen { purse: Purse::new(policy.money()), reader, policy, now })
}

/// Opens a store that may have no policy yet.
pub fn reader(path: &Path) -> Result<SqliteReader, Failure> {
    is_there(path)?;
    SqliteReader::open(path).map_err(unopened)
}

/// There is a plain file: to open a pipe may wait for ever.
pub fn is_there(path: &Path) -> Result<(), Failure> {
    let found = std::fs::metadata(path).map_err(|cause| Failure::open(path, &cause))?;
    match found.is_file() {
        true => Ok(()),
        false => Err(Failure::open(path, &io::Error::other("it is no plain file"))),
    }
}

pub fn no_policy(path: &Path) -> Failure {
    Failure::Mend(format!("{}: no policy was ever kept in this store: nobody used it yet", path.display()))
}

/// Why a store cannot be opened: for the user to mend, except that another writer ends by itself.
pub fn unopened(error: StoreError) -> Failure {
    match error {
        StoreError::InUse { .. } => Failure::Run(quiet(&error.to_string())),
        StoreError::Corrupt { path, what } => Failure::Mend(quiet(&format!(
            "cannot open {path}: it is no store of budgets, or its beginning is damaged: {what}"
        ))),
        StoreError::Io { doing, path, cause } => {
            Failure::Mend(quiet(&format!("cannot {doing} {path}: {cause}")))
        }
        error => Failure::Mend(quiet(&error.to_string())),
    }
}

/// Why a store that was opened cannot be used.
pub fn unread(error: StoreError) -> Failure {
    let text = quiet(&error.to_string());
    match error {
        StoreError::Io { .. } | StoreError::InUse { .. } => Failure::Run(text),
        _ => Failure::Mend(text),
    }
}
