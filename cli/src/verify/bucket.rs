//! One bucket: its changes in the one order in which they fit, and what others saw of it.
//!
//! Records lie in the file in about the order of their times. Within one life of a bucket its states only grow, in
//! (refunded, mark) order, so changes of one instant fit in one order. A bucket that is full can be forgotten, and begins
//! another life: then several lives can share an instant, and their order is searched for, the file's first.

use super::header::Quota;
use super::permits::Index;
use super::record::State;
use std::collections::{BTreeSet, HashMap};

/// A violation, and the line that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub line: u32,
    pub what: String,
}

/// How a bucket changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Grant,
    Refund,
    Restore,
}

/// A change of a bucket. A refund that gave nothing back is none.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub t: u64,
    pub before: State,
    pub after: State,
    pub line: u32,
    pub grant: Index,
    pub kind: Kind,
}

/// A state that a record claims to have found.
#[derive(Debug, Clone, Copy)]
pub struct Sighting {
    pub t: u64,
    pub line: u32,
    pub state: State,
}

/// A quota that a refusal does not name, so that the cost should have fit it.
#[derive(Debug, Clone, Copy)]
pub struct Unnamed {
    pub t: u64,
    pub units: u64,
}

/// A refund that gave nothing back to this bucket.
#[derive(Debug, Clone, Copy)]
pub struct Nothing {
    pub t: u64,
    pub line: u32,
    pub grant: Index,
    /// The state in which the draw ended.
    pub top: State,
}

/// What the journal says about one bucket.
#[derive(Debug, Default)]
pub struct Bucket {
    pub changes: Vec<Change>,
    pub sightings: Vec<Sighting>,
    pub unnamed: Vec<Unnamed>,
    pub nothings: Vec<Nothing>,
}

/// How many changes can be undone in a search for an order, beyond four for each change of the instant.
const PATIENCE: usize = 10_000;
/// How many changes that began in one state at one instant are tried as the next.
const TRIED: usize = 256;
/// How many states are looked at to see that an unnamed quota had room.
const GLANCES: usize = 1_024;

impl Bucket {
    /// Puts the changes into their order and checks all claims about the bucket. Returns how many refusals do not name this
    /// quota although no state near them had room.
    ///
    /// # Errors
    /// The violation with the lowest line of the first kind that there is.
    pub fn settle(&mut self, quota: &Quota) -> Result<u64, Violation> {
        self.changes.sort_by_key(|change| (change.t, change.line));
        let lives = Order::new(quota, &mut self.changes).find()?;
        self.check_sightings(quota)?;
        self.check_nothings(quota, &lives)?;
        Ok(self.unnamed.iter().filter(|unnamed| !self.had_room(quota, unnamed)).count() as u64)
    }

    /// The changes after which the bucket can have been in a state that somebody judged at `t`: a range of positions, where
    /// 0 is before the first change.
    ///
    /// Who judges loads the state, reads the clock, and finds the state unchanged. Somebody else's change that was under
    /// way meanwhile can have read an earlier time; the one after that cannot.
    fn near(&self, t: u64) -> std::ops::RangeInclusive<usize> {
        let earlier = self.changes.partition_point(|change| change.t < t);
        let not_later = self.changes.partition_point(|change| change.t <= t);
        earlier.saturating_sub(1)..=not_later
    }

    /// The state at a position. Before the first change there is no bucket, and a key is judged by how one would begin.
    fn state(&self, position: usize, quota: &Quota) -> State {
        match position.checked_sub(1) {
            Some(place) => self.changes[place].after,
            None => State { mark: quota.floor, refunded: 0 },
        }
    }

    fn check_sightings(&self, quota: &Quota) -> Result<(), Violation> {
        if self.sightings.is_empty() {
            return Ok(());
        }
        let mut positions: HashMap<State, Vec<usize>> = HashMap::new();
        for position in 1..=self.changes.len() {
            positions.entry(self.state(position, quota)).or_default().push(position);
        }
        for sighting in &self.sightings {
            let near = self.near(sighting.t);
            let known =
                positions.get(&sighting.state).is_some_and(|at| at.iter().any(|at| near.contains(at)));
            let State { mark, refunded } = sighting.state;
            // A key without a bucket is judged by the state in which one would begin.
            let begins = refunded == 0
                && quota.may_begin(mark, sighting.t)
                && (*near.start() == 0
                    || near.clone().any(|at| self.may_be_forgotten(at, quota, sighting.t)));
            if !known && !begins {
                let what = format!(
                    "quota {:?} was not in the state [{mark},{refunded}] at {}",
                    quota.definition, sighting.t
                );
                return Err(Violation { line: sighting.line, what });
            }
        }
        Ok(())
    }

    fn may_be_forgotten(&self, position: usize, quota: &Quota, t: u64) -> bool {
        u128::from(self.state(position, quota).mark) <= quota.line.accrued(t)
    }

