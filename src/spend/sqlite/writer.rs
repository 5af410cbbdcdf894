//! The writing side: batches of records, each in one transaction.

use super::crash;
use super::fault::Named;
use super::limits::Limits;
use super::row::{self, DELEGATED, Hash, Row, books_at, execute_with_books, phase_name};
use super::schema::book_columns;
use super::tally::{Overflow, Tab, Tally};
use super::verify::{clamped, forgotten, is_kept};
use super::wide::Sum;
use super::{base::Base, queries};
use crate::spend::policy::{Grant, SpendPolicy};
use crate::spend::record::{HoldState, Millis, Phase, Record};
use crate::spend::store::StoreError;
use ahash::AHashMap;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::sync::{Arc, LazyLock};

/// What is counted while a store is open.
#[derive(Debug)]
pub(super) struct InUse {
    pub(super) policy: SpendPolicy,
    pub(super) limits: Limits,
    /// The row in `counted` of each limit.
    pub(super) numbers: Vec<i64>,
}

/// The connection that writes, and what it knows.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) file: Named,
    /// `None` until the store is opened under a policy.
    pub(super) state: Option<State>,
    /// Does an engine use it?
    pub(super) is_open: bool,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) in_use: Arc<InUse>,
    /// From here on every move is in the ledger.
    pub(super) since: Millis,
    /// The latest time in any record.
    pub(super) latest: Millis,
    /// The ledger's last row and its chain value; `None` where a failure left it in doubt.
    pub(super) tip: Option<Tip>,
    /// How many grants were delegated.
    pub(super) grants: u64,
}

pub(super) type Tip = (i64, Hash);

impl Writer {
    pub(super) fn write(&mut self, records: &[Record]) -> Result<(), StoreError> {
        let Self { connection, file, state, .. } = self;
        let state = state.as_mut().ok_or_else(not_open)?;
        let (Some(first), in_use) = (records.first(), &state.in_use) else { return Ok(()) };
        let mut sums = Tally::new(&in_use.limits, state.since);
        let mut latest = first.at;
        for record in records {
            sums.add(&record.path, &record.moves).map_err(too_much)?;
            latest = latest.max(record.at);
        }
        crash::point("before begin");
        // Until it is known to be committed, the tip is in doubt.
        let tip = state.tip.take();
        let sql = file.sql("write to");
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
        crash::point("begun");
        let tip = tip.map_or_else(|| load_tip(&transaction), Ok).map_err(&sql)?;
        let (tip, states) = append(&transaction, file, tip, records)?;
        for (last, seq, state) in states.into_values() {
            put_hold(&transaction, &last.hold, last.at, seq, &state).map_err(&sql)?;
            crash::point("hold");
        }
        for (scope, key, tab) in sums.iter() {
            put_account(&transaction, file, scope, key, tab)?;
            crash::point("account");
            put_usage(&transaction, file, in_use, key, tab)?;
        }
        let forget = latest.saturating_sub(in_use.policy.answers_for);
        forget_until(&transaction, forget, records.len()).map_err(&sql)?;
        crash::point("before commit");
        transaction.commit().map_err(&sql)?;
        crash::point("committed");
        state.tip = Some(tip);
        state.latest = state.latest.max(latest);
        Ok(())
    }

