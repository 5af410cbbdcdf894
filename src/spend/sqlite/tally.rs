//! Sums of moves: what a batch adds, and what a whole ledger comes to.

use super::limits::Limits;
use crate::spend::amount::Dimension;
use crate::spend::books::Books;
use crate::spend::record::{Account, Millis, Move};
use crate::spend::window::Window;
use ahash::AHashMap;
use std::collections::BTreeMap;

/// Books and use of every account that moved.
#[derive(Debug)]
pub(super) struct Tally<'l> {
    limits: &'l Limits,
    since: Millis,
    accounts: AHashMap<String, AHashMap<String, Tab>>,
}

/// One account's sums.
#[derive(Debug, Clone, Default)]
pub(super) struct Tab {
    pub(super) books: Books,
    /// What was used, by limit and slot.
    pub(super) used: BTreeMap<(usize, u32), i128>,
}

/// A sum that no longer fits, and of what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Overflow {
    pub(super) scope: String,
    pub(super) key: String,
    pub(super) dimension: Dimension,
}

impl<'l> Tally<'l> {
    /// Nothing yet. Everything from `since` on will be told.
    pub(super) fn new(limits: &'l Limits, since: Millis) -> Self {
        Self { limits, since, accounts: AHashMap::new() }
    }

    /// Books from before `since`.
    pub(super) fn seed(&mut self, scope: &str, key: &str, books: &Books) -> Result<(), Overflow> {
        let limits = self.limits;
        let overflow = |dimension| Overflow { scope: scope.to_owned(), key: key.to_owned(), dimension };
        let tab = self.tab(scope, key);
        tab.books.add_books(books).map_err(overflow)?;
        for (index, counted) in distinct(limits, scope) {
            if counted.window == Window::Lifetime {
                let used = books.entry(counted.dimension).used();
                tab.add(index, counted.window.slot(0), used).ok_or(overflow(counted.dimension))?;
            }
        }
        Ok(())
    }

    /// Moves, of every account of the path.
    pub(super) fn add(&mut self, path: &[Account], moves: &[Move]) -> Result<(), Overflow> {
        let (limits, since) = (self.limits, self.since);
        for Account { scope, key } in path {
            let overflow = |dimension| Overflow { scope: scope.clone(), key: key.clone(), dimension };
            // There is an account even where nothing moved.
            let tab = self.tab(scope, key);
            for moved in moves {
                tab.books.add_books(&moved.books).map_err(overflow)?;
                for (index, counted) in distinct(limits, scope) {
                    let used = moved.books.entry(counted.dimension).used();
                    let slot = counted.window.slot(moved.at);
                    if used != 0 && slot >= counted.first_slot(since) {
                        tab.add(index, slot, used).ok_or(overflow(counted.dimension))?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str, &Tab)> {
        self.accounts
            .iter()
            .flat_map(|(scope, keys)| keys.iter().map(move |(key, tab)| (scope.as_str(), key.as_str(), tab)))
    }

    pub(super) fn get(&self, scope: &str, key: &str) -> Option<&Tab> {
        self.accounts.get(scope)?.get(key)
    }

    fn tab(&mut self, scope: &str, key: &str) -> &mut Tab {
        // Looked up by what is borrowed: most moves are of accounts that moved before.
        if self.get(scope, key).is_none() {
            let keys = self.accounts.entry(scope.to_owned()).or_default();
            keys.insert(key.to_owned(), Tab::default());
        }
        let tab = self.accounts.get_mut(scope).and_then(|keys| keys.get_mut(key));
        tab.expect("it was put in if it was not there")
    }
}

impl Tab {
    fn add(&mut self, limit: usize, slot: u32, used: i128) -> Option<()> {
        let sum = self.used.entry((limit, slot)).or_default();
        *sum = sum.checked_add(used)?;
        Some(())
    }
}

/// The limits of a scope, each once.
fn distinct<'l>(
    limits: &'l Limits,
    scope: &str,
) -> impl Iterator<Item = (usize, &'l super::limits::Counted)> {
    let of_scope = limits.of_scope(scope);
    let first = move |at: usize, index: &usize| !of_scope[..at].contains(index);
    of_scope
        .iter()
        .enumerate()
        .filter(move |&(at, index)| first(at, index))
        .filter_map(|(_, &index)| Some((index, limits.all.get(index)?)))
}
