//! Is a file whole? Everything that follows from the base and the ledger is added up again and compared.
//!
//! Memory grows with the number of accounts, slots and holds that the ledger names; the rows themselves are read one by one.

use super::base::{Base, Found};
use super::finding::{Check, Findings, Stop};
use super::limits::Limits;
use super::queries;
use super::row::{self, Hash, LedgerEntry, books_at, hex, parts};
use super::schema::{self, book_columns};
use super::tally::{Overflow, Tab, Tally, outstanding};
use crate::spend::amount::DIMENSIONS;
use crate::spend::policy::SpendPolicy;
use crate::spend::record::{HoldState, Millis, Phase, Record};
use ahash::{AHashMap, AHashSet};
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
    balance(&walk.tally, &open, found)?;
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
        found.compare(Check::Policy, "meta", "unit", policy.map_or_else(nothing, super::unit), unit)
    }

    fn usage(&mut self, connection: &Connection, kept: &Limits, found: &mut Findings) -> Result<(), Stop> {
        let mut numbers: BTreeMap<i64, usize> = BTreeMap::new();
        let mut missing: AHashSet<usize> = (0..kept.all.len()).collect();
        if self.policy.is_none() {
            missing.clear();
        }
        let mut select = connection.prepare("SELECT n, id FROM counted ORDER BY n")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (number, id): (i64, String) = (row.get(0)?, row.get(1)?);
            match kept.position(&id) {
                Some(index) if missing.remove(&index) => drop(numbers.insert(number, index)),
                _ => found.add(
                    Check::Usage,
                    "counted",
                    format!("row {number}"),
                    "a limit of the policy",
                    id,
                )?,
            }
        }
        for index in missing {
            found.add(Check::Usage, "counted", &kept.all[index].id, "a row", "none")?;
        }

        let mut seen: AHashSet<(usize, String, u32)> = AHashSet::new();
        let mut select = connection.prepare("SELECT counted, key, slot, used FROM usage")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (number, key, slot, used): (i64, String, i64, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
            self.counts.usage += 1;
            let index = numbers.get(&number).copied();
            let name = index.map_or_else(|| number.to_string(), |index| kept.all[index].id.clone());
            let name = format!("{name} {key:?} slot {slot}");
            let expected = index.zip(u32::try_from(slot).ok()).and_then(|(index, slot)| {
                let used = self.tally.get(&kept.all[index].scope, &key)?.used.get(&(index, slot)).copied();
                seen.insert((index, key, slot));
                used
            });
            found.compare(Check::Usage, "usage", name, expected.unwrap_or(0), used)?;
        }
        for (_, key, Tab { used, .. }) in self.tally.iter() {
            for (&(index, slot), &used) in
                used.iter().filter(|((index, _), used)| *index < kept.all.len() && **used != 0)
            {
                if !seen.contains(&(index, key.to_owned(), slot)) {
                    let name = format!("{} {key:?} slot {slot}", kept.all[index].id);
                    found.add(Check::Usage, "usage", name, used, "no row")?;
                }
            }
        }
        Ok(())
    }

    fn accounts(&mut self, connection: &Connection, found: &mut Findings) -> Result<(), Stop> {
        let sql = format!("SELECT scope, key, {} FROM account", book_columns().join(", "));
        let mut select = connection.prepare(&sql)?;
        let mut rows = select.query([])?;
        let mut seen: AHashSet<(String, String)> = AHashSet::new();
        while let Some(row) = rows.next()? {
            let (scope, key): (String, String) = (row.get(0)?, row.get(1)?);
            let stored = books_at(row, 2)?;
            self.counts.accounts += 1;
            match self.tally.get(&scope, &key) {
                None => {
                    found.add(Check::Account, "account", format!("{scope} {key:?}"), "no row", "books")?
                }
                Some(Tab { books, .. }) if *books != stored => {
                    for dimension in DIMENSIONS {
                        let (expected, found_parts) =
                            (parts(books.entry(dimension)), parts(stored.entry(dimension)));
                        for ((part, expected), stored) in row::PARTS.iter().zip(expected).zip(found_parts) {
                            let name = format!("{scope} {key:?} {dimension} {part}");
                            found.compare(Check::Account, "account", name, expected, stored)?;
                        }
                    }
                }
                Some(_) => {}
            }
            seen.insert((scope, key));
        }
        for (scope, key, _) in self.tally.iter() {
            if !seen.contains(&(scope.to_owned(), key.to_owned())) {
                found.add(Check::Account, "account", format!("{scope} {key:?}"), "books", "no row")?;
            }
        }
        Ok(())
    }

    /// Compares the holds that are there with those that should be; returns the open ones, oldest first.
    fn holds(
        &mut self,
        connection: &Connection,
        base: &Base,
        found: &mut Findings,
    ) -> Result<Vec<HoldState>, Stop> {
        let forgotten = forgotten(connection)?;
        let mut open: Vec<HoldState> = Vec::new();
        let mut select = connection.prepare(
            "SELECT h.id, h.seq, h.phase, h.generation, h.at, h.deadline, h.ended, h.state, h.sum, l.hold, l.at
             FROM hold h LEFT JOIN ledger l ON l.seq = h.seq",
        )?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, seq): (String, i64) = (row.get(0)?, row.get(1)?);
            let (state_text, said): (String, Option<String>) = (row.get(7)?, row.get(9)?);
            let name = format!("{id:?}");
            let state: HoldState = match serde_json::from_str(&state_text) {
                Ok(state) => state,
                Err(error) => {
                    found.add(Check::Hold, "hold", &name, "a hold's state", error)?;
                    continue;
                }
            };
            let is_open = state.phase == Phase::Open;
            let last = self.last.remove(&id);
            if let Some(last) = &last {
                found.compare(Check::Hold, "hold", format_args!("{name} seq"), last.seq, seq)?;
                if !last.kept {
                    found.add(Check::Hold, "hold", &name, "no row: it is over and has no name", "a row")?;
                }
            }
            if seq > base.through {
                let said = said.unwrap_or_else(|| "no row of the ledger".to_owned());
                found.compare(Check::Hold, "hold", format_args!("{name} state"), &said, &state_text)?;
            } else {
                let sum: Option<Vec<u8>> = row.get(8)?;
                let expected = hex(&row::state_sum(&state_text));
                found.compare(
                    Check::Hold,
                    "hold",
                    format_args!("{name} sum"),
                    expected,
                    hex(&sum.unwrap_or_default()),
                )?;
                if is_open {
                    found.add(Check::Hold, "hold", &name, "its row in the ledger, for it is open", "none")?;
                }
            }
            found.compare(Check::Hold, "hold", format_args!("{name} id"), &state.id, &id)?;
            let phase: String = row.get(2)?;
            found.compare(
                Check::Hold,
                "hold",
                format_args!("{name} phase"),
                row::phase_name(&state.phase),
                &phase,
            )?;
            for (column, expected, stored) in [
                ("generation", state.generation, row.get::<_, i64>(3)?),
                ("at", state.at, row.get(4)?),
                ("deadline", state.deadline, row.get(5)?),
            ] {
                found.compare(
                    Check::Hold,
                    "hold",
                    format_args!("{name} {column}"),
                    clamped(expected),
                    stored,
                )?;
            }
            let ended: Option<i64> = row.get(6)?;
            let expected = if is_open { None } else { row.get(10)? };
            // When an archived hold ended only its own row says.
            if (is_open || seq > base.through) && ended != expected {
                let [expected, ended] = [expected, ended].map(|time| format!("{time:?}"));
                found.add(Check::Hold, "hold", format_args!("{name} ended"), expected, ended)?;
            }
            if is_open {
                open.push(state);
            } else {
                self.counts.remembered += 1;
            }
        }
        for (id, last) in self.last.drain() {
            if last.open || (last.kept && last.at >= forgotten) {
                let expected = format!("the hold of row {} of the ledger", last.seq);
                found.add(Check::Hold, "hold", format_args!("{id:?}"), expected, "no row")?;
            }
        }
        open.sort_by_key(|hold| hold.generation);
        for pair in open.windows(2) {
            if pair[0].generation == pair[1].generation {
                let name = format!("{:?} and {:?}", pair[0].id, pair[1].id);
                found.add(Check::Generation, "hold", name, "two generations", pair[0].generation)?;
            }
        }
        self.counts.open = open.len() as u64;
        Ok(open)
    }

    fn grants(&mut self, connection: &Connection, found: &mut Findings) -> Result<(), Stop> {
        let mut select = connection.prepare("SELECT id, seq, state FROM grants")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, seq, state): (String, i64, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.counts.grants += 1;
            let (expected_seq, expected) = self.grants.remove(&id).unwrap_or((0, "no row".to_owned()));
            found.compare(Check::Grant, "grants", format_args!("{id:?}"), expected, state)?;
            // Of an archived one only that it is archived is known.
            let seq_known = expected_seq > 0;
            if seq_known {
                found.compare(Check::Grant, "grants", format_args!("{id:?} seq"), expected_seq, seq)?;
            }
        }
        for (id, (_, expected)) in std::mem::take(&mut self.grants) {
            found.add(Check::Grant, "grants", format_args!("{id:?}"), expected, "no row")?;
        }
        Ok(())
    }
}

