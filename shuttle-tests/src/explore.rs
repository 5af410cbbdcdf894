//! Runs one mix under many seeds, and reports the seed that failed.

use crate::random::Random;
use crate::schedule::Seeded;
use shuttle::rand::RngCore;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A mix: what it proves, and one execution of it.
#[derive(Clone, Copy)]
pub struct Mix {
    pub name: &'static str,
    pub proves: &'static str,
    pub execution: fn(&mut Random) -> usize,
}

/// Explores `mix` from each seed until time is up; true if every execution passed.
pub fn explore(mix: Mix, seeds: Range<u64>, time: Option<Duration>) -> bool {
    let running = Arc::new(AtomicU64::new(seeds.start));
    let (steps, operations) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut config = Config::new();
    config.stack_size = 0x4_0000;
    // A seed is shorter than a schedule, and says as much.
    config.failure_persistence = FailurePersistence::None;
    // Every thread ends within this, or some thread waits for ever.
    config.max_steps = MaxSteps::FailAfter(2_000_000);
    config.max_time = time;
    config.silence_warnings = true;
    let runner = Runner::new(Seeded::new(seeds, running.clone(), steps.clone()), config);
    let start = Instant::now();
    let counted = operations.clone();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        runner.run(move || {
            let mut random = Random::new(shuttle::rand::thread_rng().next_u64());
            let operations = (mix.execution)(&mut random);
            counted.fetch_add(operations as u64, Ordering::Relaxed);
        })
    }));
    let (seconds, steps) = (start.elapsed().as_secs_f64(), steps.load(Ordering::Relaxed));
    match outcome {
        Ok(executions) => {
            let operations = operations.load(Ordering::Relaxed) / (executions as u64).max(1);
            println!(
                "passed: {} ({executions} schedules of about {operations} operations, {steps} steps, {seconds:.1} s)\n    {}",
                mix.name, mix.proves
            );
            executions > 0
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
            let seed = running.load(Ordering::Relaxed);
            println!(
                "FAILED: {0} at seed {seed}, after {seconds:.1} s\n    {1}\n    {text}\n    again: shuttle-tests/run --replay {0}:{seed}",
                mix.name, mix.proves
            );
            false
        }
    }
}
