//! Who answers calls.

use crate::call::Call;
use std::hint::black_box;
use tollgate::ConfigError;

/// A limiter, set up: answers calls from any thread.
pub trait Subject: Send + Sync {
    /// Makes each call in turn, and counts the admitted ones. One dynamic call for many: the loop itself is
    /// compiled for each subject.
    fn run(&self, calls: &[Call]) -> u64;
}

/// A closure that says whether a call is admitted.
impl<F: Fn(&Call) -> bool + Send + Sync> Subject for F {
    fn run(&self, calls: &[Call]) -> u64 {
        let mut admitted = 0;
        for call in calls {
            admitted += u64::from(black_box(self(black_box(call))));
        }
        admitted
    }
}

/// Tokens that the limits of a contender hold; every limit releases one token a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Of each capability. Spend is in calls of the same [`COST`](crate::call::COST).
    pub key: u64,
    /// Of each agent.
    pub agent: u64,
}

/// Sets up a contender with limits of the given capacity, every bucket full.
pub type Build = Box<dyn Fn(Capacity) -> Result<Box<dyn Subject>, ConfigError>>;

/// A subject with a bound on its buckets.
pub struct Bounded {
    /// Answers the calls.
    pub subject: Box<dyn Subject>,
    /// Counts its live buckets.
    pub live: Box<dyn Fn() -> usize>,
}
