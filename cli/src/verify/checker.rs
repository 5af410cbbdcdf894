//! Records, one after another: what can be said of each where it stands, and what of all of them at the end.

use super::bounds::{self, Emission};
use super::bucket::{Bucket, Change, Kind, Nothing, Sighting, Unnamed, Violation, owed};
use super::header::{Effect, Header};
use super::permits::{End, Grant, Index, Permits};
use super::record::{Denied, Draw, Place, Reason, Record, State};
use std::collections::HashMap;
use tollgate::effect::{EffectPolicy, OnExhausted};

/// Every quota counts for five years of 365.25 days at least, in nanoseconds.
const HORIZON: u64 = 5 * 31_557_600 * 1_000_000_000;

/// What a journal that is accepted contains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub grants: u64,
    pub emitted: u64,
    pub refunded: u64,
    pub forfeited: u64,
    pub held: u64,
    pub denied: u64,
    pub deferred: u64,
    pub shed: u64,
    pub restored: u64,
    /// Refusals that do not name a quota which, as far as the journal tells, had no room either.
    pub unnamed: u64,
}

/// One key of one effect.
#[derive(Debug)]
struct Owner {
    effect: usize,
    /// Its first bucket in [`Checker::buckets`]; there is one for each quota.
    buckets: usize,
    emissions: Vec<Emission>,
}

/// Checks records in the order of the file.
#[derive(Debug)]
pub struct Checker<'p> {
    policy: &'p EffectPolicy,
    header: Option<Header>,
    /// By effect: the owners by their keys.
    owners_by_key: Vec<HashMap<String, u32>>,
    owners: Vec<Owner>,
    buckets: Vec<Bucket>,
    permits: Permits,
    counts: Counts,
}

impl<'p> Checker<'p> {
    pub fn new(policy: &'p EffectPolicy) -> Self {
        Self {
            policy,
            header: None,
            owners_by_key: Vec::new(),
            owners: Vec::new(),
            buckets: Vec::new(),
            permits: Permits::default(),
            counts: Counts::default(),
        }
    }

    /// Takes in the record of a line, counted from 1. A seal is the caller's.
    ///
    /// # Errors
    /// In words, what it violates.
    pub fn record(&mut self, line: u32, record: Record) -> Result<(), String> {
        // Out of its place while the record is judged by it.
        match (self.header.take(), record) {
            (None, Record::Open { format, t, epoch, effects }) => {
                let header = Header::new(self.policy, format, t, epoch, &effects)?;
                self.owners_by_key = vec![HashMap::new(); header.effects.len()];
                self.header = Some(header);
                Ok(())
            }
            (None, _) => Err("the first record is not of kind \"open\"".into()),
            (Some(_), Record::Open { .. }) => Err("a second record of kind \"open\"".into()),
            (Some(header), record) => {
                let checked = self.body(&header, line, record);
                self.header = Some(header);
                checked
            }
        }
    }

    fn body(&mut self, header: &Header, line: u32, record: Record) -> Result<(), String> {
        match record {
            Record::Grant { place, grant, cost, ticket, draws } => {
                self.grant(header, line, &place, (grant, cost, ticket), &draws)
            }
            Record::Denied { place, denied } => self.denied(header, line, &place, &denied),
            Record::Refund { place, grant, draws } => self.refund(header, line, &place, grant, &draws),
            Record::Emit { place, grant } => self.emit(header, line, &place, grant),
            Record::Forfeit { place, grant } => {
                let (owner, _) = self.owner(header, &place)?;
                self.permits.end(grant, owner, place.t, End::Forfeited).map(|_| ())
            }
            Record::Restore { place, quota, at } => self.restore(header, line, &place, &quota, at),
            Record::Open { .. } | Record::Seal { .. } => Err("a record that belongs elsewhere".into()),
        }
    }

