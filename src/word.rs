//! The word of a cell: one or two marks, a generation and flags, changed by one compare-and-swap.
//!
//! | layout | high | | | | low |
//! |---|---|---|---|---|---|
//! | pair | mark 1 | mark 0 | | generation 16 | flags 4 |
//! | lone | mark 64 | generation 40 | limit 20 | | flags 4 |
//! | refundable | mark | units refunded | generation, at least 24 | | flags 4 |
//!
//! (In the other layouts the generation's low 16 bits sit where the pair's do, so that a directory entry can be
//! checked without knowing the layout; a lone word's limit lies above its generation.)
//!
//! A refund lowers a mark, and raises the count of refunded units by as much: so words do not repeat.
//!
//! A *marker* replaces the mark bits of a word while a multi-word commit owns it: the descriptor's number and
//! sequence in the upper half, RESERVED among the flags, generation, limit and the other flags as they were.
//!
//! States of a cell, and who moves it:
//!
//! | from | to | by |
//! |---|---|---|
//! | free | live, fresh | the inserter that holds it, before it is published |
//! | live, fresh | live | the first draw, whoever makes it |
//! | live, fresh | free, generation + 1 | its inserter, giving it back undrawn |
//! | live | live | draws, refunds |
//! | live | reserved and back | a multi-word commit |
//! | live | free, generation + 1 | whoever prunes it once it is refilled |

use crate::sync::{Bits, seeded_bug};

/// Bits of a word.
pub(crate) const WORD: u32 = Bits::BITS;
pub(crate) const FLAGS: u32 = 4;

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod widths {
    pub(crate) const PAIR_GENERATION: u32 = 16;
    pub(crate) const LONE_GENERATION: u32 = 40;
    pub(crate) const REFUNDABLE_GENERATION: u32 = 24;
    pub(crate) const LIMIT: u32 = 20;
    pub(crate) const SEQUENCE: u32 = 46;
    pub(crate) const DESCRIPTOR: u32 = 18;
}
/// The model's narrow fields.
#[cfg(any(tollgate_loom, tollgate_shuttle))]
mod widths {
    pub(crate) const PAIR_GENERATION: u32 = 8;
    pub(crate) const LONE_GENERATION: u32 = 16;
    pub(crate) const REFUNDABLE_GENERATION: u32 = 16;
    pub(crate) const LIMIT: u32 = 6;
    pub(crate) const SEQUENCE: u32 = 20;
    pub(crate) const DESCRIPTOR: u32 = 8;
}
pub(crate) use widths::{DESCRIPTOR, LIMIT, PAIR_GENERATION, SEQUENCE};
use widths::{LONE_GENERATION, REFUNDABLE_GENERATION};

/// Bits that the two marks of a pair share.
pub(crate) const PAIR_MARKS: u32 = WORD - PAIR_GENERATION - FLAGS;
/// Bits of the mark of a lone word.
pub(crate) const LONE_MARK: u32 = WORD - LONE_GENERATION - LIMIT - FLAGS;
/// Bits that the mark of a refundable word and its count of refunded units share at most.
pub(crate) const REFUNDABLE_BITS: u32 = WORD - REFUNDABLE_GENERATION - FLAGS;
/// Bits that they share at least: a marker takes their place.
pub(crate) const MARKER: u32 = SEQUENCE + DESCRIPTOR;
const LIMIT_SHIFT: u32 = FLAGS + LONE_GENERATION;
const MARKER_SHIFT: u32 = WORD - MARKER;

const _: () = assert!(MARKER <= LONE_MARK && MARKER <= PAIR_MARKS, "a marker replaces mark bits only");
const _: () = assert!(MARKER <= REFUNDABLE_BITS, "a marker replaces mark bits only");
const _: () = assert!(PAIR_GENERATION <= LONE_GENERATION, "directory entries keep the pair's width");
const _: () = assert!(PAIR_GENERATION <= REFUNDABLE_GENERATION, "directory entries keep the pair's width");
const _: () = assert!(LONE_MARK <= 64 && MARKER <= 64);

const fn ones(bits: u32) -> Bits {
    if bits >= WORD { Bits::MAX } else { (1 << bits) - 1 }
}

