//! When newcomers are searched room for, and how long they can be refused without a search.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tollgate::quota::Quota;
use tollgate::time::{Clock, ManualClock};
use tollgate::{Limiter, Reason};

/// A clock that jumps at one of its reads, as if the reading thread had been stopped just before.
#[derive(Clone, Default)]
struct StallingClock(Arc<Stall>);
#[derive(Default)]
struct Stall {
    now: AtomicU64,
    reads: AtomicU64,
    jump_at: AtomicU64,
    jump: AtomicU64,
}
impl Clock for StallingClock {
    fn now(&self) -> u64 {
        let Stall { now, reads, jump_at, jump } = &*self.0;
        if reads.fetch_add(1, Ordering::SeqCst) + 1 == jump_at.load(Ordering::SeqCst) {
            now.fetch_add(jump.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        now.load(Ordering::SeqCst)
    }
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_thread_that_was_stopped_while_it_searched_does_not_shut_the_table() {
    for read in 1..8 {
        let clock = StallingClock::default();
        let limiter =
            Limiter::<str>::builder(Quota::per_second(1)).bucket_cap(1).clock(clock.clone()).build().unwrap();
        limiter.check("a").unwrap();
        clock.0.now.store(SECOND / 2, Ordering::SeqCst);
        clock.0.jump.store(60 * SECOND, Ordering::SeqCst);
        clock.0.jump_at.store(clock.0.reads.load(Ordering::SeqCst) + read, Ordering::SeqCst);
        let _ = limiter.check("b"); // refused or, where the stall came early, admitted
        clock.0.jump_at.store(0, Ordering::SeqCst);
        clock.0.now.fetch_add(SECOND, Ordering::SeqCst);
        limiter.check("c").unwrap_or_else(|refusal| panic!("stalled at read {read}: {refusal}"));
    }
}

/// A clock that does something at its next read, and shows the time from before it.
#[derive(Clone, Default)]
struct SlowClock(Arc<(AtomicU64, Mutex<Option<Deed>>)>);
type Deed = Box<dyn FnOnce() + Send>;
impl Clock for SlowClock {
    fn now(&self) -> u64 {
        let (now, deed) = &*self.0;
        let shown = now.load(Ordering::SeqCst);
        let deed = deed.lock().unwrap().take();
        if let Some(deed) = deed {
            deed();
        }
        shown
    }
}

#[test]
fn a_newcomer_is_not_refused_for_a_gate_that_opened_while_it_was_looking() {
    let clock = SlowClock::default();
    let builder = Limiter::<str>::builder(Quota::per_second(1)).bucket_cap(1).clock(clock.clone());
    let limiter = Arc::new(builder.build().unwrap());
    limiter.check("a").unwrap();
    assert_eq!(limiter.check("b").unwrap_err().reason, Reason::TableFull, "and the gate is shut");
    let (others, time) = (limiter.clone(), clock.clone());
    *clock.0.1.lock().unwrap() = Some(Box::new(move || {
        time.0.0.store(2 * SECOND, Ordering::SeqCst);
        assert_eq!(others.prune_refilled(), 1);
    }));
    limiter.check("c").expect("there is room, and has been since before the clock was read");
}

#[test]
fn a_manual_clock_that_moves_during_a_search_makes_no_pause() {
    let clock = ManualClock::new();
    let limiter =
        Limiter::<str>::builder(Quota::per_second(1)).bucket_cap(2).clock(clock.clone()).build().unwrap();
    limiter.check("a").unwrap();
    limiter.check("b").unwrap();
    std::thread::scope(|threads| {
        threads.spawn(|| (0..1_000).for_each(|_| clock.advance(Duration::from_micros(900))));
        threads.spawn(|| {
            for n in 0..1_000 {
                let _ = limiter.check(&format!("newcomer {n}"));
            }
        });
    });
    clock.advance(Duration::from_secs(1));
    limiter.check("late").expect("every bucket is refilled");
}

#[test]
fn a_newcomer_is_admitted_at_the_nanosecond_at_which_the_first_bucket_is_full() {
    let clock = ManualClock::new();
    let limiter =
        Limiter::<str>::builder(Quota::per_second(1)).bucket_cap(3).clock(clock.clone()).build().unwrap();
    for (at, key) in [(0, "a"), (10, "b"), (20, "c")] {
        clock.set(at);
        limiter.check(key).unwrap();
    }
    clock.set(SECOND - 1);
    assert_eq!(limiter.check("d").unwrap_err().reason, Reason::TableFull);
    clock.set(SECOND);
    limiter.check("d").unwrap();
    assert_eq!(limiter.check("e").unwrap_err().reason, Reason::TableFull);
    clock.set(SECOND + 10);
    limiter.check("e").unwrap();
}
