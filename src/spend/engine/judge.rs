//! The judgement: pure functions of what was seen on the gauges of all accounts of one call.

use super::accounts::Front;
use super::limits::{Limits, UNLIMITED};
use crate::gauge::{Seen, Takes};
use crate::spend::amount::{DIMENSIONS, Dimension, Quantities};
use crate::spend::policy::Tiers;
use crate::spend::record::Millis;
use crate::spend::refusal::{Reason, Refusal, Tier, TierCause};
use crate::spend::window::Window;
use std::sync::Arc;

/// The gauges of a call: each a limit of an account, in the order of the path and of the policy.
#[derive(Debug)]
pub(crate) struct Gauged<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) accounts: &'a [Arc<Front>],
    /// (account, limit) of each gauge.
    pub(crate) places: Vec<(usize, usize)>,
}

/// One limit of an account.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) scope: &'a str,
    pub(crate) account: &'a Front,
    pub(crate) dimension: Dimension,
    pub(crate) window: &'a Window,
    pub(crate) amount: u64,
}

impl<'a> Gauged<'a> {
    pub(crate) fn new(limits: &'a Limits, accounts: &'a [Arc<Front>]) -> Self {
        let places = accounts.iter().enumerate();
        let places = places.flat_map(|(at, account)| (0..account.gauges.len()).map(move |limit| (at, limit)));
        Self { limits, accounts, places: places.collect() }
    }

    pub(crate) fn line(&self, number: usize) -> Line<'a> {
        let (at, limit) = self.places[number];
        self.limits.line(&self.accounts[at], limit)
    }
}

/// What a call asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) most: Quantities,
    /// With less than this it is of no use: some of everything that is asked for at all.
    pub(crate) least: Quantities,
}

/// What it is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) amounts: Quantities,
    pub(crate) tier: Tier,
    pub(crate) set_by: Option<TierCause>,
    /// The tier of each account, in the order of the path.
    pub(crate) tiers: Vec<Tier>,
}

