//! Stopping a thread.

use std::sync::mpsc;
use tollgate::stall::{Point, at_each_point};

/// A scenario's engine. Threads that never end borrow it for ever.
pub fn for_ever<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Runs `work` on a thread that stops for good when it comes to `point` for the `nth` time. Returns when it has.
pub fn stop_at(point: Point, nth: usize, work: impl FnOnce() + Send + 'static) {
    stop_after(point, nth, |_| {}, work);
}

/// As [`stop_at`]; before that, `meanwhile` is run at every point that the thread comes to, as if the thread had been
/// interrupted there.
pub fn stop_after(
    point: Point,
    nth: usize,
    mut meanwhile: impl FnMut(Point) + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (stopped, mut left) = (tell.clone(), nth);
        at_each_point(move |here| {
            meanwhile(here);
            if here == point {
                left -= 1;
                if left == 0 {
                    stopped.send(true).expect("the scenario waits for this");
                    loop {
                        std::thread::park();
                    }
                }
            }
        });
        work();
        tell.send(false).expect("the scenario waits for this");
    });
    assert_eq!(told.recv(), Ok(true), "the thread ended without coming to {point:?} {nth} times");
}

/// Runs `work(0)`, `work(1)`, ... on threads of their own, to their ends.
pub fn others<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let work = &work;
        let running: Vec<_> = (0..count).map(|thread| scope.spawn(move || work(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("another thread")).collect()
    })
}
