//! Plans over several buckets of one table, in any order, among plans of a single draw.

use crate::jolt;
use crate::ledger::{Bucket, Ledger};
use crate::limit::{Limit, bucket, window};
use crate::race::{race, while_watching};
use crate::random::Random;
use crate::round::{AnyClock, Counts, Mix, Round};
use crate::with_clock;
use std::sync::Mutex;
use tollgate::{LimitSet, Plan};

pub fn mixes() -> Vec<Mix> {
    vec![
        Mix {
            name: "plans",
            proves: "plans over up to four buckets in any order commit whole or not at all, helping each other",
            round: |round| run(round, true),
        },
        Mix {
            name: "plan-newcomers",
            proves: "the same where plans make their buckets in a table with room for few, caps from 1",
            round: |round| run(round, false),
        },
    ]
}

const LIMITS: usize = 3;

fn run(round: &mut Round, roomy: bool) -> Result<Counts, String> {
    let random = &mut round.random;
    let keys = if roomy { 1 + random.below(2) } else { 6 };
    let cap = if roomy { 100 } else { 1 + random.below(2 * keys) };
    let limits: [Limit; LIMITS] = [bucket(1, 3_000, 8), bucket(2, 5_000, 5), window(12, 30_000)];
    let clock = AnyClock::any(random);
    let builder = limits.iter().enumerate();
    let builder = builder
        .fold(LimitSet::builder(), |builder, (n, limit)| builder.limit(format!("limit {n}"), limit.quota))
        .bucket_cap(cap);
    let set = with_clock!(builder, &clock).build().expect("a set");
    let choices = round.split();
    let moves = Mutex::new(round.random.split());
    let watch = || {
        assert!(set.len() <= cap, "{} buckets, the cap is {cap}", set.len());
        clock.step(moves.lock().expect("one watcher").below(2_000) as u64);
    };
    let ledger = Ledger::together(while_watching(watch, || {
        race(round.threads, |thread| {
            let mut random = choices[thread].clone();
            jolt::this_thread(random.split());
            let mut ledger = Ledger::default();
            for _ in 0..3_000 {
                if random.one_in(16) {
                    clock.step(random.below(2_000) as u64);
                }
                if !roomy && random.one_in(100) {
                    set.prune_refilled();
                    continue;
                }
                let draws = draws(&mut random, keys);
                let mut plan = Plan::new();
                for &((_, limit, key), cost) in &draws {
                    set.plan(usize::from(limit), &key, cost, &mut plan);
                }
                match plan.commit() {
                    Ok(admissions) => ledger.admitted(&draws, &admissions),
                    Err(_) => ledger.refused += 1,
                }
            }
            ledger
        })
    }));
    let time = clock.as_dyn();
    let line_of = |&(_, limit, _): &Bucket| &limits[usize::from(limit)].line;
    let peek = |&(_, limit, key): &Bucket| set.peek(usize::from(limit), &key);
    ledger.check(line_of, |_| time, peek, &mut round.random)?;
    Ok(Counts { admitted: ledger.len(), refused: ledger.refused })
}

/// One to four draws, now and then two on one bucket.
fn draws(random: &mut Random, keys: usize) -> Vec<(Bucket, u64)> {
    let count = 1 + random.below(4);
    let draw = |_| {
        let bucket = (0, random.below(LIMITS) as u8, random.below(keys) as u32);
        (bucket, 1 + random.below(2) as u64)
    };
    (0..count).map(draw).collect()
}
