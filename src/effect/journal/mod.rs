//! The journal: every decision about effects, recorded so that somebody else can check it.
//!
//! ```text
//! decide: reserve room --> draw or refuse --> record (never fails: the room is there)
//!                                                |  channel
//!                                     writer: number, serialise, chain, write
//! ```
//! Decisions stay lock-free. Room for a record is reserved *before* the decision that it is about, so no decision goes
//! unrecorded; a grant reserves room for its own end too (emission, refund or forfeit). One thread writes; it gives the
//! lines their order, so records of several threads can lie in another order than their commits. `docs/journal.md` is the
//! format.

mod line;
mod record;
mod room;
mod writer;

pub(super) use record::{Denied, DeniedKind, Entry, Header, HeaderEffect, HeaderQuota, RefusedBy, States};
pub(super) use room::Reserved;

use room::Room;
use std::fmt;
use std::io::Write;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// A journal to be: where to, how far it may lag, and what then.
///
/// ```
/// use tollgate::effect::{Journal, WhenFull};
/// let journal = Journal::to(Vec::new()).capacity(1_024).when_full(WhenFull::Refuse);
/// # let _ = journal;
/// ```
#[must_use = "a journal records nothing until it is given to an `EffectsBuilder`"]
pub struct Journal {
    sink: Box<dyn Write + Send>,
    capacity: usize,
    when_full: WhenFull,
}

/// What happens to a decision while the journal has no room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WhenFull {
    /// It waits for the sink, and its thread with it. The default. It does not wait for permits to end, whose ends have room set
    /// aside: where they leave too little, it is refused.
    #[default]
    Wait,
    /// It is refused: [`EffectError::Unrecorded`](super::EffectError::Unrecorded).
    Refuse,
}

/// Why a decision cannot be recorded, and therefore is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// There is no room for the record: the sink is slower than the decisions, or permits are held that have room set aside for
    /// their end.
    #[error(
        "the journal is full ({capacity} records are waiting or set aside): retry, or raise its capacity"
    )]
    Full {
        /// How many records have room.
        capacity: usize,
    },
    /// The sink failed; nothing can be recorded any more.
    #[error("the journal cannot be written: {0}; mend it and build the effects anew")]
    Sink(String),
    /// The journal was sealed.
    #[error("the journal is sealed: build the effects anew, with another journal")]
    Sealed,
    /// A capacity without room for a grant and its end.
    #[error("a journal has a capacity of {0}, accepted: at least 2 records")]
    Capacity(usize),
    /// The thread that writes could not be started.
    #[error("the journal's thread cannot be started: {0}")]
    Thread(String),
}

/// The end of a journal: publish it where who can write the journal cannot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// Lines before the seal.
    pub count: u64,
    /// The hash of the seal's own line, in lower-case hex.
    pub hash: String,
}

impl Journal {
    /// A journal of 65,536 records at most under way, written to `sink`; decisions wait for room.
    pub fn to(sink: impl Write + Send + 'static) -> Self {
        Self { sink: Box::new(sink), capacity: 65_536, when_full: WhenFull::default() }
    }

    /// Sets how many records may be waiting to be written, or be set aside for the ends of permits: at least 2, and more than
    /// permits will ever be held at once.
    pub fn capacity(mut self, records: usize) -> Self {
        self.capacity = records;
        self
    }

    /// Sets what happens to a decision for whose record there is no room.
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    pub(super) fn begin(self, header: Header) -> Result<Recorder, JournalError> {
        if self.capacity < 2 {
            return Err(JournalError::Capacity(self.capacity));
        }
        let room = Arc::new(Room::new(self.capacity));
        let (sender, entries) = channel();
        let seal = Arc::new(OnceLock::new());
        let writer = writer::Writer::new(self.sink, header, room.clone(), seal.clone());
        let thread = std::thread::Builder::new()
            .name("tollgate-journal".into())
            .spawn(move || writer.run(&entries))
            .map_err(|error| JournalError::Thread(error.to_string()))?;
        Ok(Recorder { room, when_full: self.when_full, sender, seal, thread: Mutex::new(Some(thread)) })
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("capacity", &self.capacity)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}

/// A journal under way.
pub(super) struct Recorder {
    room: Arc<Room>,
    when_full: WhenFull,
    sender: Sender<Entry>,
    seal: Arc<OnceLock<Seal>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A decision under way: the journal is not sealed before it ends, so what it records is in it.
pub(super) struct Deciding<'j>(&'j Recorder);

impl Recorder {
    /// Begins a decision, if anything can be recorded.
    pub(super) fn enter(&self) -> Result<Deciding<'_>, JournalError> {
        self.room.enter()?;
        Ok(Deciding(self))
    }

    /// Writes everything out and ends the journal.
    pub(super) fn seal(&self) -> Result<Seal, JournalError> {
        let already = self.room.close(JournalError::Sealed);
        self.room.drain();
        let _ = self.sender.send(Entry::Seal);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A writer that panicked left no seal, which is the error below.
            let _ = thread.join();
        }
        match (self.seal.get(), already) {
            (Some(seal), _) => Ok(seal.clone()),
            (None, Some(error)) if error != JournalError::Sealed => Err(error),
            _ => Err(self.room.failure().unwrap_or_else(|| JournalError::Sink("its thread panicked".into()))),
        }
    }
}

impl Deciding<'_> {
    /// Room for `records`, so that recording them cannot fail.
    pub(super) fn reserve(&self, records: usize) -> Result<Reserved, JournalError> {
        self.0.room.clone().reserve(records, self.0.when_full)
    }

    /// The same, however long the sink takes.
    pub(super) fn reserve_patiently(&self, records: usize) -> Result<Reserved, JournalError> {
        self.0.room.clone().reserve(records, WhenFull::Wait)
    }

    /// Records into one place of what was reserved.
    pub(super) fn record(&self, reserved: &mut Reserved, entry: Entry) {
        reserved.use_one();
        // The writer takes entries until the seal, which comes after this. A sink that panicked has closed the journal.
        let _ = self.0.sender.send(entry);
    }
}

impl Drop for Deciding<'_> {
    fn drop(&mut self) {
        self.0.room.leave();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Nobody can be told of a failure here; an unsealed journal tells it.
        let _ = self.seal();
    }
}
