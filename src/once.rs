//! A value that is made by the first who needs it, without a lock: `std`'s cells make the others wait.

use crate::sync::{AtomicPtr, Ordering};
use std::ptr;

/// Nothing at first, and one value from the first need to the end.
#[derive(Debug)]
pub(crate) struct OnceBox<T>(AtomicPtr<T>);

// SAFETY: the value is handed out by shared reference only, and dropped by the owner.
unsafe impl<T: Send + Sync> Sync for OnceBox<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for OnceBox<T> {}

impl<T> OnceBox<T> {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release below, so that the value is whole.
        let value = self.0.load(Ordering::Acquire);
        // SAFETY: published whole, and freed with this cell only.
        unsafe { value.cast_const().as_ref() }
    }

    /// The value. Several threads may make one at once; the first to publish it is kept.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let made = Box::into_raw(Box::new(make()));
        match self.0.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: as in `get`.
            Ok(_) => unsafe { &*made },
            Err(theirs) => {
                // SAFETY: it came from a box, and was never published.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: as in `get`.
                unsafe { &*theirs }
            }
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        let value = self.0.load(Ordering::Acquire);
        if !value.is_null() {
            // SAFETY: it came from a box, and nobody can reach it any more.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn all_threads_get_the_one_value_that_was_published_first() {
        let cell = OnceBox::new();
        assert_eq!(cell.get(), None);
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    scope.spawn({
                        let cell = &cell;
                        move || *cell.get_or_make(|| n)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|value| Some(value) == cell.get()), "{seen:?}");
    }
}
