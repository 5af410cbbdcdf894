//! The deferred ledger: calls that were kept because a quota was exhausted, until they are due.
//!
//! ```text
//! insert --> waiting --claim--> claimed --begin--> begun (being emitted) --done--> gone
//!               ^                  |                  |
//!               +---- put back ----+--- unbegin ------+--- the tool panicked, or the process died: uncertain
//! ```
//! Bounded in rows and in bytes. With a file, every step is in it before it counts: a row before its caller has a ticket, and
//! `begin` before the emission, so that nothing is emitted twice. A row of which the file says that its emission began and not
//! that it ended is *uncertain*: it is not run again by itself.

mod books;
mod log;

use books::{Books, LAST_TICKET, Stage};
use log::{Log, Step};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Where deferred calls are kept.
///
/// ```
/// use tollgate::effect::DeferredLedger;
/// let in_memory = DeferredLedger::in_memory().capacity(100);
/// let durable = DeferredLedger::at("deferred.log").capacity(10_000).capacity_bytes(64 << 20);
/// # let _ = (in_memory, durable);
/// ```
#[derive(Debug, Clone)]
#[must_use = "a ledger keeps nothing until it is given to an `EffectsBuilder`"]
pub struct DeferredLedger {
    path: Option<PathBuf>,
    capacity: usize,
    capacity_bytes: usize,
}

/// Names a deferred call. Shown as `ticket-17`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ticket(u64);

impl Ticket {
    /// Of a call that has none yet.
    pub(super) const NONE: Ticket = Ticket(0);

    /// The ticket's number, as journals have it.
    pub fn number(self) -> u64 {
        self.0
    }
}
impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ticket-{}", self.0)
    }
}

/// Why a call cannot be kept, or the ledger not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// As many calls are kept as may be.
    #[error(
        "the deferred ledger is full ({rows} calls, {bytes} bytes): run what is due, or raise its capacity"
    )]
    Full {
        /// Calls in it.
        rows: usize,
        /// Bytes of their payloads and keys.
        bytes: usize,
    },
    /// The coalescing id is taken by another call: two different calls are never folded into one.
    #[error(
        "coalescing id {id:?} belongs to {ticket}, a call with another payload or cost: give this one another id"
    )]
    Conflict {
        /// The id.
        id: String,
        /// The call that has it.
        ticket: Ticket,
    },
    /// The file cannot be read or written; what could not be written down was not kept.
    #[error("the deferred ledger {file}: {error}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        error: String,
    },
    /// Another process has the file.
    #[error("the deferred ledger {file} is in use by another process: two would emit the same calls")]
    InUse {
        /// The file.
        file: String,
    },
    /// The file was altered, or damaged elsewhere than at its end.
    #[error(
        "the deferred ledger {file} is damaged in line {line}: {what}; restore it, or move it away and lose the calls in it"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

/// A deferred call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deferred {
    /// Names it.
    pub ticket: Ticket,
    /// The effect.
    pub effect: String,
    /// The encoding of the key whose budget pays.
    #[serde(with = "super::hex")]
    pub key: Vec<u8>,
    /// The cost in tokens.
    pub cost: u64,
    /// When it is due, in nanoseconds from the start of 1970.
    pub due: u64,
    /// The payload's bytes.
    #[serde(with = "super::hex")]
    pub payload: Vec<u8>,
    /// Who kept it: only the same kind runs it.
    pub kept_by: Keeper,
    /// The caller's id under which equal calls are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<String>,
}

/// Who keeps a deferred call, and therefore can read its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keeper {
    /// A [`Gate`](super::Gate), whose effect's payload it has.
    Gate,
    /// A [`Kernel`](crate::kernel::Kernel): the payload is its request.
    Kernel,
}

impl Deferred {
    fn is_for(&self, effect: &str, by: Keeper) -> bool {
        self.effect == effect && self.kept_by == by
    }

    /// What it takes of the ledger's bytes.
    fn bytes(&self) -> usize {
        self.effect.len()
            + self.key.len()
            + self.payload.len()
            + self.coalescing.as_ref().map_or(0, String::len)
    }
}

/// What the file said when it was opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reopened {
    /// Calls that wait.
    pub waiting: usize,
    /// Calls whose emission began and, as far as the file knows, did not end.
    pub uncertain: usize,
    /// Bytes of a torn last line that were cut off.
    pub cut: u64,
}

