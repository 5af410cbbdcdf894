//! The table: a bucket for each key, in a fixed number of cells.
//!
//! | file | idea |
//! |---|---|
//! | [`cell`] | a cache line with a word and its key |
//! | [`limits`] | what a word means: arithmetic, versions |
//! | [`directory`] | from hash to cell: the words |
//! | [`arrays`] | from hash to cell: where the words lie, and their lives |
//! | [`shard`] | a share of the cells, its free list |
//! | [`gate`] | why a refusal is cheap at any size |
//! | [`lookup`] | finding a key's cell |
//! | [`insert`] | giving a key a cell, or leaving nothing behind |
//! | [`prune`] | finding refilled cells when none is free |
//! | [`rebuild`] | a directory of the right size, without stopping anybody |
//! | [`draw`] | one draw on one cell |
//! | [`raise`] | lifting a mark to a given point |
//! | [`slab`] | zeroed memory |
//!
//! # Bound
//! A table has exactly as many cells as its bucket cap allows. A newcomer is refused only when no cell is free
//! or refilled (cells in other threads' hands count as taken), and live buckets are never evicted.
//!
//! # Consistency
//! Draws on a bucket are linearizable: each is one exchange of its word. A refusal is justified by the bucket's
//! word at one instant during the call. `len` and iteration are weak snapshots: exact when nobody writes.

pub(crate) mod arrays;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) mod audit;
pub(crate) mod cell;
pub(crate) mod directory;
pub(crate) mod draw;
pub(crate) mod gate;
pub(crate) mod insert;
pub(crate) mod limits;
pub(crate) mod lookup;
pub(crate) mod prune;
pub(crate) mod raise;
pub(crate) mod rebuild;
pub(crate) mod shard;
pub(crate) mod slab;

use crate::ConfigError;
use crate::commit;
use crate::once::OnceBox;
use crate::quota::Quota;
use crate::sync::{AtomicU64, MODEL, Ordering};
use crate::time::EngineClock;
use crate::word::{Layout, Word};
use arrays::{Arrays, log2_length_for};
use cell::{Cell, PackedKey, Tail};
use crossbeam_epoch as epoch;
use directory::{DirectoryWord, MOST_CELLS};
use gate::Gate;
use limits::{Keep, Limits};
use shard::Shard;
use slab::Slab;
use std::hash::{BuildHasher, Hasher};
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicBool;

/// Cells of a shard, about: a scan of one takes some ten microseconds.
const SHARD_CELLS: usize = if MODEL { 2 } else { 1_024 };
const MOST_SHARDS: usize = 1_024;

/// The default of every `bucket_cap`.
pub(crate) const DEFAULT_BUCKET_CAP: usize = 65_536;

/// The storage of a table and the operations on it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) limits: Limits,
    pub(crate) clock: EngineClock,
    /// Dropped by hand: see [`Drop`].
    cells: ManuallyDrop<Slab<Cell>>,
    /// The cells' tails, from the first key on that needs one.
    tails: OnceBox<Slab<Tail>>,
    /// Took part in a commit with another table.
    shared: AtomicBool,
    shards: Box<[Shard]>,
    arrays: Arrays,
    /// Before a walk over all shards for a free or refilled cell.
    gate: Gate,
    /// The latest time at which a bucket was reclaimed: no bucket begins below its line.
    latest: AtomicU64,
    hasher: ahash::RandomState,
    shard_bits: u32,
}

impl Table {
    /// A table for at most `bucket_cap` buckets.
    ///
    /// # Errors
    /// `bucket_cap` without room for one cell, or above what the directory can name; 128-bit exchanges that
    /// are not lock-free on this machine.
    pub(crate) fn new(
        limits: Limits,
        clock: EngineClock,
        bucket_cap: usize,
    ) -> Result<Box<Self>, ConfigError> {
        let buckets_per_cell = buckets_per_cell(limits.layout);
        check_bucket_cap(bucket_cap, buckets_per_cell)?;
        let cells = bucket_cap / buckets_per_cell;
        if !is_lock_free() {
            return Err(ConfigError::new(
                "target",
                "a processor without a lock-free 128-bit compare-and-swap",
                "x86-64 with cmpxchg16b, AArch64, or another target where portable-atomic has one",
            ));
        }
        // Power of two: the hash's upper bits choose the shard.
        let shards = (cells / SHARD_CELLS).max(1).next_power_of_two().min(MOST_SHARDS);
        Ok(Box::new(Self::with_shards(limits, clock, cells, shards)))
    }

    /// From now on helpers of other tables' commits may reach this table's cells.
    pub(crate) fn share(&self) {
        // A look first: the flag lies near what every lookup reads.
        if !self.shared.load(Ordering::Relaxed) {
            // Relaxed: the drop that reads it has exclusive access.
            self.shared.store(true, Ordering::Relaxed);
        }
    }
}

/// Is `bucket_cap` enough for a call that takes `least` buckets, and not more than a table can have?
pub(crate) fn check_bucket_cap(bucket_cap: usize, least: usize) -> Result<(), ConfigError> {
    if (least..=MOST_CELLS).contains(&bucket_cap) {
        return Ok(());
    }
    let why = if least > 1 { " (a call takes one for each limit)" } else { "" };
    Err(ConfigError::new("bucket_cap", bucket_cap, format!("{least}{why} to {MOST_CELLS}")))
}

pub(crate) fn buckets_per_cell(layout: Layout) -> usize {
    match layout {
        Layout::Pair { .. } => 2,
        Layout::Lone | Layout::Refundable { .. } => 1,
    }
}

/// Are the engine's words exchanged without a lock on this machine?
pub(crate) fn is_lock_free() -> bool {
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    return true;
    #[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
    crate::sync::AtomicBits::is_lock_free()
}

