//! Retention: old rows of the ledger go to a file of lines, and what they came to stays.
//!
//! ```text
//! lines to the file -> sync -> one transaction: base += rows, ledger -= rows
//! ```
//! Killed before the transaction is committed, the rows are in both, and the next archive writes them to the file once more:
//! whoever reads the file knows a row by its `seq` and its `chain`.

use super::base::Base;
use super::crash;
use super::fault::Named;
use super::limits::Limits;
use super::queries;
use super::row::{self, LedgerEntry, Row, hex};
use super::tally::Tally;
use super::writer::{State, Writer, not_open};
use crate::spend::record::Millis;
use crate::spend::store::StoreError;
use crate::spend::window::Window;
use ahash::AHashSet;
use rusqlite::{Connection, TransactionBehavior, params};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// What an archive moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Archived {
    /// How many rows of the ledger.
    pub rows: u64,
    /// The last row that was ever archived; 0 for none.
    pub through: u64,
}

impl Writer {
    /// Moves the first rows up to one that must stay: one of `before` or later, one that a window still adds up, or one
    /// of a hold that may still change.
    pub(super) fn archive(&mut self, before: Millis, to: &Path) -> Result<Archived, StoreError> {
        let Self { connection, file, state, .. } = self;
        let state = state.as_mut().ok_or_else(not_open)?;
        let target = Named::new(to.to_owned());
        let sql = file.sql("archive");
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&sql)?;
        let found = Base::load(&transaction).map_err(&sql)?;
        let mut base = found.base;
        let live = live(&transaction).map_err(&sql)?;

        let none = Limits::default();
        let mut sums = Tally::new(&none, 0);
        let too_much = |_| file.io("archive", "the books add up to more than can be counted");
        for (scope, key, books) in &found.accounts {
            sums.seed(scope, key, books).map_err(too_much)?;
        }
        let mut grants: Vec<(String, String)> = Vec::new();
        let mut lines: Option<Lines> = None;
        let mut rows_moved = 0;
        {
            let select = "SELECT seq, at, kind, body, hold, chain FROM ledger ORDER BY seq";
            let mut select = transaction.prepare(select).map_err(&sql)?;
            let mut rows = select.query([]).map_err(&sql)?;
            while let Some(found) = rows.next().map_err(&sql)? {
                let row = queries::row(found).map_err(&sql)?;
                let chain: row::Hash = found.get(5).map_err(&sql)?;
                let entry =
                    row.read().map_err(|error| file.corrupt(format_args!("row {}: {error}", row.seq)))?;
                let at = u64::try_from(row.at).unwrap_or(0);
                let latest = match &entry {
                    LedgerEntry::Record(record) => {
                        record.moves.iter().map(|moved| moved.at).fold(at, Millis::max)
                    }
                    _ => at,
                };
                let is_live = matches!(&entry, LedgerEntry::Record(record) if live.contains(&record.hold.id));
                if latest >= before || is_live || state.is_in_reach(latest) {
                    break;
                }
                match entry {
                    LedgerEntry::Record(record) => {
                        sums.add(&record.path, &record.moves).map_err(too_much)?;
                        let generation = record.hold.generation.saturating_add(1);
                        base.state.next_generation = base.state.next_generation.max(generation);
                        base.state.latest = base.state.latest.max(record.at);
                    }
                    LedgerEntry::Configured(_) => base.state.configured = Some(row.body.to_owned()),
                    LedgerEntry::Delegated(grant) => grants.push((grant.id, row.body.to_owned())),
                }
                base.state.since = base.state.since.max(latest.saturating_add(1));
                (base.through, base.chain) = (row.seq, chain);
                rows_moved += 1;
                let lines = match &mut lines {
                    Some(lines) => lines,
                    None => lines.insert(Lines::open(&target, file)?),
                };
                lines.write(&row, &chain).map_err(|error| target.io("append to", error))?;
            }
        }
        let through = base.through as u64;
        let Some(lines) = lines else { return Ok(Archived { rows: 0, through }) };
        crash::point("lines written");
        lines.sync().map_err(|error| target.io("append to", error))?;
        crash::point("lines synced");

        fold(&transaction, &base, &sums, &grants).map_err(&sql)?;
        for (counted, number) in state.in_use.limits.all.iter().zip(&state.in_use.numbers) {
            let first = counted.first_slot(base.state.since);
            let drop = "DELETE FROM usage WHERE counted = ?1 AND slot < ?2";
            transaction.execute(drop, params![number, first]).map_err(&sql)?;
        }
        crash::point("before commit");
        transaction.commit().map_err(&sql)?;
        crash::point("archived");
        state.since = base.state.since;
        if state.tip.is_some_and(|(seq, _)| seq < base.through) {
            state.tip = None;
        }
        Ok(Archived { rows: rows_moved, through })
    }
}