    /// Refunds that gave nothing back: was there nothing?
    fn check_nothings(&self, quota: &Quota, lives: &[u32]) -> Result<(), Violation> {
        if self.nothings.is_empty() {
            return Ok(());
        }
        let grants = self.changes.iter().zip(lives).filter(|(change, _)| change.kind == Kind::Grant);
        let life_of: HashMap<Index, u32> = grants.map(|(change, &life)| (change.grant, life)).collect();
        let mut end_of: HashMap<u32, usize> = HashMap::new();
        for (place, &life) in lives.iter().enumerate() {
            end_of.insert(life, place);
        }
        for nothing in &self.nothings {
            let Some(life) = life_of.get(&nothing.grant) else { continue }; // every grant has its draws
            // Of that life, the latest state that was there by then; what was refunded only grows.
            let by_then = self.changes.partition_point(|change| change.t <= nothing.t);
            let last = end_of.get(life).map_or(0, |&end| end.min(by_then.saturating_sub(1)));
            let refunded = self.changes[last].after.refunded;
            let back = owed(quota, nothing.top, refunded, nothing.t);
            if back > 0 && refunded < quota.most_refunded {
                let what = format!(
                    "quota {:?} gets nothing back, although {} units of the draw were not refilled",
                    quota.definition, back
                );
                return Err(Violation { line: nothing.line, what });
            }
        }
        Ok(())
    }

    fn had_room(&self, quota: &Quota, unnamed: &Unnamed) -> bool {
        // Without allowing for a change that was under way: this is counted, and nobody is accused.
        let earlier = self.changes.partition_point(|change| change.t < unnamed.t);
        let mut near = (earlier..=*self.near(unnamed.t).end()).take(GLANCES);
        near.any(|at| quota.line.fits(self.state(at, quota).mark, unnamed.units, unnamed.t))
    }
}

/// How much of a draw that ended at `top` time has not released again at `t`, when `refunded` units were refunded to the
/// bucket in all.
pub fn owed(quota: &Quota, top: State, refunded: u64, t: u64) -> u64 {
    let since = refunded.saturating_sub(top.refunded);
    let left = u128::from(top.mark.saturating_sub(since)).saturating_sub(quota.line.accrued(t));
    u64::try_from(left).unwrap_or(u64::MAX)
}

/// The search for the order of one bucket's changes, which are sorted by time and line.
struct Order<'a> {
    quota: &'a Quota,
    changes: &'a mut Vec<Change>,
    /// Of the changes in their order: in which life of the bucket each lies.
    lives: Vec<u32>,
    /// In which life each grant's draw lies.
    life_of: HashMap<Index, u32>,
    /// The present state, once there was a change.
    now: Option<State>,
    life: u32,
    /// How many changes have their place.
    placed: usize,
}

/// The way back to before a choice.
struct Choice {
    others: Vec<(usize, bool)>,
    before: (Option<State>, u32),
    taken: usize,
}

impl<'a> Order<'a> {
    fn new(quota: &'a Quota, changes: &'a mut Vec<Change>) -> Self {
        let lives = Vec::with_capacity(changes.len());
        Self { quota, changes, lives, life_of: HashMap::new(), now: None, life: 0, placed: 0 }
    }

    /// Brings the changes into their order; returns the life of each.
    fn find(mut self) -> Result<Vec<u32>, Violation> {
        while let Some(first) = self.changes.get(self.placed) {
            let t = first.t;
            let end = self.placed + self.changes[self.placed..].partition_point(|change| change.t == t);
            self.instant(t, end)?;
        }
        Ok(self.lives)
    }

    /// Orders the changes of one instant, up to `end`.
    fn instant(&mut self, t: u64, end: usize) -> Result<(), Violation> {
        let start = self.placed;
        if end - start == 1 && self.follows(&self.changes[start]) {
            return self.place_one(start);
        }
        let group: Vec<Change> = self.changes[start..end].to_vec();
        // Unplaced changes by the state that they began in, and those that can begin a life.
        let mut by_state: HashMap<State, BTreeSet<usize>> = HashMap::new();
        let mut beginnings = BTreeSet::new();
        for (place, change) in group.iter().enumerate() {
            by_state.entry(change.before).or_default().insert(place);
            if self.begins(change, t) {
                beginnings.insert(place);
            }
        }
        let mut order: Vec<Choice> = Vec::new();
        let mut patience = PATIENCE + 4 * group.len();
        let (mut stuck, mut astray) = (None, None);
        loop {
            let mut candidates = if order.len() == group.len() {
                if end == self.changes.len() || self.leads_on(end) || patience == 0 {
                    break;
                }
                Vec::new()
            } else {
                self.candidates(&group, &by_state, &beginnings, t)
            };
            if candidates.is_empty() {
                if order.len() < group.len() {
                    let rest = by_state.values().flatten().min().copied();
                    stuck.get_or_insert_with(|| self.misfit(&group[rest.unwrap_or(0)], t));
                } else {
                    // An order, but one that the next instant does not follow.
                    let next = &self.changes[end];
                    astray.get_or_insert_with(|| self.misfit(next, next.t));
                    patience = patience.min(group.len() + 64);
                }
                // Back to the last choice that has another way.
                loop {
                    let Some(mut choice) = order.pop() else {
                        // A change that has no place anywhere was there in each order that was tried.
                        let change = &group[0];
                        return Err(astray.or(stuck).unwrap_or_else(|| self.misfit(change, t)));
                    };
                    let change = &group[choice.taken];
                    by_state.entry(change.before).or_default().insert(choice.taken);
                    if self.begins(change, t) {
                        beginnings.insert(choice.taken);
                    }
                    if change.kind == Kind::Grant {
                        self.life_of.remove(&change.grant);
                    }
                    (self.now, self.life) = choice.before;
                    patience = patience.saturating_sub(1);
                    if patience > 0 && !choice.others.is_empty() {
                        candidates = std::mem::take(&mut choice.others);
                        break;
                    }
                }
            }
            let Some((taken, begins)) = candidates.pop() else { continue };
            let change = group[taken];
            order.push(Choice { others: candidates, before: (self.now, self.life), taken });
            if begins {
                self.life += 1;
            }
            self.now = Some(change.after);
            if change.kind == Kind::Grant {
                self.life_of.insert(change.grant, self.life);
            }
            if let Some(places) = by_state.get_mut(&change.before) {
                places.remove(&taken);
                if places.is_empty() {
                    by_state.remove(&change.before);
                }
            }
            beginnings.remove(&taken);
        }
        for (place, choice) in order.iter().enumerate() {
            self.changes[start + place] = group[choice.taken];
        }
        // The life after each choice is the one before the next.
        let lives = order.iter().skip(1).map(|choice| choice.before.1).chain([self.life]);
        self.lives.extend(lives);
        self.placed = end;
        Ok(())
    }