/// Grants as much of `asked` as every limit has room for, or names the limit that keeps the least from being granted for the
/// longest time: one without room, or one that is so full that nothing may cost.
pub(crate) fn judge(
    gauged: &Gauged<'_>,
    tiers: &Tiers,
    asked: &Asked,
    now: Millis,
    seen: &[Seen<'_>],
) -> Result<(Takes, Granted), (usize, Box<Refusal>)> {
    let mut worst: Option<(usize, Box<Refusal>)> = None;
    let mut refuse = |number, refusal| {
        if worst.as_ref().is_none_or(|(_, known)| longer(&refusal, known)) {
            worst = Some((number, Box::new(refusal)));
        }
    };
    let cost = asked.least[Dimension::Cost];
    let mut amounts = asked.most;
    let mut fullest: Option<(u64, usize)> = None;
    let mut levels = vec![0; gauged.accounts.len()];
    for (number, seen) in seen.iter().enumerate() {
        let line = gauged.line(number);
        let needed = asked.least[line.dimension];
        // A limit in debt refuses what asks for something of it, and lets pass what asks for nothing.
        let room = line.room(seen.used);
        if needed > room {
            refuse(number, line.refusal(seen, needed, now));
        }
        amounts[line.dimension] = amounts[line.dimension].min(room.max(needed));
        if tiers.dimensions.contains(&line.dimension) {
            let level = millionths(seen.used, line.amount);
            if level >= u64::from(tiers.blocked) && cost > 0 {
                refuse(number, line.blocked(seen, tiers, cost, now));
            }
            let (at, _) = gauged.places[number];
            levels[at] = level.max(levels[at]);
            if fullest.is_none_or(|(most, _)| level > most) {
                fullest = Some((level, number));
            }
        }
    }
    if let Some(refused) = worst {
        return Err(refused);
    }
    let tier_of = |level: u64| match level {
        _ if level >= u64::from(tiers.blocked) => Tier::Blocked,
        _ if level >= u64::from(tiers.reduced) => Tier::Reduced,
        _ => Tier::Full,
    };
    let tier = fullest.map_or(Tier::Full, |(level, _)| tier_of(level));
    let set_by = fullest.filter(|_| tier != Tier::Full).map(|(_, number)| {
        let (line, seen) = (gauged.line(number), &seen[number]);
        let threshold = if tier == Tier::Blocked { tiers.blocked } else { tiers.reduced };
        TierCause {
            scope: line.scope.to_owned(),
            key: line.account.key.clone(),
            dimension: line.dimension,
            window: line.window.to_string(),
            used: seen.used,
            limit: line.amount,
            resets_at: line.below(seen, threshold),
        }
    });
    let takes = (0..seen.len()).map(|number| amounts[gauged.line(number).dimension]).collect();
    let tiers = levels.into_iter().map(tier_of).collect();
    Ok((takes, Granted { amounts, tier, set_by, tiers }))
}

/// How full, in millionths, rounded down. A limit of 0 is full.
fn millionths(used: u64, limit: u64) -> u64 {
    let level = (u128::from(used) * 1_000_000).checked_div(u128::from(limit)).unwrap_or(1_000_000);
    u64::try_from(level).unwrap_or(u64::MAX)
}

/// Does one refusal last longer than the other? So that a caller who waits for it need not wait again for another.
fn longer(one: &Refusal, other: &Refusal) -> bool {
    let length = |refusal: &Refusal| match (refusal.reason, refusal.resets_at) {
        (Reason::Impossible, _) => (2, 0),
        (_, None) => (1, 0),
        (_, Some(at)) => (0, at),
    };
    length(one) > length(other)
}

impl Line<'_> {
    /// What it has room for when so much is used. A limit that there is not has room for anything: its gauge counts no further
    /// than it can.
    fn room(&self, used: u64) -> u64 {
        if self.amount == UNLIMITED { UNLIMITED } else { self.amount.saturating_sub(used) }
    }

    fn refusal(&self, seen: &Seen<'_>, needed: u64, now: Millis) -> Refusal {
        let (reason, resets_at) = if needed > self.amount {
            (Reason::Impossible, None)
        } else {
            let too_much = seen.used.saturating_add(needed).saturating_sub(self.amount);
            (Reason::Exhausted, self.frees(seen, too_much))
        };
        self.refused(seen, needed, now, reason, resets_at)
    }

    fn blocked(&self, seen: &Seen<'_>, tiers: &Tiers, cost: u64, now: Millis) -> Refusal {
        self.refused(seen, cost, now, Reason::Blocked, self.below(seen, tiers.blocked))
    }

    fn refused(
        &self,
        seen: &Seen<'_>,
        needed: u64,
        now: Millis,
        reason: Reason,
        resets_at: Option<Millis>,
    ) -> Refusal {
        let held = self.account.held()[self.dimension].min(seen.used);
        Refusal {
            scope: self.scope.to_owned(),
            key: self.account.key.clone(),
            dimension: self.dimension,
            window: self.window.to_string(),
            reason,
            limit: self.amount,
            spent: seen.used - held,
            held,
            needed,
            resets_at,
            retry_after: resets_at.map(|at| at.saturating_sub(now)),
        }
    }

    /// When `much` of what is used has lapsed.
    fn frees(&self, seen: &Seen<'_>, much: u64) -> Option<Millis> {
        self.window.lapses(seen.frees(much)?)
    }

    /// When less than `threshold` millionths are used.
    fn below(&self, seen: &Seen<'_>, threshold: u32) -> Option<Millis> {
        // The least amount that is at the threshold or above.
        let at = (u128::from(self.amount) * u128::from(threshold)).div_ceil(1_000_000);
        let at = u64::try_from(at).unwrap_or(u64::MAX);
        self.frees(seen, seen.used.saturating_sub(at).saturating_add(1))
    }
}

/// Takes `amounts` whatever the limits say: debt.
pub(crate) fn force(gauged: &Gauged<'_>, amounts: &Quantities, seen: &[Seen<'_>]) -> Takes {
    (0..seen.len()).map(|number| amounts[gauged.line(number).dimension]).collect()
}

/// The dimensions of which something is asked.
pub(crate) fn ones(asked: &Quantities) -> Quantities {
    let mut least = Quantities::NONE;
    for dimension in DIMENSIONS {
        least[dimension] = asked[dimension].min(1);
    }
    least
}
