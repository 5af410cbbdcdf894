//! Reclaiming buckets that are full again: forgetting those changes no decision.
//!
//! A scan walks one shard's directory. It can only reclaim a cell by an exchange from a word that it has seen
//! to be refilled, so a draw that comes in between makes the exchange fail and keeps its bucket.

use super::Table;
use super::arrays::Array;
use super::directory::{Entry, Slot};
use super::gate::NEVER;
use crate::sync::{Ordering, fence, seeded_bug, stall_point};

/// A fruitless scan is followed by a pause of this many times its duration, times the number of shards.
const PAUSE: u64 = 4;
/// What a slot of a scan takes, about: an entry and a cell that are in no cache.
const SLOT_NANOS: u64 = 25;

/// What a scan did with one entry.
enum Outcome {
    /// Void, or an insert's own business.
    Passed,
    /// Live until at least this time.
    RefilledAt(u64),
    /// Reclaimed: the cell is the caller's.
    Reclaimed(u32),
}

impl Table {
    /// Scans a shard if its gate is open at `now`, reclaims every refilled cell, and keeps one in hand.
    pub(crate) fn prune_for_one(&self, shard: usize, now: u64) -> Option<u32> {
        let mut kept = None;
        let mut freed = false;
        self.scan(shard, now, |cell| match kept {
            None => kept = Some(cell),
            Some(_) => {
                freed = true;
                self.shards[shard].push(&self.cells, cell);
            }
        });
        if freed {
            self.gate.lower(0);
        }
        kept
    }

    /// Reclaims every bucket that is full at the clock's time. Returns how many buckets.
    pub(crate) fn prune_refilled(&self) -> usize {
        let now = self.clock.now();
        let mut cells = 0;
        for shard in 0..self.shards.len() {
            self.scan(shard, now, |cell| {
                cells += 1;
                self.shards[shard].push(&self.cells, cell);
            });
        }
        if cells > 0 {
            self.gate.lower(0);
        }
        cells * super::buckets_per_cell(self.limits.layout)
    }

    /// Hands every refilled cell of a shard, reclaimed, to `reclaimed`, and raises the shard's gate to the time
    /// at which the first of the others is refilled.
    fn scan(&self, shard: usize, now: u64, mut reclaimed: impl FnMut(u32)) {
        let gate = &self.shards[shard].gate;
        let early = self.directory_of(shard);
        // The ticket before the directory: an array installed later cannot hide an insert from the version.
        let Some(ticket) = gate.open(now) else { return };
        let directory = if seeded_bug!("directory-before-ticket") { early } else { self.directory_of(shard) };
        let array = self.arrays.get(directory);
        let mut earliest = NEVER;
        let mut fruitless = true;
        for slot in 0..array.entries().len() {
            let Slot::Cell(entry) = array.load(slot).slot() else { continue };
            match self.reclaim(array, slot, entry, now) {
                Outcome::Passed => {}
                Outcome::RefilledAt(at) => earliest = earliest.min(at),
                Outcome::Reclaimed(cell) => {
                    fruitless = false;
                    reclaimed(cell);
                }
            }
        }
        if fruitless {
            earliest = earliest.max(self.rested(now, array.entries().len()));
        }
        // An array that was recycled under the scan showed another shard's entries: no conclusion then.
        fence(Ordering::Acquire);
        if seeded_bug!("directory-before-ticket") || self.directory_of(shard) == directory {
            gate.raise(ticket, earliest);
        }
    }

    /// When to scan again after a fruitless scan that began at `start`: so much later that all shards together
    /// spend a fifth of the time at most on such scans. Without it one bucket a shard, kept a moment short of
    /// full, would make every newcomer scan them all. A refusal can be early by this pause.
    ///
    /// Not on a manual clock, where decisions must repeat exactly.
    fn rested(&self, start: u64, slots: usize) -> u64 {
        if self.clock.is_manual() {
            return 0;
        }
        let end = self.clock.now();
        // By what a scan can take at most: a thread that was stopped half way must not shut the gate for as
        // long again.
        let spent = end.saturating_sub(start).min(slots as u64 * SLOT_NANOS);
        end.saturating_add(spent * PAUSE * self.shards.len() as u64)
    }

    fn reclaim(&self, array: Array<'_>, slot: usize, entry: Entry, now: u64) -> Outcome {
        let cell = self.cell(entry.index());
        let mut word = cell.load();
        loop {
            if !word.is_live() || word.entry_generation() != entry.generation() {
                return Outcome::Passed;
            }
            if word.is_reserved() {
                // A commit owns it: it may turn out refilled.
                if seeded_bug!("reserved-passed") {
                    return Outcome::Passed;
                }
                return Outcome::RefilledAt(now);
            }
            if word.is_fresh() {
                // Its inserter will lower the gate, or give it back.
                return Outcome::Passed;
            }
            if let Some(newer) = self.limits.renewed(word) {
                match cell.exchange(word, newer) {
                    Ok(()) => word = newer,
                    Err(found) => word = found,
                }
                continue;
            }
            let at = self.limits.refilled_at(word);
            if at > now {
                return Outcome::RefilledAt(at);
            }
            // Before the exchange: whoever finds the key gone begins its next bucket at or above this time.
            if !seeded_bug!("latest-raised-late") {
                self.raise_latest(now);
            }
            stall_point!(Refilled);
            match cell.exchange(word, self.limits.freed(word, now)) {
                Ok(()) => break,
                Err(found) => word = found,
            }
        }
        if seeded_bug!("latest-raised-late") {
            self.raise_latest(now);
        }
        stall_point!(Reclaimed);
        // Between the end of this life and what is written over its key while the cell is free: see
        // `Cell::confirm`.
        fence(Ordering::Release);
        array.bury(slot, entry);
        cell.retire_key();
        Outcome::Reclaimed(entry.index())
    }

    fn raise_latest(&self, now: u64) {
        if self.latest.load(Ordering::Relaxed) < now {
            self.latest.fetch_max(now, Ordering::AcqRel);
        }
    }

    /// Calls `each` for every live bucket cell's tag, key bytes and word, in no order. A weak snapshot: a key that
    /// is reclaimed and returns meanwhile may appear twice or not at all.
    pub(crate) fn for_each_live(&self, mut each: impl FnMut(u32, Vec<u8>, crate::word::Word)) {
        for shard in 0..self.shards.len() {
            let directory = self.directory_of(shard);
            let array = self.arrays.get(directory);
            for slot in 0..array.entries().len() {
                let Slot::Cell(entry) = array.load(slot).slot() else { continue };
                let word = self.settled(entry.index());
                if !word.is_live() || word.is_fresh() || word.entry_generation() != entry.generation() {
                    continue;
                }
                if let Some((tag, key)) = self.copy_key(entry.index(), word) {
                    each(tag, key, word);
                }
            }
        }
    }
}
