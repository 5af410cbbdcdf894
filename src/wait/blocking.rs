//! Waiting with a thread instead of a task.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// A thread that waits, and whether it was woken: others may unpark it for reasons of their own.
struct Parked {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Parked {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        // Release: pairs with the acquire below, so that the thread sees what it was woken for.
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// Polls `future` on this thread until it is ready.
pub(super) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let parked = Arc::new(Parked { thread: thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(parked.clone());
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut context) {
            return output;
        }
        while !parked.woken.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }
}
