//! Gauges: what was used of one limit in the window that counts now, changed together by the multi-word commit.
//!
//! A gauge has a *total*: the slot that it was brought up to, and what was used in the slots that count then. If earlier
//! slots count too, a *ring* has what was used in each:
//!
//! ```text
//! total: [ used | version | slot k ]            ring: [ used | version | slot ]  x reach + 1, slot j at place j mod (reach + 1)
//!
//! total.used = sum of the ring's words whose slot is in k - reach ..= k
//! ```
//!
//! Whoever changes a gauge in a later slot k' subtracts the slots before k' - reach in the same commit; their words stay as they
//! are until their place is needed for a slot that is reach + 1 later. Every change of a ring's word changes the total
//! too, and every change of a word its version. So a total that did not change vouches for the whole ring, and words
//! never repeat, which the commit asks for.
//!
//! A word counts up to [`COUNTABLE`]. One that is there is *pinned*: more was used than it can say, so nothing that is given
//! back lowers it. It goes when its slot lapses; a total is what the ring adds up to then.
//!
//! Judging and changing several gauges is one step to everybody else: words first, then the clock, then the judgement, then
//! the commit of all words; a refusal rests on words that were seen unchanged afterwards.

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;
mod word;

use crate::commit::{self, Entry};
use crate::sync::{AtomicBits, MODEL, Ordering, fence, seeded_bug};
use crate::table::draw::Backoff;
use crossbeam_epoch as epoch;
use smallvec::SmallVec;
use std::mem::ManuallyDrop;
use word::{COUNTABLE, MeterWord};

/// Gauges are changed a few at a time.
const FEW: usize = 8;

/// What was used of one limit by one account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauge<'g> {
    total: &'g AtomicBits,
    /// One word for every slot that counts; none if only the current one does.
    ring: &'g [AtomicBits],
}

/// How a gauge begins.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    /// How many slots before the current one count.
    pub(crate) reach: u32,
    /// The slot it is in.
    pub(crate) slot: u32,
    /// What was used already: slots, each once, with amounts.
    pub(crate) used: Vec<(u32, u64)>,
}

impl Start {
    /// The total, and the ring.
    fn words(&self) -> impl Iterator<Item = MeterWord> {
        let newest = self.used.iter().map(|&(slot, _)| slot).fold(self.slot, u32::max);
        let counting = self.used.iter().filter(|&&(slot, _)| newest - slot <= self.reach);
        let sum = add_up(counting.clone().map(|&(_, amount)| amount));
        let places = if self.reach == 0 { 0 } else { self.reach as usize + 1 };
        let mut ring = vec![MeterWord::new(0, 0); places];
        for &(slot, amount) in counting.filter(|_| places > 0) {
            ring[slot as usize % places] = MeterWord::new(amount.min(COUNTABLE), slot);
        }
        std::iter::once(MeterWord::new(sum, newest)).chain(ring)
    }
}

/// What amounts add up to, as far as a word counts.
fn add_up(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, |sum: u64, amount| sum.saturating_add(amount)).min(COUNTABLE)
}

/// What these give back.
fn sum<'a>(give: impl Iterator<Item = &'a (u32, u64)>) -> u64 {
    give.fold(0, |sum, &(_, amount)| sum.saturating_add(amount))
}

/// What is left of a word's amount when some of it is given back.
fn less(used: u64, back: u64) -> u64 {
    if used == COUNTABLE && !seeded_bug!("pin-lowered") { COUNTABLE } else { used.saturating_sub(back) }
}

