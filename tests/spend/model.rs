//! A plain model of budgets: every amount with its instant, added up anew for every question.

use crate::support::*;
use std::fmt;
use std::time::Duration;
use tollgate::spend::*;

/// What the model counts.
pub const COUNTED: [Dimension; 3] = [Dimension::Cost, Dimension::Tokens, Dimension::Runs];
const RUNS: usize = 2;

/// One for each of [`COUNTED`].
pub type Amount = [u64; 3];

pub const TTL: Millis = 45_000;
/// After so long nothing counts any more but for a lifetime.
const ALL_LAPSED: Millis = 10 * MINUTE;

/// What of a policy stays the same in a history.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    pub on_expiry: OnExpiry,
    /// From how many tenths of a limit on nothing may cost.
    pub blocked: u64,
}

/// A limit: of each user, or of all together.
#[derive(Clone, PartialEq, Eq)]
pub struct Line {
    pub shared: bool,
    /// Its place in [`COUNTED`].
    pub dimension: usize,
    pub window: Window,
    pub amount: u64,
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line { shared, dimension, window, amount } = self;
        write!(f, "{} {} {amount} {window}", ["user", "all"][usize::from(*shared)], COUNTED[*dimension])
    }
}

/// The policy with these limits, in their order.
pub fn policy(lines: &[Line], terms: Terms) -> SpendPolicy {
    let with = |scope: Scope, shared| {
        let lines = lines.iter().filter(|line| line.shared == shared);
        lines.fold(scope, |scope, line| {
            scope.limit(Limit::new(COUNTED[line.dimension], line.amount, line.window.clone()))
        })
    };
    SpendPolicy::new()
        .scope(with(Scope::keyed("user"), false))
        .scope(with(Scope::shared("all"), true))
        .ttl(Duration::from_millis(TTL))
        .on_expiry(terms.on_expiry)
        .tiers(Tiers::new().blocked_at(100_000 * terms.blocked as u32))
}

/// A hold that is not over: its parts with their instants.
#[derive(Debug, Clone)]
pub struct Kept {
    pub name: HoldRef,
    pub user: u8,
    parts: Vec<(Millis, Amount)>,
    deadline: Millis,
    pub expired: bool,
}

#[derive(Debug, Clone)]
pub struct Model {
    pub lines: Vec<Line>,
    pub terms: Terms,
    pub now: Millis,
    pub holds: Vec<Kept>,
    /// What is used for good: when, of which user, how much.
    used: Vec<(Millis, u8, Amount)>,
}

impl Model {
    pub fn new(lines: Vec<Line>, terms: Terms) -> Self {
        Model { lines, terms, now: START, holds: Vec::new(), used: Vec::new() }
    }

    /// What counts against a limit: everything in the current slot of its window and those before that count too.
    pub fn counts(&self, line: &Line, user: u8) -> u64 {
        let slot = |at| u64::from(line.window.slot(at));
        let counts = |at| slot(at) + u64::from(line.window.reach()) >= slot(self.now);
        let held =
            self.holds.iter().flat_map(|hold| hold.parts.iter().map(|&(at, amount)| (at, hold.user, amount)));
        let all = self.used.iter().copied().chain(held);
        let counting = all.filter(|&(at, whose, _)| (line.shared || whose == user) && counts(at));
        counting.map(|(_, _, amount)| amount[line.dimension]).sum()
    }

    /// What open holds have set aside of what a limit counts, whenever they took it.
    pub fn held(&self, line: &Line, user: u8) -> u64 {
        let open = self.holds.iter().filter(|hold| !hold.expired && (line.shared || hold.user == user));
        open.flat_map(|hold| &hold.parts).map(|(_, amount)| amount[line.dimension]).sum()
    }

