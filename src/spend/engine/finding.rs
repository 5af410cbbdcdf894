//! Holds by their names: those in memory, and those that only the store has.

use super::Engine;
use super::holds::{Cell, Claim, Live, Room};
use crate::spend::error::SpendError;
use crate::spend::hold::HoldRef;
use crate::spend::record::{HoldState, Phase};
use crate::spend::store::StoreError;
use std::sync::Arc;

impl Engine {
    /// The cell of a hold that is open, or was and is remembered.
    pub(crate) fn cell(&self, name: &HoldRef) -> Result<Arc<Cell>, SpendError> {
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        loop {
            let Claim::Known(known) = self.holds.claim(&name.id, &cell, Room::Unneeded) else { break };
            let known_live = known.lock();
            match &*known_live {
                Some(live) if live.state.generation == name.generation => {
                    drop(known_live);
                    return Ok(known);
                }
                Some(_) => return Err(name.unknown()),
                None => {
                    drop(known_live);
                    self.holds.remove(&name.id, &known);
                }
            }
        }
        let place = self.holds.place(&name.id, &cell);
        let kept = self.group.store().hold(&name.id)?;
        let kept = kept
            .filter(|state| state.generation == name.generation && !matches!(state.phase, Phase::Denied(_)));
        let found = self.remembered(kept.ok_or_else(|| name.unknown())?)?;
        match found.state.settlement() {
            Some(_) => drop(place), // nothing changes any more
            None => place.keep(),
        }
        *live = Some(Live { handles: 0, detached: true, ..found });
        drop(live);
        Ok(cell)
    }

    /// A hold that only the store has: it is over, or expired.
    ///
    /// # Errors
    /// It is open. Then the store kept what it said it did not, and nobody knows whether gauges count it.
    pub(crate) fn remembered(&self, state: HoldState) -> Result<Live, SpendError> {
        if state.phase == Phase::Open {
            return Err(StoreError::Other(format!(
                "the store has an open hold {:?} that it said it had not kept: open it again, and it counts",
                state.id
            ))
            .into());
        }
        let accounts = if state.settlement().is_some() { Vec::new() } else { self.accounts_of(&state)? };
        Ok(Live::new(state, accounts))
    }
}
