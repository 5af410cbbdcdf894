//! What both kinds of readers ask.

use super::row::{LedgerRow, Row, books_at};
use super::schema::book_columns;
use super::wide;
use crate::spend::policy::{Grant, SpendPolicy};
use crate::spend::record::{FAMILY, HoldState, Millis};
use crate::spend::store::AccountBooks;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, OptionalExtension, Result, params};
use serde::de::DeserializeOwned;

/// JSON of a column.
pub(super) fn json<T: DeserializeOwned>(column: usize, text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|error| Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

pub(super) fn meta(connection: &Connection, key: &str) -> Result<Option<String>> {
    let mut select = connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?;
    select.query_row([key], |row| row.get(0)).optional()
}

pub(super) fn set_meta(connection: &Connection, key: &str, value: &str) -> Result<()> {
    let sql =
        "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value";
    connection.prepare_cached(sql)?.execute([key, value])?;
    Ok(())
}

pub(super) fn policy(connection: &Connection) -> Result<Option<SpendPolicy>> {
    meta(connection, "policy")?.map(|text| json(0, &text)).transpose()
}

pub(super) fn hold(connection: &Connection, id: &str) -> Result<Option<HoldState>> {
    let mut select = connection.prepare_cached("SELECT state FROM hold WHERE id = ?1")?;
    let state: Option<String> = select.query_row([id], |row| row.get(0)).optional()?;
    state.map(|state| json(0, &state)).transpose()
}

/// Oldest first.
pub(super) fn open_holds(connection: &Connection) -> Result<Vec<HoldState>> {
    let sql = "SELECT state FROM hold WHERE ended IS NULL ORDER BY generation, id";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query([])?;
    let mut holds: Vec<HoldState> = Vec::new();
    while let Some(row) = rows.next()? {
        holds.push(json(0, row.get_ref(0)?.as_str()?)?);
    }
    // The column cannot hold every number that the state can.
    holds.sort_by_key(|hold| hold.generation);
    Ok(holds)
}

pub(super) fn grant(connection: &Connection, id: &str) -> Result<Option<Grant>> {
    let mut select = connection.prepare_cached("SELECT state FROM grants WHERE id = ?1")?;
    let state: Option<String> = select.query_row([id], |row| row.get(0)).optional()?;
    state.map(|state| json(0, &state)).transpose()
}

/// In the order of the policy's scopes, families after them and what is no scope any more last.
pub(super) fn books(connection: &Connection, policy: Option<&SpendPolicy>) -> Result<Vec<AccountBooks>> {
    let sql = format!("SELECT scope, key, {} FROM account ORDER BY scope, key", book_columns().join(", "));
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map([], |row| {
        Ok(AccountBooks { scope: row.get(0)?, key: row.get(1)?, books: books_at(row, 2)? })
    })?;
    let mut books = rows.collect::<Result<Vec<_>>>()?;
    let scopes = policy.map_or(&[][..], |policy| &policy.scopes);
    let place = |scope: &str| match scopes.iter().position(|known| known.name == scope) {
        Some(place) => place,
        None if scope == FAMILY => scopes.len(),
        None => scopes.len() + 1,
    };
    books.sort_by_cached_key(|books| place(&books.scope));
    Ok(books)
}

/// What was used of one limit, from `first` on.
pub(super) fn usage(connection: &Connection, counted: i64, key: &str, first: u32) -> Result<Vec<(u32, u64)>> {
    let sql = "SELECT slot, used FROM usage WHERE counted = ?1 AND key = ?2 AND slot >= ?3 AND used > 0";
    let mut select = connection.prepare_cached(sql)?;
    let rows =
        select.query_map(params![counted, key, first], |row| Ok((row.get(0)?, wide::used(row, 1)?)))?;
    rows.collect()
}

/// A number that is never below 0.
pub(super) fn unsigned(row: &rusqlite::Row<'_>, column: usize) -> Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| Error::IntegralValueOutOfRange(column, number))
}

/// The ledger's rows after `seq`, at most so many.
pub(super) fn ledger_after(connection: &Connection, seq: i64, most: u32) -> Result<Vec<LedgerRow>> {
    let sql = "SELECT seq, at, kind, body, hold, chain FROM ledger WHERE seq > ?1 ORDER BY seq LIMIT ?2";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query(params![seq, most])?;
    let mut read = Vec::new();
    while let Some(found) = rows.next()? {
        let row = row(found)?;
        let entry =
            row.read().map_err(|error| Error::FromSqlConversionFailure(3, Type::Text, error.into()))?;
        let (seq, at): (u64, Millis) = (unsigned(found, 0)?, unsigned(found, 1)?);
        read.push(LedgerRow { seq, at, entry, chain: found.get(5)? });
    }
    Ok(read)
}

/// The first five columns of a ledger's row.
pub(super) fn row<'a>(row: &'a rusqlite::Row<'_>) -> Result<Row<'a>> {
    Ok(Row {
        seq: row.get(0)?,
        at: row.get(1)?,
        kind: row.get_ref(2)?.as_str()?,
        body: row.get_ref(3)?.as_str()?,
        hold: row.get_ref(4)?.as_str_or_null()?,
    })
}
