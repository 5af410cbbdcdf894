//! The ends of a hold that its caller brings about.

use super::holds::{Cell, Live};
use super::tab::Effects;
use super::{Engine, record, short, show, tab};
use crate::spend::amount::{Amounts, Quantities};
use crate::spend::error::SpendError;
use crate::spend::event::SpendEvent;
use crate::spend::hold::HoldRef;
use crate::spend::record::{HoldState, Kind, Millis, Phase, Settlement};
use std::sync::Arc;

impl Engine {
    pub(crate) fn settle(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        actual: &Amounts,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        let stated = actual.checked(self.limits.policy().unit.currency())?;
        self.finish(cell, name, Some(stated), note)
    }

    pub(crate) fn release(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        self.finish(cell, name, None, note)
    }

    /// Settles with what was `stated`, or releases.
    fn finish(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        stated: Option<Quantities>,
        note: &str,
    ) -> Result<Settlement, SpendError> {
        self.telling(|events| self.finish_telling(cell, name, stated, note, false, events))
    }

    /// Releases what nobody has a handle of any more. Nothing happens if somebody got one meanwhile.
    pub(crate) fn release_unowned(&self, cell: &Arc<Cell>, name: &HoldRef) -> Result<(), SpendError> {
        match self.telling(|events| self.finish_telling(cell, name, None, "", true, events)) {
            Ok(_) | Err(SpendError::NoHold { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn finish_telling(
        &self,
        cell: &Arc<Cell>,
        name: &HoldRef,
        stated: Option<Quantities>,
        note: &str,
        unowned: bool,
        events: &mut Vec<SpendEvent>,
    ) -> Result<Settlement, SpendError> {
        short("a note", note)?;
        self.sweep();
        let mut guard = cell.lock();
        let live = guard.as_mut().ok_or_else(|| name.unknown())?;
        if unowned && (live.handles > 0 || live.detached) {
            return Err(name.unknown());
        }
        match (&live.state.phase, stated) {
            (Phase::Settled(known), Some(stated)) if known.stated == stated => return Ok(*known),
            (Phase::Settled(known), Some(_)) => {
                let what = format!("it was settled with {}", show(&known.stated));
                return Err(SpendError::Conflict { id: name.id.clone(), what });
            }
            (Phase::Released(known), None) => return Ok(*known),
            _ => live.must_not_be_over(if stated.is_some() { "settled" } else { "released" })?,
        }
        let mut state = live.state.clone();
        let late = state.phase == Phase::Expired;
        let mut effects = match &stated {
            Some(stated) => state.use_up(stated)?,
            None => Effects::default(),
        };
        let released = state.give_back(&mut effects);
        let kind = if stated.is_some() { Kind::Settle } else { Kind::Release };
        let settle = |state: &mut HoldState, at: Millis| {
            let (used, overrun) = (state.used, state.overrun);
            let settlement =
                Settlement { stated: stated.unwrap_or_default(), used, released, overrun, late, at };
            state.phase =
                if stated.is_some() { Phase::Settled(settlement) } else { Phase::Released(settlement) };
        };
        events.extend(self.change(live, state, effects, kind, note, settle)?);
        self.holds.ended(live.looked_at, name.generation);
        self.holds.remove(&name.id, cell);
        let settlement = *live.state.settlement().expect("settled above");
        live.accounts = Vec::new(); // whoever still has the handle keeps them no longer from making room
        let path = Arc::clone(&live.state.path);
        let id = name.id.clone();
        events.push(match stated {
            Some(_) => SpendEvent::Settled { id, path, settlement },
            None => SpendEvent::Released { id, path, settlement },
        });
        Ok(settlement)
    }

    /// Makes `state` what the hold is: debt is taken first, then all is made durable, then the rest goes back. So the gauges never
    /// show more room than there would be after a crash. An overrun is returned, to be told.
    pub(crate) fn change(
        &self,
        live: &mut Live,
        mut state: HoldState,
        mut effects: Effects,
        kind: Kind,
        note: &str,
        finally: impl FnOnce(&mut HoldState, Millis),
    ) -> Result<Option<SpendEvent>, SpendError> {
        let at = self.take_overrun(&live.accounts, &effects.overrun);
        if !effects.overrun.is_none() {
            effects.moves.push(tab::overrun(at, &effects.overrun));
        }
        finally(&mut state, at);
        if let Err(error) = self.group.write(record(kind, at, effects.moves, &state, note)) {
            if !effects.overrun.is_none() {
                self.give_back(&live.accounts, &[(at, effects.overrun)], at);
            }
            return Err(error.into());
        }
        // It is so from here on: nothing below asks a clock or a store, which might panic.
        for account in &live.accounts {
            account.no_longer_held(&effects.unheld);
        }
        live.state = state;
        self.give_back(&live.accounts, &effects.back, at);
        let (id, path) = (live.state.id.clone(), Arc::clone(&live.state.path));
        Ok((!effects.overrun.is_none()).then_some(SpendEvent::Overrun { id, path, amounts: effects.overrun }))
    }
}
