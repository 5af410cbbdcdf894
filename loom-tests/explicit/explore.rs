//! The search: every state, in depth first, and what must hold in each.

use crate::bug::Bug;
use crate::machine::{CELLS, Call, Descriptor, Frame, Help, Outcome, Run, State, Thread, Verdict, Word};
use crate::scenarios::Scenario;
use crate::step::Step;
use ahash::RandomState;
use std::collections::HashSet;
use std::time::Instant;

/// A thread that runs alone ends all its calls within so many steps.
const ALONE: usize = 400;

/// States are remembered by 128 bits of hash: among 2^24 states two are taken for one with a chance below 2^-80.
struct Fingerprints([RandomState; 2]);

impl Fingerprints {
    fn new() -> Self {
        Self([RandomState::with_seeds(1, 2, 3, 4), RandomState::with_seeds(5, 6, 7, 8)])
    }
    fn of<T: std::hash::Hash>(&self, value: &T) -> u128 {
        let [high, low] = &self.0;
        u128::from(high.hash_one(value)) << 64 | u128::from(low.hash_one(value))
    }
}

struct Search<'s> {
    scenario: &'s Scenario,
    bug: Option<Bug>,
    fingerprints: Fingerprints,
    seen: HashSet<u128, RandomState>,
    /// States from which a thread is known to finish alone, by state and thread.
    finishes: HashSet<u128, RandomState>,
    ends: usize,
    deepest_help: usize,
    most_participants: u8,
}

/// A state on the present path.
struct Visit {
    state: State,
    fingerprint: u128,
    /// The thread whose turn is next; none before the state was checked.
    next: Option<usize>,
}

/// Explores every interleaving of a scenario; true if nothing went wrong in any.
pub fn explore(scenario: &Scenario, bug: Option<Bug>, most_states: usize) -> bool {
    let start = Instant::now();
    let mut search = Search {
        scenario,
        bug,
        fingerprints: Fingerprints::new(),
        seen: HashSet::default(),
        finishes: HashSet::default(),
        ends: 0,
        deepest_help: 0,
        most_participants: 0,
    };
    println!("exploring: {}", scenario.name);
    let (how, why) = match search.all(most_states) {
        Ok(true) => ("passed, complete", None),
        Ok(false) => ("FAILED, cut", Some(format!("more than {most_states} states"))),
        Err(why) => ("FAILED", Some(why)),
    };
    println!(
        "{how}: {} ({} states, {} ends, help {} deep, {} helpers at once, {:.1} s)\n    {}",
        scenario.name,
        search.seen.len(),
        search.ends,
        search.deepest_help,
        search.most_participants.saturating_sub(1),
        start.elapsed().as_secs_f64(),
        scenario.shows,
    );
    if let Some(why) = &why {
        println!("    {why}");
    }
    why.is_none()
}