impl Table {
    fn with_shards(limits: Limits, clock: EngineClock, cells: usize, shards: usize) -> Self {
        debug_assert!(shards.is_power_of_two() && shards <= cells.max(1));
        let arrays = Arrays::new(shards, cells.div_ceil(shards));
        let log2_length = log2_length_for(0);
        let start = |shard: usize| (cells * shard / shards) as u32;
        let shard = |shard: usize| {
            let (directory, _) = arrays.take(log2_length).expect("fewer shards than arrays");
            Shard::new(directory.0, start(shard)..start(shard + 1))
        };
        let shards: Box<[Shard]> = (0..shards).map(shard).collect();
        Self {
            limits,
            clock,
            cells: ManuallyDrop::new(Slab::new(cells)),
            tails: OnceBox::new(),
            shared: AtomicBool::new(false),
            shard_bits: shards.len().ilog2(),
            shards,
            arrays,
            gate: Gate::new(0),
            latest: AtomicU64::new(0),
            #[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
            hasher: ahash::RandomState::new(),
            #[cfg(any(tollgate_loom, tollgate_shuttle))]
            hasher: ahash::RandomState::with_seeds(1, 2, 3, 4),
        }
    }

    /// Packs and hashes a key.
    #[inline]
    pub(crate) fn pack<'k>(&self, tag: u32, bytes: &'k [u8]) -> PackedKey<'k> {
        PackedKey::new(tag, bytes, self.hash(tag, bytes))
    }

    #[inline(always)]
    pub(crate) fn hash(&self, tag: u32, bytes: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(bytes);
        // Many tables know no tag but 0, and many keys no other.
        if tag != 0 {
            hasher.write_u32(tag);
        }
        hasher.finish()
    }

    #[inline]
    fn shard_of(&self, key: &PackedKey<'_>) -> usize {
        self.shard_of_hash(key.hash)
    }

    #[inline]
    fn shard_of_hash(&self, hash: u64) -> usize {
        // Two shifts: a shift by all 64 bits is not defined.
        (hash >> 1 >> (63 - self.shard_bits)) as usize
    }

    #[inline]
    pub(crate) fn cell(&self, index: u32) -> &Cell {
        &self.cells[index as usize]
    }

    /// A cell's tail, if the table has any.
    #[inline]
    fn tail(&self, index: u32) -> Option<&Tail> {
        self.tails.get().map(|tails| &tails[index as usize])
    }

    fn tail_or_make(&self, index: u32) -> &Tail {
        &self.tails.get_or_make(|| Slab::new(self.cells.len()))[index as usize]
    }

    /// The tag and bytes of a cell's key, if `word` is still its life.
    fn copy_key(&self, index: u32, word: Word) -> Option<(u32, Vec<u8>)> {
        self.cell(index).copy_key(word, self.tail(index), self.limits.layout)
    }

    #[inline]
    fn directory_of(&self, shard: usize) -> DirectoryWord {
        // Acquire: pairs with the exchange that installed the array, whose slots are then visible.
        DirectoryWord(self.shards[shard].directory.load(Ordering::Acquire))
    }

    /// The word of a cell, without a marker: whoever meets one helps its commit to the end.
    #[inline]
    pub(crate) fn settled(&self, index: u32) -> Word {
        let cell = self.cell(index);
        loop {
            let word = cell.load();
            if !word.is_reserved() {
                return word;
            }
            commit::help(&cell.word, word);
        }
    }

    /// Gives a limit another quota, as of now.
    pub(crate) fn reconfigure(&self, limit: u32, quota: Quota, keep: Keep) -> Result<(), ConfigError> {
        if self.limits.reconfigure(limit, quota, keep, || self.clock.now())? {
            // A faster refill, or a reset, makes cells reclaimable sooner than any gate knows.
            for shard in &self.shards {
                shard.gate.lower(0);
            }
            self.gate.lower(0);
        }
        Ok(())
    }

    /// Cells in use: live ones, and those in the hands of inserts under way.
    pub(crate) fn cells_in_use(&self) -> usize {
        let taken: isize = self.shards.iter().map(Shard::taken).sum();
        // Counts of different shards are read one after the other while cells move between them.
        taken.clamp(0, self.cells.len() as isize) as usize
    }

    /// Buckets in use.
    pub(crate) fn len(&self) -> usize {
        self.cells_in_use() * buckets_per_cell(self.limits.layout)
    }

    /// The most buckets.
    pub(crate) fn capacity(&self) -> usize {
        self.cells.len() * buckets_per_cell(self.limits.layout)
    }

    /// Bytes reserved for cells, tails (once some key needed one), directory and shards; pages that were never touched
    /// count too. Boxed keys come on top.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val::<[Cell]>(&self.cells[..])
            + self.tails.get().map_or(0, |tails| size_of_val::<[Tail]>(tails))
            + size_of_val::<[Shard]>(&self.shards)
            + self.arrays.memory_bytes()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        // Cells that were never handed out have no key, and reading them would touch their pages.
        for index in self.shards.iter().flat_map(Shard::used) {
            self.cell(index).drop_key();
        }
        // SAFETY: taken once, and not used afterwards.
        let cells = unsafe { ManuallyDrop::take(&mut self.cells) };
        if *self.shared.get_mut() {
            // Another thread may still be helping a commit that spans this and another table. It touches words
            // only, so the cells alone go through the epoch.
            let pin = epoch::pin();
            pin.defer(move || drop(cells));
            // Not left in this thread's own bag, where it might lie for long: a table is large.
            pin.flush();
            drop(pin);
            (0..3).for_each(|_| epoch::pin().flush());
        }
    }
}
