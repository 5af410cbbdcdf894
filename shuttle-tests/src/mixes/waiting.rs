//! Calls that wait for their turn.

use crate::books::{Book, Limit, bucket, threads, window};
use crate::explore::Mix;
use crate::random::Random;
use shuttle::future::block_on;
use shuttle::sync::atomic::{AtomicUsize, Ordering};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tollgate::limiter::Keep;
use tollgate::model::Modelled;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Admission, Limiter};

pub const MIXES: &[Mix] = &[
    Mix {
        name: "waiting",
        proves: "calls that come, wait, give up and go while the clock moves from alarm to alarm are all answered, and leave no trace",
        execution: come_and_go,
    },
    Mix {
        name: "waiting-reloads",
        proves: "while the clock stands still, quotas that fill the buckets wake all that wait for them",
        execution: reloads,
    },
];

fn come_and_go(random: &mut Random) -> usize {
    let Limit { quota, line } = match random.below(3) {
        0 => window(1 + random.below(3) as u64, 10),
        1 => bucket(1, 5, 1 + random.below(3) as u64),
        _ => bucket(3, 10, 3),
    };
    let clock = ManualClock::new();
    let limiter = Limiter::<u8>::builder(quota).bucket_cap(8).clock(clock.clone()).queue_cap(3).build();
    let limiter = Arc::new(limiter.expect("a limiter"));
    let count = 3 + random.below(3);
    let choices: Vec<Random> = (0..count).map(|_| random.split()).collect();
    let operations = 4 + random.below(8);
    let burst = quota.capacity();
    let done = AtomicUsize::new(0);
    let (shared, time) = (limiter.clone(), clock.clone());
    // The last of them moves the clock.
    let book = Book::together(threads(count + 1, move |thread| {
        let mut book = Book::on(&time);
        let Some(random) = choices.get(thread) else {
            while done.load(Ordering::SeqCst) < count {
                match time.next_alarm() {
                    // Forward only: an alarm that the clock has passed must have rung.
                    Some(at) if at > time.now() => time.set(at),
                    _ => shuttle::thread::yield_now(),
                }
            }
            return book;
        };
        let mut random = random.clone();
        for _ in 0..operations {
            book.operations += 1;
            let key = random.below(2) as u8;
            let cost = 1 + random.below(burst as usize) as u64;
            if let Some(admission) = operate(&shared, &mut random, key, cost) {
                book.admitted(&[(key, cost)], &[admission]);
            } else {
                book.refused += 1;
            }
        }
        done.fetch_add(1, Ordering::SeqCst);
        book
    }));
    assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None), "a trace is left");
    book.check(|_| &line, |key| limiter.peek(key));
    limiter.audit();
    book.operations
}

fn operate(limiter: &Limiter<u8>, random: &mut Random, key: u8, cost: u64) -> Option<Admission> {
    let call = limiter.acquire(&key).cost(cost);
    match random.below(12) {
        0 => limiter.check_n(&key, cost).ok(),
        1 => {
            limiter.penalize_for(&key, Duration::from_nanos(random.below(9) as u64)).expect("room");
            None
        }
        // Comes, and gives up.
        2 | 3 => match pin!(call).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.ok(),
            Poll::Pending => None,
        },
        4 | 5 => block_on(call.within(Duration::from_nanos(random.below(30) as u64))).ok(),
        _ => block_on(call).ok(),
    }
}

fn reloads(random: &mut Random) -> usize {
    let burst = 1 + random.below(3) as u64;
    let quota = move |n: u64| bucket(1, 100 + n % 2, burst).quota;
    let clock = ManualClock::new();
    let limiter = Limiter::<u8>::builder(quota(0)).bucket_cap(4).clock(clock.clone()).build();
    let limiter = Arc::new(limiter.expect("a limiter"));
    let count = 2 + random.below(3);
    let calls = 2 + random.below(4);
    let done = AtomicUsize::new(0);
    let shared = limiter.clone();
    let answered: usize = threads(count + 1, move |thread| {
        if thread == count {
            let mut changes = 0;
            while done.load(Ordering::SeqCst) < count {
                // Only a drained bucket is filled again, so there are no more changes than draws: narrow words have
                // few numbers for them. Who is not woken by one waits for ever, since nobody moves the clock.
                if shared.waiting() > 0 && shared.peek(&7) == 0 {
                    changes += 1;
                    shared.reconfigure(quota(changes), Keep::Reset).expect("a change");
                }
                shuttle::thread::yield_now();
            }
            return 0;
        }
        for _ in 0..calls {
            block_on(shared.acquire(&7)).expect("an answer");
        }
        done.fetch_add(1, Ordering::SeqCst);
        calls
    })
    .into_iter()
    .sum();
    assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None), "a trace is left");
    assert_eq!(answered, count * calls);
    answered
}
