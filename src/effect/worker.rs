//! A thread that runs deferred calls when they are due.

use super::effects::Inner;
use super::gate::{Effect, Gate};
use super::toll::DueReport;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::thread::{self, JoinHandle, Thread};

/// Runs one effect's deferred calls when they are due, in a thread of its own. Dropped, it stops: it waits for the call that is
/// being emitted, if one is.
///
/// ```
/// use std::sync::mpsc;
/// use std::time::Duration;
/// use tollgate::budget;
/// use tollgate::effect::{Call, Effect, Effects};
/// use tollgate::time::ManualClock;
///
/// struct Search;
/// impl Effect for Search {
///     const TOOL: &'static str = "Search";
///     type Payload = String;
///     type Output = usize;
/// }
///
/// let clock = ManualClock::new();
/// let policy = budget! { rate: 1 per second on Search, on_exhausted: defer };
/// let effects = Effects::builder(policy).declare::<Search>().clock(clock.clone()).build()?;
/// let search = effects.gate::<Search>(|query| query.len())?;
/// let (found, results) = mpsc::channel();
/// let worker = search.spawn_worker(move |report| {
///     report.emitted.into_iter().for_each(|(_, length)| found.send(length).unwrap());
/// })?;
///
/// let _now = search.call(Call::of("alice"), &"now".into()).unwrap();
/// assert!(search.call(Call::of("alice"), &"later".into()).is_err(), "deferred");
/// clock.advance(Duration::from_secs(1));
/// assert_eq!(results.recv(), Ok(5));
/// drop(worker);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropped, it stops"]
pub struct DueWorker {
    inner: Arc<Inner>,
    /// Its place among those that the ledger wakes.
    watch: u64,
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the worker's thread.
struct Bell {
    thread: Thread,
    stop: AtomicBool,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.thread.unpark();
    }
}

impl<E: Effect> Gate<E> {
    /// Starts a thread that runs this effect's deferred calls when they are due, and hands each report that is not empty to
    /// `on_report`.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn spawn_worker(
        &self,
        on_report: impl FnMut(DueReport<E::Output>) + Send + 'static,
    ) -> io::Result<DueWorker> {
        let gate = self.clone();
        let (bell, ring) = std::sync::mpsc::channel::<Arc<Bell>>();
        let thread = thread::Builder::new().name("tollgate-due".into()).spawn(move || {
            // The one that started it is waiting for nothing but to send it.
            if let Ok(bell) = ring.recv() {
                work(&gate, &bell, on_report);
            }
        })?;
        let ours = Arc::new(Bell { thread: thread.thread().clone(), stop: AtomicBool::new(false) });
        let inner = self.inner().clone();
        // Before the first look: a call that comes after that look wakes the thread.
        let watch = inner.ledger.watch(Waker::from(ours.clone()));
        // A thread that is gone already has nothing to be told.
        let _ = bell.send(ours.clone());
        Ok(DueWorker { inner, watch, bell: ours, thread: Some(thread) })
    }
}

fn work<E: Effect>(gate: &Gate<E>, bell: &Arc<Bell>, mut on_report: impl FnMut(DueReport<E::Output>)) {
    let waker = Waker::from(bell.clone());
    // Acquire: pairs with the release when the worker is dropped.
    while !bell.stop.load(Ordering::Acquire) {
        let clock = &gate.inner().clock;
        let now = clock.now();
        let mut next = gate.next_due();
        if next.is_some_and(|due| due <= now) {
            let report = gate.run_due(now);
            if !(report.emitted.is_empty() && report.postponed.is_empty() && report.failed.is_empty()) {
                on_report(report);
            }
            // What could not be run is due a little later, so this is no time that has passed already.
            next = gate.next_due();
        }
        // An alarm that is dropped does not ring; one whose time has come rings at once.
        let _alarm = next.map(|due| clock.wake_at(due, &waker));
        thread::park();
    }
}

impl Drop for DueWorker {
    fn drop(&mut self) {
        self.inner.ledger.unwatch(self.watch);
        // Release: pairs with the thread's look.
        self.bell.stop.store(true, Ordering::Release);
        self.bell.thread.unpark();
        if let Some(thread) = self.thread.take() {
            // Dropped by its own report, it cannot wait for itself.
            if thread.thread().id() != thread::current().id() {
                // A tool that panicked in it has been reported by the panic.
                let _ = thread.join();
            }
        }
    }
}

impl fmt::Debug for DueWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DueWorker").finish_non_exhaustive()
    }
}
