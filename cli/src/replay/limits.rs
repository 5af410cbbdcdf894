//! The stage of the `[[limit]]`s: those that apply to an event are drawn on together, all or nothing.

use super::decision::{Reason, Refused};
use super::layout::{CostOf, Rule};
use crate::event::{Record, Whole};
use tollgate::key::KeyBytes;
use tollgate::{LimitSet, Plan};

/// Appends a part of a key: with its length where others follow, so that no two lists of values make
/// one key.
fn append(key: &mut KeyBytes, part: &str, last: bool) {
    if last {
        key.raw(part.as_bytes());
    } else {
        key.part(part.as_bytes());
    }
}

/// The limits and what the current event draws on them.
pub struct Limits {
    set: LimitSet,
    rules: Vec<Rule>,
    /// The place in the pipeline of the first rule.
    first: usize,
    keys: Vec<KeyBytes>,
    /// Rules that apply, and whether the event has their key.
    applying: Vec<(usize, bool)>,
    /// Rules to draw on, and the cost.
    draws: Vec<(usize, u64)>,
}

impl Limits {
    /// `set` must have the limits of `rules` in their order.
    pub fn new(set: LimitSet, rules: Vec<Rule>, first: usize) -> Self {
        let keys = rules.iter().map(|_| KeyBytes::default()).collect();
        Self { set, rules, first, keys, applying: Vec::new(), draws: Vec::new() }
    }

    /// Finds the limits that apply, their keys and costs.
    ///
    /// # Errors
    /// The first limit that applies and cannot be judged.
    #[inline]
    pub fn read(&mut self, record: &Record) -> Result<(), Refused> {
        self.applying.clear();
        self.draws.clear();
        let mut flaw = Ok(());
        for (index, rule) in self.rules.iter().enumerate() {
            if !rule
                .when
                .iter()
                .all(|condition| record.field(condition.field).text() == Some(&condition.text))
            {
                continue;
            }
            let refused = |reason| Refused { limit: self.first + index, reason, retry_after_ns: None };
            let key = &mut self.keys[index];
            key.clear();
            let last = rule.key.len().saturating_sub(1);
            let complete = rule.key.iter().enumerate().all(|(place, &field)| {
                let part = record.field(field).text();
                part.inspect(|part| append(key, part, place == last)).is_some()
            });
            self.applying.push((index, complete));
            if !complete {
                flaw = flaw.and(Err(refused(Reason::MissingField)));
                continue;
            }
            let cost = match rule.cost {
                CostOf::Constant(tokens) => Whole::Is(tokens),
                CostOf::Field(field) => record.field(field).whole(),
            };
            match cost {
                Whole::Is(tokens) => self.draws.push((index, tokens)),
                Whole::Absent => flaw = flaw.and(Err(refused(Reason::MissingField))),
                Whole::Bad => flaw = flaw.and(Err(refused(Reason::BadCost))),
            }
        }
        flaw
    }

    /// Adds the event's draws to the current stage of `plan`.
    #[inline]
    pub fn plan<'t>(&'t self, plan: &mut Plan<'t>) {
        for &(index, cost) in &self.draws {
            self.set.plan(index, &self.keys[index], cost, plan);
        }
    }

    /// Does the event draw on nothing?
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.draws.is_empty()
    }

    /// Whole tokens left of each limit that applies; those without a key have their capacity, from `capacities`
    /// by place.
    pub fn remaining(&self, capacities: &[u64], out: &mut Vec<(usize, u64)>) {
        for &(index, has_key) in &self.applying {
            let place = self.first + index;
            out.push((
                place,
                if has_key { self.set.peek(index, &self.keys[index]) } else { capacities[place] },
            ));
        }
    }

    /// Live buckets.
    pub fn live_buckets(&self) -> u64 {
        self.set.len() as u64
    }

    /// Bytes reserved.
    pub fn memory_bytes(&self) -> usize {
        self.set.memory_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lists_of_values_make_one_key() {
        let key = |parts: &[&str]| {
            let mut key = KeyBytes::default();
            parts
                .iter()
                .enumerate()
                .for_each(|(place, part)| append(&mut key, part, place + 1 == parts.len()));
            key.as_slice().to_vec()
        };
        assert_ne!(key(&["a", "bc"]), key(&["ab", "c"]));
        assert_ne!(key(&["", "a"]), key(&["a", ""]));
        assert_eq!(key(&["a"]), b"a");
        assert_eq!(key(&[]), b"");
    }
}
