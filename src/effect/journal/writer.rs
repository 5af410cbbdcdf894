//! The thread that writes.

use super::line::{Hash, START, chain};
use super::record::{self, Entry, Header};
use super::room::Room;
use super::{JournalError, Seal};
use crate::effect::hex;
use std::io::Write;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, OnceLock};

/// Lines are handed to the sink in pieces of about this many bytes, and whenever nothing else is waiting.
const PIECE: usize = 64 * 1024;

pub(super) struct Writer {
    sink: Box<dyn Write + Send>,
    header: Header,
    room: Arc<Room>,
    seal: Arc<OnceLock<Seal>>,
    /// Lines that the sink has not got yet.
    lines: Vec<u8>,
    /// How many records are in `lines`.
    pending: usize,
    seq: u64,
    last: Hash,
    /// The sink failed: nothing is handed to it any more.
    failed: bool,
}

impl Writer {
    pub(super) fn new(
        sink: Box<dyn Write + Send>,
        header: Header,
        room: Arc<Room>,
        seal: Arc<OnceLock<Seal>>,
    ) -> Self {
        Self {
            sink,
            header,
            room,
            seal,
            lines: Vec::with_capacity(PIECE),
            pending: 0,
            seq: 0,
            last: START,
            failed: false,
        }
    }

    /// Writes until the seal, or until nobody can record any more.
    pub(super) fn run(mut self, entries: &Receiver<Entry>) {
        record::first(&mut self.lines, &self.header);
        self.end_line(0);
        self.flush();
        loop {
            let entry = match entries.try_recv() {
                Ok(entry) => entry,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    self.flush();
                    let Ok(entry) = entries.recv() else { return };
                    entry
                }
            };
            if matches!(entry, Entry::Seal) {
                return self.write_seal();
            }
            self.pending += 1;
            if self.failed {
                // Nothing more is decided; what was decided already cannot be helped.
                self.flush();
                continue;
            }
            let start = self.lines.len();
            record::entry(&mut self.lines, self.seq, &self.header, &entry);
            self.end_line(start);
            if self.lines.len() >= PIECE {
                self.flush();
            }
        }
    }

    fn end_line(&mut self, start: usize) {
        self.last = chain(&mut self.lines, start, &self.last);
        self.seq += 1;
    }

    /// Hands what there is to the sink, and gives its room back.
    fn flush(&mut self) {
        if !self.failed && !self.lines.is_empty() {
            if let Err(error) = self.sink.write_all(&self.lines).and_then(|()| self.sink.flush()) {
                self.failed = true;
                // Before the room is given back: who waits for it must not decide anything any more.
                self.room.close(JournalError::Sink(error.to_string()));
            }
        }
        self.lines.clear();
        self.room.give_back(std::mem::take(&mut self.pending));
    }

    fn write_seal(&mut self) {
        let (start, count) = (self.lines.len(), self.seq);
        record::last(&mut self.lines, count, &hex::encode(&self.last));
        self.end_line(start);
        self.flush();
        if !self.failed {
            // Set once: nobody else has it.
            let _ = self.seal.set(Seal { count, hash: hex::encode(&self.last) });
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A sink that panicked: nobody must wait for room that will never come back.
        if std::thread::panicking() {
            self.room.close(JournalError::Sink("its sink panicked".into()));
        }
    }
}
