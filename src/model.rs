//! What models of the real code need beyond the public interface. Exists under `--cfg tollgate_loom` and
//! `--cfg tollgate_shuttle` only.

use crate::gauge::{Gauge, Gauges, Posting, Start, Takes, post};
use crate::key::Key;
use crate::limiter::{InFlight, LimitSet, Limiter, Pools};
use crate::plan::Plan;
use crate::quota::Quota;
use crate::refund::{Receipt, refund};
use crate::refusal::Refusal;
use crate::table::Table;
use crate::table::directory::fingerprint;
use crate::table::draw::Admission;
use crate::table::limits::Limits;
use crate::time::{Clock, EngineClock};

/// A thing with a table.
pub trait Modelled {
    #[doc(hidden)]
    fn table(&self) -> &dyn Hooks;

    /// Checks every invariant that holds when nobody writes; panics with what is wrong.
    fn audit(&self) {
        self.table().audit();
    }

    /// Rebuilds the directories.
    fn rebuild(&self) {
        self.table().rebuild_all();
    }

    /// What directory entries keep of a key's hash: for keys that collide.
    fn fingerprint(&self, key: u16) -> u64 {
        self.table().fingerprint(key)
    }
}

#[doc(hidden)]
pub trait Hooks {
    fn audit(&self);
    fn rebuild_all(&self);
    fn fingerprint(&self, key: u16) -> u64;
}

impl Hooks for Table {
    fn audit(&self) {
        Table::audit(self);
    }
    fn rebuild_all(&self) {
        Table::rebuild_all(self);
    }
    fn fingerprint(&self, key: u16) -> u64 {
        fingerprint(self.hash(0, &key.to_be_bytes()))
    }
}

impl<K: Key + ?Sized> Modelled for Limiter<K> {
    fn table(&self) -> &dyn Hooks {
        self.table_for_models()
    }
}

impl<K: Key + ?Sized> Modelled for InFlight<K> {
    fn table(&self) -> &dyn Hooks {
        self.table_for_models()
    }
}

impl<K: Key + ?Sized> Modelled for Pools<K> {
    fn table(&self) -> &dyn Hooks {
        self.table_for_models()
    }
}

impl Modelled for LimitSet {
    fn table(&self) -> &dyn Hooks {
        self.table_for_models()
    }
}

/// A table of pair cells, as the guards have, without their contexts.
#[derive(Debug)]
pub struct Pairs(Box<Table>);

impl Pairs {
    /// Two limits, for `cells` keys.
    pub fn new(quotas: [Quota; 2], cells: usize, clock: impl Clock) -> Self {
        let [first, second] = quotas;
        let limits = Limits::pair([("first".into(), first), ("second".into(), second)]);
        let limits = limits.expect("the model's quotas fit its words");
        Self(Table::new(limits, EngineClock::new(clock), cells * 2).expect("a few cells"))
    }

    /// Draws on both lanes of `key`, or on neither.
    pub fn draw(&self, key: u8, costs: [u64; 2]) -> Result<[Option<Admission>; 2], Refusal> {
        let drawn = self.0.draw(&self.0.pack(0, &[key]), 0, costs)?;
        Ok([0, 1].map(|lane| (costs[lane] > 0).then(|| drawn.admission(lane))))
    }

    /// Whole tokens on both lanes, seen at one instant.
    pub fn peek(&self, key: u8) -> [u64; 2] {
        let (buckets, now) = self.0.peek(&self.0.pack(0, &[key]), 0);
        [buckets.available(0, now), buckets.available(1, now)]
    }

    /// Buckets in use.
    pub fn buckets(&self) -> usize {
        self.0.len()
    }
}

/// A limit whose draws can be refunded, in a table of its own.
#[derive(Debug)]
pub struct Refundable(Box<Table>);

/// A draw that can be refunded.
#[derive(Debug, Clone, Copy)]
pub struct Draw(Receipt);

impl Refundable {
    /// A limit for `cells` keys.
    pub fn new(quota: Quota, cells: usize, clock: impl Clock) -> Self {
        let limits = Limits::refundable("refundable".into(), quota, |_| 0);
        let limits = limits.expect("the model's quota fits its words");
        Self(Table::new(limits, EngineClock::new(clock), cells).expect("a few cells"))
    }

    /// Draws `cost` for each of `keys`, or for none.
    pub fn draw(&self, keys: &[u8], cost: u64) -> Result<Vec<Draw>, Refusal> {
        let draws: Vec<(&Self, u8)> = keys.iter().map(|&key| (self, key)).collect();
        Self::draw_all(&draws, cost)
    }

