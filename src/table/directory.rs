//! The directory: from a key's hash to its cell.
//!
//! One array of entries for each shard, probed linearly from the hash; EMPTY ends a search. An entry is written
//! once, by the exchange that publishes a cell, and is void as soon as its cell's generation moves on: a void
//! entry is its own tombstone, and marking it is only a hint. Entries never go back to EMPTY within one life of
//! an array, so two inserts of one key meet at one entry.
//!
//! Arrays are recycled and never freed while the table lives, so a reader needs no pin. What tells an array's
//! lives apart is a counter that its exclusive owner bumps at reset; EMPTY and SEALED entries and the shard's
//! directory word carry it, and a reader that meets another life starts again.

use super::slab::Slab;
use crate::append::AppendList;
use crate::sync::{AtomicU32, AtomicU64, MODEL, Ordering, seeded_bug};
use crate::word::PAIR_GENERATION;
use std::sync::OnceLock;

/// Bits of an entry, low to high: cell index, generation, fingerprint, kind.
const INDEX: u32 = 24;
const FINGERPRINT: u32 = 22;
const KIND_SHIFT: u32 = 62;
/// Bits of an array's life. A reader would have to sleep through exactly 2^40 resets of one array to be misled.
const LIFE: u32 = 64 - INDEX;
const _: () = assert!(INDEX + PAIR_GENERATION + FINGERPRINT <= KIND_SHIFT);

