//! Holds by their names: those in memory, and those that only the store has.

use super::Engine;
use super::holds::{Cell, Live};
use crate::spend::error::SpendError;
use crate::spend::hold::HoldRef;
use crate::spend::record::Phase;
use std::sync::Arc;

impl Engine {
    /// The cell of a hold that is open, or was and is remembered.
    pub(crate) fn cell(&self, name: &HoldRef) -> Result<Arc<Cell>, SpendError> {
        loop {
            if let Some(cell) = self.holds.find(&name.id) {
                let live = cell.lock();
                match &*live {
                    Some(live) if live.state.generation == name.generation => {}
                    Some(_) => return Err(name.unknown()),
                    None => {
                        drop(live);
                        self.holds.remove(&name.id, &cell);
                        continue;
                    }
                }
                drop(live);
                return Ok(cell);
            }
            let cell = Arc::new(Cell::default());
            let mut live = cell.lock();
            match self.holds.claim(&name.id, &cell, true) {
                Some(Ok(())) => {}
                _ => continue,
            }
            let found = match self.group.store().hold(&name.id) {
                Ok(Some(state))
                    if state.generation == name.generation && !matches!(state.phase, Phase::Denied(_)) =>
                {
                    self.accounts(&state.path).map(|accounts| Live {
                        handles: 0,
                        detached: true,
                        ..Live::new(state, accounts)
                    })
                }
                Ok(_) => Err(name.unknown()),
                Err(error) => Err(error.into()),
            };
            match found {
                Ok(found) => {
                    let over = found.state.settlement().is_some();
                    *live = Some(found);
                    if over {
                        self.holds.remove(&name.id, &cell);
                    }
                    drop(live);
                    return Ok(cell);
                }
                Err(error) => {
                    self.holds.remove(&name.id, &cell);
                    return Err(error);
                }
            }
        }
    }
}
