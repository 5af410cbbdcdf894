//! The proof that nothing was spent twice, and nothing was lost.
//!
//! Every admission owns an interval `(from, to]` of its bucket's refill line. Collect one [`Record`] an
//! admission, from any number of threads and in any order, and [`prove`] decides whether some sequential order of
//! them obeys the rule `from = max(mark, released(at))`, `to <= released(at) + capacity`. What is released comes
//! from the oracle, never from the library.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use crate::oracle::Line;
use std::collections::BTreeMap;
use std::fmt::{self, Debug};

/// One admission: the bucket it drew on, the time it was decided at, and the units it owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<B> {
    pub bucket: B,
    /// Nanoseconds.
    pub at: u64,
    /// The call owns the units in `(from, to]`.
    pub from: u64,
    pub to: u64,
}

/// What a proved history contained, so that a test can see that it was not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proved {
    pub buckets: usize,
    pub admissions: usize,
}

/// Why a history cannot have come from a limit that works, with the records that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken<B> {
    /// An admission owns nothing, or less than nothing.
    Empty(Record<B>),
    /// Two admissions own the same units.
    Overlap(Record<B>, Record<B>),
    /// An admission ends above what its time allowed.
    OverCapacity { record: Record<B>, allowed: u128 },
    /// An admission owns units that its time had already added to a full bucket, and so thrown away.
    BelowTheLine { record: Record<B>, released: u128 },
    /// Units between two admissions belong to nobody, and no refill explains it: a debit was lost.
    Gap { before: Option<Record<B>>, after: Record<B>, released: u128 },
    /// The callers were told another amount than the intervals add up to.
    Total { bucket: B, owned: u128, told: u128, units_per_token: u128 },
}

impl<B: Debug> fmt::Display for Broken<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Empty(record) => write!(f, "an admission owns no unit: {record:?}"),
            Broken::Overlap(one, other) => {
                write!(f, "two admissions own the same units:\n  {one:?}\n  {other:?}")
            }
            Broken::OverCapacity { record, allowed } => {
                write!(f, "an admission ends above released + capacity = {allowed}:\n  {record:?}")
            }
            Broken::BelowTheLine { record, released } => {
                write!(f, "an admission begins below released = {released}:\n  {record:?}")
            }
            Broken::Gap { before, after, released } => write!(
                f,
                "units owned by nobody, and only {released} were released:\n  before {before:?}\n  after  {after:?}"
            ),
            Broken::Total { bucket, owned, told, units_per_token } => write!(
                f,
                "bucket {bucket:?}: the intervals hold {owned} units, its callers were told {told} \
                 ({units_per_token} units are a token)"
            ),
        }
    }
}

/// What a limit releases, as the proof needs to know it.
pub trait Refill {
    /// Units released from the start of the clock to `t`.
    fn released_units(&self, t: u64) -> u128;
    /// How many units `tokens` are.
    fn units(&self, tokens: u64) -> u128;
    /// Tokens kept at most.
    fn capacity(&self) -> u64;
}

impl Refill for Line {
    fn released_units(&self, t: u64) -> u128 {
        Line::released_units(self, t)
    }
    fn units(&self, tokens: u64) -> u128 {
        Line::units(self, tokens)
    }
    fn capacity(&self) -> u64 {
        self.capacity
    }
}

/// Checks a whole history. `told` is, for each bucket, the sum of the costs in tokens that callers were admitted
/// with, counted by the callers themselves.
pub fn prove<'l, B: Ord + Clone + Debug, L: Refill + 'l>(
    mut records: Vec<Record<B>>,
    told: &BTreeMap<B, u64>,
    line_of: impl Fn(&B) -> &'l L,
) -> Result<Proved, Broken<B>> {
    records.sort_by(|a, b| (&a.bucket, a.from, a.to).cmp(&(&b.bucket, b.from, b.to)));
    let mut buckets = 0;
    for of_one in records.chunk_by(|a, b| a.bucket == b.bucket) {
        buckets += 1;
        let bucket = &of_one[0].bucket;
        let owned = prove_one(of_one, line_of(bucket))?;
        check_total(bucket, owned, told.get(bucket).copied().unwrap_or(0), line_of(bucket))?;
    }
    // Callers who were admitted on a bucket of which no record tells.
    for (bucket, &tokens) in told {
        if records.binary_search_by(|record| record.bucket.cmp(bucket)).is_err() {
            check_total(bucket, 0, tokens, line_of(bucket))?;
        }
    }
    Ok(Proved { buckets, admissions: records.len() })
}

/// The records of one bucket, in the order of the line. Returns the units they own.
fn prove_one<B: Clone>(records: &[Record<B>], line: &impl Refill) -> Result<u128, Broken<B>> {
    // Many admissions share one instant of a manual clock, and the oracle is slow.
    let mut known: BTreeMap<u64, u128> = BTreeMap::new();
    let mut before: Option<&Record<B>> = None;
    let mut owned = 0;
    for record in records {
        if record.to <= record.from {
            return Err(Broken::Empty(record.clone()));
        }
        let released = *known.entry(record.at).or_insert_with(|| line.released_units(record.at));
        let allowed = released + line.units(line.capacity());
        let (from, end_before) = (u128::from(record.from), before.map_or(0, |before| u128::from(before.to)));
        match before {
            Some(before) if from < end_before => {
                return Err(Broken::Overlap(before.clone(), record.clone()));
            }
            _ if from > end_before && from > released => {
                return Err(Broken::Gap { before: before.cloned(), after: record.clone(), released });
            }
            _ => {}
        }
        if from < released {
            return Err(Broken::BelowTheLine { record: record.clone(), released });
        }
        if u128::from(record.to) > allowed {
            return Err(Broken::OverCapacity { record: record.clone(), allowed });
        }
        owned += u128::from(record.to - record.from);
        before = Some(record);
    }
    Ok(owned)
}

fn check_total<B: Clone>(bucket: &B, owned: u128, tokens: u64, line: &impl Refill) -> Result<(), Broken<B>> {
    let told = line.units(tokens);
    if owned == told {
        return Ok(());
    }
    Err(Broken::Total { bucket: bucket.clone(), owned, told, units_per_token: line.units(1) })
}

/// [`prove`], or a panic that prints the offending records.
pub fn assert_proved<'l, B: Ord + Clone + Debug, L: Refill + 'l>(
    records: Vec<Record<B>>,
    told: &BTreeMap<B, u64>,
    line_of: impl Fn(&B) -> &'l L,
) -> Proved {
    prove(records, told, line_of).unwrap_or_else(|broken| panic!("{broken}"))
}

/// Whole tokens that must be left in a bucket at `t` after these admissions, from whatever bucket they are: the
/// end of the last interval is the mark.
pub fn left_after<B: PartialEq>(records: &[Record<B>], bucket: &B, line: &Line, t: u64) -> u64 {
    let mark = records.iter().filter(|record| record.bucket == *bucket).map(|record| record.to).max();
    line.available(&line.tokens_of(mark.unwrap_or(0)), t)
}
