//! Asking for a grant: draw, or say what becomes of the call. Every decision is recorded.

use super::budget::{Refusal, Why};
use super::effects::Effects;
use super::error::EffectError;
use super::journal::{Denied, DeniedKind, Entry, Recorder, States};
use super::ledger::{Deferred, Keeper, Ticket};
use super::outcome::{Outcome, Shed};
use super::permit::Grant;
use super::rule::OnExhausted;
use crate::key::KeyBytes;
use crate::table::limits::State;
use std::sync::atomic::Ordering;

/// What is asked of a budget.
pub(super) struct Ask<'a> {
    pub(super) effect: usize,
    pub(super) key: &'a [u8],
    pub(super) cost: u64,
    /// The deferred call that asks.
    pub(super) ticket: Option<Ticket>,
    /// What to keep if the answer is to defer.
    pub(super) keep: Option<Keep<'a>>,
}

/// A call that can be kept.
pub(crate) struct Keep<'a> {
    pub(crate) by: Keeper,
    pub(crate) payload: &'a dyn Fn() -> Vec<u8>,
    pub(crate) coalescing: Option<&'a str>,
}

impl Ask<'_> {
    fn owned_key(&self) -> KeyBytes {
        let mut key = KeyBytes::default();
        key.raw(self.key);
        key
    }
}

impl Effects {
    /// Draws on all quotas, or says what becomes of the call. Every decision is recorded.
    pub(super) fn ask(&self, ask: &Ask<'_>) -> Result<Outcome<Box<Grant>>, EffectError> {
        let inner = &self.0;
        let budget = &inner.budgets[ask.effect];
        let effect = || budget.tool.clone();
        if ask.cost == 0 {
            return Err(EffectError::ZeroCost { effect: effect() });
        }
        // Room first: what cannot be recorded is not decided. One place for the answer, and one for a grant's end.
        let unrecorded = |error| EffectError::Unrecorded { effect: effect(), error };
        let journal = inner.journal.as_ref().map(Recorder::enter).transpose().map_err(unrecorded)?;
        let room = journal.as_ref().map(|journal| journal.reserve(2)).transpose();
        let mut room = room.map_err(unrecorded)?;
        if let Some(known) = self.kept_already(ask)? {
            return Err(known);
        }
        match budget.draw(ask.key, ask.cost, &inner.clock, inner.epoch) {
            Ok(granted) => {
                // Relaxed: a number of its own is all that is asked of it.
                let number = inner.grants.fetch_add(1, Ordering::Relaxed);
                let key = ask.owned_key();
                if let (Some(journal), Some(room)) = (&journal, &mut room) {
                    let draws = granted.receipts.iter().enumerate().map(|(quota, receipt)| {
                        let after = State { mark: receipt.to, ..receipt.before };
                        States { quota, before: receipt.before, after }
                    });
                    let entry = Entry::Grant {
                        at: granted.at,
                        effect: ask.effect,
                        key: key.clone(),
                        grant: number,
                        cost: ask.cost,
                        ticket: ask.ticket,
                        draws: draws.collect(),
                    };
                    journal.record(room, entry);
                }
                tracing::trace!(
                    target: "tollgate::effect",
                    effect = budget.tool, grant = number, cost = ask.cost, at = granted.at, "granted"
                );
                Ok(Outcome::Done(Grant::new(inner.clone(), ask.effect, number, key, ask.cost, granted, room)))
            }
            Err(refusal) => {
                let (answer, denied) = self.refused(ask, &refusal);
                if let (Some(journal), Some(room)) = (&journal, &mut room) {
                    let key = ask.owned_key();
                    journal.record(room, Entry::Denied { at: refusal.at, effect: ask.effect, key, denied });
                }
                answer
            }
        }
    }

