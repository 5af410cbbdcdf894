//! Runs one model under loom and reports what was explored.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A model: what it proves, and one execution of it.
#[derive(Clone, Copy)]
pub struct Model {
    pub name: &'static str,
    pub proves: &'static str,
    /// Preemptions per execution with plain loads, and with loads as read-modify-writes: the largest bounds that
    /// end soon.
    pub bounds: [usize; 2],
    pub execution: fn(),
}

impl Model {
    fn bound(&self) -> usize {
        self.bounds[usize::from(cfg!(tollgate_rmw_loads))]
    }
}

#[derive(Clone, Copy)]
pub struct Limits {
    pub bound: Option<usize>,
    /// Above the models' own bounds.
    pub deeper: usize,
    pub time: Duration,
}

/// Explores `model`; true if every execution passed.
///
/// Says so once the first execution is under way: a panic during unwinding ends the process, and whoever started
/// it can tell by that line that the model was running.
pub fn explore(model: Model, limits: Limits) -> bool {
    let executions = Arc::new(AtomicUsize::new(0));
    let mut builder = loom::model::Builder::new();
    let bound = limits.bound.unwrap_or(model.bound() + limits.deeper);
    builder.preemption_bound = Some(bound);
    builder.max_branches = 50_000;
    builder.max_duration = Some(limits.time);
    let counted = executions.clone();
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        builder.check(move || {
            if counted.fetch_add(1, Ordering::Relaxed) == 0 {
                println!("exploring: {}", model.name);
                std::io::stdout().flush().expect("standard output is open");
            }
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
