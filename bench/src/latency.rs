//! How long single calls take, and which of that was the machine's.

use crate::call::Call;
use crate::run_queue::Waiting;
use crate::subject::Subject;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A call that takes longer is looked at: was its thread running?
const LONG: Duration = Duration::from_micros(50);
/// Longer is recorded as this.
const MOST_NANOS: u64 = 60_000_000_000;

/// Percentiles of single calls in nanoseconds, with the reading of the clock in them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Latency {
    /// Who was measured; `clock` is the clock alone.
    pub contender: String,
    /// With how many threads.
    pub threads: usize,
    /// How many calls.
    pub calls: u64,
    /// Half of the calls took no longer.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// The longest but for the time in which its thread was ready and the operating system ran another.
    pub max_on_cpu: u64,
}

/// Calls of all threads.
#[derive(Debug, Default)]
pub struct Recorder {
    books: Mutex<Books>,
    paused: AtomicBool,
}

#[derive(Debug, Clone)]
struct Books {
    histogram: Histogram<u64>,
    longest_on_cpu: u64,
    /// Since somebody last asked.
    latest_longest_on_cpu: u64,
}

impl Default for Books {
    fn default() -> Self {
        // 1 ns to a minute, within a hundredth.
        let histogram = Histogram::new_with_bounds(1, MOST_NANOS, 2).expect("bounds that are in order");
        Self { histogram, longest_on_cpu: 0, latest_longest_on_cpu: 0 }
    }
}

impl Books {
    fn record(&mut self, took: Duration, on_cpu: Duration) {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(MOST_NANOS);
        self.histogram.saturating_record(nanos(took));
        self.longest_on_cpu = self.longest_on_cpu.max(nanos(on_cpu));
    }

    fn add(&mut self, more: &Books) {
        self.histogram.add(&more.histogram).expect("histograms of the same bounds");
        self.longest_on_cpu = self.longest_on_cpu.max(more.longest_on_cpu);
        self.latest_longest_on_cpu = self.latest_longest_on_cpu.max(more.longest_on_cpu);
    }
}

impl Recorder {
    /// A subject that times every call of another one.
    pub fn around(recorder: &Arc<Recorder>, subject: Box<dyn Subject>) -> Box<dyn Subject> {
        Box::new(Recorded { subject, recorder: Arc::clone(recorder) })
    }

    /// Whether calls are made without being recorded.
    pub fn pause(&self, paused: bool) {
        // Relaxed: set between runs, whose threads are started afterwards.
        self.paused.store(paused, Ordering::Relaxed);
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The longest call, without the time in which its thread was not running, since this was last asked.
    pub fn take_longest_on_cpu(&self) -> u64 {
        std::mem::take(&mut self.books().latest_longest_on_cpu)
    }

    /// What was recorded.
    pub fn latency(&self, contender: &str, threads: usize) -> Latency {
        let Books { histogram, longest_on_cpu, .. } = &*self.books();
        Latency {
            contender: contender.into(),
            threads,
            calls: histogram.len(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            max_on_cpu: *longest_on_cpu,
        }
    }
}

struct Recorded {
    subject: Box<dyn Subject>,
    recorder: Arc<Recorder>,
}

impl Subject for Recorded {
    fn run(&self, calls: &[Call]) -> u64 {
        if self.recorder.paused.load(Ordering::Relaxed) {
            return self.subject.run(calls);
        }
        let mut books = Books::default();
        let mut waiting = Waiting::default();
        let mut admitted = 0;
        waiting.since_last();
        let mut last_end = Instant::now();
        for call in calls {
            let mut start = Instant::now();
            if start - last_end > LONG {
                // What this thread waited between two calls is not the next call's.
                waiting.since_last();
                start = Instant::now();
            }
            admitted += self.subject.run(black_box(std::slice::from_ref(call)));
            last_end = Instant::now();
            let took = last_end - start;
            let waited = if took > LONG { waiting.since_last() } else { Duration::ZERO };
            books.record(took, took.saturating_sub(waited));
        }
        self.recorder.books().add(&books);
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Calls;

    #[test]
    fn every_call_is_recorded_and_answered_as_before() {
        let recorder = Arc::new(Recorder::default());
        let calls = Calls::hot(1, 100);
        let first = calls.per_thread[0][0].clone();
        let subject = Recorder::around(&recorder, Box::new(move |call: &Call| call.id() == first.id()));
        assert_eq!(subject.run(&calls.per_thread[0]), 100);
        let latency = recorder.latency("fake", 1);
        assert_eq!((latency.calls, latency.contender.as_str()), (100, "fake"));
        recorder.pause(true);
        assert_eq!(subject.run(&calls.per_thread[0]), 100);
        assert_eq!(recorder.latency("fake", 1).calls, 100, "calls in a pause are made and not recorded");
        assert!(latency.p50 <= latency.p99 && latency.p99 <= latency.p999 && latency.p999 <= latency.max);
    }

    #[test]
    fn a_call_that_is_slow_is_the_longest() {
        let recorder = Arc::new(Recorder::default());
        let slow = |_: &Call| {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(2) {}
            true
        };
        Recorder::around(&recorder, Box::new(slow)).run(&Calls::hot(1, 1).per_thread[0]);
        let latency = recorder.latency("slow", 1);
        assert!(latency.max >= 1_990_000, "{latency:?}");
        assert!(latency.max_on_cpu <= latency.max * 101 / 100, "{latency:?}");
    }

    #[test]
    fn time_spent_waiting_is_taken_out_of_the_time_on_the_processor() {
        let mut books = Books::default();
        books.record(Duration::from_millis(9), Duration::from_micros(3));
        books.record(Duration::from_micros(5), Duration::from_micros(5));
        let recorder = Recorder::default();
        recorder.books().add(&books);
        assert_eq!((recorder.take_longest_on_cpu(), recorder.take_longest_on_cpu()), (5_000, 0));
        assert_eq!(recorder.latency("fake", 1).max_on_cpu, 5_000);
        assert!(books.histogram.max() >= 9_000_000);
    }
}
