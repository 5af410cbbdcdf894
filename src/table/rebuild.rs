//! Replacing a shard's directory by one without void entries, of the size its live cells need.
//!
//! Slot by slot the old array is either sealed (if empty) or copied (if it names a live cell), so no insert can
//! slip behind the copy; then the directory word is exchanged. Cells and marks are not touched, so draws go on
//! meanwhile. Anybody who needs a slot and meets a sealed array rebuilds too: whoever exchanges first wins, and
//! nobody waits for a thread that stopped half way.

use super::Table;
use super::arrays::{Array, log2_length_for};
use super::directory::{DirectoryWord, Entry, Slot};
use crate::sync::{Ordering, seeded_bug, stall_point};

impl Table {
    /// Replaces `old` as the shard's directory, unless it was replaced already.
    pub(crate) fn rebuild(&self, shard: usize, old: DirectoryWord) {
        let array = self.arrays.get(old);
        let mut log2_length = log2_length_for(self.count_live(array));
        while self.directory_of(shard) == old {
            let Some((new, target)) = self.arrays.take(log2_length) else {
                // All places are taken, by thousands of rebuilds at once: one of them is about to finish.
                crate::sync::spin_loop();
                continue;
            };
            match self.copy(array, old.life(), target) {
                Copied::All => {
                    stall_point!(Copied);
                    let installed = self.shards[shard]
                        .directory
                        // Release: the copied slots are visible with the word. Acquire on failure is not
                        // needed: the loop's condition loads again.
                        .compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok();
                    stall_point!(Replaced);
                    // Whoever installed owns the old array; whoever lost still owns its own.
                    let ours = if installed || seeded_bug!("loser-frees-old") { old } else { new };
                    self.arrays.give_back(ours);
                }
                Copied::TooMany => {
                    self.arrays.give_back(new);
                    log2_length += 1;
                }
                Copied::Stale => {
                    self.arrays.give_back(new);
                    return;
                }
            }
        }
    }

    fn count_live(&self, array: Array<'_>) -> usize {
        (0..array.entries().len()).filter(|&slot| self.live_entry(array, slot).is_some()).count()
    }

    fn live_entry(&self, array: Array<'_>, slot: usize) -> Option<Entry> {
        let Slot::Cell(entry) = array.load(slot).slot() else { return None };
        let word = self.cell(entry.index()).load();
        // Reserved cells count: a commit draws on them.
        if seeded_bug!("reserved-not-copied") && word.is_reserved() {
            return None;
        }
        // Fresh cells count: their inserter is about to draw on them.
        if seeded_bug!("fresh-not-copied") && word.is_fresh() {
            return None;
        }
        (word.is_live() && word.entry_generation() == entry.generation()).then_some(entry)
    }

    fn copy(&self, from: Array<'_>, life: u64, to: Array<'_>) -> Copied {
        for slot in 0..from.entries().len() {
            // Seal first: a slot that is not empty after a failed seal never becomes empty in this life.
            loop {
                match from.load(slot).slot() {
                    Slot::Empty { life: l } if l == life => {
                        if seeded_bug!("no-seal") || from.seal(slot, life) {
                            break;
                        }
                    }
                    Slot::Empty { .. } => return Copied::Stale,
                    Slot::Sealed { life: l } if l == life => break,
                    Slot::Sealed { .. } => return Copied::Stale,
                    Slot::Tombstone => break,
                    Slot::Cell(_) => {
                        if let Some(entry) = self.live_entry(from, slot) {
                            if !to.copy_in(entry) {
                                return Copied::TooMany;
                            }
                        }
                        break;
                    }
                }
            }
            stall_point!(Passed);
        }
        Copied::All
    }
}

enum Copied {
    All,
    /// More live cells than were counted: a larger array is needed.
    TooMany,
    /// The old array has begun another life: somebody else was faster.
    Stale,
}