    /// A grant that is known stays as it is.
    pub(super) fn delegate(&mut self, grant: &Grant) -> Result<(), StoreError> {
        let Self { connection, file, state, .. } = self;
        let state = state.as_mut().ok_or_else(not_open)?;
        let sql = file.sql("write to");
        let body = serde_json::to_string(grant).map_err(|error| file.io("write to", error))?;
        let tip = state.tip.take();
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
        let tip = tip.map_or_else(|| load_tip(&transaction), Ok).map_err(&sql)?;
        if queries::grant(&transaction, &grant.id).map_err(&sql)?.is_some() {
            state.tip = Some(tip);
            return Ok(());
        }
        let cap = state.in_use.policy.grant_cap;
        if state.grants >= cap as u64 {
            state.tip = Some(tip);
            return Err(StoreError::Full { what: "delegated grant", cap });
        }
        let at = clamped(state.latest);
        let (seq, body) = (next(file, tip.0)?, body.as_str());
        let tip =
            insert(&transaction, tip, &Row { seq, at, kind: DELEGATED, body, hold: None }).map_err(&sql)?;
        crash::point("delegated");
        let put = "INSERT INTO grants (id, seq, state) VALUES (?1, ?2, ?3)";
        transaction
            .prepare_cached(put)
            .and_then(|mut put| put.execute(params![grant.id, seq, body]))
            .map_err(&sql)?;
        crash::point("before commit");
        transaction.commit().map_err(&sql)?;
        crash::point("committed");
        state.tip = Some(tip);
        state.grants += 1;
        Ok(())
    }
}

pub(super) fn not_open() -> StoreError {
    StoreError::Other("the store is not open: open it under a policy first".to_owned())
}

fn too_much(overflow: Overflow) -> StoreError {
    let Overflow { scope, key, dimension } = overflow;
    StoreError::Other(format!(
        "{dimension} of {scope} {key:?} adds up to more than can be counted; nothing was changed"
    ))
}

/// The number after `seq`.
pub(super) fn next(file: &Named, seq: i64) -> Result<i64, StoreError> {
    seq.checked_add(1).ok_or_else(|| file.io("write to", "the ledger's rows are all numbered"))
}

