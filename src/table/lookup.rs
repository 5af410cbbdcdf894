//! Finding a key's cell.
//!
//! The order of loads is what makes a hit or a miss true: directory word, entry, word, key bytes. What is found
//! is a claim about one life of one cell; the exchange or the confirmation that follows validates it.

use super::Table;
use super::cell::PackedKey;
use super::directory::{DirectoryWord, Entry, Slot, fingerprint};
use crate::sync::seeded_bug;
use crate::word::Word;

/// What a search for a key ended at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Find {
    /// The key's cell, and its word when the key was compared (perhaps a marker).
    Hit(Hit),
    /// No cell; here one can be published.
    Miss(Vacancy),
    /// No cell, and no slot to publish one: the directory must be rebuilt.
    Sealed(DirectoryWord),
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Hit {
    pub(crate) cell: u32,
    pub(crate) word: Word,
}

/// An empty slot at the end of a key's probe sequence.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Vacancy {
    pub(crate) directory: DirectoryWord,
    pub(crate) slot: usize,
}

impl Table {
    #[inline(always)]
    pub(crate) fn find(&self, key: &PackedKey<'_>) -> Find {
        let shard = self.shard_of(key);
        let print = fingerprint(key.hash);
        'restart: loop {
            let directory = self.directory_of(shard);
            let array = self.arrays.get(directory);
            let mask = array.entries().len() - 1;
            let mut slot = print as usize & mask;
            for _ in 0..=mask {
                let entry = array.load(slot);
                // One comparison for what nearly every search ends at.
                if entry.is_cell_of(print) {
                    if let Some(word) = self.matches(entry, key) {
                        return Find::Hit(Hit { cell: entry.index(), word });
                    }
                }
                match entry.slot() {
                    Slot::Cell(_) | Slot::Tombstone => {}
                    Slot::Empty { life } if life == directory.life() => {
                        return Find::Miss(Vacancy { directory, slot });
                    }
                    Slot::Sealed { life } if life == directory.life() => break,
                    // The array has begun another life: the directory word has moved.
                    Slot::Empty { .. } | Slot::Sealed { .. } => continue 'restart,
                }
                slot = (slot + 1) & mask;
            }
            // Sealed or full: a miss only if this still is the directory.
            if self.directory_of(shard) == directory {
                return Find::Sealed(directory);
            }
        }
    }

    /// The entry's cell's word, if the entry counts and the cell holds `key`.
    #[inline]
    fn matches(&self, entry: Entry, key: &PackedKey<'_>) -> Option<Word> {
        let cell = self.cell(entry.index());
        let word = cell.load();
        let same = seeded_bug!("no-generation") || word.entry_generation() == entry.generation();
        let counts = word.is_live() && same;
        (counts && cell.holds(word, key, || self.tail(entry.index()), self.limits.layout)).then_some(word)
    }

    /// Where `key`'s cell can be published, or the cell it has. Rebuilds the directory as needed.
    pub(crate) fn vacancy(&self, key: &PackedKey<'_>) -> Result<Vacancy, Hit> {
        loop {
            match self.find(key) {
                Find::Hit(hit) => return Err(hit),
                Find::Miss(vacancy) if self.arrays.get(vacancy.directory).is_crowded() => {
                    self.rebuild(self.shard_of(key), vacancy.directory);
                }
                Find::Miss(vacancy) => return Ok(vacancy),
                Find::Sealed(directory) => self.rebuild(self.shard_of(key), directory),
            }
        }
    }
}