/// The most cells of a table: what an entry's index can name.
pub(crate) const MOST_CELLS: usize = 1 << INDEX;
/// The largest array: its probe starts are taken from the fingerprint.
const LARGEST: u32 = FINGERPRINT;

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
pub(crate) struct Entry(u64);

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
    const TOMBSTONE: Entry = Entry(2 << KIND_SHIFT);

    pub(crate) fn cell(fingerprint: u64, generation: u64, index: u32) -> Self {
        let cell = fingerprint << (INDEX + PAIR_GENERATION) | generation << INDEX | u64::from(index);
        Self(1 << KIND_SHIFT | cell)
    }
    fn empty(life: u64) -> Self {
        Self(life)
    }
    fn sealed(life: u64) -> Self {
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

/// A shard's directory word: which array, in which life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryWord(pub(crate) u64);

impl DirectoryWord {
    pub(crate) fn new(array: u32, life: u64) -> Self {
        Self(life << INDEX | u64::from(array))
    }
    #[inline]
    pub(crate) fn array(self) -> u32 {
        (self.0 & ones(INDEX)) as u32
    }
    #[inline]
    pub(crate) fn life(self) -> u64 {
        self.0 >> INDEX
    }
}

/// An array of entries. Its storage is set once, by whoever claimed it.
#[derive(Debug, Default)]
pub(crate) struct Array {
    entries: OnceLock<Slab<AtomicU64>>,
    /// Slots used in this life, void ones too. Counts after the fact: a hint for when to rebuild.
    used: AtomicU32,
    life: AtomicU64,
    /// The next array of the spare list, plus 1.
    next_spare: AtomicU32,
}

impl Array {
    #[inline]
    pub(crate) fn entries(&self) -> &[AtomicU64] {
        self.entries.get().expect("an array has its storage before its number is passed on")
    }

    fn log2_length(&self) -> u32 {
        self.entries().len().ilog2()
    }

    #[inline]
    pub(crate) fn load(&self, slot: usize) -> Entry {
        // Acquire: pairs with the publishing exchange, so that the cell's live word and key are visible.
        // A relaxed load here lets a second thread miss the key and make a second cell.
        let order = if seeded_bug!("entry-relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        Entry(self.entries()[slot].load(order))
    }

    /// Puts `entry` into a slot that was seen empty.
    pub(crate) fn publish(&self, slot: usize, life: u64, entry: Entry) -> bool {
        let done = self.entries()[slot]
            .compare_exchange(Entry::empty(life).0, entry.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if done {
            self.used.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// Notes that `entry` is void. A hint: it may be lost when a rebuild copies the slot.
    pub(crate) fn bury(&self, slot: usize, entry: Entry) {
        let _ = self.entries()[slot].compare_exchange(
            entry.0,
            Entry::TOMBSTONE.0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Closes a slot that was seen empty. False when somebody used it meanwhile.
    pub(crate) fn seal(&self, slot: usize, life: u64) -> bool {
        self.entries()[slot]
            .compare_exchange(
                Entry::empty(life).0,
                Entry::sealed(life).0,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// Are so many slots used that probes get long?
    pub(crate) fn is_crowded(&self) -> bool {
        self.used.load(Ordering::Relaxed) as usize >= most_used(self.entries().len())
    }

    /// Begins the next life: all slots empty. Only the exclusive owner may. Returns the life.
    fn reset(&self) -> u64 {
        let step = if seeded_bug!("one-life") { 0 } else { 1 };
        let life = (self.life.load(Ordering::Relaxed) + step) & ones(LIFE);
        self.life.store(life, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
        for entry in self.entries() {
            // Release: a reader of the former life that meets this value sees a directory word that has moved.
            entry.store(Entry::empty(life).0, Ordering::Release);
        }
        life
    }

    /// Adds a copied entry. Only the exclusive owner may, before the array is installed. False when crowded.
    pub(crate) fn copy_in(&self, entry: Entry) -> bool {
        if self.is_crowded() {
            return false;
        }
        let entries = self.entries();
        let mask = entries.len() - 1;
        let mut slot = entry.fingerprint() as usize & mask;
        while matches!(Entry(entries[slot].load(Ordering::Relaxed)).slot(), Slot::Cell(_)) {
            slot = (slot + 1) & mask;
        }
        // Release: a reader of the array's former life that meets this entry must not go on to a slot of that
        // life and take the key for absent.
        entries[slot].store(entry.0, Ordering::Release);
        self.used.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Three quarters: linear probing then looks at 8.5 slots for a key that is absent.
fn most_used(length: usize) -> usize {
    length - length / 4
}

/// The size of an array for `cells` cells: at most half full, so that a quarter is left before it is crowded.
///
/// Directories begin at the least size and grow with their keys: entries that lie close together share cache lines,
/// and a table that nobody uses takes little memory.
pub(crate) fn log2_length_for(cells: usize) -> u32 {
    let least = if MODEL { 4 } else { 64 };
    (cells * 2).max(least).next_power_of_two().ilog2().min(LARGEST)
}

/// All arrays of a table, and the spare ones by size.
#[derive(Debug)]
pub(crate) struct Arrays {
    all: AppendList<Array>,
    /// For each size, the first spare array plus 1, under a tag that changes with every exchange.
    spares: [AtomicU64; LARGEST as usize + 1],
}

impl Arrays {
    pub(crate) fn new() -> Self {
        Self { all: AppendList::new(), spares: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    #[inline]
    pub(crate) fn get(&self, array: u32) -> &Array {
        self.all.get(array)
    }

    /// An array of that size, all slots empty, owned by the caller alone until it installs or gives it back.
    ///
    /// `None` when 2^24 arrays exist, which takes as many rebuilds at once.
    pub(crate) fn take(&self, log2_length: u32) -> Option<(DirectoryWord, &Array)> {
        if let Some(number) = self.pop(log2_length) {
            let array = self.get(number);
            return Some((DirectoryWord::new(number, array.reset()), array));
        }
        let (number, array) = self.all.claim(1 << INDEX)?;
        // The claim is this caller's alone, so it is not set yet.
        let _ = array.entries.set(Slab::new(1 << log2_length));
        // Zeroed slots are EMPTY of life 0.
        Some((DirectoryWord::new(number, 0), array))
    }

    fn pop(&self, log2_length: u32) -> Option<u32> {
        let head = &self.spares[log2_length as usize];
        let mut seen = head.load(Ordering::Acquire);
        loop {
            let first = (seen & ones(INDEX + 1)) as u32;
            if first == 0 {
                return None;
            }
            let next = self.get(first - 1).next_spare.load(Ordering::Relaxed);
            match head.compare_exchange_weak(seen, retag(seen, next), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(first - 1),
                Err(found) => seen = found,
            }
        }
    }

    /// Gives an array back for another life. Only its exclusive owner may.
    pub(crate) fn give_back(&self, number: u32) {
        let array = self.get(number);
        let head = &self.spares[array.log2_length() as usize];
        let mut seen = head.load(Ordering::Relaxed);
        loop {
            array.next_spare.store((seen & ones(INDEX + 1)) as u32, Ordering::Relaxed);
            match head.compare_exchange_weak(
                seen,
                retag(seen, number + 1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    /// Bytes of all arrays.
    pub(crate) fn memory_bytes(&self) -> usize {
        (0..self.all.len())
            .map(|number| {
                // An array that is just being claimed has no storage yet.
                let entries = self.get(number).entries.get().map_or(0, |slab| slab.len());
                size_of::<Array>() + entries * size_of::<AtomicU64>()
            })
            .sum()
    }
}

/// The head with another first element and the next tag.
fn retag(head: u64, first: u32) -> u64 {
    let tag = (head >> (INDEX + 1)).wrapping_add(1);
    tag << (INDEX + 1) | u64::from(first)
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
        fn empty_and_sealed_carry_the_life(life in 0u64..1 << 40) {
            prop_assert_eq!(Entry::empty(life).slot(), Slot::Empty { life });
            prop_assert_eq!(Entry::sealed(life).slot(), Slot::Sealed { life });
            let word = DirectoryWord::new(77, life);
            prop_assert_eq!((word.array(), word.life()), (77, life));
        }
    }

    #[test]
    fn an_array_has_another_life_each_time_it_is_taken() {
        let arrays = Arrays::new();
        let (first, _) = arrays.take(3).unwrap();
        arrays.give_back(first.array());
        let (second, array) = arrays.take(3).unwrap();
        assert_eq!(second.array(), first.array());
        assert_eq!(second.life(), first.life() + 1);
        assert_eq!(array.load(0).slot(), Slot::Empty { life: second.life() });
        assert!(
            !array.publish(0, first.life(), Entry::cell(0, 0, 0)),
            "a publisher of the former life fails"
        );
    }
}