/// The ledger under way.
pub(super) struct Ledger {
    capacity: usize,
    capacity_bytes: usize,
    reopened: Reopened,
    books: Mutex<Books>,
    /// Who is woken when a call comes in, by number.
    watchers: Mutex<BTreeMap<u64, Waker>>,
}

impl DeferredLedger {
    /// 1,024 calls and 16 MiB at most, forgotten when the process ends.
    pub fn in_memory() -> Self {
        Self { path: None, capacity: 1_024, capacity_bytes: 16 << 20 }
    }

    /// The same, kept in the file `path`, which is made if there is none: an append-only log in which every line has a
    /// checksum. A torn last line is cut off when it is opened; damage anywhere else is an error.
    ///
    /// On Linux a second process is refused the file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::in_memory() }
    }

    /// Sets how many calls it keeps at most.
    pub fn capacity(mut self, calls: usize) -> Self {
        self.capacity = calls;
        self
    }

    /// Sets how many bytes of payloads and keys it keeps at most.
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.capacity_bytes = bytes;
        self
    }

    pub(super) fn open(self) -> Result<Ledger, LedgerError> {
        let mut books = Books::new();
        let mut reopened = Reopened::default();
        if let Some(path) = self.path {
            let (log, steps, cut) = Log::open(path)?;
            for (line, step) in steps {
                books.replay(step).map_err(|what| log.damaged(line, what))?;
            }
            // Nobody is at work on them any more.
            for row in books.rows.values_mut().filter(|row| row.stage == Stage::Begun) {
                row.stage = Stage::Uncertain;
            }
            let uncertain = books.rows.len() - books.waiting.len();
            reopened = Reopened { waiting: books.waiting.len(), uncertain, cut };
            books.log = Some(log);
            books.compact_if_due();
        }
        Ok(Ledger {
            capacity: self.capacity,
            capacity_bytes: self.capacity_bytes,
            reopened,
            books: Mutex::new(books),
            watchers: Mutex::default(),
        })
    }
}

impl Ledger {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reopened(&self) -> &Reopened {
        &self.reopened
    }

    /// The kept call with that id, if there is one; an error if it is another call.
    pub(super) fn pending(&self, call: &Deferred) -> Result<Option<(Ticket, u64)>, LedgerError> {
        self.books().pending(call)
    }

    /// Keeps a call (its ticket is given here). A call with the id of an equal one is that one.
    pub(super) fn insert(&self, mut call: Deferred) -> Result<(Ticket, u64), LedgerError> {
        let mut books = self.books();
        if let Some(known) = books.pending(&call)? {
            return Ok(known);
        }
        let (rows, bytes) = (books.rows.len(), books.bytes);
        let fits = rows < self.capacity && bytes.saturating_add(call.bytes()) <= self.capacity_bytes;
        if !fits || books.next >= LAST_TICKET {
            return Err(LedgerError::Full { rows, bytes });
        }
        call.ticket = Ticket(books.next);
        books.write(&Step::Put { call: call.clone() })?;
        let answer = (call.ticket, call.due);
        books.put(call);
        books.compact_if_due();
        drop(books);
        self.wake_watchers();
        Ok(answer)
    }

    /// The calls of one effect, kept by one kind of caller, that are due at `now`: first those that are due first.
    pub(super) fn due(&self, effect: &str, by: Keeper, now: u64) -> Vec<Ticket> {
        let books = self.books();
        let due = books.waiting.range(..=(now, Ticket(u64::MAX)));
        due.map(|&(_, ticket)| ticket).filter(|ticket| books.rows[ticket].call.is_for(effect, by)).collect()
    }

    /// Takes a waiting call; `None` if somebody else has it.
    pub(super) fn claim(&self, ticket: Ticket) -> Option<Deferred> {
        let mut books = self.books();
        if books.stage(ticket) != Some(Stage::Waiting) {
            return None;
        }
        books.set_stage(ticket, Stage::Claimed);
        Some(books.rows[&ticket].call.clone())
    }

    /// Puts a claimed call back, due at another time.
    pub(super) fn postpone(&self, ticket: Ticket, due: u64) -> Result<(), LedgerError> {
        let written = {
            let mut books = self.books();
            // Unwritten, it is due earlier after a restart than it needs to be, and finds its quota exhausted then.
            let written = books.write(&Step::Move { ticket, due });
            books.move_to(ticket, due);
            books.compact_if_due();
            written
        };
        self.wake_watchers();
        written
    }

