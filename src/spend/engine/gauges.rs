//! What is taken from gauges and given back to them, in all accounts at once.

use super::Engine;
use super::accounts::Front;
use super::judge::{Asked, Gauged, Granted, force, judge};
use crate::gauge::{Posting, Seen, post};
use crate::spend::amount::Quantities;
use crate::spend::event::SpendEvent;
use crate::spend::policy::ReducedProfile;
use crate::spend::record::{Account, Millis};
use crate::spend::refusal::{Decision, Refusal, Tier};
use std::sync::Arc;

impl Engine {
    /// One posting for each gauge, that gives back what was taken at these instants.
    pub(crate) fn postings<'a>(
        &self,
        gauged: &Gauged<'a>,
        back: &[(Millis, Quantities)],
    ) -> Vec<Posting<'a>> {
        (0..gauged.places.len())
            .map(|number| {
                let line = gauged.line(number);
                let (at, limit) = gauged.places[number];
                let give = back
                    .iter()
                    .filter(|(_, amounts)| amounts[line.dimension] > 0)
                    .map(|(at, amounts)| (line.window.slot(*at), amounts[line.dimension]));
                Posting { gauge: gauged.accounts[at].gauges.gauge(limit), give: give.collect() }
            })
            .collect()
    }

    /// Gives back at `now`. Nothing of it can fail: what is given back is in the store already, or never came there.
    pub(crate) fn give_back(&self, accounts: &[Arc<Front>], back: &[(Millis, Quantities)], now: Millis) {
        if back.is_empty() {
            return;
        }
        let gauged = Gauged::new(&self.limits, accounts);
        let postings = self.postings(&gauged, back);
        let nothing =
            |_: &Millis, seen: &[Seen<'_>]| Ok::<_, (usize, ())>((seen.iter().map(|_| 0).collect(), ()));
        // A gauge that is in a later slot by now stays in it.
        let _ = post(&postings, || now, slots(&gauged), nothing);
    }

    /// Takes what is granted of `asked` from all gauges, or nothing.
    pub(crate) fn take(
        &self,
        accounts: &[Arc<Front>],
        asked: &Asked,
    ) -> (Millis, Result<Granted, Box<Refusal>>) {
        let gauged = Gauged::new(&self.limits, accounts);
        let postings = self.postings(&gauged, &[]);
        let tiers = &self.limits.policy().tiers;
        post(&postings, || self.now(), slots(&gauged), |&now, seen| judge(&gauged, tiers, asked, now, seen))
    }

    /// Takes an overrun from all gauges, whatever their limits. The time at which.
    pub(crate) fn take_overrun(&self, accounts: &[Arc<Front>], amounts: &Quantities) -> Millis {
        if amounts.is_none() {
            return self.now();
        }
        let gauged = Gauged::new(&self.limits, accounts);
        let postings = self.postings(&gauged, &[]);
        let all = |_: &Millis, seen: &[Seen<'_>]| Ok::<_, (usize, ())>((force(&gauged, amounts, seen), ()));
        post(&postings, || self.now(), slots(&gauged), all).0
    }

    pub(crate) fn decision(&self, granted: &Granted) -> Decision {
        let profile = &self.limits.policy().reduced;
        let reduced = (granted.tier != Tier::Full).then(|| {
            let resets = granted.set_by.as_ref().and_then(|cause| cause.resets_at);
            Box::new(ReducedProfile { banner: profile.banner_at(resets), ..profile.clone() })
        });
        Decision { granted: granted.amounts, tier: granted.tier, set_by: granted.set_by.clone(), reduced }
    }

    /// Notes in which tier each account is.
    pub(crate) fn enter_tiers(&self, accounts: &[Arc<Front>], tiers: &[Tier], events: &mut Vec<SpendEvent>) {
        for (account, &to) in accounts.iter().zip(tiers) {
            let from = account.enter(to);
            if from != to {
                let scope = self.limits.scope_name(account.scope).to_owned();
                let account = Account { scope, key: account.key.clone() };
                events.push(SpendEvent::TierChanged { account, from, to });
            }
        }
    }
}

/// The slot of each gauge in which a time lies.
pub(crate) fn slots<'a>(gauged: &'a Gauged<'_>) -> impl Fn(usize, &Millis) -> u32 + 'a {
    |number, &at| gauged.line(number).window.slot(at)
}
