//! What models of the real code need beyond the public interface. Exists under `--cfg tollgate_loom` and
//! `--cfg tollgate_shuttle` only.

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
