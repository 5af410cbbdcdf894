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
use crate::refusal::{Reason, Refusal};
use crate::sync::seeded_bug;
use crate::table::Table;
use crate::table::cell::PackedKey;
use crate::table::draw::{Admission, Backoff, Worst};
use crate::table::insert::{Fresh, Hand};
use crate::table::limits::Costs;
use crate::table::lookup::{Find, Hit};
use crate::word::Word;
use smallvec::SmallVec;
use std::ops::Deref;

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
}

/// A cell that the plan draws on.
#[derive(Debug)]
struct PlannedCell<'t> {
    owner: &'t Table,
    key: PackedKey,
    limit: u32,
    found: Option<Hit>,
    /// What was found is the cell that this plan published.
    ours: bool,
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

/// What a pure judgement of all draws came to.
enum Judged {
    /// The words after all draws, and the draws' intervals.
    Admitted { words: SmallVec<[Word; 4]>, admissions: Committed },
    /// The first stage that refuses, and which cells' words say so.
    Refused { refused: PlanRefused, because: SmallVec<[usize; 4]> },
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

    /// Adds a draw. Costs of 0 draw nothing and make no bucket.
    pub(crate) fn draw(&mut self, owner: &'t Table, limit: u32, key: PackedKey, costs: Costs) {
        if costs == [0, 0] {
            return;
        }
        let same = |cell: &PlannedCell<'t>| std::ptr::eq(cell.owner, owner) && cell.key == key;
        let cell = self.cells.iter().position(same).unwrap_or_else(|| {
            self.cells.push(PlannedCell { owner, key, limit, found: None, ours: false });
            self.cells.len() - 1
        });
        self.draws.push(Draw { cell, limit, costs, stage: self.stage });
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
        if self.draws.is_empty() {
            return Ok(Committed::default());
        }
        if self.cells.iter().any(|cell| !std::ptr::eq(cell.owner, self.cells[0].owner)) {
            self.cells.iter().for_each(|cell| cell.owner.share());
        }
        let mut fresh: SmallVec<[Fresh<'t>; 4]> = SmallVec::new();
        let mut backoff = Backoff::default();
        let mut looked_again = false;
        loop {
            for cell in &mut self.cells {
                if cell.found.is_none() {
                    cell.look();
                }
            }
            let Some(words) = self.load() else { continue };
            match self.judge(&words) {
                Judged::Refused { refused, because } => {
                    if !self.confirm(&words, &because) {
                        continue;
                    }
                    if seeded_bug!("refusal-writes") {
                        for (cell, word) in self.cells.iter().zip(&words) {
                            if let (Some(hit), Some(word)) = (cell.found, word) {
                                let word = word.0;
                                cell.owner.cell(hit.cell).word.store(word, crate::sync::Ordering::Release);
                            }
                        }
                    }
                    // A full table in an earlier stage comes first, and only taking the cells shows it.
                    match self.take(refused.stage) {
                        Ok(hands) => drop(hands),
                        Err(full) if looked_again => return Err(full),
                        Err(_) => {
                            looked_again = true;
                            continue;
                        }
                    }
                    // The search for them may have reclaimed a refilled bucket of this very call, which then
                    // needs room too.
                    if self.load().is_none() {
                        continue;
                    }
                    return Err(refused);
                }
                Judged::Admitted { words: new, admissions } => {
                    if self.cells.iter().any(|cell| cell.found.is_none()) {
                        match self.take(usize::MAX) {
                            Ok(hands) => self.publish(hands, &mut fresh),
                            Err(full) if looked_again => return Err(full),
                            Err(_) => {
                                // The keys may have got their buckets while we searched for cells.
                                looked_again = true;
                            }
                        }
                        continue;
                    }
                    if self.exchange(&words, &new) {
                        fresh.into_iter().for_each(Fresh::keep);
                        return Ok(admissions);
                    }
                    backoff.pause();
                }
            }
        }
    }

    /// The present words of all cells; `None` when some cell's life ended, so that it must be found again.
    fn load(&mut self) -> Option<SmallVec<[Option<Word>; 4]>> {
        let mut gone = false;
        let words = self
            .cells
            .iter_mut()
            .map(|cell| {
                let hit = cell.found?;
                let word = cell.owner.settled(hit.cell);
                if !word.same_life(hit.word, cell.owner.limits.layout) {
                    cell.found = None;
                    cell.ours = false;
                    gone = true;
                }
                Some(word)
            })
            .collect();
        (!gone).then_some(words)
    }

    /// Judges all draws on `words`, in order, each seeing those before it. Writes nothing.
    fn judge(&self, words: &[Option<Word>]) -> Judged {
        // The clock after the words, and once for all cells of a table.
        let mut times: SmallVec<[u64; 4]> = SmallVec::new();
        for (i, cell) in self.cells.iter().enumerate() {
            let same = (0..i).find(|&j| std::ptr::eq(self.cells[j].owner, cell.owner));
            times.push(same.map_or_else(|| cell.owner.clock.now(), |j| times[j]));
        }
        let mut buckets: SmallVec<[_; 4]> = self
            .cells
            .iter()
            .zip(words)
            .map(|(cell, word)| match word {
                Some(word) => cell.owner.limits.read(*word),
                None => cell.owner.limits.absent(cell.limit),
            })
            .collect();
        let mut admissions = Committed::default();
        let mut refused = Worst::default();
        let mut because = SmallVec::new();
        let mut stage = 0;
        for draw in &self.draws {
            if draw.stage != stage {
                if refused.0.is_some() {
                    break;
                }
                stage = draw.stage;
            }
            let (cell, now) = (&self.cells[draw.cell], times[draw.cell]);
            let bucket = &mut buckets[draw.cell];
            for lane in 0..2 {
                let cost = draw.costs[lane];
                if cost == 0 {
                    continue;
                }
                match bucket.draw(lane, cost, now) {
                    Ok(drawn) => admissions.0.push(Admission::new(drawn, bucket.arithmetic(lane), now)),
                    Err(decision) => {
                        refused.offer(|| cell.owner.explain(decision, draw.limit, lane, cost, now));
                        because.push(draw.cell);
                    }
                }
            }
        }
        if let Some(refusal) = refused.0 {
            let refusal = self.summed_refusal(stage, words, &times).unwrap_or(refusal);
            return Judged::Refused { refused: PlanRefused { stage, refusal }, because };
        }
        let new = self.cells.iter().zip(words).zip(&buckets);
        let words = new
            .map(|((cell, word), bucket)| match word {
                Some(word) => cell.owner.limits.drawn(*word, bucket),
                None => Word(0), // not used: the cell is made first, and judged again
            })
            .collect();
        Judged::Admitted { words, admissions }
    }

    /// Why `stage` refuses, where some bucket is drawn on more than once: draws on one bucket are summed, so two
    /// that fit one by one can be impossible together, and a refusal speaks of what they need together.
    #[cold]
    fn summed_refusal(&self, stage: usize, words: &[Option<Word>], times: &[u64]) -> Option<Refusal> {
        if self.draws.len() == self.cells.len() {
            return None; // each bucket is drawn on once
        }
        let mut refused = Worst::default();
        for draw in self.draws.iter().filter(|draw| draw.stage == stage) {
            let (cell, now) = (&self.cells[draw.cell], times[draw.cell]);
            let costs = self.summed_costs(draw);
            for lane in (0..2).filter(|&lane| draw.costs[lane] > 0) {
                let whole = costs[lane];
                let mut bucket = match words[draw.cell] {
                    Some(word) => cell.owner.limits.read(word),
                    None => cell.owner.limits.absent(cell.limit),
                };
                if let Err(decision) = bucket.draw(lane, whole, now) {
                    refused.offer(|| cell.owner.explain(decision, draw.limit, lane, whole, now));
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
    fn confirm(&mut self, words: &[Option<Word>], because: &[usize]) -> bool {
        because.iter().all(|&i| {
            let cell = &self.cells[i];
            match (cell.found, words[i]) {
                (Some(hit), Some(word)) => {
                    let confirmed = cell.owner.cell(hit.cell).confirm(word).is_ok();
                    if confirmed {
                        cell.owner.renew(hit.cell, word);
                    }
                    confirmed
                }
                // Refused although it has no bucket: too much for a full one.
                _ => true,
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
            match table.take(&cell.key, table.clock.now()) {
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
    fn publish(&mut self, hands: SmallVec<[(usize, Hand<'t>); 2]>, fresh: &mut SmallVec<[Fresh<'t>; 4]>) {
        for (i, hand) in hands {
            let cell = &mut self.cells[i];
            let table: &'t Table = cell.owner;
            let mut hand = Some(hand);
            while let Some(held) = hand.take() {
                match table.vacancy(&cell.key) {
                    Err(hit) => cell.found = Some(hit),
                    Ok(vacancy) => match held.publish(&cell.key, cell.limit, vacancy) {
                        Ok((new, hit)) => {
                            fresh.push(new);
                            cell.found = Some(hit);
                            cell.ours = true;
                        }
                        Err(back) => hand = Some(back),
                    },
                }
            }
        }
    }

    /// Changes all words together, or none.
    fn exchange(&self, old: &[Option<Word>], new: &[Word]) -> bool {
        let changes = self.cells.iter().zip(old).zip(new).map(|((cell, old), new)| {
            let hit = cell.found.expect("all cells were found");
            let word = old.expect("and loaded");
            (cell.owner, cell.owner.cell(hit.cell), word, *new)
        });
        if self.cells.len() == 1 || seeded_bug!("cell-by-cell") {
            return changes.into_iter().all(|(_, cell, old, new)| cell.exchange(old, new).is_ok());
        }
        let mut entries: SmallVec<[Entry; 4]> = changes
            .map(|(owner, cell, old, new)| {
                Entry::new(&cell.word, old, new, old.reserved_part(owner.limits.layout))
            })
            .collect();
        // SAFETY: the plan borrows every table it draws on.
        unsafe { commit::commit(&mut entries) }
    }
}

impl PlannedCell<'_> {
    fn look(&mut self) {
        if let Find::Hit(hit) = self.owner.find(&self.key) {
            self.found = Some(hit);
        }
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
        matches!(self.reason, Reason::Exhausted | Reason::TableFull)
    }
}
