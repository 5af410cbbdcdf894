//! Rows of the ledger: their text, and the chain through them.
//!
//! A row has its time and kind in columns, the moves in `body`, and the hold after it in `hold`. What the hold says anyway
//! is not said twice: the path is in `body` only where it is not the hold's. `chain` is the SHA-256 of the chain value
//! of the row before and of everything in this one, each text with its length before it.

use super::wide::Sum;
use crate::spend::amount::{DIMENSIONS, Dimension};
use crate::spend::books::{Books, Entry};
use crate::spend::policy::{Grant, SpendPolicy};
use crate::spend::record::{Account, HoldState, Kind, Millis, Move, Phase, Record};
use rusqlite::{Connection, ToSql, params_from_iter};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest, Sha256};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Hash = [u8; 32];

/// Before the first row.
pub(super) const GENESIS: Hash = [0; 32];

pub(super) const CONFIGURED: &str = "configured";
pub(super) const DELEGATED: &str = "delegated";

/// A row as it is stored, but for its chain value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) seq: i64,
    pub(super) at: i64,
    pub(super) kind: &'a str,
    pub(super) body: &'a str,
    pub(super) hold: Option<&'a str>,
}

impl Row<'_> {
    pub(super) fn chained(&self, before: &Hash) -> Hash {
        let mut sum = Sha256::new();
        sum.update(before);
        sum.update(self.seq.to_le_bytes());
        sum.update(self.at.to_le_bytes());
        add_text(&mut sum, self.kind);
        add_text(&mut sum, self.body);
        sum.update([u8::from(self.hold.is_some())]);
        add_text(&mut sum, self.hold.unwrap_or_default());
        sum.finalize().into()
    }

    /// What it says.
    pub(super) fn read(&self) -> Result<LedgerEntry, String> {
        let wrong = |error: serde_json::Error| error.to_string();
        match (self.kind, self.hold) {
            (CONFIGURED, None) => Ok(LedgerEntry::Configured(
                serde_json::from_str::<Configured>(self.body).map_err(wrong)?.policy,
            )),
            (DELEGATED, None) => Ok(LedgerEntry::Delegated(serde_json::from_str(self.body).map_err(wrong)?)),
            (CONFIGURED | DELEGATED, Some(_)) => Err(format!("{} with a hold", self.kind)),
            (_, None) => Err(format!("{} without a hold", self.kind)),
            (kind, Some(hold)) => {
                let kind: Kind = serde_json::from_value(kind.into()).map_err(wrong)?;
                let hold: HoldState = serde_json::from_str(hold).map_err(wrong)?;
                let body: Body<'_> = serde_json::from_str(self.body).map_err(wrong)?;
                let at = u64::try_from(self.at).map_err(|_| "a time before 1970")?;
                let path = body.path.map_or_else(|| hold.path.clone(), |path| path.into_owned().into());
                let moves =
                    body.moves.into_iter().map(|(at, books)| Move { at, books: books.0.into_owned() });
                let (moves, note) = (moves.collect(), body.note.into_owned());
                Ok(LedgerEntry::Record(Box::new(Record { at, kind, path, moves, hold, note })))
            }
        }
    }
}

pub(super) fn add_text(sum: &mut Sha256, text: &str) {
    sum.update((text.len() as u64).to_le_bytes());
    sum.update(text);
}

/// A row of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// Counts rows from 1, without a gap.
    pub seq: u64,
    /// When.
    pub at: Millis,
    /// What it says.
    pub entry: LedgerEntry,
    /// The chain's value after it.
    pub chain: [u8; 32],
}

/// What a row of the ledger says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerEntry {
    /// An operation of the engine, or a repair by hand.
    Record(Box<Record>),
    /// From here on this policy.
    Configured(SpendPolicy),
    /// A grant that was delegated.
    Delegated(Grant),
}

#[derive(Serialize, Deserialize)]
struct Body<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Cow<'a, [Account]>>,
    moves: Vec<(Millis, Sparse<'a>)>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    note: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Configured {
    policy: SpendPolicy,
}

/// The body of a `configured` row. `policy` is its JSON.
pub(super) fn configured(policy: &str) -> String {
    format!("{{\"policy\":{policy}}}")
}

