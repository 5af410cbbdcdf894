//! Points inside the engine's protocols at which a test can stop a thread, for a while or for good.
//!
//! Exists under `--cfg tollgate_stall` only. In every other build a point is nothing at all: see `stall_point!`.

use std::cell::RefCell;

/// Where a thread is, in the middle of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// Commit, owner: the descriptor is claimed and its entries are written; no marker is installed.
    Claimed,
    /// Commit, helper: counted among the participants.
    Joined,
    /// Commit: one more cell has its marker.
    Installed,
    /// Commit: the outcome is decided.
    Decided,
    /// Commit: one more cell's marker is replaced, by whomever.
    Released,
    /// Commit, helper: all is done but lowering the count.
    Leaving,
    /// Insert: a free cell is in hand.
    InHand,
    /// Insert: key and live word are written; no entry leads to the cell.
    Written,
    /// Insert: the entry is published, and the cell not drawn on by its inserter.
    Published,
    /// Insert, giving back: the word was seen undrawn, and is as it was.
    GivingBack,
    /// Insert, giving back: the word is free again; the cell is on no list.
    GivenBack,
    /// Prune: the bucket was found refilled; its word is as it was.
    Refilled,
    /// Prune: the word is free; the cell is on no list.
    Reclaimed,
    /// Rebuild: one more slot is sealed or copied.
    Passed,
    /// Rebuild: all slots are; the directory word is the old one.
    Copied,
    /// Rebuild: the directory word is the new one; the old array is not given back.
    Replaced,
    /// Reconfiguration: the old version leads to the new one, and new buckets still begin with the old one.
    Linked,
}

type Hook = Box<dyn FnMut(Point)>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// From now on this thread calls `hook` at each point that it comes to. Points within the hook are passed over.
pub fn at_each_point(hook: impl FnMut(Point) + 'static) {
    HOOK.with(|place| *place.borrow_mut() = Some(Box::new(hook)));
}

/// From now on this thread stops nowhere.
pub fn nowhere() {
    HOOK.with(|place| *place.borrow_mut() = None);
}

pub(crate) fn reached(point: Point) {
    // Out of its place while it runs. A thread that is being torn down has no hook any more.
    let Ok(Some(mut hook)) = HOOK.try_with(|place| place.borrow_mut().take()) else { return };
    hook(point);
    HOOK.with(|place| {
        place.borrow_mut().get_or_insert(hook);
    });
}
