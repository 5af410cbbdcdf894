//! What the words of a table mean: the arithmetic of its limits, and their reconfiguration.
//!
//! A lone word carries the number of the limit's *version* its mark is expressed in. Reconfiguring a limit adds
//! a version and links the old one to it; a word of an old version is read as if it had been converted at the
//! instant of the change, a pure function of the word. The next draw writes the converted word. So every bucket
//! changes over in one compare-and-swap, and no two threads can read one word in two ways for long.
//!
//! A refundable word counts the units that were ever refunded to its bucket, in the place of a second mark.

use crate::append::AppendList;
use crate::quota::{Arithmetic, Decision, Quota, RefundableWidths, pair_arithmetic, refundable_arithmetic};
use crate::sync::{AtomicU32, Mutex, Ordering, seeded_bug, stall_point};
use crate::word::{LIMIT, LONE_MARK, Layout, PAIR_MARKS, REFUNDABLE_BITS, Word};
use crate::{ConfigError, LimitName};
use std::sync::{OnceLock, PoisonError};

/// What a reconfiguration does with the tokens in a bucket.
///
/// A quota that equals the present one changes nothing, whatever the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Keep {
    /// What is owed stays owed: with `d` tokens drawn and not yet refilled, `new capacity - d` are available
    /// (none, while `d` is above it).
    AsIs,
    /// The filled share stays: half full stays half full, rounded down, and empty stays empty, however much is
    /// owed.
    Proportional,
    /// Every bucket starts full.
    Reset,
}

/// Costs in tokens on the lanes of one cell; a lone cell has lane 0 only.
pub(crate) type Costs = [u64; 2];

/// The limits of one table.
#[derive(Debug)]
pub(crate) struct Limits {
    pub(crate) layout: Layout,
    names: Vec<LimitName>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Pair { lanes: [Arithmetic; 2], width0: u32 },
    Lone(Versions),
    Refundable(Refundable),
}

/// The one limit of a table whose draws can be refunded.
#[derive(Debug)]
struct Refundable {
    line: Arithmetic,
    widths: RefundableWidths,
    /// Where a new bucket's mark begins at least: 0, unless keys that are not known must not begin full.
    floor: u64,
}

/// All versions of all limits of a table of lone words.
#[derive(Debug)]
struct Versions {
    all: AppendList<Version>,
    /// Each limit's newest version.
    current: Vec<AtomicU32>,
    /// Serialises reconfigurations; decisions never take it.
    change: Mutex<()>,
}

#[derive(Debug, Default)]
struct Version {
    definition: OnceLock<Definition>,
    /// The version that superseded this one, plus 1; 0 while this is the newest.
    next: AtomicU32,
}

#[derive(Debug)]
struct Definition {
    quota: Quota,
    arithmetic: Arithmetic,
    /// How marks of the version before become marks of this one, and as of when.
    keep: Keep,
    since: u64,
}

impl Version {
    fn definition(&self) -> &Definition {
        self.definition.get().expect("a version is defined before its number is passed on")
    }
}

/// The buckets of one cell, read for one decision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets<'t> {
    /// A refundable word's second one is its count of refunded units, which no draw is on.
    marks: [u64; 2],
    arithmetic: [&'t Arithmetic; 2],
    /// The version that the marks are expressed in (lone words only).
    version: u32,
}

/// One lane's part in an admission: the interval that it owns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LaneDraw {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What a refundable bucket's word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) mark: u64,
    /// Units that were ever refunded to the bucket, in this life of it.
    pub(crate) refunded: u64,
}

impl<'t> Buckets<'t> {
    pub(crate) fn arithmetic(&self, lane: usize) -> &'t Arithmetic {
        self.arithmetic[lane]
    }

    /// Decides a draw of `cost` tokens on one lane; an admission moves this copy's mark.
    ///
    /// An exhausted lane's mark moves too (as far as it can): a later draw on it in the same plan then waits
    /// for both.
    #[inline(always)]
    pub(crate) fn draw(&mut self, lane: usize, cost: u64, now: u64) -> Result<LaneDraw, Decision> {
        let line = self.arithmetic[lane];
        let Some(units) = line.units(cost) else { return Err(Decision::Impossible) };
        let mark = self.marks[lane];
        match line.decide_units(mark, now, units) {
            Decision::Admit { mark: to } => {
                self.marks[lane] = to;
                Ok(LaneDraw { from: to - units, to })
            }
            refused => {
                self.marks[lane] = mark.max(line.accrued(now)).saturating_add(units);
                Err(refused)
            }
        }
    }

    pub(crate) fn mark(&self, lane: usize) -> u64 {
        self.marks[lane]
    }

    /// The mark and the count of refunded units of a refundable bucket.
    pub(crate) fn state(&self) -> State {
        State { mark: self.marks[0], refunded: self.marks[1] }
    }

    /// Whole tokens on a lane.
    pub(crate) fn available(&self, lane: usize, now: u64) -> u64 {
        self.arithmetic[lane].available(self.marks[lane], now)
    }
}

