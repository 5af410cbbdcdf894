//! Is a file whole? Everything that follows from the base and the ledger is added up again and compared.
//!
//! Memory grows with the number of accounts, slots and holds that the ledger names; the rows themselves are read one by one.

mod holds;
mod sums;

use super::base::{Base, Found};
use super::finding::{Check, Findings, Stop};
use super::limits::Limits;
use super::queries;
use super::row::{self, Hash, LedgerEntry, hex};
use super::schema;
use super::tally::{Overflow, Tally};
use crate::spend::policy::SpendPolicy;
use crate::spend::record::{HoldState, Millis, Phase, Record};
use ahash::AHashMap;
use rusqlite::Connection;
use std::collections::BTreeMap;

/// What a file came to.
#[derive(Debug)]
pub(super) struct Verified<'l> {
    pub(super) tally: Tally<'l>,
    pub(super) open: Vec<HoldState>,
    pub(super) next_generation: u64,
    pub(super) latest: Millis,
    pub(super) base: Base,
    /// The ledger's last row, and the chain after it.
    pub(super) tip: (i64, Hash),
    pub(super) counts: Counts,
}

/// How much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Rows of the ledger that are in the file.
    pub rows: u64,
    /// Rows that were archived.
    pub archived: u64,
    /// Rows with a note: repairs by hand.
    pub notes: u64,
    /// Accounts with books.
    pub accounts: u64,
    /// Rows of use.
    pub usage: u64,
    /// Open holds.
    pub open: u64,
    /// Holds that are over and remembered.
    pub remembered: u64,
    /// Delegated grants.
    pub grants: u64,
}

/// The last that the ledger says of a hold.
struct Last {
    seq: i64,
    at: Millis,
    open: bool,
    kept: bool,
}

/// Is the hold remembered after a record that leaves it so? One that expired may still be settled, once.
pub(super) fn is_kept(hold: &HoldState) -> bool {
    hold.named || matches!(hold.phase, Phase::Open | Phase::Expired)
}

/// A number as a column of SQLite can have it: the exact one is in the text beside it.
pub(super) fn clamped(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The pages and the tables: before anything is read from them.
pub(super) fn pages(connection: &Connection, found: &mut Findings) -> Result<(), Stop> {
    for (pragma, what) in
        [("PRAGMA integrity_check(100)", "whole pages"), ("PRAGMA foreign_key_check", "no dangling row")]
    {
        let mut check = connection.prepare(pragma)?;
        let mut rows = check.query([])?;
        while let Some(row) = rows.next()? {
            let said: String = row.get(0)?;
            if said != "ok" {
                found.add(Check::Pages, "(file)", pragma, what, said)?;
            }
        }
    }
    let (expected, stored) = (schema::expected_objects()?, schema::objects(connection)?);
    let text = |sql: &Option<String>| sql.clone().unwrap_or_else(|| "(made by SQLite)".to_owned());
    for (name, kind, sql) in &expected {
        match stored.iter().find(|other| (&other.0, &other.1) == (name, kind)) {
            Some(other) => found.compare(Check::Schema, "sqlite_schema", name, text(sql), text(&other.2))?,
            None => found.add(Check::Schema, "sqlite_schema", name, text(sql), "nothing")?,
        }
    }
    for (name, kind, sql) in &stored {
        if !expected.iter().any(|other| (&other.0, &other.1) == (name, kind)) {
            found.add(Check::Schema, "sqlite_schema", name, "nothing", text(sql))?;
        }
    }
    Ok(())
}

/// Everything else. `kept` are the limits of the stored policy; `all` begins with them, and may have more to be added up.
pub(super) fn content<'l>(
    connection: &Connection,
    policy: Option<&SpendPolicy>,
    kept: &Limits,
    all: &'l Limits,
    found: &mut Findings,
) -> Result<Verified<'l>, Stop> {
    let Found { base, digest, expected, accounts, grants } = Base::load(connection)?;
    found.compare(Check::Base, "base", "digest", hex(&expected), hex(&digest))?;

    let mut walk = Walk {
        tally: Tally::new(all, base.state.since),
        last: AHashMap::new(),
        grants: grants.into_iter().map(|(id, state)| (id, (0, state))).collect(),
        policy: base.state.configured.clone(),
        next_generation: base.state.next_generation,
        latest: base.state.latest,
        counts: Counts { archived: base.through as u64, ..Counts::default() },
    };
    for (scope, key, books) in &accounts {
        if let Err(overflow) = walk.tally.seed(scope, key, books) {
            found.overflow("base_account", format_args!("{scope} {key:?}"), &overflow)?;
        }
    }
    let tip = walk.ledger(connection, &base, found)?;
    walk.settings(connection, policy, found)?;
    walk.usage(connection, kept, found)?;
    walk.accounts(connection, found)?;
    let open = walk.holds(connection, &base, found)?;
    walk.grants(connection, found)?;
    sums::balance(&walk.tally, &open, found)?;
    let Walk { tally, next_generation, latest, counts, .. } = walk;
    Ok(Verified { tally, open, next_generation, latest, base, tip, counts })
}

