//! A keyed table of limits, one call after another, in the plainest way that obeys the design.
//!
//! A bucket exists from its first draw until it is refilled; the cap counts buckets that exist. Nothing is ever
//! evicted. A call draws on all its buckets or on none, and a call that is refused leaves nothing behind.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use crate::oracle::{Answer, Line};
use num_bigint::BigInt;
use num_rational::BigRational;
use std::collections::{BTreeMap, BTreeSet};
use tollgate::Reason;

/// How buckets are laid out: each on its own, or all limits of one key side by side in one place, which is then
/// taken and given back as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    Apart,
    Together,
}

/// `cost` tokens of limit number `limit` for `key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draw<K> {
    pub limit: usize,
    pub key: K,
    pub cost: u64,
}

/// Why a call was refused. `retry_after` is in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub limit: usize,
    pub reason: Reason,
    pub needed: u64,
    pub available: u64,
    pub retry_after: Option<u64>,
}

/// Some limits, and the marks of the buckets that were drawn on.
#[derive(Debug, Clone)]
pub struct TableModel<K> {
    lines: Vec<Line>,
    layout: Layout,
    places: usize,
    marks: BTreeMap<(usize, K), BigRational>,
}

impl<K: Ord + Clone> TableModel<K> {
    pub fn new(lines: Vec<Line>, layout: Layout, bucket_cap: usize) -> Self {
        let places = match layout {
            Layout::Apart => bucket_cap,
            Layout::Together => bucket_cap / lines.len().max(1),
        };
        Self { lines, layout, places, marks: BTreeMap::new() }
    }

    pub fn line(&self, limit: usize) -> &Line {
        &self.lines[limit]
    }

    /// Draws, or says why not.
    pub fn call(&mut self, t: u64, draws: &[Draw<K>]) -> Result<(), Refused> {
        self.judge(t, draws)?;
        self.apply(t, draws);
        Ok(())
    }

    /// Whether the draws would be admitted at `t`. Within a call: impossible, then exhausted, then table full.
    pub fn judge(&self, t: u64, draws: &[Draw<K>]) -> Result<(), Refused> {
        let sums = self.summed(draws);
        let mut longest: Option<Refused> = None;
        for (limit, key, sum) in &sums {
            let line = &self.lines[*limit];
            let cost = u64::try_from(*sum).unwrap_or(u64::MAX);
            if line.decide(&self.mark(*limit, key), t, cost) == Answer::Impossible {
                return Err(self.refused(*limit, Reason::Impossible, cost, line.capacity, None));
            }
        }
        for (limit, key, sum) in &sums {
            let cost = *sum as u64; // at or below the capacity by now
            match self.lines[*limit].decide(&self.mark(*limit, key), t, cost) {
                Answer::Exhausted { available, retry_at } => {
                    let wait = retry_at.map(|at| at - t);
                    let refused = self.refused(*limit, Reason::Exhausted, cost, available, wait);
                    if longest.as_ref().is_none_or(|so_far| is_longer(wait, so_far.retry_after)) {
                        longest = Some(refused);
                    }
                }
                Answer::PastHorizon => return Err(self.refused(*limit, Reason::PastHorizon, cost, 0, None)),
                Answer::Admit(_) | Answer::Impossible => {}
            }
        }
        if let Some(refused) = longest {
            return Err(refused);
        }
        self.room(t, &sums)
    }

    /// Whether there is room for all newcomers of a call; if not, the first of them without room is refused.
    fn room(&self, t: u64, sums: &[(usize, K, u128)]) -> Result<(), Refused> {
        let live = self.live_places(t);
        let mut newcomers: Vec<&(usize, K, u128)> = Vec::new();
        for sum in sums.iter().filter(|(limit, key, _)| !live.contains(&self.place(*limit, key))) {
            let place = |(limit, key, _): &(usize, K, u128)| self.place(*limit, key);
            if newcomers.iter().all(|other| place(other) != place(sum)) {
                newcomers.push(sum);
            }
        }
        if let Some((limit, _, sum)) = newcomers.get(self.places - live.len()) {
            return Err(self.refused(
                *limit,
                Reason::TableFull,
                *sum as u64,
                self.lines[*limit].capacity,
                None,
            ));
        }
        Ok(())
    }

