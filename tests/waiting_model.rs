//! Calls that wait are admitted when, and in which order, a plain sequential model says: any history of calls that come,
//! are polled for no reason, are dropped, of checks that overtake, penalties, and a clock that moves.

#[path = "support/tasks.rs"]
mod tasks;

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tasks::Task;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Acquire, AcquireError, Admission, Limiter, Reason};

#[derive(Debug, Clone, Copy)]
struct Setting {
    tokens: u64,
    period: u64,
    burst: u64,
    queue_cap: usize,
    waiter_cap: usize,
}

#[derive(Debug, Clone)]
enum Step {
    /// A call with a deadline so many nanoseconds from now, if any.
    Come {
        key: usize,
        cost: u64,
        within: Option<u64>,
    },
    /// Whichever waits at this place in the list of all is polled, or dropped.
    Poll(usize),
    Drop(usize),
    Check {
        key: usize,
        cost: u64,
    },
    Penalize {
        key: usize,
        wait: u64,
    },
    Advance(u64),
    /// To the next alarm.
    Skip,
}

fn settings() -> impl Strategy<Value = Setting> {
    (1u64..8, 1u64..40, 1u64..6, 0usize..6, 0usize..9).prop_map(
        |(tokens, period, burst, queue_cap, waiter_cap)| Setting {
            tokens,
            period,
            burst,
            queue_cap,
            waiter_cap,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (key, cost) = (0usize..2, 0u64..7);
    let step = prop_oneof![
        6 => (key.clone(), cost.clone(), prop::option::of(0u64..60))
            .prop_map(|(key, cost, within)| Step::Come { key, cost, within }),
        2 => (0usize..8).prop_map(Step::Poll),
        2 => (0usize..8).prop_map(Step::Drop),
        1 => (key.clone(), cost).prop_map(|(key, cost)| Step::Check { key, cost }),
        1 => (key, 0u64..40).prop_map(|(key, wait)| Step::Penalize { key, wait }),
        3 => (0u64..30).prop_map(Step::Advance),
        5 => Just(Step::Skip),
    ];
    prop::collection::vec(step, 1..80)
}

/// What a call got, as far as the model tells it.
#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Admitted { at: u64, remaining: u64 },
    Impossible,
    QueueFull,
    WaitersFull,
    TooEarly { earliest: u64, deadline: u64 },
}

impl From<Result<Admission, AcquireError>> for Outcome {
    fn from(answer: Result<Admission, AcquireError>) -> Self {
        match answer {
            Ok(Admission { at, remaining, .. }) => Outcome::Admitted { at, remaining },
            Err(AcquireError::Refused(refusal)) if refusal.reason == Reason::Impossible => {
                Outcome::Impossible
            }
            Err(AcquireError::QueueFull { .. }) => Outcome::QueueFull,
            Err(AcquireError::WaitersFull { .. }) => Outcome::WaitersFull,
            Err(AcquireError::DeadlineTooEarly { earliest, deadline }) => {
                Outcome::TooEarly { earliest, deadline }
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// A level in `tokens * period`, which grows by `tokens` a nanosecond.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    level: u64,
    at: u64,
    penalty: u64,
}

impl Bucket {
    fn level(&self, of: Setting, now: u64) -> u64 {
        (self.level + of.tokens * (now - self.at)).min(of.burst * of.period)
    }

    /// When a cost fits for the first time, from `now` on.
    fn fits_at(&self, of: Setting, cost: u64, now: u64) -> u64 {
        let lacks = (cost * of.period).saturating_sub(self.level(of, now));
        (now + lacks.div_ceil(of.tokens)).max(self.penalty)
    }

    fn draw(&mut self, of: Setting, cost: u64, now: u64) -> u64 {
        self.level = self.level(of, now) - cost * of.period;
        self.at = now;
        self.level / of.period
    }
}

#[derive(Debug, Clone, Copy)]
struct Call {
    id: usize,
    cost: u64,
    deadline: Option<u64>,
    /// When it looks next, once it was the first.
    looks: Option<u64>,
}

struct Model {
    setting: Setting,
    now: u64,
    buckets: [Bucket; 2],
    queues: [VecDeque<Call>; 2],
    outcomes: BTreeMap<usize, Outcome>,
}

impl Model {
    fn new(setting: Setting) -> Self {
        let full = Bucket { level: setting.burst * setting.period, at: 0, penalty: 0 };
        Self { setting, now: 0, buckets: [full; 2], queues: Default::default(), outcomes: BTreeMap::new() }
    }

    fn earliest(&self, key: usize, before: usize, cost: u64) -> u64 {
        let mut bucket = self.buckets[key];
        let mut at = self.now;
        for call in self.queues[key].iter().take(before) {
            let fits = bucket.fits_at(self.setting, call.cost, at);
            // Who cannot be in time any more takes nothing.
            if call.deadline.is_none_or(|deadline| fits <= deadline) {
                at = fits;
                bucket.draw(self.setting, call.cost, at);
            }
        }
        bucket.fits_at(self.setting, cost, at)
    }

    fn come(&mut self, id: usize, key: usize, cost: u64, deadline: Option<u64>) {
        let (setting, now, length) = (self.setting, self.now, self.queues[key].len());
        let waiting: usize = self.queues.iter().map(VecDeque::len).sum();
        let outcome = if cost == 0 {
            Outcome::Admitted { at: now, remaining: self.buckets[key].level(setting, now) / setting.period }
        } else if cost > setting.burst {
            Outcome::Impossible
        } else if length == 0 && self.buckets[key].fits_at(setting, cost, now) == now {
            Outcome::Admitted { at: now, remaining: self.buckets[key].draw(setting, cost, now) }
        } else if setting.queue_cap == 0 {
            Outcome::QueueFull
        } else if waiting >= setting.waiter_cap {
            Outcome::WaitersFull
        } else if length >= setting.queue_cap {
            Outcome::QueueFull
        } else {
            let earliest = self.earliest(key, length, cost);
            match deadline {
                Some(deadline) if earliest > deadline => Outcome::TooEarly { earliest, deadline },
                _ => return self.queues[key].push_back(Call { id, cost, deadline, looks: None }),
            }
        };
        self.outcomes.insert(id, outcome);
    }

    /// A call looks whether its turn has come.
    fn look(&mut self, key: usize, index: usize) {
        let (setting, now) = (self.setting, self.now);
        let call = self.queues[key][index];
        let earliest = self.earliest(key, index, call.cost);
        let outcome = match call.deadline {
            Some(deadline) if now > deadline => Outcome::TooEarly { earliest, deadline },
            _ if index > 0 => return,
            _ if earliest == now => {
                Outcome::Admitted { at: now, remaining: self.buckets[key].draw(setting, call.cost, now) }
            }
            Some(deadline) if earliest > deadline => Outcome::TooEarly { earliest, deadline },
            _ => {
                self.queues[key][index].looks = Some(earliest);
                return;
            }
        };
        self.outcomes.insert(call.id, outcome);
        self.queues[key].remove(index);
    }

    /// All that happens by itself at this time.
    fn settle(&mut self) {
        for key in 0..2 {
            loop {
                let due = |(index, call): (usize, &Call)| match (index, call.looks, call.deadline) {
                    (_, _, Some(deadline)) if self.now > deadline => true,
                    (0, looks, _) => looks.is_none_or(|at| at <= self.now),
                    _ => false,
                };
                let Some(index) = self.queues[key].iter().enumerate().position(due) else { break };
                self.look(key, index);
            }
        }
    }

    fn next_alarm(&self) -> Option<u64> {
        let calls = self.queues.iter().flatten();
        calls
            .filter_map(|call| [call.looks, call.deadline.map(|at| at + 1)].into_iter().flatten().min())
            .min()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_500))]

    #[test]
    fn any_history_of_calls_that_wait_is_answered_as_the_model_answers_it(
        setting in settings(), steps in steps()
    ) {
        let clock = ManualClock::new();
        let quota = Quota::tokens_per(setting.tokens, Duration::from_nanos(setting.period)).burst(setting.burst);
        let limiter = Limiter::<usize>::builder(quota)
            .clock(clock.clone())
            .bucket_cap(8)
            .queue_cap(setting.queue_cap)
            .waiter_cap(setting.waiter_cap)
            .build()
            .unwrap();
        let mut model = Model::new(setting);
        let mut tasks: Vec<(usize, usize, Task<Acquire<'_, usize>>)> = Vec::new();
        let mut outcomes: BTreeMap<usize, Outcome> = BTreeMap::new();
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Come { key, cost, within } => {
                    let deadline = within.map(|within| model.now + within);
                    let mut call = limiter.acquire(&[0, 1][key]).cost(cost);
                    if let Some(deadline) = deadline {
                        call = call.by(deadline);
                    }
                    tasks.push((id, key, Task::new(call)));
                    model.come(id, key, cost, deadline);
                }
                Step::Poll(which) if which < tasks.len() => {
                    let (id, key, task) = &mut tasks[which];
                    let index = model.queues[*key].iter().position(|call| call.id == *id).unwrap();
                    model.look(*key, index);
                    if let Some(answer) = task.poll() {
                        outcomes.insert(*id, answer.into());
                        tasks.remove(which);
                    }
                }
                Step::Drop(which) if which < tasks.len() => {
                    let (id, key, _) = tasks.remove(which);
                    model.queues[key].retain(|call| call.id != id);
                }
                Step::Poll(_) | Step::Drop(_) => {}
                Step::Check { key, cost } => {
                    let fits = cost == 0
                        || (cost <= setting.burst
                            && model.buckets[key].fits_at(setting, cost, model.now) == model.now);
                    prop_assert_eq!(limiter.check_n(&key, cost).is_ok(), fits);
                    if fits {
                        model.buckets[key].draw(setting, cost, model.now);
                    }
                }
                Step::Penalize { key, wait } => {
                    limiter.penalize_for(&key, Duration::from_nanos(wait)).unwrap();
                    let penalty = &mut model.buckets[key].penalty;
                    *penalty = (model.now + wait).max(*penalty);
                }
                Step::Advance(by) => {
                    clock.advance(Duration::from_nanos(by));
                    model.now += by;
                }
                Step::Skip => {
                    let next = clock.next_alarm();
                    prop_assert_eq!(next, model.next_alarm());
                    if let Some(next) = next {
                        clock.set(next);
                        model.now = next;
                    }
                }
            }
            // Everything that was woken runs, whatever the order, until nothing is.
            while let Some(which) = tasks.iter().rposition(|(.., task)| task.is_woken()) {
                if let Some(answer) = tasks[which].2.run() {
                    outcomes.insert(tasks[which].0, answer.into());
                    tasks.remove(which);
                }
            }
            model.settle();
            prop_assert_eq!(&outcomes, &model.outcomes);
            prop_assert_eq!(clock.now(), model.now);
            prop_assert_eq!(limiter.waiting(), tasks.len());
            prop_assert_eq!(clock.next_alarm(), model.next_alarm());
        }
        drop(tasks);
        prop_assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None));
    }
}
