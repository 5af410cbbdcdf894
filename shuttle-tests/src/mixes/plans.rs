//! Plans over several buckets, of one table or of two, among single draws.

use crate::books::{Book, Limit, bucket, threads, window};
use crate::explore::Mix;
use crate::random::Random;
use std::sync::Arc;
use std::time::Duration;
use tollgate::model::Modelled;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Plan, Reason};

pub const MIXES: &[Mix] = &[
    Mix {
        name: "plans",
        proves: "plans over two or three buckets in any order commit whole or not at all",
        execution: |random| {
            Recipe { tables: 1, keys: 1, roomy: true, time: 2, prunes: 0, rebuilds: 0 }.run(random)
        },
    },
    Mix {
        name: "plans-still",
        proves: "the same while the clock stands still and buckets run dry: helping and refusing leave no trace",
        execution: |random| {
            Recipe { tables: 1, keys: 1, roomy: true, time: 0, prunes: 0, rebuilds: 0 }.run(random)
        },
    },
    Mix {
        name: "two-tables",
        proves: "a plan over two tables is as whole as one over one",
        execution: |random| {
            Recipe { tables: 2, keys: 1, roomy: true, time: 2, prunes: 0, rebuilds: 1 }.run(random)
        },
    },
    Mix {
        name: "plan-newcomers",
        proves: "plans that make buckets where there is room for few keep to the cap, and leave nothing when refused",
        execution: |random| {
            Recipe { tables: 1, keys: 4, roomy: false, time: 3, prunes: 2, rebuilds: 0 }.run(random)
        },
    },
    Mix {
        name: "everything",
        proves: "newcomers, plans over two tables, prunes, rebuilds and time together break nothing",
        execution: |random| {
            Recipe { tables: 2, keys: 4, roomy: false, time: 3, prunes: 2, rebuilds: 3 }.run(random)
        },
    },
];

/// How many in thirty operations are which; the others are plans, of a single draw or of several.
#[derive(Clone, Copy)]
struct Recipe {
    tables: usize,
    keys: usize,
    /// Room for every key; else for fewer than there are.
    roomy: bool,
    time: usize,
    prunes: usize,
    rebuilds: usize,
}

/// Table, limit, key.
type Bucket = (u8, u8, u8);

const LIMITS: usize = 3;

struct Tables {
    limits: [Limit; LIMITS],
    sets: Vec<LimitSet>,
    cap: usize,
}

impl Tables {
    fn plan<'t>(&'t self, (table, limit, key): Bucket, cost: u64, plan: &mut Plan<'t>) {
        self.sets[usize::from(table)].plan(usize::from(limit), &key, cost, plan);
    }
}

impl Recipe {
    fn tables(&self, random: &mut Random, clock: &ManualClock) -> Tables {
        let scarce = |random: &mut Random| 1 + random.below(6) as u64;
        let limits =
            [window(scarce(random), 10), bucket(1, 5, scarce(random)), bucket(2, 3, 2 + scarce(random))];
        let cap = if self.roomy { LIMITS * self.keys + 8 * 3 } else { 1 + random.below(7) };
        let set = || {
            let builder = limits.iter().enumerate();
            builder
                .fold(LimitSet::builder(), |builder, (n, limit)| {
                    builder.limit(format!("limit {n}"), limit.quota)
                })
                .bucket_cap(cap)
                .clock(clock.clone())
                .build()
                .expect("a set")
        };
        let sets = (0..self.tables).map(|_| set()).collect();
        Tables { limits, sets, cap }
    }

    fn run(&self, random: &mut Random) -> usize {
        let clock = ManualClock::new();
        let tables = Arc::new(self.tables(random, &clock));
        let count = 4 + random.below(5);
        let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
        let operations = 15 + random.below(40);
        let (recipe, shared, time) = (*self, tables.clone(), clock.clone());
        let book = Book::together(threads(count, move |thread| {
            let mut random = choices[thread].clone();
            let mut book = Book::on(&time);
            for _ in 0..operations {
                book.operations += 1;
                recipe.operate(&shared, &time, &mut random, &mut book);
                for set in &shared.sets {
                    assert!(set.len() <= shared.cap, "{} buckets, the cap is {}", set.len(), shared.cap);
                }
            }
            book
        }));
        let line_of = |&(_, limit, _): &Bucket| &tables.limits[usize::from(limit)].line;
        book.check(line_of, |&(table, limit, key)| {
            tables.sets[usize::from(table)].peek(usize::from(limit), &key)
        });
        for set in &tables.sets {
            set.audit();
        }
        book.operations
    }

    fn operate(&self, tables: &Tables, clock: &ManualClock, random: &mut Random, book: &mut Book<Bucket>) {
        let set = &tables.sets[random.below(self.tables)];
        let what = random.below(30);
        if what < self.time {
            clock.advance(Duration::from_nanos(1 + random.below(7) as u64));
        } else if what < self.time + self.prunes {
            set.prune_refilled();
        } else if what < self.time + self.prunes + self.rebuilds {
            set.rebuild();
        } else {
            self.commit(tables, random, book);
        }
    }

    /// Draws on one to three buckets, in any order, now and then on one of them twice.
    fn commit(&self, tables: &Tables, random: &mut Random, book: &mut Book<Bucket>) {
        let draws: Vec<(Bucket, u64)> = (0..1 + random.below(3))
            .map(|_| {
                let bucket = (random.below(self.tables), random.below(LIMITS), random.below(self.keys));
                ((bucket.0 as u8, bucket.1 as u8, bucket.2 as u8), 1 + random.below(2) as u64)
            })
            .collect();
        let mut plan = Plan::new();
        for &(bucket, cost) in &draws {
            tables.plan(bucket, cost, &mut plan);
        }
        match plan.commit() {
            Ok(admissions) => book.admitted(&draws, &admissions),
            Err(refused) => {
                assert!(!(self.roomy && refused.refusal.reason == Reason::TableFull), "there was room");
                book.refused += 1;
            }
        }
    }
}