pub(super) fn load_tip(connection: &Connection) -> rusqlite::Result<Tip> {
    let last = "SELECT seq, chain FROM ledger ORDER BY seq DESC LIMIT 1";
    let last = connection.query_row(last, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    match last {
        Some(tip) => Ok(tip),
        None => Base::load(connection).map(|found| (found.base.through, found.base.chain)),
    }
}

/// Adds one row to the ledger.
pub(super) fn insert(connection: &Connection, tip: Tip, row: &Row<'_>) -> rusqlite::Result<Tip> {
    let chain = row.chained(&tip.1);
    let sql = "INSERT INTO ledger (seq, at, kind, body, hold, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut insert = connection.prepare_cached(sql)?;
    insert.execute(params![row.seq, row.at, row.kind, row.body, row.hold, chain])?;
    Ok((row.seq, chain))
}

/// By hold: its last record in a batch, that one's row, and the state's text.
type Lasts<'r> = AHashMap<&'r str, (&'r Record, i64, String)>;

fn append<'r>(
    transaction: &Transaction<'_>,
    file: &Named,
    mut tip: Tip,
    records: &'r [Record],
) -> Result<(Tip, Lasts<'r>), StoreError> {
    let mut lasts = Lasts::with_capacity(records.len());
    for record in records {
        let at = i64::try_from(record.at);
        let at =
            at.map_err(|_| StoreError::Other(format!("{} ms is no time that can be kept", record.at)))?;
        let (kind, body, hold) = row::written(record).map_err(|error| file.io("write to", error))?;
        let seq = next(file, tip.0)?;
        let row = Row { seq, at, kind: &kind, body: &body, hold: Some(&hold) };
        tip = insert(transaction, tip, &row).map_err(file.sql("write to"))?;
        crash::point("row");
        lasts.insert(&record.hold.id, (record, seq, hold));
    }
    Ok((tip, lasts))
}

fn put_hold(
    transaction: &Transaction<'_>,
    hold: &HoldState,
    at: Millis,
    seq: i64,
    state: &str,
) -> rusqlite::Result<()> {
    if !is_kept(hold) {
        transaction.prepare_cached("DELETE FROM hold WHERE id = ?1")?.execute([&hold.id])?;
        return Ok(());
    }
    let ended = (hold.phase != Phase::Open).then(|| clamped(at));
    let [generation, at, deadline] = [hold.generation, hold.at, hold.deadline].map(clamped);
    let phase = phase_name(&hold.phase);
    let sql = "INSERT INTO hold (id, seq, phase, generation, at, deadline, ended, state, sum)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL)
        ON CONFLICT (id) DO UPDATE SET seq = ?2, phase = ?3, generation = ?4, at = ?5, deadline = ?6, ended = ?7,
            state = ?8, sum = NULL";
    let mut put = transaction.prepare_cached(sql)?;
    put.execute(params![hold.id, seq, phase, generation, at, deadline, ended, state])?;
    Ok(())
}

fn put_account(
    transaction: &Transaction<'_>,
    file: &Named,
    scope: &str,
    key: &str,
    tab: &Tab,
) -> Result<(), StoreError> {
    static GET: LazyLock<String> = LazyLock::new(|| {
        format!("SELECT {} FROM account WHERE scope = ?1 AND key = ?2", book_columns().join(", "))
    });
    static PUT: LazyLock<String> = LazyLock::new(|| {
        let marks = (3..).zip(book_columns()).map(|(mark, _)| format!("?{mark}"));
        let (names, marks) = (book_columns().join(", "), marks.collect::<Vec<_>>().join(", "));
        format!("INSERT OR REPLACE INTO account (scope, key, {names}) VALUES (?1, ?2, {marks})")
    });
    let sql = file.sql("write to");
    let mut get = transaction.prepare_cached(&GET).map_err(&sql)?;
    let kept = get.query_row([scope, key], |row| books_at(row, 0)).optional().map_err(&sql)?;
    let mut books = kept.unwrap_or_default();
    books.add_books(&tab.books).map_err(|dimension| {
        too_much(Overflow { scope: scope.to_owned(), key: key.to_owned(), dimension })
    })?;
    execute_with_books(transaction, &PUT, scope, key, &books).map_err(sql)
}

fn put_usage(
    transaction: &Transaction<'_>,
    file: &Named,
    in_use: &InUse,
    key: &str,
    tab: &Tab,
) -> Result<(), StoreError> {
    let get = "SELECT used FROM usage WHERE counted = ?1 AND key = ?2 AND slot = ?3";
    let put = "INSERT OR REPLACE INTO usage (counted, key, slot, used) VALUES (?1, ?2, ?3, ?4)";
    for (&(index, slot), &used) in tab.used.iter().filter(|(_, used)| **used != 0) {
        let Some(number) = in_use.numbers.get(index) else { continue };
        let sql = file.sql("write to");
        let mut get = transaction.prepare_cached(get).map_err(&sql)?;
        let kept = get.query_row(params![number, key, slot], |row| row.get(0)).optional().map_err(&sql)?;
        let Sum(kept) = kept.unwrap_or(Sum(0));
        let limit = &in_use.limits.all[index];
        let sum = kept.checked_add(used).ok_or_else(|| {
            let (scope, key) = (limit.scope.clone(), key.to_owned());
            too_much(Overflow { scope, key, dimension: limit.dimension })
        })?;
        if sum < 0 {
            return Err(StoreError::Other(format!(
                "{} of {key:?} would give back {} more than was used in slot {slot}; nothing was changed",
                limit.id,
                sum.unsigned_abs()
            )));
        }
        let put = transaction.prepare_cached(put);
        put.and_then(|mut put| put.execute(params![number, key, slot, Sum(sum)])).map_err(sql)?;
        crash::point("usage");
    }
    Ok(())
}

/// Forgets some of the holds that ended by an instant: at least as fast as they come in.
fn forget_until(transaction: &Transaction<'_>, until: Millis, records: usize) -> rusqlite::Result<()> {
    if until == 0 {
        return Ok(());
    }
    let sql = "DELETE FROM hold WHERE rowid IN
        (SELECT rowid FROM hold WHERE ended IS NOT NULL AND ended <= ?1 ORDER BY ended LIMIT ?2)";
    let most = clamped(records as u64).saturating_mul(2).saturating_add(16);
    let gone = transaction.prepare_cached(sql)?.execute(params![clamped(until), most])?;
    if gone > 0 && forgotten(transaction)? <= until {
        queries::set_meta(transaction, "forgotten", &until.saturating_add(1).to_string())?;
    }
    Ok(())
}