/// The marks in the mark bits of a pair, where mark 0 has `width0` bits.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
#[inline(always)]
fn split(marks: Bits, width0: u32) -> [u64; 2] {
    // By halves: mark 1 has 64 bits at most, so only mark 0 can lie across them, and no 128-bit shift by a variable is
    // needed.
    let low = marks as u64 & (ones(UPPER) as u64);
    let (high, across) = ((marks >> UPPER) as u64, width0 - UPPER);
    [low | (high & ((1 << across) - 1)) << UPPER, high >> across]
}

/// The mark bits of a pair, where mark 0 has `width0` bits.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
#[inline(always)]
fn joined(marks: [u64; 2], width0: u32) -> Bits {
    let high = marks[0] >> UPPER | marks[1] << (width0 - UPPER);
    Bits::from(high) << UPPER | Bits::from(marks[0]) & ones(UPPER)
}

/// Mark bits below the word's upper half.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
const UPPER: u32 = PAIR_MARKS - 64;

#[cfg(any(tollgate_loom, tollgate_shuttle))]
#[cfg_attr(test, mutants::skip)] // no test compiles it
fn split(marks: Bits, width0: u32) -> [u64; 2] {
    [(marks & ones(width0)) as u64, (marks >> width0) as u64]
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
#[cfg_attr(test, mutants::skip)] // no test compiles it
fn joined(marks: [u64; 2], width0: u32) -> Bits {
    Bits::from(marks[1]) << width0 | Bits::from(marks[0])
}

/// How a table's words are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Two marks; `width0` bits are mark 0's, the rest of [`PAIR_MARKS`] mark 1's. Neither has more than 64.
    Pair { width0: u32 },
    /// One mark, and the number of the limit it belongs to.
    Lone,
    /// One mark of `mark` bits and the units that were refunded to its bucket, in `refunded` bits: 64 each at most, and
    /// [`MARKER`] to [`REFUNDABLE_BITS`] together.
    Refundable { mark: u32, refunded: u32 },
}

impl Layout {
    /// Bits of the generation.
    #[inline]
    const fn generation(self) -> u32 {
        match self {
            Layout::Pair { .. } => PAIR_GENERATION,
            Layout::Lone => LONE_GENERATION,
            Layout::Refundable { mark, refunded } => WORD - FLAGS - mark - refunded,
        }
    }
}

/// A word's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) Bits);

impl Word {
    /// The cell belongs to a key. (Zeroed memory is a free cell.)
    const LIVE: Bits = 1;
    /// A multi-word commit owns the mark bits.
    const RESERVED: Bits = 1 << 1;
    /// Published but not drawn on yet: its inserter still decides, so prune passes by.
    const FRESH: Bits = 1 << 2;

    /// A live, fresh pair of the generation that `free` has.
    pub(crate) fn fresh_pair(self, layout: Layout, marks: [u64; 2]) -> Word {
        Word(self.generation_bits(layout) | Self::LIVE | Self::FRESH).with_marks(layout, marks)
    }

    /// A live, fresh lone word of the generation that `free` has.
    pub(crate) fn fresh_lone(self, limit: u32, mark: u64) -> Word {
        Word(self.generation_bits(Layout::Lone) | Self::LIVE | Self::FRESH).with_lone(limit, mark)
    }

    /// A live, fresh refundable word of the generation that `free` has.
    pub(crate) fn fresh_refundable(self, layout: Layout, mark: u64) -> Word {
        Word(self.generation_bits(layout) | Self::LIVE | Self::FRESH).with_refundable(layout, mark, 0)
    }

