//! The deferred ledger: calls that were kept because a quota was exhausted, until they are due.
//!
//! ```text
//! insert --> waiting --claim--> claimed --begin--> (emitted) --done--> gone
//!               ^                  |                   \
//!               +---- postpone ----+                    +-- the process died here: uncertain
//! ```
//! Bounded in rows and in bytes. With a file, every step is in it before it counts: a row before its caller has a ticket, and
//! `begin` before the emission, so that nothing is emitted twice. A row of which the file says that its emission began and not
//! that it ended is *uncertain*: it is not run again by itself.

mod log;

use log::{Log, Step};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
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
    /// The caller's id under which equal calls are one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coalescing: Option<String>,
}

impl Deferred {
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

#[derive(Debug, Default)]
struct Books {
    /// By due time and ticket: the order in which they are run.
    waiting: BTreeMap<(u64, Ticket), Deferred>,
    /// Taken by somebody who is about to emit them, or to put them back.
    claimed: HashMap<Ticket, Deferred>,
    uncertain: BTreeMap<Ticket, Deferred>,
    /// The waiting calls that have a coalescing id.
    by_id: HashMap<(String, Vec<u8>, String), (u64, Ticket)>,
    bytes: usize,
    next: u64,
    log: Option<Log>,
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
        let mut books = Books { next: 1, ..Books::default() };
        let mut reopened = Reopened::default();
        if let Some(path) = self.path {
            let (log, steps, cut) = Log::open(path)?;
            for (line, step) in steps {
                books.replay(step).map_err(|what| log.damaged(line, what))?;
            }
            // Nobody is at work on them any more.
            let claimed = std::mem::take(&mut books.claimed);
            books.uncertain.extend(claimed);
            reopened = Reopened { waiting: books.waiting.len(), uncertain: books.uncertain.len(), cut };
            books.log = Some(log);
            books.compact()?;
        }
        let (capacity, capacity_bytes) = (self.capacity, self.capacity_bytes);
        Ok(Ledger {
            capacity,
            capacity_bytes,
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

    /// The waiting call with that id, if there is one; an error if it is another call.
    pub(super) fn pending(&self, call: &Deferred) -> Result<Option<(Ticket, u64)>, LedgerError> {
        self.books().pending(call)
    }

    /// Keeps a call (its ticket is given here). A call with the id of an equal one is that one.
    pub(super) fn insert(&self, mut call: Deferred) -> Result<(Ticket, u64), LedgerError> {
        let mut books = self.books();
        if let Some(known) = books.pending(&call)? {
            return Ok(known);
        }
        let rows = books.waiting.len() + books.claimed.len() + books.uncertain.len();
        if rows >= self.capacity || books.bytes.saturating_add(call.bytes()) > self.capacity_bytes {
            return Err(LedgerError::Full { rows, bytes: books.bytes });
        }
        call.ticket = Ticket(books.next);
        books.write(&Step::Put { call: call.clone() })?;
        let answer = (call.ticket, call.due);
        books.put(call);
        drop(books);
        self.wake_watchers();
        Ok(answer)
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

    /// Takes the first call of `effect` that is due at `now` and comes after `after`.
    pub(super) fn claim(&self, effect: &str, now: u64, after: Option<(u64, Ticket)>) -> Option<Deferred> {
        let mut books = self.books();
        let from = after.map_or((0, Ticket(0)), |(due, ticket)| (due, Ticket(ticket.0 + 1)));
        let due = books.waiting.range(from..=(now, Ticket(u64::MAX))).find(|(_, call)| call.effect == effect);
        let place = due.map(|(&place, _)| place)?;
        books.take(place)
    }

    /// Puts a claimed call back, due at another time.
    pub(super) fn postpone(&self, ticket: Ticket, due: u64) -> Result<(), LedgerError> {
        let mut books = self.books();
        let Some(mut call) = books.claimed.remove(&ticket) else { return Ok(()) };
        let later = Step::Move { ticket, due };
        // Unwritten, it is due earlier after a restart than it needs to be, and finds its quota exhausted then.
        let written = if call.due == due { Ok(()) } else { books.write(&later) };
        call.due = due;
        books.wait(call);
        written
    }

    /// A claimed call is about to be emitted. If that cannot be written down it must not be.
    pub(super) fn begin(&self, ticket: Ticket) -> Result<(), LedgerError> {
        self.books().write(&Step::Begin { ticket })
    }

    /// A claimed call that had begun was not emitted after all: it waits again.
    pub(super) fn unbegin(&self, ticket: Ticket) -> Result<(), LedgerError> {
        let mut books = self.books();
        let Some(call) = books.claimed.remove(&ticket) else { return Ok(()) };
        // Unwritten, it is uncertain after a restart.
        let written = books.write(&Step::Again { ticket });
        books.wait(call);
        written
    }

    /// A claimed or uncertain call is over.
    pub(super) fn done(&self, ticket: Ticket) -> Result<bool, LedgerError> {
        let mut books = self.books();
        let known = books.claimed.contains_key(&ticket) || books.uncertain.contains_key(&ticket);
        if !known {
            return Ok(false);
        }
        let written = books.write(&Step::Done { ticket });
        books.forget(ticket);
        written.and_then(|()| books.compact_if_due()).map(|()| true)
    }

    /// An uncertain call waits again.
    pub(super) fn requeue(&self, ticket: Ticket) -> Result<bool, LedgerError> {
        let mut books = self.books();
        let Some(call) = books.uncertain.get(&ticket).cloned() else { return Ok(false) };
        books.write(&Step::Again { ticket })?;
        books.uncertain.remove(&ticket);
        books.wait(call);
        drop(books);
        self.wake_watchers();
        Ok(true)
    }

    pub(super) fn waiting(&self) -> Vec<Deferred> {
        self.books().waiting.values().cloned().collect()
    }

    pub(super) fn uncertain(&self) -> Vec<Deferred> {
        self.books().uncertain.values().cloned().collect()
    }

    /// When the first waiting call of `effect` is due.
    pub(super) fn next_due(&self, effect: &str) -> Option<u64> {
        self.books().waiting.values().find(|call| call.effect == effect).map(|call| call.due)
    }
}

impl Books {
    fn id_of(call: &Deferred) -> Option<(String, Vec<u8>, String)> {
        let id = call.coalescing.clone()?;
        Some((call.effect.clone(), call.key.clone(), id))
    }

    fn pending(&self, call: &Deferred) -> Result<Option<(Ticket, u64)>, LedgerError> {
        let Some(id) = Self::id_of(call) else { return Ok(None) };
        let Some(place) = self.by_id.get(&id) else { return Ok(None) };
        let known = &self.waiting[place];
        if known.cost == call.cost && known.payload == call.payload {
            return Ok(Some((known.ticket, known.due)));
        }
        Err(LedgerError::Conflict { id: id.2, ticket: known.ticket })
    }

    /// Takes in a new call.
    fn put(&mut self, call: Deferred) {
        self.bytes += call.bytes();
        self.next = self.next.max(call.ticket.0 + 1);
        self.wait(call);
    }

    fn wait(&mut self, call: Deferred) {
        let place = (call.due, call.ticket);
        // While it was claimed an equal call may have come: then both are run, each with a permit of its own.
        if let Some(id) = Self::id_of(&call) {
            self.by_id.entry(id).or_insert(place);
        }
        self.waiting.insert(place, call);
    }

    /// Claims the waiting call at `place`.
    fn take(&mut self, place: (u64, Ticket)) -> Option<Deferred> {
        let call = self.waiting.remove(&place)?;
        if let Some(id) = Self::id_of(&call) {
            if self.by_id.get(&id) == Some(&place) {
                self.by_id.remove(&id);
            }
        }
        self.claimed.insert(call.ticket, call.clone());
        Some(call)
    }

    fn forget(&mut self, ticket: Ticket) {
        let call = self.claimed.remove(&ticket).or_else(|| self.uncertain.remove(&ticket));
        self.bytes -= call.map_or(0, |call| call.bytes());
    }

    fn place_of(&self, ticket: Ticket) -> Option<(u64, Ticket)> {
        self.waiting.keys().find(|(_, known)| *known == ticket).copied()
    }

    /// Does what a line of the file says. The error says what is wrong with it.
    fn replay(&mut self, step: Step) -> Result<(), &'static str> {
        match step {
            Step::Next { ticket } => self.next = self.next.max(ticket.0),
            Step::Put { call } if call.ticket.0 < self.next => return Err("a ticket that was given before"),
            Step::Put { call } => self.put(call),
            Step::Move { ticket, due } => {
                let place = self.place_of(ticket).ok_or("a move of a call that does not wait")?;
                let mut call = self.take(place).ok_or("a move of a call that does not wait")?;
                self.claimed.remove(&call.ticket);
                call.due = due;
                self.wait(call);
            }
            Step::Begin { ticket } => {
                let place = self.place_of(ticket).ok_or("a beginning of a call that does not wait")?;
                self.take(place);
            }
            Step::Done { ticket } => {
                // It may be done without having begun: its payload could not be read.
                if let Some(place) = self.place_of(ticket) {
                    self.take(place);
                }
                if !self.claimed.contains_key(&ticket) {
                    return Err("an end of a call that is not known");
                }
                self.forget(ticket);
            }
            Step::Again { ticket } => {
                let call = self.claimed.remove(&ticket).ok_or("a return of a call that did not begin")?;
                self.wait(call);
            }
        }
        Ok(())
    }

    fn write(&mut self, step: &Step) -> Result<(), LedgerError> {
        self.log.as_mut().map_or(Ok(()), |log| log.append(step))
    }

    fn compact_if_due(&mut self) -> Result<(), LedgerError> {
        let live = self.waiting.len() + self.claimed.len() + self.uncertain.len();
        match &self.log {
            Some(log) if log.lines() > 1_024 + 4 * live => self.compact(),
            _ => Ok(()),
        }
    }

    /// Writes the file anew, with what is still to be known.
    fn compact(&mut self) -> Result<(), LedgerError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        // Tickets are never given twice, also when the calls that had them are forgotten.
        let mut calls: Vec<&Deferred> =
            self.waiting.values().chain(self.claimed.values()).chain(self.uncertain.values()).collect();
        calls.sort_unstable_by_key(|call| call.ticket);
        let mut steps: Vec<Step> = calls.into_iter().cloned().map(|call| Step::Put { call }).collect();
        let begun = self.claimed.keys().chain(self.uncertain.keys());
        steps.extend(begun.map(|&ticket| Step::Begin { ticket }));
        steps.push(Step::Next { ticket: Ticket(self.next) });
        log.rewrite(&steps)
    }
}
