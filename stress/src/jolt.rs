//! Where the engine has points to stop at, threads are jolted there: what two processors alone would interleave once
//! in a million operations then happens all the time.

#[cfg(tollgate_stall)]
pub fn this_thread(mut random: crate::random::Random) {
    use std::time::Duration;
    tollgate::stall::at_each_point(move |_| match random.below(4_096) {
        0..60 => std::thread::yield_now(),
        60..120 => (0..random.below(1_000)).for_each(|_| std::hint::spin_loop()),
        120 => std::thread::sleep(Duration::from_micros(1 + random.below(100) as u64)),
        _ => {}
    });
}

#[cfg(not(tollgate_stall))]
pub fn this_thread(_: crate::random::Random) {}
