//! Counts of outcomes, hour by hour, by limit and by whose it was: in memory that the trace's length does not change.

use super::judge::{Outcome, Unjudged};
use crate::summary::SpaceSaving;
use std::collections::BTreeMap;
use tollgate::spend::{Dimension, Millis, Reason, Tier};

const HOUR: Millis = 3_600_000;
/// Hours that are told one by one: more than seven years of them. What comes after them is told together.
pub const HOURS: usize = 65_536;
/// A key that was reduced or refused more often than one in so many times is listed.
const COUNTERS: usize = 1_024;

/// What became of some events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub full: u64,
    pub reduced: u64,
    /// Costless events that passed a tier which blocks.
    pub free: u64,
    /// Refused by a limit.
    pub blocked: u64,
    /// Refused because they could not be judged.
    pub unjudged: u64,
    /// Used by those that went on.
    pub cost: u64,
    pub tokens: u64,
}

impl Counts {
    pub fn events(&self) -> u64 {
        self.full + self.reduced + self.free + self.blocked + self.unjudged
    }

    fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed { tier, used, .. } => {
                match tier {
                    Tier::Full => self.full += 1,
                    Tier::Reduced => self.reduced += 1,
                    Tier::Blocked => self.free += 1,
                }
                self.cost = self.cost.saturating_add(used[Dimension::Cost]);
                self.tokens = self.tokens.saturating_add(used[Dimension::Tokens]);
            }
            Outcome::Refused(_) => self.blocked += 1,
            Outcome::Unjudged(_) => self.unjudged += 1,
        }
    }
}

/// What a limit did to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    Reduced,
    Refused(&'static str),
}

/// A limit: scope, dimension, window.
pub type LimitName = (String, Dimension, String);

#[derive(Debug)]
pub struct Tally {
    pub total: Counts,
    /// By the hour's beginning.
    pub hours: BTreeMap<Millis, Counts>,
    /// After all hours that are told one by one.
    pub later: Counts,
    pub limits: BTreeMap<LimitName, BTreeMap<Effect, u64>>,
    pub unjudged: BTreeMap<Unjudged, u64>,
    reduced: SpaceSaving,
    blocked: SpaceSaving,
}

/// A key of a scope that was reduced or refused often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Often {
    pub scope: String,
    pub key: String,
    pub count: u64,
    /// By so much may `count` be too high.
    pub error: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            total: Counts::default(),
            hours: BTreeMap::new(),
            later: Counts::default(),
            limits: BTreeMap::new(),
            unjudged: BTreeMap::new(),
            reduced: SpaceSaving::new(COUNTERS),
            blocked: SpaceSaving::new(COUNTERS),
        }
    }
}

impl Tally {
    pub fn count(&mut self, at: Millis, outcome: &Outcome) {
        self.total.add(outcome);
        let (hour, room) = (at - at % HOUR, self.hours.len() < HOURS);
        match self.hours.get_mut(&hour) {
            Some(counts) => counts.add(outcome),
            None if room => self.hours.entry(hour).or_default().add(outcome),
            None => self.later.add(outcome),
        }
        match outcome {
            Outcome::Passed { tier: Tier::Reduced, set_by: Some(cause), .. } => {
                let limit = (cause.scope.clone(), cause.dimension, cause.window.clone());
                *self.limits.entry(limit).or_default().entry(Effect::Reduced).or_default() += 1;
                self.reduced.observe(&named(&cause.scope, &cause.key));
            }
            Outcome::Passed { .. } => {}
            Outcome::Refused(refusal) => {
                let limit = (refusal.scope.clone(), refusal.dimension, refusal.window.clone());
                let effect = Effect::Refused(reason(refusal.reason));
                *self.limits.entry(limit).or_default().entry(effect).or_default() += 1;
                self.blocked.observe(&named(&refusal.scope, &refusal.key));
            }
            Outcome::Unjudged(why) => *self.unjudged.entry(*why).or_default() += 1,
        }
    }

    /// Those that were reduced most often.
    pub fn reduced_most(&self, most: usize) -> Vec<Often> {
        often(&self.reduced, most)
    }

    /// Those that were refused most often.
    pub fn blocked_most(&self, most: usize) -> Vec<Often> {
        often(&self.blocked, most)
    }
}

pub fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Exhausted => "exhausted",
        Reason::Impossible => "impossible",
        Reason::Blocked => "blocked",
        Reason::Ceiling => "ceiling",
        _ => "refused",
    }
}

/// A scope and a key as bytes: the scope's length first, so that no two pairs are one.
fn named(scope: &str, key: &str) -> Vec<u8> {
    let mut name = (scope.len() as u64).to_be_bytes().to_vec();
    name.extend_from_slice(scope.as_bytes());
    name.extend_from_slice(key.as_bytes());
    name
}

fn often(counted: &SpaceSaving, most: usize) -> Vec<Often> {
    let read = |name: &[u8]| -> Option<(String, String)> {
        let (length, rest) = name.split_first_chunk::<8>()?;
        let (scope, key) = rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
        Some((String::from_utf8_lossy(scope).into_owned(), String::from_utf8_lossy(key).into_owned()))
    };
    let heavy = counted.top(most).into_iter();
    heavy
        .filter_map(|heavy| {
            let (scope, key) = read(heavy.key)?;
            Some(Often { scope, key, count: heavy.count, error: heavy.error })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_beyond_those_that_are_told_are_told_together() {
        let mut tally = Tally::default();
        let outcome = Outcome::Unjudged(Unjudged::AccountsFull);
        for hour in 0..HOURS as Millis + 3 {
            tally.count(hour * HOUR, &outcome);
        }
        tally.count(5, &outcome);
        assert_eq!((tally.hours.len(), tally.hours[&0].unjudged, tally.later.unjudged), (HOURS, 2, 3));
    }

    #[test]
    fn scopes_and_keys_are_told_apart_and_read_back() {
        let mut counted = SpaceSaving::new(8);
        for (scope, key) in [("a", "bc"), ("ab", "c"), ("a", "bc"), ("", "")] {
            counted.observe(&named(scope, key));
        }
        let read: Vec<_> = often(&counted, 8).into_iter().map(|it| (it.scope, it.key, it.count)).collect();
        let row = |scope: &str, key: &str, count| (scope.to_owned(), key.to_owned(), count);
        assert_eq!(read, [row("a", "bc", 2), row("", "", 1), row("ab", "c", 1)]);
    }
}
