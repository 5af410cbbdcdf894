//! The tables, and what a file says about itself.
//!
//! | table | holds |
//! |---|---|
//! | `meta` | the unit, the policy, until when ended holds may be forgotten |
//! | `base`, `base_account`, `base_grant` | what the archived rows of the ledger came to, with a digest |
//! | `ledger` | every operation since, in a chain; only added to |
//! | `counted` | numbers for the policy's limits |
//! | `usage` | what was used, by limit, key and slot |
//! | `account` | books, by scope and key |
//! | `hold` | holds that are open, or are remembered |
//! | `grants` | delegated grants |
//!
//! `usage`, `account`, `hold` and `grants` follow from the base and the ledger: they are there to be read fast, and are compared
//! when the file is opened.

use super::row::PARTS;
use crate::spend::amount::DIMENSIONS;
use rusqlite::{Connection, Result};

/// "toll", in the file's header.
pub(super) const APPLICATION: i32 = 0x746f_6c6c;

/// The schema of this version.
pub(super) const VERSION: u32 = 3;

/// The columns of books: `cost_reserved`, ...
pub(super) fn book_columns() -> Vec<String> {
    DIMENSIONS
        .iter()
        .flat_map(|dimension| PARTS.iter().map(move |part| format!("{}_{part}", dimension.name())))
        .collect()
}

/// What each version changes in the one before it, from an empty file on.
pub(super) fn versions() -> [String; VERSION as usize] {
    [version_1(), VERSION_2.to_owned(), version_3()]
}

/// The tables of version 1.
fn version_1() -> String {
    let books = book_columns().iter().map(|name| format!("{name} INTEGER NOT NULL")).collect::<Vec<_>>();
    let books = books.join(", ");
    format!(
        "
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE base (one INTEGER PRIMARY KEY CHECK (one = 1), through INTEGER NOT NULL, chain BLOB NOT NULL,
    state TEXT NOT NULL, digest BLOB NOT NULL) STRICT;
CREATE TABLE base_account (scope TEXT NOT NULL, key TEXT NOT NULL, {books},
    PRIMARY KEY (scope, key)) STRICT, WITHOUT ROWID;
CREATE TABLE ledger (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, hold TEXT,
    chain BLOB NOT NULL) STRICT;
CREATE TRIGGER ledger_keeps BEFORE UPDATE ON ledger
    BEGIN SELECT RAISE(ABORT, 'rows of the ledger are never changed'); END;
CREATE TRIGGER ledger_stays BEFORE DELETE ON ledger WHEN old.seq > (SELECT through FROM base)
    BEGIN SELECT RAISE(ABORT, 'rows of the ledger stay until they are archived'); END;
CREATE TABLE counted (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE usage (counted INTEGER NOT NULL REFERENCES counted (n), key TEXT NOT NULL, slot INTEGER NOT NULL,
    used INTEGER NOT NULL CHECK (used >= 0), PRIMARY KEY (counted, key, slot)) STRICT, WITHOUT ROWID;
CREATE TABLE account (scope TEXT NOT NULL, key TEXT NOT NULL, {books},
    PRIMARY KEY (scope, key)) STRICT, WITHOUT ROWID;
CREATE TABLE hold (id TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL, phase TEXT NOT NULL, generation INTEGER NOT NULL,
    at INTEGER NOT NULL, deadline INTEGER NOT NULL, ended INTEGER, state TEXT NOT NULL, sum BLOB) STRICT;
CREATE INDEX hold_open ON hold (generation) WHERE ended IS NULL;
"
    )
}

/// What version 2 adds to version 1: delegated grants, and an index by which ended holds are forgotten.
const VERSION_2: &str = "
CREATE TABLE grants (id TEXT NOT NULL PRIMARY KEY, seq INTEGER NOT NULL, state TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE base_grant (id TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX hold_ended ON hold (ended) WHERE ended IS NOT NULL;
";

/// What version 3 changes: sums of any size. The tables are made anew, since a column's type stays what it is.
fn version_3() -> String {
    let books = book_columns().iter().map(|name| format!("{name} ANY NOT NULL")).collect::<Vec<_>>();
    let books = books.join(", ");
    let account = format!("scope TEXT NOT NULL, key TEXT NOT NULL, {books}, PRIMARY KEY (scope, key)");
    let usage = "counted INTEGER NOT NULL REFERENCES counted (n), key TEXT NOT NULL, slot INTEGER NOT NULL,
    used ANY NOT NULL, PRIMARY KEY (counted, key, slot)";
    let tables = [("account", account.as_str()), ("base_account", &account), ("usage", usage)];
    let widened = tables.map(|(table, columns)| {
        format!(
            "
CREATE TABLE wide ({columns}) STRICT, WITHOUT ROWID;
INSERT INTO wide SELECT * FROM {table};
DROP TABLE {table};
ALTER TABLE wide RENAME TO {table};
"
        )
    });
    widened.concat()
}

/// What a file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) application: i32,
    pub(super) version: u32,
    /// Tables, indices and triggers.
    pub(super) objects: i64,
}

impl Identity {
    pub(super) fn of(connection: &Connection) -> Result<Self> {
        Ok(Self {
            application: connection.query_row("PRAGMA application_id", [], |row| row.get(0))?,
            version: connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i32>(0))? as u32,
            objects: connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?,
        })
    }

    /// Nothing was ever kept in it.
    pub(super) fn is_new(&self) -> bool {
        *self == Self { application: 0, version: 0, objects: 0 }
    }
}

/// Name, kind and text of everything in a schema, in the order of names.
pub(super) fn objects(connection: &Connection) -> Result<Vec<(String, String, Option<String>)>> {
    let mut select = connection.prepare(
        "SELECT name, type, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name",
    )?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}

/// The same of an empty store of this version.
pub(super) fn expected_objects() -> Result<Vec<(String, String, Option<String>)>> {
    let empty = Connection::open_in_memory()?;
    empty.execute_batch(&versions().concat())?;
    objects(&empty)
}
