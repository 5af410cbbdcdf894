//! Giving a key a cell, or leaving nothing behind.
//!
//! A newcomer holds its cell in a guard from the free list to its first draw, so that whatever happens in
//! between (a refusal, a lost race, a panic in a caller's clock) gives the cell back:
//!
//! ```text
//! free list --take--> Hand --publish--> Fresh --first draw commits--> live
//!     ^                |                  |
//!     +--- dropped ----+---- dropped -----+   (kept if somebody else drew on it meanwhile)
//! ```

use super::Table;
use super::cell::PackedKey;
use super::directory::{Entry, fingerprint};
use super::lookup::{Find, Hit, Vacancy};
use crate::commit;
use crate::sync::{Ordering, fence, seeded_bug, stall_point};
use crate::word::Word;

/// A free cell in a caller's hands.
#[derive(Debug)]
pub(crate) struct Hand<'t> {
    table: &'t Table,
    shard: usize,
    cell: u32,
    /// The cell's free word: nobody else changes it.
    free: Word,
    key_written: bool,
}

/// A published cell that was not drawn on by its inserter yet.
#[derive(Debug)]
pub(crate) struct Fresh<'t> {
    table: &'t Table,
    /// Whose free list the cell came from.
    shard: usize,
    /// Whose directory the cell was published in.
    home: usize,
    cell: u32,
    published: Word,
    entry: Entry,
    at: Vacancy,
}

impl Table {
    /// A free cell for a newcomer of `home`'s shard: from its free list, else a refilled cell of it, else from
    /// another shard. `None` when there is none anywhere.
    pub(crate) fn take(&self, home: &PackedKey<'_>, now: u64) -> Option<Hand<'_>> {
        let ticket = self.gate.open(now)?;
        let first = self.shard_of(home);
        let mut earliest = super::gate::NEVER;
        for step in 0..self.shards.len() {
            let at = (first + step) & (self.shards.len() - 1);
            let shard = &self.shards[at];
            if let Some(cell) = shard.pop(&self.cells) {
                return Some(self.hand(at, cell));
            }
            if let Some(cell) = self.prune_for_one(at, now) {
                return Some(self.hand(at, cell));
            }
            earliest = earliest.min(shard.gate.earliest());
        }
        self.gate.raise(ticket, earliest);
        None
    }

    /// Is there, at one instant during this call, neither a bucket of `key` nor a cell for one? Cheaper to say than a
    /// search for a cell: what a flood of newcomers meets. False says nothing.
    #[inline]
    pub(crate) fn is_shut_to(&self, key: &PackedKey<'_>) -> bool {
        let Some(ticket) = self.gate.shut() else { return false };
        // The instant is this search's: nobody gave a cell back from before it to after it.
        let absent = !matches!(self.find(key), Find::Hit(_));
        absent && self.gate.was_shut_since(ticket, self.clock.now())
    }

    /// The bucket in `cell`, of a key with that hash, will be refilled earlier than it was known to be.
    pub(crate) fn lower_gates_of(&self, cell: u32, hash: u64) {
        self.lower_gates_at(cell, self.shard_of_hash(hash));
    }

    /// The bucket in `cell`, published in `home`'s directory, will be refilled at some time: no scan must sleep past it.
    fn lower_gates_at(&self, cell: u32, home: usize) {
        let word = self.settled(cell);
        // Whatever happened to the cell since, this is a time at which a scan may find something.
        let at = if word.is_live() { self.limits.refilled_at(word) } else { 0 };
        self.shards[home].gate.lower(at);
        self.gate.lower(at);
    }

    /// Gives `key` a bucket with that mark, or raises the mark of the one it has. False when there is no room.
    #[cfg(feature = "effects")]
    pub(crate) fn seed(&self, key: &PackedKey<'_>, mark: u64) -> bool {
        loop {
            let hit = match self.vacancy(key) {
                Err(hit) => hit,
                Ok(vacancy) => {
                    let Some(held) = self.take(key, self.clock.now()) else { return false };
                    let Ok((fresh, hit)) = held.publish(key, 0, vacancy) else { continue };
                    let word = self.settled(hit.cell);
                    if self.cell(hit.cell).exchange(word, self.seeded(word, mark)).is_ok() {
                        fresh.keep();
                        return true;
                    }
                    continue;
                }
            };
            let word = self.settled(hit.cell);
            let same = word.same_life(hit.word, self.limits.layout);
            if same && self.cell(hit.cell).exchange(word, self.seeded(word, mark)).is_ok() {
                return true;
            }
        }
    }

    #[cfg(feature = "effects")]
    fn seeded(&self, word: Word, mark: u64) -> Word {
        let mut state = self.limits.read(word).state();
        state.mark = state.mark.max(mark);
        self.limits.with_state(word, state)
    }

    fn hand(&self, shard: usize, cell: u32) -> Hand<'_> {
        stall_point!(InHand);
        // The pop's acquire made the freed word visible.
        Hand { table: self, shard, cell, free: self.cell(cell).load(), key_written: false }
    }

