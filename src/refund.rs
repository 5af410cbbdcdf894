//! Refunds: giving back what a draw took and time has not given back already.
//!
//! A draw ends at the mark `top`. Of what it took the line has released again whatever lies at or below `accrued(t)`, and a
//! refund of that too would let a full bucket and its refund be drawn in one burst. A refund lowers the bucket's mark, so
//! the draws of others may come to lie above the mark, and what is refunded of theirs later must not reach below it twice:
//! the bucket counts all units that were ever refunded to it, `R`, and
//!
//! > refund = clamp((top - (R now - R at the draw)) - accrued(t), 0, cost); `mark' = mark - refund`, `R' = R + refund`.
//!
//! Of a bucket that time never refills everything comes back, in whatever order and without end: its intervals lie nowhere in
//! time, and its mark is only the sum of what is out.
//!
//! A mark never falls below `accrued(t)` by that: it is at least `top` less what was refunded since. A word never repeats,
//! since `R` only grows within a life of the bucket. When `R` has no room for more, nothing more is refunded. A bucket whose
//! life ended since the draw was full at some time since, so there is nothing left to refund.

use crate::commit::{self, Entry};
use crate::sync::seeded_bug;
use crate::table::Table;
use crate::table::draw::Backoff;
use crate::table::limits::State;
use crate::word::Word;
use smallvec::SmallVec;

/// What a committed draw on a refundable bucket leaves behind, so that it can be refunded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Receipt {
    pub(crate) cell: u32,
    /// Which life of the cell it was.
    pub(crate) life: Word,
    /// The key's hash: where its bucket is looked for.
    pub(crate) hash: u64,
    /// The bucket before the draw.
    pub(crate) before: State,
    /// The interval that the draw owns; it ends at the mark after it.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A refund to one bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refunded {
    pub(crate) before: State,
    pub(crate) after: State,
}

/// Refunds draws to the buckets that they were taken from, all at one instant, which is returned. `None` for those of which
/// nothing is left to refund.
///
/// Lock-free and linearizable, as a plan is.
pub(crate) fn refund(draws: &[(&Table, Receipt)]) -> (u64, SmallVec<[Option<Refunded>; 2]>) {
    let mut backoff = Backoff::default();
    loop {
        let words: SmallVec<[Option<Word>; 2]> =
            draws.iter().map(|(table, receipt)| table.same_life_word(receipt)).collect();
        // After the words, so that no mark in them is newer than the time.
        let now = draws.first().map_or(0, |(table, _)| table.clock.now());
        let changes: SmallVec<[Option<Refunded>; 2]> = draws
            .iter()
            .zip(&words)
            .map(|((table, receipt), word)| word.and_then(|word| table.refunded(receipt, word, now)))
            .collect();
        if exchange(draws, &words, &changes) {
            for ((table, receipt), _) in draws.iter().zip(&changes).filter(|(_, change)| change.is_some()) {
                // Refilled earlier than any gate knows.
                if !seeded_bug!("refund-behind-gates") {
                    table.lower_gates_of(receipt.cell, receipt.hash);
                }
            }
            return (now, changes);
        }
        backoff.pause();
    }
}

/// Changes the words of all buckets that get something back, or none.
fn exchange(draws: &[(&Table, Receipt)], words: &[Option<Word>], changes: &[Option<Refunded>]) -> bool {
    let mut entries: SmallVec<[(&Table, u32, Word, Word); 2]> = SmallVec::new();
    for (((table, receipt), word), change) in draws.iter().zip(words).zip(changes) {
        if let (Some(word), Some(change)) = (word, change) {
            entries.push((table, receipt.cell, *word, table.limits.with_state(*word, change.after)));
        }
    }
    match entries.as_slice() {
        [] => true,
        [(table, cell, old, new)] => table.cell(*cell).exchange(*old, *new).is_ok(),
        [first, rest @ ..] => {
            if rest.iter().any(|other| !std::ptr::eq(other.0, first.0)) {
                entries.iter().for_each(|(table, ..)| table.share());
            }
            entries.sort_unstable_by_key(|(table, cell, ..)| std::ptr::from_ref(table.cell(*cell)));
            let entries = entries.iter().map(|(table, cell, old, new)| {
                Entry::new(&table.cell(*cell).word, *old, *new, old.reserved_part(table.limits.layout))
            });
            // SAFETY: the caller borrows every table.
            unsafe { commit::commit(entries) }
        }
    }
}

impl Table {
    /// The word of the bucket that was drawn on, without a marker; `None` when its life ended since.
    fn same_life_word(&self, receipt: &Receipt) -> Option<Word> {
        let word = self.settled(receipt.cell);
        let same = seeded_bug!("refund-to-another-life") || word.same_life(receipt.life, self.limits.layout);
        same.then_some(word)
    }

    /// What the bucket gets back; `None` for nothing.
    fn refunded(&self, receipt: &Receipt, word: Word, now: u64) -> Option<Refunded> {
        let buckets = self.limits.read(word);
        let before = buckets.state();
        let since = before.refunded.saturating_sub(receipt.before.refunded); // it only grows
        let since = if seeded_bug!("refunds-ignored") { 0 } else { since };
        let owed = receipt.to.saturating_sub(since);
        let (line, cost) = (buckets.arithmetic(0), receipt.to - receipt.from);
        let most = self.limits.most_refunded();
        let back = if line.refills() || seeded_bug!("release-by-place") {
            owed.saturating_sub(line.accrued(now)).min(cost).min(most - before.refunded)
        } else {
            cost
        };
        let counted = if seeded_bug!("refund-uncounted") { 0 } else { back };
        // It wraps only where nothing is computed with it. A word could repeat then after that many units, as with a
        // generation.
        let refunded = before.refunded.wrapping_add(counted) & most;
        let after = State { mark: before.mark - back, refunded };
        (back > 0).then_some(Refunded { before, after })
    }
}
