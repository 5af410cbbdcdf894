//! Calls that wait for their turn, in virtual time.

#[path = "support/tasks.rs"]
mod tasks;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;
use tasks::Task;
use tollgate::limiter::Keep;
use tollgate::quota::Quota;
use tollgate::time::{Alarm, Clock, ManualClock};
use tollgate::{Acquire, AcquireError, Limiter, Reason};

const MS: u64 = 1_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Three at once, two a second.
fn three_and_two(clock: &ManualClock) -> Limiter<str> {
    Limiter::builder(Quota::per_second(2).burst(3)).clock(clock.clone()).build().unwrap()
}

/// A limiter as `three_and_two`, whose bucket of `k` is empty.
fn drained(clock: &ManualClock) -> Limiter<str> {
    let limiter = three_and_two(clock);
    limiter.check_n("k", 3).unwrap();
    limiter
}

#[test]
fn of_four_calls_three_go_on_at_once_and_the_fourth_after_500_ms_and_not_at_250() {
    let clock = ManualClock::new();
    let limiter = three_and_two(&clock);
    for left in [2, 1, 0] {
        assert_eq!(Task::new(limiter.acquire("k")).poll().unwrap().unwrap().remaining, left);
    }
    let mut fourth = Task::new(limiter.acquire("k"));
    assert!(fourth.poll().is_none());
    assert_eq!((limiter.waiting(), clock.next_alarm()), (1, Some(500 * MS)));
    clock.advance(ms(250));
    assert!(!fourth.is_woken());
    assert!(fourth.poll().is_none(), "polled all the same");
    assert_eq!(limiter.check("k").unwrap_err().retry_after, Some(ms(250)));
    clock.advance(Duration::from_nanos(250 * MS - 1));
    assert!(!fourth.is_woken());
    clock.advance(Duration::from_nanos(1));
    assert!(fourth.is_woken());
    assert_eq!(fourth.poll().unwrap().unwrap().at, 500 * MS);
    assert!(limiter.check("k").is_err(), "exactly one");
    assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None));
}

#[test]
fn of_many_threads_three_go_on_at_once_and_then_one_each_500_ms_in_the_order_of_their_coming() {
    const THREADS: u64 = 12;
    let clock = ManualClock::new();
    let limiter = three_and_two(&clock);
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let limiter = &limiter;
            threads.push(scope.spawn(move || limiter.acquire("k").blocking().unwrap().at));
            // One after the other, so that their order is known.
            while limiter.waiting() < (number + 1).saturating_sub(3) as usize
                || (number < 3 && limiter.peek("k") != 2 - number)
            {
                thread::yield_now();
            }
        }
        clock.advance(ms(250));
        assert!(limiter.check("k").is_err());
        assert_eq!(limiter.waiting(), THREADS as usize - 3);
        for left in (0..THREADS as usize - 3).rev() {
            clock.advance(ms(if left == THREADS as usize - 4 { 250 } else { 500 }));
            while limiter.waiting() > left {
                thread::yield_now();
            }
        }
        let at: Vec<u64> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let expected = [0; 3].into_iter().chain((1..=THREADS - 3).map(|n| n * 500 * MS));
        assert_eq!(at, expected.collect::<Vec<_>>());
    });
}

#[test]
fn exactly_one_of_many_threads_is_admitted_at_500_ms() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let admitted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                // All but one are put off beyond their deadline by those before them: they are told at once.
                match limiter.acquire("k").by(500 * MS).blocking() {
                    Ok(admission) => {
                        assert_eq!(admission.at, 500 * MS);
                        admitted.fetch_add(1, Ordering::SeqCst);
                    }
                    Err(AcquireError::DeadlineTooEarly { earliest, deadline }) => {
                        assert!(earliest >= 1_000 * MS && deadline == 500 * MS);
                    }
                    Err(other) => panic!("{other}"),
                }
            });
        }
        while limiter.waiting() != 1 {
            thread::yield_now();
        }
        clock.advance(ms(250));
        assert!(limiter.check("k").is_err());
        clock.advance(ms(250));
    });
    assert_eq!(admitted.load(Ordering::SeqCst), 1);
}

