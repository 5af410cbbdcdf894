//! Reported failures of other limiters as data: the limits, the calls, and the right answers.

// Each test binary uses a part of this file.
#![allow(dead_code)]

use crate::oracle::Line;
use serde::Deserialize;
use std::time::Duration;
use tollgate::quota::Quota;

/// One situation. `answers` is run-length encoded: A admitted, D refused for now, N refused for ever.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    pub id: String,
    pub limits: Vec<Limit>,
    pub calls: Vec<Calls>,
    pub answers: Vec<(Answer, usize)>,
    /// Whole tokens left in the only bucket after the last call.
    pub remaining: Option<u64>,
    /// Where the failure was reported.
    pub source: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Answer {
    A,
    D,
    N,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    Bucket { capacity: u64, refill: u64, period_ns: u64 },
    Window { limit: u64, period_ns: u64 },
}

/// `repeat` calls, the first at `t_ns` and one every `every_ns` from there.
#[derive(Debug, Clone, Deserialize)]
pub struct Calls {
    t_ns: u64,
    #[serde(default)]
    every_ns: u64,
    #[serde(default = "one")]
    repeat: u64,
    #[serde(default = "one")]
    cost: u64,
}

fn one() -> u64 {
    1
}

impl Limit {
    pub fn quota(self) -> Quota {
        match self {
            Limit::Bucket { capacity, refill, period_ns } => {
                Quota::tokens_per(refill, Duration::from_nanos(period_ns)).burst(capacity)
            }
            Limit::Window { limit, period_ns } => Quota::window(limit, Duration::from_nanos(period_ns)),
        }
    }

    /// The exact model of this limit, if a mark of 64 bits can express it.
    pub fn line(self) -> Option<Line> {
        match self {
            Limit::Bucket { capacity, refill, period_ns } => Line::bucket(refill, period_ns, capacity, 64),
            Limit::Window { limit, period_ns } => Line::window(limit, period_ns, 0, 64),
        }
    }
}

impl Case {
    /// All of them.
    pub fn all() -> Vec<Case> {
        serde_json::from_str(include_str!("../data/rate_cases.json")).expect("tests/data/rate_cases.json")
    }

    /// The one called `id`.
    pub fn named(id: &str) -> Case {
        Self::all().into_iter().find(|case| case.id == id).unwrap_or_else(|| panic!("no case {id}"))
    }

    /// Every call as `(time, cost)`. Each draws on all limits of the case.
    pub fn each_call(&self) -> Vec<(u64, u64)> {
        let run = |calls: &Calls| {
            let Calls { t_ns, every_ns, repeat, cost } = *calls;
            (0..repeat).map(move |n| (t_ns + n * every_ns, cost))
        };
        self.calls.iter().flat_map(run).collect()
    }

    /// The right answer to every call.
    pub fn each_answer(&self) -> Vec<Answer> {
        self.answers.iter().flat_map(|&(answer, times)| std::iter::repeat_n(answer, times)).collect()
    }
}
