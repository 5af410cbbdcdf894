//! New holds: one for each id, durable before anybody has it.

use super::accounts::Front;
use super::holds::{Cell, Live};
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
        let mut most = estimate.checked(currency)?;
        let (path, ceiling) = self.path(call)?;
        if let Some(ceiling) = ceiling {
            if !estimate.states_cost() {
                most[Dimension::Cost] = ceiling;
            }
            if least.is_some() {
                most[Dimension::Cost] = most[Dimension::Cost].min(ceiling);
            }
        }
        let asked = match least {
            None => Asked { most, least: most },
            Some(least) => {
                let stated = least.checked(currency)?;
                let mut least = ones(&most);
                for (dimension, amount) in stated.iter() {
                    least[dimension] = least[dimension].max(amount);
                    most[dimension] = most[dimension].max(amount);
                }
                Asked { most, least }
            }
        };
        let over_ceiling = ceiling.filter(|&ceiling| asked.least[Dimension::Cost] > ceiling);
        self.sweep();

        let Some(id) = &call.id else {
            let generation = self.next_generation();
            let id = format!("{:016x}-{generation}", self.token);
            let cell = Arc::new(Cell::default());
            let mut live = cell.lock();
            self.claim(&id, &cell)?
                .map_err(|_| SpendError::Conflict { id: id.clone(), what: "its id".into() })?;
            let made = self.make(&id, None, generation, String::new(), path, &asked, over_ceiling, events);
            match made {
                Ok(made) => *live = Some(made),
                Err(error) => {
                    self.holds.remove(&id, &cell);
                    return Err(error);
                }
            }
            drop(live);
            let name = HoldRef { id, generation };
            return Ok((cell, Named { name, replayed: false }));
        };

        short("an id", id)?;
        let input = input(&path, call.grant.as_deref(), &asked);
        let cell = Arc::new(Cell::default());
        let mut live = cell.lock();
        loop {
            let Err(known) = self.claim(id, &cell)? else { break };
            if let Some(known_live) = known.lock().as_mut() {
                same_input(id, &known_live.state.input, &input)?;
                known_live.handles += 1;
                let name = HoldRef::of(&known_live.state);
                drop(live);
                return Ok((Arc::clone(&known), Named { name, replayed: true }));
            }
            // It was refused, or is over: whoever had it takes it away.
            self.holds.remove(id, &known);
        }
        let made = self.find_or_make(call, id, input, path, &asked, over_ceiling, events);
        let (made, replayed) = match made {
            Ok(made) => made,
            Err(error) => {
                self.holds.remove(id, &cell);
                return Err(error);
            }
        };
        let name = HoldRef::of(&made.state);
        let over = made.state.settlement().is_some();
        *live = Some(made);
        if over {
            // Nothing of it changes any more.
            self.holds.remove(id, &cell);
        }
        drop(live);
        Ok((cell, Named { name, replayed }))
    }

    fn next_generation(&self) -> u64 {
        // Relaxed: only that no two are the same.
        self.generation.fetch_add(1, Ordering::Relaxed)
    }

    fn claim(&self, id: &str, cell: &Arc<Cell>) -> Result<Result<(), Arc<Cell>>, SpendError> {
        self.holds.claim(id, cell, false).ok_or(SpendError::Full { what: "hold", cap: self.holds.cap() })
    }

    /// The hold that the store has under `id`, or a new one.
    #[allow(clippy::too_many_arguments, reason = "all of one hold")]
    fn find_or_make(
        &self,
        call: &Call,
        id: &str,
        input: String,
        path: Arc<[Account]>,
        asked: &Asked,
        over_ceiling: Option<u64>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<(Live, bool), SpendError> {
        if let Some(state) = self.group.store().hold(id)? {
            same_input(id, &state.input, &input)?;
            if let Phase::Denied(refusal) = state.phase {
                return Err(SpendError::Refused(refusal));
            }
            let accounts = self.accounts(&state.path)?;
            return Ok((Live::new(state, accounts), true));
        }
        let generation = self.next_generation();
        self.make(id, call.id.as_deref(), generation, input, path, asked, over_ceiling, events)
            .map(|live| (live, false))
    }

    #[allow(clippy::too_many_arguments, reason = "all of one new hold")]
    fn make(
        &self,
        id: &str,
        named: Option<&str>,
        generation: u64,
        input: String,
        path: Arc<[Account]>,
        asked: &Asked,
        over_ceiling: Option<u64>,
        events: &mut Vec<SpendEvent>,
    ) -> Result<Live, SpendError> {
        let mut state = HoldState {
            id: id.to_owned(),
            named: named.is_some(),
            generation,
            input,
            path: Arc::clone(&path),
            at: 0,
            deadline: 0,
            parts: Vec::new(),
            used: Quantities::NONE,
            overrun: Quantities::NONE,
            steps: Vec::new(),
            phase: Phase::Open,
            decision: Decision::default(),
        };
        let accounts = self.accounts(&path)?;
        let (at, taken) = match over_ceiling {
            Some(ceiling) => (self.now(), Err(self.above_ceiling(&path, asked, ceiling))),
            None => self.take(&accounts, asked),
        };
        state.at = at;
        state.deadline = at.saturating_add(self.limits.policy().ttl);
        let granted = match taken {
            Ok(granted) => granted,
            Err(refusal) => {
                if named.is_some() {
                    state.deadline = at;
                    state.phase = Phase::Denied(refusal.clone());
                    self.group.write([record(Kind::Deny, at, Vec::new(), &state, "")])?;
                }
                return Err(refused(named, refusal, events));
            }
        };
        state.decision = self.decision(&granted);
        let reserved = state.set_aside(at, &granted.amounts, |_| false);
        for account in &accounts {
            account.set_aside(&granted.amounts);
        }
        if let Err(error) = self.group.write([record(Kind::Hold, at, vec![reserved], &state, "")]) {
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
        self.give_back(accounts, &[(at, *amounts)]);
    }

    fn above_ceiling(&self, path: &[Account], asked: &Asked, ceiling: u64) -> Box<Refusal> {
        let family = path.last().map_or_else(String::new, |account| account.key.clone());
        Box::new(Refusal {
            scope: FAMILY.to_owned(),
            key: family,
            dimension: Dimension::Cost,
            window: "call".to_owned(),
            reason: Reason::Ceiling,
            limit: ceiling,
            spent: 0,
            held: 0,
            needed: asked.most[Dimension::Cost],
            resets_at: None,
            retry_after: None,
        })
    }
}

/// What was asked, as one text: equal texts are the same call.
fn input(path: &[Account], grant: Option<&str>, asked: &Asked) -> String {
    // These are strings and integers: they can always be written.
    serde_json::to_string(&(path, grant, asked.most, asked.least)).unwrap_or_default()
}

fn same_input(id: &str, known: &str, asked: &str) -> Result<(), SpendError> {
    if known == asked {
        return Ok(());
    }
    Err(SpendError::Conflict { id: id.to_owned(), what: format!("then {known}, now {asked}") })
}
