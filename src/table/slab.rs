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

    /// As [`new`](Self::new), for elements that come into use one after the other: a large slab asks for huge pages,
    /// which then are filled too. (A page walk costs a random reader more than the cache miss behind it.)
    pub(crate) fn dense(length: usize) -> Self {
        Self(imp::Slab::dense(length))
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
    /// On the machines that have them, most often.
    const HUGE_PAGE: usize = 2 << 20;
    /// From here on the unused part of a huge page does not matter.
    const LARGE: usize = 4 * HUGE_PAGE;

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
            Self::aligned(length, align_of::<T>().max(LINE))
        }

        pub(super) fn dense(length: usize) -> Self {
            if size_of::<T>().saturating_mul(length) < LARGE {
                return Self::new(length);
            }
            let slab = Self::aligned(length, HUGE_PAGE);
            slab.ask_for_huge_pages();
            slab
        }

        #[cfg(target_os = "linux")]
        fn ask_for_huge_pages(&self) {
            use rustix::mm::{Advice, madvise};
            let size = size_of::<T>() * self.length;
            // SAFETY: the range lies in the allocation, and the advice changes no byte of it. A system that does not
            // take it goes on with small pages, as it would without.
            let _ = unsafe { madvise(self.first.as_ptr().cast(), size, Advice::LinuxHugepage) };
        }

        #[cfg(not(target_os = "linux"))]
        fn ask_for_huge_pages(&self) {}

        fn aligned(length: usize, align: usize) -> Self {
            debug_assert!(align >= align_of::<T>() && align >= ALIGN);
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

        pub(super) fn dense(length: usize) -> Self {
            Self::new(length)
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
    fn a_large_dense_slab_is_zero_and_writable_to_its_end() {
        let slab = Slab::<AtomicU64>::dense((9 << 20) / 8 + 5);
        assert!(slab.iter().step_by(511).all(|word| word.load(Ordering::Relaxed) == 0));
        let last = slab.last().unwrap();
        last.store(7, Ordering::Relaxed);
        assert_eq!(last.load(Ordering::Relaxed), 7);
    }

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
