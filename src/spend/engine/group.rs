//! Group commit: callers that come while a write is under way share the next one.
//!
//! The first caller of a batch leads it: it waits for the write before, closes the batch, writes it, and tells the others. So
//! there is one write at a time, and one sync serves everybody who came during the sync before it.
//!
//! A record that the store does not take fails alone: a batch that has one is halved until it is found.

use crate::spend::policy::SpendPolicy;
use crate::spend::record::{Millis, Record};
use crate::spend::store::{Store, StoreError};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Outcome = Result<(), StoreError>;

#[derive(Debug)]
pub(crate) struct GroupCommit {
    store: Arc<dyn Store>,
    /// The batch that callers still join.
    joining: Mutex<Option<Arc<Batch>>>,
    /// Held while a batch is written.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Batch {
    records: Mutex<Vec<Record>>,
    /// One of each record, once it is known.
    outcomes: Mutex<Option<Vec<Outcome>>>,
    told: Condvar,
}

/// Nothing here is left half done by a panic: the store's own is caught.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn panicked(_: Box<dyn Any + Send>) -> Outcome {
    Err(StoreError::Other("the store panicked".into()))
}

impl GroupCommit {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, joining: Mutex::new(None), writing: Mutex::new(()) }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Keeps another policy, between two writes.
    pub(crate) fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Outcome {
        let _writing = lock(&self.writing);
        self.store.redefine(policy, now)
    }

    /// Makes `record` durable, together with those of others.
    pub(crate) fn write(&self, record: Record) -> Outcome {
        if !self.store.waits() {
            return self.attempt(std::slice::from_ref(&record)).unwrap_or_else(panicked);
        }
        self.write_each(vec![record]).pop().unwrap_or(Ok(()))
    }

    /// What the store said, unless it panicked.
    fn attempt(&self, records: &[Record]) -> std::thread::Result<Outcome> {
        catch_unwind(AssertUnwindSafe(|| self.store.write(records)))
    }

    /// Makes each of `records` durable or not. No two are of one hold.
    pub(crate) fn write_each(&self, records: Vec<Record>) -> Vec<Outcome> {
        if !self.store.waits() {
            return self.outcomes(&records);
        }
        let (batch, leads, mine) = {
            let mut joining = lock(&self.joining);
            let leads = joining.is_none();
            let batch = Arc::clone(joining.get_or_insert_with(Arc::default));
            // While `joining` is locked the batch is not closed.
            let mut joined = lock(&batch.records);
            let first = joined.len();
            joined.extend(records);
            let mine = first..joined.len();
            drop(joined);
            (batch, leads, mine)
        };
        if leads {
            let _writing = lock(&self.writing);
            *lock(&self.joining) = None;
            let records = std::mem::take(&mut *lock(&batch.records));
            *lock(&batch.outcomes) = Some(self.outcomes(&records));
            batch.told.notify_all();
        }
        let mut outcomes = lock(&batch.outcomes);
        loop {
            match &*outcomes {
                Some(outcomes) => return outcomes[mine].to_vec(),
                None => outcomes = batch.told.wait(outcomes).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn outcomes(&self, records: &[Record]) -> Vec<Outcome> {
        let mut outcomes = vec![Ok(()); records.len()];
        self.write_apart(records, &mut outcomes);
        outcomes
    }

    /// Writes all of them at once, or without those that the store does not take.
    fn write_apart(&self, records: &[Record], outcomes: &mut [Outcome]) {
        let (outcome, concerns_all) = match self.attempt(records) {
            Ok(Ok(())) => return,
            // These are of the store and not of what is written.
            Ok(Err(error @ (StoreError::Io { .. } | StoreError::Corrupt { .. }))) => (Err(error), true),
            Ok(outcome) => (outcome, false),
            // It may have kept them: they must not be written once more.
            Err(panic) => (panicked(panic), true),
        };
        if records.len() < 2 || concerns_all {
            outcomes.fill(outcome);
            return;
        }
        let half = records.len() / 2;
        self.write_apart(&records[..half], &mut outcomes[..half]);
        self.write_apart(&records[half..], &mut outcomes[half..]);
    }
}
