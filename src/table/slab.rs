//! Zeroed memory that costs nothing until it is touched.

use std::ops::Deref;

/// A type for which all-zero bytes are a value.
///
/// # Safety
/// Implementors must be valid when every byte is zero, and need no drop.
pub(crate) unsafe trait Zeroable {
    /// The zero value, where memory cannot be had zeroed (under the model checker).
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    fn zeroed() -> Self;
}

// SAFETY: an atomic integer's zero bytes are the integer 0, and it needs no drop.
unsafe impl Zeroable for crate::sync::AtomicU64 {
    #[cfg(any(tollgate_loom, tollgate_shuttle))]
    fn zeroed() -> Self {
        Self::new(0)
    }
}

/// A fixed number of elements in zeroed memory, from the start of a cache line on. Large slabs come from the system as
/// untouched pages.
#[derive(Debug)]
pub(crate) struct Slab<T: Zeroable>(imp::Slab<T>);

impl<T: Zeroable> Slab<T> {
    pub(crate) fn new(length: usize) -> Self {
        Self(imp::Slab::new(length))
    }
}

impl<T: Zeroable> Deref for Slab<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod imp {
    use super::Zeroable;
    use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
    use std::ops::Deref;
    use std::ptr::NonNull;

    /// Allocators hand out zeroed pages untouched only for alignments they give anyway; for larger ones they
    /// allocate and then write every byte. So this asks for the small alignment, and aligns by hand.
    const ALIGN: usize = 16;
    const LINE: usize = 64;

    #[derive(Debug)]
    pub(super) struct Slab<T> {
        /// What was allocated, and how.
        allocation: NonNull<u8>,
        layout: Layout,
        first: NonNull<T>,
        length: usize,
    }

    // SAFETY: the slab owns its elements, and hands them out by shared reference only.
    unsafe impl<T: Send> Send for Slab<T> {}
    // SAFETY: as above.
    unsafe impl<T: Sync> Sync for Slab<T> {}

    impl<T: Zeroable> Slab<T> {
        pub(super) fn new(length: usize) -> Self {
            let align = align_of::<T>().max(LINE);
            let padding = align - ALIGN;
            let size = size_of::<T>().checked_mul(length).and_then(|size| size.checked_add(padding));
            let layout = size
                .and_then(|size| Layout::from_size_align(size.max(1), ALIGN).ok())
                .expect("a table's size is bounded at construction");
            // SAFETY: the layout's size is not zero.
            let allocation = unsafe { alloc_zeroed(layout) };
            let Some(allocation) = NonNull::new(allocation) else { handle_alloc_error(layout) };
            let offset = allocation.as_ptr().align_offset(align);
            debug_assert!(offset <= padding);
            // SAFETY: the padding leaves room for the offset.
            let first = unsafe { allocation.add(offset) }.cast();
            Self { allocation, layout, first, length }
        }
    }

    impl<T> Deref for Slab<T> {
        type Target = [T];
        #[inline]
        fn deref(&self) -> &[T] {
            // SAFETY: `length` aligned elements, zeroed at allocation, which is a value of theirs.
            unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
        }
    }

    impl<T> Drop for Slab<T> {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout. The elements need no drop.
            unsafe { dealloc(self.allocation.as_ptr(), self.layout) };
        }
    }
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
mod imp {
    use super::Zeroable;
    use std::ops::Deref;

    #[derive(Debug)]
    pub(super) struct Slab<T>(Box<[T]>);

    impl<T: Zeroable> Slab<T> {
        pub(super) fn new(length: usize) -> Self {
            Self((0..length).map(|_| T::zeroed()).collect())
        }
    }

    impl<T> Deref for Slab<T> {
        type Target = [T];
        fn deref(&self) -> &[T] {
            &self.0
        }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};

    #[repr(align(64))]
    struct Line(AtomicU64);
    // SAFETY: an atomic integer.
    unsafe impl Zeroable for Line {}

    #[test]
    fn elements_are_zero_and_aligned_at_any_length() {
        for length in [0, 1, 3, 100, 10_000] {
            let slab = Slab::<Line>::new(length);
            assert_eq!(slab.len(), length);
            assert!(slab.iter().all(|line| std::ptr::from_ref(line).addr() % 64 == 0));
            assert!(slab.iter().all(|line| line.0.load(Ordering::Relaxed) == 0));
        }
    }
}