    /// Whose bucket a record is about. Makes an owner that was not there yet.
    fn owner<'h>(&mut self, header: &'h Header, place: &Place) -> Result<(u32, &'h Effect), String> {
        let number = header.number(&place.effect);
        let number = number.ok_or_else(|| format!("effect {:?} is not in the first line", place.effect))?;
        let effect = &header.effects[number];
        if place.t < header.t {
            return Err(format!("t is {}, before the journal began", place.t));
        }
        if header.epoch.checked_add(place.t).is_none() {
            return Err(format!("t is {}, past the end of the calendar", place.t));
        }
        if let Some(&owner) = self.owners_by_key[number].get(&place.key) {
            return Ok((owner, effect));
        }
        let owner = u32::try_from(self.owners.len()).map_err(|_| "more keys than can be checked at once")?;
        self.owners_by_key[number].insert(place.key.clone(), owner);
        self.owners.push(Owner { effect: number, buckets: self.buckets.len(), emissions: Vec::new() });
        self.buckets.extend(effect.quotas.iter().map(|_| Bucket::default()));
        Ok((owner, effect))
    }

    fn grant(
        &mut self,
        header: &Header,
        line: u32,
        place: &Place,
        (number, cost, ticket): (u64, u64, Option<u64>),
        draws: &[Draw],
    ) -> Result<(), String> {
        let t = place.t;
        let (owner, effect) = self.owner(header, place)?;
        if cost == 0 {
            return Err("a grant of cost 0".into());
        }
        if let Some(ticket) = ticket {
            self.permits.ticket(ticket, owner, cost)?;
        }
        if draws.len() != effect.quotas.len() {
            return Err(format!("{} draws, the effect has {} quotas", draws.len(), effect.quotas.len()));
        }
        let grant = Grant { t, cost, owner, draws: self.permits.draws.len(), ticket, end: End::Held };
        let grant = self.permits.add(number, grant)?;
        let first = self.owners[owner as usize].buckets;
        for ((place, quota), draw) in effect.quotas.iter().enumerate().zip(draws) {
            let name = &quota.definition;
            if draw.quota != *name {
                return Err(format!("a draw on quota {:?} in the place of {name:?}", draw.quota));
            }
            let units = quota.line.units(cost);
            let units =
                units.ok_or_else(|| format!("a cost of {cost} is above the capacity of quota {name:?}"))?;
            let accrued = quota.line.accrued(t);
            let right = u128::from(draw.before.mark).max(accrued) + u128::from(units);
            if u128::from(draw.after.mark) != right {
                return Err(format!("quota {name:?} ends at {}, not at {right}", draw.after.mark));
            }
            if right > accrued + u128::from(quota.line.capacity) {
                let most = accrued + u128::from(quota.line.capacity);
                return Err(format!(
                    "quota {name:?} is drawn up to {right}, above what it has released, {most}"
                ));
            }
            if draw.after.refunded != draw.before.refunded {
                return Err(format!("a grant changes what was refunded to quota {name:?}"));
            }
            self.permits.draws.push(draw.after);
            let change = Change { t, before: draw.before, after: draw.after, line, grant, kind: Kind::Grant };
            self.buckets[first + place].changes.push(change);
        }
        self.counts.grants += 1;
        Ok(())
    }

    fn refund(
        &mut self,
        header: &Header,
        line: u32,
        place: &Place,
        number: u64,
        draws: &[Draw],
    ) -> Result<(), String> {
        let t = place.t;
        let (owner, effect) = self.owner(header, place)?;
        let grant = self.permits.end(number, owner, t, End::Refunded)?;
        let Grant { cost, draws: tops, .. } = self.permits.grants[grant as usize];
        let first = self.owners[owner as usize].buckets;
        let mut rest = draws.iter().peekable();
        for (place, quota) in effect.quotas.iter().enumerate() {
            let name = &quota.definition;
            let top = self.permits.draws[tops + place];
            let bucket = &mut self.buckets[first + place];
            let Some(Draw { before, after, .. }) = rest.next_if(|draw| draw.quota == *name) else {
                bucket.nothings.push(Nothing { t, line, grant, top });
                continue;
            };
            if before.refunded < top.refunded {
                return Err(format!("quota {name:?}: less was refunded than when it was drawn on"));
            }
            let units = quota.line.units(cost).unwrap_or(0); // a grant's cost is below every capacity
            let room = quota.most_refunded.saturating_sub(before.refunded);
            let back = owed(quota, top, before.refunded, t).min(units).min(room);
            if back == 0 {
                return Err(format!("quota {name:?}: nothing is left to refund"));
            }
            let right = State { mark: before.mark.saturating_sub(back), refunded: before.refunded + back };
            if *after != right || before.mark < back {
                return Err(format!(
                    "quota {name:?}: the refund is {back} units, to [{},{}], not to [{},{}]",
                    right.mark, right.refunded, after.mark, after.refunded
                ));
            }
            bucket.changes.push(Change {
                t,
                before: *before,
                after: *after,
                line,
                grant,
                kind: Kind::Refund,
            });
        }
        match rest.next() {
            Some(draw) => Err(format!("a refund to quota {:?}, out of order or unknown", draw.quota)),
            None => Ok(()),
        }
    }

    fn emit(&mut self, header: &Header, line: u32, place: &Place, number: u64) -> Result<(), String> {
        let t = place.t;
        let (owner, effect) = self.owner(header, place)?;
        let grant = self.permits.end(number, owner, t, End::Emitted)?;
        let Grant { t: since, cost, ticket, .. } = self.permits.grants[grant as usize];
        if t - since > effect.ttl {
            return Err(format!(
                "emitted {} ns after its grant, which is more than its ttl of {} ns",
                t - since,
                effect.ttl
            ));
        }
        if header.next_open(effect, t) != Some(t) {
            return Err("emitted outside the allowed hours".into());
        }
        if let Some(ticket) = ticket {
            self.permits.emit_ticket(ticket)?;
        }
        self.owners[owner as usize].emissions.push(Emission { t, cost, line });
        Ok(())
    }

    fn restore(
        &mut self,
        header: &Header,
        line: u32,
        place: &Place,
        name: &str,
        at: State,
    ) -> Result<(), String> {
        let (owner, effect) = self.owner(header, place)?;
        let number = effect.quotas.iter().position(|quota| quota.definition == name);
        let number = number.ok_or_else(|| format!("effect {:?} has no quota {name:?}", effect.name))?;
        let line_of = &effect.quotas[number].line;
        if u128::from(at.mark) > line_of.accrued(place.t) + u128::from(line_of.capacity) {
            return Err(format!("quota {name:?} is restored beyond empty"));
        }
        let t = place.t;
        let change = Change { t, before: at, after: at, line, grant: Index::MAX, kind: Kind::Restore };
        self.buckets[self.owners[owner as usize].buckets + number].changes.push(change);
        self.counts.restored += 1;
        Ok(())
    }

    fn denied(&mut self, header: &Header, line: u32, place: &Place, denied: &Denied) -> Result<(), String> {
        let Denied { kind, cost, reason, ticket, retry_at, ref refused } = *denied;
        let t = place.t;
        let (owner, effect) = self.owner(header, place)?;
        if cost == 0 {
            return Err("a refusal of cost 0".into());
        }
        match ticket {
            Some(ticket) => self.permits.ticket(ticket, owner, cost)?,
            None if kind == OnExhausted::Defer => return Err("deferred without a ticket".into()),
            None => {}
        }
        let impossible: Vec<&str> = effect
            .quotas
            .iter()
            .filter(|quota| quota.line.units(cost).is_none())
            .map(|quota| quota.definition.as_str())
            .collect();
        // The strictest answer of those that refuse, and when all of them allow the cost.
        let (answer, when) = match reason {
            Reason::Exhausted | Reason::Hours => {
                if let [name, ..] = impossible.as_slice() {
                    return Err(format!(
                        "a cost of {cost} is above the capacity of quota {name:?}: it is impossible"
                    ));
                }
                self.exhausted(header, line, t, (owner, effect), denied)?
            }
            Reason::Impossible => {
                let named: Vec<&str> = refused.iter().map(|refused| refused.quota.as_str()).collect();
                if impossible.is_empty() || named != impossible {
                    return Err(format!(
                        "a cost of {cost} is above the capacity of {impossible:?}, not of {named:?}"
                    ));
                }
                if refused.iter().any(|refused| refused.at.is_some() || refused.retry_at.is_some()) {
                    return Err("a state where no state matters".into());
                }
                (OnExhausted::Block, None)
            }
            Reason::TableFull | Reason::PastHorizon => {
                if !refused.is_empty() {
                    return Err("quotas that refused, where none is asked".into());
                }
                if reason == Reason::PastHorizon && t < HORIZON {
                    return Err("past the horizon within five years".into());
                }
                (OnExhausted::Block, None)
            }
        };
        // Without a retry no call is kept, and one that cannot be kept is blocked.
        let kept = kind == OnExhausted::Defer && retry_at.is_none();
        let blocked = kind == OnExhausted::Block && answer == OnExhausted::Defer;
        if kind != answer && !blocked || kept {
            let word = |answer: OnExhausted| match answer {
                OnExhausted::Block => "deny",
                OnExhausted::Defer => "defer",
                OnExhausted::Shed => "shed",
            };
            return Err(format!("the kind is {:?}, the policy's answer is {:?}", word(kind), word(answer)));
        }
        if retry_at != when {
            let show = |at: Option<u64>| at.map_or("never".to_owned(), |at| at.to_string());
            return Err(format!("retry_at is {}, not {}", show(retry_at), show(when)));
        }
        match kind {
            OnExhausted::Block => self.counts.denied += 1,
            OnExhausted::Defer => self.counts.deferred += 1,
            OnExhausted::Shed => self.counts.shed += 1,
        }
        Ok(())
    }

    /// A refusal by quotas or hours: the strictest answer, and the first instant at which all allow the cost.
    fn exhausted(
        &mut self,
        header: &Header,
        line: u32,
        t: u64,
        (owner, effect): (u32, &Effect),
        denied: &Denied,
    ) -> Result<(OnExhausted, Option<u64>), String> {
        let opens = header.next_open(effect, t);
        let outside = effect.hours.as_ref().filter(|_| opens != Some(t)).map(|hours| hours.when_outside());
        match denied.reason {
            Reason::Hours if outside.is_none() => return Err("refused by hours that allow it".into()),
            Reason::Hours if !denied.refused.is_empty() => {
                return Err("quotas refused too: the reason is \"exhausted\"".into());
            }
            Reason::Exhausted if denied.refused.is_empty() => return Err("no quota refused".into()),
            _ => {}
        }
        let mut answers: Vec<OnExhausted> = outside.into_iter().collect();
        let mut latest = Some(t);
        let first = self.owners[owner as usize].buckets;
        let mut rest = denied.refused.iter().peekable();
        for (place, quota) in effect.quotas.iter().enumerate() {
            let units = quota.line.units(denied.cost).unwrap_or(0); // it is not impossible
            let bucket = &mut self.buckets[first + place];
            let Some(refused) = rest.next_if(|refused| refused.quota == quota.definition) else {
                bucket.unnamed.push(Unnamed { t, units });
                continue;
            };
            let name = &quota.definition;
            let state = refused.at.ok_or_else(|| format!("quota {name:?} refused without a state"))?;
            if quota.line.fits(state.mark, units, t) {
                return Err(format!("quota {name:?} refused although the cost fits"));
            }
            let retry_at = quota.line.first_fit(state.mark, units);
            match (refused.retry_at, retry_at) {
                (Some(told), right) if Some(told) != right => {
                    let right = right.map_or("never".to_owned(), |right| right.to_string());
                    return Err(format!(
                        "quota {name:?}: retry_at is {told}, the first instant at which the cost fits is {right}"
                    ));
                }
                (None, Some(right)) if right <= HORIZON => {
                    return Err(format!("quota {name:?} has no retry_at, the cost fits at {right}"));
                }
                _ => {}
            }
            latest = latest.zip(refused.retry_at).map(|(latest, at)| latest.max(at));
            answers.push(quota.on_exhausted);
            bucket.sightings.push(Sighting { t, line, state });
        }
        if let Some(refused) = rest.next() {
            return Err(format!("quota {:?} refused, out of order or unknown", refused.quota));
        }
        let answer = answers.into_iter().max().unwrap_or_default();
        Ok((answer, latest.and_then(|at| header.next_open(effect, at))))
    }

    /// What holds of all records together.
    ///
    /// # Errors
    /// Of the violations of all buckets, the one with the lowest line.
    pub fn finish(mut self) -> Result<Counts, Violation> {
        let Some(header) = self.header.take() else { return Ok(self.counts) };
        let mut worst: Option<Violation> = None;
        let mut offer = |found: Result<(), Violation>| {
            if let Err(violation) = found
                && worst.as_ref().is_none_or(|worst| violation.line < worst.line)
            {
                worst = Some(violation);
            }
        };
        for owner in &mut self.owners {
            let effect = &header.effects[owner.effect];
            owner.emissions.sort_by_key(|emission| (emission.t, emission.line));
            for (place, quota) in effect.quotas.iter().enumerate() {
                // Taken out, so that each bucket's memory is free when the next is looked at.
                let mut bucket = std::mem::take(&mut self.buckets[owner.buckets + place]);
                match bucket.settle(quota) {
                    Ok(unnamed) => {
                        self.counts.unnamed += unnamed;
                        offer(bounds::grants(&bucket, quota, header.epoch, &self.permits));
                    }
                    Err(violation) => offer(Err(violation)),
                }
                offer(bounds::emissions(&owner.emissions, quota, effect.ttl));
            }
        }
        if let Some(violation) = worst {
            return Err(violation);
        }
        self.counts.emitted = self.permits.count(End::Emitted);
        self.counts.refunded = self.permits.count(End::Refunded);
        self.counts.forfeited = self.permits.count(End::Forfeited);
        self.counts.held = self.permits.count(End::Held);
        Ok(self.counts)
    }
}
