//! One draw on one cell: load, decide, exchange.

use super::Table;
use super::cell::PackedKey;
use super::insert::Hand;
use super::limits::{Buckets, Costs, LaneDraw};
use super::lookup::{Find, Hit};
use crate::quota::{Arithmetic, Decision};
use crate::refusal::{Reason, Refusal};
use crate::sync::{MODEL, seeded_bug, spin_loop};
use crate::word::Word;
use std::time::Duration;

/// A committed draw on one bucket: the interval of the refill line that it owns.
///
/// Intervals of one bucket are disjoint, and each ends at or below `accrued(at) + capacity`: that is the proof
/// that nothing was spent twice.
///
/// ```
/// use tollgate::{Limiter, quota::Quota, time::ManualClock};
///
/// let limiter = Limiter::builder(Quota::per_second(5)).clock(ManualClock::new()).build()?;
/// let first = limiter.check_n("k", 2).unwrap();
/// let second = limiter.check_n("k", 3).unwrap();
/// assert_eq!(second.from, first.to);
/// assert_eq!((first.remaining, second.remaining), (3, 0));
/// # Ok::<(), tollgate::ConfigError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admission {
    /// The clock's nanosecond at which it was decided.
    pub at: u64,
    /// Where its interval begins on the refill line, exclusive, in the limit's units.
    pub from: u64,
    /// Where its interval ends, inclusive: the bucket's new mark.
    pub to: u64,
    /// Whole tokens left, rounded down.
    pub remaining: u64,
}

impl Admission {
    #[inline]
    pub(crate) fn new(draw: LaneDraw, line: &Arithmetic, now: u64) -> Self {
        Self { at: now, from: draw.from, to: draw.to, remaining: line.available(draw.to, now) }
    }

    /// What a draw of nothing is admitted with.
    pub(crate) fn peek(available: u64, mark: u64, now: u64) -> Self {
        Self { at: now, from: mark, to: mark, remaining: available }
    }
}

/// A committed draw on one cell. What a caller may want to know of it is computed when asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drawn<'t> {
    at: u64,
    lanes: [LaneDraw; 2],
    after: Buckets<'t>,
}

impl Drawn<'_> {
    /// What was admitted on a lane that was drawn on.
    #[inline]
    pub(crate) fn admission(&self, lane: usize) -> Admission {
        Admission::new(self.lanes[lane], self.after.arithmetic(lane), self.at)
    }
}

/// Pauses between attempts that lost a race: grows with each, and is bounded, so nobody waits for a thread
/// that stopped.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    const STEP: u32 = if MODEL { 0 } else { 32 };
    const MOST: u32 = 16;

    #[inline]
    pub(crate) fn pause(&mut self) {
        self.0 = (self.0 + 1).min(Self::MOST);
        for _ in 0..Self::STEP * self.0 {
            spin_loop();
        }
    }
}

