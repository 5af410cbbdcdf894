//! Draws on one or two tables, refunded or kept, while newcomers look for room.

use crate::books::threads;
use crate::explore::Mix;
use crate::random::Random;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tollgate::Reason;
use tollgate::model::{Draw, Modelled, Refundable};
use tollgate::quota::Quota;
use tollgate::time::ManualClock;

pub const MIXES: &[Mix] = &[Mix {
    name: "refunds",
    proves: "what is drawn on one or two tables and not given back is missing at rest, to the unit; refunded buckets make room",
    execution: run,
}];

/// More than all threads can draw: no bucket runs dry, so every refusal is for want of room.
const LIMIT: u64 = 5_000;

/// A table and a key.
type Bucket = (usize, u8);

/// The draws of one plan, each on a bucket, at one cost.
struct Held {
    draws: Vec<(Bucket, Draw)>,
    cost: u64,
}

/// What is missing in each bucket, by table and key.
type Missing = BTreeMap<Bucket, u64>;

fn run(random: &mut Random) -> usize {
    let clock = ManualClock::new();
    let keys = 1 + random.below(6);
    let cells = 1 + random.below(6);
    let table = || Refundable::new(Quota::window(LIMIT, Duration::from_nanos(10)), cells, clock.clone());
    let tables = Arc::new([table(), table()]);
    let count = 3 + random.below(3);
    let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
    let operations = 15 + random.below(30);
    let shared = tables.clone();
    let missing = threads(count, move |thread| {
        let mut random = choices[thread].clone();
        let mut held: Vec<Held> = Vec::new();
        let mut missing = Missing::new();
        for _ in 0..operations {
            if !held.is_empty() && random.one_in(2) {
                let Held { draws, cost } = held.swap_remove(random.below(held.len()));
                let claims: Vec<(&Refundable, Draw)> =
                    draws.iter().map(|&((table, _), draw)| (&shared[table], draw)).collect();
                let back = Refundable::refund_all(&claims);
                for ((bucket, _), back) in draws.into_iter().zip(back) {
                    assert!(back <= cost, "{back} of {cost} came back");
                    *missing.entry(bucket).or_default() -= back;
                }
                continue;
            }
            let (first, key) = (random.below(2), random.below(keys) as u8);
            let mut buckets = vec![(first, key)];
            if random.one_in(2) {
                buckets.push((1 - first, random.below(keys) as u8));
            }
            let cost = 1 + random.below(3) as u64;
            let asked: Vec<(&Refundable, u8)> =
                buckets.iter().map(|&(table, key)| (&shared[table], key)).collect();
            match Refundable::draw_all(&asked, cost) {
                Ok(draws) => {
                    for &bucket in &buckets {
                        *missing.entry(bucket).or_default() += cost;
                    }
                    held.push(Held { draws: buckets.into_iter().zip(draws).collect(), cost });
                }
                Err(refusal) => assert_eq!(refusal.reason, Reason::TableFull),
            }
        }
        missing
    });
    let mut total = Missing::new();
    for (bucket, missing) in missing.into_iter().flatten() {
        *total.entry(bucket).or_default() += missing;
    }
    for table in tables.iter() {
        table.audit();
        assert!(table.buckets() <= cells);
    }
    for ((table, key), missing) in total {
        assert_eq!(tables[table].peek(key), LIMIT - missing, "key {key} of table {table}");
    }
    count * operations
}