impl Limits {
    /// Two limits in one word.
    pub(crate) fn pair(limits: [(LimitName, Quota); 2]) -> Result<Self, ConfigError> {
        let [(name0, quota0), (name1, quota1)] = limits;
        let (lanes, width0) = pair_arithmetic(&quota0, &quota1, PAIR_MARKS)?;
        let layout = Layout::Pair { width0 };
        Ok(Self { layout, names: vec![name0, name1], kind: Kind::Pair { lanes, width0 } })
    }

    /// Any number of limits, each bucket in a word of its own.
    pub(crate) fn lone(limits: Vec<(LimitName, Quota)>) -> Result<Self, ConfigError> {
        let versions = Versions { all: AppendList::new(), current: Vec::new(), change: Mutex::new(()) };
        let mut this = Self { layout: Layout::Lone, names: Vec::new(), kind: Kind::Lone(versions) };
        for (name, quota) in limits {
            let Kind::Lone(versions) = &mut this.kind else { unreachable!() };
            let arithmetic = quota.arithmetic(LONE_MARK)?;
            let definition = Definition { quota, arithmetic, keep: Keep::AsIs, since: 0 };
            let number = versions.add(definition).ok_or_else(|| {
                ConfigError::new("limits", "more than that", format!("up to {} limits", 1u32 << LIMIT))
            })?;
            versions.current.push(AtomicU32::new(number));
            this.names.push(name);
        }
        Ok(this)
    }

    /// One limit whose draws can be refunded. `floor` says at which mark of its line a key without a bucket begins: 0 for a
    /// full one.
    pub(crate) fn refundable(
        name: LimitName,
        quota: Quota,
        floor: impl FnOnce(&Arithmetic) -> u64,
    ) -> Result<Self, ConfigError> {
        let (line, widths) = refundable_arithmetic(&quota, REFUNDABLE_BITS)?;
        let layout = Layout::Refundable { mark: widths.mark, refunded: widths.refunded };
        let floor = floor(&line);
        Ok(Self { layout, names: vec![name], kind: Kind::Refundable(Refundable { line, widths, floor }) })
    }

    /// Where the mark of a new bucket of the refundable limit begins at least.
    pub(crate) fn floor(&self) -> u64 {
        match &self.kind {
            Kind::Refundable(limit) => limit.floor,
            _ => 0,
        }
    }

    /// The most units that can ever be refunded to one life of a refundable bucket.
    pub(crate) fn most_refunded(&self) -> u64 {
        match &self.kind {
            Kind::Refundable(limit) => u64::MAX >> (64 - limit.widths.refunded),
            _ => 0,
        }
    }

    /// The name of a limit (lone) or of a lane (pair).
    pub(crate) fn name(&self, limit: u32, lane: usize) -> LimitName {
        match self.layout {
            Layout::Pair { .. } => self.names[lane].clone(),
            Layout::Lone => self.names[limit as usize].clone(),
            Layout::Refundable { .. } => self.names[0].clone(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// The present arithmetic of a limit (lone) or lane (pair).
    #[inline]
    pub(crate) fn arithmetic(&self, limit: u32, lane: usize) -> &Arithmetic {
        match &self.kind {
            Kind::Pair { lanes, .. } => &lanes[lane],
            Kind::Lone(versions) => &versions.newest(limit).1.arithmetic,
            Kind::Refundable(limit) => &limit.line,
        }
    }

    /// Reads a word of `limit` that is not reserved.
    #[inline(always)]
    pub(crate) fn read_of(&self, limit: u32, word: Word) -> Buckets<'_> {
        match &self.kind {
            Kind::Pair { .. } | Kind::Refundable(_) => self.read(word),
            Kind::Lone(versions) => versions.read_of(limit, word),
        }
    }

    /// Reads a word that is not reserved.
    #[inline(always)]
    pub(crate) fn read(&self, word: Word) -> Buckets<'_> {
        match &self.kind {
            Kind::Pair { lanes, width0 } => {
                Buckets { marks: word.pair_marks(*width0), arithmetic: [&lanes[0], &lanes[1]], version: 0 }
            }
            Kind::Lone(versions) => versions.read(word),
            Kind::Refundable(Refundable { line, widths, .. }) => {
                let marks = word.refundable_marks(widths.mark, widths.refunded);
                Buckets { marks, arithmetic: [line; 2], version: 0 }
            }
        }
    }

    /// A key without a bucket: full, unless the limit's buckets begin otherwise.
    pub(crate) fn absent(&self, limit: u32) -> Buckets<'_> {
        match &self.kind {
            Kind::Pair { lanes, .. } => {
                Buckets { marks: [0; 2], arithmetic: [&lanes[0], &lanes[1]], version: 0 }
            }
            Kind::Lone(versions) => {
                let (number, definition) = versions.newest(limit);
                Buckets { marks: [0; 2], arithmetic: [&definition.arithmetic; 2], version: number }
            }
            Kind::Refundable(Refundable { line, floor, .. }) => {
                Buckets { marks: [*floor, 0], arithmetic: [line; 2], version: 0 }
            }
        }
    }

