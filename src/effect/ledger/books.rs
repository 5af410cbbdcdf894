//! The ledger's books: every kept call, the stage it is in, and the file that says the same.

use super::log::{Log, Step};
use super::{Deferred, LedgerError, Ticket};
use std::collections::{BTreeSet, HashMap};

#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) rows: HashMap<Ticket, Row>,
    /// The waiting ones, in the order in which they are run.
    pub(super) waiting: BTreeSet<(u64, Ticket)>,
    /// The rows that have a coalescing id: by effect, key and id.
    by_id: HashMap<Id, Ticket>,
    pub(super) bytes: usize,
    /// The number of the next ticket.
    pub(super) next: u64,
    pub(super) log: Option<Log>,
}

type Id = (String, Vec<u8>, String);

#[derive(Debug)]
pub(super) struct Row {
    pub(super) call: Deferred,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Waiting,
    /// Taken by somebody who is about to emit it, or to put it back.
    Claimed,
    /// The same, and noted as begun.
    Begun,
    Uncertain,
}

/// Tickets end here: no program gives as many, and a file that says otherwise is damaged.
pub(super) const LAST_TICKET: u64 = 1 << 62;

impl Books {
    /// No calls yet. The first ticket is number 1.
    pub(super) fn new() -> Self {
        Self { next: 1, ..Self::default() }
    }

    /// Where a call stands, if it is known.
    pub(super) fn stage(&self, ticket: Ticket) -> Option<Stage> {
        self.rows.get(&ticket).map(|row| row.stage)
    }

    fn id_of(call: &Deferred) -> Option<Id> {
        let id = call.coalescing.clone()?;
        Some((call.effect.clone(), call.key.clone(), id))
    }

    pub(super) fn pending(&self, call: &Deferred) -> Result<Option<(Ticket, u64)>, LedgerError> {
        let Some(id) = Self::id_of(call) else { return Ok(None) };
        let Some(ticket) = self.by_id.get(&id) else { return Ok(None) };
        let known = &self.rows[ticket].call;
        if known.cost == call.cost && known.payload == call.payload && known.kept_by == call.kept_by {
            return Ok(Some((known.ticket, known.due)));
        }
        Err(LedgerError::Conflict { id: id.2, ticket: known.ticket })
    }

    /// Takes in a new call, which waits.
    pub(super) fn put(&mut self, call: Deferred) {
        let ticket = call.ticket;
        self.bytes += call.bytes();
        self.next = self.next.max(ticket.0 + 1);
        if let Some(id) = Self::id_of(&call) {
            self.by_id.entry(id).or_insert(ticket);
        }
        self.waiting.insert((call.due, ticket));
        self.rows.insert(ticket, Row { call, stage: Stage::Waiting });
    }

    pub(super) fn set_stage(&mut self, ticket: Ticket, stage: Stage) {
        let Some(row) = self.rows.get_mut(&ticket) else { return };
        row.stage = stage;
        let place = (row.call.due, ticket);
        if stage == Stage::Waiting {
            self.waiting.insert(place);
        } else {
            self.waiting.remove(&place);
        }
    }

    /// The call waits, and is due at `due`.
    pub(super) fn move_to(&mut self, ticket: Ticket, due: u64) {
        let Some(row) = self.rows.get_mut(&ticket) else { return };
        self.waiting.remove(&(row.call.due, ticket));
        row.call.due = due;
        self.set_stage(ticket, Stage::Waiting);
    }

    pub(super) fn forget(&mut self, ticket: Ticket) {
        let Some(Row { call, .. }) = self.rows.remove(&ticket) else { return };
        self.waiting.remove(&(call.due, ticket));
        self.bytes -= call.bytes();
        if let Some(id) = Self::id_of(&call) {
            if self.by_id.get(&id) == Some(&ticket) {
                self.by_id.remove(&id);
            }
        }
    }

    /// Does what a line of the file says. The error says what is wrong with it.
    ///
    /// A call that is said to begin again, or to be moved, after it began, was put back by a process that could not write that
    /// down.
    pub(super) fn replay(&mut self, step: Step) -> Result<(), &'static str> {
        let known = |books: &Self, ticket: &Ticket| match books.rows.contains_key(ticket) {
            true => Ok(()),
            false => Err("a step of a call that is not known"),
        };
        match step {
            Step::Next { ticket } if ticket.0 > LAST_TICKET => return Err("a ticket that nobody can have"),
            Step::Next { ticket } => self.next = self.next.max(ticket.0),
            Step::Put { call } if call.ticket.0 >= LAST_TICKET => {
                return Err("a ticket that nobody can have");
            }
            Step::Put { call } if call.ticket.0 < self.next => return Err("a ticket that was given before"),
            Step::Put { call } => self.put(call),
            Step::Move { ticket, due } => {
                known(self, &ticket)?;
                self.move_to(ticket, due);
            }
            Step::Begin { ticket } => {
                known(self, &ticket)?;
                self.set_stage(ticket, Stage::Begun);
            }
            Step::Again { ticket } => {
                known(self, &ticket)?;
                self.set_stage(ticket, Stage::Waiting);
            }
            Step::Done { ticket } => {
                known(self, &ticket)?;
                self.forget(ticket);
            }
        }
        Ok(())
    }

    pub(super) fn write(&mut self, step: &Step) -> Result<(), LedgerError> {
        if self.log.as_ref().is_some_and(Log::is_broken) {
            // What it says is not known any more: it is written anew, or nothing is.
            self.compact()?;
        }
        self.log.as_mut().map_or(Ok(()), |log| log.append(step))
    }

    /// Call when the books say what the file does. A failure is no news: the file still says it all, or is known to be broken.
    pub(super) fn compact_if_due(&mut self) {
        if self.log.as_ref().is_some_and(|log| log.lines() > 1_024 + 4 * self.rows.len()) {
            let _ = self.compact();
        }
    }

    /// Writes the file anew, with what is still to be known.
    fn compact(&mut self) -> Result<(), LedgerError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let mut rows: Vec<&Row> = self.rows.values().collect();
        rows.sort_unstable_by_key(|row| row.call.ticket);
        let put = rows.iter().map(|row| Step::Put { call: row.call.clone() });
        let begun = rows.iter().filter(|row| matches!(row.stage, Stage::Begun | Stage::Uncertain));
        let begun = begun.map(|row| Step::Begin { ticket: row.call.ticket });
        // Tickets are never given twice, also when the calls that had them are forgotten.
        let next = Step::Next { ticket: Ticket(self.next) };
        log.rewrite(&put.chain(begun).chain([next]).collect::<Vec<_>>())
    }
}