#[test]
fn who_comes_later_goes_behind_those_that_wait_even_if_there_are_tokens() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k").cost(3));
    assert!(first.poll().is_none());
    clock.advance(ms(500));
    let mut second = Task::new(limiter.acquire("k"));
    assert!(second.poll().is_none(), "there is one token, for the first");
    let mut other = Task::new(limiter.acquire("other"));
    assert!(other.poll().unwrap().is_ok(), "another key has a queue of its own");
    clock.advance(ms(1_000));
    assert!(first.is_woken() && !second.is_woken());
    assert!(first.poll().unwrap().is_ok());
    assert!(second.is_woken(), "it is the first now");
    assert!(second.poll().is_none());
    clock.advance(ms(500));
    assert_eq!(second.run().unwrap().unwrap().at, 2_000 * MS);
}

#[test]
fn a_check_may_overtake_and_the_first_waits_on() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k").cost(2));
    assert!(first.poll().is_none());
    clock.advance(ms(500));
    limiter.check("k").unwrap();
    clock.advance(ms(500));
    assert!(first.is_woken());
    assert!(first.poll().is_none());
    assert_eq!(clock.next_alarm(), Some(1_500 * MS));
    clock.advance(ms(500));
    assert_eq!(first.run().unwrap().unwrap().at, 1_500 * MS);
}

#[test]
fn a_dropped_call_frees_its_place_and_wakes_the_next() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut calls: Vec<_> = (0..4).map(|_| Some(Task::new(limiter.acquire("k").cost(2)))).collect();
    for call in &mut calls {
        assert!(call.as_mut().unwrap().poll().is_none());
    }
    clock.advance(ms(1_000));
    // The first was woken, and is dropped before it looks; so is one in the middle.
    assert!(calls[0].as_ref().unwrap().is_woken());
    calls[0] = None;
    calls[2] = None;
    assert_eq!(limiter.waiting(), 2);
    assert!(calls[1].as_ref().unwrap().is_woken() && !calls[3].as_ref().unwrap().is_woken());
    assert_eq!(calls[1].as_mut().unwrap().run().unwrap().unwrap().at, 1_000 * MS);
    assert!(calls[3].as_mut().unwrap().run().is_none());
    calls.clear();
    assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None), "no trace is left");
    clock.advance(ms(500));
    assert_eq!(limiter.peek("k"), 1, "nothing was drawn for those that were dropped");
}

#[test]
fn a_dropped_first_that_waited_long_lets_the_next_take_what_is_there() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k").cost(3));
    let mut second = Task::new(limiter.acquire("k"));
    assert!(first.poll().is_none() && second.poll().is_none());
    clock.advance(ms(700));
    assert!(!second.is_woken());
    drop(first);
    assert_eq!(second.run().unwrap().unwrap().at, 700 * MS);
}

#[test]
fn queues_are_bounded_for_each_key_and_for_all_keys_together() {
    let clock = ManualClock::new();
    let limiter = Limiter::<str>::builder(Quota::per_second(1)).clock(clock.clone());
    let limiter = limiter.queue_cap(2).waiter_cap(3).build().unwrap();
    for key in ["a", "b", "c"] {
        limiter.check(key).unwrap();
    }
    let mut waiting: Vec<_> = ["a", "a", "b"].map(|key| Task::new(limiter.acquire(key))).into();
    for call in &mut waiting {
        assert!(call.poll().is_none());
    }
    let refused = |key| Task::new(limiter.acquire(key)).poll().unwrap().unwrap_err();
    assert_eq!(refused("c"), AcquireError::WaitersFull { cap: 3 });
    waiting.pop();
    assert_eq!(refused("a"), AcquireError::QueueFull { cap: 2 });
    assert_eq!(limiter.waiting(), 2);
    let mut third = Task::new(limiter.acquire("c"));
    assert!(third.poll().is_none(), "there is room again");
    waiting.clear();
    assert_eq!(limiter.waiting(), 1);
}

#[test]
fn with_a_cap_of_0_nobody_waits_but_calls_that_fit_go_on() {
    for (queue_cap, waiter_cap) in [(0, 5), (5, 0)] {
        let limiter = Limiter::<str>::builder(Quota::per_second(1)).clock(ManualClock::new());
        let limiter = limiter.queue_cap(queue_cap).waiter_cap(waiter_cap).build().unwrap();
        limiter.acquire("k").blocking().unwrap();
        let refused = limiter.acquire("k").blocking().unwrap_err();
        assert!(
            matches!(refused, AcquireError::QueueFull { cap: 0 } | AcquireError::WaitersFull { cap: 0 }),
            "{refused}"
        );
    }
}

