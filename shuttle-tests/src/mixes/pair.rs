//! Two buckets in one word: invocations and spend of a grant.

use crate::books::{Book, threads};
use crate::costed::{context, request};
use crate::explore::Mix;
use crate::oracle::Line;
use crate::random::Random;
use std::sync::Arc;
use std::time::Duration;
use tollgate::guard::{Guard, Planned, ToolCallRequest, VelocityConfig, VelocityGuard};
use tollgate::time::ManualClock;
use tollgate::{Plan, Reason};

pub const MIXES: &[Mix] = &[Mix {
    name: "pairs",
    proves: "a grant's invocations and spend move together, also where grants come and go in a table that is too small",
    execution: run,
}];

/// Grant, lane.
type Bucket = (u8, u8);

const GRANTS: usize = 5;
const MOST_COST: usize = 3;

fn run(random: &mut Random) -> usize {
    let clock = ManualClock::new();
    let invocations = 1 + random.below(8);
    let spend = 2 + random.below(12);
    let cells = 1 + random.below(GRANTS + 8);
    let config = VelocityConfig {
        max_invocations_per_window: Some(invocations as u32),
        max_spend_per_window: Some(spend as u64),
        window_secs: 1,
        burst_factor: 1.0,
    };
    let guard = VelocityGuard::builder(config).bucket_cap(2 * cells).clock(clock.clone()).build();
    let guard = Arc::new(guard.expect("a guard"));
    let requests: Vec<Vec<ToolCallRequest>> = (0..GRANTS)
        .map(|grant| (0..=MOST_COST).map(|cost| request(format!("cap-{grant}"), cost as u64)).collect())
        .collect();
    let count = 4 + random.below(5);
    let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
    let operations = 20 + random.below(40);
    let (shared, time, calls) = (guard.clone(), clock.clone(), requests.clone());
    let book = Book::together(threads(count, move |thread| {
        let mut random = choices[thread].clone();
        let mut book = Book::on(&time);
        for _ in 0..operations {
            book.operations += 1;
            match random.below(20) {
                0 | 1 => time.advance(Duration::from_micros(random.below(900) as u64)),
                2 => {
                    shared.prune_refilled();
                }
                _ => {
                    let (grant, cost) = (random.below(GRANTS), random.below(MOST_COST + 1));
                    let mut plan = Plan::new();
                    let planned = shared.plan(&context(&calls[grant][cost]), &mut plan).expect("it plans");
                    assert_eq!(planned, Planned::InPlan);
                    match plan.commit() {
                        Ok(admissions) => {
                            let lanes = [((grant as u8, 0), 1), ((grant as u8, 1), cost as u64)];
                            book.admitted(&lanes[..if cost > 0 { 2 } else { 1 }], &admissions);
                        }
                        Err(refused) => {
                            let full = refused.refusal.reason == Reason::TableFull;
                            assert!(!(full && cells >= GRANTS + 8), "there was room");
                            book.refused += 1;
                        }
                    }
                }
            }
            let len = shared.bucket_count();
            assert!(len <= 2 * cells, "{len} buckets, the cap is {}", 2 * cells);
        }
        book
    }));
    let lines = [invocations, spend].map(|n| Line::milli_token(n as u64, 1, 1.0, 64).expect("a line"));
    book.check(
        |&(_, lane): &Bucket| &lines[usize::from(lane)],
        |&(grant, lane): &Bucket| {
            let left = guard.remaining(&context(&requests[usize::from(grant)][0]));
            [left.invocations, left.spend][usize::from(lane)].expect("both limits are there")
        },
    );
    book.operations
}
