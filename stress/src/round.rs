//! One round of a mix: a fresh engine, threads that work on it, and the check of all they were told.

use crate::random::Random;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tollgate::time::{Clock, CoarseClock, ManualClock, MonotonicClock};

/// A mix: what it proves, and one round of it.
pub struct Mix {
    pub name: &'static str,
    pub proves: &'static str,
    pub round: fn(&mut Round) -> Result<Counts, String>,
}

/// What a round may choose from.
pub struct Round {
    pub threads: usize,
    pub random: Random,
}

/// What a round was made of, so that a run can be seen not to be empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Counts {
    pub admitted: usize,
    pub refused: usize,
}

impl Round {
    /// Choices for each thread.
    pub fn split(&mut self) -> Vec<Random> {
        (0..self.threads).map(|_| self.random.split()).collect()
    }

    /// Runs it; a panic of any thread is a failure with its message.
    pub fn run(&mut self, mix: &Mix) -> Result<Counts, String> {
        catch_unwind(AssertUnwindSafe(|| (mix.round)(self))).unwrap_or_else(|panic| Err(message(&*panic)))
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}

/// One of the clocks; a manual one is moved by whoever watches.
#[derive(Debug, Clone)]
pub enum AnyClock {
    Monotonic(MonotonicClock),
    Coarse(CoarseClock),
    Manual(ManualClock),
}

impl AnyClock {
    pub fn any(random: &mut Random) -> Self {
        match random.below(5) {
            0 | 1 => AnyClock::Monotonic(MonotonicClock::new()),
            2 => AnyClock::Coarse(CoarseClock::new()),
            _ => AnyClock::Manual(ManualClock::new()),
        }
    }

    pub fn as_dyn(&self) -> &dyn Clock {
        match self {
            AnyClock::Monotonic(clock) => clock,
            AnyClock::Coarse(clock) => clock,
            AnyClock::Manual(clock) => clock,
        }
    }

    /// Moves a manual clock.
    pub fn step(&self, nanos: u64) {
        if let AnyClock::Manual(clock) = self {
            clock.advance(Duration::from_nanos(nanos));
        }
    }
}

/// Builds with whichever clock it is: the engine knows its own clocks by their types.
#[macro_export]
macro_rules! with_clock {
    ($builder:expr, $clock:expr) => {{
        let builder = $builder;
        match $clock {
            $crate::round::AnyClock::Monotonic(clock) => builder.clock(*clock),
            $crate::round::AnyClock::Coarse(clock) => builder.clock(*clock),
            $crate::round::AnyClock::Manual(clock) => builder.clock(clock.clone()),
        }
    }};
}
