//! What went wrong with the file, by the store's names.

use crate::spend::store::StoreError;
use rusqlite::{Error, ErrorCode};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The file that errors name.
#[derive(Debug, Clone)]
pub(super) struct Named {
    path: PathBuf,
}

impl Named {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn text(&self) -> String {
        self.path.display().to_string()
    }

    /// There is no file of that name yet, or a plain one: to open a pipe may wait for ever.
    pub(super) fn is_plain(&self, doing: &'static str) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(found) if found.is_dir() => Err(self.io(doing, "it is a directory")),
            Ok(found) if !found.is_file() => Err(self.io(doing, "it is no plain file")),
            _ => Ok(()),
        }
    }

    pub(super) fn io(&self, doing: &'static str, cause: impl Display) -> StoreError {
        StoreError::Io { doing, path: self.text(), cause: cause.to_string() }
    }

    pub(super) fn corrupt(&self, what: impl Display) -> StoreError {
        StoreError::Corrupt { path: self.text(), what: what.to_string() }
    }

    /// For `map_err`: what SQLite said while `doing`.
    pub(super) fn sql(&self, doing: &'static str) -> impl Fn(Error) -> StoreError + '_ {
        move |error| {
            if is_damage(&error) { self.corrupt(plain(&error)) } else { self.io(doing, plain(&error)) }
        }
    }
}

/// Does it say that the file is not what this module wrote? The statements are fixed: one that does not fit its tables, or a
/// value of another type, means altered tables.
pub(super) fn is_damage(error: &Error) -> bool {
    match error {
        Error::SqliteFailure(failure, _) => {
            matches!(failure.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
                || failure.extended_code == rusqlite::ffi::SQLITE_ERROR
        }
        Error::SqlInputError { .. }
        | Error::FromSqlConversionFailure(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::InvalidColumnType(..)
        | Error::InvalidColumnIndex(_)
        | Error::InvalidColumnName(_)
        | Error::QueryReturnedNoRows
        | Error::Utf8Error(..) => true,
        _ => false,
    }
}

fn plain(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(text)) => text.clone(),
        Error::QueryReturnedNoRows => "a row that is always there is missing".to_owned(),
        other => other.to_string(),
    }
}
