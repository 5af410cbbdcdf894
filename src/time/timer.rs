//! Real time: one thread for all alarms of all clocks that count it.

use super::{Alarm, Alarms, nanos};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

/// Made at the first alarm of the process. Its thread sleeps while there is none, and stays.
struct Timer {
    start: Instant,
    alarms: Alarms,
    started: Mutex<bool>,
}

/// Wakes `waker` when `wait` of real time has passed.
pub(super) fn wake_after(wait: Duration, waker: &Waker) -> Alarm {
    static TIMER: OnceLock<Timer> = OnceLock::new();
    let timer = TIMER.get_or_init(|| Timer {
        start: Instant::now(),
        alarms: Alarms::new(),
        started: Mutex::new(false),
    });
    let at = timer.now().saturating_add(nanos(wait));
    let alarm = timer.alarms.set(at, waker, || timer.now());
    if !timer.is_running() {
        // No thread, no alarm: whoever waits looks again now, and asks again. That costs time, but nobody sleeps for ever.
        thread::yield_now();
        waker.wake_by_ref();
    }
    alarm
}

impl Timer {
    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }

    fn is_running(&'static self) -> bool {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        if !*started {
            let thread = thread::Builder::new().name("tollgate-timer".into()).spawn(|| self.run());
            *started = thread.is_ok();
        }
        *started
    }

    fn run(&self) {
        loop {
            self.alarms.sleep(|| self.now());
            // A waker is somebody else's code; if one panics, the others must still be woken. What it unwound
            // through is a list without it.
            let _ = catch_unwind(AssertUnwindSafe(|| self.alarms.ring(self.now())));
        }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::task::Wake;

    struct Tell(Mutex<Sender<u64>>, u64);
    impl Wake for Tell {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().send(self.1).unwrap();
            assert_ne!(self.1, 0, "a waker that panics");
        }
    }

    #[test]
    fn every_alarm_rings_also_after_a_waker_that_panics() {
        let (sender, receiver) = channel();
        let alarm = |wait: u64| {
            let waker = Arc::new(Tell(Mutex::new(sender.clone()), wait)).into();
            wake_after(Duration::from_millis(wait), &waker)
        };
        let _alarms = [alarm(60), alarm(40), alarm(20)];
        let mut rung = [(); 3].map(|()| receiver.recv().unwrap());
        rung.sort_unstable();
        assert_eq!(rung, [20, 40, 60]);
        let far = alarm(3_600_000);
        let _failing = std::panic::catch_unwind(AssertUnwindSafe(|| alarm(0)));
        assert_eq!(receiver.recv().unwrap(), 0);
        let _later = alarm(10);
        assert_eq!(receiver.recv().unwrap(), 10);
        drop(far);
        drop(sender);
        assert!(receiver.recv().is_err(), "a dropped alarm keeps no waker");
    }
}
