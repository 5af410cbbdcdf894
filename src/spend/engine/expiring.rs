//! The ends of a hold that come by themselves: its time is over, or its last handle is dropped.

use super::holds::Cell;
use super::{Engine, record};
use crate::spend::event::SpendEvent;
use crate::spend::hold::HoldRef;
use crate::spend::record::{Kind, Phase};
use std::sync::Arc;

/// How many holds that outlived their time one caller deals with before its own.
const DUE_AT_ONCE: usize = 256;

impl Engine {
    /// Deals with holds that have outlived their time. One that cannot be made durable stays as it is: set aside.
    pub(crate) fn sweep(&self) {
        let now = self.now();
        let due = self.holds.due(now, DUE_AT_ONCE);
        if due.is_empty() {
            return;
        }
        let found =
            due.into_iter().filter_map(|(generation, id)| Some((self.holds.find(&id)?, generation, id)));
        let cells: Vec<(Arc<Cell>, u64, String)> = found.collect();
        let mut expired = Vec::new();
        for (cell, generation, id) in &cells {
            // Somebody is at work on it: it is looked at again at the next call.
            let Some(mut guard) = cell.try_lock() else {
                self.holds.expires(now, *generation, id);
                continue;
            };
            let Some(live) = guard.as_mut().filter(|live| live.state.phase == Phase::Open) else { continue };
            if live.state.generation != *generation {
                continue;
            }
            if live.state.deadline > now {
                live.looked_at = live.state.deadline;
                self.holds.expires(live.looked_at, *generation, id);
                continue;
            }
            let mut state = live.state.clone();
            let effects = state.expire(self.limits.policy().on_expiry);
            expired.push((id, cell, guard, state, effects));
        }
        if expired.is_empty() {
            return;
        }
        let records = expired
            .iter_mut()
            .map(|(.., state, effects)| {
                record(Kind::Expire, now, std::mem::take(&mut effects.moves), state, "")
            })
            .collect::<Vec<_>>();
        let written = self.group.write_each(records);
        let mut events = Vec::new();
        let mut failed = None;
        for ((id, cell, mut guard, state, effects), written) in expired.into_iter().zip(written) {
            let Some(live) = guard.as_mut() else { continue };
            if let Err(error) = written {
                failed = Some(error);
                live.looked_at = now;
                self.holds.expires(now, live.state.generation, id);
                continue;
            }
            for account in &live.accounts {
                account.no_longer_held(&effects.unheld);
            }
            let path = Arc::clone(&state.path);
            live.state = state;
            self.give_back(&live.accounts, &effects.back, now);
            if live.handles == 0 {
                // The store has it, for whoever settles it late.
                *guard = None;
                self.holds.remove(id, cell);
            }
            events.push(SpendEvent::Expired { id: id.clone(), path, amounts: effects.unheld });
        }
        if let Some(error) = failed {
            tracing::error!(target: "tollgate::spend", %error, "holds that expired stay set aside");
        }
        events.iter().for_each(|event| self.subscribers.tell(event));
    }

    /// A handle is dropped: the last one gives back what nobody settled.
    pub(crate) fn dropped(&self, cell: &Arc<Cell>, name: &HoldRef) {
        let (release, forget) = {
            let mut guard = cell.lock();
            let Some(live) = guard.as_mut() else { return };
            live.handles = live.handles.saturating_sub(1);
            let last = live.handles == 0;
            let open = live.state.phase == Phase::Open;
            (last && open && !live.detached, last && live.state.phase == Phase::Expired)
        };
        if release {
            if let Err(error) = self.release_unowned(cell, name) {
                tracing::error!(target: "tollgate::spend", id = name.id, %error, "a dropped hold stays set aside until it expires");
            }
        } else if forget {
            self.forget(cell, name);
        }
    }

    /// Takes an expired hold out of memory, unless somebody got it meanwhile.
    pub(crate) fn forget(&self, cell: &Arc<Cell>, name: &HoldRef) {
        let mut guard = cell.lock();
        if guard.as_ref().is_some_and(|live| live.handles == 0 && live.state.phase == Phase::Expired) {
            *guard = None;
            self.holds.remove(&name.id, cell);
        }
    }
}