    /// Takes draws that [`judge`](Self::judge) admits.
    pub fn apply(&mut self, t: u64, draws: &[Draw<K>]) {
        for (limit, key, sum) in self.summed(draws) {
            match self.lines[limit].decide(&self.mark(limit, &key), t, sum as u64) {
                Answer::Admit(mark) => self.marks.insert((limit, key), mark),
                other => panic!("not admitted: {other:?}"),
            };
        }
    }

    /// Whole tokens that `key` could draw from `limit` at `t`.
    pub fn available(&self, limit: usize, key: &K, t: u64) -> u64 {
        self.lines[limit].available(&self.mark(limit, key), t)
    }

    /// Buckets that cannot be forgotten at `t`, or that lie beside such a one.
    pub fn live_buckets(&self, t: u64) -> usize {
        self.live_places(t).len() * self.buckets_of_a_place()
    }

    /// The same, counting also those that are refilled and were not forgotten: a table that forgets only what it
    /// must holds between `live_buckets` and this.
    pub fn touched_buckets(&self) -> usize {
        let places: BTreeSet<_> = self.marks.keys().map(|(limit, key)| self.place(*limit, key)).collect();
        places.len() * self.buckets_of_a_place()
    }

    /// Forgets every bucket that is refilled at `t`.
    pub fn forget_refilled(&mut self, t: u64) {
        let live = self.live_places(t);
        let layout = self.layout;
        self.marks.retain(|(limit, key), _| live.contains(&place(layout, *limit, key)));
    }

    /// Puts another line in force for one limit; `convert` takes each bucket's mark from the old line to the
    /// new one.
    pub fn reload(
        &mut self,
        limit: usize,
        line: Line,
        convert: impl Fn(&BigRational, &Line, &Line) -> BigRational,
    ) {
        let old = std::mem::replace(&mut self.lines[limit], line);
        for (_, mark) in self.marks.iter_mut().filter(|((of, _), _)| *of == limit) {
            *mark = convert(mark, &old, &self.lines[limit]);
        }
    }

    fn buckets_of_a_place(&self) -> usize {
        match self.layout {
            Layout::Apart => 1,
            Layout::Together => self.lines.len(),
        }
    }

    fn refused(
        &self,
        limit: usize,
        reason: Reason,
        needed: u64,
        available: u64,
        retry_after: Option<u64>,
    ) -> Refused {
        Refused { limit, reason, needed, available, retry_after }
    }

    /// The tokens of the line up to which `key`'s bucket is spoken for.
    pub fn mark(&self, limit: usize, key: &K) -> BigRational {
        let fresh = || BigRational::from_integer(BigInt::from(0));
        self.marks.get(&(limit, key.clone())).cloned().unwrap_or_else(fresh)
    }

    fn live_places(&self, t: u64) -> BTreeSet<(usize, K)> {
        let released: Vec<BigRational> = self.lines.iter().map(|line| line.released(t)).collect();
        let live = self.marks.iter().filter(|((limit, _), mark)| **mark > released[*limit]);
        live.map(|((limit, key), _)| self.place(*limit, key)).collect()
    }

    fn place(&self, limit: usize, key: &K) -> (usize, K) {
        place(self.layout, limit, key)
    }

    /// Draws on one bucket count as one; those that cost nothing do not count.
    fn summed(&self, draws: &[Draw<K>]) -> Vec<(usize, K, u128)> {
        let mut sums: Vec<(usize, K, u128)> = Vec::new();
        for Draw { limit, key, cost } in draws.iter().filter(|draw| draw.cost > 0) {
            match sums.iter_mut().find(|(l, k, _)| l == limit && k == key) {
                Some((_, _, sum)) => *sum += u128::from(*cost),
                None => sums.push((*limit, key.clone(), u128::from(*cost))),
            }
        }
        sums
    }
}

/// The place of a bucket: its own, or its key's.
fn place<K: Clone>(layout: Layout, limit: usize, key: &K) -> (usize, K) {
    match layout {
        Layout::Apart => (limit, key.clone()),
        Layout::Together => (0, key.clone()),
    }
}

/// A wait that nobody can foretell is longer than any other.
fn is_longer(wait: Option<u64>, than: Option<u64>) -> bool {
    match (wait, than) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(wait), Some(than)) => wait > than,
    }
}