impl Gauge<'_> {
    /// Checks what holds when nobody writes: the total is what the ring adds up to.
    #[cfg(any(test, tollgate_loom, tollgate_shuttle))]
    pub(crate) fn audit(&self) {
        let total = settled(self.total);
        if self.reach() > 0 {
            let counts =
                |word: &MeterWord| word.slot() <= total.slot() && total.slot() - word.slot() <= self.reach();
            let sum = add_up(self.ring.iter().map(settled).filter(counts).map(|word| word.used()));
            assert_eq!(total.used(), sum, "the total and the ring's sum in slot {}", total.slot());
        }
    }

    /// The most that it counts.
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) const MOST: u64 = COUNTABLE;

    fn reach(&self) -> u32 {
        (self.ring.len() as u32).saturating_sub(1)
    }

    fn place(&self, slot: u32) -> usize {
        slot as usize % self.ring.len()
    }

    /// What of `total` still counts in `slot`, which is not earlier, without what is given back.
    fn counting(&self, total: MeterWord, slot: u32, give: &[(u32, u64)]) -> u64 {
        let past = slot - total.slot();
        if past > self.reach() && !seeded_bug!("lapse-ignored") {
            return 0;
        }
        if total.used() == COUNTABLE && !self.ring.is_empty() && !seeded_bug!("pin-subtracted") {
            return self.added_up(slot, give);
        }
        let back = sum(self.counted(give, slot));
        if past == 0 || seeded_bug!("lapse-ignored") {
            return less(total.used(), back);
        }
        let oldest = slot.saturating_sub(self.reach());
        let lapsed = self
            .ring
            .iter()
            .map(settled)
            .filter(|word| word.slot() < oldest && word.slot() + self.reach() >= total.slot());
        total.used().saturating_sub(lapsed.map(|word| word.used()).sum()).saturating_sub(back)
    }

    /// What the ring adds up to in `slot`: the total of one that is pinned says no more than that it is.
    fn added_up(&self, slot: u32, give: &[(u32, u64)]) -> u64 {
        let words = self.ring.iter().map(settled);
        let words = words.filter(|word| word.slot() <= slot && slot - word.slot() <= self.reach());
        add_up(words.map(|word| less(word.used(), sum(give.iter().filter(|&&(at, _)| at == word.slot())))))
    }

    /// What of `give` counts in `slot`.
    fn counted<'a>(
        &self,
        give: &'a [(u32, u64)],
        slot: u32,
    ) -> impl Iterator<Item = &'a (u32, u64)> + Clone + use<'a> {
        let reach = self.reach();
        give.iter().filter(move |&&(taken, _)| taken <= slot && slot - taken <= reach)
    }

    /// The earliest slot after which at least `much` of what counts in `slot` has lapsed with it and the slots before it.
    #[cfg(feature = "spend")]
    fn frees(&self, total: MeterWord, slot: u32, much: u64) -> Option<u32> {
        if self.ring.is_empty() {
            return (self.counting(total, slot, &[]) >= much).then_some(slot);
        }
        let mut slots: SmallVec<[(u32, u64); 64]> =
            self.ring.iter().map(settled).map(|word| (word.slot(), word.used())).collect();
        slots.retain(|&mut (at, _)| at <= slot && slot - at <= self.reach());
        slots.sort_unstable();
        let mut freed: u64 = 0;
        slots.into_iter().find_map(|(at, used)| {
            freed = freed.saturating_add(used);
            (freed >= much).then_some(at)
        })
    }
}

/// A word without a marker: whoever meets one helps its commit to the end.
fn settled(cell: &AtomicBits) -> MeterWord {
    loop {
        // Acquire: pairs with the exchange that wrote the word, so that whatever came before it, the time too, is seen.
        let word = MeterWord::from_bits(cell.load(Ordering::Acquire));
        if !word.is_reserved() {
            return word;
        }
        commit::help(cell, word.as_word());
    }
}

/// Gauges that go away together, once no commit of another thread can touch them. Their words lie together, since they are
/// changed together.
#[derive(Debug)]
pub(crate) struct Gauges {
    words: ManuallyDrop<Box<[AtomicBits]>>,
    /// Where each gauge's words begin, and where the last one's end.
    bounds: Box<[u32]>,
}

impl Gauges {
    pub(crate) fn new(starts: impl IntoIterator<Item = Start>) -> Self {
        let (mut words, mut bounds) = (Vec::new(), vec![0]);
        for start in starts {
            words.extend(start.words().map(|word| AtomicBits::new(word.bits())));
            bounds.push(u32::try_from(words.len()).expect("a few gauges of at most 62 words"));
        }
        Self { words: ManuallyDrop::new(words.into()), bounds: bounds.into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.bounds.len() - 1
    }

    pub(crate) fn gauge(&self, number: usize) -> Gauge<'_> {
        let words = &self.words[self.bounds[number] as usize..self.bounds[number + 1] as usize];
        Gauge { total: &words[0], ring: &words[1..] }
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        // SAFETY: taken once, and not used afterwards.
        let words = unsafe { ManuallyDrop::take(&mut self.words) };
        // Another thread may still be helping a commit that spans these and other gauges. (A model's threads share all of
        // them to their end, and its atomics must end with their execution.)
        if !MODEL {
            epoch::pin().defer(move || drop(words));
        }
    }
}

/// What one operation does to one gauge.
#[derive(Debug)]
pub(crate) struct Posting<'g> {
    pub(crate) gauge: Gauge<'g>,
    /// What is given back, and the slot in which it was taken. Where that counts no more, nothing is.
    pub(crate) give: SmallVec<[(u32, u64); 2]>,
}

/// A gauge as it was judged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'g> {
    gauge: Gauge<'g>,
    total: MeterWord,
    /// The current slot.
    pub(crate) slot: u32,
    /// What was used in the slots that count, without what is given back now.
    pub(crate) used: u64,
}

impl Seen<'_> {
    /// The slot with whose lapse at least `much` of what is used has lapsed; `None` if there is not so much.
    #[cfg(feature = "spend")]
    pub(crate) fn frees(&self, much: u64) -> Option<u32> {
        self.gauge.frees(self.total, self.slot, much)
    }
}

