//! Where directories lie: arrays of entries in zeroed memory, recycled, and freed with their table only.
//!
//! Arrays are cut one after the other from *segments*: one that holds what a table's directories need while they grow
//! and are rebuilt, then, rarely, further ones of growing length. So a directory word says where its array is without a list in
//! between, and memory that no directory has reached yet is not touched.
//!
//! An array is a header and its entries:
//!
//! | header | |
//! |---|---|
//! | used | slots used in this life, void ones too; counted after the fact, a hint for when to rebuild |
//! | life | how often it was reset |
//! | next | the next array of its spare list, plus 1 |

use super::directory::{DirectoryWord, Entry, LARGEST, PLACES, next_life};
use super::slab::Slab;
use crate::once::OnceBox;
use crate::sync::{AtomicU32, AtomicU64, MODEL, Ordering, seeded_bug};

/// Arrays begin at multiples of this many words: of a cache line.
const UNIT: usize = if MODEL { 1 } else { 8 };
/// Words before an array's entries: a line, so that counting what is used does not disturb readers.
const HEADER: usize = if MODEL { 3 } else { 8 };
const USED: usize = 0;
const LIFE: usize = 1;
const NEXT: usize = 2;
/// Bits of a spare list's head below its tag: a place plus 1.
const SPARE: u32 = PLACES.ilog2() + 1;
const SPARE_MASK: u64 = (1 << SPARE) - 1;
/// Rebuilds at once for which the first segment has room.
const AT_ONCE: usize = if MODEL { 1 } else { 8 };
/// More segments: a first one, and then each as long as all from that one on together.
const MORE: usize = if MODEL { 6 } else { PLACES.ilog2() as usize };

/// An array of entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Array<'t> {
    header: &'t [AtomicU64],
    entries: &'t [AtomicU64],
}

