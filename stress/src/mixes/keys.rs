//! Single draws on one limit, with few keys or many, long and short.

use crate::jolt;
use crate::ledger::{Bucket, Ledger};
use crate::limit::{Limit, bucket, window};
use crate::race::{race, while_watching};
use crate::round::{AnyClock, Counts, Mix, Round};
use crate::with_clock;
use std::time::Duration;
use tollgate::{Limiter, Reason};

pub fn mixes() -> Vec<Mix> {
    vec![
        Mix {
            name: "hot-keys",
            proves: "draws on a few buckets share their tokens out, each once",
            round: hot_keys,
        },
        Mix {
            name: "churn",
            proves: "many more keys than cells, caps from 1: the cap holds, and no bucket is spent twice",
            round: churn,
        },
        Mix {
            name: "rebuilds",
            proves: "floods of newcomers through several shards and many directories lose and double nothing",
            round: rebuilds,
        },
    ]
}

/// Keys that fit a cell, that need its tail too, and that are boxed.
fn names(keys: usize) -> Vec<String> {
    let name = |n: usize| match n % 3 {
        0 => format!("k{n}"),
        1 => format!("{n}-a-name-that-is-much-too-long-to-lie-within-a-cell-of-one-cache-line"),
        _ => format!("{n}-{}", "a-name-that-two-lines-cannot-hold-".repeat(4)),
    };
    (0..keys).map(name).collect()
}

struct Plan {
    limit: Limit,
    keys: usize,
    cap: usize,
    operations: usize,
    /// Nanoseconds that a manual clock moves at a time.
    step: usize,
    /// One call in so many prunes.
    prunes: usize,
    clock: AnyClock,
}

fn hot_keys(round: &mut Round) -> Result<Counts, String> {
    let random = &mut round.random;
    let plan = Plan {
        limit: if random.one_in(2) { bucket(1, 400, 20) } else { window(30, 20_000) },
        keys: 1 + random.below(4),
        cap: 16,
        operations: 8_000,
        step: 1_500,
        prunes: 2_000,
        clock: AnyClock::any(random),
    };
    plan.run(round)
}

fn churn(round: &mut Round) -> Result<Counts, String> {
    let random = &mut round.random;
    let cap = [1, 2, 3, 5, 16, 100][random.below(6)];
    let plan = Plan {
        limit: if random.one_in(3) {
            window(2, 30_000)
        } else {
            bucket(1, 10_000, 1 + random.below(3) as u64)
        },
        keys: cap * (2 + random.below(4)) + 1,
        cap,
        operations: 4_000,
        step: 4_000,
        prunes: 50,
        clock: AnyClock::any(random),
    };
    plan.run(round)
}

fn rebuilds(round: &mut Round) -> Result<Counts, String> {
    let random = &mut round.random;
    let cap = 1_500 + random.below(5_000);
    let plan = Plan {
        limit: bucket(1, 100_000, 2),
        keys: 4 * cap,
        cap,
        operations: 12_000,
        step: 20_000,
        prunes: 4_000,
        clock: AnyClock::any(random),
    };
    plan.run(round)
}

impl Plan {
    fn run(&self, round: &mut Round) -> Result<Counts, String> {
        let builder = Limiter::<str>::builder(self.limit.quota).bucket_cap(self.cap);
        let limiter = with_clock!(builder, &self.clock).build().expect("a limiter");
        let (names, choices) = (names(self.keys), round.split());
        let mut moves = round.random.split();
        let moves = std::sync::Mutex::new(&mut moves);
        let watch = || {
            let len = limiter.len();
            assert!(len <= self.cap, "{len} buckets, the cap is {}", self.cap);
            self.clock.step(moves.lock().expect("one watcher").below(self.step) as u64);
        };
        let ledger = Ledger::together(while_watching(watch, || {
            race(round.threads, |thread| {
                let mut random = choices[thread].clone();
                jolt::this_thread(random.split());
                let mut ledger = Ledger::default();
                for _ in 0..self.operations {
                    if random.one_in(16) {
                        self.clock.step(random.below(self.step) as u64);
                    }
                    if random.one_in(self.prunes) {
                        limiter.prune_refilled();
                        continue;
                    }
                    let key = random.below(self.keys);
                    let cost = (1 + random.below(3) as u64).min(self.limit.quota.capacity());
                    match limiter.check_n(&names[key], cost) {
                        Ok(admission) => ledger.admitted(&[((0, 0, key as u32), cost)], &[admission]),
                        Err(_) => ledger.refused += 1,
                    }
                }
                ledger
            })
        }));
        let clock = self.clock.as_dyn();
        let peek = |bucket: &Bucket| limiter.peek(&names[bucket.2 as usize]);
        ledger.check(|_| &self.limit.line, |_| clock, peek, &mut round.random)?;
        if let AnyClock::Manual(clock) = &self.clock {
            clock.advance(Duration::from_secs(1));
            fits(&limiter, self.cap)?;
        }
        Ok(Counts { admitted: ledger.len(), refused: ledger.refused })
    }
}

/// At rest, and with every bucket refilled, exactly the cap's number of newcomers finds room.
fn fits(limiter: &Limiter<str>, cap: usize) -> Result<(), String> {
    for newcomer in 0..cap {
        if let Err(refusal) = limiter.check(&format!("newcomer {newcomer}")) {
            return Err(format!("newcomer {newcomer} of {cap} finds no room: {refusal}"));
        }
    }
    match limiter.check("one too many") {
        Err(refusal) if refusal.reason == Reason::TableFull && limiter.len() == cap => Ok(()),
        other => Err(format!("one more than {cap} newcomers, {} buckets: {other:?}", limiter.len())),
    }
}
