//! What the threads share, and where each of them is.

/// The most cells of a scenario.
pub const CELLS: usize = 3;

/// A cell's word: a bucket's mark in one life of the cell, or the marker of an operation in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    Mark { generation: u8, mark: u8 },
    Marker { descriptor: u8, sequence: u8 },
}

impl Word {
    pub const START: Word = Word::Mark { generation: 0, mark: 0 };

    pub fn plus(self, cost: u8) -> Word {
        match self {
            Word::Mark { generation, mark } => Word::Mark { generation, mark: mark + cost },
            Word::Marker { .. } => unreachable!("a marker is settled before anything is drawn"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    Undecided,
    Succeeded,
    Failed,
}

/// One cell's part in an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Entry {
    pub cell: u8,
    pub old: Word,
    pub new: Word,
}

/// A descriptor: the control word's three fields, and the entries.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// A thread is inside an operation of its own on it, so no other can lease it.
    pub held: bool,
    pub sequence: u8,
    pub state: Outcome,
    /// The lease, and each helper.
    pub participants: u8,
    /// Which operation the entries belong to; none while the owner writes them.
    pub written: Option<u8>,
    pub entries: Vec<Entry>,
}

impl Descriptor {
    pub fn leased() -> Self {
        Self {
            held: false,
            sequence: 0,
            state: Outcome::Failed,
            participants: 1,
            written: None,
            entries: Vec::new(),
        }
    }
}

/// Draws `cost` on `cell` in the life of it that has `generation`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Draw {
    pub cell: u8,
    pub generation: u8,
    pub cost: u8,
}

/// One call of a thread's program.
#[derive(Debug, Clone)]
pub enum Call {
    /// Draws on several cells, together.
    Plan(Vec<Draw>),
    /// A draw on one cell.
    Single(Draw),
    /// Ends a cell's life: its bucket was refilled, and another key takes the cell.
    Reclaim(u8),
}

/// What a call came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    Admitted,
    Refused,
    /// The cell's life had ended.
    Gone,
}

/// An activation of one function of the protocol: what it does next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Frame {
    /// Loads the word of the plan's next cell.
    PlanReads {
        seen: Vec<Word>,
    },
    PlanClaims {
        seen: Vec<Word>,
    },
    PlanWrites {
        seen: Vec<Word>,
        descriptor: u8,
    },
    /// Begins again, if its operation failed.
    PlanEnds {
        descriptor: u8,
    },
    SingleReads,
    SingleExchanges {
        seen: Word,
    },
    ReclaimReads,
    ReclaimExchanges {
        seen: Word,
    },
    Run {
        descriptor: u8,
        sequence: u8,
        at: Run,
    },
    Help {
        cell: u8,
        descriptor: u8,
        sequence: u8,
        at: Help,
    },
}

impl Frame {
    /// The cell at which the marker was met whose operation this activation helps.
    pub fn helped_at(&self) -> Option<u8> {
        match self {
            Frame::Help { cell, .. } => Some(*cell),
            _ => None,
        }
    }
}

/// Where a participant is in an operation: install, decide, release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    Installs {
        entry: u8,
    },
    /// Met another operation's marker: is our own still undecided?
    Rechecks {
        entry: u8,
        met: Word,
    },
    Decides(Outcome),
    ReadsState,
    Releases {
        entry: u8,
        state: Outcome,
    },
    /// The bug of that name.
    ReleasesUndecided {
        entry: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Help {
    /// Is the marker still there (under the pin)?
    Looks,
    Joins,
    /// Of an operation that was decided already: this cell alone.
    ReleasesOne {
        state: Outcome,
    },
    Leaves,
}

/// One thread: how many calls it has ended, what they came to, and the activations of the present one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Thread {
    pub verdicts: Vec<Verdict>,
    pub frames: Vec<Frame>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    pub cells: [Word; CELLS],
    /// What was drawn on each cell in its present life, counted when it takes effect: a plan when it is decided.
    /// The checks compare it with the words; no thread reads it.
    pub owed: [u8; CELLS],
    pub descriptors: Vec<Descriptor>,
    pub threads: Vec<Thread>,
}

impl State {
    /// The word that a reader would settle on. An error if a marker names an operation that is over.
    pub fn settled(&self, cell: usize) -> Result<Word, String> {
        let Word::Marker { descriptor, sequence } = self.cells[cell] else { return Ok(self.cells[cell]) };
        let entries = self.entries(descriptor, sequence)?;
        let entry = entries.iter().find(|entry| usize::from(entry.cell) == cell);
        let entry = entry.ok_or("a marker in a cell that its operation does not name")?;
        let succeeded = self.descriptors[usize::from(descriptor)].state == Outcome::Succeeded;
        Ok(if succeeded { entry.new } else { entry.old })
    }

    /// An operation's entries. An error if they are another's by now, or being written: a data race.
    pub fn entries(&self, descriptor: u8, sequence: u8) -> Result<&[Entry], String> {
        let found = &self.descriptors[usize::from(descriptor)];
        if found.sequence != sequence || found.written != Some(sequence) {
            let (at, written) = (found.sequence, found.written);
            return Err(format!(
                "entries of operation {sequence} of descriptor {descriptor} are read, which is at {at}, \
                 written {written:?}"
            ));
        }
        Ok(&found.entries)
    }
}
