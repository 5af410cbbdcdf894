//! What the fuzzer makes: limits, a cap, and operations.

use crate::oracle::Line;
use arbitrary::Arbitrary;
use std::time::Duration;
use tollgate::limiter;
use tollgate::quota::Quota;

#[derive(Debug, Arbitrary)]
pub struct Input {
    /// A `Limiter` of the first limit rather than a `LimitSet` of all.
    pub single: bool,
    first: Stated,
    others: [Option<Stated>; 2],
    pub cap: Cap,
    pub ops: Vec<Op>,
}

impl Input {
    pub fn limits(&self) -> impl Iterator<Item = Stated> {
        let others = if self.single { &[] } else { self.others.as_slice() };
        std::iter::once(self.first).chain(others.iter().flatten().copied())
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Op {
    Draw(Draw),
    Advance(Step),
    AwaitHint,
    AlmostAwaitHint,
    Plan([Draw; 2]),
    LongPlan([Draw; 5]),
    /// Many keys in turn, on the first limit.
    Flood {
        from: u16,
        count: u16,
        cost: Cost,
    },
    Peek(u8, u16),
    Prune,
    Reload(u8, Stated, Keep),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub struct Draw {
    pub limit: u8,
    pub key: u8,
    pub cost: Cost,
}

/// A limit. Periods are in microseconds or milliseconds, so that many of them refill within a run.
#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Stated {
    Bucket {
        tokens: u8,
        ms: u16,
        burst: u8,
    },
    FineBucket {
        tokens: u32,
        us: u32,
        burst: u16,
    },
    Window {
        limit: u8,
        ms: u16,
        anchor_us: u32,
    },
    /// What hardly any mark can count.
    Huge {
        tokens: u64,
        ns: u64,
        burst: u64,
    },
}

impl Stated {
    pub fn quota(&self) -> Quota {
        match *self {
            Stated::Bucket { tokens, ms, burst } => {
                Quota::tokens_per(tokens.into(), Duration::from_millis(ms.into())).burst(burst.into())
            }
            Stated::FineBucket { tokens, us, burst } => {
                Quota::tokens_per(tokens.into(), Duration::from_micros(us.into())).burst(burst.into())
            }
            Stated::Window { limit, ms, anchor_us } => {
                Quota::window(limit.into(), Duration::from_millis(ms.into()))
                    .anchored_at(Duration::from_micros(anchor_us.into()))
            }
            Stated::Huge { tokens, ns, burst } => {
                Quota::tokens_per(tokens, Duration::from_nanos(ns)).burst(burst)
            }
        }
    }

    /// The exact model; `None` where a mark of 64 bits cannot count it.
    pub fn line(&self) -> Option<Line> {
        match *self {
            Stated::Bucket { tokens, ms, burst } => {
                Line::bucket(tokens.into(), u64::from(ms) * 1_000_000, burst.into(), 64)
            }
            Stated::FineBucket { tokens, us, burst } => {
                Line::bucket(tokens.into(), u64::from(us) * 1_000, burst.into(), 64)
            }
            Stated::Window { limit, ms, anchor_us } => {
                Line::window(limit.into(), u64::from(ms) * 1_000_000, u128::from(anchor_us) * 1_000, 64)
            }
            Stated::Huge { tokens, ns, burst } => Line::bucket(tokens, ns, burst, 64),
        }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Cost {
    One,
    Few(u8),
    Any(u64),
}

impl Cost {
    pub fn get(self) -> u64 {
        match self {
            Cost::One => 1,
            Cost::Few(cost) => cost.into(),
            Cost::Any(cost) => cost,
        }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Step {
    Nanos(u16),
    Micros(u16),
    Millis(u16),
    Hours(u8),
}

impl Step {
    pub fn get(self) -> Duration {
        match self {
            Step::Nanos(n) => Duration::from_nanos(n.into()),
            Step::Micros(n) => Duration::from_micros(n.into()),
            Step::Millis(n) => Duration::from_millis(n.into()),
            Step::Hours(n) => Duration::from_secs(u64::from(n) * 3_600),
        }
    }
}

#[derive(Debug, Clone, Copy, Arbitrary)]
pub enum Keep {
    AsIs,
    Proportional,
    Reset,
}

impl Keep {
    pub fn get(self) -> limiter::Keep {
        match self {
            Keep::AsIs => limiter::Keep::AsIs,
            Keep::Proportional => limiter::Keep::Proportional,
            Keep::Reset => limiter::Keep::Reset,
        }
    }
}

/// The cap: mostly a handful of buckets, now and then several shards' worth.
#[derive(Debug, Clone, Copy)]
pub struct Cap(u16);

impl<'a> Arbitrary<'a> for Cap {
    fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<Self> {
        Ok(Cap(match u.arbitrary::<u8>()? {
            0..180 => u.int_in_range(1..=6)?,
            180..253 => u.int_in_range(1..=64)?,
            253.. => u.int_in_range(1_000..=5_000)?,
        }))
    }
}

impl Cap {
    pub fn get(self) -> usize {
        self.0.into()
    }
}