#[test]
fn a_deadline_that_those_before_it_do_not_leave_time_for_is_refused_at_once() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k").cost(2)); // until 1,000 ms
    let mut second = Task::new(limiter.acquire("k").cost(3)); // until 2,500 ms
    assert!(first.poll().is_none() && second.poll().is_none());
    let refused = limiter.acquire("k").within(ms(2_999)).blocking().unwrap_err();
    assert_eq!(refused, AcquireError::DeadlineTooEarly { earliest: 3_000 * MS, deadline: 2_999 * MS });
    assert_eq!(
        refused.to_string(),
        "the earliest admission is at 3s of the clock, after the deadline at 2.999s"
    );
    assert_eq!(limiter.waiting(), 2);
    let mut third = Task::new(limiter.acquire("k").within(ms(3_000)));
    assert!(third.poll().is_none());
    clock.advance(ms(1_000));
    assert!(first.run().unwrap().is_ok() && second.run().is_none());
    clock.advance(ms(1_500));
    assert!(second.run().unwrap().is_ok() && third.run().is_none());
    clock.advance(ms(500));
    assert_eq!(third.run().unwrap().unwrap().at, 3_000 * MS);
}

#[test]
fn a_call_that_is_put_off_beyond_its_deadline_is_refused_when_it_is_the_first_and_sees_that() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut call = Task::new(limiter.acquire("k").within(ms(700)));
    assert!(call.poll().is_none());
    clock.advance(ms(499));
    limiter.penalize_until("k", 800 * MS).unwrap();
    clock.advance(ms(1));
    let refused = call.run().unwrap().unwrap_err();
    assert_eq!(refused, AcquireError::DeadlineTooEarly { earliest: 800 * MS, deadline: 700 * MS });
    assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None));
}

#[test]
fn a_call_behind_others_is_refused_at_its_deadline_if_they_hold_it_up() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k"));
    let mut second = Task::new(limiter.acquire("k").within(ms(1_000)));
    assert!(first.poll().is_none() && second.poll().is_none());
    clock.advance(ms(1_000));
    assert!(!second.is_woken(), "the first was woken at 500 ms, and is not polled");
    clock.advance(Duration::from_nanos(1));
    let refused = second.run().unwrap().unwrap_err();
    assert_eq!(refused, AcquireError::DeadlineTooEarly { earliest: 1_000 * MS + 1, deadline: 1_000 * MS });
    assert!(first.run().unwrap().is_ok());
}

#[test]
fn one_that_cannot_be_in_time_any_more_does_not_count_for_those_behind_it() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k").cost(3).within(ms(1_500)));
    assert!(first.poll().is_none());
    clock.advance(ms(500));
    limiter.check("k").unwrap();
    // The first would fit at 2,000 ms, after its deadline, but has not seen that yet.
    let mut second = Task::new(limiter.acquire("k").within(ms(500)));
    assert!(second.poll().is_none());
    clock.advance(ms(500));
    drop(first);
    assert_eq!(second.run().unwrap().unwrap().at, 1_000 * MS);
}

#[test]
fn a_deadline_in_the_past_is_refused_though_there_are_tokens() {
    let clock = ManualClock::at(5);
    let limiter = three_and_two(&clock);
    let refused = limiter.acquire("k").by(4).blocking().unwrap_err();
    assert_eq!(refused, AcquireError::DeadlineTooEarly { earliest: 5, deadline: 4 });
    assert!(limiter.acquire("k").by(5).blocking().is_ok());
    assert!(limiter.acquire("k").within(Duration::ZERO).blocking().is_ok());
    assert!(limiter.acquire("k").within(Duration::MAX).blocking().is_ok());
}

