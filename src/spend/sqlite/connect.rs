//! Connections: one that writes, and any number that read.

use super::fault::Named;
use super::migrate;
use crate::spend::store::StoreError;
use rusqlite::{Connection, Error, ErrorCode, OpenFlags};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// How long one waits for a program that has the database locked for a moment: another reader's recovery, a backup.
const PATIENCE: Duration = Duration::from_secs(5);

/// Statements of the writer and the readers: all of them stay prepared.
const STATEMENTS: usize = 64;

/// Opens or creates the file, and brings its tables up to date.
pub(super) fn writer(file: &Named) -> Result<Connection, StoreError> {
    let sql = file.sql("open");
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(file.path(), flags).map_err(&sql)?;
    connection.busy_timeout(PATIENCE).map_err(&sql)?;
    // Before anything is changed in it.
    let version = migrate::identify(&connection, file)?;
    if connection.is_readonly("main").map_err(&sql)? {
        return Err(file.io("open", "it can only be read"));
    }
    let mode: String =
        connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(&sql)?;
    if mode != "wal" {
        return Err(file.io("open", "this file system does not do write-ahead logs"));
    }
    connection
        .execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16384;
             PRAGMA journal_size_limit = 67108864;",
        )
        .map_err(&sql)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    migrate::migrate(&mut connection, file, version)?;
    if version == 0 {
        // A new file's name survives once its folder is written.
        let folder = super::folder_of(file.path()).map_err(|error| file.io("open", error))?;
        if let Some(folder) = folder {
            folder.sync_all().map_err(|error| file.io("open", error))?;
        }
    }
    Ok(connection)
}

/// Opens the file to read what is committed, beside a writer or without one.
pub(super) fn reader(file: &Named) -> Result<Connection, StoreError> {
    file.is_plain("read")?;
    let sql = file.sql("read");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file.path(), flags).map_err(&sql)?;
    let connection = match prepare(&connection) {
        Ok(()) => connection,
        // Where no file can be made beside it, readers cannot agree with a writer; but there is none, for it would have
        // made its log.
        Err(error) if needs_a_writable_folder(&error) && !has_log(file.path()) => {
            let flags = flags | OpenFlags::SQLITE_OPEN_URI;
            let connection = Connection::open_with_flags(immutable(file.path()), flags).map_err(&sql)?;
            prepare(&connection).map_err(&sql)?;
            connection
        }
        Err(error) => return Err(sql(error)),
    };
    match migrate::identify(&connection, file)? {
        super::schema::VERSION => Ok(connection),
        0 => Err(file.corrupt("there is no store in it")),
        version => Err(StoreError::Other(format!(
            "{} has schema {version}: open it once to write, and it is brought to {}",
            file.text(),
            super::schema::VERSION
        ))),
    }
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    connection
        .execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

fn needs_a_writable_folder(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly))
}

fn has_log(path: &Path) -> bool {
    std::fs::metadata(super::beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// The path as a URI that promises SQLite that nobody writes.
fn immutable(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => uri.push(char::from(byte)),
            byte => drop(write!(uri, "%{byte:02x}")),
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_characters_is_one_uri() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b%20?x=y#ü&.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE here (x)").unwrap();
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(immutable(&path), flags).unwrap();
        connection.query_row("SELECT count(*) FROM here", [], |_| Ok(())).unwrap();
    }
}
