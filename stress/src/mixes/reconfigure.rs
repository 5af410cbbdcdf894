//! Limits that are given another burst while they are drawn on.

use crate::jolt;
use crate::ledger::{Bucket, Ledger};
use crate::limit::{Limit, bucket};
use crate::race::race;
use crate::round::{Counts, Mix, Round};
use std::time::Duration;
use tollgate::limiter::Keep;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Plan};

pub fn mixes() -> Vec<Mix> {
    vec![Mix {
        name: "reconfigurations",
        proves: "a limit whose burst changes while calls draw on it owes all that was drawn, and each unit once",
        round: run,
    }]
}

const BURSTS: [u64; 3] = [200, 350, 500];
const KEYS: usize = 3;

/// One line with several capacities: what is owed stays owed, so marks stay on the line.
fn limit(burst: u64) -> Limit {
    bucket(1, 4_000, burst)
}

fn run(round: &mut Round) -> Result<Counts, String> {
    let clock = ManualClock::new();
    let set = LimitSet::builder()
        .limit("a", limit(BURSTS[0]).quota)
        .limit("b", limit(BURSTS[1]).quota)
        .bucket_cap(2 + round.random.below(8))
        .clock(clock.clone())
        .build()
        .expect("a set");
    let mut ledgers = Vec::new();
    // The clock stands still while calls race: one that read the time before a change and the limit after it would be
    // judged as of the change, which no line of one capacity describes.
    for _ in 0..6 {
        let choices = round.split();
        ledgers.extend(race(round.threads, |thread| {
            let mut random = choices[thread].clone();
            jolt::this_thread(random.split());
            let mut ledger = Ledger::default();
            for _ in 0..500 {
                match random.below(40) {
                    0 => {
                        let quota = limit(BURSTS[random.below(3)]).quota;
                        set.reconfigure(random.below(2), quota, Keep::AsIs)
                            .expect("far from the last change");
                    }
                    1 => {
                        set.prune_refilled();
                    }
                    _ => {
                        let (first, key) = (random.below(2) as u8, random.below(KEYS) as u32);
                        let draws: &[(Bucket, u64)] = &[((0, first, key), 1), ((0, 1 - first, key), 2)];
                        let draws = &draws[..1 + random.below(2)];
                        let mut plan = Plan::new();
                        for &((_, number, key), cost) in draws {
                            set.plan(usize::from(number), &key, cost, &mut plan);
                        }
                        match plan.commit() {
                            Ok(admissions) => ledger.admitted(draws, &admissions),
                            Err(_) => ledger.refused += 1,
                        }
                    }
                }
            }
            ledger
        }));
        clock.advance(Duration::from_nanos(round.random.below(1_500_000) as u64));
    }
    let ledger = Ledger::together(ledgers);
    // At last both have the largest burst, under which every admission must fit.
    let last = limit(BURSTS[2]);
    for number in 0..2 {
        set.reconfigure(number, last.quota, Keep::AsIs).expect("far from the last change");
    }
    let peek = |&(_, number, key): &Bucket| set.peek(usize::from(number), &key);
    ledger.check(|_| &last.line, |_| &clock, peek, &mut round.random)?;
    Ok(Counts { admitted: ledger.len(), refused: ledger.refused })
}
