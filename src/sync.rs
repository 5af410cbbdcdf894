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
    pub(crate) use loom::sync::atomic::{AtomicIsize, AtomicPtr, Ordering, fence};
    #[cfg(not(tollgate_rmw_loads))]
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};
    #[cfg(tollgate_rmw_loads)]
    pub(crate) use rmw_loads::{AtomicU32, AtomicU64};

    pub(crate) use AtomicU64 as AtomicBits;

    /// A word's bits.
    pub(crate) type Bits = u64;

    /// A pause is a chance for another thread to run.
    pub(crate) fn spin_loop() {
        loom::thread::yield_now();
    }

    /// Loads that are read-modify-writes of nothing. Loom keeps one last access per atomic, so a thread's load
    /// just before its exchange hides another thread's earlier load from it, and some interleavings are never
    /// run; with these they are. Such loads read the latest value, so what a stale load can do is explored
    /// with plain loads instead.
    #[cfg(tollgate_rmw_loads)]
    mod rmw_loads {
        use loom::sync::atomic::Ordering;
        use std::ops::Deref;

        macro_rules! atomics {
            ($($name:ident: $int:ty),*) => {$(
                #[derive(Debug, Default)]
                pub(crate) struct $name(loom::sync::atomic::$name);

                impl $name {
                    pub(crate) fn new(value: $int) -> Self {
                        Self(loom::sync::atomic::$name::new(value))
                    }
                    pub(crate) fn load(&self, order: Ordering) -> $int {
                        self.0.fetch_or(0, order)
                    }
                }

                impl Deref for $name {
                    type Target = loom::sync::atomic::$name;
                    fn deref(&self) -> &Self::Target {
                        &self.0
                    }
                }
            )*};
        }
        atomics!(AtomicU32: u32, AtomicU64: u64);
    }
}

pub(crate) use imp::*;

/// Is this seeded bug compiled in? Never in a build that ships: `loom-tests/mutants` builds each by
/// `--cfg tollgate_mutant="name"` and demands that a model catches it.
macro_rules! seeded_bug {
    ($name:literal) => {
        cfg!(tollgate_mutant = $name)
    };
}
pub(crate) use seeded_bug;
