//! A list that only grows: elements never move, and reading one takes no lock.
//!
//! Chunks double in size, so 2^26 elements need 22 chunk pointers, and an index finds its chunk by counting
//! leading zeros.

use crate::sync::{AtomicPtr, AtomicU32, MODEL, Ordering};

/// Elements of the first chunk.
const FIRST: u32 = if MODEL { 2 } else { 32 };
const CHUNKS: usize = match (MODEL, cfg!(tollgate_loom)) {
    (true, true) => 3, // loom explores every element's state
    (true, false) => 10,
    (false, _) => 22,
};

/// A growing list of default-constructed elements, named by the order in which they were claimed.
#[derive(Debug)]
pub(crate) struct AppendList<T> {
    chunks: [AtomicPtr<T>; CHUNKS],
    claimed: AtomicU32,
}

// SAFETY: elements are only handed out by shared reference, and dropped by the list's owner.
unsafe impl<T: Send + Sync> Sync for AppendList<T> {}
// SAFETY: the list owns its elements.
unsafe impl<T: Send> Send for AppendList<T> {}

fn place(index: u32) -> (usize, usize) {
    let n = index + FIRST;
    let chunk = n.ilog2() - FIRST.ilog2();
    (chunk as usize, (n - (FIRST << chunk)) as usize)
}

/// # Safety
/// `base` must point to a chunk of a list that outlives the reference, and `offset` be below the chunk's length.
#[inline]
unsafe fn element<'l, T>(base: *const T, offset: usize) -> &'l T {
    // SAFETY: in bounds, by this function's contract.
    let element = unsafe { base.add(offset) };
    // SAFETY: chunks are initialised before they are published, and only ever shared.
    unsafe { &*element }
}

impl<T: Default> AppendList<T> {
    #[cfg(not(tollgate_loom))]
    pub(crate) const fn new() -> Self {
        Self { chunks: [const { AtomicPtr::new(std::ptr::null_mut()) }; CHUNKS], claimed: AtomicU32::new(0) }
    }
    #[cfg(tollgate_loom)]
    pub(crate) fn new() -> Self {
        Self {
            chunks: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
            claimed: AtomicU32::new(0),
        }
    }

    /// How many elements `u32` indices and the chunks allow.
    pub(crate) const fn most() -> u32 {
        FIRST * ((1 << CHUNKS) - 1)
    }

    /// Claims the next element: its index is the caller's alone. `None` once `limit` (or the list's own
    /// most) are claimed.
    pub(crate) fn claim(&self, limit: u32) -> Option<(u32, &T)> {
        let limit = limit.min(Self::most());
        // Relaxed: the index alone publishes nothing; whoever passes it on does so with a release.
        let index = self
            .claimed
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < limit).then_some(n + 1))
            .ok()?;
        let (chunk, offset) = place(index);
        let base = self.chunk_or_allocate(chunk);
        // SAFETY: `place` gives a chunk's number and an offset below its length.
        Some((index, unsafe { element(base, offset) }))
    }

    /// Element `index`, which must have been claimed by a caller whose claim happens before this.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &T {
        let (chunk, offset) = place(index);
        // Acquire: pairs with the release that published the chunk.
        let mut base = self.chunks[chunk].load(Ordering::Acquire).cast_const();
        if base.is_null() {
            // Only for an index that came by a path that does not order the allocation before this load.
            base = self.chunk_or_allocate(chunk);
        }
        // SAFETY: as in `claim`.
        unsafe { element(base, offset) }
    }

    #[cold]
    fn chunk_or_allocate(&self, chunk: usize) -> *const T {
        let slot = &self.chunks[chunk];
        let present = slot.load(Ordering::Acquire);
        if !present.is_null() {
            return present;
        }
        let length = (FIRST as usize) << chunk;
        let fresh: Box<[T]> = (0..length).map(|_| T::default()).collect();
        let fresh = Box::into_raw(fresh).cast::<T>();
        // Release: the elements are initialised before anybody can reach them.
        match slot.compare_exchange(std::ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => fresh,
            Err(theirs) => {
                // SAFETY: `fresh` came from a box of that length and was never published.
                drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(fresh, length)) });
                theirs
            }
        }
    }
}

impl<T> Drop for AppendList<T> {
    fn drop(&mut self) {
        for (chunk, slot) in self.chunks.iter().enumerate() {
            let base = slot.load(Ordering::Acquire);
            if !base.is_null() {
                let elements = std::ptr::slice_from_raw_parts_mut(base, (FIRST as usize) << chunk);
                // SAFETY: the chunk came from a box of that length, and nobody else has the list.
                drop(unsafe { Box::from_raw(elements) });
            }
        }
    }
}

#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn elements_keep_their_place_while_the_list_grows() {
        let list: AppendList<AtomicU64> = AppendList::new();
        let first = std::ptr::from_ref(list.claim(u32::MAX).unwrap().1);
        for n in 1..5_000u32 {
            let (index, element) = list.claim(u32::MAX).unwrap();
            assert_eq!(index, n);
            element.store(u64::from(n), Ordering::Relaxed);
        }
        assert_eq!(std::ptr::from_ref(list.get(0)), first);
        assert!((1..5_000).all(|n| list.get(n).load(Ordering::Relaxed) == u64::from(n)));
    }

    #[test]
    fn a_list_at_its_limit_claims_no_more() {
        let list: AppendList<AtomicU64> = AppendList::new();
        assert!(list.claim(1).is_some());
        assert!(list.claim(1).is_none());
        assert_eq!(list.claim(2).unwrap().0, 1, "a claim in vain takes nothing");
    }
}