    /// Puts a cell that the caller owns, and whose word is free, on a free list.
    fn push_free(&self, shard: usize, cell: u32) {
        if seeded_bug!("gate-before-push") {
            self.gate.lower(0);
            return self.shards[shard].push(&self.cells, cell);
        }
        self.shards[shard].push(&self.cells, cell);
        self.gate.lower(0);
    }
}

impl<'t> Hand<'t> {
    /// Publishes the cell as `key`'s bucket of `limit` in the slot at which the search for the key ended.
    ///
    /// Gives the hand back when the slot was taken meanwhile: then the caller searches again.
    pub(crate) fn publish(
        mut self,
        key: &PackedKey<'_>,
        limit: u32,
        at: Vacancy,
    ) -> Result<(Fresh<'t>, Hit), Hand<'t>> {
        let table = self.table;
        let cell = table.cell(self.cell);
        if !self.key_written {
            cell.write_key(key, || table.tail_or_make(self.cell));
            self.key_written = true;
        }
        // Read after the search: a bucket of this key that the search found void was reclaimed at or before
        // this time. Acquire: pairs with the raise before the reclaim's exchange.
        let latest = table.latest.load(Ordering::Acquire);
        let word = table.limits.fresh(self.free, limit, latest);
        // Release, and live before it can be found: else a second inserter would take the entry for void.
        if !seeded_bug!("live-late") {
            cell.word.store(word.0, Ordering::Release);
        }
        if seeded_bug!("gate-lowered-early") {
            table.shards[table.shard_of(key)].gate.lower(table.limits.refilled_at(word));
            table.gate.lower(table.limits.refilled_at(word));
        }
        stall_point!(Written);
        let array = table.arrays.get(at.directory);
        let entry = Entry::cell(fingerprint(key.hash), word.entry_generation(), self.cell);
        if !array.publish(at.slot, at.directory.life(), entry) {
            return Err(self);
        }
        if seeded_bug!("live-late") {
            cell.word.store(word.0, Ordering::Release);
        }
        stall_point!(Published);
        let Hand { shard, cell, .. } = self;
        std::mem::forget(self);
        let home = table.shard_of(key);
        Ok((Fresh { table, shard, home, cell, published: word, entry, at }, Hit { cell, word }))
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        let table = self.table;
        let cell = table.cell(self.cell);
        if self.key_written {
            // Another generation: a reader that compared against this key must find the word changed. Nobody
            // else can reach an unpublished cell, so a store suffices.
            cell.word.store(self.free.freed(table.limits.layout).0, Ordering::Release);
            fence(Ordering::Release);
            cell.retire_key();
        }
        table.push_free(self.shard, self.cell);
    }
}

impl Fresh<'_> {
    /// The caller's first draw was committed: the bucket stays.
    pub(crate) fn keep(self) {
        if !seeded_bug!("gate-lowered-early") {
            self.lower_gates();
        }
        std::mem::forget(self);
    }

    /// The bucket will be refilled at some time: a scan must not sleep past it.
    ///
    /// Lowered after the first commit or refusal and not before, so that two newcomers do not prune each
    /// other's undrawn cells for ever.
    fn lower_gates(&self) {
        self.table.lower_gates_at(self.cell, self.home);
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        let table = self.table;
        let layout = table.limits.layout;
        let cell = table.cell(self.cell);
        let mut word = cell.load();
        loop {
            if word.is_reserved() {
                commit::help(&cell.word, word);
                word = cell.load();
                continue;
            }
            if !word.same_life(self.published, layout) || !word.is_fresh() {
                // Somebody drew on it. The bucket is theirs now, but its gates are still ours to lower.
                if !seeded_bug!("late-draw-forgotten") {
                    self.lower_gates();
                }
                return;
            }
            stall_point!(GivingBack);
            if seeded_bug!("given-back-blindly") {
                cell.word.store(word.freed(layout).0, Ordering::Release);
                break;
            }
            match cell.exchange(word, word.freed(layout)) {
                Ok(()) => break,
                Err(found) => word = found,
            }
        }
        stall_point!(GivenBack);
        // Between the end of this life and the next key's bytes: see `Cell::confirm`.
        fence(Ordering::Release);
        table.arrays.get(self.at.directory).bury(self.at.slot, self.entry);
        cell.retire_key();
        table.push_free(self.shard, self.cell);
    }
}