#[test]
fn what_no_wait_helps_is_refused_at_once() {
    let clock = ManualClock::new();
    let reason = |error| match error {
        AcquireError::Refused(refusal) => refusal.reason,
        other => panic!("{other}"),
    };
    let limiter = drained(&clock);
    assert_eq!(reason(limiter.acquire("k").cost(4).blocking().unwrap_err()), Reason::Impossible);
    let mut first = Task::new(limiter.acquire("k"));
    assert!(first.poll().is_none());
    let behind = limiter.acquire("k").cost(4).blocking().unwrap_err();
    assert_eq!(reason(behind), Reason::Impossible, "also behind others");

    let once = Limiter::<str>::builder(Quota::tokens_per(0, ms(1)).burst(1)).clock(clock.clone());
    let once = once.build().unwrap();
    once.acquire("k").blocking().unwrap();
    assert_eq!(reason(once.acquire("k").blocking().unwrap_err()), Reason::Exhausted);

    let small = Limiter::<str>::builder(Quota::per_hour(1)).bucket_cap(1).clock(clock.clone());
    let small = small.build().unwrap();
    small.acquire("k").blocking().unwrap();
    assert_eq!(reason(small.acquire("other").blocking().unwrap_err()), Reason::TableFull);
    assert_eq!(limiter.waiting() + once.waiting() + small.waiting(), 1);
}

#[test]
fn a_cost_of_0_is_admitted_at_once_and_does_not_queue() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k"));
    assert!(first.poll().is_none());
    assert_eq!(limiter.acquire("k").cost(0).blocking().unwrap().remaining, 0);
}

#[test]
fn a_faster_quota_wakes_the_first_and_those_behind_it_follow() {
    let clock = ManualClock::new();
    let limiter = Limiter::<str>::builder(Quota::per_hour(1)).clock(clock.clone()).build().unwrap();
    limiter.check("k").unwrap();
    let mut first = Task::new(limiter.acquire("k"));
    let mut second = Task::new(limiter.acquire("k"));
    assert!(first.poll().is_none() && second.poll().is_none());
    limiter.reconfigure(Quota::per_second(1), Keep::AsIs).unwrap();
    assert!(first.run().is_none(), "woken, and waits for less");
    assert_eq!(clock.next_alarm(), Some(1_000 * MS));
    limiter.reconfigure(Quota::per_second(2), Keep::Reset).unwrap();
    assert!(first.run().unwrap().is_ok());
    assert!(second.run().unwrap().is_ok());
}

#[test]
fn a_quota_that_makes_a_waiting_cost_impossible_refuses_it_and_lets_the_next_go_on() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = Task::new(limiter.acquire("k").cost(3));
    let mut second = Task::new(limiter.acquire("k"));
    assert!(first.poll().is_none() && second.poll().is_none());
    limiter.reconfigure(Quota::per_second(2), Keep::Reset).unwrap();
    let AcquireError::Refused(refusal) = first.run().unwrap().unwrap_err() else { panic!() };
    assert_eq!(refusal.reason, Reason::Impossible);
    assert!(second.run().unwrap().is_ok());
}

#[test]
fn a_penalty_puts_off_those_that_wait_and_those_that_come() {
    let clock = ManualClock::new();
    let limiter = three_and_two(&clock);
    limiter.penalize_until("k", 900 * MS).unwrap();
    let mut first = Task::new(limiter.acquire("k").cost(3));
    assert!(first.poll().is_none(), "though the bucket is full");
    limiter.penalize_until("k", 1_200 * MS).unwrap();
    clock.set(900 * MS);
    assert!(first.is_woken());
    assert!(first.poll().is_none());
    let early = limiter.acquire("k").within(ms(799)).blocking().unwrap_err();
    let AcquireError::DeadlineTooEarly { earliest, .. } = early else { panic!("{early}") };
    assert_eq!(earliest, 1_700 * MS, "the penalty, and then the tokens after those of the first");
    clock.set(1_200 * MS);
    assert_eq!(first.run().unwrap().unwrap().at, 1_200 * MS);
}

#[test]
fn a_call_whose_cost_is_changed_after_it_queued_goes_to_the_end() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    let mut first = limiter.acquire("k");
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut first).poll(&mut context).is_pending());
    let mut second = Task::new(limiter.acquire("k"));
    assert!(second.poll().is_none());
    let mut first = Task::new(first.cost(2));
    assert!(second.is_woken());
    assert!(first.poll().is_none() && second.poll().is_none());
    clock.advance(ms(500));
    assert!(first.run().is_none());
    assert!(second.run().unwrap().is_ok());
}

#[test]
fn a_call_can_move_between_threads() {
    fn is_send<T: Send>(_: &T) {}
    let limiter = three_and_two(&ManualClock::new());
    let call = async { limiter.acquire("k").await };
    is_send(&call);
    is_send::<Acquire<'_, str>>(&limiter.acquire("k"));
}