    /// Does a change continue the present life?
    fn follows(&self, change: &Change) -> bool {
        Some(change.before) == self.now
            && match change.kind {
                Kind::Grant => true,
                Kind::Refund => self.life_of.get(&change.grant) == Some(&self.life),
                Kind::Restore => false,
            }
    }

    /// The only change of its instant, which follows.
    fn place_one(&mut self, place: usize) -> Result<(), Violation> {
        let change = self.changes[place];
        self.now = Some(change.after);
        if change.kind == Kind::Grant {
            self.life_of.insert(change.grant, self.life);
        }
        self.lives.push(self.life);
        self.placed = place + 1;
        Ok(())
    }

    /// Can a change begin a life of the bucket?
    fn begins(&self, change: &Change, t: u64) -> bool {
        match change.kind {
            Kind::Grant => change.before.refunded == 0 && self.quota.may_begin(change.before.mark, t),
            // A saved state is what a bucket begins with, once.
            Kind::Restore => self.placed == 0,
            Kind::Refund => false,
        }
    }

    /// Which changes can come next, and whether they begin a life: the first in the file last. Of very many that could, only
    /// some are tried.
    fn candidates(
        &self,
        group: &[Change],
        by_state: &HashMap<State, BTreeSet<usize>>,
        beginnings: &BTreeSet<usize>,
        t: u64,
    ) -> Vec<(usize, bool)> {
        let mut found: Vec<(usize, bool)> = Vec::new();
        if let Some(places) = self.now.as_ref().and_then(|now| by_state.get(now)) {
            let next = places.iter().take(TRIED).filter(|&&place| self.follows(&group[place]));
            found.extend(next.map(|&place| (place, false)));
        }
        let full = self.now.is_none_or(|now| u128::from(now.mark) <= self.quota.line.accrued(t));
        if full {
            // One that continues need not begin.
            let anew: Vec<_> = beginnings
                .iter()
                .filter(|&&place| group[place].kind != Kind::Restore || self.now.is_none())
                .filter(|place| !found.iter().any(|(known, _)| known == *place))
                .map(|&place| (place, true))
                .take(TRIED)
                .collect();
            found.extend(anew);
        }
        found.sort_unstable_by(|a, b| b.cmp(a));
        found
    }

    /// Is there a change in the next instant that can come now?
    fn leads_on(&self, next: usize) -> bool {
        let t = self.changes[next].t;
        let full = self.now.is_none_or(|now| u128::from(now.mark) <= self.quota.line.accrued(t));
        self.changes[next..]
            .iter()
            .take_while(|change| change.t == t)
            .any(|change| Some(change.before) == self.now || full && self.begins(change, t))
    }

    /// Why a change does not fit behind the present state.
    fn misfit(&self, change: &Change, t: u64) -> Violation {
        let State { mark, refunded } = change.before;
        let quota = &self.quota.definition;
        let what = match self.now {
            None => format!("quota {quota:?} begins at [{mark},{refunded}], where no bucket begins at {t}"),
            Some(now) if change.kind == Kind::Restore => {
                format!("quota {quota:?} is restored after it was at [{},{}]", now.mark, now.refunded)
            }
            Some(now) if change.before == now => {
                format!("quota {quota:?} gets a refund of a draw in an earlier life of the bucket")
            }
            Some(now) => {
                let how = if (refunded, mark) < (now.refunded, now.mark) {
                    "overlaps what was drawn before"
                } else {
                    "leaves a gap"
                };
                format!(
                    "quota {quota:?} was at [{},{}], not at [{mark},{refunded}]: the record {how}",
                    now.mark, now.refunded
                )
            }
        };
        Violation { line: change.line, what }
    }
}