/// A record's kind, body and hold as texts.
pub(super) fn written(record: &Record) -> Result<(String, String, String), serde_json::Error> {
    // Every field by name: one that is added later must not be lost here.
    let Record { at: _, kind, path, moves, hold, note } = record;
    let implied = Arc::ptr_eq(path, &hold.path) || *path == hold.path;
    let body = Body {
        path: (!implied).then_some(Cow::Borrowed(path)),
        moves: moves.iter().map(|moved| (moved.at, Sparse(Cow::Borrowed(&moved.books)))).collect(),
        note: Cow::Borrowed(note),
    };
    // Its JSON is a plain word in quotes.
    let kind = serde_json::to_string(kind)?.trim_matches('"').to_owned();
    Ok((kind, serde_json::to_string(&body)?, serde_json::to_string(hold)?))
}

/// A phase as the column has it.
pub(super) fn phase_name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Open => "open",
        Phase::Denied(_) => "denied",
        Phase::Settled(_) => "settled",
        Phase::Released(_) => "released",
        Phase::Expired => "expired",
    }
}

/// Books without the dimensions in which nothing moved: `{"cost":[reserved,overrun,settled,released,expired]}`.
struct Sparse<'a>(Cow<'a, Books>);

impl Serialize for Sparse<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let moved = || self.0.iter().filter(|(_, entry)| **entry != Entry::default());
        let mut map = serializer.serialize_map(Some(moved().count()))?;
        for (dimension, entry) in moved() {
            map.serialize_entry(dimension.name(), &parts(entry))?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Sparse<'_> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let moved = BTreeMap::<Dimension, [i128; 5]>::deserialize(deserializer)?;
        let mut books = Books::default();
        for (dimension, parts) in moved {
            *books.entry_mut(dimension) = entry(parts);
        }
        Ok(Sparse(Cow::Owned(books)))
    }
}

/// The parts of an entry, as columns name them.
pub(super) const PARTS: [&str; 5] = ["reserved", "overrun", "settled", "released", "expired"];

/// How many columns books have.
pub(super) const COLUMNS: usize = PARTS.len() * DIMENSIONS.len();

/// In the order of [`PARTS`].
pub(super) fn parts(entry: &Entry) -> [i128; 5] {
    let Entry { reserved, overrun, settled, released, expired } = *entry;
    [reserved, overrun, settled, released, expired]
}

fn entry([reserved, overrun, settled, released, expired]: [i128; 5]) -> Entry {
    Entry { reserved, overrun, settled, released, expired }
}

/// Books as columns: dimension by dimension, the parts of each.
pub(super) fn columns(books: &Books) -> impl Iterator<Item = i128> {
    books.iter().flat_map(|(_, entry)| parts(entry))
}

/// Books whose first column is the `first` of a row.
pub(super) fn books_at(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Books> {
    let mut books = Books::default();
    let mut column = first;
    for dimension in DIMENSIONS {
        let mut parts = [0; 5];
        for part in &mut parts {
            *part = row.get::<_, Sum>(column)?.0;
            column += 1;
        }
        *books.entry_mut(dimension) = entry(parts);
    }
    Ok(books)
}

/// Runs a statement with a scope, a key and books as its parameters, in this order.
pub(super) fn execute_with_books(
    connection: &Connection,
    sql: &str,
    scope: &str,
    key: &str,
    books: &Books,
) -> rusqlite::Result<()> {
    let sums: SmallVec<[Sum; COLUMNS]> = columns(books).map(Sum).collect();
    let names: [&dyn ToSql; 2] = [&scope, &key];
    let values = names.into_iter().chain(sums.iter().map(|sum| sum as &dyn ToSql));
    connection.prepare_cached(sql)?.execute(params_from_iter(values))?;
    Ok(())
}

/// The first eight bytes of the state's SHA-256: what is left to check an ended hold by once its rows are archived.
pub(super) fn state_sum(state: &str) -> [u8; 8] {
    let sum: Hash = Sha256::digest(state).into();
    let mut first = [0; 8];
    first.copy_from_slice(&sum[..8]);
    first
}

/// Two digits a byte.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
