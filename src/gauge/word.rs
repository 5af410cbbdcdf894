//! The word of a gauge: an amount, a version, a slot.
//!
//! | high | | | low |
//! |---|---|---|---|
//! | used 60 | version 32 | slot 32 | flags 4 |
//!
//! A marker takes the place of the amount, and of as much of the version as it needs besides.

use crate::sync::Bits;
use crate::word::{FLAGS, MARKER, WORD, Word};

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod widths {
    pub(super) const USED: u32 = 60;
    pub(super) const SLOT: u32 = 32;
    pub(super) const VERSION: u32 = 32;
}
/// The model's narrow fields.
#[cfg(any(tollgate_loom, tollgate_shuttle))]
mod widths {
    pub(super) const USED: u32 = 28;
    pub(super) const SLOT: u32 = 8;
    pub(super) const VERSION: u32 = 24;
}
use widths::{SLOT, USED, VERSION};
const _: () = assert!(USED + VERSION + SLOT + FLAGS == WORD);
const _: () = assert!(MARKER <= USED + VERSION, "a marker leaves the slot and the flags");

/// The most that a word counts; of what is more it says so much.
pub(super) const COUNTABLE: u64 = (1 << USED) - 1;

const fn ones(bits: u32) -> Bits {
    (1 << bits) - 1
}

/// A word's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeterWord(Word);

impl MeterWord {
    /// The first word of a gauge.
    pub(super) fn new(used: u64, slot: u32) -> Self {
        Self(Word(0)).with(used, 0, slot)
    }

    pub(super) fn from_bits(bits: Bits) -> Self {
        Self(Word(bits))
    }
    pub(super) fn bits(self) -> Bits {
        self.0.0
    }
    pub(super) fn as_word(self) -> Word {
        self.0
    }
    pub(super) fn is_reserved(self) -> bool {
        self.0.is_reserved()
    }

    /// The amount. The word must not be reserved.
    pub(super) fn used(self) -> u64 {
        (self.0.0 >> (WORD - USED)) as u64
    }

    pub(super) fn slot(self) -> u32 {
        ((self.0.0 >> FLAGS) & ones(SLOT)) as u32
    }

    fn version(self) -> Bits {
        (self.0.0 >> (FLAGS + SLOT)) & ones(VERSION)
    }

    fn with(self, used: u64, version: Bits, slot: u32) -> Self {
        debug_assert!(Bits::from(used) <= Bits::MAX >> (WORD - USED) && Bits::from(slot) <= ones(SLOT));
        let flags = self.0.0 & ones(FLAGS);
        let high = Bits::from(used) << (WORD - USED) | (version & ones(VERSION)) << (FLAGS + SLOT);
        Self(Word(high | (Bits::from(slot) & ones(SLOT)) << FLAGS | flags))
    }

    /// The next version of it.
    pub(super) fn changed(self, used: u64, slot: u32) -> Self {
        self.with(used, self.version().wrapping_add(1), slot)
    }

    /// What a marker keeps of it.
    pub(super) fn reserved_part(self) -> Bits {
        self.0.reserved_below(WORD - MARKER)
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_word_gives_back_what_it_was_given_and_never_repeats(
            used in 0..=COUNTABLE, later in 0..=COUNTABLE, slot: u32, next: u32
        ) {
            let word = MeterWord::new(used, slot);
            prop_assert_eq!((word.used(), word.slot(), word.version()), (used, slot, 0));
            let changed = word.changed(later, next);
            prop_assert_eq!((changed.used(), changed.slot(), changed.version()), (later, next, 1));
            prop_assert_ne!(changed.changed(used, slot), word);
        }

        #[test]
        fn a_marker_leaves_the_slot(
            used in 0..=COUNTABLE, slot: u32, descriptor in 0u32..1 << 18, sequence in 0u64..1 << 46
        ) {
            let word = MeterWord::new(0, slot).changed(used, slot);
            let marker = Word::marker(word.reserved_part(), descriptor, sequence);
            prop_assert!(marker.is_reserved() && !word.is_reserved());
            prop_assert_eq!((marker.marker_descriptor(), marker.marker_sequence()), (descriptor, sequence));
            prop_assert_eq!(MeterWord(marker).slot(), slot);
        }
    }
}