impl Search<'_> {
    fn start(&self) -> State {
        let thread = || Thread { verdicts: Vec::new(), frames: Vec::new() };
        let mut state = State {
            cells: [Word::START; CELLS],
            owed: [0; CELLS],
            descriptors: vec![Descriptor::leased(); self.scenario.descriptors()],
            threads: self.scenario.threads.iter().map(|_| thread()).collect(),
        };
        for thread in 0..self.scenario.threads.len() {
            self.step(&mut state, thread).begin();
        }
        state
    }

    fn step<'a>(&'a self, state: &'a mut State, thread: usize) -> Step<'a> {
        Step { scenario: self.scenario, bug: self.bug, state, thread }
    }

    /// All states; false if there are more than `most`. The error has the schedule that led to it.
    fn all(&mut self, most: usize) -> Result<bool, String> {
        let mut path = Vec::new();
        self.visit(self.start(), &mut path);
        while let Some(Visit { state, fingerprint, next }) = path.last_mut() {
            let Some(thread) = *next else {
                *next = Some(0);
                let checked = self.check(state, *fingerprint);
                checked.map_err(|why| with_schedule(why, &path))?;
                continue;
            };
            if thread == self.scenario.threads.len() {
                path.pop();
                continue;
            }
            *next = Some(thread + 1);
            let mut after = state.clone();
            match self.step(&mut after, thread).take() {
                Ok(true) => self.visit(after, &mut path),
                Ok(false) => {}
                Err(why) => return Err(with_schedule(why, &path)),
            }
            if self.seen.len() > most {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn visit(&mut self, state: State, path: &mut Vec<Visit>) {
        let fingerprint = self.fingerprints.of(&state);
        if self.seen.insert(fingerprint) {
            path.push(Visit { state, fingerprint, next: None });
        }
    }

    fn check(&mut self, state: &State, fingerprint: u128) -> Result<(), String> {
        let mut marks = [0; CELLS];
        for (cell, seen) in marks.iter_mut().enumerate() {
            let Word::Mark { mark, .. } = state.settled(cell)? else { unreachable!("the word is settled") };
            if mark != state.owed[cell] || mark > self.scenario.capacities[cell] {
                return Err(format!("cell {cell} is seen with mark {mark}, and owes {}", state.owed[cell]));
            }
            *seen = mark;
        }
        if let Some([one, other]) = self.scenario.move_together {
            if marks[one] != marks[other] {
                return Err(format!("half a plan is seen: {} beside {}", marks[one], marks[other]));
            }
        }
        for thread in &state.threads {
            let met: Vec<u8> = thread.frames.iter().filter_map(Frame::helped_at).collect();
            if met.windows(2).any(|pair| pair[0] >= pair[1]) {
                return Err(format!("nested help does not ascend: markers were met in cells {met:?}"));
            }
            self.deepest_help = self.deepest_help.max(met.len());
        }
        let participants = state.descriptors.iter().map(|found| found.participants).max();
        self.most_participants = self.most_participants.max(participants.unwrap_or(0));
        if state.threads.iter().all(|thread| thread.frames.is_empty()) {
            self.ends += 1;
            return self.check_end(state);
        }
        (0..state.threads.len()).try_for_each(|thread| self.finishes_alone(state, fingerprint, thread))
    }

    /// When all have finished: nothing is left behind, and the books balance.
    fn check_end(&self, state: &State) -> Result<(), String> {
        if let Some(found) = state.descriptors.iter().find(|found| found.participants != 1) {
            return Err(format!("a descriptor is left with {} participants", found.participants));
        }
        if state.descriptors.iter().any(|found| found.state == Outcome::Undecided) {
            return Err("an operation is left undecided".into());
        }
        if state.cells.iter().any(|word| matches!(word, Word::Marker { .. })) {
            return Err("a marker is left".into());
        }
        let mut admitted = 0;
        let mut drawn = [0; CELLS];
        let mut reclaimed = [false; CELLS];
        for (calls, thread) in self.scenario.threads.iter().zip(&state.threads) {
            for (call, verdict) in calls.iter().zip(&thread.verdicts) {
                let draws = match call {
                    Call::Plan(draws) => draws.as_slice(),
                    Call::Single(draw) => std::slice::from_ref(draw),
                    Call::Reclaim(cell) => {
                        reclaimed[usize::from(*cell)] = true;
                        continue;
                    }
                };
                if *verdict == Verdict::Admitted {
                    admitted += 1;
                    draws.iter().for_each(|draw| drawn[usize::from(draw.cell)] += draw.cost);
                }
            }
        }
        // What the callers were told is what the cells say, but for marks of lives that are over.
        for cell in (0..CELLS).filter(|&cell| !reclaimed[cell]) {
            if drawn[cell] != state.owed[cell] {
                return Err(format!(
                    "{} were admitted on cell {cell}, which owes {}",
                    drawn[cell], state.owed[cell]
                ));
            }
        }
        match self.scenario.admitted {
            Some(expected) if expected != admitted => Err(format!("{admitted} admitted, not {expected}")),
            _ => Ok(()),
        }
    }

    /// With all others standing still for ever, does the thread end all its calls?
    fn finishes_alone(&mut self, state: &State, fingerprint: u128, thread: usize) -> Result<(), String> {
        let key = |fingerprint: u128| fingerprint.wrapping_add(thread as u128);
        if state.threads[thread].frames.is_empty() || self.finishes.contains(&key(fingerprint)) {
            return Ok(());
        }
        let mut alone = state.clone();
        let mut passed = vec![key(fingerprint)];
        loop {
            let going = self.step(&mut alone, thread).take();
            if !going.map_err(|why| format!("thread {thread} alone: {why}"))? {
                break;
            }
            let key = key(self.fingerprints.of(&alone));
            if self.finishes.contains(&key) {
                break;
            }
            passed.push(key);
            if passed.len() > ALONE {
                return Err(format!("thread {thread} never finishes while the others stand still"));
            }
        }
        self.finishes.extend(passed);
        Ok(())
    }
}

/// The error with the threads' turns that led to it.
fn with_schedule(why: String, path: &[Visit]) -> String {
    let turns: Vec<String> =
        path.iter().filter_map(|visit| visit.next?.checked_sub(1)).map(|thread| thread.to_string()).collect();
    let last = path.last().map(|visit| describe(&visit.state)).unwrap_or_default();
    format!("{why}\n    after turns of threads {}\n    {last}", turns.join(" "))
}

fn describe(state: &State) -> String {
    let run = |frame: &Frame| match frame {
        Frame::Run { at: Run::Installs { entry }, .. } => format!("installs {entry}"),
        Frame::Help { at: Help::Leaves, .. } => "helps".to_string(),
        other => format!("{other:?}"),
    };
    let threads: Vec<String> = state
        .threads
        .iter()
        .map(|thread| thread.frames.iter().map(run).collect::<Vec<_>>().join(" > "))
        .collect();
    format!("cells {:?}; threads: {}", state.cells, threads.join("; "))
}
