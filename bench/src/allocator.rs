//! An allocator that counts bytes while somebody asks.

// Implementing `GlobalAlloc` is unsafe whatever it does; this is the only file that needs it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// The system's allocator, and a count that is off until [`Count::start`]. While it is off, an allocation costs one
/// load more of a flag that nobody writes.
#[derive(Debug, Default, Clone, Copy)]
pub struct CountingAllocator;

static COUNTING: AtomicBool = AtomicBool::new(false);
/// Memory that was allocated before the count and freed during it makes it negative.
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

#[inline]
fn count(bytes: isize) {
    // Relaxed: whoever reads the sum has joined the threads that made it.
    if COUNTING.load(Ordering::Relaxed) {
        LIVE_BYTES.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: by the caller's contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: by the caller's contract.
        unsafe { System.realloc(pointer, layout, size) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: by the caller's contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// A count under way: bytes allocated since its start and not freed. One at a time.
#[derive(Debug)]
pub struct Count(());

impl Count {
    /// Starts; `None` if the program does not use [`CountingAllocator`], or another count is under way.
    pub fn start() -> Option<Self> {
        if COUNTING.swap(true, Ordering::Relaxed) {
            return None;
        }
        LIVE_BYTES.store(0, Ordering::Relaxed);
        let started = Self(());
        let probe = black_box(Vec::<u8>::with_capacity(4_096));
        let installed = started.live_bytes() >= 4_096;
        drop(probe);
        installed.then_some(started)
    }

    /// Bytes live by now.
    pub fn live_bytes(&self) -> isize {
        LIVE_BYTES.load(Ordering::Relaxed)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        COUNTING.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_count_starts_where_the_allocator_is_another() {
        assert!(Count::start().is_none());
        assert!(!COUNTING.load(Ordering::Relaxed), "and it stays off");
    }
}
