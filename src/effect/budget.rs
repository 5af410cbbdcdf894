//! One effect's quotas at work: all of them grant, or none is touched.

use super::error::EffectsError;
use super::hours::AllowedHours;
use super::journal::RefusedBy;
use super::rule::{Amount, EffectRule, OnExhausted};
use crate::plan::Plan;
use crate::quota::{Arithmetic, Decision};
use crate::refund::{Receipt, Refunded, refund};
use crate::refusal::Reason;
use crate::table::Table;
use crate::table::limits::Limits;
use crate::time::{EngineClock, nanos};
use smallvec::SmallVec;

/// An effect's rule and the tables of its quotas, in the rule's order.
pub(super) struct Budget {
    pub(super) tool: String,
    pub(super) quotas: Vec<Quota>,
    pub(super) hours: Option<AllowedHours>,
    pub(super) ttl: u64,
}

/// One quota, with a bucket for each key.
pub(super) struct Quota {
    pub(super) definition: String,
    pub(super) on_exhausted: OnExhausted,
    pub(super) table: Box<Table>,
}

/// A committed draw on every quota.
pub(super) struct Granted {
    pub(super) at: u64,
    /// One for each quota.
    pub(super) receipts: SmallVec<[Receipt; 2]>,
}

/// Nothing was drawn.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) at: u64,
    pub(super) why: Why,
    /// The quotas that refused, with their buckets' states (unless the cost is impossible) and when they allow the cost.
    pub(super) refused: SmallVec<[RefusedBy; 2]>,
    /// When the same call is granted, if nobody comes before.
    pub(super) retry_at: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Some quota is exhausted, maybe outside the hours too.
    Exhausted,
    /// The hours alone.
    Hours,
    Impossible,
    TableFull,
    PastHorizon,
}

impl Why {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Why::Exhausted => "exhausted",
            Why::Hours => "hours",
            Why::Impossible => "impossible",
            Why::TableFull => "table-full",
            Why::PastHorizon => "past-horizon",
        }
    }
}

impl Budget {
    /// Builds the tables. `floor` says of a quota's definition, and of its line, at which mark keys without a bucket begin.
    pub(super) fn new(
        rule: &EffectRule,
        clock: &EngineClock,
        epoch: u64,
        floor: impl Fn(&str, &Arithmetic) -> u64,
    ) -> Result<Self, EffectsError> {
        let tool = rule.tool().to_owned();
        if rule.quotas().is_empty() {
            return Err(EffectsError::NoQuota { tool });
        }
        if rule.permit_ttl().is_zero() {
            return Err(EffectsError::ZeroTtl { tool });
        }
        if rule.allowed_hours().is_some_and(AllowedHours::never_opens) {
            return Err(EffectsError::Hours { tool, error: super::HoursError::NoDay });
        }
        let mut quotas: Vec<Quota> = Vec::new();
        for quota in rule.quotas() {
            let definition = quota.definition();
            let nothing = match quota.amount() {
                Amount::Rate { limit, burst, .. } => limit == 0 || burst == 0,
                Amount::Max { limit, .. } => limit == 0,
            };
            if nothing {
                return Err(EffectsError::ZeroLimit { tool, quota: definition });
            }
            if quotas.iter().any(|known| known.definition == definition) {
                return Err(EffectsError::TwiceTheSameQuota { tool, quota: definition });
            }
            let floor = |line: &Arithmetic| floor(&definition, line);
            let table = Limits::refundable(definition.clone().into(), quota.quota(epoch), floor)
                .and_then(|limits| Table::new(limits, clock.clone(), rule.buckets()));
            let table = table.map_err(|error| EffectsError::Quota {
                tool: tool.clone(),
                quota: definition.clone(),
                error,
            })?;
            quotas.push(Quota { definition, on_exhausted: quota.when_exhausted(), table });
        }
        Ok(Self { tool, quotas, hours: rule.allowed_hours().cloned(), ttl: nanos(rule.permit_ttl()) })
    }