impl Table {
    /// Draws `costs` for `key`, both lanes or neither. At least one cost is above 0.
    #[inline]
    pub(crate) fn draw(&self, key: &PackedKey<'_>, limit: u32, costs: Costs) -> Result<Drawn<'_>, Refusal> {
        if let Find::Hit(hit) = self.find(key) {
            if let Some(answer) = self.draw_on(hit, limit, costs) {
                return answer;
            }
        }
        self.draw_slowly(key, limit, costs)
    }

    /// As [`draw`](Self::draw), for keys that may have no bucket.
    #[inline(never)]
    fn draw_slowly(&self, key: &PackedKey<'_>, limit: u32, costs: Costs) -> Result<Drawn<'_>, Refusal> {
        if let Some(refusal) = self.impossible(limit, costs) {
            return Err(refusal);
        }
        self.on_bucket(key, limit, |hit| self.draw_on_late(hit, limit, costs))
            .unwrap_or_else(|| Err(self.table_full(limit, costs)))
    }

    /// Does `act` on the bucket of `key`, which is made if there is none, and kept if `act` succeeds. `act` returns
    /// `None` when the bucket's life ended: then this searches again. `None` in turn when there is no room for one.
    #[inline(always)]
    pub(crate) fn on_bucket<T, E>(
        &self,
        key: &PackedKey<'_>,
        limit: u32,
        act: impl Fn(Hit) -> Option<Result<T, E>>,
    ) -> Option<Result<T, E>> {
        if self.is_shut_to(key) {
            return None;
        }
        let mut hand: Option<Hand<'_>> = None;
        let mut looked_again = false;
        loop {
            let vacancy = match self.vacancy(key) {
                Ok(vacancy) => vacancy,
                Err(hit) => {
                    // The cell in hand, if any, goes back: somebody else made the bucket.
                    if seeded_bug!("hand-forgotten") {
                        std::mem::forget(hand);
                    }
                    hand = None;
                    match act(hit) {
                        Some(answer) => return Some(answer),
                        None => continue,
                    }
                }
            };
            let Some(held) = hand.take().or_else(|| self.take(key, self.clock.now())) else {
                if looked_again {
                    return None;
                }
                // The key may have got its bucket while we searched for a cell.
                looked_again = true;
                continue;
            };
            match held.publish(key, limit, vacancy) {
                Ok((fresh, hit)) => {
                    // On a refusal (others drained it since it was published) `fresh` is dropped and leaves nothing.
                    if let Some(answer) = act(hit) {
                        if answer.is_ok() {
                            fresh.keep();
                        }
                        return Some(answer);
                    }
                }
                Err(back) => hand = Some(back),
            }
        }
    }

    /// As [`draw_on`](Self::draw_on), kept out of the way of the common case.
    #[inline(never)]
    fn draw_on_late(&self, hit: Hit, limit: u32, costs: Costs) -> Option<Result<Drawn<'_>, Refusal>> {
        self.draw_on(hit, limit, costs)
    }

    /// Draws on a cell that was found. `None` when its life ended: search again.
    ///
    /// Inlined to the bottom: copies of what it reads and decides would go through memory in other pieces than they
    /// came in, and wait for it.
    #[inline(always)]
    fn draw_on(&self, hit: Hit, limit: u32, costs: Costs) -> Option<Result<Drawn<'_>, Refusal>> {
        let layout = self.limits.layout;
        let cell = self.cell(hit.cell);
        let mut word = hit.word;
        let mut backoff = Backoff::default();
        loop {
            if word.is_reserved() {
                word = self.settled(hit.cell);
                if !word.same_life(hit.word, layout) {
                    return None;
                }
            }
            // After the word, so that no mark in it is newer than the time it is judged by.
            let now = self.clock.now();
            if seeded_bug!("clock-before-word") {
                let newer = cell.load();
                if !newer.is_reserved() && newer.same_life(hit.word, layout) {
                    word = newer;
                }
            }
            let before = self.limits.read_of(limit, word);
            let found = match Self::decide(before, costs, now) {
                Some(drawn) => match cell.exchange(word, self.limits.drawn(word, &drawn.after)) {
                    Ok(()) => return Some(Ok(drawn)),
                    Err(found) => {
                        backoff.pause();
                        found
                    }
                },
                None => match cell.confirm(word) {
                    Ok(()) => {
                        if seeded_bug!("refusal-writes") {
                            cell.word.store(word.0, crate::sync::Ordering::Release);
                        }
                        self.renew(hit.cell, word);
                        return Some(Err(self.refusal(before, limit, costs, now)));
                    }
                    Err(found) => found,
                },
            };
            if !found.same_life(hit.word, layout) {
                return None;
            }
            word = found;
        }
    }

    /// After a refusal, which writes nothing else: a bucket that is polled and never drawn on must not be read
    /// through every reconfiguration since its last draw, each time. Losing the race does no harm.
    pub(crate) fn renew(&self, cell: u32, word: Word) {
        if let Some(newer) = self.limits.renewed(word) {
            let _ = self.cell(cell).exchange(word, newer);
        }
    }