    /// Puts a claimed call back that could not be run, to be looked at again at `due`. Not written down: it is no new fact.
    pub(super) fn put_back(&self, ticket: Ticket, due: u64) {
        self.books().move_to(ticket, due);
        self.wake_watchers();
    }

    /// A claimed call is about to be emitted. If that cannot be written down it must not be.
    pub(super) fn begin(&self, ticket: Ticket) -> Result<(), LedgerError> {
        let mut books = self.books();
        books.write(&Step::Begin { ticket })?;
        books.set_stage(ticket, Stage::Begun);
        Ok(())
    }

    /// A call that had begun was not emitted after all: it waits again, until `due`.
    pub(super) fn unbegin(&self, ticket: Ticket, due: u64) -> Result<(), LedgerError> {
        let written = {
            let mut books = self.books();
            // Unwritten, it is uncertain after a restart.
            let written = books.write(&Step::Again { ticket });
            books.move_to(ticket, due);
            written
        };
        self.wake_watchers();
        written
    }

    /// Whoever claimed the call was stopped by a panic: it waits again, unless its emission had begun.
    pub(super) fn abandon(&self, ticket: Ticket, due: u64) {
        let mut books = self.books();
        match books.stage(ticket) {
            Some(Stage::Begun) => books.set_stage(ticket, Stage::Uncertain),
            Some(Stage::Claimed) => books.move_to(ticket, due),
            _ => {}
        }
        drop(books);
        self.wake_watchers();
    }

    /// A call that was claimed is over.
    pub(super) fn done(&self, ticket: Ticket) -> Result<(), LedgerError> {
        let mut books = self.books();
        let written = books.write(&Step::Done { ticket });
        books.forget(ticket);
        books.compact_if_due();
        written
    }

    /// Forgets a call that waits or is uncertain. False if there is none with that ticket, or somebody is at work on it.
    pub(super) fn drop_call(&self, ticket: Ticket) -> Result<bool, LedgerError> {
        let mut books = self.books();
        if !matches!(books.stage(ticket), Some(Stage::Waiting | Stage::Uncertain)) {
            return Ok(false);
        }
        books.write(&Step::Done { ticket })?;
        books.forget(ticket);
        books.compact_if_due();
        Ok(true)
    }

    /// An uncertain call waits again. False if there is none with that ticket.
    pub(super) fn requeue(&self, ticket: Ticket) -> Result<bool, LedgerError> {
        {
            let mut books = self.books();
            let Some(due) = books.rows.get(&ticket).filter(|row| row.stage == Stage::Uncertain) else {
                return Ok(false);
            };
            let due = due.call.due;
            books.write(&Step::Again { ticket })?;
            books.move_to(ticket, due);
            books.compact_if_due();
        }
        self.wake_watchers();
        Ok(true)
    }

    /// Wakes `waker` whenever a call comes in, until [`unwatch`](Self::unwatch) is called with the number.
    pub(super) fn watch(&self, waker: Waker) -> u64 {
        let mut watchers = self.watchers();
        let number = watchers.last_key_value().map_or(0, |(last, _)| last + 1);
        watchers.insert(number, waker);
        number
    }

    pub(super) fn unwatch(&self, number: u64) {
        self.watchers().remove(&number);
    }

    fn watchers(&self) -> MutexGuard<'_, BTreeMap<u64, Waker>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake_watchers(&self) {
        self.watchers().values().for_each(Waker::wake_by_ref);
    }

    pub(super) fn waiting(&self) -> Vec<Deferred> {
        let books = self.books();
        books.waiting.iter().map(|(_, ticket)| books.rows[ticket].call.clone()).collect()
    }

    pub(super) fn uncertain(&self) -> Vec<Deferred> {
        let books = self.books();
        let uncertain = books.rows.values().filter(|row| row.stage == Stage::Uncertain);
        let mut uncertain: Vec<Deferred> = uncertain.map(|row| row.call.clone()).collect();
        uncertain.sort_unstable_by_key(|call| call.ticket);
        uncertain
    }

    /// When the first waiting call of `effect` is due that one kind of caller kept.
    pub(super) fn next_due(&self, effect: &str, by: Keeper) -> Option<u64> {
        let books = self.books();
        let mut waiting = books.waiting.iter();
        waiting.find(|(_, ticket)| books.rows[ticket].call.is_for(effect, by)).map(|&(due, _)| due)
    }
}
