//! A cell: one cache line with a word and the key it belongs to.
//!
//! | key of | lies in |
//! |---|---|
//! | up to 44 bytes | the cell |
//! | up to 108 bytes | the cell and its *tail*, a second line; the tails of a table lie together, and are made with its first such key |
//! | more | a box |
//!
//! Key bytes are read with relaxed loads while another thread may be writing the next key over them; they
//! count only if the word's generation is found unchanged afterwards.

use super::slab::Zeroable;
use crate::sync::{AtomicBits, AtomicU64, MODEL, Ordering, fence, seeded_bug};
use crate::word::{Layout, Word};
use crossbeam_epoch as epoch;

const KEY_WORDS: usize = if MODEL { 2 } else { 6 };
/// Before the bytes of a key: its length, and its tag.
const HEADER: usize = 4;
/// Bits of a key's tag.
pub(crate) const TAG: u32 = 24;
/// Of a key this many bytes lie in the cell.
const INLINE: usize = KEY_WORDS * 8 - HEADER;
/// Words of a tail. (The model's keys need none.)
const TAIL_WORDS: usize = if MODEL { 0 } else { 8 };
/// Longer keys are boxed.
const LONGEST: usize = INLINE + TAIL_WORDS * 8;
/// In place of a length: the key is boxed.
const BOXED: u64 = 0xff;

/// Fields of a boxed key. (The model's cells are too small for one, and its keys are short.)
const HASH: usize = 1;
const LENGTH: usize = field(2);
const POINTER: usize = field(3);
const fn field(index: usize) -> usize {
    if index < KEY_WORDS { index } else { KEY_WORDS - 1 }
}
/// While the cell is free: the next cell of its free list.
const NEXT: usize = KEY_WORDS - 1;

/// A key, packed for comparing against cells.
///
/// The tag is a number that tells apart the keys of one table: of which limit, of which grant.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PackedKey<'k> {
    pub(crate) hash: u64,
    words: [u64; KEY_WORDS],
    bytes: &'k [u8],
}

impl<'k> PackedKey<'k> {
    #[inline]
    pub(crate) fn new(tag: u32, bytes: &'k [u8], hash: u64) -> Self {
        debug_assert!(tag < 1 << TAG);
        let words = if bytes.len() <= LONGEST {
            inline_words(tag, bytes)
        } else {
            let mut words = [0; KEY_WORDS];
            words[0] = header(BOXED, tag);
            words[HASH] = hash;
            words[LENGTH] = bytes.len() as u64;
            words
        };
        Self { hash, words, bytes }
    }

    /// The key's bytes, without its tag.
    #[inline]
    pub(crate) fn bytes(&self) -> &'k [u8] {
        self.bytes
    }

    /// The bytes, if they are too many for a cell and its tail.
    #[inline]
    fn boxed(&self) -> Option<&'k [u8]> {
        (self.bytes.len() > LONGEST).then_some(self.bytes)
    }

    /// Does it reach into a tail?
    #[inline]
    fn has_tail(&self) -> bool {
        self.bytes.len() > INLINE && self.bytes.len() <= LONGEST
    }

    /// A word of the tail.
    #[inline]
    fn tail_word(&self, index: usize) -> u64 {
        word_at(self.bytes, INLINE + index * 8)
    }
}

#[inline]
fn header(length: u64, tag: u32) -> u64 {
    length | u64::from(tag) << 8
}

/// Length, tag and the first bytes as little-endian words.
///
/// Word by word from where the bytes are, not by way of a buffer: reading a word from bytes that were just stored in
/// other pieces waits until those stores have left the processor's store buffer.
#[inline]
fn inline_words(tag: u32, bytes: &[u8]) -> [u64; KEY_WORDS] {
    let mut words = [0; KEY_WORDS];
    words[0] = header(bytes.len() as u64, tag) | word_at(bytes, 0) << (8 * HEADER);
    for (i, word) in words.iter_mut().enumerate().skip(1) {
        *word = word_at(bytes, i * 8 - HEADER);
    }
    words
}

/// The eight bytes from `at` on, as many as there are.
#[inline]
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let whole = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let length = bytes.len();
    if at + 8 <= length {
        whole(at)
    } else if at >= length {
        0
    } else if length >= 8 {
        // The last eight, less those before `at`.
        whole(length - 8) >> (8 * (at + 8 - length))
    } else {
        let mut word = [0; 8];
        word[..length - at].copy_from_slice(&bytes[at..]);
        u64::from_le_bytes(word)
    }
}

/// The length byte of a key's first word.
fn length_of(first: u64) -> u64 {
    first & 0xff
}

/// The tag in a key's first word.
fn tag_of(first: u64) -> u32 {
    (first >> 8) as u32 & ((1 << TAG) - 1)
}

