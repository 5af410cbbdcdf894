//! A guard with two limits, either of which may be left out, over the table model.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use crate::oracle::Line;
use crate::table_model::{Draw, Layout, Refused, TableModel};

/// The two limits of a guard and their table.
pub struct GuardModel {
    names: [&'static str; 2],
    /// For each of the two limits its number in the table, if it is configured.
    numbers: [Option<usize>; 2],
    table: TableModel<String>,
}

/// What a guard says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Allow,
    /// The guard cannot judge the call.
    Error,
    Refused(Refused),
}

impl GuardModel {
    pub fn new(limits: [(&'static str, Option<Line>); 2], layout: Layout, bucket_cap: usize) -> Self {
        let names = [limits[0].0, limits[1].0];
        let numbers = match [limits[0].1.is_some(), limits[1].1.is_some()] {
            [true, true] => [Some(0), Some(1)],
            [true, false] => [Some(0), None],
            [false, true] => [None, Some(0)],
            [false, false] => [None, None],
        };
        let lines = limits.into_iter().filter_map(|(_, line)| line).collect();
        Self { names, numbers, table: TableModel::new(lines, layout, bucket_cap) }
    }

    /// The names of the configured limits, in the table's order.
    pub fn names(&self) -> Vec<&'static str> {
        self.names
            .iter()
            .zip(self.numbers)
            .filter(|(_, number)| number.is_some())
            .map(|(name, _)| *name)
            .collect()
    }

    /// Judges a call that draws `(key, cost)` on either limit, as far as it is configured; `None` cannot be judged.
    pub fn judge(&self, t: u64, draws: Option<[(String, u64); 2]>) -> Answer {
        let Some(draws) = draws else { return Answer::Error };
        match self.table.judge(t, &self.configured(draws)) {
            Ok(()) => Answer::Allow,
            Err(refused) => Answer::Refused(refused),
        }
    }

    /// Judges the call, and draws if it is admitted.
    pub fn call(&mut self, t: u64, draws: Option<[(String, u64); 2]>) -> Answer {
        let answer = self.judge(t, draws.clone());
        if let (Answer::Allow, Some(draws)) = (&answer, draws) {
            let draws = self.configured(draws);
            self.table.apply(t, &draws);
        }
        answer
    }

    fn configured(&self, draws: [(String, u64); 2]) -> Vec<Draw<String>> {
        let numbered = draws.into_iter().zip(self.numbers);
        numbered.filter_map(|((key, cost), number)| Some(Draw { limit: number?, key, cost })).collect()
    }

    /// Whole tokens of `key`; `None` where the limit is not configured.
    pub fn available(&self, limit: usize, key: &str, t: u64) -> Option<u64> {
        Some(self.table.available(self.numbers[limit]?, &key.to_owned(), t))
    }

    pub fn forget_refilled(&mut self, t: u64) {
        self.table.forget_refilled(t);
    }

    /// A guard that forgets only what it must holds between the live buckets and all that were ever drawn on.
    pub fn assert_count(&self, count: usize, cap: usize, t: u64) {
        let (live, touched) = (self.table.live_buckets(t), self.table.touched_buckets());
        assert!(
            live <= count && count <= touched.min(cap),
            "{count} buckets of {live} to {touched}, cap {cap}"
        );
    }
}