    /// Draws `cost` on each of these buckets, or on none.
    pub fn draw_all(buckets: &[(&Self, u8)], cost: u64) -> Result<Vec<Draw>, Refusal> {
        let mut plan = Plan::new();
        for &(table, key) in buckets {
            plan.draw(&table.0, 0, 0, [cost, 0], |bytes| bytes.raw(&[key]));
        }
        plan.take_all().map_err(|refused| refused.refusal)?;
        Ok(plan.receipts().map(Draw).collect())
    }

    /// Gives back what time has not given back of these draws. Says how many units of each.
    pub fn refund(&self, draws: &[Draw]) -> Vec<u64> {
        let draws: Vec<(&Self, Draw)> = draws.iter().map(|&draw| (self, draw)).collect();
        Self::refund_all(&draws)
    }

    /// As [`refund`](Self::refund), of draws on several tables.
    pub fn refund_all(draws: &[(&Self, Draw)]) -> Vec<u64> {
        let claims: Vec<_> = draws.iter().map(|(table, draw)| (&*table.0, draw.0)).collect();
        let (_, changes) = refund(&claims);
        changes
            .iter()
            .map(|change| change.map_or(0, |change| change.before.mark - change.after.mark))
            .collect()
    }

    /// Whole tokens of `key`.
    pub fn peek(&self, key: u8) -> u64 {
        let (buckets, now) = self.0.peek(&self.0.pack(0, &[key]), 0);
        buckets.available(0, now)
    }

    /// Buckets in use.
    pub fn buckets(&self) -> usize {
        self.0.len()
    }
}

/// Gauges of budgets, with slots of 10 ns.
#[derive(Debug)]
pub struct Meters<C> {
    gauges: Gauges,
    clock: C,
    most: u64,
}

impl<C: Clock> Meters<C> {
    /// The most that a gauge counts.
    pub const COUNTED: u64 = Gauge::MOST;

    /// `count` gauges that hold up to `most` in the current slot and `reach` before it.
    pub fn new(count: usize, reach: u32, most: u64, clock: C) -> Self {
        let gauges = Gauges::new((0..count).map(|_| Start { reach, slot: 0, used: Vec::new() }));
        Self { gauges, clock, most }
    }

    /// Takes from each of these gauges, if all have room. Says in which slot.
    pub fn take(&self, takes: &[(usize, u64)]) -> Option<u32> {
        self.post(takes.iter().map(|&(gauge, amount)| (gauge, 0, 0, amount)).collect())
    }

    /// Gives back what was taken from these gauges in `slot`.
    pub fn give(&self, gives: &[(usize, u64)], slot: u32) {
        self.post(gives.iter().map(|&(gauge, amount)| (gauge, slot, amount, 0)).collect());
    }

    fn post(&self, changes: Vec<(usize, u32, u64, u64)>) -> Option<u32> {
        let posting = |&(gauge, slot, amount, _): &(usize, u32, u64, u64)| Posting {
            gauge: self.gauges.gauge(gauge),
            give: (amount > 0).then_some((slot, amount)).into_iter().collect(),
        };
        let postings: Vec<_> = changes.iter().map(posting).collect();
        let (_, taken) = post(
            &postings,
            || self.clock.now(),
            |_, now| u32::try_from(now / 10).expect("models are short"),
            |_, seen| {
                for (number, (seen, change)) in seen.iter().zip(&changes).enumerate() {
                    if change.3 > 0 && seen.used + change.3 > self.most {
                        return Err((number, ()));
                    }
                }
                Ok((changes.iter().map(|change| change.3).collect::<Takes>(), seen[0].slot))
            },
        );
        taken.ok()
    }

    /// The current slot.
    pub fn slot(&self) -> u32 {
        u32::try_from(self.clock.now() / 10).expect("models are short")
    }

    /// What counts in a gauge now.
    pub fn used(&self, gauge: usize) -> u64 {
        let posting = [Posting { gauge: self.gauges.gauge(gauge), give: Default::default() }];
        let slot = |_: usize, now: &u64| u32::try_from(now / 10).expect("models are short");
        let look = |_: &u64, seen: &[crate::gauge::Seen<'_>]| {
            Ok::<_, (usize, ())>(([0].into_iter().collect::<Takes>(), seen[0].used))
        };
        post(&posting, || self.clock.now(), slot, look).1.expect("nothing refuses")
    }

    /// Checks every gauge; panics with what is wrong.
    pub fn audit(&self) {
        (0..self.gauges.len()).for_each(|number| self.gauges.gauge(number).audit());
    }
}

impl Modelled for Refundable {
    fn table(&self) -> &dyn Hooks {
        &*self.0
    }
}

impl Modelled for Pairs {
    fn table(&self) -> &dyn Hooks {
        &*self.0
    }
}
