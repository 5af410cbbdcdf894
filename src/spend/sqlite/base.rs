//! What the archived part of the ledger came to.
//!
//! The rows themselves are in the archive's files. The base has what they add up to, the chain value with which they end, and a
//! digest over all of it, so that an altered base is found as an altered row is.

use super::queries;
use super::row::{GENESIS, Hash, add_text, books_at, columns, execute_with_books};
use super::schema::book_columns;
use super::wide;
use crate::spend::books::Books;
use crate::spend::record::Millis;
use rusqlite::{Connection, Result, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

/// The single row of `base`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Base {
    /// The last row that was archived; 0 for none.
    pub(super) through: i64,
    /// The chain's value after it.
    pub(super) chain: Hash,
    pub(super) state: Folded,
}

/// Of all archived rows.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Folded {
    /// From here on every move is in the ledger.
    pub(super) since: Millis,
    /// The latest time in a record.
    pub(super) latest: Millis,
    /// The next hold's generation, by these rows.
    pub(super) next_generation: u64,
    /// The body of the last of them that set a policy.
    pub(super) configured: Option<String>,
}

/// A base as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) base: Base,
    /// The digest that it has.
    pub(super) digest: Vec<u8>,
    /// The digest that it should have.
    pub(super) expected: Hash,
    pub(super) accounts: Vec<(String, String, Books)>,
    pub(super) grants: Vec<(String, String)>,
}

impl Base {
    /// In a store without grants, archived or not.
    pub(super) fn store_first(&self, connection: &Connection) -> Result<()> {
        self.put(connection, &digest(self, &self.text()?, &[], &[]))
    }

    /// With what `base_account` and `base_grant` have now.
    pub(super) fn store(&self, connection: &Connection) -> Result<()> {
        let (accounts, grants) = (accounts(connection)?, grants(connection)?);
        self.put(connection, &digest(self, &self.text()?, &accounts, &grants))
    }

    fn text(&self) -> Result<String> {
        serde_json::to_string(&self.state)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
    }

    fn put(&self, connection: &Connection, digest: &Hash) -> Result<()> {
        connection.execute(
            "INSERT OR REPLACE INTO base (one, through, chain, state, digest) VALUES (1, ?1, ?2, ?3, ?4)",
            params![self.through, self.chain, self.text()?, digest],
        )?;
        Ok(())
    }

    pub(super) fn load(connection: &Connection) -> Result<Found> {
        let select = "SELECT through, chain, state, digest FROM base WHERE one = 1";
        let read =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?, row.get(3)?));
        let (through, chain, text, digest) = connection.query_row(select, [], read)?;
        let state = queries::json(2, &text)?;
        let base = Self { through, chain, state };
        let (accounts, grants) = (accounts(connection)?, grants(connection)?);
        let expected = self::digest(&base, &text, &accounts, &grants);
        Ok(Found { base, digest, expected, accounts, grants })
    }

    /// From here on every move is in the ledger.
    pub(super) fn since(connection: &Connection) -> Result<Millis> {
        Self::folded(connection).map(|state| state.since)
    }

    /// The latest time in an archived record.
    pub(super) fn latest(connection: &Connection) -> Result<Millis> {
        Self::folded(connection).map(|state| state.latest)
    }

    fn folded(connection: &Connection) -> Result<Folded> {
        let state: String =
            connection.query_row("SELECT state FROM base WHERE one = 1", [], |row| row.get(0))?;
        queries::json(0, &state)
    }

    /// Puts an account's books in the place of those that are there.
    pub(super) fn store_account(
        connection: &Connection,
        scope: &str,
        key: &str,
        books: &Books,
    ) -> Result<()> {
        let names = book_columns().join(", ");
        let marks = vec!["?"; book_columns().len()].join(", ");
        let sql = format!("INSERT OR REPLACE INTO base_account (scope, key, {names}) VALUES (?, ?, {marks})");
        execute_with_books(connection, &sql, scope, key, books)
    }
}

fn accounts(connection: &Connection) -> Result<Vec<(String, String, Books)>> {
    let sql =
        format!("SELECT scope, key, {} FROM base_account ORDER BY scope, key", book_columns().join(", "));
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, books_at(row, 2)?)))?;
    rows.collect()
}

fn grants(connection: &Connection) -> Result<Vec<(String, String)>> {
    let mut select = connection.prepare_cached("SELECT id, state FROM base_grant ORDER BY id")?;
    let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

fn digest(
    base: &Base,
    state: &str,
    accounts: &[(String, String, Books)],
    grants: &[(String, String)],
) -> Hash {
    let mut sum = Sha256::new();
    sum.update(GENESIS);
    sum.update(base.through.to_le_bytes());
    sum.update(base.chain);
    add_text(&mut sum, state);
    sum.update((accounts.len() as u64).to_le_bytes());
    for (scope, key, books) in accounts {
        add_text(&mut sum, scope);
        add_text(&mut sum, key);
        columns(books).for_each(|part| sum.update(wide::bytes(part).collect::<SmallVec<[u8; 24]>>()));
    }
    for (id, state) in grants {
        add_text(&mut sum, id);
        add_text(&mut sum, state);
    }
    sum.finalize().into()
}
