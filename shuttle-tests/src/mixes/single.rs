//! Single draws on one limit's buckets.

use crate::books::{Book, Limit, bucket, threads, window};
use crate::explore::Mix;
use crate::random::Random;
use std::sync::Arc;
use std::time::Duration;
use tollgate::model::Modelled;
use tollgate::time::ManualClock;
use tollgate::{Limiter, Reason};

pub const MIXES: &[Mix] = &[
    Mix {
        name: "draws",
        proves: "draws on a few buckets that refill meanwhile share their tokens out, each once",
        execution: |random| Recipe { keys: 3, roomy: true, prunes: 0, rebuilds: 0 }.run(random),
    },
    Mix {
        name: "newcomers",
        proves: "more keys than cells: the cap holds, drained buckets stay, refilled ones make room, none is spent twice",
        execution: |random| Recipe { keys: 12, roomy: false, prunes: 3, rebuilds: 0 }.run(random),
    },
    Mix {
        name: "rebuilds",
        proves: "directories that are rebuilt all the time lose no bucket, double none, and leave none behind",
        execution: |random| Recipe { keys: 8, roomy: false, prunes: 2, rebuilds: 6 }.run(random),
    },
];

/// How many in thirty operations are which; the others are draws.
#[derive(Clone, Copy)]
struct Recipe {
    keys: usize,
    /// Room for every key; else for fewer than there are.
    roomy: bool,
    prunes: usize,
    rebuilds: usize,
}

fn limit(random: &mut Random) -> Limit {
    match random.below(3) {
        0 => window(1 + random.below(4) as u64, 10),
        1 => bucket(1, 5, 1 + random.below(4) as u64),
        _ => bucket(3, 10, 4),
    }
}

impl Recipe {
    fn run(&self, random: &mut Random) -> usize {
        let Limit { quota, line } = limit(random);
        let cap = if self.roomy { self.keys + 8 } else { 1 + random.below(6) };
        let clock = ManualClock::new();
        let buckets = Limiter::<u8>::builder(quota).bucket_cap(cap).clock(clock.clone()).build();
        let buckets = Arc::new(buckets.expect("a limiter"));
        let count = 4 + random.below(5);
        let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
        let operations = 20 + random.below(50);
        let (recipe, table, time) = (*self, buckets.clone(), clock.clone());
        let book = Book::together(threads(count, move |thread| {
            let mut random = choices[thread].clone();
            let mut book = Book::on(&time);
            for _ in 0..operations {
                book.operations += 1;
                let what = random.below(30);
                if what < recipe.prunes {
                    table.prune_refilled();
                } else if what < recipe.prunes + recipe.rebuilds {
                    table.rebuild();
                } else if what < recipe.prunes + recipe.rebuilds + 3 {
                    time.advance(Duration::from_nanos(1 + random.below(7) as u64));
                } else if what == 29 {
                    let seen = table.iter().count();
                    // Keys in few bytes: a key that comes and goes may appear twice.
                    assert!(seen <= 2 * recipe.keys.max(cap), "{seen} buckets in one reading");
                } else {
                    let key = random.below(recipe.keys) as u8;
                    let cost = 1 + random.below(2) as u64;
                    match table.check_n(&key, cost) {
                        Ok(admission) => book.admitted(&[(key, cost)], &[admission]),
                        Err(refusal) => {
                            let full = refusal.reason == Reason::TableFull;
                            assert!(!(full && recipe.roomy), "there was room");
                            book.refused += 1;
                        }
                    }
                }
                let len = table.len();
                assert!(len <= cap, "{len} buckets, the cap is {cap}");
            }
            book
        }));
        book.check(|_| &line, |key| buckets.peek(key));
        buckets.audit();
        fits(&buckets, cap, &clock);
        book.operations
    }
}

/// At rest, and with every bucket refilled, exactly the cap's number of newcomers finds room.
fn fits(buckets: &Limiter<u8>, cap: usize, clock: &ManualClock) {
    clock.advance(Duration::from_nanos(1_000));
    for newcomer in 0..cap {
        let key = 100 + newcomer as u8;
        assert!(buckets.check(&key).is_ok(), "newcomer {newcomer} of {cap} finds no room");
    }
    let refusal = buckets.check(&99).expect_err("the table is full of drawn buckets");
    assert_eq!((refusal.reason, buckets.len()), (Reason::TableFull, cap));
    buckets.audit();
}
