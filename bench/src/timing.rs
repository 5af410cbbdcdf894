//! One timed run: threads start behind a barrier, and count from the first start to the last end.

use crate::call::Call;
use crate::run_queue::Waiting;
use crate::subject::Subject;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What one timed run of one contender gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Threads.
    pub threads: usize,
    /// From the first start to the last end.
    pub elapsed: Duration,
    /// Calls of all threads.
    pub calls: u64,
    /// Admitted of them.
    pub admitted: u64,
    /// What all threads waited for a processor that other work had, as far as the system tells.
    pub waited: Duration,
}

impl Sample {
    /// What a caller waits for one call: the run's time over the calls of one thread.
    pub fn ns_per_op(&self) -> f64 {
        // No run takes no time, but a coarse timer may say so.
        self.elapsed.as_nanos().max(1) as f64 * self.threads as f64 / self.calls.max(1) as f64
    }

    /// Adds a further run of the same contender.
    pub fn add(&mut self, more: Sample) {
        self.elapsed += more.elapsed;
        self.calls += more.calls;
        self.admitted += more.admitted;
        self.waited += more.waited;
    }

    /// The share of its threads' time in which they waited for a processor.
    pub fn share_waited(&self) -> f64 {
        self.waited.as_secs_f64() / (self.elapsed.as_secs_f64() * self.threads as f64).max(f64::MIN_POSITIVE)
    }
}

/// Each thread makes `calls` calls, going round its own prepared ones.
pub fn timed(subject: &dyn Subject, prepared: &[Vec<Call>], calls: u64) -> Sample {
    let barrier = Barrier::new(prepared.len());
    let work = |prepared: &[Call]| {
        barrier.wait();
        let mut waiting = Waiting::default();
        waiting.since_last();
        let start = Instant::now();
        let length = prepared.len() as u64;
        let mut admitted = 0;
        for _ in 0..calls / length {
            admitted += subject.run(prepared);
        }
        admitted += subject.run(&prepared[..(calls % length) as usize]);
        let end = Instant::now();
        (start, end, admitted, waiting.since_last())
    };
    let runs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = prepared.iter().map(|prepared| scope.spawn(|| work(prepared))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|run| run.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let start = runs.iter().map(|run| run.0).min();
    let end = runs.iter().map(|run| run.1).max();
    Sample {
        threads: prepared.len(),
        elapsed: start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start),
        calls: calls * prepared.len() as u64,
        admitted: runs.iter().map(|run| run.2).sum(),
        waited: runs.iter().map(|run| run.3).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Calls;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_thread_makes_as_many_calls_as_it_was_told() {
        let calls = Calls::hot(3, 10);
        let seen = AtomicU64::new(0);
        let odd = |_: &Call| seen.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        let sample = timed(&odd, &calls.per_thread, 24);
        assert_eq!(seen.load(Ordering::Relaxed), 72);
        assert_eq!((sample.calls, sample.admitted, sample.threads), (72, 36, 3));
    }

    #[test]
    fn a_caller_waits_the_runs_time_over_the_calls_of_one_thread() {
        let elapsed = Duration::from_nanos(1_000);
        let waited = Duration::from_nanos(200);
        let mut sample = Sample { threads: 2, elapsed, calls: 20, admitted: 20, waited };
        assert_eq!((sample.ns_per_op(), sample.share_waited()), (100.0, 0.1));
        sample.add(Sample { threads: 2, elapsed, calls: 60, admitted: 0, waited: Duration::ZERO });
        assert_eq!((sample.ns_per_op(), sample.admitted, sample.share_waited()), (50.0, 20, 0.05));
    }
}