/// One bucket, or two. Zeroed memory is a free cell that was never used.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) word: AtomicBits,
    key: [AtomicU64; KEY_WORDS],
}

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
const _: () = assert!(size_of::<Cell>() == 64 && size_of::<Tail>() == 64 && LONGEST < BOXED as usize);

/// What does not fit a cell of its key.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Tail([AtomicU64; TAIL_WORDS]);

// SAFETY: as for `Cell`.
unsafe impl Zeroable for Tail {
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    fn zeroed() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: all fields are atomic integers, whose zero bytes are the integer 0.
unsafe impl Zeroable for Cell {
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    fn zeroed() -> Self {
        Self { word: AtomicBits::new(0), key: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Cell {
    /// Acquire: what was written before the word was published (its key) is visible with it.
    #[inline]
    pub(crate) fn load(&self) -> Word {
        Word(self.word.load(Ordering::Acquire))
    }

    /// Replaces `old` by `new`, or says what is there instead.
    ///
    /// AcqRel: the release orders the reads of the key before the exchange, so that a success proves that the
    /// key belonged to `old`'s life; the acquire (also on failure) lets the caller go on from what it finds.
    #[inline]
    pub(crate) fn exchange(&self, old: Word, new: Word) -> Result<(), Word> {
        if seeded_bug!("blind-exchange") {
            self.word.store(new.0, Ordering::Release);
            return Ok(());
        }
        let order = if seeded_bug!("exchange-relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        match self.word.compare_exchange(old.0, new.0, order, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(found) => Err(Word(found)),
        }
    }

    /// Confirms a verdict that writes nothing: is the word still `seen`, whole? If not, what it is now.
    pub(crate) fn confirm(&self, seen: Word) -> Result<(), Word> {
        // If a key byte that we read came from a later life, this fence pairs with the release fence in
        // `write_key`, and the load below must see that the word has moved on.
        if seeded_bug!("no-confirm") {
            return Ok(());
        }
        fence(Ordering::Acquire);
        let now = self.load();
        if now == seen { Ok(()) } else { Err(now) }
    }

    /// Does the key equal `key`, if `word` (just loaded) is still the cell's life? `tail` is the cell's.
    ///
    /// True is only a claim about `word`'s life: the caller validates it by an exchange from that life or by
    /// [`confirm`](Self::confirm).
    #[inline]
    pub(crate) fn holds<'t>(
        &self,
        word: Word,
        key: &PackedKey<'_>,
        tail: impl FnOnce() -> Option<&'t Tail>,
        layout: Layout,
    ) -> bool {
        // Relaxed: validated by the word afterwards, see above.
        if let Some(long) = key.boxed() {
            return self.holds_boxed(word, key, long, layout);
        }
        let mut difference = 0;
        for (mine, theirs) in self.key.iter().zip(key.words) {
            difference |= mine.load(Ordering::Relaxed) ^ theirs;
        }
        difference == 0 && (!key.has_tail() || tail().is_some_and(|tail| tail.holds(key)))
    }

    fn holds_boxed(&self, word: Word, key: &PackedKey<'_>, long: &[u8], layout: Layout) -> bool {
        if (0..=LENGTH).any(|field| self.key[field].load(Ordering::Relaxed) != key.words[field]) {
            return false;
        }
        let _pin = epoch::pin();
        let pointer = self.key[POINTER].load(Ordering::Relaxed) as *const u8;
        let same_shape =
            (0..=LENGTH).all(|field| self.key[field].load(Ordering::Relaxed) == key.words[field]);
        // The acquire half of the pairing described in `confirm`.
        fence(Ordering::Acquire);
        if !same_shape || !self.load().same_life(word, layout) {
            return false;
        }
        // SAFETY: the life that wrote this pointer and length had not ended after we were pinned. Whoever
        // ends it retires the allocation through the epoch, so it stays until the pin is dropped.
        let stored = unsafe { std::slice::from_raw_parts(pointer, long.len()) };
        stored == long
    }

    /// Writes the key. Only the cell's holder may, while the cell is free. `tail` is the cell's.
    pub(crate) fn write_key<'t>(&self, key: &PackedKey<'_>, tail: impl FnOnce() -> &'t Tail) {
        // First, since it can fail: a cell must not say that it has a box before it has one.
        let boxed = key.boxed().map(Box::<[u8]>::from);
        // The release half of the pairing described in `confirm`: the end of the cell's former life, which the
        // caller has seen, comes before the new key's bytes.
        if !seeded_bug!("no-release-fence") {
            fence(Ordering::Release);
        }
        // Relaxed: the release store of the live word comes after them.
        for (mine, word) in self.key.iter().zip(key.words) {
            mine.store(word, Ordering::Relaxed);
        }
        if key.has_tail() {
            tail().write(key);
        }
        if let Some(boxed) = boxed {
            self.key[POINTER].store(Box::into_raw(boxed).cast::<u8>() as u64, Ordering::Relaxed);
        }
    }

    /// Takes back a boxed key's allocation. Only the cell's holder may, after it ended the cell's life.
    pub(crate) fn retire_key(&self) {
        if let Some(boxed) = self.take_boxed() {
            // Readers that were pinned before the life ended may still compare against it.
            epoch::pin().defer(move || drop(boxed));
        }
    }

    /// As [`retire_key`](Self::retire_key), when nobody else can reach the cell any more.
    pub(crate) fn drop_key(&self) {
        drop(self.take_boxed());
    }

    fn take_boxed(&self) -> Option<Box<[u8]>> {
        if length_of(self.key[0].load(Ordering::Relaxed)) != BOXED {
            return None;
        }
        self.key[0].store(0, Ordering::Relaxed);
        let pointer = self.key[POINTER].load(Ordering::Relaxed) as *mut u8;
        let length = self.key[LENGTH].load(Ordering::Relaxed) as usize;
        // SAFETY: `write_key` leaked a box of this length into these fields, and clearing the first field
        // above makes this the only time it is taken back.
        Some(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(pointer, length)) })
    }