    /// The answer to a call that is kept already: its ticket.
    fn kept_already(&self, ask: &Ask<'_>) -> Result<Option<EffectError>, EffectError> {
        let Some(Keep { by, payload, coalescing: Some(id) }) = &ask.keep else { return Ok(None) };
        let call = self.call(ask, *by, 0, payload(), Some((*id).to_owned()));
        match self.0.ledger.pending(&call) {
            Ok(None) => Ok(None),
            Ok(Some((ticket, due))) => Ok(Some(EffectError::EffectDeferred {
                effect: call.effect,
                ticket,
                retry_at: Some(due.saturating_sub(self.0.epoch)),
            })),
            Err(error) => Err(EffectError::NotDeferred { effect: call.effect, error, retry_at: None }),
        }
    }

    fn call(
        &self,
        ask: &Ask<'_>,
        kept_by: Keeper,
        due: u64,
        payload: Vec<u8>,
        coalescing: Option<String>,
    ) -> Deferred {
        Deferred {
            ticket: Ticket::NONE,
            effect: self.0.budgets[ask.effect].tool.clone(),
            key: ask.key.to_vec(),
            cost: ask.cost,
            due,
            payload,
            kept_by,
            coalescing,
        }
    }

    /// What becomes of a call that was refused, and what is recorded of it.
    fn refused(
        &self,
        ask: &Ask<'_>,
        refusal: &Refusal,
    ) -> (Result<Outcome<Box<Grant>>, EffectError>, Denied) {
        let inner = &self.0;
        let budget = &inner.budgets[ask.effect];
        let effect = budget.tool.clone();
        let quota = budget.culprit(refusal);
        let retry_at = refusal.retry_at;
        let mut ticket = ask.ticket;
        let (kind, answer) = match (refusal.why, budget.answer(refusal, inner.epoch), retry_at) {
            (Why::Impossible, ..) => {
                (DeniedKind::Deny, Err(EffectError::Impossible { effect, quota, cost: ask.cost }))
            }
            (Why::TableFull, ..) => (DeniedKind::Deny, Err(EffectError::TableFull { effect, quota })),
            (Why::PastHorizon, ..) => (DeniedKind::Deny, Err(EffectError::PastHorizon { effect, quota })),
            (_, OnExhausted::Shed, _) => {
                (DeniedKind::Shed, Ok(Outcome::Shed(Shed { effect, quota, retry_at })))
            }
            (_, OnExhausted::Defer, Some(at)) => match (ask.ticket, &ask.keep) {
                // What asks for a kept call is kept already.
                (Some(ticket), _) => {
                    (DeniedKind::Defer, Err(EffectError::EffectDeferred { effect, ticket, retry_at }))
                }
                (None, Some(keep)) => {
                    let due = inner.epoch.saturating_add(at);
                    let id = keep.coalescing.map(str::to_owned);
                    let call = self.call(ask, keep.by, due, (keep.payload)(), id);
                    match inner.ledger.insert(call) {
                        Ok((given, due)) => {
                            ticket = Some(given);
                            let retry_at = Some(due.saturating_sub(inner.epoch));
                            let deferred = EffectError::EffectDeferred { effect, ticket: given, retry_at };
                            (DeniedKind::Defer, Err(deferred))
                        }
                        Err(error) => {
                            (DeniedKind::Deny, Err(EffectError::NotDeferred { effect, error, retry_at }))
                        }
                    }
                }
                // A permit alone has nothing that could be kept.
                (None, None) => {
                    (DeniedKind::Deny, Err(EffectError::EffectQuotaExhausted { effect, quota, retry_at }))
                }
            },
            // It would never be due.
            (_, OnExhausted::Defer, None) | (_, OnExhausted::Block, _) => {
                (DeniedKind::Deny, Err(EffectError::EffectQuotaExhausted { effect, quota, retry_at }))
            }
        };
        tracing::debug!(
            target: "tollgate::effect",
            effect = budget.tool, cost = ask.cost, at = refusal.at, reason = refusal.why.as_str(), ?kind, ?retry_at,
            "not granted"
        );
        let denied = Denied {
            kind,
            cost: ask.cost,
            reason: refusal.why.as_str(),
            ticket,
            retry_at,
            refused: refusal.refused.clone(),
        };
        (answer, denied)
    }
}