    /// The word after the draws that `buckets` (read from `word`) has seen.
    #[inline(always)]
    pub(crate) fn drawn(&self, word: Word, buckets: &Buckets<'_>) -> Word {
        match &self.kind {
            Kind::Pair { width0, .. } if seeded_bug!("half-a-pair") => {
                word.drawn_pair(*width0, [buckets.marks[0], word.pair_marks(*width0)[1]])
            }
            Kind::Pair { width0, .. } => word.drawn_pair(*width0, buckets.marks),
            Kind::Lone(_) if seeded_bug!("version-kept") => {
                word.drawn_lone(word.lone_limit(), buckets.marks[0])
            }
            Kind::Lone(_) => word.drawn_lone(buckets.version, buckets.marks[0]),
            Kind::Refundable(_) => word.drawn_refundable(self.layout, buckets.marks),
        }
    }

    /// The refundable word with another state, no longer fresh.
    pub(crate) fn with_state(&self, word: Word, state: State) -> Word {
        word.drawn_refundable(self.layout, [state.mark, state.refunded])
    }

    /// The word in its limit's present version, if it is of an older one: the same bucket, which is then read
    /// without following every change since.
    pub(crate) fn renewed(&self, word: Word) -> Option<Word> {
        let Kind::Lone(versions) = &self.kind else { return None };
        if versions.all.get(word.lone_limit()).next.load(Ordering::Acquire) == 0 {
            return None;
        }
        let buckets = versions.read(word);
        Some(word.with_lone(buckets.version, buckets.marks[0]))
    }

    /// The live word of a new bucket in a cell whose free word is `free`.
    ///
    /// Its marks lie at the line of `latest`, the latest time at which any bucket of the table was reclaimed:
    /// a bucket that was reclaimed at a later time than its key's next life begins must not get its tokens
    /// twice.
    pub(crate) fn fresh(&self, free: Word, limit: u32, latest: u64) -> Word {
        let latest = if seeded_bug!("born-at-zero") { 0 } else { latest };
        match &self.kind {
            Kind::Pair { lanes, width0 } => {
                // Never lower than before, so that a word does not repeat.
                let old = free.pair_marks(*width0);
                let marks = [0, 1].map(|lane| old[lane].max(lanes[lane].accrued(latest)));
                free.fresh_pair(self.layout, marks)
            }
            Kind::Lone(versions) => {
                let (number, definition) = versions.newest(limit);
                free.fresh_lone(number, definition.arithmetic.accrued(latest))
            }
            Kind::Refundable(Refundable { line, widths, floor }) => {
                let [old, _] = free.refundable_marks(widths.mark, widths.refunded);
                free.fresh_refundable(self.layout, old.max(line.accrued(latest)).max(*floor))
            }
        }
    }

    /// The free word of the next generation, its marks lifted to the line of `now`.
    pub(crate) fn freed(&self, word: Word, now: u64) -> Word {
        match &self.kind {
            Kind::Pair { lanes, width0 } => {
                let marks = word.pair_marks(*width0);
                let lifted = [0, 1].map(|lane| marks[lane].max(lanes[lane].accrued(now)));
                word.freed_pair(*width0, lifted)
            }
            // The long generation alone keeps lone words from repeating.
            Kind::Lone(_) => word.freed(self.layout),
            Kind::Refundable(Refundable { line, widths, .. }) => {
                let [mark, refunded] = word.refundable_marks(widths.mark, widths.refunded);
                word.freed_refundable(self.layout, [mark.max(line.accrued(now)), refunded])
            }
        }
    }

