//! The multi-word commit: several cells change together or not at all, without locks.
//!
//! An operation is a descriptor: entries (cell, old word, new word) and one control word (sequence, state,
//! participants). It *installs* a marker that names it in every cell, in address order, each by an exchange from
//! the old word; then it *decides* by one exchange of the state; then it *releases*, replacing each marker by the
//! new word (succeeded) or the old one (failed). Whoever meets a marker can do all of that for it, so nobody waits
//! for a thread that stopped. (Harris, Fraser and Pratt, "A practical multi-word compare-and-swap operation",
//! 2002, with reused, counted descriptors.)
//!
//! # Descriptors are reused
//! The control word's count holds one for the lease and one for each helper. The owner begins an operation only
//! while the count is 1, by an exchange that bumps the sequence; a helper joins only while the sequence is the
//! marker's. So entries are never rewritten under a helper, and a marker of an operation that ended before the
//! reader could join is simply read again.
//!
//! # Late helpers
//! A helper may install a marker after its operation ended. It is harmless, because words never repeat: after a
//! success no word is `old` again, after a failure the marker resolves to `old`; and the helper's own release
//! pass removes it before the count is lowered.
//!
//! # Tables that go away
//! A commit may span tables, and a helper reached through one of them must not touch a cell of another that was
//! dropped. Helpers pin the epoch before they read the marker (again). An undecided operation's owner is inside
//! its call, so its tables are alive, and if dropped later are retired after the pin. Of a decided operation a
//! helper touches nothing but the cell at which it met the marker, whose table it holds a reference to.
//!
//! # Order of nested help
//! Inside an install another operation's marker may be met. Before helping it a participant checks that its own
//! operation is still undecided. With that, and cells installed in address order, nested help ascends strictly.
//! Without the order two threads can help each other for ever; without the check help only nests deeper.

use crate::append::AppendList;
use crate::sync::{
    AtomicBits, AtomicU32, AtomicU64, Bits, MODEL, Ordering, UnsafeCell, seeded_bug, spin_loop, stall_point,
};
use crate::word::{DESCRIPTOR, SEQUENCE, Word};
use crossbeam_epoch as epoch;
use crossbeam_utils::CachePadded;

/// Looks at a marker this often before helping its operation: the owner is usually about to finish.
const LOOKS: u32 = if MODEL { 0 } else { 4 };

/// Control word, high to low: sequence, state 2, participants 16.
const PARTICIPANTS: u32 = 16;
const STATE: u32 = 2;
const _: () = assert!(SEQUENCE + STATE + PARTICIPANTS <= 64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Control(u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Undecided = 0,
    Succeeded = 1,
    Failed = 2,
}

impl Control {
    fn new(sequence: u64, state: State, participants: u64) -> Self {
        Self(sequence << (STATE + PARTICIPANTS) | (state as u64) << PARTICIPANTS | participants)
    }
    fn sequence(self) -> u64 {
        self.0 >> (STATE + PARTICIPANTS)
    }
    fn state(self) -> State {
        match self.0 >> PARTICIPANTS & ((1 << STATE) - 1) {
            0 => State::Undecided,
            1 => State::Succeeded,
            _ => State::Failed,
        }
    }
    fn participants(self) -> u64 {
        self.0 & ((1 << PARTICIPANTS) - 1)
    }
    /// Nobody but the lease: the owner may begin an operation.
    fn is_idle(self) -> bool {
        self.state() != State::Undecided && self.participants() == 1
    }
}

/// One cell's part in an operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    cell: *const AtomicBits,
    old: Word,
    new: Word,
    /// What the marker keeps of the old word.
    reserved: Bits,
}

// SAFETY: the pointer is only followed under the rules in the module's documentation.
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl Entry {
    pub(crate) fn new(cell: &AtomicBits, old: Word, new: Word, reserved: Bits) -> Self {
        Self { cell, old, new, reserved }
    }

    /// # Safety
    /// The cell must be alive: see "Tables that go away".
    unsafe fn cell(&self) -> &AtomicBits {
        // SAFETY: by this function's contract.
        unsafe { &*self.cell }
    }
}