    #[inline]
    pub(crate) fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }
    #[inline]
    pub(crate) fn is_reserved(self) -> bool {
        self.0 & Self::RESERVED != 0
    }
    #[inline]
    pub(crate) fn is_fresh(self) -> bool {
        self.0 & Self::FRESH != 0
    }

    const fn generation_mask(layout: Layout) -> Bits {
        ones(layout.generation()) << FLAGS
    }

    #[inline]
    fn generation_bits(self, layout: Layout) -> Bits {
        self.0 & Self::generation_mask(layout)
    }

    /// The part of the generation that directory entries keep.
    #[inline]
    pub(crate) fn entry_generation(self) -> u64 {
        ((self.0 >> FLAGS) & ones(PAIR_GENERATION)) as u64
    }

    /// Same life of the same cell: live, and of one generation.
    #[inline]
    pub(crate) fn same_life(self, other: Word, layout: Layout) -> bool {
        (self.0 ^ other.0) & (Self::generation_mask(layout) | Self::LIVE) == 0
    }

    /// The pair's marks. The word must not be reserved.
    #[inline]
    pub(crate) fn pair_marks(self, width0: u32) -> [u64; 2] {
        split(self.0 >> (FLAGS + PAIR_GENERATION), width0)
    }

    /// The lone word's mark. The word must not be reserved.
    #[inline]
    pub(crate) fn lone_mark(self) -> u64 {
        (self.0 >> (WORD - LONE_MARK)) as u64
    }

    /// The lone word's limit.
    #[inline]
    pub(crate) fn lone_limit(self) -> u32 {
        ((self.0 >> LIMIT_SHIFT) & ones(LIMIT)) as u32
    }

    /// The refundable word's mark and count of refunded units. The word must not be reserved.
    #[inline]
    pub(crate) fn refundable_marks(self, mark: u32, refunded: u32) -> [u64; 2] {
        let above = self.0 >> (WORD - mark - refunded);
        [(above >> refunded) as u64, (above & ones(refunded)) as u64]
    }

    /// The refundable word with another mark and count.
    #[inline]
    fn with_refundable(self, layout: Layout, mark: u64, count: u64) -> Word {
        let Layout::Refundable { mark: width, refunded } = layout else { unreachable!("another layout") };
        debug_assert!(Bits::from(mark) <= ones(width) && Bits::from(count) <= ones(refunded));
        let low = self.0 & ones(FLAGS + layout.generation());
        Word((Bits::from(mark) << refunded | Bits::from(count)) << (WORD - width - refunded) | low)
    }

    #[inline]
    fn with_marks(self, layout: Layout, marks: [u64; 2]) -> Word {
        let Layout::Pair { width0 } = layout else { unreachable!("a lone word has one mark") };
        debug_assert!(Bits::from(marks[0]) <= ones(width0));
        debug_assert!(Bits::from(marks[1]) <= ones(PAIR_MARKS - width0));
        let low = self.0 & ones(FLAGS + PAIR_GENERATION);
        Word(joined(marks, width0) << (FLAGS + PAIR_GENERATION) | low)
    }

    /// The lone word with another mark, of another version of its limit.
    #[inline]
    pub(crate) fn with_lone(self, limit: u32, mark: u64) -> Word {
        debug_assert!(Bits::from(limit) <= ones(LIMIT) && Bits::from(mark) <= ones(LONE_MARK));
        let low = self.0 & ones(LIMIT_SHIFT);
        Word(Bits::from(mark) << (WORD - LONE_MARK) | Bits::from(limit) << LIMIT_SHIFT | low)
    }

    /// The pair after a draw: new marks, no longer fresh.
    #[inline]
    pub(crate) fn drawn_pair(self, width0: u32, marks: [u64; 2]) -> Word {
        Word(self.0 & !Self::FRESH).with_marks(Layout::Pair { width0 }, marks)
    }

    /// The lone word after a draw, under `limit`: new mark, no longer fresh.
    #[inline]
    pub(crate) fn drawn_lone(self, limit: u32, mark: u64) -> Word {
        Word(self.0 & !Self::FRESH).with_lone(limit, mark)
    }

    /// The refundable word after a draw or a refund: new mark and count, no longer fresh.
    #[inline]
    pub(crate) fn drawn_refundable(self, layout: Layout, [mark, count]: [u64; 2]) -> Word {
        Word(self.0 & !Self::FRESH).with_refundable(layout, mark, count)
    }

    /// Free, of the next generation; the marks stay.
    pub(crate) fn freed(self, layout: Layout) -> Word {
        let mask = Self::generation_mask(layout);
        let step = if seeded_bug!("generation-kept") { 0 } else { 1 };
        let next = (self.0 & mask).wrapping_add(step << FLAGS) & mask;
        Word((self.0 & !mask & !ones(FLAGS)) | next)
    }

    /// Free, of the next generation, the pair's marks lifted.
    pub(crate) fn freed_pair(self, width0: u32, marks: [u64; 2]) -> Word {
        let layout = Layout::Pair { width0 };
        self.freed(layout).with_marks(layout, marks)
    }

    /// Free, of the next generation, the refundable word's mark lifted and its count as it was.
    pub(crate) fn freed_refundable(self, layout: Layout, [mark, count]: [u64; 2]) -> Word {
        self.freed(layout).with_refundable(layout, mark, count)
    }

    /// What a marker keeps of the word it replaces, with RESERVED set.
    #[inline]
    pub(crate) fn reserved_part(self, layout: Layout) -> Bits {
        let kept = match layout {
            Layout::Lone => ones(WORD - LONE_MARK),
            Layout::Pair { .. } | Layout::Refundable { .. } => ones(FLAGS + layout.generation()),
        };
        self.0 & kept | Self::RESERVED
    }

    /// What a marker keeps of a word whose low `kept` bits it does not replace, with RESERVED set.
    #[cfg(any(feature = "spend", tollgate_loom, tollgate_shuttle))]
    #[inline]
    pub(crate) fn reserved_below(self, kept: u32) -> Bits {
        self.0 & ones(kept) | Self::RESERVED
    }

    /// The marker of operation `sequence` of `descriptor` in place of a word with that reserved part.
    #[inline]
    pub(crate) fn marker(reserved_part: Bits, descriptor: u32, sequence: u64) -> Word {
        debug_assert!(Bits::from(descriptor) <= ones(DESCRIPTOR) && Bits::from(sequence) <= ones(SEQUENCE));
        let name = Bits::from(sequence) << DESCRIPTOR | Bits::from(descriptor);
        Word(name << MARKER_SHIFT | reserved_part)
    }

    /// The descriptor that a marker names.
    pub(crate) fn marker_descriptor(self) -> u32 {
        ((self.0 >> MARKER_SHIFT) & ones(DESCRIPTOR)) as u32
    }

    /// The sequence that a marker names.
    pub(crate) fn marker_sequence(self) -> u64 {
        (self.0 >> (MARKER_SHIFT + DESCRIPTOR)) as u64
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layouts() -> impl Strategy<Value = Layout> {
        prop_oneof![(44u32..=64).prop_map(|width0| Layout::Pair { width0 }), Just(Layout::Lone), refundable()]
    }

    fn refundable() -> impl Strategy<Value = Layout> {
        (1u32..=64, 1u32..=64)
            .prop_filter("bits in reach", |(mark, refunded)| {
                (MARKER..=REFUNDABLE_BITS).contains(&(mark + refunded))
            })
            .prop_map(|(mark, refunded)| Layout::Refundable { mark, refunded })
    }

    proptest! {
        #[test]
        fn a_pair_gives_back_the_marks_it_was_given(
            width0 in 44u32..=64, a: [u64; 2], b: [u64; 2], generations in 0u32..70_000
        ) {
            let layout = Layout::Pair { width0 };
            let fit = |marks: [u64; 2]| [marks[0] & ones(width0) as u64, marks[1] & ones(PAIR_MARKS - width0) as u64];
            let (marks, later) = (fit(a), fit(b));
            let mut free = Word(0);
            for _ in 0..generations % 300 { free = free.freed(layout) }
            let word = free.fresh_pair(layout, marks);
            prop_assert!(word.is_live() && word.is_fresh() && !word.is_reserved());
            prop_assert_eq!(word.pair_marks(width0), marks);
            prop_assert_eq!(word.entry_generation(), u64::from(generations % 300));
            let drawn = word.drawn_pair(width0, later);
            prop_assert!(!drawn.is_fresh() && drawn.same_life(word, layout));
            prop_assert_eq!(drawn.pair_marks(width0), later);
            let freed = drawn.freed_pair(width0, marks);
            prop_assert!(!freed.is_live() && !freed.is_reserved() && !freed.is_fresh());
            prop_assert_eq!(freed.pair_marks(width0), marks);
            prop_assert_eq!(freed.entry_generation(), u64::from(generations % 300 + 1));
        }

        #[test]
        fn a_lone_word_gives_back_its_mark_and_limit(mark: u64, limit in 0u32..1 << LIMIT) {
            let word = Word(0).freed(Layout::Lone).fresh_lone(limit, mark);
            prop_assert_eq!((word.lone_mark(), word.lone_limit(), word.entry_generation()), (mark, limit, 1));
            let drawn = word.drawn_lone(limit ^ 1, mark ^ 1);
            prop_assert_eq!((drawn.lone_mark(), drawn.lone_limit()), (mark ^ 1, limit ^ 1));
            prop_assert!(drawn.same_life(word, Layout::Lone));
        }

        #[test]
        fn a_refundable_word_gives_back_its_mark_and_count(
            layout in refundable(), a: [u64; 2], b: [u64; 2], generations in 0u32..300
        ) {
            let Layout::Refundable { mark, refunded } = layout else { unreachable!() };
            let fit = |[m, r]: [u64; 2]| [m & ones(mark) as u64, r & ones(refunded) as u64];
            let mut free = Word(0);
            for _ in 0..generations { free = free.freed(layout) }
            let word = free.fresh_refundable(layout, fit(a)[0]);
            prop_assert!(word.is_live() && word.is_fresh() && !word.is_reserved());
            prop_assert_eq!(word.refundable_marks(mark, refunded), [fit(a)[0], 0]);
            let drawn = word.drawn_refundable(layout, fit(b));
            prop_assert!(!drawn.is_fresh() && drawn.same_life(word, layout));
            prop_assert_eq!(drawn.refundable_marks(mark, refunded), fit(b));
            let freed = drawn.freed_refundable(layout, fit(a));
            prop_assert!(!freed.is_live() && !freed.same_life(word, layout));
            prop_assert_eq!(freed.refundable_marks(mark, refunded), fit(a));
            prop_assert_eq!(freed.entry_generation(), u64::from(generations + 1));
        }

        #[test]
        fn a_marker_names_its_operation_and_keeps_life_and_flags(
            layout in layouts(), bits: u128, descriptor in 0u32..1 << DESCRIPTOR, sequence in 0u64..1 << SEQUENCE
        ) {
            let word = Word(bits & !Word::RESERVED);
            let marker = Word::marker(word.reserved_part(layout), descriptor, sequence);
            let other_marks = match layout {
                Layout::Pair { width0 } => word.with_marks(layout, [!bits as u64 & ones(width0) as u64, 0]),
                Layout::Lone => word.with_lone(word.lone_limit(), !bits as u64),
                Layout::Refundable { .. } => word.with_refundable(layout, 1, 0),
            };
            prop_assert_eq!(other_marks.reserved_part(layout), word.reserved_part(layout));
            prop_assert!(marker.is_reserved());
            prop_assert!(marker.same_life(word, layout));
            prop_assert_eq!(marker.is_fresh(), word.is_fresh());
            prop_assert_eq!((marker.marker_descriptor(), marker.marker_sequence()), (descriptor, sequence));
            if layout == Layout::Lone { prop_assert_eq!(marker.lone_limit(), word.lone_limit()) }
        }

        #[test]
        fn freeing_ends_the_life_and_keeps_the_marks(layout in layouts(), bits: u128) {
            let word = Word(bits & !Word::RESERVED | Word::LIVE);
            let free = word.freed(layout);
            prop_assert!(!free.is_live() && !free.is_fresh());
            prop_assert!(!free.same_life(word, layout));
            let marks = WORD - FLAGS - layout.generation();
            prop_assert!(layout == Layout::Lone || free.0 >> (WORD - marks) == word.0 >> (WORD - marks));
            prop_assert!(layout != Layout::Lone || free.lone_mark() == word.lone_mark());
            prop_assert_eq!(free.entry_generation(), (word.entry_generation() + 1) & 0xffff);
        }
    }

    #[test]
    fn zeroed_memory_is_a_free_cell() {
        assert!(!Word(0).is_live());
        assert_eq!(Word(0).entry_generation(), 0);
    }
}
