//! Room for records: what keeps the journal bounded without losing any.

use super::{JournalError, WhenFull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many more records can be taken, and whether any can.
#[derive(Debug)]
pub(super) struct Room {
    capacity: usize,
    free: AtomicUsize,
    /// Places set aside for the ends of permits that are held: no wait for the sink frees them.
    held: AtomicUsize,
    /// Decisions under way: those that found the journal open and may still record something.
    deciding: AtomicUsize,
    /// Threads that wait for room.
    waiting: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    /// `state.closed` is set: looked at without the lock.
    shut: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    closed: Option<JournalError>,
    failure: Option<JournalError>,
}

/// Room that was set aside. What is not used goes back.
#[derive(Debug)]
pub(in super::super) struct Reserved {
    room: Arc<Room>,
    left: usize,
    /// What is left is for the end of a permit.
    held: bool,
}

impl Room {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            free: AtomicUsize::new(capacity),
            held: AtomicUsize::new(0),
            deciding: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            shut: AtomicBool::new(false),
        }
    }

    /// Begins a decision, if the journal is open.
    pub(super) fn enter(&self) -> Result<(), JournalError> {
        // Before the look at `shut`, and the closing the other way round: one of the two sees the other.
        self.deciding.fetch_add(1, Ordering::SeqCst);
        match self.closed() {
            None => Ok(()),
            Some(error) => {
                self.leave();
                Err(error)
            }
        }
    }

    /// Ends a decision.
    pub(super) fn leave(&self) {
        self.deciding.fetch_sub(1, Ordering::SeqCst);
        if self.shut.load(Ordering::SeqCst) {
            let _state = self.lock();
            self.changed.notify_all();
        }
    }

    /// Waits until no decision is under way. Call once it is closed.
    pub(super) fn drain(&self) {
        let mut state = self.lock();
        while self.deciding.load(Ordering::SeqCst) > 0 {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn reserve(
        self: Arc<Self>,
        records: usize,
        when_full: WhenFull,
    ) -> Result<Reserved, JournalError> {
        if self.try_take(records) || self.wait_for(records, when_full)? {
            let reserved = Reserved { room: self, left: records, held: false };
            // Room that a sink gave back which had failed is no room.
            return reserved.room.failure().map_or(Ok(()), Err).map(|()| reserved);
        }
        Err(JournalError::Full { capacity: self.capacity })
    }

    /// SeqCst: a waiter that finds nothing here has said before that it waits, and whoever gives room back afterwards looks at
    /// that. It also pairs with the giving back of room by a failed sink, which comes after the closing.
    fn try_take(&self, records: usize) -> bool {
        let less = |free: usize| free.checked_sub(records);
        self.free.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }

    /// Waits until there is room, if that is what to do.
    #[cold]
    fn wait_for(&self, records: usize, when_full: WhenFull) -> Result<bool, JournalError> {
        if when_full == WhenFull::Refuse {
            return Ok(false);
        }
        let mut state = self.lock();
        // Before the look at `free`: whoever gives room back after that look sees us wait. SeqCst, as is the giving back:
        // one of the two sees the other.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let outcome = loop {
            if let Some(error) = &state.closed {
                break Err(error.clone());
            }
            if self.try_take(records) {
                break Ok(true);
            }
            // Whoever holds the permits may be the one that waits here.
            if self.capacity - self.held.load(Ordering::SeqCst) < records {
                break Ok(false);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// Records were written, or are not needed.
    pub(super) fn give_back(&self, records: usize) {
        self.free.fetch_add(records, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Under the lock: not between a waiter's look and its sleep.
            let _state = self.lock();
            self.changed.notify_all();
        }
    }

    /// From now on nothing is reserved any more. Returns why nothing was before, if so.
    pub(super) fn close(&self, why: JournalError) -> Option<JournalError> {
        let mut state = self.lock();
        if matches!(why, JournalError::Sink(_)) {
            state.failure.get_or_insert(why.clone());
        }
        let before = state.closed.clone();
        state.closed.get_or_insert(why);
        self.shut.store(true, Ordering::SeqCst);
        self.changed.notify_all();
        before
    }

    fn closed(&self) -> Option<JournalError> {
        if !self.shut.load(Ordering::SeqCst) {
            return None;
        }
        self.lock().closed.clone()
    }

    /// What went wrong with the sink.
    pub(super) fn failure(&self) -> Option<JournalError> {
        if !self.shut.load(Ordering::SeqCst) {
            return None;
        }
        self.lock().failure.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reserved {
    /// What is left is for the end of a permit, whenever that comes.
    pub(in super::super) fn hold(&mut self) {
        if !self.held && self.left > 0 {
            self.held = true;
            self.room.held.fetch_add(self.left, Ordering::SeqCst);
            self.room.wake();
        }
    }

    /// One place now belongs to a record; the writer gives it back.
    pub(super) fn use_one(&mut self) {
        debug_assert!(self.left > 0, "recorded more than was reserved");
        self.left = self.left.saturating_sub(1);
        if self.held {
            self.room.held.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.held {
            self.room.held.fetch_sub(self.left, Ordering::SeqCst);
        }
        self.room.give_back(self.left);
    }
}
