//! Tasks without a runtime: futures that are polled when their wakers were woken, or when a test says so.
#![allow(dead_code)] // each test binary uses a part of this

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

#[derive(Default)]
pub struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A future, and whether it was woken since it was last polled. New ones want to be polled.
pub struct Task<F> {
    future: Pin<Box<F>>,
    flag: Arc<Flag>,
}

impl<F: Future> Task<F> {
    pub fn new(future: F) -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Self { future: Box::pin(future), flag }
    }

    pub fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::SeqCst)
    }

    /// Polls it, woken or not.
    pub fn poll(&mut self) -> Option<F::Output> {
        self.flag.0.store(false, Ordering::SeqCst);
        let waker = Waker::from(self.flag.clone());
        match self.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    /// Polls it if it was woken.
    pub fn run(&mut self) -> Option<F::Output> {
        if self.is_woken() { self.poll() } else { None }
    }
}
