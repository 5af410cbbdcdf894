//! How many calls must be admitted: exactly predicted wherever no refill comes in between.

use crate::error::BenchError;
use crate::workload::Workload;
use std::fmt;

/// A number of admitted calls, or the tight bounds of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    at_least: u64,
    at_most: u64,
}

impl Expected {
    /// This number and no other.
    pub fn exactly(count: u64) -> Self {
        Self { at_least: count, at_most: count }
    }

    /// Up to this number.
    pub fn at_most(count: u64) -> Self {
        Self { at_least: 0, at_most: count }
    }

    fn admits(self, count: u64) -> bool {
        (self.at_least..=self.at_most).contains(&count)
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.at_least == self.at_most {
            write!(f, "{}", self.at_least)
        } else {
            write!(f, "{} to {}", self.at_least, self.at_most)
        }
    }
}

/// The parts of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before timing: every key gets its bucket.
    Opening,
    /// Timed.
    Timed,
    /// After timing: what was drawn must be gone.
    Settled,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Opening => "while its table was set up",
            Phase::Timed => "in the timed part",
            Phase::Settled => "from buckets that the timed part had emptied",
        })
    }
}

/// Whose counts are checked.
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// What is measured.
    pub workload: Workload,
    /// Who answers.
    pub contender: &'a str,
    /// With how many threads.
    pub threads: usize,
}

impl Checked<'_> {
    /// # Errors
    /// If `got` is not what was expected.
    pub fn admitted(self, phase: Phase, expected: Expected, got: u64) -> Result<(), BenchError> {
        if expected.admits(got) {
            return Ok(());
        }
        let Self { workload, contender, threads } = self;
        Err(BenchError::WrongCount { workload, contender: contender.into(), threads, phase, expected, got })
    }

    /// # Errors
    /// If `got` live buckets are not what was expected.
    pub fn buckets(self, expected: Expected, got: u64) -> Result<(), BenchError> {
        if expected.admits(got) {
            return Ok(());
        }
        let Self { workload, contender, .. } = self;
        Err(BenchError::WrongBuckets { workload, contender: contender.into(), expected, got })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_too_many_or_too_few_is_an_error_that_says_everything() {
        let checked = Checked { workload: Workload::Pair, contender: "fake", threads: 2 };
        let right = checked.admitted(Phase::Timed, Expected::exactly(100), 100);
        assert!(right.is_ok());
        for got in [99, 101] {
            let text = checked.admitted(Phase::Timed, Expected::exactly(100), got).unwrap_err().to_string();
            for part in ["pair", "threads 2", "fake", &format!("admitted {got}"), "expected 100", "timed"] {
                assert!(text.contains(part), "no {part} in {text}");
            }
        }
    }

    #[test]
    fn bounds_include_their_ends() {
        let checked = Checked { workload: Workload::Full, contender: "fake", threads: 1 };
        assert!(checked.admitted(Phase::Settled, Expected::at_most(3), 3).is_ok());
        let text = checked.admitted(Phase::Settled, Expected::at_most(3), 4).unwrap_err().to_string();
        assert!(text.contains("expected 0 to 3"), "{text}");
        let text = checked.buckets(Expected::at_most(3), 4).unwrap_err().to_string();
        assert!(text.contains("4 live buckets, expected 0 to 3"), "{text}");
    }
}
