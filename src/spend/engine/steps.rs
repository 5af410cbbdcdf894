//! Steps of an open hold: more is set aside, or some of it is used.

use super::accounts::Front;
use super::holding::above_ceiling;
use super::holds::{Cell, Live};
use super::judge::Asked;
use super::limits::Limits;
use super::{Engine, record, refused, short, show};
use crate::spend::amount::{Amounts, Dimension, Quantities};
use crate::spend::error::SpendError;
use crate::spend::event::SpendEvent;
use crate::spend::hold::HoldRef;
use crate::spend::record::{HoldState, Kind, Millis, Phase, Step};
use crate::spend::refusal::Decision;
use crate::spend::window::Window;
use std::sync::Arc;

/// The most charges and extensions of one hold that have ids of their own.
const STEPS: usize = 1_024;

impl Engine {
    pub(crate) fn extend(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        more: &Amounts,
        step: Option<&str>,
    ) -> Result<Decision, SpendError> {
        self.telling(|events| self.extend_telling(cell, name, more, step, events))
    }

    fn extend_telling(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        more: &Amounts,
        step: Option<&str>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<Decision, SpendError> {
        let more = more.checked(self.limits.policy().unit.currency())?;
        self.sweep();
        let mut guard = cell.lock();
        let live = guard.as_mut().ok_or_else(|| name.unknown())?;
        if let Some(known) = known_step(live, step, Kind::Extend, &more)? {
            return match &known.refused {
                Some(refusal) => Err(SpendError::Refused(refusal.clone())),
                None => Ok(known.decision.as_deref().cloned().unwrap_or_default()),
            };
        }
        live.must_be_open("extended")?;
        if let Some(step) = step {
            short("a step", step)?;
            room_for_step(&live.state)?;
        }
        let asked = Asked { most: more, least: more };
        let (at, taken) = match above_ceiling(&live.state, more[Dimension::Cost]) {
            Some(refusal) => (self.now(), Err(refusal)),
            None => self.take(&live.accounts, &asked),
        };
        let mut state = live.state.clone();
        let granted = match taken {
            Ok(granted) => granted,
            Err(refusal) => {
                if let Some(id) = step {
                    let refused = Some(refusal.clone());
                    add_step(
                        &mut state,
                        Step {
                            id: id.to_owned(),
                            kind: Kind::Extend,
                            amounts: more,
                            refused,
                            decision: None,
                        },
                    )?;
                    self.group.write(record(Kind::Deny, at, Vec::new(), &state, ""))?;
                    live.state = state;
                }
                return Err(refused(Some(&name.id), refusal, events));
            }
        };
        let decision = self.decision(&granted);
        let windows = windows(&self.limits, &live.accounts);
        let same = |other: Millis| windows.iter().all(|window| window.slot(other) == window.slot(at));
        let reserved = state.set_aside(at, &granted.amounts, same);
        state.deadline = state.deadline.max(at.saturating_add(self.limits.policy().ttl));
        if let Some(id) = step {
            let decision = Some(Box::new(decision.clone()));
            state.steps.push(Step {
                id: id.to_owned(),
                kind: Kind::Extend,
                amounts: more,
                refused: None,
                decision,
            });
        }
        for account in &live.accounts {
            account.set_aside(&granted.amounts);
        }
        if let Err(error) = self.group.write(record(Kind::Extend, at, vec![reserved], &state, "")) {
            self.undo(&live.accounts, at, &granted.amounts);
            return Err(error.into());
        }
        live.state = state;
        let path = Arc::clone(&live.state.path);
        let (id, amounts, tier) = (name.id.clone(), granted.amounts, granted.tier);
        events.push(SpendEvent::Held { id, path, amounts, tier, extended: true });
        self.enter_tiers(&live.accounts, &granted.tiers, events);
        Ok(decision)
    }

    pub(crate) fn charge(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        used: &Amounts,
        step: Option<&str>,
    ) -> Result<(), SpendError> {
        self.telling(|events| self.charge_telling(cell, name, used, step, events))
    }

    fn charge_telling(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        used: &Amounts,
        step: Option<&str>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<(), SpendError> {
        let used = used.checked(self.limits.policy().unit.currency())?;
        self.sweep();
        let mut guard = cell.lock();
        let live = guard.as_mut().ok_or_else(|| name.unknown())?;
        if known_step(live, step, Kind::Charge, &used)?.is_some() {
            return Ok(());
        }
        live.must_not_be_over("charged")?;
        let mut state = live.state.clone();
        if let Some(id) = step {
            short("a step", id)?;
            let step =
                Step { id: id.to_owned(), kind: Kind::Charge, amounts: used, refused: None, decision: None };
            add_step(&mut state, step)?;
        }
        let effects = state.use_up(&used)?;
        let ttl = self.limits.policy().ttl;
        let overrun = self.change(live, state, effects, Kind::Charge, "", |state, at| {
            if state.phase == Phase::Open {
                state.deadline = state.deadline.max(at.saturating_add(ttl));
            }
        })?;
        let path = Arc::clone(&live.state.path);
        events.extend(overrun);
        events.push(SpendEvent::Charged { id: name.id.clone(), path, amounts: used });
        Ok(())
    }
}

/// All windows of the accounts that part with time.
fn windows<'a>(limits: &'a Limits, accounts: &'a [Arc<Front>]) -> Vec<&'a Window> {
    let lines = accounts
        .iter()
        .flat_map(|account| (0..account.gauges.len()).map(move |limit| limits.line(account, limit)));
    lines.map(|line| line.window).filter(|window| **window != Window::Lifetime).collect()
}

/// The step under that id, if it was made before; another one under it is a conflict.
fn known_step<'a>(
    live: &'a Live,
    step: Option<&str>,
    kind: Kind,
    amounts: &Quantities,
) -> Result<Option<&'a Step>, SpendError> {
    let Some(known) = step.and_then(|id| live.state.steps.iter().find(|known| known.id == id)) else {
        return Ok(None);
    };
    if (known.kind, known.amounts) == (kind, *amounts) {
        return Ok(Some(known));
    }
    let what = format!("a step with {}", show(&known.amounts));
    Err(SpendError::Conflict { id: known.id.clone(), what })
}

/// A hold is written whole at every step, so it has only so many with ids of their own.
fn room_for_step(state: &HoldState) -> Result<(), SpendError> {
    match state.steps.len() < STEPS {
        true => Ok(()),
        false => Err(SpendError::Full { what: "step under an id of its own", cap: STEPS }),
    }
}

fn add_step(state: &mut HoldState, step: Step) -> Result<(), SpendError> {
    room_for_step(state)?;
    state.steps.push(step);
    Ok(())
}
