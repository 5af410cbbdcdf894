//! Runs one model under loom and reports what was explored.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A model: what it proves, and one execution of it.
pub struct Model {
    pub name: &'static str,
    pub proves: &'static str,
    /// Preemptions per execution; each model has the largest bound that ends in reasonable time.
    pub bound: usize,
    pub execution: fn(),
}

#[derive(Clone, Copy)]
pub struct Limits {
    pub bound: Option<usize>,
    pub time: Duration,
}

/// Explores `model`; true if every execution passed.
pub fn explore(model: Model, limits: Limits) -> bool {
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    let bound = limits.bound.unwrap_or(model.bound);
    builder.preemption_bound = Some(bound);
    builder.max_branches = 50_000;
    builder.max_duration = Some(limits.time);
    let counted = executions.clone();
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            (model.execution)();
        });
    }));
    let time = start.elapsed();
    let how = match outcome {
        Err(_) => "FAILED",
        Ok(()) if time >= limits.time => "passed, cut by time",
        Ok(()) => "passed, complete",
    };
    let executions = executions.load(Ordering::Relaxed);
    println!(
        "{how}: {} (at most {bound} preemptions, {executions} executions, {:.1} s)\n    {}",
        model.name,
        time.as_secs_f64(),
        model.proves
    );
    how != "FAILED"
}
