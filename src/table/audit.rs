//! What must hold when nobody is writing: the invariants that models check after every execution.

use super::Table;
use super::directory::Slot;
use super::gate::NEVER;
use super::lookup::Find;

impl Table {
    /// Panics with what is wrong.
    pub(crate) fn audit(&self) {
        let mut seen = vec![false; self.cells.len()];
        let mut see = |cell: u32, where_: &str| {
            assert!(!std::mem::replace(&mut seen[cell as usize], true), "cell {cell} twice, now {where_}");
        };
        let mut free = 0;
        for shard in &self.shards {
            for cell in shard.stacked(&self.cells).into_iter().chain(shard.never_used()) {
                see(cell, "on a free list");
                assert!(!self.cell(cell).load().is_live(), "live cell {cell} on a free list");
                free += 1;
            }
        }
        let mut keys = Vec::new();
        // A gate in the past stops nobody: a scan that met a marker raises it no further than its own time,
        // which can be later than the time at which that bucket turns out refilled.
        let now = self.clock.now();
        let mut earliest_of_all = NEVER;
        for (number, shard) in self.shards.iter().enumerate() {
            let array = self.arrays.get(self.directory_of(number));
            let mut earliest = NEVER;
            for slot in 0..array.entries().len() {
                let Slot::Cell(entry) = array.load(slot).slot() else { continue };
                let word = self.cell(entry.index()).load();
                if !word.is_live() || word.entry_generation() != entry.generation() {
                    continue;
                }
                see(entry.index(), "in a directory");
                assert!(!word.is_reserved(), "a marker is left in cell {}", entry.index());
                assert!(!word.is_fresh(), "an undrawn cell is left behind: {}", entry.index());
                let key = self.copy_key(entry.index(), word).expect("quiet");
                assert!(!keys.contains(&key), "two cells of key {key:?}");
                let found = self.find(&self.pack(key.0, &key.1));
                assert!(
                    matches!(found, Find::Hit(hit) if hit.cell == entry.index()),
                    "key {key:?} is out of reach: {found:?}"
                );
                keys.push(key);
                earliest = earliest.min(self.limits.refilled_at(word));
            }
            assert!(shard.gate.earliest() <= earliest.max(now), "shard {number} sleeps past {earliest}");
            earliest_of_all = earliest_of_all.min(earliest);
        }
        assert!(self.gate.earliest() <= earliest_of_all.max(now), "the table sleeps past {earliest_of_all}");
        assert!(free == 0 || self.gate.earliest() == 0, "{free} cells are free, and the table refuses");
        assert_eq!(free + keys.len(), self.cells.len(), "cells leaked");
        assert_eq!(self.cells_in_use(), keys.len(), "cells in use are miscounted");
    }

    /// Rebuilds every shard's directory, as an insert that finds it crowded does.
    pub(crate) fn rebuild_all(&self) {
        for shard in 0..self.shards.len() {
            self.rebuild(shard, self.directory_of(shard));
        }
    }
}
