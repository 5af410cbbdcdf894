//! The directory's words: what a slot holds, and which array a shard's directory is.
//!
//! One array of entries for each shard, probed linearly from the hash; EMPTY ends a search. An entry is written
//! once, by the exchange that publishes a cell, and is void as soon as its cell's generation moves on: a void
//! entry is its own tombstone, and marking it is only a hint. Entries never go back to EMPTY within one life of
//! an array, so two inserts of one key meet at one entry.
//!
//! Arrays are recycled and never freed while the table lives, so a reader needs no pin (see [`arrays`](super::arrays)).
//! What tells an array's lives apart is a counter that its exclusive owner bumps at reset; EMPTY and SEALED entries and
//! the shard's directory word carry it, and a reader that meets another life starts again.

use crate::word::PAIR_GENERATION;

/// Bits of an entry, low to high: cell index, generation, fingerprint, kind.
const INDEX: u32 = 24;
const FINGERPRINT: u32 = 22;
const KIND_SHIFT: u32 = 62;
/// Bits of a directory word, low to high: where its array begins, the logarithm of its length, its life.
const PLACE: u32 = 25;
const LOG2_LENGTH: u32 = 5;
/// Bits of an array's life. A reader would have to sleep through exactly 2^34 resets of one array to be misled.
const LIFE: u32 = 64 - PLACE - LOG2_LENGTH;
const _: () = assert!(INDEX + PAIR_GENERATION + FINGERPRINT <= KIND_SHIFT);

/// The most cells of a table: what an entry's index can name.
pub(crate) const MOST_CELLS: usize = 1 << INDEX;
/// The largest array: its probe starts are taken from the fingerprint.
pub(super) const LARGEST: u32 = FINGERPRINT;
/// Places where arrays can begin.
pub(super) const PLACES: u32 = 1 << PLACE;

const fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The part of a key's hash that entries keep: probe start and filter.
#[inline]
pub(crate) fn fingerprint(hash: u64) -> u64 {
    hash & ones(FINGERPRINT)
}

/// One slot's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry(pub(super) u64);

/// What a slot can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nothing yet, in that life of the array: a search ends here.
    Empty { life: u64 },
    /// A cell, if its generation is still that of the entry.
    Cell(Entry),
    /// Known to be void.
    Tombstone,
    /// Nothing, and nothing can be put here any more: a rebuild has passed, in that life.
    Sealed { life: u64 },
}

impl Entry {
    pub(super) const TOMBSTONE: Entry = Entry(2 << KIND_SHIFT);

    pub(crate) fn cell(fingerprint: u64, generation: u64, index: u32) -> Self {
        let cell = fingerprint << (INDEX + PAIR_GENERATION) | generation << INDEX | u64::from(index);
        Self(1 << KIND_SHIFT | cell)
    }
    pub(super) fn empty(life: u64) -> Self {
        Self(life)
    }
    pub(super) fn sealed(life: u64) -> Self {
        Self(3 << KIND_SHIFT | life)
    }

    #[inline]
    pub(crate) fn slot(self) -> Slot {
        let life = self.0 & ones(KIND_SHIFT);
        match self.0 >> KIND_SHIFT {
            0 => Slot::Empty { life },
            1 => Slot::Cell(self),
            2 => Slot::Tombstone,
            _ => Slot::Sealed { life },
        }
    }
    pub(super) fn is_cell(self) -> bool {
        self.0 >> KIND_SHIFT == 1
    }
    /// Is it a cell of a key with this fingerprint?
    #[inline]
    pub(crate) fn is_cell_of(self, fingerprint: u64) -> bool {
        const LOW: u32 = INDEX + PAIR_GENERATION;
        self.0 >> LOW == 1 << (KIND_SHIFT - LOW) | fingerprint
    }
    #[inline]
    pub(crate) fn index(self) -> u32 {
        (self.0 & ones(INDEX)) as u32
    }
    #[inline]
    pub(crate) fn generation(self) -> u64 {
        self.0 >> INDEX & ones(PAIR_GENERATION)
    }
    #[inline]
    pub(crate) fn fingerprint(self) -> u64 {
        self.0 >> (INDEX + PAIR_GENERATION) & ones(FINGERPRINT)
    }
}

/// A shard's directory word: where its array lies, how long it is, and in which life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryWord(pub(crate) u64);

impl DirectoryWord {
    pub(super) fn new(place: u32, log2_length: u32, life: u64) -> Self {
        Self((life << LOG2_LENGTH | u64::from(log2_length)) << PLACE | u64::from(place))
    }
    #[inline]
    pub(super) fn place(self) -> u32 {
        (self.0 & ones(PLACE)) as u32
    }
    #[inline]
    pub(super) fn log2_length(self) -> u32 {
        (self.0 >> PLACE & ones(LOG2_LENGTH)) as u32
    }
    #[inline]
    pub(crate) fn life(self) -> u64 {
        self.0 >> (PLACE + LOG2_LENGTH)
    }
}

/// The life after `life`.
pub(super) fn next_life(life: u64) -> u64 {
    (life + 1) & ones(LIFE)
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_gives_back_what_it_was_made_of(
            print in 0u64..1 << FINGERPRINT, generation in 0u64..1 << PAIR_GENERATION, index in 0u32..1 << INDEX
        ) {
            let entry = Entry::cell(print, generation, index);
            prop_assert_eq!((entry.fingerprint(), entry.generation(), entry.index()), (print, generation, index));
            prop_assert_eq!(entry.slot(), Slot::Cell(entry));
            prop_assert!(entry.is_cell_of(print) && !entry.is_cell_of(print ^ 1));
            prop_assert!(!Entry(entry.0 | Entry::TOMBSTONE.0).is_cell_of(print));
        }

        #[test]
        fn a_directory_word_gives_back_what_it_was_made_of(
            place in 0..PLACES, log2_length in 0..=LARGEST, life in 0u64..1 << LIFE
        ) {
            let word = DirectoryWord::new(place, log2_length, life);
            prop_assert_eq!((word.place(), word.log2_length(), word.life()), (place, log2_length, life));
        }

        #[test]
        fn empty_and_sealed_carry_the_life(life in 0u64..1 << LIFE) {
            prop_assert_eq!(Entry::empty(life).slot(), Slot::Empty { life });
            prop_assert_eq!(Entry::sealed(life).slot(), Slot::Sealed { life });
        }
    }
}