    /// The key's tag and bytes, if `word` is still the cell's life after they were copied. `tail` is the cell's.
    pub(crate) fn copy_key(&self, word: Word, tail: Option<&Tail>, layout: Layout) -> Option<(u32, Vec<u8>)> {
        let _pin = epoch::pin();
        let words: [u64; KEY_WORDS] = std::array::from_fn(|i| self.key[i].load(Ordering::Relaxed));
        let tail: [u64; TAIL_WORDS] =
            std::array::from_fn(|i| tail.map_or(0, |tail| tail.0[i].load(Ordering::Relaxed)));
        fence(Ordering::Acquire);
        if !self.load().same_life(word, layout) {
            return None;
        }
        let (tag, length) = (tag_of(words[0]), length_of(words[0]));
        if length == BOXED {
            let pointer = words[POINTER] as *const u8;
            // SAFETY: as in `holds_boxed`.
            let long = unsafe { std::slice::from_raw_parts(pointer, words[LENGTH] as usize) };
            return Some((tag, long.to_vec()));
        }
        let line = words.iter().chain(&tail).flat_map(|word| word.to_le_bytes());
        Some((tag, line.skip(HEADER).take(length as usize).collect()))
    }

    /// The next cell of the free list. Meaningful only while the cell is on it.
    pub(crate) fn next_free(&self) -> u64 {
        self.key[NEXT].load(Ordering::Relaxed)
    }

    pub(crate) fn set_next_free(&self, next: u64) {
        self.key[NEXT].store(next, Ordering::Relaxed);
    }
}

impl Tail {
    fn holds(&self, key: &PackedKey<'_>) -> bool {
        let words = self.0.iter().enumerate();
        let difference =
            words.fold(0, |sum, (i, mine)| sum | (mine.load(Ordering::Relaxed) ^ key.tail_word(i)));
        difference == 0
    }

    fn write(&self, key: &PackedKey<'_>) {
        // Relaxed: as the words of the cell.
        for (i, mine) in self.0.iter().enumerate() {
            mine.store(key.tail_word(i), Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_short_key_lies_in_its_words_after_its_length_and_tag(
            tag in 0u32..1 << TAG, bytes in prop::collection::vec(any::<u8>(), 0..=INLINE)
        ) {
            let mut line = vec![bytes.len() as u8];
            line.extend(&tag.to_le_bytes()[..3]);
            line.extend(&bytes);
            line.resize(KEY_WORDS * 8, 0);
            let words: Vec<u8> = inline_words(tag, &bytes).iter().flat_map(|word| word.to_le_bytes()).collect();
            prop_assert_eq!(words, line);
        }

        #[test]
        fn a_cell_gives_back_the_key_that_was_written(
            tag in 0u32..1 << TAG, bytes in prop::collection::vec(any::<u8>(), 0..130), at: prop::sample::Index, hash: u64
        ) {
            let cell = Cell { word: AtomicBits::new(1), key: std::array::from_fn(|_| AtomicU64::new(0)) };
            let tail = Tail(std::array::from_fn(|_| AtomicU64::new(0)));
            let key = PackedKey::new(tag, &bytes, hash);
            cell.write_key(&key, || &tail);
            let word = cell.load();
            let holds = |tag, bytes: &[u8]| {
                cell.holds(word, &PackedKey::new(tag, bytes, hash), || Some(&tail), Layout::Lone)
            };
            prop_assert!(holds(tag, &bytes));
            prop_assert!(!holds(tag ^ 1, &bytes));
            if !bytes.is_empty() {
                let mut other = bytes.clone();
                *at.get_mut(&mut other) ^= 0x10;
                prop_assert!(!holds(tag, &other));
            }
            prop_assert!(!holds(tag, &[&bytes[..], &[0]].concat()));
            prop_assert_eq!(cell.copy_key(word, Some(&tail), Layout::Lone), Some((tag, bytes)));
            cell.drop_key();
        }
    }
}
