//! A plan: all draws of one call, committed all or nothing.
//!
//! ```text
//! loop:  find every cell -> load all words -> read the clock -> judge (pure)
//!          refused:             confirm the words that refused, give fresh cells back, refuse
//!          cells are missing:   take and publish all of them, or refuse; then judge again
//!          one cell changes:    one exchange of its word
//!          several change:      the multi-word commit
//! ```
//!
//! A refusal writes nothing: one bucket that cannot pay at one instant during the call is enough.

use crate::commit::{self, Entry};
use crate::key::KeyBytes;
use crate::refund::Receipt;
use crate::refusal::{Reason, Refusal};
use crate::sync::seeded_bug;
use crate::table::Table;
use crate::table::cell::{Cell, PackedKey};
use crate::table::draw::{Admission, Backoff, Worst};
use crate::table::insert::{Fresh, Hand};
use crate::table::limits::{Buckets, Costs, LaneDraw};
use crate::table::lookup::{Find, Hit};
use crate::word::Word;
use smallvec::SmallVec;
use std::ops::{Deref, Range};

/// All draws of one call; [`commit`](Plan::commit) takes them all, or none.
///
/// Guards and limit sets add draws ([`Guard::plan`](crate::guard::Guard::plan),
/// [`LimitSet::plan`](crate::LimitSet::plan)). Draws on one bucket are summed. Draws are grouped in *stages*: a
/// stage that refuses hides the reasons of later ones, as a guard that refuses in a series does.
///
/// ```
/// use tollgate::{LimitSet, Plan, quota::Quota};
///
/// let limits = LimitSet::builder()
///     .limit("per-client", Quota::per_minute(2))
///     .limit("everybody", Quota::per_minute(3))
///     .build()?;
/// let call = |client: &str| {
///     let mut plan = Plan::new();
///     limits.plan(0, client, 1, &mut plan);
///     limits.plan(1, "", 1, &mut plan);
///     plan.commit().map(|_| ())
/// };
/// assert!(call("alice").is_ok() && call("alice").is_ok());
/// assert_eq!(call("alice").unwrap_err().refusal.limit.as_str(), "per-client");
/// assert!(call("bob").is_ok(), "what alice was refused was not taken from everybody");
/// assert_eq!(call("carol").unwrap_err().refusal.limit.as_str(), "everybody");
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Default)]
#[must_use = "a plan draws nothing until it is committed"]
pub struct Plan<'t> {
    draws: SmallVec<[Draw; 2]>,
    cells: SmallVec<[PlannedCell<'t>; 2]>,
    /// The keys of all cells, one behind the other.
    keys: KeyBytes,
    stage: usize,
}

/// One draw, on both lanes of a pair or on one lone bucket.
#[derive(Debug)]
struct Draw {
    /// Which of the plan's cells.
    cell: usize,
    limit: u32,
    costs: Costs,
    stage: usize,
    /// What each lane takes, if the last judgement admitted it.
    lanes: [LaneDraw; 2],
}

/// A cell that the plan draws on.
#[derive(Debug)]
struct PlannedCell<'t> {
    owner: &'t Table,
    limit: u32,
    tag: u32,
    hash: u64,
    /// Where its key lies in the plan's.
    key: Range<usize>,
    found: Option<Hit>,
    /// What was found is the cell that this plan published.
    ours: bool,
    /// The word that is judged; `None` while there is no cell.
    word: Option<Word>,
    /// When it is judged.
    now: u64,
    /// Its buckets, after the draws judged so far; without a cell full ones.
    buckets: Buckets<'t>,
    /// A draw on it was refused by the last judgement.
    refuses: bool,
}

/// A plan that was refused: nothing was drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{refusal}")]
pub struct PlanRefused {
    /// The stage whose limits refused, counted from 0 (see [`Plan::next_stage`]).
    pub stage: usize,
    /// Why.
    pub refusal: Refusal,
}

/// The admissions of a committed plan, in the order in which its draws were added; draws of nothing have none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Committed(SmallVec<[Admission; 4]>);

impl Deref for Committed {
    type Target = [Admission];
    fn deref(&self) -> &[Admission] {
        &self.0
    }
}

impl<'t> Plan<'t> {
    /// A plan without draws: committing it admits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Draws added from here on belong to the next stage.
    pub fn next_stage(&mut self) {
        self.stage += 1;
    }