    /// The pure decision on one cell's buckets: `None` is a refusal.
    #[inline(always)]
    fn decide(before: Buckets<'_>, costs: Costs, now: u64) -> Option<Drawn<'_>> {
        let mut drawn = Drawn { at: now, lanes: [LaneDraw::default(); 2], after: before };
        for ((lane, part), cost) in drawn.lanes.iter_mut().enumerate().zip(costs) {
            if cost > 0 {
                *part = drawn.after.draw(lane, cost, now).ok()?;
            }
        }
        Some(drawn)
    }

    /// Why `costs` are refused: of several exhausted lanes the one with the longest wait. Takes the reading that
    /// was refused: another one could find the limit reconfigured, and nothing to refuse.
    #[cold]
    fn refusal(&self, buckets: Buckets<'_>, limit: u32, costs: Costs, now: u64) -> Refusal {
        let mut worst = Worst::default();
        for (lane, &cost) in costs.iter().enumerate().filter(|&(_, &cost)| cost > 0) {
            let mut copy = buckets;
            if let Err(decision) = copy.draw(lane, cost, now) {
                worst.offer(|| self.explain(decision, limit, lane, cost, now));
            }
        }
        worst.0.expect("a lane refused")
    }

    /// A lane's decision as a refusal.
    pub(crate) fn explain(
        &self,
        decision: Decision,
        limit: u32,
        lane: usize,
        needed: u64,
        now: u64,
    ) -> Refusal {
        let capacity = || self.limits.arithmetic(limit, lane).capacity();
        let (reason, available, retry_after) = match decision {
            Decision::Exhausted { available, retry_at } => {
                let wait = |at: u64| {
                    Duration::from_nanos(at.saturating_sub(now).saturating_add(self.clock.granularity()))
                };
                (Reason::Exhausted, available, retry_at.map(wait))
            }
            Decision::PastHorizon => (Reason::PastHorizon, 0, None),
            Decision::Impossible | Decision::Admit { .. } => (Reason::Impossible, capacity(), None),
        };
        Refusal { limit: self.limits.name(limit, lane), reason, needed, available, retry_after }
    }

    /// No cell for a newcomer. Names the first limit that the call draws on.
    #[cold]
    pub(crate) fn table_full(&self, limit: u32, costs: Costs) -> Refusal {
        let lane = usize::from(costs[0] == 0);
        Refusal {
            limit: self.limits.name(limit, lane),
            reason: Reason::TableFull,
            needed: costs[lane],
            available: self.limits.arithmetic(limit, lane).capacity(),
            retry_after: None,
        }
    }

    /// A cost above the capacity, if there is one: checked before anything is looked up.
    #[inline]
    pub(crate) fn impossible(&self, limit: u32, costs: Costs) -> Option<Refusal> {
        let (lane, &cost) = costs
            .iter()
            .enumerate()
            .find(|&(lane, &cost)| cost > 0 && self.limits.arithmetic(limit, lane).units(cost).is_none())?;
        Some(self.explain(Decision::Impossible, limit, lane, cost, 0))
    }

    /// The buckets of `key` as they are now, and the time of the reading.
    pub(crate) fn peek(&self, key: &PackedKey<'_>, limit: u32) -> (Buckets<'_>, u64) {
        loop {
            let Find::Hit(hit) = self.find(key) else {
                return (self.limits.absent(limit), self.clock.now());
            };
            let word = self.settled(hit.cell);
            if !word.same_life(hit.word, self.limits.layout) {
                continue;
            }
            let now = self.clock.now();
            if self.cell(hit.cell).confirm(word).is_ok() {
                return (self.limits.read(word), now);
            }
        }
    }
}

/// The refusal to report: the first that is not about waiting, else the longest wait (the first of equals).
#[derive(Debug, Default)]
pub(crate) struct Worst(pub(crate) Option<Refusal>);

impl Worst {
    pub(crate) fn offer(&mut self, refusal: impl FnOnce() -> Refusal) {
        let new = refusal();
        // Impossible and past-horizon refusals precede exhausted ones; no wait at all is the longest wait.
        let rank = |r: &Refusal| match r.reason {
            Reason::Impossible => (2, Duration::MAX),
            Reason::PastHorizon => (1, Duration::MAX),
            _ => (0, r.retry_after.unwrap_or(Duration::MAX)),
        };
        match &self.0 {
            Some(old) if rank(old) >= rank(&new) => {}
            _ => self.0 = Some(new),
        }
    }
}