    pub fn tier(&self, user: u8) -> Tier {
        let reached = |tenths| {
            let counting = self.lines.iter().filter(|line| line.dimension != RUNS);
            counting.into_iter().any(|line| 10 * self.counts(line, user) >= tenths * line.amount)
        };
        if reached(self.terms.blocked) {
            Tier::Blocked
        } else if reached(7) {
            Tier::Reduced
        } else {
            Tier::Full
        }
    }

    /// As much of `asked` as there is room for.
    pub fn part_of(&self, user: u8, asked: Amount) -> Amount {
        let mut part = asked;
        for line in &self.lines {
            let room = line.amount.saturating_sub(self.counts(line, user));
            part[line.dimension] = part[line.dimension].min(room);
        }
        part
    }

    fn fits(&self, user: u8, asked: Amount) -> bool {
        self.part_of(user, asked) == asked && !(asked[0] > 0 && self.tier(user) == Tier::Blocked)
    }

    /// A refusal is right if so much does not fit, and fits when it says, not a millisecond earlier; or never.
    pub fn refuses(&self, user: u8, asked: Amount, refusal: &Refusal) {
        let fits_after = |millis| Model { now: self.now + millis, ..self.clone() }.fits(user, asked);
        assert!(!fits_after(0), "refused {asked:?} of {user}: {refusal}");
        match refusal.retry_after {
            Some(wait) => {
                assert!(fits_after(wait), "{asked:?} of {user} after {wait} ms: {refusal}");
                assert!(!fits_after(wait - 1), "{asked:?} of {user} before {wait} ms: {refusal}");
            }
            None => assert!(!fits_after(ALL_LAPSED), "{asked:?} of {user} at some time: {refusal}"),
        }
    }

    /// What is admitted fits, and comes with the tier that there was before.
    fn admits(&self, user: u8, granted: Amount, decision: &Decision) {
        assert!(self.fits(user, granted), "admitted {granted:?} of {user}");
        assert_eq!(COUNTED.map(|of| decision.granted[of]), granted);
        assert_eq!(decision.tier, self.tier(user), "of {user}");
    }

    pub fn holds(&mut self, user: u8, granted: Amount, hold: Hold) {
        self.admits(user, granted, hold.decision());
        let (name, deadline) = (hold.detach(), self.now + TTL);
        let parts = vec![(self.now, granted)];
        self.holds.push(Kept { name, user, parts, deadline, expired: false });
    }

    pub fn extends(&mut self, index: usize, granted: Amount, decision: &Decision) {
        let hold = &self.holds[index];
        assert!(!hold.expired);
        self.admits(hold.user, granted, decision);
        let hold = &mut self.holds[index];
        hold.parts.push((self.now, granted));
        hold.deadline = self.now + TTL;
    }

    /// A charge to a hold: its oldest parts are used up first, the rest counts from now on.
    pub fn charges(&mut self, index: usize, used: Amount) {
        let hold = &mut self.holds[index];
        let mut rest = used;
        for (at, part) in &mut hold.parts {
            let mut taken = [0; 3];
            for dimension in 0..COUNTED.len() {
                taken[dimension] = rest[dimension].min(part[dimension]);
                part[dimension] -= taken[dimension];
                rest[dimension] -= taken[dimension];
            }
            self.used.push((*at, hold.user, taken));
        }
        self.used.push((self.now, hold.user, rest));
        if !hold.expired {
            hold.deadline = self.now + TTL;
        }
    }

    /// The end of a hold: what is left of it goes back.
    pub fn ends(&mut self, index: usize) {
        self.holds.remove(index);
    }

    /// Time passes. A hold whose time is over counts at its worst case, or goes back; its runs are over in any case.
    pub fn at(&mut self, now: Millis) {
        self.now = now;
        for hold in self.holds.iter_mut().filter(|hold| !hold.expired && hold.deadline <= now) {
            hold.expired = true;
            match self.terms.on_expiry {
                OnExpiry::Released => hold.parts.clear(),
                OnExpiry::Spent => hold.parts.iter_mut().for_each(|(_, part)| part[RUNS] = 0),
            }
        }
    }
}
