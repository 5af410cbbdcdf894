//! A `Limiter` or a `LimitSet`, with numbered keys.

use crate::table_model::Draw;
use std::collections::BTreeMap;
use tollgate::limiter::{BucketSnapshot, Keep};
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{Admission, ConfigError, LimitSet, Limiter, Plan, Refusal};

const NAMES: [&str; 3] = ["first", "second", "third"];

pub enum Subject {
    Single(Limiter<str>),
    Set(LimitSet),
}

/// The key of a number: the empty one, short ones, ones around the length that a cell holds, and long ones.
fn name(key: usize) -> String {
    match key % 4 {
        0 if key == 0 => String::new(),
        0 | 1 => format!("k{key}"),
        2 => format!("m{key:0>0$}", 30 + key / 4 % 16),
        _ => format!("l{key:0>0$}", 60 + key * 37 % 300),
    }
}

impl Subject {
    pub fn single(quota: Quota, cap: usize, clock: &ManualClock) -> Result<Self, ConfigError> {
        Limiter::builder(quota).name(NAMES[0]).bucket_cap(cap).clock(clock.clone()).build().map(Self::Single)
    }

    pub fn set(quotas: &[Quota], cap: usize, clock: &ManualClock) -> Result<Self, ConfigError> {
        let builder = LimitSet::builder().bucket_cap(cap).clock(clock.clone());
        let named = quotas.iter().zip(NAMES);
        named.fold(builder, |builder, (quota, name)| builder.limit(name, *quota)).build().map(Self::Set)
    }

    pub fn takes_one(&self) -> bool {
        matches!(self, Subject::Single(_))
    }

    pub fn name(&self, limit: usize) -> &'static str {
        NAMES[limit]
    }

    /// One admission for each draw that costs something.
    pub fn draw(&self, draws: &[Draw<usize>]) -> Result<Vec<Admission>, Refusal> {
        match self {
            Subject::Single(limiter) => {
                let [Draw { key, cost, .. }] = draws else { panic!("a limiter takes one draw at a time") };
                let admission = limiter.check_n(&name(*key), *cost)?;
                Ok(if *cost > 0 { vec![admission] } else { Vec::new() })
            }
            Subject::Set(set) => {
                let mut plan = Plan::new();
                for Draw { limit, key, cost } in draws {
                    set.plan(*limit, name(*key).as_str(), *cost, &mut plan);
                }
                plan.commit().map(|admissions| admissions.to_vec()).map_err(|refused| refused.refusal)
            }
        }
    }

    pub fn peek(&self, limit: usize, key: usize) -> u64 {
        match self {
            Subject::Single(limiter) => limiter.peek(&name(key)),
            Subject::Set(set) => set.peek(limit, name(key).as_str()),
        }
    }

    pub fn reconfigure(&self, limit: usize, quota: Quota, keep: Keep) -> Result<(), ConfigError> {
        match self {
            Subject::Single(limiter) => limiter.reconfigure(quota, keep),
            Subject::Set(set) => set.reconfigure(limit, quota, keep),
        }
    }

    pub fn prune(&self) -> usize {
        match self {
            Subject::Single(limiter) => limiter.prune_refilled(),
            Subject::Set(set) => set.prune_refilled(),
        }
    }

    pub fn len(&self) -> usize {
        match self {
            Subject::Single(limiter) => limiter.len(),
            Subject::Set(set) => set.len(),
        }
    }

    /// Every bucket that iteration shows: limit, key and tokens. Keys are numbers below `keys`.
    pub fn buckets(&self, keys: usize) -> Vec<(usize, usize, u64)> {
        let numbers: BTreeMap<Vec<u8>, usize> = (0..keys).map(|key| (name(key).into_bytes(), key)).collect();
        let number = |bytes: &[u8]| *numbers.get(bytes).unwrap_or_else(|| panic!("no key is {bytes:?}"));
        let read =
            |BucketSnapshot { limit, key, available }: BucketSnapshot| (limit, number(&key), available);
        match self {
            Subject::Single(limiter) => limiter.iter().map(read).collect(),
            Subject::Set(set) => set.iter().map(read).collect(),
        }
    }
}