impl State {
    /// Does a window that is not a lifetime still add up what was used at `at`?
    fn is_in_reach(&self, at: Millis) -> bool {
        let mut windows = self.in_use.limits.all.iter().filter(|counted| counted.window != Window::Lifetime);
        windows.any(|counted| counted.window.slot(at) >= counted.reaches(self.latest))
    }
}

/// Holds that may still change: a late settlement gives back what an expired one counts.
fn live(connection: &Connection) -> rusqlite::Result<AHashSet<String>> {
    let mut select = connection.prepare("SELECT id FROM hold WHERE phase IN ('open', 'expired')")?;
    select.query_map([], |row| row.get(0))?.collect()
}

fn fold(
    connection: &Connection,
    base: &Base,
    sums: &Tally<'_>,
    grants: &[(String, String)],
) -> rusqlite::Result<()> {
    for (scope, key, tab) in sums.iter() {
        Base::store_account(connection, scope, key, &tab.books)?;
        crash::point("base account");
    }
    for (id, state) in grants {
        connection.execute("INSERT OR IGNORE INTO base_grant (id, state) VALUES (?1, ?2)", [id, state])?;
    }
    base.store(connection)?;
    crash::point("base");
    // The rows that say how these ended go.
    let mut ended = connection.prepare("SELECT id, state FROM hold WHERE seq <= ?1 AND sum IS NULL")?;
    let ended = ended.query_map([base.through], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for hold in ended.collect::<rusqlite::Result<Vec<(String, String)>>>()? {
        connection
            .execute("UPDATE hold SET sum = ?2 WHERE id = ?1", params![hold.0, row::state_sum(&hold.1)])?;
    }
    connection.execute("DELETE FROM ledger WHERE seq <= ?1", [base.through])?;
    crash::point("rows deleted");
    Ok(())
}

/// The file that takes the rows.
struct Lines {
    file: BufWriter<File>,
    folder: Option<File>,
    /// How long it was: an archive that fails leaves it so.
    before: u64,
    synced: bool,
}

impl Lines {
    fn open(target: &Named, store: &Named) -> Result<Self, StoreError> {
        let failed = |error: io::Error| target.io("append to", error);
        let path = target.path();
        target.is_plain("append to")?;
        // By any name: where locks belong to the process, to close such a file would give the database's locks away.
        let same = |other: &Path| is_same(path, other);
        if ["", "-wal", "-shm", ".lock"].iter().any(|suffix| same(&super::beside(store.path(), suffix))) {
            return Err(target.io("append to", "it is a file of the store itself"));
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(failed)?;
        let before = whole_lines(&mut file).map_err(failed)?;
        let before = before.ok_or_else(|| target.io("append to", "it is not an archive of a ledger"))?;
        file.set_len(before).and_then(|()| file.seek(SeekFrom::Start(before))).map_err(failed)?;
        let folder = super::folder_of(path).map_err(failed)?;
        Ok(Self { file: BufWriter::new(file), folder, before, synced: false })
    }

    /// The texts go in as they were stored: the chain is over their bytes.
    fn write(&mut self, row: &Row<'_>, chain: &row::Hash) -> io::Result<()> {
        let Row { seq, at, kind, body, hold } = row;
        write!(self.file, "{{\"seq\":{seq},\"at\":{at},\"kind\":\"{kind}\",\"body\":{body}")?;
        if let Some(hold) = hold {
            write!(self.file, ",\"hold\":{hold}")?;
        }
        writeln!(self.file, ",\"chain\":\"{}\"}}", hex(chain))
    }

    fn sync(mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        if let Some(folder) = &self.folder {
            folder.sync_all()?;
        }
        self.synced = true;
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        if !self.synced {
            // The rows are still in the ledger. If this fails too, they are in both.
            let _ = self.file.flush();
            let _ = self.file.get_ref().set_len(self.before);
        }
    }
}

#[cfg(unix)]
fn is_same(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(not(unix))]
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Where the last whole line ends; `None` if the file holds something else than lines of an archive. A torn line is what
/// an archive left that was killed: its row is still in the ledger.
fn whole_lines(file: &mut File) -> io::Result<Option<u64>> {
    let length = file.metadata()?.len();
    let mut first = [0];
    if length > 0 {
        file.read_exact(&mut first)?;
        if first != *b"{" {
            return Ok(None);
        }
    }
    let mut end = length;
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let size = (block.len() as u64).min(end);
        file.seek(SeekFrom::Start(end - size))?;
        let read = &mut block[..size as usize];
        file.read_exact(read)?;
        if let Some(newline) = read.iter().rposition(|&byte| byte == b'\n') {
            return Ok(Some(end - size + newline as u64 + 1));
        }
        end -= size;
    }
    Ok(Some(0))
}