#[derive(Debug)]
struct Descriptor {
    control: CachePadded<AtomicU64>,
    entries: UnsafeCell<Vec<Entry>>,
    /// The next descriptor of the pool's list, plus 1.
    next: AtomicU32,
}

// SAFETY: `entries` is written by the lease's owner while the count is 1 and the state decided, and read only by
// participants that are counted.
unsafe impl Sync for Descriptor {}

impl Default for Descriptor {
    fn default() -> Self {
        Self {
            // Leased (one participant), never used.
            control: CachePadded::new(AtomicU64::new(Control::new(0, State::Failed, 1).0)),
            entries: UnsafeCell::new(Vec::new()),
            next: AtomicU32::new(0),
        }
    }
}

/// All descriptors. One pool serves every table, and is never freed.
#[derive(Debug)]
struct Pool {
    all: AppendList<Descriptor>,
    /// Leases that no thread holds: the first plus 1, under a tag.
    returned: AtomicU64,
}

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
static POOL: Pool = Pool { all: AppendList::new(), returned: AtomicU64::new(0) };
#[cfg(tollgate_loom)]
loom::lazy_static! {
    static ref POOL: Pool = Pool { all: AppendList::new(), returned: AtomicU64::new(0) };
}
#[cfg(tollgate_shuttle)]
shuttle::lazy_static! {
    static ref POOL: Pool = Pool { all: AppendList::new(), returned: AtomicU64::new(0) };
}
fn pool() -> &'static Pool {
    &POOL
}

impl Pool {
    /// Leases a descriptor that no other thread holds.
    fn lease(&self) -> u32 {
        let mut seen = self.returned.load(Ordering::Acquire);
        loop {
            let first = seen as u32;
            if first == 0 {
                break;
            }
            let next = self.all.get(first - 1).next.load(Ordering::Relaxed);
            let popped = (seen >> 32).wrapping_add(1) << 32 | u64::from(next);
            match self.returned.compare_exchange_weak(seen, popped, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return first - 1,
                Err(found) => seen = found,
            }
        }
        // Each thread holds a few; 2^18 descriptors serve more threads than a process can have.
        self.all.claim(1 << DESCRIPTOR).expect("fewer than 2^18 commits at once").0
    }

    fn give_back(&self, lease: u32) {
        let mut seen = self.returned.load(Ordering::Relaxed);
        loop {
            self.all.get(lease).next.store(seen as u32, Ordering::Relaxed);
            let pushed = (seen >> 32).wrapping_add(1) << 32 | u64::from(lease + 1);
            match self.returned.compare_exchange_weak(seen, pushed, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(found) => seen = found,
            }
        }
    }
}

/// A thread's leases, given back when it ends.
#[cfg(not(tollgate_loom))]
mod leases {
    use std::cell::Cell;

    /// Few helpers linger at once, so few descriptors are busy at once.
    pub(super) const HELD: usize = 4;

    pub(super) struct Held(pub(super) [Cell<Option<u32>>; HELD]);

    impl Drop for Held {
        fn drop(&mut self) {
            for lease in &self.0 {
                if let Some(lease) = lease.take() {
                    super::pool().give_back(lease);
                }
            }
        }
    }

    #[cfg(tollgate_shuttle)]
    use shuttle::thread_local;

    thread_local! {
        pub(super) static HELD_HERE: Held = const { Held([const { Cell::new(None) }; HELD]) };
    }
}

/// Begins an operation on a descriptor of this thread's. Returns it with the sequence, and whether the lease
/// must be given back afterwards.
fn begin() -> (u32, u64, bool) {
    #[cfg(not(tollgate_loom))]
    if let Ok(Some((descriptor, sequence))) = leases::HELD_HERE.try_with(|held| {
        for slot in &held.0 {
            let lease = match slot.get() {
                Some(lease) => lease,
                None => {
                    let lease = pool().lease();
                    slot.set(Some(lease));
                    lease
                }
            };
            if let Some(sequence) = claim(pool().all.get(lease)) {
                return Some((lease, sequence));
            }
        }
        None
    }) {
        return (descriptor, sequence, false);
    }
    // Late helpers linger on all of them, or the thread is being torn down: one for this operation alone.
    let mut busy = Vec::new();
    let begun = loop {
        let lease = pool().lease();
        match claim(pool().all.get(lease)) {
            Some(sequence) => break (lease, sequence, true),
            None => busy.push(lease),
        }
    };
    busy.into_iter().for_each(|lease| pool().give_back(lease));
    begun
}