/// What a judgement takes from each gauge, in the order of the postings.
pub(crate) type Takes = SmallVec<[u64; FEW]>;

/// Gives back, judges, and takes what `judge` says from the current slot of every gauge, all at one instant: the time and what
/// was seen then are returned. Or nothing is changed, if `judge` refuses because of the gauge whose number it returns.
///
/// `now` reads a clock that does not go backwards; `slot_of` says in which slot of the numbered gauge a time lies. No
/// gauge may be posted to twice.
///
/// Lock-free and linearizable, as a plan is.
pub(crate) fn post<'g, T, A, R>(
    postings: &[Posting<'g>],
    mut now: impl FnMut() -> T,
    slot_of: impl Fn(usize, &T) -> u32,
    mut judge: impl FnMut(&T, &[Seen<'g>]) -> Result<(Takes, A), (usize, R)>,
) -> (T, Result<A, R>) {
    let mut backoff = Backoff::default();
    loop {
        let totals: SmallVec<[MeterWord; FEW]> =
            postings.iter().map(|posting| settled(posting.gauge.total)).collect();
        // After the words, so that no slot in them is later than the time.
        let time = now();
        let seen: SmallVec<[Seen<'g>; FEW]> = postings
            .iter()
            .zip(&totals)
            .enumerate()
            .map(|(number, (&Posting { gauge, ref give }, &total))| {
                let slot = slot_of(number, &time).max(total.slot());
                let used = gauge.counting(total, slot, give);
                Seen { gauge, total, slot, used }
            })
            .collect();
        match judge(&time, &seen) {
            Ok((takes, answer)) => {
                if exchange(postings, &seen, &takes) {
                    return (time, Ok(answer));
                }
            }
            Err((number, refusal)) => {
                if confirmed(&seen[number]) {
                    return (time, Err(refusal));
                }
            }
        }
        backoff.pause();
    }
}

/// Is the total as it was seen, and so the ring?
fn confirmed(seen: &Seen<'_>) -> bool {
    // The loads of the ring come before that of the total: if one of them read a later change, its release is seen here.
    fence(Ordering::Acquire);
    seeded_bug!("gauge-unconfirmed") || seen.gauge.total.load(Ordering::Relaxed) == seen.total.bits()
}

/// Changes the words of all gauges that give or take, or none.
fn exchange(postings: &[Posting<'_>], seen: &[Seen<'_>], takes: &[u64]) -> bool {
    let mut changes: SmallVec<[(&AtomicBits, MeterWord, MeterWord); 2 * FEW]> = SmallVec::new();
    for ((&Posting { gauge, ref give }, seen), &take) in postings.iter().zip(seen).zip(takes) {
        let counted = gauge.counted(give, seen.slot);
        if take == 0 && counted.clone().all(|&(_, amount)| amount == 0) {
            continue;
        }
        let after = seen.used.saturating_add(take).min(COUNTABLE);
        let advanced = seen.total.changed(after, seen.slot);
        changes.push((gauge.total, seen.total, advanced));
        if gauge.ring.is_empty() || seeded_bug!("ring-forgotten") {
            continue;
        }
        let mut slots: SmallVec<[(u32, u64, u64); 4]> = SmallVec::new();
        slots.push((seen.slot, 0, take));
        for &(slot, amount) in counted {
            match slots.iter_mut().find(|(known, ..)| *known == slot) {
                Some((_, back, _)) => *back = back.saturating_add(amount),
                None => slots.push((slot, amount, 0)),
            }
        }
        for (slot, back, take) in slots.into_iter().filter(|&(_, back, take)| back > 0 || take > 0) {
            let cell = &gauge.ring[gauge.place(slot)];
            let word = settled(cell);
            // A word of an earlier slot lapsed long ago, and its place is free. One of a later slot is of a later total: the
            // commit fails.
            let used = if word.slot() == slot || seeded_bug!("place-not-cleared") { word.used() } else { 0 };
            let used = less(used, back).saturating_add(take).min(COUNTABLE);
            changes.push((cell, word, word.changed(used, slot)));
        }
    }
    match changes.as_slice() {
        [] => true,
        [(cell, old, new)] => {
            // AcqRel: as for a draw, what was read before comes before, and the time with it.
            cell.compare_exchange(old.bits(), new.bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }
        _ if seeded_bug!("gauge-by-gauge") => changes.iter().all(|(cell, old, new)| {
            cell.compare_exchange(old.bits(), new.bits(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
        }),
        _ => {
            changes.sort_unstable_by_key(|(cell, ..)| std::ptr::from_ref(*cell));
            let entries = changes
                .iter()
                .map(|(cell, old, new)| Entry::new(cell, old.as_word(), new.as_word(), old.reserved_part()));
            // SAFETY: the caller borrows every gauge, and those that go away do so through the epoch.
            unsafe { commit::commit(entries) }
        }
    }
}
