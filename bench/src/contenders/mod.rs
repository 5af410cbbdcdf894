//! Who is measured. Every contender gets the same capacities and the same refill: one token a second for each limit
//! (and as much spend as one call costs), so slow beside a round that what a round has drawn stays drawn.

pub mod budgets;
pub mod dashmap;
pub mod effects;
pub mod governor;
pub mod guards;
pub mod limiters;

use tollgate::time::{CoarseClock, MonotonicClock};

/// The clock of a contender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The standard library's.
    Std,
    /// The operating system's coarse one.
    Coarse,
}

/// Builds what has a builder, in the engine or in the baseline, which are different types of one shape.
macro_rules! built {
    ($builder:expr, $clock:expr) => {
        match $clock {
            $crate::contenders::Clock::Std => $builder.clock($crate::contenders::MonotonicClock::new()),
            $crate::contenders::Clock::Coarse => $builder.clock($crate::contenders::CoarseClock::new()),
        }
        .build()?
    };
}
pub(crate) use built;