/// Begins the next operation, if no helper of the last one lingers.
fn claim(descriptor: &Descriptor) -> Option<u64> {
    let seen = Control(descriptor.control.load(Ordering::Relaxed));
    if !seen.is_idle() {
        return None;
    }
    let sequence = (seen.sequence() + 1) & ((1 << SEQUENCE) - 1);
    let begun = Control::new(sequence, State::Undecided, 1);
    // Acquire: pairs with the release by which each helper lowered the count, so that its reads of the entries
    // are over. Release: whoever sees an entry's marker sees this sequence too.
    let order = if seeded_bug!("claim-relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
    descriptor.control.compare_exchange(seen.0, begun.0, order, Ordering::Relaxed).is_ok().then_some(sequence)
}

/// Changes all cells from their old to their new words, or none. The entries name each cell once, in the order of
/// their addresses: that makes nested help ascend.
///
/// False when some word was not the old one any more: read them all again.
///
/// # Safety
/// The cells must stay alive until this returns.
pub(crate) unsafe fn commit(entries: impl Iterator<Item = Entry>) -> bool {
    let (number, sequence, give_back) = begin();
    let descriptor = pool().all.get(number);
    descriptor.entries.with_mut(|stored| {
        // SAFETY: the count was 1 when the operation began, and no helper can join before a marker of this
        // sequence is installed.
        let stored = unsafe { &mut *stored };
        stored.clear();
        // Built in place: copies of what was stored a moment ago wait for those stores.
        stored.extend(entries);
        let ascend = |pair: &[Entry]| pair[0].cell < pair[1].cell;
        debug_assert!(
            seeded_bug!("unsorted") || stored.windows(2).all(ascend),
            "a cell twice, or out of order"
        );
    });
    stall_point!(Claimed);
    // SAFETY: the caller keeps the cells alive, and the entries are ours.
    let state = unsafe { run(descriptor, number, sequence) };
    if give_back {
        pool().give_back(number);
    }
    state == State::Succeeded
}

/// Ends the operation whose `marker` was met in `cell`, unless it ends by itself meanwhile.
#[cold]
#[inline(never)]
pub(crate) fn help(cell: &AtomicBits, marker: Word) {
    for _ in 0..LOOKS {
        spin_loop();
        if cell.load(Ordering::Relaxed) != marker.0 {
            return;
        }
    }
    if seeded_bug!("no-help") {
        return;
    }
    let _pin = epoch::pin();
    // Under the pin: only a marker that is still there leads to cells that are still there.
    if cell.load(Ordering::Acquire) != marker.0 {
        return;
    }
    let number = marker.marker_descriptor();
    let descriptor = pool().all.get(number);
    let mut seen = Control(descriptor.control.load(Ordering::Acquire));
    loop {
        if !seeded_bug!("sequence-ignored") && seen.sequence() != marker.marker_sequence() {
            return; // it ended, and the marker with it
        }
        if seen.participants() == (1 << PARTICIPANTS) - 1 {
            spin_loop(); // 65,534 helpers at once: one of them is about to finish
            return;
        }
        if seeded_bug!("helpers-uncounted") {
            break;
        }
        let joined = Control(seen.0 + 1);
        // Relaxed on success would do: the entries came with the marker. Acquire keeps the argument local.
        match descriptor.control.compare_exchange(seen.0, joined.0, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => break,
            Err(found) => seen = Control(found),
        }
    }
    stall_point!(Joined);
    if seen.state() == State::Undecided {
        if seeded_bug!("count-lowered-early") {
            descriptor.control.fetch_sub(1, Ordering::Release);
        }
        // SAFETY: undecided under the pin, so its owner is inside its call and its tables are alive or retired
        // after the pin; we are counted, so the entries are stable.
        unsafe { run(descriptor, number, seen.sequence()) };
    } else {
        descriptor.entries.with(|entries| {
            // SAFETY: we are counted, so the entries are stable.
            let entries = unsafe { &*entries };
            if let Some(entry) = entries.iter().find(|entry| std::ptr::eq(entry.cell, cell)) {
                release(cell, entry, number, seen.sequence(), seen.state());
            }
        });
    }
    stall_point!(Leaving);
    // Release: our reads of the entries, and the release of a marker that we installed late, come before the
    // descriptor's reuse. Last of all.
    if seeded_bug!("helpers-uncounted") {
        return;
    }
    if !seeded_bug!("count-lowered-early") {
        let order = if seeded_bug!("lower-relaxed") { Ordering::Relaxed } else { Ordering::Release };
        descriptor.control.fetch_sub(1, order);
    }
}

/// Install, decide, release: what every participant of an undecided operation does.
///
/// # Safety
/// The caller is counted (or the owner), and the cells are alive.
unsafe fn run(descriptor: &Descriptor, number: u32, sequence: u64) -> State {
    descriptor.entries.with(|entries| {
        // SAFETY: counted, by this function's contract.
        let entries: &Vec<Entry> = unsafe { &*entries };
        // SAFETY: by this function's contract.
        if let Some(outcome) = unsafe { install(descriptor, entries, number, sequence) } {
            if seeded_bug!("released-undecided") && outcome == State::Succeeded {
                for entry in entries {
                    // SAFETY: by this function's contract.
                    release(unsafe { entry.cell() }, entry, number, sequence, outcome);
                }
            }
            decide(descriptor, sequence, outcome);
            stall_point!(Decided);
        }
        let state = Control(descriptor.control.load(Ordering::Acquire)).state();
        for entry in entries {
            // SAFETY: by this function's contract.
            let cell = unsafe { entry.cell() };
            release(cell, entry, number, sequence, state);
            stall_point!(Released);
        }
        state
    })
}

/// Puts the markers in. `None` when somebody else decided meanwhile.
///
/// # Safety
/// As [`run`].
unsafe fn install(descriptor: &Descriptor, entries: &[Entry], number: u32, sequence: u64) -> Option<State> {
    for entry in entries {
        let marker = Word::marker(entry.reserved, number, sequence);
        // SAFETY: by this function's contract.
        let cell = unsafe { entry.cell() };
        loop {
            // Release: the descriptor's entries and sequence are visible to whoever reads the marker; and the
            // key that was compared belongs to the old word's life. Acquire: another operation's marker is
            // followed by its entries.
            let order = if seeded_bug!("install-relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
            match cell.compare_exchange(entry.old.0, marker.0, order, Ordering::Acquire) {
                Ok(_) => break,
                Err(found) if found == marker.0 => break,
                Err(found) if Word(found).is_reserved() => {
                    // Before helping from inside our own install: are we still needed?
                    let own = Control(descriptor.control.load(Ordering::Acquire));
                    let needed = own.state() == State::Undecided && own.sequence() == sequence;
                    if !needed {
                        return None;
                    }
                    help(cell, Word(found));
                }
                Err(_) => return Some(State::Failed),
            }
        }
        stall_point!(Installed);
    }
    Some(State::Succeeded)
}

fn decide(descriptor: &Descriptor, sequence: u64, outcome: State) {
    let mut seen = Control(descriptor.control.load(Ordering::Acquire));
    while seen.sequence() == sequence && seen.state() == State::Undecided {
        let decided = Control::new(sequence, outcome, seen.participants());
        // Release: the installs come before the decision. Acquire on failure: so do those of whoever decided.
        let order = if seeded_bug!("decide-relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        match descriptor.control.compare_exchange(seen.0, decided.0, order, Ordering::Acquire) {
            Ok(_) => return,
            Err(found) => seen = Control(found),
        }
    }
}

/// Replaces our marker in one cell, if it is there, by what the operation came to.
fn release(cell: &AtomicBits, entry: &Entry, number: u32, sequence: u64, state: State) {
    let marker = Word::marker(entry.reserved, number, sequence);
    let word = if state == State::Succeeded { entry.new } else { entry.old };
    // Release: the decision comes before its effect.
    let order = if seeded_bug!("release-relaxed") { Ordering::Relaxed } else { Ordering::Release };
    let _ = cell.compare_exchange(marker.0, word.0, order, Ordering::Relaxed);
}
