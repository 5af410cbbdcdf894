//! Limits that are given another burst while they are drawn on.

use crate::books::{Book, Limit, bucket, threads};
use crate::explore::Mix;
use crate::random::Random;
use std::sync::Arc;
use std::time::Duration;
use tollgate::limiter::Keep;
use tollgate::model::Modelled;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Plan};

pub const MIXES: &[Mix] = &[Mix {
    name: "reconfigurations",
    proves: "a limit whose burst changes while calls draw on it owes all that was drawn, and each unit once",
    execution: run,
}];

/// Limit, key.
type Bucket = (u8, u8);

const BURSTS: [u64; 3] = [3, 5, 8];
const KEYS: usize = 3;

/// One line with several capacities: what is owed stays owed, so marks stay on the line. The rate never changes, or
/// intervals of before and after would lie on different lines.
fn limit(burst: u64) -> Limit {
    bucket(1, 4, burst)
}

fn run(random: &mut Random) -> usize {
    let clock = ManualClock::new();
    let cap = 2 + random.below(8);
    let set = LimitSet::builder()
        .limit("a", limit(BURSTS[0]).quota)
        .limit("b", limit(BURSTS[1]).quota)
        .bucket_cap(cap)
        .clock(clock.clone())
        .build();
    let set = Arc::new(set.expect("a set"));
    let count = 4 + random.below(4);
    let mut books = Vec::new();
    // The clock stands still within a round: a draw that read the time before a change and the limit after it would
    // be judged as of the change, which no line of one capacity describes.
    for _ in 0..4 {
        let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
        let operations = 8 + random.below(12);
        let (shared, time) = (set.clone(), clock.clone());
        books.extend(threads(count, move |thread| {
            let mut random = choices[thread].clone();
            let mut book = Book::on(&time);
            for _ in 0..operations {
                book.operations += 1;
                operate(&shared, &mut random, &mut book);
                assert!(shared.len() <= cap, "{} buckets, the cap is {cap}", shared.len());
            }
            book
        }));
        clock.advance(Duration::from_nanos(random.below(20) as u64));
    }
    let book = Book::together(books);
    // At last both have the largest burst, under which every admission must fit.
    let last = limit(BURSTS[2]);
    for number in 0..2 {
        set.reconfigure(number, last.quota, Keep::AsIs).expect("a change");
    }
    book.check(|_| &last.line, |&(number, key)| set.peek(usize::from(number), &key));
    set.audit();
    book.operations
}

fn operate(set: &LimitSet, random: &mut Random, book: &mut Book<Bucket>) {
    match random.below(16) {
        0 => {
            let quota = limit(BURSTS[random.below(3)]).quota;
            // The narrow words number few versions; a change past them is refused, and changes nothing.
            let _ = set.reconfigure(random.below(2), quota, Keep::AsIs);
        }
        1 => {
            set.prune_refilled();
        }
        2 => set.rebuild(),
        _ => {
            let key = random.below(KEYS) as u8;
            let both = random.one_in(2);
            let first = random.below(2) as u8;
            let mut draws: Vec<(Bucket, u64)> = vec![((first, key), 1)];
            if both {
                draws.push(((1 - first, key), 1));
            }
            let mut plan = Plan::new();
            for &((number, key), cost) in &draws {
                set.plan(usize::from(number), &key, cost, &mut plan);
            }
            match plan.commit() {
                Ok(admissions) => book.admitted(&draws, &admissions),
                Err(_) => book.refused += 1,
            }
        }
    }
}
