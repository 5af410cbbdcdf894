//! What tables cost: measured by an allocator that counts, and by the resident set.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tollgate::quota::Quota;
use tollgate::time::ManualClock;
use tollgate::{LimitSet, Limiter, Plan};

struct Counting;

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What this thread allocated: the test harness allocates and frees beside it.
    static ALLOCATED_HERE: Cell<usize> = const { Cell::new(0) };
}

fn count(layout: Layout) {
    LIVE_BYTES.fetch_add(layout.size(), Ordering::Relaxed);
    // A thread that ends has no place to count in any more.
    let _ = ALLOCATED_HERE.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The counters are the process's: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
#[cfg(target_os = "linux")]
fn a_table_that_nobody_has_used_costs_almost_nothing() {
    let _alone = ONE_AT_A_TIME.lock();
    let before = resident_bytes();
    let limiter = Limiter::<u64>::builder(Quota::per_hour(10)).bucket_cap(4_000_000).build().unwrap();
    let reserved = limiter.memory_bytes();
    assert!(reserved > 256_000_000);
    let built = resident_bytes().saturating_sub(before);
    assert!(built < reserved / 20, "{built} of {reserved} bytes are resident before any key");
    limiter.check(&7).unwrap();
    drop(limiter);
    let dropped = resident_bytes().saturating_sub(before);
    assert!(dropped < reserved / 20, "dropping it touched {dropped} bytes");
}

#[test]
fn a_grant_with_both_limits_costs_at_most_112_bytes() {
    use tollgate::guard::{VelocityConfig, VelocityGuard};
    let _alone = ONE_AT_A_TIME.lock();
    let before = ALLOCATED_HERE.get();
    let config = VelocityConfig {
        max_invocations_per_window: Some(60),
        max_spend_per_window: Some(1_000),
        ..VelocityConfig::default()
    };
    let guard = VelocityGuard::with_bucket_cap(config, 2 * 65_536).unwrap();
    let bytes = ALLOCATED_HERE.get() - before;
    assert!(bytes <= 112 * 65_536, "{} bytes a grant", bytes as f64 / 65_536.0);
    assert!(guard.memory_bytes() <= bytes, "what is reported is part of what is allocated");
}

#[test]
fn a_full_table_that_is_churned_reserves_no_more_than_an_untouched_one() {
    let _alone = ONE_AT_A_TIME.lock();
    let clock = ManualClock::new();
    let builder = Limiter::<u64>::builder(Quota::per_second(1)).bucket_cap(16_384).clock(clock.clone());
    let limiter = builder.build().unwrap();
    let untouched = limiter.memory_bytes();
    for key in 0..200_000 {
        limiter.check(&key).unwrap();
        // Each bucket is full again after as many newcomers as the table has room for, nearly.
        clock.advance(std::time::Duration::from_micros(66));
    }
    assert_eq!(limiter.memory_bytes(), untouched);
}

#[test]
fn tables_that_committed_together_are_freed_when_dropped() {
    let _alone = ONE_AT_A_TIME.lock();
    let table = || {
        let limits = LimitSet::builder().limit("limit", Quota::per_hour(10)).bucket_cap(16_384);
        limits.clock(ManualClock::new()).build().unwrap()
    };
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    for _ in 0..40 {
        let (first, second) = (table(), table());
        let mut plan = Plan::new();
        first.plan(0, "key", 1, &mut plan);
        second.plan(0, "key", 1, &mut plan);
        plan.commit().unwrap();
    }
    let left = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    // Eighty tables were a hundred million bytes.
    assert!(left < 10_000_000, "{left} bytes are left");
}

#[test]
fn long_keys_are_freed_with_their_buckets() {
    let _alone = ONE_AT_A_TIME.lock();
    let clock = ManualClock::new();
    let limiter =
        Limiter::<str>::builder(Quota::per_second(1)).bucket_cap(64).clock(clock.clone()).build().unwrap();
    let before = LIVE_BYTES.load(Ordering::Relaxed);
    for n in 0..2_000 {
        let key = format!("{n}{}", "x".repeat(10_000));
        limiter.check(&key).unwrap();
        clock.advance(std::time::Duration::from_secs(1));
    }
    drop(limiter);
    let left = LIVE_BYTES.load(Ordering::Relaxed).saturating_sub(before);
    assert!(left < 4_000_000, "{left} bytes of twenty million are left");
}