#[test]
fn a_stray_unpark_does_not_end_a_wait() {
    let clock = ManualClock::new();
    let limiter = drained(&clock);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| limiter.acquire("k").blocking().unwrap().at);
        while limiter.waiting() == 0 {
            thread::yield_now();
        }
        for _ in 0..100 {
            waiter.thread().unpark();
            thread::yield_now();
        }
        assert!(!waiter.is_finished());
        clock.advance(ms(500));
        assert_eq!(waiter.join().unwrap(), 500 * MS);
    });
}

/// Counts its alarms, and is otherwise a manual clock.
#[derive(Clone)]
struct Own(ManualClock, std::sync::Arc<AtomicUsize>);

impl Clock for Own {
    fn now(&self) -> u64 {
        self.0.now()
    }
    fn wake_at(&self, at: u64, waker: &Waker) -> Alarm {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.wake_at(at, waker)
    }
}

#[test]
fn a_clock_of_ones_own_keeps_the_alarms() {
    let clock = Own(ManualClock::new(), Default::default());
    let limiter = Limiter::<str>::builder(Quota::per_second(1)).clock(clock.clone()).build().unwrap();
    limiter.acquire("k").blocking().unwrap();
    let mut second = Task::new(limiter.acquire("k"));
    assert!(second.poll().is_none());
    assert_eq!(clock.1.load(Ordering::SeqCst), 1);
    assert!(second.poll().is_none());
    assert_eq!(clock.1.load(Ordering::SeqCst), 1, "the same alarm serves");
    clock.0.advance(ms(1_000));
    assert!(second.run().unwrap().is_ok());
}

#[test]
fn in_real_time_a_call_that_waits_is_admitted_in_the_end() {
    let limiter = Limiter::<str>::builder(Quota::tokens_per(1, ms(20))).build().unwrap();
    let first = limiter.acquire("k").blocking().unwrap();
    let second = limiter.acquire("k").blocking().unwrap();
    assert!(second.from >= first.to);
    assert!(second.at >= first.at + 20 * MS);
    let coarse = Limiter::<str>::builder(Quota::tokens_per(1, ms(20)));
    let coarse = coarse.clock(tollgate::time::CoarseClock::new()).build().unwrap();
    assert!(coarse.acquire("k").blocking().is_ok() && coarse.acquire("k").blocking().is_ok());
}

/// No wakeup is lost: with threads that come, wait, give up and go while another moves the clock from alarm to alarm,
/// all are answered, and what was admitted is exactly what the bucket released.
#[test]
fn threads_that_come_and_go_are_all_answered_and_nothing_is_spent_twice() {
    const THREADS: usize = 6;
    for round in 0..20u64 {
        let clock = ManualClock::new();
        let limiter = three_and_two(&clock);
        let done = AtomicUsize::new(0);
        let owned: Vec<(usize, u64, u64)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (limiter, done) = (&limiter, &done);
                    scope.spawn(move || {
                        let mut owned = Vec::new();
                        for step in 0..40 {
                            let dice = (thread as u64 * 31 + step * 17 + round * 7) % 11;
                            let key = (dice % 2) as usize;
                            let name = ["k", "l"][key];
                            let call = limiter.acquire(name).cost(1 + dice % 3);
                            let answer = match dice {
                                0..3 => {
                                    // Comes, waits, and goes.
                                    let mut call = Task::new(call);
                                    call.poll()
                                }
                                3..5 => Some(call.within(ms(dice * 400)).blocking()),
                                _ => Some(call.blocking()),
                            };
                            if let Some(Ok(admission)) = answer {
                                owned.push((key, admission.from, admission.to));
                            }
                        }
                        done.fetch_add(1, Ordering::SeqCst);
                        owned
                    })
                })
                .collect();
            while done.load(Ordering::SeqCst) < THREADS {
                match clock.next_alarm() {
                    Some(at) => clock.set(at),
                    None => thread::yield_now(),
                }
            }
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!((limiter.waiting(), clock.next_alarm()), (0, None));
        for key in 0..2 {
            let mut intervals: Vec<_> =
                owned.iter().filter(|one| one.0 == key).map(|one| (one.1, one.2)).collect();
            intervals.sort_unstable();
            assert!(intervals.windows(2).all(|pair| pair[0].1 <= pair[1].0), "round {round}");
            assert_eq!(intervals.iter().collect::<HashSet<_>>().len(), intervals.len());
        }
    }
}
