//! The atomics the engine runs on: the machine's, or a model checker's. Nothing else names either.
//!
//! Under `--cfg tollgate_loom` the same code runs on 64-bit words with narrow fields, because loom has no
//! 128-bit atomics and a mutex in their place would hide ordering bugs.

#[cfg(not(tollgate_loom))]
mod imp {
    pub(crate) use portable_atomic::AtomicU128 as AtomicBits;
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// A word's bits.
    pub(crate) type Bits = u128;

    /// `std`'s cell with the model checker's access methods.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}

#[cfg(tollgate_loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::AtomicU64 as AtomicBits;
    pub(crate) use loom::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    /// A word's bits.
    pub(crate) type Bits = u64;

    /// A pause is a chance for another thread to run.
    pub(crate) fn spin_loop() {
        loom::thread::yield_now();
    }
}

pub(crate) use imp::*;
