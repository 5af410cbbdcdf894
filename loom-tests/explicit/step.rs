//! The protocol: what each thread does next. One step is one access to what the threads share.
//!
//! A load that is followed by an exchange from what was loaded is one step with it: an exchange that fails
//! begins again from what it found, so nothing else could come of two.

use crate::bug::Bug;
use crate::machine::{Call, Descriptor, Draw, Entry, Frame, Help, Outcome, Run, State, Verdict, Word};
use crate::scenarios::Scenario;

/// Helping nests once for each cell at most, if the order of help ascends.
const DEEPEST: usize = 40;

/// One thread's view of a state that it changes.
pub struct Step<'s> {
    pub scenario: &'s Scenario,
    pub bug: Option<Bug>,
    pub state: &'s mut State,
    pub thread: usize,
}

impl Step<'_> {
    /// Does the thread's next step. False when it has ended all its calls.
    ///
    /// # Errors
    /// What no thread may do.
    pub fn take(&mut self) -> Result<bool, String> {
        let Some(frame) = self.frames().pop() else { return Ok(false) };
        if self.frames().len() > DEEPEST {
            return Err("help nests without end".into());
        }
        match frame {
            Frame::PlanReads { seen } => self.plan_reads(seen),
            Frame::PlanClaims { seen } => self.plan_claims(seen)?,
            Frame::PlanWrites { seen, descriptor } => self.plan_writes(seen, descriptor),
            Frame::PlanEnds { descriptor } => self.plan_ends(descriptor),
            Frame::SingleReads => self.single_reads(),
            Frame::SingleExchanges { seen } => self.single_exchanges(seen),
            Frame::ReclaimReads => self.reclaim_reads(),
            Frame::ReclaimExchanges { seen } => self.reclaim_exchanges(seen),
            Frame::Run { descriptor, sequence, at } => self.run(descriptor, sequence, at)?,
            Frame::Help { cell, descriptor, sequence, at } => self.help(cell, descriptor, sequence, at)?,
        }
        Ok(true)
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
    fn frames(&mut self) -> &mut Vec<Frame> {
        &mut self.state.threads[self.thread].frames
    }
    fn push(&mut self, frame: Frame) {
        self.frames().push(frame);
    }
    fn cell(&mut self, cell: u8) -> &mut Word {
        &mut self.state.cells[usize::from(cell)]
    }
    fn descriptor(&mut self, descriptor: u8) -> &mut Descriptor {
        &mut self.state.descriptors[usize::from(descriptor)]
    }
    fn call(&self) -> &Call {
        &self.scenario.threads[self.thread][self.state.threads[self.thread].verdicts.len()]
    }
    fn planned(&self) -> Vec<Draw> {
        let Call::Plan(draws) = self.call() else { unreachable!("the call is a plan") };
        draws.clone()
    }

    /// Ends the present call and begins the next.
    fn end(&mut self, verdict: Verdict) {
        self.state.threads[self.thread].verdicts.push(verdict);
        self.begin();
    }

    pub fn begin(&mut self) {
        let done = self.state.threads[self.thread].verdicts.len();
        if let Some(call) = self.scenario.threads[self.thread].get(done) {
            self.push(match call {
                Call::Plan(_) => Frame::PlanReads { seen: Vec::new() },
                Call::Single(_) => Frame::SingleReads,
                Call::Reclaim(_) => Frame::ReclaimReads,
            });
        }
    }

    fn meet(&mut self, cell: u8, marker: Word) {
        let Word::Marker { descriptor, sequence } = marker else { unreachable!("a marker was met") };
        if !self.has(Bug::NoHelp) {
            self.push(Frame::Help { cell, descriptor, sequence, at: Help::Looks });
        }
    }

    /// Why a draw cannot be made on a settled word.
    fn refusal(&self, draw: Draw, word: Word) -> Option<Verdict> {
        let Word::Mark { generation, mark } = word else { unreachable!("the word is settled") };
        if generation != draw.generation {
            return Some(Verdict::Gone);
        }
        let capacity = self.scenario.capacities[usize::from(draw.cell)];
        (mark + draw.cost > capacity).then_some(Verdict::Refused)
    }

    fn plan_reads(&mut self, mut seen: Vec<Word>) {
        let draws = self.planned();
        let draw = draws[seen.len()];
        let word = *self.cell(draw.cell);
        if let Word::Marker { .. } = word {
            self.push(Frame::PlanReads { seen });
            return self.meet(draw.cell, word);
        }
        if let Some(verdict) = self.refusal(draw, word) {
            return self.end(verdict);
        }
        seen.push(word);
        let all = seen.len() == draws.len();
        self.push(if all { Frame::PlanClaims { seen } } else { Frame::PlanReads { seen } });
    }

    fn plan_claims(&mut self, seen: Vec<Word>) -> Result<(), String> {
        let idle = if self.has(Bug::LeaseUncounted) { 2 } else { 1 };
        for descriptor in self.scenario.leases(self.thread) {
            let found = self.descriptor(descriptor);
            if !found.held && found.state != Outcome::Undecided && found.participants <= idle {
                found.held = true;
                found.sequence += 1;
                found.state = Outcome::Undecided;
                found.written = None;
                self.push(Frame::PlanWrites { seen, descriptor });
                return Ok(());
            }
        }
        Err("the scenario has too few descriptors".into())
    }

    fn plan_writes(&mut self, seen: Vec<Word>, descriptor: u8) {
        let mut entries: Vec<Entry> = self
            .planned()
            .iter()
            .zip(seen)
            .map(|(draw, old)| Entry { cell: draw.cell, old, new: old.plus(draw.cost) })
            .collect();
        if !self.has(Bug::Unsorted) {
            entries.sort_by_key(|entry| entry.cell);
        }
        let found = self.descriptor(descriptor);
        found.entries = entries;
        let sequence = found.sequence;
        found.written = Some(sequence);
        self.push(Frame::PlanEnds { descriptor });
        self.push(Frame::Run { descriptor, sequence, at: Run::Installs { entry: 0 } });
    }

    fn plan_ends(&mut self, descriptor: u8) {
        // The owner has read this state before; it stays while the owner holds the descriptor.
        let found = self.descriptor(descriptor);
        found.held = false;
        match found.state {
            Outcome::Succeeded => self.end(Verdict::Admitted),
            _ => self.push(Frame::PlanReads { seen: Vec::new() }),
        }
    }

    fn single_reads(&mut self) {
        let Call::Single(draw) = *self.call() else { unreachable!("the call is a single draw") };
        let word = *self.cell(draw.cell);
        if let Word::Marker { .. } = word {
            self.push(Frame::SingleReads);
            return self.meet(draw.cell, word);
        }
        match self.refusal(draw, word) {
            Some(verdict) => self.end(verdict),
            None => self.push(Frame::SingleExchanges { seen: word }),
        }
    }

    fn single_exchanges(&mut self, seen: Word) {
        let Call::Single(draw) = *self.call() else { unreachable!("the call is a single draw") };
        let word = self.cell(draw.cell);
        if *word != seen {
            return self.push(Frame::SingleReads);
        }
        *word = seen.plus(draw.cost);
        self.state.owed[usize::from(draw.cell)] += draw.cost;
        self.end(Verdict::Admitted);
    }

    /// A scan passes by a cell that a commit owns.
    fn reclaim_reads(&mut self) {
        let Call::Reclaim(cell) = *self.call() else { unreachable!("the call is a reclaim") };
        match *self.cell(cell) {
            Word::Marker { .. } => self.end(Verdict::Refused),
            seen => self.push(Frame::ReclaimExchanges { seen }),
        }
    }

    fn reclaim_exchanges(&mut self, seen: Word) {
        let Call::Reclaim(cell) = *self.call() else { unreachable!("the call is a reclaim") };
        let Word::Mark { generation, .. } = seen else { unreachable!("the word is settled") };
        let next = if self.has(Bug::WordsRepeat) { generation } else { generation + 1 };
        let word = self.cell(cell);
        if *word != seen {
            return self.push(Frame::ReclaimReads);
        }
        *word = Word::Mark { generation: next, mark: 0 };
        self.state.owed[usize::from(cell)] = 0;
        self.end(Verdict::Admitted);
    }

    /// Every participant's part in an undecided operation.
    fn run(&mut self, descriptor: u8, sequence: u8, at: Run) -> Result<(), String> {
        let entries = self.state.entries(descriptor, sequence)?.to_vec();
        let marker = Word::Marker { descriptor, sequence };
        let next = match at {
            Run::Installs { entry } => {
                let Entry { cell, old, .. } = entries[usize::from(entry)];
                let word = self.cell(cell);
                match *word {
                    found if found == old || found == marker => {
                        *word = marker;
                        self.installed(entry + 1, entries.len())
                    }
                    met @ Word::Marker { .. } => Run::Rechecks { entry, met },
                    Word::Mark { .. } => Run::Decides(Outcome::Failed),
                }
            }
            Run::Rechecks { entry, met } => {
                let needed = self.descriptor(descriptor).state == Outcome::Undecided;
                if needed || self.has(Bug::OwnStateUnchecked) {
                    self.push(Frame::Run { descriptor, sequence, at: Run::Installs { entry } });
                    self.meet(entries[usize::from(entry)].cell, met);
                    return Ok(());
                }
                Run::ReadsState
            }
            Run::ReleasesUndecided { entry } => {
                self.release(entries[usize::from(entry)], marker, Outcome::Succeeded);
                match usize::from(entry) + 1 == entries.len() {
                    true => Run::Decides(Outcome::Succeeded),
                    false => Run::ReleasesUndecided { entry: entry + 1 },
                }
            }
            Run::Decides(outcome) => {
                let found = self.descriptor(descriptor);
                if found.state == Outcome::Undecided {
                    found.state = outcome;
                    if outcome == Outcome::Succeeded {
                        self.take_effect(&entries);
                    }
                }
                Run::ReadsState
            }
            Run::ReadsState => Run::Releases { entry: 0, state: self.descriptor(descriptor).state },
            Run::Releases { entry, state } => {
                self.release(entries[usize::from(entry)], marker, state);
                if usize::from(entry) + 1 == entries.len() {
                    return Ok(());
                }
                Run::Releases { entry: entry + 1, state }
            }
        };
        self.push(Frame::Run { descriptor, sequence, at: next });
        Ok(())
    }

    fn take_effect(&mut self, entries: &[Entry]) {
        for entry in entries {
            let (Word::Mark { mark: old, .. }, Word::Mark { mark: new, .. }) = (entry.old, entry.new) else {
                unreachable!("entries hold marks")
            };
            self.state.owed[usize::from(entry.cell)] += new - old;
        }
    }

    fn installed(&self, entry: u8, of: usize) -> Run {
        if usize::from(entry) < of {
            return Run::Installs { entry };
        }
        match self.has(Bug::ReleasedUndecided) {
            true => Run::ReleasesUndecided { entry: 0 },
            false => Run::Decides(Outcome::Succeeded),
        }
    }

    fn release(&mut self, entry: Entry, marker: Word, state: Outcome) {
        let word = self.cell(entry.cell);
        if *word == marker {
            *word = if state == Outcome::Succeeded { entry.new } else { entry.old };
        }
    }

    fn help(&mut self, cell: u8, descriptor: u8, sequence: u8, at: Help) -> Result<(), String> {
        let marker = Word::Marker { descriptor, sequence };
        match at {
            Help::Looks => {
                if *self.cell(cell) == marker {
                    self.push(Frame::Help { cell, descriptor, sequence, at: Help::Joins });
                }
            }
            Help::Joins => {
                let found = self.descriptor(descriptor);
                let (present, state) = (found.sequence, found.state);
                if present != sequence && !self.has(Bug::SequenceIgnored) {
                    return Ok(());
                }
                if !self.has(Bug::HelpersUncounted) {
                    self.descriptor(descriptor).participants += 1;
                }
                let sequence = present;
                if state != Outcome::Undecided {
                    let at = Help::ReleasesOne { state };
                    self.push(Frame::Help { cell, descriptor, sequence, at });
                    return Ok(());
                }
                if self.has(Bug::CountLoweredEarly) {
                    self.descriptor(descriptor).participants -= 1;
                } else {
                    self.push(Frame::Help { cell, descriptor, sequence, at: Help::Leaves });
                }
                self.push(Frame::Run { descriptor, sequence, at: Run::Installs { entry: 0 } });
            }
            Help::ReleasesOne { state } => {
                let entries = self.state.entries(descriptor, sequence)?;
                if let Some(&entry) = entries.iter().find(|entry| entry.cell == cell) {
                    self.release(entry, marker, state);
                }
                self.push(Frame::Help { cell, descriptor, sequence, at: Help::Leaves });
            }
            Help::Leaves => {
                if !self.has(Bug::HelpersUncounted) {
                    self.descriptor(descriptor).participants -= 1;
                }
            }
        }
        Ok(())
    }
}
