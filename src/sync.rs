//! The atomics the engine runs on: the machine's, or a model checker's. Nothing else names either.
//!
//! | cfg | checker | explores |
//! |---|---|---|
//! | `tollgate_loom` | loom | every interleaving of small models, and what weak orderings allow |
//! | `tollgate_shuttle` | shuttle | random interleavings of large mixes, all orderings taken as sequentially consistent |
//!
//! Under either the same code runs on 64-bit words with narrow fields, because neither has 128-bit atomics and a
//! mutex in their place would hide ordering bugs.

/// Is this a build for a model checker? Then words are narrow, and tables, chunks and pauses small.
pub(crate) const MODEL: bool = cfg!(any(tollgate_loom, tollgate_shuttle));

#[cfg(all(tollgate_loom, tollgate_shuttle))]
compile_error!("one model checker at a time: tollgate_loom or tollgate_shuttle");

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod imp {
    pub(crate) use portable_atomic::AtomicU128 as AtomicBits;
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::Mutex;
    pub(crate) use std::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) use AtomicU64 as AtomicTime;

    /// A word's bits.
    pub(crate) type Bits = u128;
}

#[cfg(not(tollgate_loom))]
mod cell {
    /// `std`'s cell with loom's access methods.
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
#[cfg(not(tollgate_loom))]
pub(crate) use cell::UnsafeCell;

#[cfg(tollgate_shuttle)]
mod imp {
    pub(crate) use shuttle::sync::Mutex;
    pub(crate) use shuttle::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

    pub(crate) use AtomicU64 as AtomicBits;
    /// A manual clock is read and moved at any point of another thread's operation.
    pub(crate) use AtomicU64 as AtomicTime;

    /// A word's bits.
    pub(crate) type Bits = u64;

    /// A pause is a chance for another thread to run.
    pub(crate) fn spin_loop() {
        shuttle::thread::yield_now();
    }
}

#[cfg(tollgate_loom)]
mod imp {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicIsize, AtomicPtr, Ordering, fence};
    #[cfg(not(tollgate_rmw_loads))]
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64};
    #[cfg(tollgate_rmw_loads)]
    pub(crate) use rmw_loads::{AtomicU32, AtomicU64};

    pub(crate) use AtomicU64 as AtomicBits;
    /// The machine's: models step their clocks by hand, and a reading is no choice worth exploring.
    pub(crate) use std::sync::atomic::AtomicU64 as AtomicTime;

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
    ///
    /// Stores are exchanges, for the same reason turned round: loom orders two writes of an atomic only if one
    /// happens before the other or is a read-modify-write that read it, so a load's write of what it read could
    /// outlive a plain store beside it, which no machine does.
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
                    pub(crate) fn store(&self, value: $int, order: Ordering) {
                        self.0.swap(value, order);
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

/// A place where a test may stop this thread: see `stall`. Nothing at all in a build that ships.
macro_rules! stall_point {
    ($point:ident) => {
        #[cfg(tollgate_stall)]
        crate::stall::reached(crate::stall::Point::$point);
    };
}
pub(crate) use stall_point;