    /// The number of the stage that draws are added to now.
    pub fn stage(&self) -> usize {
        self.stage
    }

    /// Does the plan draw nothing?
    pub fn is_empty(&self) -> bool {
        self.draws.is_empty()
    }

    /// Adds a draw on the bucket of the key that `spell` appends. Costs of 0 draw nothing and make no bucket.
    pub(crate) fn draw(
        &mut self,
        owner: &'t Table,
        limit: u32,
        tag: u32,
        costs: Costs,
        spell: impl FnOnce(&mut KeyBytes),
    ) {
        if costs == [0, 0] {
            return;
        }
        let start = self.keys.len();
        spell(&mut self.keys);
        let key = start..self.keys.len();
        let bytes = &self.keys.as_slice()[key.clone()];
        let hash = owner.hash(tag, bytes);
        let same = |cell: &PlannedCell<'t>| {
            cell.hash == hash
                && cell.tag == tag
                && std::ptr::eq(cell.owner, owner)
                && self.keys.as_slice()[cell.key.clone()] == *bytes
        };
        let cell = self.cells.iter().position(same).unwrap_or_else(|| {
            self.cells.push(PlannedCell {
                owner,
                limit,
                tag,
                hash,
                key,
                found: None,
                ours: false,
                word: None,
                now: 0,
                buckets: owner.limits.absent(limit),
                refuses: false,
            });
            self.cells.len() - 1
        });
        self.draws.push(Draw { cell, limit, costs, stage: self.stage, lanes: [LaneDraw::default(); 2] });
    }

    /// Takes all draws, or none.
    ///
    /// Lock-free: a thread that stops inside does not stop others. Linearizable: every observer sees all draws
    /// or none of them.
    ///
    /// # Errors
    /// The first stage that refuses; in it impossible costs before exhausted limits before a full table, and
    /// of several exhausted limits the one with the longest wait (the first added, of equals).
    ///
    /// # Panics
    /// If the clock does; nothing is drawn then, and no bucket is left behind.
    pub fn commit(mut self) -> Result<Committed, PlanRefused> {
        self.take_all()?;
        Ok(self.admissions())
    }

    /// As [`commit`](Self::commit), for callers who do not ask what was drawn.
    pub(crate) fn take_all(&mut self) -> Result<(), PlanRefused> {
        if self.draws.is_empty() {
            return Ok(());
        }
        if self.cells.iter().any(|cell| !std::ptr::eq(cell.owner, self.cells[0].owner)) {
            self.cells.iter().for_each(|cell| cell.owner.share());
        }
        let mut fresh: SmallVec<[Fresh<'t>; 2]> = SmallVec::new();
        let mut backoff = Backoff::default();
        let mut looked_again = false;
        loop {
            if !self.load() {
                continue;
            }
            if let Some(refused) = self.judge() {
                match self.refuse(refused, &mut looked_again) {
                    Some(refused) => return Err(refused),
                    None => continue,
                }
            }
            if self.cells.iter().any(|cell| cell.found.is_none()) {
                self.make_cells(&mut fresh, &mut looked_again)?;
                continue;
            }
            if self.exchange() {
                fresh.into_iter().for_each(Fresh::keep);
                return Ok(());
            }
            backoff.pause();
        }
    }

    /// Once all was drawn: what each draw leaves behind, in the order in which they were added. Of draws on refundable
    /// buckets, each on its own.
    pub(crate) fn receipts(&self) -> impl Iterator<Item = Receipt> {
        self.draws.iter().map(|draw| {
            let cell = &self.cells[draw.cell];
            let (found, word) = (cell.found.expect("found"), cell.word.expect("loaded"));
            let LaneDraw { from, to } = draw.lanes[0];
            let before = cell.owner.limits.read(word).state();
            Receipt { cell: found.cell, life: word, hash: cell.hash, before, from, to }
        })
    }

    /// What was drawn, once it was.
    pub(crate) fn admissions(&self) -> Committed {
        let mut admissions = Committed::default();
        for draw in &self.draws {
            let cell = &self.cells[draw.cell];
            for lane in (0..2).filter(|&lane| draw.costs[lane] > 0) {
                admissions.0.push(Admission::new(draw.lanes[lane], cell.buckets.arithmetic(lane), cell.now));
            }
        }
        admissions
    }

    /// Finds the cells that were not found yet, then reads all words. False when some cell's life ended, so that it
    /// must be found again.
    ///
    /// In this order: a cell that was found for one key, reclaimed, and found again for another key of the plan is then
    /// seen to have ended its first life, and no cell is in a commit twice.
    fn load(&mut self) -> bool {
        for cell in &mut self.cells {
            if cell.found.is_none() {
                if let Find::Hit(hit) = cell.owner.find(&cell.packed(&self.keys)) {
                    cell.found = Some(hit);
                }
            }
        }
        let mut whole = true;
        for cell in &mut self.cells {
            cell.word = cell.found.map(|hit| cell.owner.settled(hit.cell));
            if let (Some(hit), Some(word)) = (cell.found, cell.word) {
                if !word.same_life(hit.word, cell.owner.limits.layout) {
                    cell.found = None;
                    cell.ours = false;
                    whole = false;
                }
            }
        }
        whole
    }

    /// Judges all draws on the words, in order, each seeing those before it. Writes nothing that others see.
    fn judge(&mut self) -> Option<PlanRefused> {
        // The clock after the words, and once for all cells that live by it.
        for i in 0..self.cells.len() {
            let owner = self.cells[i].owner;
            let one_clock = |cell: &&PlannedCell<'t>| {
                std::ptr::eq(cell.owner, owner) || cell.owner.clock.is_same(&owner.clock)
            };
            let same = self.cells[..i].iter().find(one_clock);
            let now = same.map_or_else(|| owner.clock.now(), |cell| cell.now);
            let cell = &mut self.cells[i];
            cell.now = now;
            cell.buckets = cell.read();
            cell.refuses = false;
        }
        let mut refused = Worst::default();
        let mut stage = 0;
        for draw in &mut self.draws {
            if draw.stage != stage {
                if refused.0.is_some() {
                    break;
                }
                stage = draw.stage;
            }
            let cell = &mut self.cells[draw.cell];
            for (lane, &cost) in draw.costs.iter().enumerate() {
                if cost == 0 {
                    continue;
                }
                match cell.buckets.draw(lane, cost, cell.now) {
                    Ok(drawn) => draw.lanes[lane] = drawn,
                    Err(decision) => {
                        refused.offer(|| cell.owner.explain(decision, draw.limit, lane, cost, cell.now));
                        cell.refuses = true;
                    }
                }
            }
        }
        let refusal = refused.0?;
        let refusal = self.summed_refusal(stage).unwrap_or(refusal);
        Some(PlanRefused { stage, refusal })
    }

    /// What to answer when the judgement was `refused`; `None` to judge again.
    #[cold]
    fn refuse(&self, refused: PlanRefused, looked_again: &mut bool) -> Option<PlanRefused> {
        if !self.confirm() {
            return None;
        }
        if seeded_bug!("refusal-writes") {
            for cell in &self.cells {
                if let (Some(hit), Some(word)) = (cell.found, cell.word) {
                    cell.owner.cell(hit.cell).word.store(word.0, crate::sync::Ordering::Release);
                }
            }
        }
        // A full table in an earlier stage comes first, and only taking the cells shows it.
        match self.take(refused.stage) {
            Ok(hands) => drop(hands),
            Err(full) if *looked_again => return Some(full),
            Err(_) => {
                *looked_again = true;
                return None;
            }
        }
        // The search for them may have reclaimed a refilled bucket of this very call, which then needs room too.
        let whole = self.cells.iter().all(|cell| {
            cell.found
                .is_none_or(|hit| cell.owner.settled(hit.cell).same_life(hit.word, cell.owner.limits.layout))
        });
        whole.then_some(refused)
    }

    /// Makes the cells that are missing, or says that there is no room.
    #[cold]
    fn make_cells(
        &mut self,
        fresh: &mut SmallVec<[Fresh<'t>; 2]>,
        looked_again: &mut bool,
    ) -> Result<(), PlanRefused> {
        match self.take(usize::MAX) {
            Ok(hands) => self.publish(hands, fresh),
            Err(full) if *looked_again => return Err(full),
            // The keys may have got their buckets while we searched for cells.
            Err(_) => *looked_again = true,
        }
        Ok(())
    }

    /// Why `stage` refuses, where some bucket is drawn on more than once: draws on one bucket are summed, so two
    /// that fit one by one can be impossible together, and a refusal speaks of what they need together.
    #[cold]
    fn summed_refusal(&self, stage: usize) -> Option<Refusal> {
        if self.draws.len() == self.cells.len() {
            return None; // each bucket is drawn on once
        }
        let mut refused = Worst::default();
        for draw in self.draws.iter().filter(|draw| draw.stage == stage) {
            let cell = &self.cells[draw.cell];
            let costs = self.summed_costs(draw);
            for lane in (0..2).filter(|&lane| draw.costs[lane] > 0) {
                let whole = costs[lane];
                if let Err(decision) = cell.read().draw(lane, whole, cell.now) {
                    refused.offer(|| cell.owner.explain(decision, draw.limit, lane, whole, cell.now));
                }
            }
        }
        refused.0
    }

    /// What the plan asks of `draw`'s cell up to and with its stage.
    fn summed_costs(&self, draw: &Draw) -> Costs {
        let together = self.draws.iter().filter(|other| other.cell == draw.cell && other.stage <= draw.stage);
        together
            .fold([0, 0], |sum, other| [0, 1].map(|lane: usize| sum[lane].saturating_add(other.costs[lane])))
    }

    /// Are the words that a refusal rests on still there, unchanged?
    fn confirm(&self) -> bool {
        self.cells.iter().filter(|cell| cell.refuses).all(|cell| match (cell.found, cell.word) {
            (Some(hit), Some(word)) => {
                let confirmed = cell.owner.cell(hit.cell).confirm(word).is_ok();
                if confirmed {
                    cell.owner.renew(hit.cell, word);
                }
                confirmed
            }
            // Refused although it has no bucket: too much for a full one. Or for one that would not begin full, and may have been
            // made meanwhile.
            _ => {
                cell.owner.limits.floor() == 0
                    || !matches!(cell.owner.find(&cell.packed(&self.keys)), Find::Hit(_))
            }
        })
    }

    /// Takes a free cell for every missing one that stages before `before` draw on, or none.
    fn take(&self, before: usize) -> Result<SmallVec<[(usize, Hand<'t>); 2]>, PlanRefused> {
        let mut hands: SmallVec<[(usize, Hand<'t>); 2]> = SmallVec::new();
        for (i, cell) in self.cells.iter().enumerate() {
            let first = self.draws.iter().find(|draw| draw.cell == i).expect("a cell is drawn on");
            if cell.found.is_some() || first.stage >= before {
                continue;
            }
            let table: &'t Table = cell.owner;
            match table.take(&cell.packed(&self.keys), table.clock.now()) {
                Some(hand) => hands.push((i, hand)),
                None => {
                    let in_hand =
                        hands.iter().filter(|&&(j, _)| std::ptr::eq(self.cells[j].owner, cell.owner));
                    return Err(self.table_full(cell.owner, in_hand.count()));
                }
            }
        }
        Ok(hands)
    }

    /// No cell for one more newcomer. Names the first draw for whose key there is no room, in the plan's order:
    /// which of the keys happened to get the last cells does not show.
    #[cold]
    fn table_full(&self, owner: &Table, in_hand: usize) -> PlanRefused {
        let ours = self.cells.iter().filter(|cell| cell.ours && std::ptr::eq(cell.owner, owner)).count();
        let mut seen: SmallVec<[usize; 4]> = SmallVec::new();
        let mut newcomers = self.draws.iter().filter(|draw| {
            let cell = &self.cells[draw.cell];
            let first = !seen.contains(&draw.cell);
            seen.push(draw.cell);
            first && std::ptr::eq(cell.owner, owner) && cell.is_newcomer()
        });
        let draw = newcomers.nth(ours + in_hand).or(self.draws.last()).expect("a plan has draws");
        PlanRefused { stage: draw.stage, refusal: owner.table_full(draw.limit, self.summed_costs(draw)) }
    }

    /// Publishes the cells in hand. A key that got its bucket from somebody else keeps that one.
    fn publish(&mut self, hands: SmallVec<[(usize, Hand<'t>); 2]>, fresh: &mut SmallVec<[Fresh<'t>; 2]>) {
        for (i, hand) in hands {
            let table: &'t Table = self.cells[i].owner;
            let key = self.cells[i].packed(&self.keys);
            let mut hand = Some(hand);
            let mut made = None;
            while let Some(held) = hand.take() {
                match table.vacancy(&key) {
                    Err(hit) => made = Some((hit, false)),
                    Ok(vacancy) => match held.publish(&key, self.cells[i].limit, vacancy) {
                        Ok((new, hit)) => {
                            fresh.push(new);
                            made = Some((hit, true));
                        }
                        Err(back) => hand = Some(back),
                    },
                }
            }
            let (hit, ours) = made.expect("a hand ends in a cell");
            (self.cells[i].found, self.cells[i].ours) = (Some(hit), ours);
        }
    }

    /// Changes all words together, or none.
    fn exchange(&self) -> bool {
        if self.cells.len() == 1 || seeded_bug!("cell-by-cell") {
            return self.cells.iter().all(|cell| {
                let (target, old, new) = cell.change();
                target.exchange(old, new).is_ok()
            });
        }
        let mut order: SmallVec<[usize; 4]> = (0..self.cells.len()).collect();
        if !seeded_bug!("unsorted") {
            order.sort_unstable_by_key(|&i| std::ptr::from_ref(self.cells[i].target()));
        }
        let entries = order.iter().map(|&i| {
            let (target, old, new) = self.cells[i].change();
            Entry::new(&target.word, old, new, old.reserved_part(self.cells[i].owner.limits.layout))
        });
        // SAFETY: the plan borrows every table it draws on.
        unsafe { commit::commit(entries) }
    }
}

/// What effects ask of a plan besides.
#[cfg(feature = "effects")]
impl Plan<'_> {
    /// Judges all draws at one instant and takes nothing: would they be refused? ([`refusals`](Self::refusals) says which.)
    pub(crate) fn would_be_refused(&mut self) -> bool {
        loop {
            if !self.load() {
                continue;
            }
            if self.judge().is_none() {
                return false;
            }
            if self.confirm() {
                return true;
            }
        }
    }

    /// The time at which the draws were judged last. 0 for a plan without draws.
    pub(crate) fn judged_at(&self) -> u64 {
        self.cells.first().map_or(0, |cell| cell.now)
    }

    /// Once the plan was refused by exhausted limits: every draw of its last stage that does not fit, counted in the order
    /// in which they were added, with what its bucket was found to be. Of draws on refundable buckets, each on its own.
    pub(crate) fn refusals(
        &self,
    ) -> impl Iterator<Item = (usize, crate::table::limits::State, crate::quota::Decision)> {
        self.draws.iter().enumerate().filter_map(|(number, draw)| {
            let cell = &self.cells[draw.cell];
            let mut buckets = cell.read();
            let state = buckets.state();
            buckets.draw(0, draw.costs[0], cell.now).err().map(|decision| (number, state, decision))
        })
    }
}

impl<'t> PlannedCell<'t> {
    /// Its key, which lies in the plan's `keys`.
    #[inline]
    fn packed<'k>(&self, keys: &'k KeyBytes) -> PackedKey<'k> {
        PackedKey::new(self.tag, &keys.as_slice()[self.key.clone()], self.hash)
    }

    /// Its buckets as the loaded word has them; full, without a cell.
    #[inline(always)]
    fn read(&self) -> Buckets<'t> {
        match self.word {
            Some(word) => self.owner.limits.read_of(self.limit, word),
            None => self.owner.limits.absent(self.limit),
        }
    }

    /// What was found for it.
    #[inline]
    fn target(&self) -> &'t Cell {
        self.owner.cell(self.found.expect("found").cell)
    }

    /// The cell, its loaded word, and the word after all draws. Of a cell that was found, loaded and judged.
    #[inline]
    fn change(&self) -> (&'t Cell, Word, Word) {
        let old = self.word.expect("loaded");
        (self.target(), old, self.owner.limits.drawn(old, &self.buckets))
    }

    /// Had the key no bucket when the plan came, or none any more?
    fn is_newcomer(&self) -> bool {
        let ended =
            |hit: Hit| !self.owner.cell(hit.cell).load().same_life(hit.word, self.owner.limits.layout);
        self.ours || self.found.is_none_or(ended)
    }
}

impl Refusal {
    /// Is it about this instant only, so that the same call can succeed later?
    pub fn is_temporary(&self) -> bool {
        matches!(self.reason, Reason::Exhausted | Reason::TableFull | Reason::Penalized)
    }
}
