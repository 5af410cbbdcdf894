//! Contenders interleaved: A B C, then B C A, and so on.

use crate::error::BenchError;
use crate::options::Effort;
use crate::stats::Spread;
use crate::timing::Sample;
use crate::workload::Workload;

/// One contender of one workload.
pub trait Contender {
    /// Its name in the report.
    fn name(&self) -> &str;

    /// The fewest calls of a thread that a round can be made of.
    fn least_calls(&self) -> u64;

    /// The most calls of a thread that a round should have, however many were asked for.
    fn most_calls(&self) -> u64 {
        u64::MAX
    }

    /// Sets itself up, makes about `calls` calls from each thread, timed, and checks the admitted count.
    ///
    /// # Errors
    /// A wrong count, or a setup that fails.
    fn round(&mut self, threads: usize, calls: u64) -> Result<Sample, BenchError>;
}

/// What all rounds of one contender gave.
#[derive(Debug, Clone)]
pub struct Series {
    /// What was measured.
    pub workload: Workload,
    /// With how many threads.
    pub threads: usize,
    /// Who was measured.
    pub contender: String,
    /// One a round.
    pub samples: Vec<Sample>,
}

impl Series {
    /// Nanoseconds a call, round by round.
    pub fn ns_per_op(&self) -> impl Iterator<Item = f64> {
        self.samples.iter().map(Sample::ns_per_op)
    }

    /// The spread of that; `None` if there was no round.
    pub fn spread(&self) -> Option<Spread> {
        Spread::of(self.ns_per_op())
    }
}

/// Runs all contenders, round after round. The order is rotated, so that none always follows the same other.
///
/// # Errors
/// As [`Contender::round`]: the first wrong count ends the run.
pub fn interleave(
    workload: Workload,
    contenders: &mut [Box<dyn Contender>],
    threads: usize,
    rounds: usize,
    effort: Effort,
) -> Result<Vec<Series>, BenchError> {
    let mut series = Vec::new();
    let mut calls = Vec::new();
    for contender in contenders.iter_mut() {
        calls.push(calibrate(contender.as_mut(), threads, effort)?);
        let contender = contender.name().to_owned();
        series.push(Series { workload, threads, contender, samples: Vec::new() });
    }
    for round in 0..rounds {
        for place in 0..contenders.len() {
            let index = (round + place) % contenders.len();
            series[index].samples.push(contenders[index].round(threads, calls[index])?);
        }
    }
    Ok(series)
}

/// How many calls of each thread make a round. Where a time was asked for, trial rounds tell; they also warm up.
fn calibrate(contender: &mut dyn Contender, threads: usize, effort: Effort) -> Result<u64, BenchError> {
    let (least, most) = (contender.least_calls(), contender.most_calls());
    let within = |calls: u64| calls.min(most).max(least);
    match effort {
        Effort::Calls(calls) => Ok(within(calls)),
        Effort::Time(time) => {
            let calls_in = |sample: Sample| (time.as_nanos() as f64 / sample.ns_per_op()) as u64;
            let first = contender.round(threads, least)?;
            // The first is short and cold; a tenth of the time says more.
            let second = contender.round(threads, within(calls_in(first) / 10))?;
            // The faster trial: one that was interrupted says too few.
            Ok(within(calls_in(first).max(calls_in(second))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    struct Noted(&'static str, Rc<RefCell<Vec<(&'static str, u64)>>>);

    impl Contender for Noted {
        fn name(&self) -> &str {
            self.0
        }
        fn least_calls(&self) -> u64 {
            10
        }
        fn most_calls(&self) -> u64 {
            5_000
        }
        fn round(&mut self, threads: usize, calls: u64) -> Result<Sample, BenchError> {
            self.1.borrow_mut().push((self.0, calls));
            let elapsed = Duration::from_nanos(100 * calls);
            Ok(Sample {
                threads,
                elapsed,
                calls: calls * threads as u64,
                admitted: 0,
                waited: Duration::ZERO,
            })
        }
    }

    fn noted(effort: Effort) -> Vec<(&'static str, u64)> {
        let notes = Rc::default();
        let mut contenders: Vec<Box<dyn Contender>> =
            ["a", "b", "c"].map(|name| Box::new(Noted(name, Rc::clone(&notes))) as _).into();
        let series = interleave(Workload::Pair, &mut contenders, 2, 3, effort).unwrap();
        assert!(series.iter().all(|series| series.samples.len() == 3));
        notes.take()
    }

    #[test]
    fn contenders_take_turns_in_a_rotated_order() {
        let order: String = noted(Effort::Calls(20)).into_iter().map(|note| note.0).collect();
        assert_eq!(order, "abcbcacab");
    }

    #[test]
    fn a_round_has_the_calls_asked_for_within_the_contenders_bounds() {
        assert!(noted(Effort::Calls(20)).iter().all(|note| note.1 == 20));
        assert!(noted(Effort::Calls(1)).iter().all(|note| note.1 == 10));
        assert!(noted(Effort::Calls(1_000_000)).iter().all(|note| note.1 == 5_000));
    }

    #[test]
    fn a_time_is_filled_with_as_many_calls_as_trial_rounds_suggest() {
        let calls: Vec<_> =
            noted(Effort::Time(Duration::from_micros(200))).into_iter().map(|n| n.1).collect();
        // Two trials each: the least, and a tenth of what the least suggests; 200 us hold 2,000 calls of 100 ns.
        assert_eq!(calls[..6], [10, 200, 10, 200, 10, 200]);
        assert!(calls[6..].iter().all(|&calls| calls == 2_000));
    }
}