/// Ended holds may be missing if they ended before this.
pub(super) fn forgotten(connection: &Connection) -> rusqlite::Result<Millis> {
    Ok(queries::meta(connection, "forgotten")?.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// What is out by the books is what open holds have out.
fn balance(tally: &Tally<'_>, open: &[HoldState], found: &mut Findings) -> Result<(), Stop> {
    let mut out: AHashMap<(&str, &str), [i128; 5]> = AHashMap::new();
    for hold in open {
        let mut path = AHashSet::new();
        for account in hold.path.iter() {
            if !path.insert(account) {
                let twice = format!("{} {:?} twice", account.scope, account.key);
                found.add(
                    Check::Path,
                    "hold",
                    format_args!("{:?} path", hold.id),
                    "each account once",
                    twice,
                )?;
            }
            let sums = out.entry((&account.scope, &account.key)).or_default();
            for part in &hold.parts {
                part.left.iter().zip(sums.iter_mut()).for_each(|((_, left), sum)| *sum += i128::from(left));
            }
        }
    }
    let mut compare = |scope: &str, key: &str, booked: [i128; 5], held: [i128; 5]| {
        for ((dimension, booked), held) in DIMENSIONS.iter().zip(booked).zip(held) {
            let name = format!("{scope} {key:?} {dimension} outstanding");
            found.compare(
                Check::Balance,
                "account",
                name,
                format!("{held} (in open holds)"),
                format!("{booked} (in open holds)"),
            )?;
        }
        Ok::<_, Stop>(())
    };
    for (scope, key, tab) in tally.iter() {
        let booked = DIMENSIONS.map(|dimension| outstanding(tab.books.entry(dimension)));
        compare(scope, key, booked, out.remove(&(scope, key)).unwrap_or_default())?;
    }
    for ((scope, key), held) in out {
        compare(scope, key, [0; 5], held)?;
    }
    Ok(())
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