/// What the ledger said, while it is compared.
struct Walk<'l> {
    tally: Tally<'l>,
    last: AHashMap<String, Last>,
    /// By id: the row, and the grant.
    grants: BTreeMap<String, (i64, String)>,
    /// The body of the last row that set a policy.
    policy: Option<String>,
    next_generation: u64,
    latest: Millis,
    counts: Counts,
}

impl Walk<'_> {
    fn ledger(
        &mut self,
        connection: &Connection,
        base: &Base,
        found: &mut Findings,
    ) -> Result<(i64, Hash), Stop> {
        let (mut seq, mut chain) = (base.through, base.chain);
        let mut select =
            connection.prepare("SELECT seq, at, kind, body, hold, chain FROM ledger ORDER BY seq")?;
        let mut rows = select.query([])?;
        while let Some(found_row) = rows.next()? {
            let row = queries::row(found_row)?;
            let stored: Vec<u8> = found_row.get(5)?;
            let name = format!("row {}", row.seq);
            found.compare(Check::Chain, "ledger", &name, seq.saturating_add(1), row.seq)?;
            let expected = row.chained(&chain);
            found.compare(Check::Chain, "ledger", &name, hex(&expected), hex(&stored))?;
            // What was stored is what the next row was chained to: one altered row is one finding.
            (seq, chain) = (row.seq, stored.try_into().unwrap_or(expected));
            self.counts.rows += 1;
            match row.read() {
                Err(error) => found.add(Check::Chain, "ledger", &name, "a record", error)?,
                Ok(LedgerEntry::Record(record)) => self.record(row.seq, *record, found)?,
                Ok(LedgerEntry::Configured(_)) => self.policy = Some(row.body.to_owned()),
                Ok(LedgerEntry::Delegated(grant)) => {
                    let grant = (row.seq, row.body.to_owned(), grant.id);
                    self.grants.entry(grant.2).or_insert((grant.0, grant.1));
                }
            }
        }
        Ok((seq, chain))
    }

    fn record(&mut self, seq: i64, record: Record, found: &mut Findings) -> Result<(), Stop> {
        if let Err(overflow) = self.tally.add(&record.path, &record.moves) {
            found.overflow("ledger", format_args!("row {seq}"), &overflow)?;
        }
        self.latest = self.latest.max(record.at);
        self.counts.notes += u64::from(!record.note.is_empty());
        let hold = record.hold;
        self.next_generation = self.next_generation.max(hold.generation.saturating_add(1));
        let open = hold.phase == Phase::Open;
        let last = Last { seq, at: record.at, open, kept: is_kept(&hold) };
        self.last.insert(hold.id, last);
        Ok(())
    }

    fn settings(
        &self,
        connection: &Connection,
        policy: Option<&SpendPolicy>,
        found: &mut Findings,
    ) -> Result<(), Stop> {
        let nothing = || "nothing".to_owned();
        let stored = queries::meta(connection, "policy")?.as_deref().map(row::configured);
        let (expected, stored) =
            (self.policy.clone().unwrap_or_else(nothing), stored.unwrap_or_else(nothing));
        found.compare(Check::Policy, "meta", "policy", expected, stored)?;
        let unit = queries::meta(connection, "unit")?.unwrap_or_else(nothing);
        found.compare(
            Check::Policy,
            "meta",
            "unit",
            policy.map_or_else(nothing, |policy| policy.unit.to_string()),
            unit,
        )
    }
}

/// Ended holds may be missing if they ended before this.
pub(super) fn forgotten(connection: &Connection) -> rusqlite::Result<Millis> {
    Ok(queries::meta(connection, "forgotten")?.and_then(|text| text.parse().ok()).unwrap_or(0))
}

impl Findings {
    fn overflow(
        &mut self,
        table: &'static str,
        row: impl std::fmt::Display,
        overflow: &Overflow,
    ) -> Result<(), Stop> {
        let Overflow { scope, key, dimension } = overflow;
        let found = format!("more, in {scope} {key:?} {dimension}");
        self.add(Check::Account, table, row, "sums that can be counted", found)
    }
}
