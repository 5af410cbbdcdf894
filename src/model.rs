//! What models of the real code need beyond the public interface. Exists under `--cfg tollgate_loom` only.

use crate::key::Key;
use crate::limiter::{LimitSet, Limiter};
use crate::table::Table;

/// A thing with a table.
pub trait Modelled {
    #[doc(hidden)]
    fn table(&self) -> &dyn Hooks;

    /// Checks every invariant that holds when nobody writes; panics with what is wrong.
    fn audit(&self) {
        self.table().audit();
    }

    /// Rebuilds the directories.
    fn rebuild(&self) {
        self.table().rebuild_all();
    }
}

#[doc(hidden)]
pub trait Hooks {
    fn audit(&self);
    fn rebuild_all(&self);
}

impl Hooks for Table {
    fn audit(&self) {
        Table::audit(self);
    }
    fn rebuild_all(&self) {
        Table::rebuild_all(self);
    }
}

impl<K: Key + ?Sized> Modelled for Limiter<K> {
    fn table(&self) -> &dyn Hooks {
        self.table_for_models()
    }
}

impl Modelled for LimitSet {
    fn table(&self) -> &dyn Hooks {
        self.table_for_models()
    }
}

/// Where loads are read-modify-writes, stores are too. Loom orders two writes of an atomic only if one of them
/// happens before the other or is a read-modify-write that read it. So a load's write of what it read could
/// outlive a plain store beside it, which no machine does.
#[cfg(tollgate_rmw_loads)]
mod swapping_stores {
    use crate::sync::{AtomicU32, AtomicU64, Ordering};

    impl AtomicU32 {
        pub(crate) fn store(&self, value: u32, order: Ordering) {
            self.swap(value, order);
        }
    }

    impl AtomicU64 {
        pub(crate) fn store(&self, value: u64, order: Ordering) {
            self.swap(value, order);
        }
    }
}
