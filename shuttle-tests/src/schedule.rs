//! The scheduler: one seed decides a whole execution, so that printing the seed is enough to repeat it.
//!
//! | style | at each step | finds |
//! |---|---|---|
//! | uniform | any thread, all alike | races of many threads |
//! | sticky | the same thread, and now and then another | a thread that is overtaken by long stretches of others |
//! | priorities | the first in a random order, which changes at a few random steps | bugs that need few, exact preemptions |
//!
//! The third is PCT (Burckhardt and others, "A randomized scheduler with probabilistic guarantees of finding bugs",
//! 2010). The number of steps is not known beforehand, so its change points are drawn log-uniformly.

use crate::random::Random;
use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs seeds `first`, `first + 1`, ... and tells which is running.
pub struct Seeded {
    next: u64,
    end: u64,
    running: Arc<AtomicU64>,
    steps: Arc<AtomicU64>,
    random: Random,
    /// For the choices that the mixes make.
    data: Random,
    style: Style,
}

enum Style {
    Uniform,
    Sticky { one_in: usize },
    Priorities { of: BTreeMap<usize, u64>, changes: Vec<u64>, step: u64, lowest: u64 },
}

impl Seeded {
    pub fn new(seeds: std::ops::Range<u64>, running: Arc<AtomicU64>, steps: Arc<AtomicU64>) -> Self {
        let random = Random::new(0);
        Self {
            next: seeds.start,
            end: seeds.end,
            running,
            steps,
            random: random.clone(),
            data: random,
            style: Style::Uniform,
        }
    }
}

impl Style {
    fn of(random: &mut Random) -> Self {
        match random.below(4) {
            0 => Style::Uniform,
            1 => Style::Sticky { one_in: 2 << random.below(6) },
            _ => {
                let changes = (0..random.below(12)).map(|_| {
                    let scale = 1 << (3 + random.below(12));
                    random.next() % scale
                });
                Style::Priorities {
                    changes: changes.collect(),
                    of: BTreeMap::new(),
                    step: 0,
                    lowest: u64::MAX / 2,
                }
            }
        }
    }
}

impl Scheduler for Seeded {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.next == self.end {
            return None;
        }
        let seed = self.next;
        self.next += 1;
        self.running.store(seed, Ordering::Relaxed);
        self.random = Random::new(seed);
        self.data = self.random.split();
        self.style = Style::of(&mut self.random);
        Some(Schedule::new(seed))
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, yielding: bool) -> Option<TaskId> {
        self.steps.fetch_add(1, Ordering::Relaxed);
        let random = &mut self.random;
        let any = |random: &mut Random| runnable[random.below(runnable.len())].id();
        Some(match &mut self.style {
            Style::Uniform => any(random),
            Style::Sticky { one_in } => {
                let goes_on = current.filter(|&now| runnable.iter().any(|task| task.id() == now));
                match goes_on {
                    Some(now) if !yielding && !random.one_in(*one_in) => now,
                    _ => any(random),
                }
            }
            Style::Priorities { of, changes, step, lowest } => {
                for task in runnable {
                    of.entry(usize::from(task.id())).or_insert_with(|| random.next() / 2);
                }
                if let Some(now) = current {
                    // A thread that waits for others must let them run.
                    if yielding || changes.contains(step) {
                        *lowest += 1;
                        of.insert(usize::from(now), *lowest);
                    }
                }
                if runnable.len() > 1 {
                    *step += 1;
                }
                runnable
                    .iter()
                    .map(|task| task.id())
                    .min_by_key(|&task| of[&usize::from(task)])
                    .expect("some")
            }
        })
    }

    fn next_u64(&mut self) -> u64 {
        self.data.next()
    }
}
