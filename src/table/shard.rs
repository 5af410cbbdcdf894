//! A shard: a share of the cells, and a directory of the keys that hash to it.
//!
//! Its free list is its capacity budget. Cells never used yet are handed out by counting up, so that an
//! untouched table's memory is never written; cells that come back are stacked.

use super::cell::Cell;
use super::gate::{Gate, NEVER};
use crate::sync::{AtomicIsize, AtomicU32, AtomicU64, Ordering, seeded_bug};
use crossbeam_utils::CachePadded;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct Shard {
    /// Which array is the directory: read by every lookup, so away from what inserts write.
    pub(crate) directory: CachePadded<AtomicU64>,
    free: CachePadded<FreeList>,
    /// Before a scan of this shard's cells for refilled ones.
    pub(crate) gate: CachePadded<Gate>,
}

#[derive(Debug)]
struct FreeList {
    /// The first stacked cell plus 1, under a tag that changes with every exchange: a cell that was popped and
    /// pushed again meanwhile must not be mistaken for the one that was seen.
    head: AtomicU64,
    /// The shard's own cells; those from `unused` on were never handed out.
    start: u32,
    unused: AtomicU32,
    end: u32,
    /// Cells popped less cells pushed. Cells move between shards, so one shard's count may be negative.
    taken: AtomicIsize,
}

const INDEX: u32 = 32;

fn pack(tag: u64, first: u64) -> u64 {
    tag << INDEX | first
}

impl Shard {
    pub(crate) fn new(directory: u64, cells: Range<u32>) -> Self {
        let free = FreeList {
            head: AtomicU64::new(0),
            start: cells.start,
            unused: AtomicU32::new(cells.start),
            end: cells.end,
            taken: AtomicIsize::new(0),
        };
        Self {
            directory: CachePadded::new(AtomicU64::new(directory)),
            free: CachePadded::new(free),
            gate: CachePadded::new(Gate::new(NEVER)),
        }
    }

    /// Takes a free cell.
    pub(crate) fn pop(&self, cells: &[Cell]) -> Option<u32> {
        let cell = self.pop_stacked(cells).or_else(|| self.pop_unused())?;
        self.free.taken.fetch_add(1, Ordering::Relaxed);
        Some(cell)
    }

    fn pop_stacked(&self, cells: &[Cell]) -> Option<u32> {
        // Acquire: pairs with the push, so that the link and the freed word are visible.
        let mut seen = self.free.head.load(Ordering::Acquire);
        loop {
            let first = seen & ((1 << INDEX) - 1);
            if first == 0 {
                return None;
            }
            let index = (first - 1) as u32;
            // A cell that somebody else pops meanwhile holds a key here: then the exchange fails on the tag.
            let next = cells[index as usize].next_free();
            let step = if seeded_bug!("free-list-untagged") { 0 } else { 1 };
            let popped = pack((seen >> INDEX).wrapping_add(step), next & ((1 << INDEX) - 1));
            match self.free.head.compare_exchange_weak(seen, popped, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(index),
                Err(found) => seen = found,
            }
        }
    }

    fn pop_unused(&self) -> Option<u32> {
        let FreeList { unused, end, .. } = &*self.free;
        // A plain look first: once all are used this is the common answer.
        if unused.load(Ordering::Relaxed) >= *end {
            return None;
        }
        unused
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                (seeded_bug!("budget-unchecked") || next < *end).then_some(next + 1)
            })
            .ok()
    }

    /// Gives a free cell back. The caller owns it, and has made its word free.
    pub(crate) fn push(&self, cells: &[Cell], index: u32) {
        self.free.taken.fetch_sub(1, Ordering::Relaxed);
        let mut seen = self.free.head.load(Ordering::Relaxed);
        loop {
            cells[index as usize].set_next_free(seen & ((1 << INDEX) - 1));
            let step = if seeded_bug!("free-list-untagged") { 0 } else { 1 };
            let pushed = pack((seen >> INDEX).wrapping_add(step), u64::from(index) + 1);
            // Release: the link and the freed word are visible to whoever pops.
            match self.free.head.compare_exchange_weak(seen, pushed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }

    /// The shard's own cells that were ever handed out.
    pub(crate) fn used(&self) -> Range<u32> {
        self.free.start..self.free.unused.load(Ordering::Acquire)
    }

    /// The stacked cells, when nobody pushes or pops.
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn stacked(&self, cells: &[Cell]) -> Vec<u32> {
        let mut all = Vec::new();
        let mut next = self.free.head.load(Ordering::Acquire) & ((1 << INDEX) - 1);
        while next != 0 {
            assert!(all.len() < cells.len(), "the free list loops");
            all.push((next - 1) as u32);
            next = cells[next as usize - 1].next_free();
        }
        all
    }

    /// The shard's own cells that were never handed out.
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    pub(crate) fn never_used(&self) -> Range<u32> {
        self.used().end..self.free.end
    }

    /// Cells popped less cells pushed.
    pub(crate) fn taken(&self) -> isize {
        self.free.taken.load(Ordering::Relaxed)
    }
}