    /// The first nanosecond at which every bucket of the word is full: then forgetting it changes nothing.
    pub(crate) fn refilled_at(&self, word: Word) -> u64 {
        let buckets = self.read(word);
        let full = |lane: usize| buckets.arithmetic[lane].reached_at(buckets.marks[lane]).unwrap_or(u64::MAX);
        match self.layout {
            Layout::Pair { .. } => full(0).max(full(1)),
            Layout::Lone | Layout::Refundable { .. } => full(0),
        }
    }

    /// Gives a limit another quota from `now` on. Says whether anything changed.
    pub(crate) fn reconfigure(
        &self,
        limit: u32,
        quota: Quota,
        keep: Keep,
        now: impl FnOnce() -> u64,
    ) -> Result<bool, ConfigError> {
        let Kind::Lone(versions) = &self.kind else { unreachable!("only lone words are reconfigured") };
        let arithmetic = quota.arithmetic(LONE_MARK)?;
        let _one_at_a_time = versions.change.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, definition) = versions.newest(limit);
        if definition.quota == quota {
            return Ok(false);
        }
        // Read under the lock: a change must not take effect as of a time at which its caller was waiting.
        let since = now().max(definition.since);
        let number = versions.add(Definition { quota, arithmetic, keep, since }).ok_or_else(|| {
            let accepted = format!("up to {} changes in a limiter's life; build a new one", 1u32 << LIMIT);
            ConfigError::new("quota", "one change too many", accepted)
        })?;
        // Release: whoever follows the link finds the version defined.
        versions.all.get(old).next.store(number + 1, Ordering::Release);
        stall_point!(Linked);
        versions.current[limit as usize].store(number, Ordering::Release);
        Ok(true)
    }
}

impl Versions {
    fn add(&self, definition: Definition) -> Option<u32> {
        let (number, version) = self.all.claim(1 << LIMIT)?;
        // The claim is this caller's alone, so the cell was empty.
        let _ = version.definition.set(definition);
        Some(number)
    }

    #[inline]
    fn newest(&self, limit: u32) -> (u32, &Definition) {
        let number = self.current[limit as usize].load(Ordering::Acquire);
        (number, self.all.get(number).definition())
    }

    /// As [`read`](Self::read). Where the limit is known, its newest version can be fetched while the word is still
    /// on its way, and nearly always is the word's.
    #[inline(always)]
    fn read_of(&self, limit: u32, word: Word) -> Buckets<'_> {
        let number = self.current[limit as usize].load(Ordering::Acquire);
        let version = self.all.get(number);
        // Acquire: as in `read`. A version that was superseded a moment ago is not the newest, though still current.
        if word.lone_limit() == number && version.next.load(Ordering::Acquire) == 0 {
            let arithmetic = &version.definition().arithmetic;
            return Buckets { marks: [word.lone_mark(), 0], arithmetic: [arithmetic; 2], version: number };
        }
        self.read(word)
    }

    #[inline(never)]
    fn read(&self, word: Word) -> Buckets<'_> {
        let mut number = word.lone_limit();
        let mut mark = word.lone_mark();
        let mut version = self.all.get(number);
        let mut definition = version.definition();
        loop {
            // Acquire: pairs with the release in `reconfigure`.
            let next = version.next.load(Ordering::Acquire);
            if next == 0 {
                break;
            }
            number = next - 1;
            version = self.all.get(number);
            let newer = version.definition();
            mark = convert(mark, &definition.arithmetic, newer);
            definition = newer;
        }
        Buckets { marks: [mark, 0], arithmetic: [&definition.arithmetic; 2], version: number }
    }
}

/// A mark of the arithmetic `old` as a mark of the version that replaced it.
fn convert(mark: u64, old: &Arithmetic, new: &Definition) -> u64 {
    let line = new.arithmetic.accrued(new.since);
    let debt = u128::from(mark.saturating_sub(old.accrued(new.since)));
    let (to, from) = match new.keep {
        Keep::Reset => return line,
        _ if debt == 0 => return line,
        Keep::AsIs => (new.arithmetic.units_per_token(), old.units_per_token()),
        // Empty stays empty, even if an earlier change to a smaller capacity left more owed than that.
        Keep::Proportional if debt >= u128::from(old.capacity_units()) => {
            return line.saturating_add(new.arithmetic.capacity_units());
        }
        Keep::Proportional => (new.arithmetic.capacity_units(), old.capacity_units()),
    };
    // Rounded up: what is owed is never forgotten.
    let owed = debt.saturating_mul(u128::from(to)).div_ceil(u128::from(from));
    u64::try_from(u128::from(line).saturating_add(owed)).unwrap_or(u64::MAX)
}
