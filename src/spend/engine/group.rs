//! Group commit: callers that come while a write is under way share the next one.
//!
//! The first caller of a batch leads it: it waits for the write before, closes the batch, writes it, and tells the others. So
//! there is one write at a time, and one sync serves everybody who came during the sync before it.

use crate::spend::policy::SpendPolicy;
use crate::spend::record::{Millis, Record};
use crate::spend::store::{Store, StoreError};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

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
    outcome: Mutex<Option<Result<(), StoreError>>>,
    told: Condvar,
}

/// Nothing here is left half done by a panic: the store's own is caught.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupCommit {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, joining: Mutex::new(None), writing: Mutex::new(()) }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Keeps another policy, between two writes.
    pub(crate) fn redefine(&self, policy: &SpendPolicy, now: Millis) -> Result<(), StoreError> {
        let _writing = lock(&self.writing);
        self.store.redefine(policy, now)
    }

    fn guarded(&self, records: &[Record]) -> Result<(), StoreError> {
        let written = catch_unwind(AssertUnwindSafe(|| self.store.write(records)));
        written.unwrap_or_else(|_| Err(StoreError::Other("the store panicked".into())))
    }

    /// Makes `records` durable together, with those of others.
    pub(crate) fn write(&self, records: impl IntoIterator<Item = Record>) -> Result<(), StoreError> {
        if !self.store.waits() {
            let records: SmallVec<[Record; 1]> = records.into_iter().collect();
            return self.guarded(&records);
        }
        let (batch, leads) = {
            let mut joining = lock(&self.joining);
            let leads = joining.is_none();
            let batch = Arc::clone(joining.get_or_insert_with(Arc::default));
            // While `joining` is locked the batch is not closed.
            lock(&batch.records).extend(records);
            (batch, leads)
        };
        if leads {
            let _writing = lock(&self.writing);
            *lock(&self.joining) = None;
            let records = std::mem::take(&mut *lock(&batch.records));
            let outcome = self.guarded(&records);
            *lock(&batch.outcome) = Some(outcome.clone());
            batch.told.notify_all();
            return outcome;
        }
        let mut outcome = lock(&batch.outcome);
        loop {
            match &*outcome {
                Some(outcome) => return outcome.clone(),
                None => outcome = batch.told.wait(outcome).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