    /// Draws `cost` for `key` on every quota, or on none. The cost is above 0.
    pub(super) fn draw(
        &self,
        key: &[u8],
        cost: u64,
        clock: &EngineClock,
        epoch: u64,
    ) -> Result<Granted, Box<Refusal>> {
        let impossible = |quota: &Quota| quota.table.limits.arithmetic(0, 0).units(cost).is_none();
        if self.quotas.iter().any(impossible) {
            let refused = self.quotas.iter().enumerate().filter(|(_, quota)| impossible(quota));
            let refused = refused.map(|(quota, _)| RefusedBy { quota, state: None, retry_at: None });
            let refused = refused.collect();
            return Err(Box::new(Refusal { at: clock.now(), why: Why::Impossible, refused, retry_at: None }));
        }
        let mut plan = Plan::new();
        for quota in &self.quotas {
            plan.draw(&quota.table, 0, 0, [cost, 0], |bytes| bytes.raw(key));
        }
        if self.hours.is_some() && !self.is_open(clock.now(), epoch) {
            // Closed: nothing is drawn, and the quotas only say when they would allow it.
            let exhausted = plan.would_be_refused();
            if !self.is_open(plan.judged_at(), epoch) {
                return Err(self.refusal(&plan, if exhausted { Why::Exhausted } else { Why::Hours }, epoch));
            }
            // They opened in between.
        }
        match plan.take_all() {
            Ok(()) => Ok(Granted { at: plan.judged_at(), receipts: plan.receipts().collect() }),
            Err(refused) => {
                let why = match refused.refusal.reason {
                    Reason::TableFull => Why::TableFull,
                    Reason::PastHorizon => Why::PastHorizon,
                    Reason::Impossible => Why::Impossible,
                    _ => Why::Exhausted,
                };
                Err(self.refusal(&plan, why, epoch))
            }
        }
    }

    /// The refusal of a plan that was judged.
    fn refusal(&self, plan: &Plan<'_>, why: Why, epoch: u64) -> Box<Refusal> {
        let at = plan.judged_at();
        if !matches!(why, Why::Exhausted | Why::Hours) {
            return Box::new(Refusal { at, why, refused: SmallVec::new(), retry_at: None });
        }
        let mut refused = SmallVec::new();
        // No wait helps once one quota has none that does.
        let mut latest = Some(at);
        if why == Why::Exhausted {
            for (quota, state, decision) in plan.refusals() {
                let retry_at = match decision {
                    Decision::Exhausted { retry_at, .. } => retry_at,
                    _ => None,
                };
                refused.push(RefusedBy { quota, state: Some(state), retry_at });
                latest = latest.zip(retry_at).map(|(latest, at)| latest.max(at));
            }
        }
        let retry_at = latest.and_then(|at| self.next_open(at, epoch));
        Box::new(Refusal { at, why, refused, retry_at })
    }

    /// The first time at or after `at` within the allowed hours; the hours are in wall-clock time.
    pub(super) fn next_open(&self, at: u64, epoch: u64) -> Option<u64> {
        match &self.hours {
            None => Some(at),
            Some(hours) => hours.next_open(epoch.checked_add(at)?)?.checked_sub(epoch),
        }
    }

    /// Is the effect allowed at `at`?
    pub(super) fn is_open(&self, at: u64, epoch: u64) -> bool {
        self.hours.is_none() || self.next_open(at, epoch) == Some(at)
    }

    /// What becomes of a call that was refused: the strictest answer of those that refused it.
    pub(super) fn answer(&self, refusal: &Refusal, epoch: u64) -> OnExhausted {
        if !matches!(refusal.why, Why::Exhausted | Why::Hours) {
            return OnExhausted::Block;
        }
        let quotas = refusal.refused.iter().map(|by| self.quotas[by.quota].on_exhausted);
        let closed = self.hours.as_ref().filter(|_| !self.is_open(refusal.at, epoch));
        quotas.chain(closed.map(AllowedHours::when_outside)).max().unwrap_or_default()
    }

    /// The name of what refused with the longest wait.
    pub(super) fn culprit(&self, refusal: &Refusal) -> String {
        let wait = |by: &&RefusedBy| by.retry_at.unwrap_or(u64::MAX);
        // The first of equals.
        let worst = refusal.refused.iter().rev().max_by_key(wait);
        match (worst, &self.hours) {
            (Some(by), _) => self.quotas[by.quota].definition.clone(),
            (None, Some(hours)) if refusal.why == Why::Hours => hours.to_string(),
            (None, _) => self.quotas[0].definition.clone(),
        }
    }

    /// Gives back what time has not given back of a grant's draws. In the quotas' order; `None` where nothing is left.
    pub(super) fn refund(&self, receipts: &[Receipt]) -> (u64, SmallVec<[Option<Refunded>; 2]>) {
        let draws: SmallVec<[(&Table, Receipt); 2]> =
            self.quotas.iter().map(|quota| &*quota.table).zip(receipts.iter().copied()).collect();
        refund(&draws)
    }
}
