//! Zeroed memory that costs nothing until it is touched.

/// A type for which all-zero bytes are a value.
///
/// # Safety
/// Implementors must be valid when every byte is zero.
pub(crate) unsafe trait Zeroable {
    /// The zero value, where memory cannot be had zeroed (under the model checker).
    #[cfg(tollgate_loom)]
    fn zeroed() -> Self;
}

// SAFETY: an atomic integer's zero bytes are the integer 0.
unsafe impl Zeroable for crate::sync::AtomicU64 {
    #[cfg(tollgate_loom)]
    fn zeroed() -> Self {
        Self::new(0)
    }
}

/// `length` zeroed elements. Large ones come from the system as untouched pages.
#[cfg(not(tollgate_loom))]
pub(crate) fn zeroed<T: Zeroable>(length: usize) -> Box<[T]> {
    use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
    let layout = Layout::array::<T>(length).expect("a table's size is bounded at construction");
    if layout.size() == 0 {
        return Box::new([]);
    }
    // SAFETY: the layout's size is not zero.
    let memory = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the allocation has that length and alignment, its bytes are zero, and zero bytes are a `T`.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, length)) }
}

/// `length` zero elements, made one by one.
#[cfg(tollgate_loom)]
pub(crate) fn zeroed<T: Zeroable>(length: usize) -> Box<[T]> {
    (0..length).map(|_| T::zeroed()).collect()
}