impl<'t> Array<'t> {
    #[inline]
    pub(crate) fn entries(self) -> &'t [AtomicU64] {
        self.entries
    }

    #[inline]
    pub(crate) fn load(self, slot: usize) -> Entry {
        // Acquire: pairs with the publishing exchange, so that the cell's live word and key are visible.
        // A relaxed load here lets a second thread miss the key and make a second cell.
        let order = if seeded_bug!("entry-relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
        Entry(self.entries[slot].load(order))
    }

    /// Puts `entry` into a slot that was seen empty.
    pub(crate) fn publish(self, slot: usize, life: u64, entry: Entry) -> bool {
        let done = self.entries[slot]
            .compare_exchange(Entry::empty(life).0, entry.0, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if done {
            self.header[USED].fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// Notes that `entry` is void. A hint: it may be lost when a rebuild copies the slot.
    pub(crate) fn bury(self, slot: usize, entry: Entry) {
        let _ = self.entries[slot].compare_exchange(
            entry.0,
            Entry::TOMBSTONE.0,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }

    /// Closes a slot that was seen empty. False when somebody used it meanwhile.
    pub(crate) fn seal(self, slot: usize, life: u64) -> bool {
        self.entries[slot]
            .compare_exchange(
                Entry::empty(life).0,
                Entry::sealed(life).0,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_ok()
    }

    /// Are so many slots used that probes get long?
    pub(crate) fn is_crowded(self) -> bool {
        self.header[USED].load(Ordering::Relaxed) as usize >= most_used(self.entries.len())
    }

    /// Begins the next life: all slots empty. Only the exclusive owner may. Returns the life.
    fn reset(self) -> u64 {
        let life = self.header[LIFE].load(Ordering::Relaxed);
        let life = if seeded_bug!("one-life") { life } else { next_life(life) };
        self.header[LIFE].store(life, Ordering::Relaxed);
        self.header[USED].store(0, Ordering::Relaxed);
        for entry in self.entries {
            // Release: a reader of the former life that meets this value sees a directory word that has moved.
            entry.store(Entry::empty(life).0, Ordering::Release);
        }
        life
    }

    /// Adds a copied entry. Only the exclusive owner may, before the array is installed. False when crowded.
    pub(crate) fn copy_in(self, entry: Entry) -> bool {
        if self.is_crowded() {
            return false;
        }
        let mask = self.entries.len() - 1;
        let mut slot = entry.fingerprint() as usize & mask;
        while Entry(self.entries[slot].load(Ordering::Relaxed)).is_cell() {
            slot = (slot + 1) & mask;
        }
        // Release: a reader of the array's former life that meets this entry must not go on to a slot of that
        // life and take the key for absent.
        self.entries[slot].store(entry.0, Ordering::Release);
        self.header[USED].fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Three quarters: linear probing then looks at 8.5 slots for a key that is absent.
fn most_used(length: usize) -> usize {
    length - length / 4
}

/// The size of an array for `cells` cells: at most five eighths full, so that an eighth is left before it is crowded.
/// (More than half, so that the directory of a full shard of 1,024 cells does not double when a few more keys than that
/// hash to it.)
///
/// Directories begin at the least size and grow with their keys: entries that lie close together share cache lines,
/// and a table that nobody uses takes little memory.
pub(crate) fn log2_length_for(cells: usize) -> u32 {
    let least = if MODEL { 4 } else { 64 };
    (cells * 8).div_ceil(5).max(least).next_power_of_two().ilog2().min(LARGEST)
}

/// All arrays of a table, and the spare ones by size.
#[derive(Debug)]
pub(crate) struct Arrays {
    first: Slab<AtomicU64>,
    /// Each made when the ones before it are used up.
    more: [OnceBox<Slab<AtomicU64>>; MORE],
    /// The first place that no array has taken.
    next: AtomicU32,
    /// For each size, the place of the first spare array plus 1, under a tag that changes with every exchange.
    spares: [AtomicU64; LARGEST as usize + 1],
}

impl Arrays {
    /// For `shards` directories, each of up to `cells` cells: enough for one of every size on the way there, and for
    /// some rebuilds at once.
    pub(crate) fn new(shards: usize, cells: usize) -> Self {
        let (least, most) = (log2_length_for(0), log2_length_for(cells));
        let on_the_way: usize = (least..=most).map(words_of).sum();
        let first = shards * on_the_way + AT_ONCE * words_of(most);
        Self {
            first: Slab::dense(first),
            more: std::array::from_fn(|_| OnceBox::new()),
            next: AtomicU32::new(0),
            spares: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Words of the first segment after the first one: a power of two.
    fn second(&self) -> usize {
        (self.first.len() / 4).next_power_of_two().max(UNIT)
    }

    /// Where each segment begins and ends, in order.
    fn bounds(&self) -> impl Iterator<Item = (usize, usize)> {
        let (first, second) = (self.first.len(), self.second());
        let more = (0..MORE as u32).map(move |number| match number {
            0 => (first, first + second),
            _ => (first + (second << (number - 1)), first + (second << number)),
        });
        std::iter::once((0, first)).chain(more)
    }

    /// The array of a directory word, in whatever life it is now.
    #[inline]
    pub(crate) fn get(&self, directory: DirectoryWord) -> Array<'_> {
        let start = directory.place() as usize * UNIT;
        let (segment, start) = match start < self.first.len() {
            true => (&*self.first, start),
            false => self.beyond_first(start),
        };
        let (header, rest) = segment[start..].split_at(HEADER);
        Array { header, entries: &rest[..1 << directory.log2_length()] }
    }

    /// An array of that size, all slots empty, owned by the caller alone until it installs or gives it back.
    ///
    /// `None` when there is no place left, which takes thousands of rebuilds at once.
    pub(crate) fn take(&self, log2_length: u32) -> Option<(DirectoryWord, Array<'_>)> {
        if let Some(place) = self.pop(log2_length) {
            let life = self.spare(place, log2_length).reset();
            let directory = DirectoryWord::new(place, log2_length, life);
            return Some((directory, self.get(directory)));
        }
        let units = (words_of(log2_length) / UNIT) as u32;
        let mut place = 0;
        // Relaxed: the place alone publishes nothing; whoever passes it on does so with a release.
        self.next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                place = self.fitting(next, units);
                place.checked_add(units).filter(|&end| end <= PLACES)
            })
            .ok()?;
        // Zeroed slots are EMPTY of life 0.
        let directory = DirectoryWord::new(place, log2_length, 0);
        Some((directory, self.get(directory)))
    }

    /// The first place from `next` on at which `units` lie in one segment.
    fn fitting(&self, next: u32, units: u32) -> u32 {
        let (next, words) = (next as usize * UNIT, units as usize * UNIT);
        let fits = self.bounds().find(|&(start, end)| next.max(start) + words <= end);
        // Beyond all segments there is no place either.
        fits.map_or(PLACES, |(start, _)| (next.max(start) / UNIT).min(PLACES as usize) as u32)
    }

    /// The segment of a word beyond the first segment, and the word's index in it.
    #[cold]
    fn beyond_first(&self, start: usize) -> (&[AtomicU64], usize) {
        let mut bounds = self.bounds().skip(1).zip(&self.more);
        let ((begin, end), segment) =
            bounds.find(|&((_, end), _)| start < end).expect("a place in a segment");
        (segment.get_or_make(|| Slab::dense(end - begin)), start - begin)
    }

    fn pop(&self, log2_length: u32) -> Option<u32> {
        let head = &self.spares[log2_length as usize];
        let mut seen = head.load(Ordering::Acquire);
        loop {
            let place = (seen & SPARE_MASK).checked_sub(1)? as u32;
            let next = self.spare(place, log2_length).header[NEXT].load(Ordering::Relaxed);
            match head.compare_exchange_weak(seen, retag(seen, next), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(place),
                Err(found) => seen = found,
            }
        }
    }

    fn spare(&self, place: u32, log2_length: u32) -> Array<'_> {
        self.get(DirectoryWord::new(place, log2_length, 0))
    }

    /// Gives an array back for another life. Only its exclusive owner may.
    pub(crate) fn give_back(&self, directory: DirectoryWord) {
        let head = &self.spares[directory.log2_length() as usize];
        let mut seen = head.load(Ordering::Relaxed);
        loop {
            self.get(directory).header[NEXT].store(seen & SPARE_MASK, Ordering::Relaxed);
            let place = u64::from(directory.place()) + 1;
            match head.compare_exchange_weak(seen, retag(seen, place), Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    /// Bytes reserved for arrays.
    pub(crate) fn memory_bytes(&self) -> usize {
        let more: usize =
            self.more.iter().filter_map(|segment| segment.get()).map(|segment| segment.len()).sum();
        size_of::<AtomicU64>() * (self.first.len() + more)
    }
}

/// Words of an array with its header: whole units.
fn words_of(log2_length: u32) -> usize {
    (HEADER + (1 << log2_length)).next_multiple_of(UNIT)
}

/// The head with another first element and the next tag.
fn retag(head: u64, first: u64) -> u64 {
    let tag = (head >> SPARE).wrapping_add(1);
    tag << SPARE | first
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::super::directory::Slot;
    use super::*;

    #[test]
    fn an_array_has_another_life_each_time_it_is_taken() {
        let arrays = Arrays::new(1, 4);
        let (first, _) = arrays.take(3).unwrap();
        arrays.give_back(first);
        let (second, array) = arrays.take(3).unwrap();
        assert_eq!((second.place(), second.log2_length()), (first.place(), first.log2_length()));
        assert_eq!(second.life(), first.life() + 1);
        assert_eq!(array.load(0).slot(), Slot::Empty { life: second.life() });
        assert!(
            !array.publish(0, first.life(), Entry::cell(0, 0, 0)),
            "a publisher of the former life fails"
        );
    }

    #[test]
    fn arrays_of_any_size_lie_apart_also_beyond_the_first_segment() {
        let arrays = Arrays::new(1, 1);
        let mut all = Vec::new();
        for round in 0..40u64 {
            for log2_length in [6, 13, 7, 10] {
                let (directory, array) = arrays.take(log2_length).unwrap();
                assert_eq!(array.entries().len(), 1 << log2_length);
                let entry = Entry::cell(round, 0, all.len() as u32);
                for slot in 0..array.entries().len() {
                    assert!(array.publish(slot, 0, entry), "a slot is shared");
                }
                all.push((directory, entry));
            }
        }
        for (directory, entry) in all {
            let array = arrays.get(directory);
            assert!((0..array.entries().len()).all(|slot| array.load(slot) == entry));
        }
    }

    #[test]
    fn when_no_place_is_left_there_is_no_array_rather_than_a_shared_one() {
        let arrays = Arrays::new(1, 1);
        let mut taken = 0u64;
        while arrays.take(LARGEST).is_some() {
            taken += 1;
        }
        assert!(taken >= 30, "{taken}");
        assert!(taken * (1 << LARGEST) <= u64::from(PLACES) * UNIT as u64);
        assert!(arrays.take(LARGEST).is_none());
    }
}
