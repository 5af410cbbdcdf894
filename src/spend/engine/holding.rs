//! New holds: one for each id, durable before anybody has it.

use super::accounts::Front;
use super::holds::{Cell, Claim, Live, Room};
use super::judge::{Asked, ones};
use super::{Engine, Named, record, refused, short};
use crate::spend::amount::{Amounts, Dimension, Quantities};
use crate::spend::call::Call;
use crate::spend::error::SpendError;
use crate::spend::event::SpendEvent;
use crate::spend::hold::HoldRef;
use crate::spend::record::{Account, FAMILY, HoldState, Kind, Millis, Phase};
use crate::spend::refusal::{Decision, Reason, Refusal};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Engine {
    pub(crate) fn hold(
        &self,
        call: &Call,
        estimate: &Amounts,
        least: Option<&Amounts>,
    ) -> Result<(Arc<Cell>, Named), SpendError> {
        self.telling(|events| self.hold_telling(call, estimate, least, events))
    }

    fn hold_telling(
        &self,
        call: &Call,
        estimate: &Amounts,
        least: Option<&Amounts>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<(Arc<Cell>, Named), SpendError> {
        let currency = self.limits.policy().unit.currency();
        let stated = estimate.checked(currency)?;
        let stated_least = least.map(|least| least.checked(currency)).transpose()?;
        let mut most = stated;
        let (path, ceiling) = self.path(call)?;
        if let Some(ceiling) = ceiling {
            if !estimate.states_cost() {
                most[Dimension::Cost] = ceiling;
            }
            if least.is_some() {
                most[Dimension::Cost] = most[Dimension::Cost].min(ceiling);
            }
        }
        let asked = match &stated_least {
            None => Asked { most, least: most },
            Some(stated) => {
                let mut least = ones(&most);
                for (dimension, amount) in stated.iter() {
                    least[dimension] = least[dimension].max(amount);
                    most[dimension] = most[dimension].max(amount);
                }
                Asked { most, least }
            }
        };
        self.sweep();
        let Some(id) = &call.id else { return self.hold_unnamed(path, &asked, ceiling, events) };

        short("an id", id)?;
        if id.starts_with(&self.prefix) {
            return Err(SpendError::Reserved { id: id.clone() });
        }
        let input = input(call, &stated, estimate.states_cost(), stated_least.as_ref());
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        let beyond_cap = loop {
            let known = match self.holds.claim(id, &cell, Room::Hoped) {
                Claim::Taken => break false,
                Claim::TakenBeyondCap | Claim::Full => break true,
                Claim::Known(known) => known,
            };
            if let Some(known_live) = known.lock().as_mut() {
                same_input(id, &known_live.state.input, &input)?;
                known_live.handles += 1;
                let name = HoldRef::of(&known_live.state);
                drop(live);
                return Ok((Arc::clone(&known), Named { name, replayed: true }));
            }
            // It was refused, or is over: whoever had it takes it away.
            self.holds.remove(id, &known);
        };
        let place = self.holds.place(id, &cell);
        let (made, replayed) = match self.kept(id, &input)? {
            Some(kept) => (kept, true),
            // Only what is new needs room.
            None if beyond_cap => return Err(self.full()),
            None => {
                let new = New { id, named: true, generation: self.next_generation(), input, path };
                (self.make(new, &asked, ceiling, events)?, false)
            }
        };
        let name = HoldRef::of(&made.state);
        match made.state.settlement() {
            Some(_) => drop(place), // nothing changes any more
            None => place.keep(),
        }
        *live = Some(made);
        drop(live);
        Ok((cell, Named { name, replayed }))
    }

    fn hold_unnamed(
        &self,
        path: Arc<[Account]>,
        asked: &Asked,
        ceiling: Option<u64>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<(Arc<Cell>, Named), SpendError> {
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        let generation = self.next_generation();
        let id = format!("{}{generation}", self.prefix);
        // No other hold has that id.
        let Claim::Taken = self.holds.claim(&id, &cell, Room::Needed) else { return Err(self.full()) };
        let place = self.holds.place(&id, &cell);
        let new = New { id: &id, named: false, generation, input: String::new(), path };
        *live = Some(self.make(new, asked, ceiling, events)?);
        place.keep();
        drop(live);
        let name = HoldRef { id, generation };
        Ok((cell, Named { name, replayed: false }))
    }

    fn next_generation(&self) -> u64 {
        // Relaxed: only that no two are the same.
        self.generation.fetch_add(1, Ordering::Relaxed)
    }

    fn full(&self) -> SpendError {
        SpendError::Full { what: "hold", cap: self.holds.cap() }
    }

    /// The hold that the store has under `id`, if that was asked for by the same call.
    fn kept(&self, id: &str, input: &str) -> Result<Option<Live>, SpendError> {
        let Some(state) = self.group.store().hold(id)? else { return Ok(None) };
        same_input(id, &state.input, input)?;
        if let Phase::Denied(refusal) = state.phase {
            return Err(SpendError::Refused(refusal));
        }
        self.remembered(state).map(Some)
    }

    fn make(
        &self,
        new: New<'_>,
        asked: &Asked,
        ceiling: Option<u64>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<Live, SpendError> {
        let New { id, named, generation, input, path } = new;
        let mut state = HoldState {
            id: id.to_owned(),
            named,
            generation,
            input,
            path: Arc::clone(&path),
            at: 0,
            deadline: 0,
            ceiling,
            parts: Vec::new(),
            used: Quantities::NONE,
            overrun: Quantities::NONE,
            steps: Vec::new(),
            phase: Phase::Open,
            decision: Decision::default(),
        };
        let accounts = self.accounts(&path)?;
        let (at, taken) = match above_ceiling(&state, asked.least[Dimension::Cost]) {
            Some(refusal) => (self.now(), Err(refusal)),
            None => self.take(&accounts, asked),
        };
        state.at = at;
        state.deadline = at.saturating_add(self.limits.policy().ttl);
        let granted = match taken {
            Ok(granted) => granted,
            Err(refusal) => {
                if named {
                    state.deadline = at;
                    state.phase = Phase::Denied(refusal.clone());
                    self.group.write(record(Kind::Deny, at, Vec::new(), &state, ""))?;
                }
                return Err(refused(named.then_some(id), refusal, events));
            }
        };
        state.decision = self.decision(&granted);
        let reserved = state.set_aside(at, &granted.amounts, |_| false);
        for account in &accounts {
            account.set_aside(&granted.amounts);
        }
        if let Err(error) = self.group.write(record(Kind::Hold, at, vec![reserved], &state, "")) {
            self.undo(&accounts, at, &granted.amounts);
            return Err(error.into());
        }
        self.holds.expires(state.deadline, generation, id);
        let live = Live { looked_at: state.deadline, ..Live::new(state, accounts) };
        events.push(SpendEvent::Held {
            id: id.to_owned(),
            path,
            amounts: granted.amounts,
            tier: granted.tier,
            extended: false,
        });
        self.enter_tiers(&live.accounts, &granted.tiers, events);
        Ok(live)
    }

    pub(crate) fn undo(&self, accounts: &[Arc<Front>], at: Millis, amounts: &Quantities) {
        for account in accounts {
            account.no_longer_held(amounts);
        }
        self.give_back(accounts, &[(at, *amounts)], at);
    }
}

/// What is to be a hold.
struct New<'a> {
    id: &'a str,
    /// Is the id the caller's?
    named: bool,
    generation: u64,
    input: String,
    path: Arc<[Account]>,
}

/// The refusal of so much more cost, if a hold comes to more with it than its grant allows for one call.
pub(crate) fn above_ceiling(state: &HoldState, more: u64) -> Option<Box<Refusal>> {
    let ceiling = state.ceiling?;
    let (used, held) = (state.used[Dimension::Cost], state.left()[Dimension::Cost]);
    let needed = used.saturating_add(held).saturating_add(more);
    if more == 0 || needed <= ceiling {
        return None;
    }
    let family = state.path.last().map_or_else(String::new, |account| account.key.clone());
    Some(Box::new(Refusal {
        scope: FAMILY.to_owned(),
        key: family,
        dimension: Dimension::Cost,
        window: "call".to_owned(),
        reason: Reason::Ceiling,
        limit: ceiling,
        spent: used,
        held,
        needed,
        resets_at: None,
        retry_after: None,
    }))
}

/// What the caller said, as one text: equal texts are the same call, whatever the policy makes of it by now.
fn input(call: &Call, stated: &Quantities, states_cost: bool, least: Option<&Quantities>) -> String {
    let mut scopes: Vec<_> = call.scopes.iter().collect();
    scopes.sort();
    // These are strings and integers: they can always be written.
    serde_json::to_string(&(scopes, &call.grant, stated, states_cost, least)).unwrap_or_default()
}

fn same_input(id: &str, known: &str, asked: &str) -> Result<(), SpendError> {
    if known == asked {
        return Ok(());
    }
    Err(SpendError::Conflict { id: id.to_owned(), what: format!("then {known}, now {asked}") })
}
